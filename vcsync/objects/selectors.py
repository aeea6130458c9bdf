"""Label selectors: parses their two forms, and matches labels. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class InvalidSelector(ValueError):
    """A text or an object is not a label selector."""


class Expression(Struct, frozen=True):
    """One entry of `matchExpressions` of a LabelSelector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, rename="camel"):
    """A LabelSelector in an object. All of its requirements must hold; an empty one matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Expression, ...] | None = None


class Selector(Struct, frozen=True):
    """A compiled selector."""

    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet every requirement."""
        return all(_MATCH[each.operator](labels.get(each.key), each.values) for each in self.expressions)

    def __str__(self) -> str:
        """Return the form for the query parameter `labelSelector`."""
        return ",".join(
            _TEXT[each.operator].format(each.key, ",".join(each.values)) for each in self.expressions
        )


_MATCH: dict[Operator, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}
_TEXT = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*", re.ASCII)
_EQUAL = re.compile(rf"\s*({_KEY})\s*(==|!=|=)\s*({_VALUE})\s*", re.ASCII)
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*", re.ASCII)
_VALUE_ONLY = re.compile(_VALUE, re.ASCII)
_COMMA_OUTSIDE = re.compile(r",(?![^(]*\))")


def compile_selector(selector: LabelSelector) -> Selector:
    """Compile a LabelSelector.

    Raises:
        InvalidSelector: The operator of an expression requires values that are missing, or does not allow its values.
    """
    equal = tuple(Expression(key, "In", (value,)) for key, value in (selector.match_labels or {}).items())
    expressions = selector.match_expressions or ()
    for each in expressions:
        if (each.operator in ("In", "NotIn")) != bool(each.values):
            need = "needs values" if each.operator in ("In", "NotIn") else "takes no values"
            raise InvalidSelector(f"matchExpressions: key {each.key!r}: operator {each.operator} {need}")
    return Selector(equal + tuple(expressions))


def parse_selector(text: str) -> Selector:
    """Parse the string form: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. An empty text matches everything.

    Raises:
        InvalidSelector: The text is not a selector. The message names the requirement.
    """
    if not text.strip():
        return Selector()
    return Selector(tuple(_requirement(part) for part in _COMMA_OUTSIDE.split(text)))


def _requirement(text: str) -> Expression:
    if match := _SET.fullmatch(text):
        values = tuple(value.strip() for value in match[3].split(","))
        if all(_VALUE_ONLY.fullmatch(value) for value in values):
            return Expression(match[1], "In" if match[2] == "in" else "NotIn", values)
    elif match := _EQUAL.fullmatch(text):
        return Expression(match[1], "NotIn" if match[2] == "!=" else "In", (match[3],))
    elif match := _EXISTS.fullmatch(text):
        return Expression(match[2], "DoesNotExist" if match[1] else "Exists")
    raise InvalidSelector(
        f"label selector: {text.strip()!r} is not a requirement like a=b, a in (b,c), a or !a"
    )
