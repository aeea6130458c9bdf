"""How answers are printed: tables for people, JSON and YAML for programs."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import yaml

from vcsync.kube.amounts import readable

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_UNSEEN_IN_JSON = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def legible(text: str) -> str:
    """Write control characters out: what tenants write must neither command a terminal nor begin a line of its own."""
    return _CONTROL.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay rows out in columns two spaces apart; an empty cell shows as ``-``."""
    lines = [tuple(header), *(tuple(legible(cell) or "-" for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def print_objects(objects: Any, form: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print plain values as JSON or YAML, or the given table."""
    if form == "table":
        click.echo(table(header, rows))
    else:
        click.echo(document(objects, form))


def document(value: Any, form: str) -> str:
    """Render plain values as ``json`` or ``yaml``."""
    if form == "json":
        return _UNSEEN_IN_JSON.sub(_written_out, json.dumps(value, indent=2, ensure_ascii=False))
    text = yaml.dump(
        value, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return str(text).rstrip()


class _PlainDumper(yaml.SafeDumper):
    """Writes equal values out each time, instead of by reference."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def amounts(values: Mapping[str, str], only: Sequence[str] = ("cpu", "memory")) -> str:
    """Show resource amounts in one cell: ``cpu=2,memory=4Gi``."""
    return ",".join(f"{name}={readable(values[name], name)}" for name in only if name in values)


def age(timestamp: str | None, now: datetime | None = None) -> str:
    """Say how long ago an RFC 3339 time was, like kubectl does: ``12s``, ``5m``, ``3h``, ``9d``."""
    if not timestamp:
        return ""
    seconds = max(0, int(((now or datetime.now(UTC)) - datetime.fromisoformat(timestamp)).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length or (unit != "m" and seconds >= length):
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
