"""Output of commands: tables for people, JSON and YAML for programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml

from vcsync.cli.command.terminal import say
from vcsync.objects.readable_amounts import readable
from vcsync.process.legible import legible, legible_lines
from vcsync.tenancy.health import lasting


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows as columns separated by two spaces; an empty cell is shown as ``-``."""
    lines = [tuple(header), *(tuple(legible(cell) or "-" for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_objects(
    objects: Any,
    form: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    names: Iterable[str],
    more: tuple[Sequence[str], Iterable[Sequence[str]]] | None = None,
) -> None:
    """Print plain values as JSON or YAML, their names, or the given table.

    Args:
        objects: the plain values.
        form: value of `output_option`.
        header: header of the table.
        rows: rows of the table.
        names: names of the objects, as KIND/NAME.
        more: header and rows of additional columns of a wide table.
    """
    if form == "table" or (form == "wide" and more is None):
        say(table(header, rows))
    elif form == "wide" and more is not None:
        say(wide(header, rows, *more))
    elif form == "name":
        print_names(names)
    else:
        say(document(objects, form))


def print_names(names: Iterable[str]) -> None:
    """Print names, one per line; nothing if there are none."""
    for name in names:
        say(legible(name))


def wide(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    more_header: Sequence[str],
    more_rows: Iterable[Sequence[str]],
) -> str:
    """Format rows with additional columns."""
    joined = ((*row, *more) for row, more in zip(rows, more_rows, strict=True))
    return table((*header, *more_header), joined)


def document(value: Any, form: str) -> str:
    """Render plain values as ``json`` or ``yaml``."""
    if form == "json":
        return legible_lines(json.dumps(value, indent=2, ensure_ascii=False))
    text = _yaml(value, allow_unicode=True)
    # With escapes, programs read the same values.
    return _yaml(value, allow_unicode=False) if legible_lines(text) != text else text


def _yaml(value: Any, *, allow_unicode: bool) -> str:
    text = yaml.dump(
        value, Dumper=_PlainDumper, sort_keys=False, allow_unicode=allow_unicode, default_flow_style=False
    )
    return str(text).rstrip()


class _PlainDumper(yaml.SafeDumper):
    """Writes equal values repeatedly instead of using references."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def amounts(values: Mapping[str, str], only: Sequence[str] = ("cpu", "memory")) -> str:
    """Format resource amounts for one cell: ``cpu=2,memory=4Gi``."""
    return ",".join(f"{name}={readable(values[name], name)}" for name in only if name in values)


def pairs(values: Mapping[str, str]) -> str:
    """Format a mapping for one cell: ``a=b,c=d``."""
    return ",".join(f"{name}={value}" for name, value in sorted(values.items()))


def age(timestamp: str | None, now: datetime | None = None) -> str:
    """Format the age of an RFC 3339 time like kubectl: ``12s``, ``5m``, ``3h``, ``9d``."""
    if not timestamp:
        return ""
    seconds = max(0, int(((now or datetime.now(UTC)) - datetime.fromisoformat(timestamp)).total_seconds()))
    return lasting(seconds)
