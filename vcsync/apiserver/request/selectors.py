"""Field and label selectors of a request. They are parsed once, so that the request is executed as it was authorized."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from vcsync.apimachinery.selectors.field_selectors import (
    FieldSelector,
    InvalidFieldSelector,
    parse_field_selector,
    terms,
)
from vcsync.apimachinery.selectors.label_selectors import (
    InvalidLabelSelector,
    LabelSelector,
    parse_label_selector,
    requirements,
)
from vcsync.objects.text_cache import cache_short_texts
from vcsync.process.loop_turns import turn

NAME = "metadata.name"
SHORT = 512
"""Length up to which a selector is parsed without yielding to other tasks."""
AT_ONCE = 60
"""Requirements of a longer selector that are parsed before other tasks run: a third of a millisecond."""
NO_FIELDS = FieldSelector()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selectors:
    """The selectors of a request.

    Attributes:
        fields: Terms of the field selector.
        labels: Requirements of the label selector, or None if it is empty.
        wrong: Why a selector is invalid. Such a request is authorized as one without selectors, and then refused.
    """

    fields: FieldSelector = NO_FIELDS
    labels: LabelSelector | None = None
    wrong: str = ""

    @property
    def name(self) -> str:
        """The selected name if it is a possible name of an object, otherwise an empty text."""
        name = self.fields.exact(NAME) or ""
        return "" if name in (".", "..") or set(name) & set("/%") else name

    @property
    def demanded(self) -> tuple[tuple[str, str], ...]:
        """Fields and values that all selected objects have."""
        return tuple((each.field, each.value) for each in self.fields.terms if each.equal)


NOTHING = Selectors()


def read_short(fields: str, labels: str) -> Selectors | None:
    """Parse selectors. Returns None if they are too long; see `read`."""
    if not fields and not labels:
        return NOTHING
    if len(fields) > SHORT or len(labels) > SHORT:
        return None
    try:
        return Selectors(labels=_short_labels(labels), fields=_short_fields(fields))
    except (InvalidLabelSelector, InvalidFieldSelector) as error:
        return Selectors(wrong=str(error))


async def read(fields: str, labels: str) -> Selectors:
    """Parse selectors of any length, and let other tasks run meanwhile."""
    found = read_short(fields, labels)
    if found is not None:
        return found
    try:
        return Selectors(labels=await _labels(labels), fields=await _fields(fields))
    except (InvalidLabelSelector, InvalidFieldSelector) as error:
        return Selectors(wrong=str(error))


@cache_short_texts(1024, SHORT)
def _short_labels(text: str) -> LabelSelector | None:
    return parse_label_selector(text) if text.strip() else None


_short_fields = cache_short_texts(1024, SHORT)(parse_field_selector)


async def _labels(text: str) -> LabelSelector | None:
    if len(text) <= SHORT or not text.strip():
        return _short_labels(text)
    return LabelSelector(tuple(each for each in await _gently(requirements(text)) if each is not None))


async def _fields(text: str) -> FieldSelector:
    return _short_fields(text) if len(text) <= SHORT else FieldSelector(tuple(await _gently(terms(text))))


async def _gently(parts: Iterator[T]) -> list[T]:
    found: list[T] = []
    for each in parts:
        found.append(each)
        if not len(found) % AT_ONCE:
            await turn()
    return found
