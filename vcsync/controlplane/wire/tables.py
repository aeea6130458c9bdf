"""Tables: what `kubectl get` shows, made of columns and cells. Pure.

Columns of built-in kinds are recorded from a real server (printers/columns.jsonl); cells are in printers/.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Protocol

import msgspec

from vcsync.controlplane.errors import StatusError, bad_request
from vcsync.controlplane.wire import jsonpath
from vcsync.controlplane.wire.printers import cells, cluster, network, pods, storage, workloads
from vcsync.controlplane.wire.printers.cells import Cell, Object, Printer

Key = tuple[str, str]
"""Group and kind."""

INCLUDES = frozenset({"", "None", "Metadata", "Object"})
PRINTERS: Mapping[Key, Printer] = {
    **cluster.PRINTERS,
    **network.PRINTERS,
    **storage.PRINTERS,
    **workloads.PRINTERS,
    ("", "Pod"): pods.POD,
}
PLAIN: Printer = {"Name": cells.name, "Created At": cells.created}
"""The cells of kinds that have no printer of their own."""
PLAIN_COLUMNS: Key = ("", "LimitRange")
"""A kind without a printer: its columns are those of all such."""
ROW_CONDITIONS: Mapping[Key, Callable[[Object], list[dict[str, str]]]] = {("", "Pod"): pods.row_conditions}

ORDERS: Mapping[Key, Callable[[Object], Any]] = {
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): cluster.precedence,
}
"""Kinds whose rows do not stand in the order of the list."""


class Column(Protocol):
    """A column of a custom resource's Tables, as its definition says; `json_path` tells where the value stands."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def type(self) -> str: ...  # noqa: D102
    @property
    def format(self) -> str: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def priority(self) -> int: ...  # noqa: D102
    @property
    def json_path(self) -> str: ...  # noqa: D102


def include_object(query: str) -> str:
    """Check the query parameter `includeObject`.

    Raises:
        StatusError: 400.
    """
    if query in INCLUDES:
        return query
    shown = msgspec.json.encode(query).decode()
    why = f"includeObject: Invalid value: {shown}: must be 'Metadata', 'Object', 'None', or empty"
    raise bad_request(f"Unable to convert to Table as requested: {why}")


def table(
    group: str,
    kind: str,
    objects: Sequence[Object],
    *,
    now: datetime,
    metadata: Object,
    include: str = "",
    version: str = "v1",
    headers: bool = True,
) -> dict[str, Any]:
    """Make the Table of objects of a built-in kind.

    Args:
        group: of the kind.
        kind: of the objects.
        objects: in the storage version.
        now: what ages are told against.
        metadata: of the list, or the resourceVersion of the one object.
        include: what a row carries of its object: `Object`, `None`, else its metadata.
        version: of `meta.k8s.io`.
        headers: whether columns are told; a watch tells them with its first event only.
    """
    key = (group, kind)
    columns = _columns().get(key) or _columns()[PLAIN_COLUMNS]
    printer = PRINTERS.get(key, PLAIN)
    told = [column["name"] for column in columns]
    ordered = [printer[each] for each in (*told, *(each for each in printer if each not in told))]
    conditions = ROW_CONDITIONS.get(key, _no_conditions)
    listed = sorted(objects, key=ORDERS[key]) if key in ORDERS else objects
    rows = [_row(obj, ordered, conditions(obj), now=now, include=include, version=version) for obj in listed]
    # The real server has no rows, instead of none, where it has no printer.
    return _table(columns if headers else None, rows or ([] if key in PRINTERS else None), metadata, version)


def custom_table(
    columns: Sequence[Column],
    objects: Sequence[Object],
    *,
    now: datetime,
    metadata: Object,
    include: str = "",
    version: str = "v1",
    headers: bool = True,
) -> dict[str, Any]:
    """Make the Table of custom resources; arguments as of `table`. The columns include the name's."""
    ordered = [_custom_cell(column) for column in columns]
    told = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]
    rows = [_row(obj, ordered, [], now=now, include=include, version=version) for obj in objects]
    return _table(told if headers else None, rows, metadata, version)


def refused(resource: str) -> StatusError:
    """Say that a resource (`pods`, `scales.autoscaling`) has no Tables."""
    return StatusError(
        406, "NotAcceptable", f"the resource {resource} does not support being converted to a Table"
    )


def _no_conditions(_: Object) -> list[dict[str, str]]:
    return []


def _table(columns: Any, rows: Any, metadata: Object, version: str) -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(metadata),
        "columnDefinitions": columns,
        "rows": rows,
    }


def _row(
    obj: Object,
    ordered: Sequence[Cell],
    conditions: list[dict[str, str]],
    *,
    now: datetime,
    include: str,
    version: str,
) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [cell(obj, now) for cell in ordered]}
    if conditions:
        row["conditions"] = conditions
    carried: Any = obj
    if include == "None":
        carried = None
    elif include != "Object":
        carried = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": obj.get("metadata", {}),
        }
    row["object"] = carried
    return row


@cache
def _columns() -> dict[Key, list[dict[str, Any]]]:
    text = resources.files(f"{__package__}.printers").joinpath("columns.jsonl").read_bytes()
    entries = [msgspec.json.decode(line) for line in text.splitlines()]
    return {(group, kind): columns for group, kind, columns in entries}


def _custom_cell(column: Column) -> Cell:
    path, kind = column.json_path, column.type

    def cell(obj: Object, now: datetime) -> Any:
        try:
            there, value = jsonpath.first(path, obj)
        except jsonpath.BadPath:
            return None
        if not there:
            return None
        return _text(value) if kind == "string" else _typed(kind, value, now)

    return cell


def _typed(kind: str, value: Any, now: datetime) -> Any:
    """Return a value as a column of a type shows it, None if it has another type."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer" and number:
        return int(value)
    if kind == "number" and number:
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "date" and isinstance(value, str):
        return cells.ago(value, now) if not value or cells.moment(value) else "<invalid>"
    return None


def _text(value: Any) -> str:
    """Write a value as Go's templates do."""
    if value is None:
        return "<no value>"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return msgspec.json.encode(value, order="sorted").decode()
