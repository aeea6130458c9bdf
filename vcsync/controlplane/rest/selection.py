"""Which objects a list or a watch is about: label and field selectors on stored objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import bad_request
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.fieldselectors import (
    FieldSelector,
    InvalidFieldSelector,
    Term,
    check_fields,
)
from vcsync.controlplane.rest.kind import Kind, selectable
from vcsync.controlplane.rest.labelselectors import LabelSelector
from vcsync.controlplane.rest.selectors import NAME, Selectors

NAMESPACE = "metadata.namespace"
_REGARDING = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
ALIASES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("events.k8s.io", "Event"): {
        "reportingController": "reportingComponent",
        **{f"regarding.{each}": f"involvedObject.{each}" for each in _REGARDING},
    },
    ("", "Pod"): {"spec.host": "spec.nodeName"},
}
"""Fields that clients of a group name otherwise than the kind itself does."""


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


def selection(kind: Kind, selectors: Selectors, name: str = "") -> Selection:
    """Apply a request's selectors to a kind; `name`: the URL names one object.

    Raises:
        StatusError: 400.
    """
    if selectors.wrong:
        raise bad_request(selectors.wrong)
    fields, known = selectors.fields, frozenset[str]()
    aliases = ALIASES.get((kind.resource.group, kind.resource.kind))
    if fields.terms and aliases:
        fields = FieldSelector(
            tuple(replace(each, field=aliases.get(each.field, each.field)) for each in fields.terms)
        )
    if fields.terms:
        known = selectable(kind.behaviour)
        try:
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
    return Selection(selectors.labels, fields if fields.terms else None, metadata_only)


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
