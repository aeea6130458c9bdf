"""JSON patches (RFC 6902) as the API takes them. Pure; the document is never changed.

Semantics are those of evanphx/json-patch v4, which kube-apiserver uses and which differs from the RFC (and from
other libraries): negative indexes count from the end, `replace` of a missing member sets it, `test` of a missing
member finds null.
"""

import re
from collections.abc import Callable
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
            raise DoesNotApply(f"Unable to remove nonexistent key: {part}")

    def _move_along(self, container: list[Any]) -> None:
        self._moved += len(container)
        if self._moved > MAX_MOVED:
            raise DoesNotApply(f"moves more than {MAX_MOVED} items")


def _text(operation: dict[str, Any], member: str) -> str:
    found = operation.get(member)
    if not isinstance(found, str):
        raise DoesNotApply(f"operation missing {member} field")
    return found


def _find(run: _Run, pointer: str) -> tuple[Any, str]:
    """Return the object or list that the pointer's last part is to be looked up in, and that part."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    if len(parts) < 2:
        raise DoesNotApply(f"missing path: {pointer}")
    container = run.document
    for part in parts[1:-1]:
        container = _get(container, part)
        if not isinstance(container, dict | list):
            raise DoesNotApply(f"missing path: {pointer}")
    if not isinstance(container, dict | list):
        raise DoesNotApply(f"missing path: {pointer}")
    return container, parts[-1]


def _position(part: str, length: int) -> int:
    """Return where in a list of a length the part points; negative counts from the end."""
    if not _INDEX.fullmatch(part):
        raise DoesNotApply(f"no index: {part}")
    index = int(part)
    if not -length <= index < length:
        raise DoesNotApply(f"Unable to access invalid index: {index}")
    return index % length


def _get(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        return container.get(part)
    return container[_position(part, len(container))]


def _add(run: _Run, operation: dict[str, Any]) -> None:
    container, part = _find(run, _text(operation, "path"))
    run.insert(container, part, copied(operation.get("value")))


def _remove(run: _Run, operation: dict[str, Any]) -> None:
    container, part = _find(run, _text(operation, "path"))
    run.delete(container, part)


def _replace(run: _Run, operation: dict[str, Any]) -> None:
    path, value = _text(operation, "path"), copied(operation.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise DoesNotApply("replace operation value must be object or array")
        run.document = value
        return
    container, part = _find(run, path)
    if isinstance(container, dict):
        container[part] = value
    else:
        container[_position(part, len(container))] = value


def _move(run: _Run, operation: dict[str, Any]) -> None:
    container, part = _find(run, _text(operation, "from"))
    value = _get(container, part)
    run.delete(container, part)
    container, part = _find(run, _text(operation, "path"))
    run.insert(container, part, value)


def _copy(run: _Run, operation: dict[str, Any]) -> None:
    container, part = _find(run, _text(operation, "from"))
    value = _get(container, part)
    container, part = _find(run, _text(operation, "path"))
    run.copied_bytes += len(msgspec.json.encode(value))
    if run.copied_bytes > MAX_COPIED:
        raise DoesNotApply(f"copies more than {MAX_COPIED} bytes")
    run.insert(container, part, copied(value))


def _test(run: _Run, operation: dict[str, Any]) -> None:
    path, expected = _text(operation, "path"), operation.get("value")
    if path == "":
        found = run.document
    else:
        container, part = _find(run, path)
        found = _get(container, part)
    if not _same(found, expected):
        raise TestFailed(f"testing value {path} failed")


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
