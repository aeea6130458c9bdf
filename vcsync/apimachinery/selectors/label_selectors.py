"""Label selectors of requests: parsing and matching, with the messages of the API. Pure.

Source: apimachinery's `labels/selector.go`.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from vcsync.apimachinery.errors import wrong
from vcsync.apimachinery.validation import names

_WORD = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+|$)")
_SPECIAL = frozenset({"", ",", "=", "==", "!=", "!", "(", ")", "<", ">"})
_OPERATORS = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
_BINARY = "in, notin, =, ==, !=, gt, lt"
_WITHOUT = frozenset({"notin", "absent"})
"""Operators that an absent label satisfies."""
FEW = 8
"""Number of requirements up to which a loop is faster than the index."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class InvalidLabelSelector(ValueError):
    """The text is not a label selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels satisfy the requirement."""
        return _MATCHES[self.operator](labels.get(self.key), self.values)


@dataclass(frozen=True)
class LabelSelector:
    """A conjunction of requirements. Without requirements it matches everything."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels satisfy all requirements. Requirements on absent labels cost nothing."""
        if len(self.requirements) <= FEW:
            return all(each.matches(labels) for each in self.requirements)
        needed, by_key = self._index
        concerned = labels if len(labels) < len(by_key) else by_key
        return needed <= labels.keys() and all(
            each.matches(labels) for key in concerned if key in labels for each in by_key.get(key, ())
        )

    @cached_property
    def _index(self) -> tuple[frozenset[str], Mapping[str, list[Requirement]]]:
        """Return the labels that must be present, and the requirements on each label, at most one of each operator."""
        together: dict[tuple[str, str], Requirement] = {}
        for each in self.requirements:
            known = together.get((each.key, each.operator))
            values = each.values if known is None else _TOGETHER[each.operator](known.values, each.values)
            together[each.key, each.operator] = Requirement(each.key, each.operator, values)
        by_key: dict[str, list[Requirement]] = {}
        for merged in together.values():
            by_key.setdefault(merged.key, []).append(merged)
        return frozenset(each.key for each in self.requirements if each.operator not in _WITHOUT), by_key


def parse_label_selector(text: str) -> LabelSelector:
    """Parse the `labelSelector` of a request.

    Raises:
        InvalidLabelSelector: the text is malformed. The message is the API's.
    """
    return LabelSelector(tuple(each for each in requirements(text) if each is not None))


def requirements(text: str) -> Iterator[Requirement | None]:
    """Parse one requirement after the other. None is yielded while a long one is not finished.

    Raises:
        InvalidLabelSelector: as `parse_label_selector`.
    """
    return _Parser(text).requirements()


class _Parser:
    def __init__(self, text: str) -> None:
        self._words = filter(None, (match[1] for match in _WORD.finditer(text)))
        self._word: str = next(self._words, "")

    def requirements(self) -> Iterator[Requirement | None]:
        while True:
            word = self._peek()
            if word == "":
                return
            if word in _SPECIAL and word != "!":
                raise InvalidLabelSelector(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                yield (yield from self._requirement())
            except InvalidLabelSelector as error:
                raise InvalidLabelSelector(f"unable to parse requirement: {error}") from None
            word = self._next()
            if word == "":
                return
            if word != ",":
                raise InvalidLabelSelector(f"found '{word}', expected: ',' or 'end of string'")
            following = self._peek()
            if following in _SPECIAL and following != "!":
                raise InvalidLabelSelector(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Generator[None, None, Requirement]:
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
        values = (yield from self._values()) if word in ("in", "notin") else {self._value()}
        yield from self._check(key, operator, sorted(values))
        return Requirement(key, operator, frozenset(values))

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        word = self._next()
        if word in _SPECIAL:
            raise InvalidLabelSelector(f"found '{word}', expected: identifier")
        return word

    def _values(self) -> Generator[None, None, set[str]]:
        word = self._next()
        if word != "(":
            raise InvalidLabelSelector(f"found '{word}' expected: '('")
        word = self._peek()
        if word == ")":
            self._next()
            return {""}
        if word in _SPECIAL and word != ",":
            raise InvalidLabelSelector(f"found '{word}', expected: ',', ')' or identifier")
        values = yield from self._identifiers()
        self._next()
        return values

    def _identifiers(self) -> Generator[None, None, set[str]]:
        values: set[str] = set()
        while True:
            yield
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
    def _check(key: str, operator: str, values: list[str]) -> Generator[None, None, None]:
        found = []
        for at, value in enumerate(values):
            if at:
                yield
            if operator in ("gt", "lt") and not _INTEGER.fullmatch(value):
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                found.append(str(wrong(f"values[{at}]", value, why)))
            if said := names.label_value(value):
                found.append(str(wrong(f"values[{at}][{key}]", value, "; ".join(said))))
        if found:
            raise InvalidLabelSelector(found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _peek(self) -> str:
        return self._word

    def _next(self) -> str:
        word = self._word
        self._word = next(self._words, "")
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
_TOGETHER: Mapping[str, Callable[[frozenset[str], frozenset[str]], frozenset[str]]] = {
    "in": lambda one, other: one & other,
    "notin": lambda one, other: one | other,
    "exists": lambda one, _: one,
    "absent": lambda one, _: one,
    "gt": lambda one, other: frozenset({max(*one, *other, key=int)}),
    "lt": lambda one, other: frozenset({min(*one, *other, key=int)}),
}
"""The values of two requirements on the same label with the same operator, as one."""
