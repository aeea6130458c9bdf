"""Tables, as `kubectl get` shows them, built from columns and cells. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apimachinery.tenant_marks import tenant_of
from vcsync.apimachinery.wire import cells, jsonpath
from vcsync.apimachinery.wire.cells import Cell, Object
from vcsync.objects.budget import Budget, BudgetExceeded

ROW_VALUES = 10_000
"""Most values that the JSONPaths of one row visit. Each `TEXT_BYTES` of a shown value count as one. Upstream has no limit."""
TEXT_BYTES = 256
BEYOND_BUDGET = "<too many values>"
"""Text of the remaining cells of a row that needs more than `ROW_VALUES`, whatever the type of their columns."""
INCLUDES = frozenset({"", "None", "Metadata", "Object"})
TENANT_COLUMN = {
    "name": "Tenant",
    "type": "string",
    "format": "",
    "description": "Tenant of the object",
    "priority": 0,
}
"""Definition of the first column in Tables of all tenants."""


class Column(Protocol):
    """A printer column of a custom resource, as in its definition.

    `path` is the compiled path of the value. None: the path is not supported, and the cells are null.
    """

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
    def path(self) -> jsonpath.Path | None: ...  # noqa: D102


def include_object(query: str) -> str:
    """Check the query parameter `includeObject`, and return it.

    Raises:
        StatusError: 400.
    """
    if query in INCLUDES:
        return query
    quoted = msgspec.json.encode(query).decode()
    detail = f"includeObject: Invalid value: {quoted}: must be 'Metadata', 'Object', 'None', or empty"
    raise bad_request(f"Unable to convert to Table as requested: {detail}")


def custom_table(
    columns: Sequence[Column],
    objects: Sequence[Object],
    *,
    now: datetime,
    metadata: Object,
    include: str = "",
    version: str = "v1",
    headers: bool = True,
    tenants: bool = False,
    budget: Budget | None = None,
) -> dict[str, Any]:
    """Return the Table of custom resources. The cells of a row visit `ROW_VALUES` values at most.

    Args:
        columns: Columns of the definition, including that of the name.
        objects: Objects in any version.
        now: Time that ages are relative to.
        metadata: Metadata of the list, or the resourceVersion of a single object.
        include: Part of the object in each row: `Object`, `None`, otherwise its metadata.
        version: Version of `meta.k8s.io`.
        headers: Whether the Table has column definitions. Only the first event of a watch has them.
        tenants: Whether the first column is `TENANT_COLUMN`.
        budget: Spent for the rows, so that a caller can rest between them.
    """
    definitions: list[dict[str, Any]] | None = None
    if headers:
        definitions = tenant_columns(shown=tenants)
        definitions += [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in columns
        ]
    rows = []
    for obj in objects:
        values = Budget("a row of a Table", ROW_VALUES)
        ordered = [*tenant_cells(shown=tenants), *(_custom_cell(column, values) for column in columns)]
        rows.append(row(obj, ordered, [], now=now, include=include, version=version))
        if budget is not None:
            budget.spend(values.taken + len(columns))
    return table(definitions, rows, metadata, version)


def tenant_columns(*, shown: bool) -> list[dict[str, Any]]:
    """Return the definitions of the columns that Tables of all tenants have besides those of the kind."""
    return [dict(TENANT_COLUMN)] if shown else []


def tenant_cells(*, shown: bool) -> list[Cell]:
    """Return the functions of the cells below `tenant_columns`."""
    return [_tenant_cell] if shown else []


def _tenant_cell(obj: Object, _now: datetime) -> str:
    return tenant_of(obj.get("metadata") or {})


def refused(resource: str) -> StatusError:
    """Return the 406 for a resource without Tables (`pods`, `scales.autoscaling`)."""
    return StatusError(
        406, "NotAcceptable", f"the resource {resource} does not support being converted to a Table"
    )


def table(columns: Any, rows: Any, metadata: Object, version: str) -> dict[str, Any]:
    """Return a Table.

    Args:
        columns: Column definitions, or None.
        rows: Rows, or None.
        metadata: Metadata of the list, or the resourceVersion of a single object.
        version: Version of `meta.k8s.io`.
    """
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(metadata),
        "columnDefinitions": columns,
        "rows": rows,
    }


def row(
    obj: Object,
    ordered: Sequence[Cell],
    conditions: list[dict[str, str]],
    *,
    now: datetime,
    include: str,
    version: str,
) -> dict[str, Any]:
    """Return one row of a Table.

    Args:
        obj: The object.
        ordered: Functions of its cells, in order.
        conditions: Conditions of the row.
        now: Time that ages are relative to.
        include: Part of the object in the row: `Object`, `None`, otherwise its metadata.
        version: Version of `meta.k8s.io`.
    """
    made: dict[str, Any] = {"cells": [cell(obj, now) for cell in ordered]}
    if conditions:
        made["conditions"] = conditions
    carried: Any = obj
    if include == "None":
        carried = None
    elif include != "Object":
        carried = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": obj.get("metadata", {}),
        }
    made["object"] = carried
    return made


def _custom_cell(column: Column, budget: Budget) -> Cell:
    path, kind = column.path, column.type

    def cell(obj: Object, now: datetime) -> Any:
        if path is None:
            return None
        try:
            found, value = jsonpath.first(path, obj, budget)
            if not found:
                return None
            shown = _text(value) if kind == "string" else _typed(kind, value, now)
            budget.spend(len(shown) // TEXT_BYTES if isinstance(shown, str) else 0)
        except BudgetExceeded:
            return BEYOND_BUDGET
        return shown

    return cell


def _typed(kind: str, value: Any, now: datetime) -> Any:
    """Return a value as shown in a column of a type, or None if the value has another type."""
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
    """Format a value as Go's templates do."""
    if value is None:
        return "<no value>"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return msgspec.json.encode(value, order="sorted").decode()
