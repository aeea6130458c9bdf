"""Label selectors: parses their two forms, and matches labels. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from vcsync.patterns.linear import linear

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
_SET = linear(rf"\s*({_KEY})\s+(in|notin)\s*")
_VALUES = linear(rf"\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*")
_EQUAL = linear(rf"\s*({_KEY})\s*(==|!=|=)\s*({_VALUE})\s*")
_EXISTS = linear(rf"\s*(!?)\s*({_KEY})\s*")


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
    return Selector(tuple(map(_requirement, _parts(text))))


def _parts(text: str) -> Iterator[str]:
    """Split at the commas outside of parentheses."""
    parts: list[str] = []
    inside = False
    for part in text.split(","):
        parts.append(part)
        if "(" in part or ")" in part:
            inside = part.rfind("(") > part.rfind(")")
        if not inside:
            yield ",".join(parts)
            parts = []
    if parts:
        yield ",".join(parts)


def _requirement(text: str) -> Expression:
    head, parenthesis, tail = text.rstrip().partition("(")
    if parenthesis:
        match, values = _SET.fullmatch(head), tail[:-1]
        if match and tail.endswith(")") and _VALUES.fullmatch(values):
            operator: Operator = "In" if match[2] == "in" else "NotIn"
            return Expression(match[1], operator, tuple(each.strip() for each in values.split(",")))
    elif "=" in text:
        if match := _EQUAL.fullmatch(text):
            return Expression(match[1], "NotIn" if match[2] == "!=" else "In", (match[3],))
    elif match := _EXISTS.fullmatch(text):
        return Expression(match[2], "DoesNotExist" if match[1] else "Exists")
    raise InvalidSelector(
        f"label selector: {text.strip()!r} is not a requirement like a=b, a in (b,c), a or !a"
    )
