"""Strategic merge patches: merge patches with directives that merge lists by the schema. Pure.

Behaviour, order of lists and messages are those of apimachinery's `util/strategicpatch` as kube-apiserver calls it
(lists are merged, nulls without counterpart are ignored).
"""

from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.gotext import plain, type_name
from vcsync.apimachinery.patch.jsonpatch import copied
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_LIST = "$deleteFromPrimitiveList"
_SET_ORDER = "$setElementOrder"

_ANYTHING = Schema("any")


class PatchError(Exception):
    """The patch cannot be merged. The message is that of kube-apiserver."""


class BadFormat(PatchError):
    """A directive is malformed."""


class ListOfLists(PatchError):
    """The patch merges a list whose items are lists."""


def apply(live: Object, patch: Object, schema: Schema) -> Object:
    """Return the patched object.

    Raises:
        PatchError: The patch cannot be merged, or is a BadFormat or ListOfLists.
    """
    return _merge_object(copied(live), copied(patch), schema)


def _no_merge_key(item: Object, merge_key: str) -> PatchError:
    return PatchError(f"map: {plain(item)} does not contain declared merge key: {merge_key}")


def _bad_type(expected: Any, actual: Any) -> PatchError:
    named = "%!s(<nil>)" if actual is None else type_name(actual)
    return PatchError(f"expected a {type_name(expected)}, but received a {named}")


def _field(schema: Schema, name: str) -> Schema:
    """Return the schema of a field that is an object or a list."""
    if schema.type == "map":
        raise PatchError("merging an object in json but data type is not struct, instead is: map")
    found = schema.properties.get(name)
    if found is None:
        struct = schema.definition.rpartition(".")[2]
        raise PatchError(f'unable to find api field in struct {struct} for the json field "{name}"')
    return found


def _merge_object(original: Object, patch: Object, schema: Schema) -> Object:
    if _DIRECTIVE in patch:
        return _directive(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, schema)
    for key, change in patch.items():
        name, deleting = key, False
        if key.startswith(_DELETE_LIST):
            name, deleting = (
                _directive_field(key, _DELETE_LIST, "invalid patch format of primitive list"),
                True,
            )
        if change is None:
            original.pop(name, None)
            continue
        before = original.get(name)
        if name not in original or type(before) is not type(change):
            if not deleting:
                _set(original, name, change)
            continue
        if isinstance(change, dict):
            below = _field(schema, name)
            replace = "replace" in below.patch_strategy
            original[name] = change if replace else _merge_object(before or {}, change, below)
        elif isinstance(change, list):
            merged, _ = _merge_list_field(before or [], change, _field(schema, name), deleting)
            original[name] = merged
        else:
            original[name] = change
    return original


def _directive(patch: Object) -> Object:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: each for key, each in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise PatchError(f"unknown patch type: {plain(directive)} in map: {plain(patch)}")


def _set(original: Object, name: str, change: Any) -> None:
    """Set a value that has no counterpart, without its nulls and without objects that have a directive."""
    kept, keep = _without_directives(_without_nulls(change))
    if keep:
        original[name] = kept
    else:
        original.pop(name, None)


def _without_nulls(change: Any) -> Any:
    if isinstance(change, dict):
        return {key: _without_nulls(each) for key, each in change.items() if each is not None}
    return [_without_nulls(each) for each in change] if isinstance(change, list) else change


def _without_directives(change: Any) -> tuple[Any, bool]:
    if isinstance(change, dict):
        if _DIRECTIVE in change:
            return None, False
        cleaned = ((key, _without_directives(each)) for key, each in change.items())
        return {key: each for key, (each, keep) in cleaned if keep}, True
    if isinstance(change, list):
        return [each for each, keep in map(_without_directives, change) if keep], True
    return change, True


def _directive_field(key: str, prefix: str, wrong: str) -> str:
    directive, _, name = key.partition("/")
    if directive != prefix or "/" not in key:
        raise BadFormat(wrong)
    return name


def _retain_keys(original: Object, patch: Object) -> None:
    """Remove the fields that `$retainKeys` does not name."""
    if _RETAIN_KEYS not in patch:
        return
    names = patch.pop(_RETAIN_KEYS)
    if not isinstance(names, list):
        raise BadFormat("invalid patch format of retainKeys")
    retained = {each for each in names if isinstance(each, str)}
    for key, change in patch.items():
        if change is None or key.startswith((_DELETE_LIST, _SET_ORDER)):
            continue
        if key not in retained:
            raise BadFormat("invalid patch format of retainKeys")
    for key in [key for key in original if key not in retained]:
        del original[key]


def _merge_ordered_lists(original: Object, patch: Object, schema: Schema) -> None:
    """Merge the lists for which the patch gives an order."""
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        order = patch.pop(key)
        if not isinstance(order, list):
            raise _bad_type([], order)
        name = _directive_field(key, _SET_ORDER, "invalid patch format of setElementOrder list")
        before, change = original.get(name), patch.get(name)
        for value, present in ((before, name in original), (change, name in patch)):
            if present and not isinstance(value, list):
                raise _bad_type([], value)
        below = _field(schema, name)
        merge_key = below.merge_key
        _check_order(change or [], order, merge_key)
        seen = before or []
        if name in original and name in patch:
            merged, seen = _merge_list_field(before or [], change or [], below, False)
        elif name in original:
            merged = before or []
        elif name in patch:
            merged = _without_directives(change)[0]
        else:
            continue
        ordered, server_only = _partition(merged, order, merge_key)
        if _item_type(before or [], change or []) is None:
            raise PatchError("no elements in any of the given slices")
        original[name] = _in_order(ordered, server_only, _Order(order, seen, merge_key))
        patch.pop(name, None)


def _check_order(change: list[Any], order: list[Any], merge_key: str) -> None:
    """Refuse a patch whose items are in another order than `$setElementOrder`."""
    if not order or not change:
        return
    items = change
    if merge_key:
        for item in change:
            if not isinstance(item, dict):
                raise _bad_type({}, item)
        items = [item for item in change if item.get(_DIRECTIVE) != "delete"]
    at = position = 0
    while at < len(items) and position < len(order):
        if isinstance(items[at], dict) and _DIRECTIVE in items[at]:
            at += 1
            continue
        at += _same_item(items[at], order[position], merge_key)
        position += 1
    if at < len(items) and position >= len(order):
        raise PatchError(
            f"The order in patch list:\n{plain(change)}\n doesn't match {_SET_ORDER} list:\n{plain(order)}\n"
        )


def _same_item(left: Any, right: Any, merge_key: str) -> bool:
    if not merge_key:
        return bool(left == right)
    for item in (left, right):
        if not isinstance(item, dict):
            raise _bad_type({}, item)
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
    return bool(left[merge_key] == right[merge_key])


def _merge_list_field(
    original: list[Any], patch: list[Any], schema: Schema, deleting: bool
) -> tuple[list[Any], list[Any]]:
    """Return the merged list, and the server's order to which `$setElementOrder` refers."""
    if "merge" not in schema.patch_strategy and not deleting:
        return patch, original
    return _merge_list(original, patch, schema, deleting)


def _item_type(*lists: list[Any]) -> type | None:
    """Return the type of all items, or None if the lists are empty."""
    found: type | None = None
    for items in lists:
        for item in items:
            if found is None:
                found = type(item)
                if found is list:
                    raise ListOfLists("lists of lists are not supported")
            elif type(item) is not found:
                raise PatchError(f"list element types are not identical: {plain(list(lists))}")
    return found


def _merge_list(
    original: list[Any], patch: list[Any], schema: Schema, deleting: bool
) -> tuple[list[Any], list[Any]]:
    if not original and not patch:
        return original, original
    merge_key = schema.merge_key
    if _item_type(original, patch) is not dict:
        if deleting:
            gone = set(map(_hashable, patch))
            return [each for each in original if _hashable(each) not in gone], original
        merged = list({_hashable(each): each for each in (*original, *patch)}.values())
        inside, outside = _partition(merged, patch, "")
        return _in_order(inside, outside, _Order(patch, original, "")), original
    if not merge_key:
        kind = (schema.items or _ANYTHING).type
        raise PatchError(f"cannot merge lists without merge key for {'struct' if kind == 'object' else kind}")
    base, additions, view = _obey_directives(original, patch, merge_key)
    merged = _merge_items(base, additions, merge_key, schema.items or _ANYTHING)
    inside, outside = _partition(merged, additions, merge_key)
    if additions and len(view) < len(original):
        # `$setElementOrder` refers to the order of this list, in which added items replace deleted ones.
        view = [*view, *merged[len(view) : len(original)]]
    return _in_order(inside, outside, _Order(additions, base, merge_key)), view


def _obey_directives(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the list to merge into, the items to merge into it, and the remaining items of the original list."""
    additions: list[Any] = []
    gone: set[Any] = set()
    replace = False
    for item in patch:
        if _DIRECTIVE not in item:
            additions.append(item)
            continue
        directive = item[_DIRECTIVE]
        if directive == "delete":
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
            gone.add(_hashable(item[merge_key]))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch")
        else:
            raise PatchError(f"unknown patch type: {plain(directive)} in map: {plain(item)}")
    kept = [item for item in original if merge_key not in item or _hashable(item[merge_key]) not in gone]
    return (additions, [], kept) if replace else (kept, additions, kept)


def _merge_items(original: list[Any], patch: list[Any], merge_key: str, schema: Schema) -> list[Any]:
    merged = list(original)
    where: dict[Any, int] = {}
    for position, item in enumerate(merged):
        if merge_key in item:
            where.setdefault(_hashable(item[merge_key]), position)
    for item in patch:
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
        known = _hashable(item[merge_key])
        if known in where:
            merged[where[known]] = _merge_object(merged[where[known]], item, schema)
        else:
            where[known] = len(merged)
            merged.append(item)
    return merged


def _partition(items: list[Any], by: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Split items into those that occur in `by`, and the others."""
    if merge_key:
        for item in items:
            if not isinstance(item, dict):
                raise _bad_type({}, item)
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
        for index, item in enumerate(by):
            if not isinstance(item, dict):
                raise PatchError(f"value for key {index} is not a map")
    named = {_known(item, merge_key) for item in by}
    inside = [item for item in items if _known(item, merge_key) in named]
    return inside, [item for item in items if _known(item, merge_key) not in named]


def _known(item: Any, merge_key: str) -> Any:
    return _hashable(item.get(merge_key) if merge_key else item)


def _hashable(value: Any) -> Any:
    """Return a key that distinguishes values as Go does: 1, 1.0 and true are different."""
    return (type(value), plain(value) if isinstance(value, dict | list) else value)


@dataclass(frozen=True, slots=True)
class _Order:
    """The two orders of a merged list, and the merge key of its items (empty: the items are scalars)."""

    patch: list[Any]
    server: list[Any]
    merge_key: str


def _in_order(patched: list[Any], server_only: list[Any], order: _Order) -> list[Any]:
    """Join both lists. Each keeps its order, and an item of the server stays before the items that followed it."""
    by = order.merge_key
    if by:
        for item in (*patched, *server_only, *order.patch, *order.server):
            if by not in item:
                raise _no_merge_key(item, by)
    in_patch, on_server = _positions(order.patch, by), _positions(order.server, by)
    right = sorted(patched, key=lambda item: in_patch.get(_known(item, by), -1))
    left = sorted(server_only, key=lambda item: on_server.get(_known(item, by), -1))
    out: list[Any] = []
    at = 0
    for item in right:
        place = on_server.get(_known(item, by))
        while at < len(left) and place is not None and -1 < on_server.get(_known(left[at], by), -1) < place:
            out.append(left[at])
            at += 1
        out.append(item)
    return out + left[at:]


def _positions(order: list[Any], merge_key: str) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for position, item in enumerate(order):
        found.setdefault(_known(item, merge_key), position)
    return found
