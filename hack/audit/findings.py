"""Differences as data, and how they are printed."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

LONGEST_CELL = 90

_TITLES = ("RULE", "TENANT", "SUPER", "OBJECT", "FIELD", "EXPECTED", "ACTUAL")


Difference = tuple[str, Any, Any]
"""(field, expected, actual)"""


@dataclass(frozen=True)
class Finding:
    """One difference between the actual and the expected state."""

    rule: str
    """The kind of difference in one word: missing, foreign, doubled, stale, ..."""
    tenant: str = ""
    """Cluster key of the tenant that it concerns; empty if it concerns none."""
    super_cluster: str = ""
    kind: str = ""
    """Plural, for instance `pods`."""
    namespace: str = ""
    name: str = ""
    field: str = ""
    expected: Any = None
    actual: Any = None

    def __str__(self) -> str:
        """Return a line for people."""
        where = "/".join(part for part in (self.tenant, self.super_cluster) if part)
        what = f"{self.kind} {self.namespace}/{self.name}"
        values = f"expected {cell(self.expected)}, found {cell(self.actual)}"
        return f"{self.rule}: [{where}] {what} {self.field}: {values}"


def cell(value: Any) -> str:
    """Return a value as text of bounded length."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def table(findings: Iterable[Finding]) -> str:
    """Return the findings as a table with a line for each."""
    rows = [_TITLES, *(_row(finding) for finding in findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(finding: Finding) -> tuple[str, ...]:
    return (
        finding.rule,
        finding.tenant,
        finding.super_cluster,
        f"{finding.kind} {finding.namespace}/{finding.name}",
        finding.field,
        cell(finding.expected),
        cell(finding.actual),
    )


def as_json(findings: Iterable[Finding]) -> str:
    """Return the findings as a JSON list."""
    return json.dumps([asdict(finding) for finding in findings], indent=2, sort_keys=True, default=str)
