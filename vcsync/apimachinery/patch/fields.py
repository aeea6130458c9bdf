"""Sets of field paths in the form of managedFields (FieldsV1). Pure; arguments are never changed.

A set has the same form as in objects, so that tracking a write needs no conversion: nested dicts whose keys are path
elements. A path that ends in `{}` is a member. A path that ends in a dict with children is a member if the dict contains
`"."`. Form and order are those of structured-merge-diff's `fieldpath` (FieldsV1 of meta/v1).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

Set = dict[str, Any]
"""Path element -> the set below it."""

EMPTY: Set = {}
"""The empty set. Read only."""

SELF = "."
_ESCAPED = frozenset("<>&\u2028\u2029")
_HTML = {ord(each): f"\\u{ord(each):04x}" for each in _ESCAPED}
_KINDS = {"f:": 0, "k:": 1, "v:": 2, "i:": 3}


def field(name: str) -> str:
    """Return the path element of a named field."""
    return f"f:{name}"


def key(values: Mapping[str, Any]) -> str:
    """Return the path element of an item of a list that is a map. `values` are the fields that identify it."""
    return "k:" + _json({name: _plain(values[name]) for name in sorted(values)})


def value(of: Any) -> str:
    """Return the path element of an item of a list that is a set."""
    return "v:" + _json(_plain(of))


def _json(of: Any) -> str:
    text = msgspec.json.encode(of).decode()
    return text if _ESCAPED.isdisjoint(text) else text.translate(_HTML)


def _plain(of: Any) -> Any:
    return int(of) if isinstance(of, float) and of.is_integer() and abs(of) < 1e21 else of


def is_member(node: Set) -> bool:
    """Return whether the path that ends at this node is a member."""
    return not node or SELF in node


def has(of: Set, path: tuple[str, ...]) -> bool:
    """Return whether a path is a member."""
    node: Set | None = of
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return bool(path) and node is not None and is_member(node)


def single(path: tuple[str, ...]) -> Set:
    """Return the set with one path."""
    node: Set = {}
    for element in reversed(path):
        node = {element: node}
    return node


def union(left: Set, right: Set) -> Set:
    """Return the paths that are in at least one of the sets."""
    if not right:
        return left
    if not left:
        return right
    out = dict(left)
    for element, node in right.items():
        if element != SELF:
            mine = out.get(element)
            out[element] = node if mine is None else _union_node(mine, node)
    return out


def _union_node(left: Set, right: Set) -> Set:
    if left is right:
        return left
    out = union(left, right)
    if out and SELF not in out and (not left or not right or SELF in right):
        out = {SELF: {}, **out}
    return out


def union_all(sets: Sequence[Set]) -> Set:
    """Return the paths that are in at least one of the sets. It joins pairs, so the cost grows with the total size."""
    rest = list(sets)
    while len(rest) > 1:
        rest = [
            union(rest[index], rest[index + 1] if index + 1 < len(rest) else EMPTY)
            for index in range(0, len(rest), 2)
        ]
    return rest[0] if rest else EMPTY


def intersection(left: Set, right: Set) -> Set:
    """Return the paths that are in both sets."""
    out: Set = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None or element == SELF:
            continue
        below = intersection(node, other)
        if is_member(node) and is_member(other):
            out[element] = {SELF: {}, **below} if below else {}
        elif below:
            out[element] = below
    return out


def difference(left: Set, right: Set) -> Set:
    """Return the paths that are only in the first set. A path of the second does not affect paths below it."""
    return _difference(left, right, False)


def without(left: Set, right: Set) -> Set:
    """Return the paths that are only in the first set. A path of the second removes all paths below it, too."""
    return _difference(left, right, True)


def _difference(left: Set, right: Set, whole: bool) -> Set:
    if not right:
        return left
    out: Set = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            out[element] = node
            continue
        if element == SELF:
            continue
        gone = is_member(other)
        if gone and whole:
            continue
        below = {each: found for each, found in _difference(node, other, whole).items() if each != SELF}
        if is_member(node) and not gone:
            out[element] = {SELF: {}, **below} if below else {}
        elif below:
            out[element] = below
    return out


def paths(of: Set, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield all paths of the set in order. At each level, paths that end there precede paths that continue."""
    elements = _ordered(of)
    for element in elements:
        if element != SELF and is_member(of[element]):
            yield (*prefix, element)
    for element in elements:
        if of[element]:
            yield from paths(of[element], (*prefix, element))


def shown(path: tuple[str, ...]) -> str:
    """Return a path as in messages: `.spec.containers[name="x"].image`."""
    return "".join(_shown_element(each) for each in path)


def _shown_element(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "i:":
        return f"[{text}]"
    decoded = json.loads(text)
    if kind == "v:":
        return f"[={_shown_value(decoded)}]"
    return "[" + ",".join(f"{name}={_shown_value(each)}" for name, each in decoded.items()) + "]"


def _shown_value(of: Any) -> str:
    if isinstance(of, list):
        return "[" + ",".join(map(_shown_value, of)) + "]"
    if isinstance(of, dict):
        return "".join(f"{name}={_shown_value(each)}" for name, each in of.items())
    return json.dumps(of, ensure_ascii=False)


def ordered(of: Set) -> Set:
    """Return the set in canonical order: `.`, fields, keys, values, indexes. Each kind is sorted."""
    return {element: ordered(of[element]) if of[element] else {} for element in _ordered(of)}


def _ordered(of: Set) -> list[str]:
    for element in of:
        if element[:1] not in ("f", "."):
            return sorted(of, key=_rank)
    return sorted(of)


def _rank(element: str) -> tuple[Any, ...]:
    kind, text = element[:2], element[2:]
    if element == SELF:
        return (-1,)
    if kind == "f:":
        return (0, text)
    decoded = json.loads(text)
    if kind == "k:":
        return (1, tuple((name, _rank_value(each)) for name, each in decoded.items()))
    return (_KINDS[kind], _rank_value(decoded))


def _rank_value(of: Any) -> tuple[Any, ...]:
    if isinstance(of, bool):
        return (2, of)
    if isinstance(of, int | float):
        return (0, of)
    if isinstance(of, str):
        return (1, of)
    if of is None:
        return (5,)
    return (3, _json(of)) if isinstance(of, list) else (4, _json(of))


def parse(raw: Any, depth: int = 64) -> Set:
    """Parse fieldsV1 from a client.

    Raises:
        ValueError: It is not a set of fields, or it is nested deeper than `depth`.
    """
    if not isinstance(raw, dict):
        raise ValueError("fields are no object")  # noqa: TRY004 - an error in a document, not in a call
    out: Set = {}
    for element, below in raw.items():
        if element == SELF:
            continue
        if depth == 0:
            raise ValueError("fields are nested too deep")
        node = _parse_element(element)
        if node is not None:
            out[node] = _parse_node(below, depth - 1)
    return out


def _parse_node(raw: Any, depth: int) -> Set:
    children = parse(raw, depth)
    return {SELF: {}, **children} if children and SELF in raw else children


def _parse_element(element: str) -> str | None:
    kind, text = element[:2], element[2:]
    if len(element) < 2 or kind[1] != ":":
        raise ValueError(f"missing colon: {element}")
    if kind == "f:":
        return element
    if kind == "i:":
        return f"i:{int(text)}"
    if kind not in _KINDS:
        return None
    decoded = json.loads(text)
    if kind == "v:":
        return value(decoded)
    if not isinstance(decoded, dict):
        raise ValueError(f"key is no object: {element}")  # noqa: TRY004 - an error in a document
    return key(decoded)
