"""JSON patches (RFC 6902) with the behaviour of the API. Pure; the document is never changed.

The semantics are those of evanphx/json-patch v4, which kube-apiserver uses. They differ from the RFC (and from other
libraries): negative indexes count from the end, `replace` sets a missing member, and for `test` a missing member is null.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vcsync.apimachinery import numbers
from vcsync.apimachinery.gotext import is_number
from vcsync.patterns.linear import linear

MAX_OPERATIONS = 10_000
"""Most operations of one patch (apiserver's handlers/patch.go)."""

MAX_COPIED = 3 * 1024 * 1024
"""Most bytes that all `copy` operations of a patch may copy in total (apiserver's JSONPatchMaxCopyBytes)."""

MAX_MOVED = 100_000_000
"""Most items of lists that all operations of a patch may shift in total. It limits the time of a patch."""

_INDEX = linear(r"[+-]?[0-9]{1,18}")


class DoesNotApply(Exception):
    """An operation of the patch does not apply to the document, or its test failed."""


class TestFailed(DoesNotApply):
    """The value at a path differs from that of a `test` operation."""


def apply(document: Any, operations: list[dict[str, Any] | None]) -> Any:
    """Return the document after all operations, which are applied in order.

    Raises:
        DoesNotApply: An operation does not apply.
    """
    run = _Run(copied(document))
    for each in operations:
        operation = each or {}
        perform = _OPERATIONS.get(_text(operation, "op"))
        if perform is None:
            raise DoesNotApply(f"Unexpected kind: {operation.get('op')}")
        perform(run, operation)
    return run.document


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(each) if isinstance(each, dict | list) else each for key, each in value.items()}
    if isinstance(value, list):
        return [copied(each) if isinstance(each, dict | list) else each for each in value]
    return value


class _Run:
    """The state of one patch: the document so far, and the costs so far."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.copied_bytes = 0
        self._moved = 0

    def insert(self, container: Any, part: str, value: Any) -> None:
        """Insert a value into an object or a list."""
        if isinstance(container, dict):
            container[part] = value
        elif part == "-":
            container.append(value)
        else:
            self._count_shifts(container)
            container.insert(_position(part, len(container) + 1), value)

    def delete(self, container: Any, part: str) -> None:
        """Remove a value from an object or a list."""
        if isinstance(container, list):
            self._count_shifts(container)
            del container[_position(part, len(container))]
        elif part in container:
            del container[part]
        else:
            raise DoesNotApply(f"Unable to remove nonexistent key: {part}: missing value")

    def _count_shifts(self, container: list[Any]) -> None:
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
    """Return the object or list that contains the target of a pointer, and the last part of the pointer."""
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
def _within(step: str) -> Iterator[None]:
    """Prefix errors of the block with the failed step."""
    try:
        yield
    except DoesNotApply as error:
        raise DoesNotApply(f"{step}: {error}") from None


def _position(part: str, length: int) -> int:
    """Return the index in a list of this length. Negative indexes count from the end."""
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
        message = f"replace operation does not apply: doc is missing key: {path}: missing value"
        raise DoesNotApply(message) from None
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
    run.copied_bytes += len(numbers.encoded(value))
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
    """Return whether two JSON values are equal as texts: 1 equals neither 1.0 nor true."""
    if isinstance(left, float) or isinstance(right, float):
        return is_number(left) and is_number(right) and numbers.text(left) == numbers.text(right)
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
