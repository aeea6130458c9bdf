"""Which objects a list or a watch is about: label and field selectors on stored objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import bad_request
from vcsync.controlplane.lately import lately
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.fieldselectors import (
    FieldSelector,
    InvalidFieldSelector,
    Term,
    check_fields,
    parse_field_selector,
    terms,
)
from vcsync.controlplane.rest.kind import Kind, selectable
from vcsync.controlplane.rest.labelselectors import (
    InvalidLabelSelector,
    LabelSelector,
    parse_label_selector,
    requirements,
)
from vcsync.controlplane.rest.options import ListOptions
from vcsync.controlplane.rest.turns import turn

NAME, NAMESPACE = "metadata.name", "metadata.namespace"
_REGARDING = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
ALIASES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("events.k8s.io", "Event"): {
        "reportingController": "reportingComponent",
        **{f"regarding.{each}": f"involvedObject.{each}" for each in _REGARDING},
    },
    ("", "Pod"): {"spec.host": "spec.nodeName"},
}
"""Fields that clients of a group name otherwise than the kind itself does."""
MAX_SELECTOR = 16384
SHORT = 512
"""Length of a selector that is parsed at once."""
AT_ONCE = 60
"""Parts of a longer one that are parsed before others in the event loop get their turn: a third of a millisecond."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected. `labels` or `fields` None: that selector is empty.

    Attributes:
        metadata_only: whether the fields selected by are those of all kinds.
    """

    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    metadata_only: bool = True

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.labels is None and self.fields is None

    @property
    def name(self) -> str | None:
        """The one name that can match, None: any may."""
        return self.fields.exact(NAME) if self.fields else None

    @property
    def namespace(self) -> str | None:
        """The one namespace that can match, None: any may."""
        return self.fields.exact(NAMESPACE) if self.fields else None


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
    """Parse, with turns for others in between."""
    found: list[T] = []
    for each in parts:
        found.append(each)
        if not len(found) % AT_ONCE:
            await turn()
    return found


async def selection(kind: Kind, options: ListOptions, name: str = "") -> Selection:
    """Compile a request's selectors; `name`: the URL names one object.

    Raises:
        StatusError: 400.
    """
    if not (options.label_selector or options.field_selector or name):
        return Selection()
    if len(options.label_selector) + len(options.field_selector) > MAX_SELECTOR:
        raise bad_request("the selectors are too long")
    try:
        labels = await _labels(options.label_selector)
    except InvalidLabelSelector as error:
        raise bad_request(str(error)) from None
    known: frozenset[str] = frozenset()
    try:
        fields = await _fields(options.field_selector)
        aliases = ALIASES.get((kind.resource.group, kind.resource.kind))
        if fields.terms and aliases:
            fields = FieldSelector(
                tuple(replace(each, field=aliases.get(each.field, each.field)) for each in fields.terms)
            )
        if fields.terms:
            known = selectable(kind.behaviour)
            check_fields(
                fields, lambda each: each in (NAME, NAMESPACE) or each in known, _unknown(kind, known)
            )
    except InvalidFieldSelector as error:
        raise bad_request(str(error)) from None
    if name:
        if fields.terms and fields.exact(NAME) != name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        if not fields.terms:
            fields = FieldSelector((Term(NAME, name, True),))
    metadata_only = all(each.field in (NAME, NAMESPACE) for each in fields.terms)
    return Selection(labels, fields if fields.terms else None, metadata_only)


def _unknown(kind: Kind, known: frozenset[str]) -> Any:
    def words(field: str) -> str:
        if known or kind.resource.custom:
            return f"field label not supported: {field}"
        return f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"'

    return words


async def selected(kind: Kind, selection: Selection, key: str, value: bytes) -> bool:
    """Whether a stored object is selected."""
    if selection.labels is not None and not selection.labels.matches(stored.labels(value)):
        return False
    if selection.fields is None:
        return True
    found: Mapping[str, str] = metadata_fields(kind, key)
    if not selection.metadata_only:
        found = {**found, **await fields_of(kind, value)}
    return selection.fields.matches(found)


def metadata_fields(kind: Kind, key: str) -> dict[str, str]:
    """Return the fields of all kinds, by an object's key."""
    parts = key.split("/")
    if kind.resource.namespaced:
        return {NAMESPACE: parts[3], NAME: "/".join(parts[4:])}
    return {NAMESPACE: "", NAME: "/".join(parts[3:])}


async def fields_of(kind: Kind, value: bytes) -> dict[str, str]:
    """Return the fields of its kind that an object can be selected by."""
    resource = kind.resource
    obj: Object = stored.unpack(value, 0, resource.kind, resource.storage_api_version)
    return kind.behaviour.fields((await kind.load([obj]))[0])
