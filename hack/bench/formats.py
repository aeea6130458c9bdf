"""Formats the rows of the report as text, Markdown and JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hack.bench.meter import Request, Usage
from hack.bench.report import Aim, Results, Row, number
from hack.bench.runs import Burst

_HEADINGS = ("", "direct", "tenant", "ratio", "scaled", "Go direct", "Go tenant", "Go ratio", "aim", "")


def table(made: Sequence[Row]) -> str:
    """Format the rows as text in columns."""
    return columns([_HEADINGS, *(_cells(row) for row in made)])


def markdown(made: Sequence[Row]) -> str:
    """Format the rows as a Markdown table."""
    return markdown_table([_HEADINGS, *(_cells(row) for row in made)])


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Format lines of cells, the headings first, as text in columns; the first and the last one start at the left."""
    last = len(lines[0]) - 1
    widths = [max(len(line[column]) for line in lines) for column in range(last + 1)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column in (0, last) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    """Format lines of cells, the headings first, as a Markdown table."""
    headings, *others = lines
    rule = ("---", *(["--:"] * (len(headings) - 2)), "---")
    return "\n".join(
        "| " + " | ".join(cell.strip() for cell in line) + " |" for line in (headings, rule, *others)
    )


def _cells(row: Row) -> tuple[str, ...]:
    name = f"{row.name} ({row.unit})" if row.unit else row.name
    figures = (row.direct, row.tenant, row.ratio, row.scaled, row.go_direct, row.go_tenant, row.go_ratio)
    return (name, *map(number, figures), _aim(row.aim), row.verdict)


def _aim(aim: Aim | None) -> str:
    if aim is None:
        return ""
    text = f"{'≤' if aim.at == 'most' else '≥'} {number(aim.limit)}"
    return text + {"tenant": "", "ratio": " ratio", "difference": " more", "scaled": " scaled"}[aim.of]


def request_table(burst: Burst) -> str:
    """Format requests per Pod by server, verb and resource, the frequent ones first."""
    lines = [f"{'requests per Pod':<40}{'':>8}"]
    lines += [
        f"{request.server:<8} {request.verb:<8} {request.resource:<22} {count / burst.pods:8.2f}"
        for request, count in _frequent(burst.usage)
        if count / burst.pods >= 0.005
    ]
    return "\n".join(lines)


def _frequent(usage: Usage) -> Iterable[tuple[Request, int]]:
    return sorted(
        ((request, count) for request, count in usage.requests.items() if not request.is_standing),
        key=lambda pair: -pair[1],
    )


def document(results: Results, made: Sequence[Row], settings: dict[str, Any]) -> bytes:
    """Return everything as JSON: machine, settings, table, raw results."""
    cells = [
        {
            **msgspec.to_builtins(row),
            "ratio": row.ratio,
            "goRatio": row.go_ratio,
            "judged": row.judged,
            "met": row.met,
        }
        for row in made
    ]
    return record(cells, results, settings)


def record(cells: Sequence[dict[str, Any]], measured: Any, settings: dict[str, Any]) -> bytes:
    """Return the JSON of a run.

    Args:
        cells: the rows of its table.
        measured: raw results, as structs.
        settings: of the run.
    """
    whole = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "settings": settings,
        "table": cells,
        "measured": _plain(measured),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1)


def machine() -> dict[str, Any]:
    """Describe the machine of the run."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpus": os.cpu_count(),
        "model": models[0] if models else platform.machine(),
        "memoryGiB": round(memory / 2**30, 1),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": os.getloadavg(),
    }


def _plain(value: Any) -> Any:
    """Convert structs to objects, and counts by kind of request to a list."""
    if isinstance(value, Usage):
        return {
            "cpuSeconds": value.cpu,
            "foreignShare": value.foreign,
            "requests": [
                {"server": request.server, "verb": request.verb, "resource": request.resource, "count": count}
                for request, count in sorted(value.requests.items())
            ],
        }
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
