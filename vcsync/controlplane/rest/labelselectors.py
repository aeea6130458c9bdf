"""Label selectors of requests, refused in the words of the API. Pure.

Grammar and words: apimachinery's `labels/selector.go`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vcsync.controlplane.errors import wrong
from vcsync.controlplane.kinds import names

_WORD = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+|$)")
_SPECIAL = frozenset({"", ",", "=", "==", "!=", "!", "(", ")", "<", ">"})
_OPERATORS = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
_BINARY = "in, notin, =, ==, !=, gt, lt"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class InvalidLabelSelector(ValueError):
    """A text is not a label selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it."""
        return _MATCHES[self.operator](labels.get(self.key), self.values)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must be met; none: everything matches."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet all of it."""
        return all(each.matches(labels) for each in self.requirements)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse the form that a request's `labelSelector` has.

    Raises:
        InvalidLabelSelector: in the words of the API.
    """
    return LabelSelector(tuple(_Parser(text).requirements()))


class _Parser:
    def __init__(self, text: str) -> None:
        self._words: list[str] = [*filter(None, (match[1] for match in _WORD.finditer(text))), ""]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            word = self._peek()
            if word == "":
                return found
            if word in _SPECIAL and word != "!":
                raise InvalidLabelSelector(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except InvalidLabelSelector as error:
                raise InvalidLabelSelector(f"unable to parse requirement: {error}") from None
            word = self._next()
            if word == "":
                return found
            if word != ",":
                raise InvalidLabelSelector(f"found '{word}', expected: ',' or 'end of string'")
            following = self._peek()
            if following in _SPECIAL and following != "!":
                raise InvalidLabelSelector(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if key in _SPECIAL:
            raise InvalidLabelSelector(f"found '{key}', expected: identifier")
        if said := names.qualified_name(key):
            raise InvalidLabelSelector(str(wrong("<nil>", key, "; ".join(said))))
        if absent or self._peek() in ("", ","):
            return Requirement(key, "absent" if absent else "exists")
        word = self._next()
        operator = _OPERATORS.get(word)
        if operator is None:
            raise InvalidLabelSelector(f"found '{word}', expected: {_BINARY}")
        values = self._values() if word in ("in", "notin") else {self._value()}
        self._check(key, operator, sorted(values))
        return Requirement(key, operator, frozenset(values))

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        word = self._next()
        if word in _SPECIAL:
            raise InvalidLabelSelector(f"found '{word}', expected: identifier")
        return word

    def _values(self) -> set[str]:
        word = self._next()
        if word != "(":
            raise InvalidLabelSelector(f"found '{word}' expected: '('")
        word = self._peek()
        if word == ")":
            self._next()
            return {""}
        if word in _SPECIAL and word != ",":
            raise InvalidLabelSelector(f"found '{word}', expected: ',', ')' or identifier")
        values = self._identifiers()
        self._next()
        return values

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            word = self._next()
            following = self._peek()
            if word == ",":
                if not values:
                    values.add("")
                if following in (")", ","):
                    values.add("")
                if following == ")":
                    return values
            elif word in _SPECIAL:
                raise InvalidLabelSelector(f"found '{word}', expected: ',', or identifier")
            else:
                values.add(word)
                if following == ")":
                    return values
                if following != ",":
                    raise InvalidLabelSelector(f"found '{following}', expected: ',' or ')'")

    @staticmethod
    def _check(key: str, operator: str, values: list[str]) -> None:
        found = []
        for at, value in enumerate(values):
            if operator in ("gt", "lt") and not _INTEGER.fullmatch(value):
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                found.append(str(wrong(f"values[{at}]", value, why)))
            if said := names.label_value(value):
                found.append(str(wrong(f"values[{at}][{key}]", value, "; ".join(said))))
        if found:
            raise InvalidLabelSelector(found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _peek(self) -> str:
        return self._words[min(self._at, len(self._words) - 1)]

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word


def _compared(found: str | None, values: frozenset[str], sign: int) -> bool:
    if found is None or not _INTEGER.fullmatch(found):
        return False
    return all(sign * (int(found) - int(value)) > 0 for value in values)


_MATCHES: Mapping[str, Callable[[str | None, frozenset[str]], bool]] = {
    "in": lambda found, values: found in values,
    "notin": lambda found, values: found not in values,
    "exists": lambda found, _: found is not None,
    "absent": lambda found, _: found is None,
    "gt": lambda found, values: _compared(found, values, 1),
    "lt": lambda found, values: _compared(found, values, -1),
}
