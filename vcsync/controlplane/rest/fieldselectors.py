r"""Field selectors: parsing and matching. Pure.

As apimachinery's `fields/selector.go`: `a=b,c==d,e!=f`; `\`, `,` and `=` in values are escaped by a backslash.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

_OPERATOR = re.compile("!=|==|=")
_SPECIAL = re.compile(r"[\\,=]")


class InvalidFieldSelector(ValueError):
    """A text is not a field selector."""


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True)
class FieldSelector:
    """All terms must hold; none: everything matches."""

    terms: tuple[Term, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected; a missing field is an empty text."""
        wanted, unwanted = self._values
        return all(values == {fields.get(name, "")} for name, values in wanted.items()) and not any(
            fields.get(name, "") in values for name, values in unwanted.items()
        )

    @cached_property
    def _values(self) -> tuple[Mapping[str, set[str]], Mapping[str, set[str]]]:
        """Of each field the values that it must have, and those that it must not: of a thousand terms few are left."""
        wanted: dict[str, set[str]] = {}
        unwanted: dict[str, set[str]] = {}
        for each in self.terms:
            (wanted if each.equal else unwanted).setdefault(each.field, set()).add(each.value)
        return wanted, unwanted

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
    return FieldSelector(tuple(terms(text)))


def terms(text: str) -> Iterator[Term]:
    """Parse term by term.

    Raises:
        InvalidFieldSelector: as `parse_field_selector`.
    """
    return (_term(each, text) for each in _split(text) if each)


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
    if "\\" not in text:
        return text.split(",")
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
    found = _OPERATOR.search(text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def _unescape(value: str) -> str:
    if not _SPECIAL.search(value):
        return value
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
