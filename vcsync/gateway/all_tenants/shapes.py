"""The forms in which answers over several control planes can be given: objects, their metadata, and Tables. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery.errors import not_acceptable
from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.tenant_marks import ANNOTATION, FIELD, TenantMark
from vcsync.apimachinery.wire import negotiation
from vcsync.gateway.all_tenants.known_objects import ObjectState
from vcsync.gateway.all_tenants.versions import BadToken, parse_number

TABLE = "Table"
META = "meta.k8s.io"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LISTED = {"PartialObjectMetadata": "PartialObjectMetadataList"}
WATCHED = {"PartialObjectMetadataList": "PartialObjectMetadata"}
MAX_NAME = 512
"""Longest name, namespace or UID."""
MAX_CELL = 2048
"""Longest text of a cell in a Table."""
UNKNOWN = "<unknown>"
"""Cell of a column that the API server of a tenant does not have."""
_JSON = frozenset({("application", "json"), ("application", "*"), ("*", "*")})


class Malformed(ValueError):
    """An API server has sent something that is no object, list, Table or event."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of the answer: whole objects, their metadata, or rows of a Table.

    Attributes:
        target: `Table`, `PartialObjectMetadata`, or empty: whole objects.
        version: Version of `meta.k8s.io`, if there is a target.
        mark: How objects name their tenants.
    """

    target: str
    version: str
    mark: TenantMark

    def accept(self, *, watch: bool) -> str:
        """Return the value of the Accept header for a list or a watch."""
        if not self.target:
            return "application/json"
        target = self.target if watch else LISTED.get(self.target, self.target)
        return f"application/json;as={target};v={self.version};g={META}"


@dataclass(frozen=True, slots=True)
class Template:
    """Members that all parts of the answer share, taken from the answer of the embedded control planes.

    Attributes:
        kind: Kind of one object.
        list_kind: Kind of the list.
        api_version: Their apiVersion.
        columns: Definitions of the columns of a Table, of which the first one names the tenant.
    """

    kind: str
    list_kind: str
    api_version: str
    columns: Sequence[Mapping[str, Any]] = ()


def negotiated(accept: str, mark: TenantMark, *, watch: bool) -> Shape:
    """Choose the shape of the answer.

    Raises:
        StatusError: 406, the client does not take JSON.
    """
    clauses = accept.split(",") if accept.strip() else ["*/*"]
    offered = [each for each in clauses if _media_type(each) in _JSON]
    if not offered:
        raise not_acceptable(
            "lists and watches over external control planes are available as application/json only"
        )
    found = negotiation.accepted(",".join(offered), watch=watch, lists=True)
    return Shape(WATCHED.get(found.target, found.target), found.version, mark)


def _media_type(clause: str) -> tuple[str, str]:
    main, _, sub = clause.partition(";")[0].strip().lower().partition("/")
    return main, sub


def mark_object(obj: Any, tenant: str, mark: TenantMark) -> ObjectState:
    """Have an object of an external control plane name its tenant, in place, and return who it is.

    What the object itself says in that place is replaced: a tenant's API server may say anything.

    Raises:
        Malformed: It is no object.
    """
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        raise Malformed("an object has no metadata")
    seen = _seen(metadata)
    annotations = metadata.get("annotations")
    own = {
        key: value
        for key, value in (annotations.items() if isinstance(annotations, dict) else ())
        if key != ANNOTATION
    }
    metadata.pop(FIELD, None)
    if mark is TenantMark.FIELD:
        metadata[FIELD] = tenant
        if own or annotations:
            metadata["annotations"] = own
    else:
        metadata["annotations"] = {**own, ANNOTATION: tenant}
    return seen


def _seen(metadata: Mapping[str, Any]) -> ObjectState:
    texts = [metadata.get(key, "") for key in ("namespace", "name", "uid")]
    if not all(isinstance(each, str) and len(each) <= MAX_NAME for each in texts):
        raise Malformed("an object has no name")
    version = metadata.get("resourceVersion", "")
    try:
        parse_number(version)
    except BadToken as error:
        raise Malformed(str(error)) from None
    namespace, name, uid = texts
    if not name:
        raise Malformed("an object has no name")
    return ObjectState(namespace, name, uid, version)


def check_types(obj: dict[str, Any], template: Template, shape: Shape) -> None:
    """Check that an object has the types of its kind: clients that decode it would otherwise refuse the whole answer.

    Raises:
        Malformed: It has not.
    """
    group, _, version = template.api_version.rpartition("/")
    try:
        if shape.target:
            walk.decode(obj["metadata"], builtin.definition(OBJECT_META))
        elif (schema := builtin.schema(group, version, template.kind)) is not None:
            walk.decode(obj, schema)
    except DecodeError as error:
        raise Malformed(f"an object does not have the types of its kind: {error}") from None


def synthetic(seen: ObjectState, template: Template, tenant: str, mark: TenantMark) -> dict[str, Any]:
    """Return the object of an event about an object that is gone, of which only its metadata is known."""
    metadata = {"name": seen.name, "uid": seen.uid, "resourceVersion": seen.version}
    if seen.namespace:
        metadata["namespace"] = seen.namespace
    obj: dict[str, Any] = {"kind": template.kind, "apiVersion": template.api_version, "metadata": metadata}
    mark_object(obj, tenant, mark)
    return obj


class Rows:
    """Puts the rows of a tenant's Tables below the columns of the answer.

    Args:
        template: Has the columns of the answer.
        tenant: The tenant.
        mark: How objects name their tenants.
    """

    def __init__(self, template: Template, tenant: str, mark: TenantMark) -> None:
        self._template = template
        self._tenant = tenant
        self._mark = mark
        self._places: list[int | None] = []

    def learn(self, columns: Any) -> None:
        """Take the definitions of the columns of the tenant's Table. None: they are as before.

        Raises:
            Malformed: They are none.
        """
        if columns is None:
            return
        if not isinstance(columns, list) or not all(isinstance(each, dict) for each in columns):
            raise Malformed("a Table has no columns")
        names = [each.get("name") for each in columns]
        self._places = [
            names.index(each["name"]) if each["name"] in names else None
            for each in self._template.columns[1:]
        ]

    def row(self, row: Any) -> tuple[dict[str, Any], ObjectState | None]:
        """Return a row of the answer, and which object it shows, if it says so.

        Raises:
            Malformed: It is no row.
        """
        cells = row.get("cells") if isinstance(row, dict) else None
        if not isinstance(cells, list):
            raise Malformed("a Table has no rows")
        found: dict[str, Any] = {
            "cells": [self._tenant, *(_cell(cells, each) for each in self._places)],
            "object": row.get("object"),
        }
        if found["object"] is None:
            return found, None
        seen = mark_object(found["object"], self._tenant, self._mark)
        check_types(found["object"], self._template, Shape(TABLE, "v1", self._mark))
        return found, seen

    def gone(self, seen: ObjectState) -> dict[str, Any]:
        """Return the row of an object that is gone."""
        obj = synthetic(seen, self._template, self._tenant, self._mark)
        obj |= {"kind": "PartialObjectMetadata", "apiVersion": f"{META}/v1"}
        named = (each["name"] for each in self._template.columns[1:])
        cells = [seen.name if each == "Name" else UNKNOWN for each in named]
        return {"cells": [self._tenant, *cells], "object": obj}


def _cell(cells: Sequence[Any], place: int | None) -> Any:
    """Return a cell, which must be plain, because it is shown on a terminal."""
    value = cells[place] if place is not None and place < len(cells) else UNKNOWN
    if isinstance(value, str):
        return value[:MAX_CELL]
    return value if value is None or isinstance(value, bool | int | float) else UNKNOWN


def with_version(obj: dict[str, Any], version: str) -> dict[str, Any]:
    """Return an object, or the Table of one, with another resource version."""
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "resourceVersion": version}}
