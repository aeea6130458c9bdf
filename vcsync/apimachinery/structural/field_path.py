"""Paths such as `.spec.list['a.b']` in rules and selectable fields, resolved against a schema. Pure.

Source: `ValidFieldPath` of apiextensions' `schema/cel`.
"""

from collections.abc import Iterator

from vcsync.apimachinery.structural.field_names import child, key
from vcsync.apimachinery.structural.schema import Structural
from vcsync.patterns.linear import Match, linear

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}
_ESCAPED = linear(r"(?s)\\(.)")
_PART = linear(r"(?s)'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")


class InvalidPath(ValueError):
    """The path is malformed or does not exist in the schema. The message says why."""


def _unescape(text: str) -> str:
    def one(match: Match) -> str:
        if match[1] not in _ESCAPES:
            raise InvalidPath(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPES[match[1]]

    return _ESCAPED.sub(one, text)


def _next(parts: Iterator[str]) -> str:
    part = next(parts, None)
    if part is None:
        raise InvalidPath("unexpected end of JSON path")
    return part


def resolve(text: str, node: Structural, *, brackets: bool = True) -> tuple[str, Structural, list[str]]:
    """Resolve a path.

    Returns:
        The path as messages show it, the schema of its field, and the names of the path's elements.

    Raises:
        InvalidPath: the path is malformed or does not exist in the schema.
    """
    parts = (match[0] for match in _PART.finditer(text))
    where, names = "", []
    for part in parts:
        if part == "[":
            if not brackets:
                raise InvalidPath("array notation is not allowed")
            quoted = _next(parts)
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise InvalidPath(f"expected single quoted string but got {quoted}")
            name = _unescape(quoted[1:-1])
            where, node = _step(where, node, name)
            closing = _next(parts)
            if closing != "]":
                raise InvalidPath(f"expected ] but got {closing}")
        elif part == ".":
            name = _next(parts)
            where, node = _step(where, node, name)
        else:
            raise InvalidPath(f"expected [ or . but got: {part}")
        names.append(name)
    return where, node, names


def _step(where: str, node: Structural, name: str) -> tuple[str, Structural]:
    if node.properties:
        if name not in node.properties:
            raise InvalidPath("does not refer to a valid field")
        return child(where, name), node.properties[name]
    if node.additional is not None:
        return key(where, name), node.additional
    raise InvalidPath("does not refer to a valid field")
