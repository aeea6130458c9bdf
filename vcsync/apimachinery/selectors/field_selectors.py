r"""Field selectors: parsing and matching. Pure.

Source: apimachinery's `fields/selector.go`: `a=b,c==d,e!=f`; a backslash escapes `\`, `,` and `=` in values.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from vcsync.patterns.linear import linear

_OPERATOR = linear("!=|==|=")
_SPECIAL = linear(r"[\\,=]")


class InvalidFieldSelector(ValueError):
    """The text is not a field selector."""


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True)
class FieldSelector:
    """A conjunction of terms. Without terms it matches everything."""

    terms: tuple[Term, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether an object with these fields matches. A missing field counts as an empty text."""
        wanted, unwanted = self._values
        return all(values == {fields.get(name, "")} for name, values in wanted.items()) and not any(
            fields.get(name, "") in values for name, values in unwanted.items()
        )

    @cached_property
    def _values(self) -> tuple[Mapping[str, set[str]], Mapping[str, set[str]]]:
        """Return the values that each field must have, and those that it must not have. Duplicate terms collapse."""
        wanted: dict[str, set[str]] = {}
        unwanted: dict[str, set[str]] = {}
        for each in self.terms:
            (wanted if each.equal else unwanted).setdefault(each.field, set()).add(each.value)
        return wanted, unwanted

    def exact(self, field: str) -> str | None:
        """Return the only value that the field may have, or None if it may have several."""
        for each in self.terms:
            if each.field == field and each.equal:
                return each.value
        return None


def parse_field_selector(text: str) -> FieldSelector:
    """Parse the `fieldSelector` of a request.

    Raises:
        InvalidFieldSelector: the text is malformed. The message is the API's.
    """
    return FieldSelector(tuple(terms(text)))


def terms(text: str) -> Iterator[Term]:
    """Parse one term after the other.

    Raises:
        InvalidFieldSelector: as `parse_field_selector`.
    """
    return (_term(each, text) for each in _split(text) if each)


def check_fields(
    selector: FieldSelector, known: Callable[[str], bool], unknown: Callable[[str], str]
) -> None:
    """Refuse terms about fields that are not selectable.

    Raises:
        InvalidFieldSelector: a field is not known. The message is the result of `unknown`.
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
