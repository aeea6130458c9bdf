"""Tables of the built-in kinds, as `kubectl get` shows them. Pure, but for the recorded columns.

`python -m hack.table_columns` records the columns of a real server in columns.jsonl. Each kind declares the cells.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from vcsync.apimachinery.kinds.all_kinds import by_kind
from vcsync.apimachinery.wire import cells, tables
from vcsync.apimachinery.wire.cells import Object, Printer

Key = tuple[str, str]
"""Group and kind."""

PLAIN: Printer = {"Name": cells.name, "Created At": cells.created}
"""The cells of kinds that declare none."""
PLAIN_COLUMNS: Key = ("", "LimitRange")
"""The kind whose recorded columns apply to all kinds that declare no cells."""


def ordered(group: str, kind: str) -> bool:
    """Return whether a kind sorts its rows, so that a Table needs the whole list."""
    declared = by_kind(group, kind)
    return declared is not None and declared.row_order is not None


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
    tenants: bool = False,
) -> dict[str, Any]:
    """Make the Table of objects of a built-in kind.

    Args:
        group: the group of the kind.
        kind: the kind of the objects.
        objects: the objects, in the storage version.
        now: the time that ages are relative to.
        metadata: the list's metadata, or that of a single object with its resourceVersion.
        include: what a row contains of its object: `Object`, `None`, or the metadata otherwise.
        version: the version of `meta.k8s.io`.
        headers: whether the Table has column definitions. Only the first event of a watch has them.
        tenants: whether the first column names the tenants of the objects.
    """
    key = (group, kind)
    declared = by_kind(group, kind)
    own = recorded_columns().get(key) or recorded_columns()[PLAIN_COLUMNS]
    printer = PLAIN if declared is None or declared.columns is None else declared.columns
    names = [column["name"] for column in own]
    kinds = [printer[each] for each in (*names, *(each for each in printer if each not in names))]
    columns = [*tables.tenant_columns(shown=tenants), *own]
    chosen = [*tables.tenant_cells(shown=tenants), *kinds]
    listed: Sequence[Object] = objects
    if declared is not None and declared.row_order is not None:
        listed = sorted(objects, key=declared.row_order)
    rows = [
        tables.row(
            obj,
            chosen,
            [] if declared is None else declared.row_conditions(obj),
            now=now,
            include=include,
            version=version,
        )
        for obj in listed
    ]
    # kube-apiserver answers null instead of an empty list for kinds without a printer.
    empty: list[Any] | None = None if printer is PLAIN else []
    return tables.table(columns if headers else None, rows or empty, metadata, version)


@cache
def recorded_columns() -> dict[Key, list[dict[str, Any]]]:
    """Return the definitions of the columns of each kind."""
    text = resources.files(__package__).joinpath("columns.jsonl").read_bytes()
    entries = [msgspec.json.decode(line) for line in text.splitlines()]
    return {(group, kind): columns for group, kind, columns in entries}
