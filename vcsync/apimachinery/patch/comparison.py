"""The set of fields of an object, and the fields that differ between two objects. Pure.

The algorithms are structured-merge-diff's `typed.ToFieldSet` and `typed.Compare`.
"""

from typing import Any, NamedTuple

from vcsync.apimachinery.patch import shapes
from vcsync.apimachinery.patch.fields import SELF, Set
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object

_NESTED = (dict, list)


class Comparison(NamedTuple):
    """The fields of only the old object, fields of both with different values, and fields of only the new object."""

    removed: Set
    modified: Set
    added: Set


def compare(schema: Schema, old: Object, new: Object) -> Comparison:
    """Compare two objects of the same schema.

    Raises:
        shapes.BadItem: An item of a list cannot be identified.
    """
    found = Comparison({}, {}, {})
    _maps(schema, old, new, found)
    return found


def _maps(schema: Schema, old: Object, new: Object, found: Comparison) -> None:
    for name, value in new.items():
        if name not in old:
            found.added[f"f:{name}"] = (
                _everything(shapes.child(schema, name), value) if isinstance(value, _NESTED) else {}
            )
            continue
        before = old[name]
        if before is not value:
            _values(shapes.child(schema, name) or shapes.DEDUCED, before, value, f"f:{name}", found)
    for name, value in old.items():
        if name not in new:
            found.removed[f"f:{name}"] = (
                _everything(shapes.child(schema, name), value) if isinstance(value, _NESTED) else {}
            )


def _values(schema: Schema, old: Any, new: Any, element: str, found: Comparison) -> None:
    """Compare two values at the same place."""
    if old == new and (
        _same(old, new) if not isinstance(new, _NESTED) else schema.definition and schema.type != "any"
    ):
        return
    if shapes.merges_maps(schema) and (isinstance(old, dict) or isinstance(new, dict)):
        before = old if isinstance(old, dict) else {}
        after = new if isinstance(new, dict) else {}
        if before or after:
            below = Comparison({}, {}, {})
            _maps(schema, before, after, below)
            _attach(below, element, found)
        if _is_other(old, dict) or _is_other(new, dict) or not (before or after or old == new):
            found.modified[element] = {}
    elif shapes.merges_lists(schema) and (_is_full(old) or _is_full(new)):
        below = Comparison({}, {}, {})
        _lists(schema, old if isinstance(old, list) else [], new if isinstance(new, list) else [], below)
        _attach(below, element, found)
        if _is_other(old, list) or _is_other(new, list):
            found.modified[element] = {}
    elif not _same(old, new):
        found.modified[element] = {}


def _same(old: Any, new: Any) -> bool:
    """Return whether two JSON values are equal. In Python, true equals 1."""
    if isinstance(old, bool) is not isinstance(new, bool) or old != new:
        return False
    if isinstance(new, dict):
        return all(_same(old[name], each) for name, each in new.items())
    return not isinstance(new, list) or all(map(_same, old, new))


def _is_other(value: Any, kind: type) -> bool:
    return value is not None and not isinstance(value, kind)


def _is_full(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _attach(below: Comparison, element: str, found: Comparison) -> None:
    for part, whole in zip(below, found, strict=True):
        if part:
            whole[element] = part


def _lists(schema: Schema, old: list[Any], new: list[Any], found: Comparison) -> None:
    before, after = _grouped(schema, old), _grouped(schema, new)
    below = shapes.items(schema)
    for element in {**before, **after}:
        left, right = before.get(element, []), after.get(element, [])
        if len(left) > 1 and len(right) > 1:
            if not _same(left, right):
                found.modified[element] = {}
        elif len(left) > 1:
            if right:
                found.added[element] = _everything(below, right[0])
            found.removed[element] = {}
        elif len(right) > 1:
            if left:
                found.removed[element] = _everything(below, left[0])
            found.added[element] = {}
        elif not left:
            found.added[element] = _everything(below, right[0])
        elif not right:
            found.removed[element] = _everything(below, left[0])
        else:
            _values(below, left[0], right[0], element, found)


def _grouped(schema: Schema, values: list[Any]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for element, value in shapes.elements(schema, values):
        grouped.setdefault(element, []).append(value)
    return grouped


def _everything(schema: Schema | None, value: Any) -> Set:
    """Return the set of the place itself and all fields below it."""
    if not value or not isinstance(value, _NESTED) or schema is None:
        return {}
    if isinstance(value, dict):
        if not shapes.merges_maps(schema):
            return {}
        node: Set = {SELF: {}}
        for name, each in value.items():
            node[f"f:{name}"] = (
                _everything(shapes.child(schema, name), each) if isinstance(each, _NESTED) else {}
            )
        return node
    if not shapes.merges_lists(schema):
        return {}
    below, node = shapes.items(schema), {SELF: {}}
    for element, each in shapes.elements(schema, value):
        node[element] = {} if element in node else _everything(below, each)
    return node


def field_set(schema: Schema, value: Object) -> Set:
    """Return the fields of an object: its leaves, the items of its lists, and undeclared fields.

    Raises:
        shapes.BadItem: An item of a list cannot be identified.
    """
    owned: Set = {}
    for name, each in value.items():
        declared = name in schema.properties
        if not each or not isinstance(each, _NESTED):
            if each != [] or not declared or not _merging_list(schema, name):
                owned[f"f:{name}"] = {}
            continue
        below = shapes.child(schema, name) or shapes.DEDUCED
        node = _owned(below, each)
        if node is None or (not node and not declared):
            owned[f"f:{name}"] = {}
        elif node:
            owned[f"f:{name}"] = node if declared else {SELF: {}, **node}
    return owned


def _merging_list(schema: Schema, name: str) -> bool:
    return shapes.merges_lists(shapes.child(schema, name) or shapes.DEDUCED)


def _owned(schema: Schema, value: Any) -> Set | None:
    """Return the fields below a value that is not empty, or None if the value is atomic."""
    if isinstance(value, dict):
        return field_set(schema, value) if shapes.merges_maps(schema) else None
    if not shapes.merges_lists(schema):
        return None
    below, node = shapes.items(schema), dict[str, Any]()
    for element, each in shapes.elements(schema, value):
        if element in node:
            node[element] = {}
            continue
        inside = _owned(below, each) if each and isinstance(each, _NESTED) else None
        node[element] = {SELF: {}, **inside} if inside else {}
    return node
