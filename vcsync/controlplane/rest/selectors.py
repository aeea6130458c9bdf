"""A request's field and label selectors, parsed once: what is authorized is what is executed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from vcsync.controlplane.lately import lately
from vcsync.controlplane.rest.fieldselectors import (
    FieldSelector,
    InvalidFieldSelector,
    parse_field_selector,
    terms,
)
from vcsync.controlplane.rest.labelselectors import (
    InvalidLabelSelector,
    LabelSelector,
    parse_label_selector,
    requirements,
)
from vcsync.controlplane.rest.turns import turn

NAME = "metadata.name"
SHORT = 512
"""Length of a selector that is parsed at once."""
AT_ONCE = 60
"""Parts of a longer one that are parsed before others in the event loop get their turn: a third of a millisecond."""
NO_FIELDS = FieldSelector()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selectors:
    """What a request selects by.

    Attributes:
        fields: terms on fields.
        labels: requirements on labels; None: that selector is empty.
        wrong: why they cannot be read; then the request is refused once it is authorized as one for everything.
    """

    fields: FieldSelector = NO_FIELDS
    labels: LabelSelector | None = None
    wrong: str = ""

    @property
    def name(self) -> str:
        """The one name that is selected, if it is one that an object may have; empty: there is none."""
        name = self.fields.exact(NAME) or ""
        return "" if name in (".", "..") or set(name) & set("/%") else name

    @property
    def demanded(self) -> tuple[tuple[str, str], ...]:
        """The fields, with their values, that whatever is selected has."""
        return tuple((each.field, each.value) for each in self.fields.terms if each.equal)


NOTHING = Selectors()


def read_short(fields: str, labels: str) -> Selectors | None:
    """Parse selectors; None: they are too long for that, see `read`."""
    if not fields and not labels:
        return NOTHING
    if len(fields) > SHORT or len(labels) > SHORT:
        return None
    try:
        return Selectors(labels=_short_labels(labels), fields=_short_fields(fields))
    except (InvalidLabelSelector, InvalidFieldSelector) as error:
        return Selectors(wrong=str(error))


async def read(fields: str, labels: str) -> Selectors:
    """Parse selectors as long as a query may be, with turns for others in between."""
    found = read_short(fields, labels)
    if found is not None:
        return found
    try:
        return Selectors(labels=await _labels(labels), fields=await _fields(fields))
    except (InvalidLabelSelector, InvalidFieldSelector) as error:
        return Selectors(wrong=str(error))


@lately(1024, SHORT)
def _short_labels(text: str) -> LabelSelector | None:
    return parse_label_selector(text) if text.strip() else None


_short_fields = lately(1024, SHORT)(parse_field_selector)


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
