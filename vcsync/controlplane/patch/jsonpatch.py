"""JSON patches (RFC 6902) as the API takes them. Pure; the document is never changed.

Semantics are those of evanphx/json-patch v4, which kube-apiserver uses and which differs from the RFC (and from
other libraries): negative indexes count from the end, `replace` of a missing member sets it, `test` of a missing
member finds null.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

MAX_OPERATIONS = 10_000
"""How many operations one patch may have (apiserver's handlers/patch.go)."""

MAX_COPIED = 3 * 1024 * 1024
"""How many bytes all `copy` operations of a patch may copy together (apiserver's JSONPatchMaxCopyBytes)."""

MAX_MOVED = 100_000_000
"""How many items of lists all operations of a patch may move along, so that no patch takes long."""

_INDEX = re.compile(r"[+-]?[0-9]{1,18}")


class DoesNotApply(Exception):
    """An operation of the patch cannot be done on this document, or its test failed."""


class TestFailed(DoesNotApply):
    """The value at a path is not the one that the patch wants there."""


def apply(document: Any, operations: list[dict[str, Any] | None]) -> Any:
    """Return what the document becomes by all operations in turn. Raises DoesNotApply."""
    run = _Run(copied(document))
    for each in operations:
        operation = each or {}
        perform = _OPERATIONS.get(_text(operation, "op"))
        if perform is None:
            raise DoesNotApply(f"Unexpected kind: {operation.get('op')}")
        perform(run, operation)
    return run.document


def copied(value: Any) -> Any:
    """Copy a JSON value as deep as it goes."""
    if isinstance(value, dict):
        return {key: copied(each) if isinstance(each, dict | list) else each for key, each in value.items()}
    if isinstance(value, list):
        return [copied(each) if isinstance(each, dict | list) else each for each in value]
    return value


class _Run:
    """One patch being applied: the document so far, and how much was copied."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.copied_bytes = 0
        self._moved = 0

    def insert(self, container: Any, part: str, value: Any) -> None:
        """Put a value into an object or a list."""
        if isinstance(container, dict):
            container[part] = value
        elif part == "-":
            container.append(value)
        else:
            self._move_along(container)
            container.insert(_position(part, len(container) + 1), value)

    def delete(self, container: Any, part: str) -> None:
        """Take a value out of an object or a list."""
        if isinstance(container, list):
            self._move_along(container)
            del container[_position(part, len(container))]
        elif part in container:
            del container[part]
        else:
            raise DoesNotApply(f"Unable to remove nonexistent key: {part}: missing value")

    def _move_along(self, container: list[Any]) -> None:
        self._moved += len(container)
        if self._moved > MAX_MOVED:
            raise DoesNotApply(f"moves more than {MAX_MOVED} items")


def _text(operation: dict[str, Any], member: str) -> str:
    found = operation.get(member)
    if not isinstance(found, str):
        name = operation.get("op")
        raise DoesNotApply(f"{name} operation failed to decode {member}: missing value")
    return found


def _find(run: _Run, pointer: str, missing: str) -> tuple[Any, str]:
    """Return the object or list that the pointer's last part is to be looked up in, and that part."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    container = run.document
    try:
        for part in parts[1:-1]:
            container = _get(container, part)
            if not isinstance(container, dict | list):
                break
    except DoesNotApply:
        container = None
    if len(parts) < 2 or not isinstance(container, dict | list):
        raise DoesNotApply(f"{missing}: missing value")
    return container, parts[-1]


@contextmanager
def _within(what: str) -> Iterator[None]:
    """Say in what an operation failed."""
    try:
        yield
    except DoesNotApply as why:
        raise DoesNotApply(f"{what}: {why}") from None


def _position(part: str, length: int) -> int:
    """Return where in a list of a length the part points; negative counts from the end."""
    if not _INDEX.fullmatch(part):
        raise DoesNotApply(f'strconv.Atoi: parsing "{part}": invalid syntax')
    index = int(part)
    if not -length <= index < length:
        raise DoesNotApply(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % length


def _get(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        return container.get(part)
    return container[_position(part, len(container))]


def _add(run: _Run, operation: dict[str, Any]) -> None:
    path = _text(operation, "path")
    container, part = _find(run, path, f'add operation does not apply: doc is missing path: "{path}"')
    with _within(f"error in add for path: '{path}'"):
        run.insert(container, part, copied(operation.get("value")))


def _remove(run: _Run, operation: dict[str, Any]) -> None:
    path = _text(operation, "path")
    container, part = _find(run, path, f'remove operation does not apply: doc is missing path: "{path}"')
    with _within(f"error in remove for path: '{path}'"):
        run.delete(container, part)


def _replace(run: _Run, operation: dict[str, Any]) -> None:
    path, value = _text(operation, "path"), copied(operation.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise DoesNotApply("replace operation value must be object or array")
        run.document = value
        return
    container, part = _find(run, path, f"replace operation does not apply: doc is missing path: {path}")
    if isinstance(container, dict):
        container[part] = value
        return
    try:
        position = _position(part, len(container))
    except DoesNotApply:
        told = f"replace operation does not apply: doc is missing key: {path}: missing value"
        raise DoesNotApply(told) from None
    container[position] = value


def _move(run: _Run, operation: dict[str, Any]) -> None:
    source = _text(operation, "from")
    container, part = _find(run, source, f"move operation does not apply: doc is missing from path: {source}")
    with _within(f"error in move for path: '{part}'"):
        value = _get(container, part)
        run.delete(container, part)
    path = _text(operation, "path")
    missing = f"move operation does not apply: doc is missing destination path: {path}"
    container, part = _find(run, path, missing)
    with _within(f"error in move for path: '{path}'"):
        run.insert(container, part, value)


def _copy(run: _Run, operation: dict[str, Any]) -> None:
    source = _text(operation, "from")
    container, part = _find(run, source, f"copy operation does not apply: doc is missing from path: {source}")
    with _within(f"error in copy for from: '{source}'"):
        value = _get(container, part)
    path = _text(operation, "path")
    missing = f"copy operation does not apply: doc is missing destination path: {path}"
    container, part = _find(run, path, missing)
    run.copied_bytes += len(msgspec.json.encode(value))
    if run.copied_bytes > MAX_COPIED:
        raise DoesNotApply(
            "Unable to complete the copy, the accumulated size increase of copy is "
            f"{run.copied_bytes}, exceeding the limit {MAX_COPIED}"
        )
    with _within("error while adding value during copy"):
        run.insert(container, part, copied(value))


def _test(run: _Run, operation: dict[str, Any]) -> None:
    path, expected = _text(operation, "path"), operation.get("value")
    if path == "":
        found = run.document
    else:
        container, part = _find(run, path, f"test operation does not apply: is missing path: {path}")
        with _within(f"error in test for path: '{path}'"):
            found = _get(container, part)
    if not _same(found, expected):
        raise TestFailed(f"testing value {path} failed: test failed")


def _same(left: Any, right: Any) -> bool:
    """Compare as JSON texts do: 1 is neither 1.0 nor true."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(each, right[key]) for key, each in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


_OPERATIONS: dict[str, Callable[[_Run, dict[str, Any]], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
