"""Applies the label and field selectors of lists and watches to stored objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vcsync.apimachinery.errors import bad_request
from vcsync.apimachinery.selectors.field_selectors import (
    FieldSelector,
    InvalidFieldSelector,
    Term,
    check_fields,
)
from vcsync.apimachinery.selectors.label_selectors import LabelSelector
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.resource import Kind, selectable
from vcsync.apiserver.request.selectors import NAME, Selectors

NAMESPACE = "metadata.namespace"
_REGARDING = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
ALIASES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("events.k8s.io", "Event"): {
        "reportingController": "reportingComponent",
        **{f"regarding.{each}": f"involvedObject.{each}" for each in _REGARDING},
    },
    ("", "Pod"): {"spec.host": "spec.nodeName"},
}
"""(group, kind) -> field label in requests -> field label that the kind declares."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selectors of a request, checked for a kind.

    Attributes:
        labels: Label selector, or None if it is empty.
        fields: Field selector, or None if it is empty.
        metadata_only: Whether the field selector uses only `metadata.name` and `metadata.namespace`.
    """

    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    metadata_only: bool = True

    @property
    def everything(self) -> bool:
        """Whether all objects match."""
        return self.labels is None and self.fields is None

    @property
    def name(self) -> str | None:
        """The only name that can match, or None if several can."""
        return self.fields.exact(NAME) if self.fields else None

    @property
    def namespace(self) -> str | None:
        """The only namespace that can match, or None if several can."""
        return self.fields.exact(NAMESPACE) if self.fields else None


def selection(kind: Kind, selectors: Selectors, name: str = "") -> Selection:
    """Check the selectors of a request for a kind.

    Args:
        kind: Kind of the objects.
        selectors: The selectors.
        name: Name of the object in the URL. Empty: the URL names a collection.

    Raises:
        StatusError: 400 if a selector is invalid, uses a field that the kind does not support, or contradicts the URL.
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
    def message(field: str) -> str:
        if known or kind.resource.custom:
            return f"field label not supported: {field}"
        return f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"'

    return message


async def selected(kind: Kind, selection: Selection, key: str, value: bytes) -> bool:
    """Return whether a stored object matches.

    Args:
        kind: Kind of the object.
        selection: The selectors.
        key: Key of the object.
        value: The object in its stored form.
    """
    if selection.labels is not None and not selection.labels.matches(stored.labels(value)):
        return False
    if selection.fields is None:
        return True
    fields: Mapping[str, str] = metadata_fields(kind, key)
    if not selection.metadata_only:
        fields = {**fields, **await fields_of(kind, value)}
    return selection.fields.matches(fields)


def metadata_fields(kind: Kind, key: str) -> dict[str, str]:
    """Return the selectable fields that all kinds have, from the key of an object."""
    parts = key.split("/")
    if kind.resource.namespaced:
        return {NAMESPACE: parts[3], NAME: "/".join(parts[4:])}
    return {NAMESPACE: "", NAME: "/".join(parts[3:])}


async def fields_of(kind: Kind, value: bytes) -> dict[str, str]:
    """Return the selectable fields of an object that its kind declares."""
    resource = kind.resource
    obj: Object = stored.unpack(value, 0, resource.kind, resource.storage_api_version)
    return kind.behaviour.fields((await kind.load([obj]))[0])
