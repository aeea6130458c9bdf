"""The events of watches: those of each control plane as they come, and those of the answer. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from vcsync.api import names
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.wire import encode
from vcsync.gateway.all_tenants.known_objects import ObjectState
from vcsync.gateway.all_tenants.pages import decoded, encoded
from vcsync.gateway.all_tenants.shapes import (
    META,
    TABLE,
    Malformed,
    Rows,
    Shape,
    Template,
    check_types,
    mark_object,
    synthetic,
    with_version,
)
from vcsync.gateway.all_tenants.versions import BadToken, parse_number

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
CHANGES = frozenset({ADDED, MODIFIED, DELETED})
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
SHOWN = 10
"""Tenants that a bookmark names."""


class Change(NamedTuple):
    """One event of a control plane.

    Attributes:
        type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, which has no object, or `ERROR`.
        version: Version of the control plane after it.
        obj: The object, or the Table of one, which names its tenant; or its JSON.
        seen: Who it is, for objects of external control planes.
    """

    type: str
    version: int
    obj: dict[str, Any] | bytes = b""
    seen: ObjectState | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    code: int = 0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_event = msgspec.json.Decoder(_Event).decode
_object = msgspec.json.Decoder(_Object).decode


def read_event(line: bytes) -> tuple[Change, int]:
    """Read a line of a watch.

    Returns:
        The event, whose object has not been checked; and the status code of an error.

    Raises:
        Malformed: It is no event.
    """
    try:
        found = _event(line)
        about = _object(found.object)
        if found.type == ERROR:
            return Change(ERROR, 0, bytes(found.object)), about.code
        if found.type != BOOKMARK and found.type not in CHANGES:
            raise Malformed("an event has an unknown type")
        return Change(found.type, parse_number(about.metadata.resource_version), bytes(found.object)), 0
    except (msgspec.MsgspecError, BadToken, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(f"an event is malformed: {error}") from None


class EventMarker:
    """Has the events of an external control plane name their tenant.

    Args:
        template: What all parts of the answer have in common.
        shape: Shape of the answer.
        tenant: The tenant.
    """

    def __init__(self, template: Template, shape: Shape, tenant: str) -> None:
        self._template = template
        self._shape = shape
        self._tenant = tenant
        self._rows = Rows(template, tenant, shape.mark)

    def marked(self, change: Change) -> Change:
        """Return a change whose object names its tenant.

        Raises:
            Malformed: It is no object.
        """
        obj = decoded(change.obj if isinstance(change.obj, bytes) else encoded(change.obj))
        if self._shape.target != TABLE:
            seen = mark_object(obj, self._tenant, self._shape.mark)
            obj |= {"kind": self._template.kind, "apiVersion": self._template.api_version}
            check_types(obj, self._template, self._shape)
            return change._replace(obj=obj, seen=seen)
        if not isinstance(obj, dict):
            raise Malformed("a Table is malformed")
        self._rows.learn(obj.get("columnDefinitions"))
        rows = obj.get("rows")
        if not isinstance(rows, list) or len(rows) != 1:
            raise Malformed("the Table of an event has not one row")
        row, who = self._rows.row(rows[0])
        return change._replace(obj=table(row, change.version), seen=who)

    def listed(
        self, kind: str, version: int, value: dict[str, Any] | bytes, seen: ObjectState | None
    ) -> Change:
        """Return an event about an item of a list. The version is that of the control plane after it."""
        obj = listed_object(value, self._template, self._shape, seen)
        return Change(kind, version, obj, seen)

    def gone(self, version: int, seen: ObjectState) -> Change:
        """Return the event about an object that is gone."""
        if self._shape.target == TABLE:
            return Change(DELETED, version, table(self._rows.gone(seen), int(seen.version or 0)), seen)
        return Change(DELETED, version, synthetic(seen, self._template, self._tenant, self._shape.mark), seen)


def table(row: dict[str, Any], version: int) -> dict[str, Any]:
    """Return a Table with one row."""
    return {
        "kind": TABLE,
        "apiVersion": f"{META}/v1",
        "metadata": {"resourceVersion": str(version)},
        "columnDefinitions": None,
        "rows": [row],
    }


def listed_object(
    value: dict[str, Any] | bytes, template: Template, shape: Shape, seen: ObjectState | None = None
) -> dict[str, Any]:
    """Return the object of an event about an item of a list, whose items need not say their kind."""
    found = decoded(value) if isinstance(value, bytes) else value
    if shape.target == TABLE:
        about = (found.get("object") or {}).get("metadata") or {}
        version = seen.version if seen is not None else about.get("resourceVersion", "")
        return table(found, int(version or 0))
    return {"kind": template.kind, "apiVersion": template.api_version, **found}


class EventWriter:
    """Writes the events of one answer.

    Args:
        template: What all parts of the answer have in common.
        shape: Shape of the answer.
    """

    def __init__(self, template: Template, shape: Shape) -> None:
        self._template = template
        self._shape = shape
        self._columns = shape.target == TABLE

    def change(self, change: Change, version: str = "") -> bytes:
        """Return the line of a change.

        Args:
            change: The change.
            version: Resource version that its object gets; empty: it keeps its own.

        Raises:
            Malformed: The object cannot be written.
        """
        obj = change.obj
        if isinstance(obj, bytes) and not version:
            # The first event of the embedded control planes has the columns.
            return encode.watch_event(change.type, obj)
        if isinstance(obj, bytes):
            obj = decoded(obj)
        if version:
            obj = with_version(obj, version)
        if self._columns:
            self._columns = False
            obj = {**obj, "columnDefinitions": list(self._template.columns)}
        return encode.watch_event(change.type, encoded(obj))

    def bookmark(self, version: str, *, initial: bool = False, lost: Sequence[str] = ()) -> bytes:
        """Return the line of a bookmark.

        Args:
            version: Resource version.
            initial: Whether it ends the initial list.
            lost: Tenants whose changes do not arrive now.
        """
        annotations = {INITIAL_EVENTS_END: "true"} if initial else {}
        if lost:
            more = f",+{len(lost) - SHOWN}" if len(lost) > SHOWN else ""
            annotations[names.UNREACHABLE] = ",".join(lost[:SHOWN]) + more
        metadata: dict[str, Any] = {"resourceVersion": version}
        if annotations:
            metadata["annotations"] = annotations
        obj: dict[str, Any] = {
            "kind": self._template.kind,
            "apiVersion": self._template.api_version,
            "metadata": metadata,
        }
        if self._shape.target == TABLE:
            about = {"kind": "PartialObjectMetadata", "apiVersion": f"{META}/v1", "metadata": metadata}
            cells = [""] * len(self._template.columns)
            obj = with_version(table({"cells": cells, "object": about}, 0), version)
        return encode.watch_event(BOOKMARK, encoded(obj))

    @staticmethod
    def failed(error: StatusError) -> bytes:
        """Return the line that ends the watch with an error."""
        return encode.watch_event(ERROR, encoded(error.status()))
