"""Merges an applied object into the live one, and removes fields from an object. Pure; nothing is changed in place.

The algorithms are structured-merge-diff's `typed.Merge` and `typed.RemoveItems`.
"""

from typing import Any

from vcsync.apimachinery.patch import shapes
from vcsync.apimachinery.patch.fields import SELF, Set, is_member
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object

_ABSENT: Any = object()


def merge(schema: Schema, live: Object, applied: Object) -> Object:
    """Return the live object with the values of the applied one.

    Raises:
        shapes.BadItem: An item of a list cannot be identified.
    """
    merged = _merge(schema, live, applied)
    return merged if isinstance(merged, dict) else {}


def _merge(schema: Schema, live: Any, applied: Any) -> Any:
    if applied is _ABSENT:
        return live
    if live is _ABSENT:
        return applied
    if shapes.merges_maps(schema) and _either(dict, live, applied):
        return _merge_maps(schema, live or {}, applied or {})
    if shapes.merges_lists(schema) and _either(list, live, applied):
        return _merge_lists(schema, live or [], applied or [])
    return applied


def _either(kind: type, live: Any, applied: Any) -> bool:
    """Return whether both have the type or are null, and at least one of them is not empty."""
    fits = all(each is None or isinstance(each, kind) for each in (live, applied))
    return fits and bool(live or applied)


def _merge_maps(schema: Schema, live: Object, applied: Object) -> Object:
    merged = dict(live)
    for name, value in applied.items():
        below = shapes.child(schema, name) or shapes.DEDUCED
        merged[name] = _merge(below, live.get(name, _ABSENT), value)
    return merged


def _merge_lists(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    """Merge items. The result keeps the orders of both lists; the applied list wins if they contradict each other."""
    left, right = shapes.elements(schema, live), shapes.elements(schema, applied)
    below = shapes.items(schema)
    lefts: dict[str, Any] = {}
    for element, item in left:
        lefts[element] = None if element in lefts else item
    rights = dict(right)
    shared = iter([element for element, _ in right if element in lefts])
    following = next(shared, None)
    done: set[str] = set()
    out: list[Any] = []
    at = to = 0
    while at < len(left) or to < len(right):
        if at < len(left) and to < len(right):
            element = left[at][0]
            if element == right[to][0]:
                done.add(element)
                out.append(_merge(below, lefts[element], rights[element]))
                at, to = at + 1, to + 1
                following = next(shared, None)
                continue
            if element in rights and following is not None and following != element:
                at += 1
                continue
        if at < len(left):
            element, item = left[at]
            if element not in rights:
                out.append(item)
                at += 1
                continue
            at += element in done
        if to < len(right):
            element = right[to][0]
            done.add(element)
            out.append(_merge(below, lefts.get(element, _ABSENT), rights[element]))
            to += 1
            if following == element:
                following = next(shared, None)
    return out


def remove(schema: Schema, value: Object, gone: Set) -> Object:
    """Return an object without some of its fields."""
    kept = _remove(schema, value, gone)
    return kept if isinstance(kept, dict) else {}


def _remove(schema: Schema, value: Any, gone: Set) -> Any:
    if isinstance(value, dict):
        return _remove_fields(schema, value, gone) if shapes.merges_maps(schema) else None
    if isinstance(value, list):
        return _remove_items(schema, value, gone) if shapes.merges_lists(schema) else None
    return value


def _remove_fields(schema: Schema, value: Object, gone: Set) -> Object | None:
    kept: Object = {}
    for name, each in value.items():
        node = gone.get(f"f:{name}")
        if node is None:
            kept[name] = each
        elif not is_member(node):
            kept[name] = _remove(shapes.child(schema, name) or shapes.DEDUCED, each, node)
    return kept or None


def _remove_items(schema: Schema, value: list[Any], gone: Set) -> list[Any] | None:
    kept: list[Any] = []
    for element, each in shapes.elements(schema, value):
        node = gone.get(element)
        if node is None:
            kept.append(each)
        elif not is_member(node):
            kept.append(_remove(shapes.items(schema), each, node))
    return kept or None


def with_named(schema: Schema | None, of: Set) -> Set:
    """Return the set with all declared fields that are parents of its members."""
    out: Set = {}
    for element, node in of.items():
        if element == SELF:
            out[SELF] = {}
        elif not node:
            out[element] = {}
        else:
            below, named = _below(schema, element)
            inside = with_named(below, node)
            out[element] = {SELF: {}, **inside} if named else inside
    return out


def _below(schema: Schema | None, element: str) -> tuple[Schema | None, bool]:
    if schema is None:
        return None, False
    if element.startswith("f:"):
        name = element[2:]
        return shapes.child(schema, name), name in schema.properties
    return (schema.items, False) if element.startswith("k:") else (None, False)
