r"""Field selectors: parsing and matching. Pure.

As apimachinery's `fields/selector.go`: `a=b,c==d,e!=f`; `\`, `,` and `=` in values are escaped by a backslash.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class InvalidFieldSelector(ValueError):
    """A text is not a field selector."""


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold; none: everything matches."""

    terms: tuple[Term, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected; a missing field is an empty text."""
        return all((fields.get(each.field, "") == each.value) == each.equal for each in self.terms)

    def exact(self, field: str) -> str | None:
        """Return the value that the field must have, None: it may have several."""
        for each in self.terms:
            if each.field == field and each.equal:
                return each.value
        return None


def parse_field_selector(text: str) -> FieldSelector:
    """Parse the form that a request's `fieldSelector` has.

    Raises:
        InvalidFieldSelector: in the words of the API.
    """
    return FieldSelector(tuple(_term(each, text) for each in _split(text) if each))


def check_fields(
    selector: FieldSelector, known: Callable[[str], bool], unknown: Callable[[str], str]
) -> None:
    """Refuse terms on what cannot be selected by.

    Raises:
        InvalidFieldSelector: with what `unknown` says of the field.
    """
    for each in selector.terms:
        if not known(each.field):
            raise InvalidFieldSelector(unknown(each.field))


def _split(text: str) -> list[str]:
    terms, current, escaped = [], "", False
    for character in text:
        if escaped:
            current += character
            escaped = False
        elif character == "\\":
            current += character
            escaped = True
        elif character == ",":
            terms.append(current)
            current = ""
        else:
            current += character
    return [*terms, current]


def _term(text: str, whole: str) -> Term:
    field, operator, value = _operator(text)
    if not operator:
        raise InvalidFieldSelector(f"invalid selector: '{whole}'; can't understand '{text}'")
    return Term(field, _unescape(value), operator != "!=")


def _operator(text: str) -> tuple[str, str, str]:
    for at in range(len(text)):
        for operator in ("!=", "==", "="):
            if text.startswith(operator, at):
                return text[:at], operator, text[at + len(operator) :]
    return text, "", ""


def _unescape(value: str) -> str:
    result, escaped = "", False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise InvalidFieldSelector(f"invalid field selector: invalid escape sequence: \\{character}")
            result += character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise InvalidFieldSelector(f"invalid field selector: unescaped character in value: {character}")
        else:
            result += character
    if escaped:
        raise InvalidFieldSelector("invalid field selector: invalid escape sequence: \\")
    return result
