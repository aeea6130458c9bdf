"""The drift ledger: what stood in a super cluster other than the tenant has it, and was put right."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

KEPT = 500
"""Repairs remembered; older ones are dropped."""


class Repair(Struct, frozen=True):
    """One repair of an object in the super cluster that nobody in the tenant had changed."""

    when: datetime
    tenant: str
    kind: str
    namespace: str
    name: str
    what: str
    """`created`, `deleted`, or the changed fields, comma separated. Values are left out: they may be secret."""


class DriftLedger:
    """The latest repairs, for operators."""

    def __init__(self) -> None:
        self._repairs: deque[Repair] = deque(maxlen=KEPT)
        self.total = 0

    def record(self, repair: Repair) -> None:
        """Remember a repair."""
        self._repairs.append(repair)
        self.total += 1

    def latest(self, count: int = 50) -> list[Repair]:
        """The most recent repairs, newest first."""
        return list(self._repairs)[: -count - 1 : -1]


def fields(patch: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The paths of the fields a merge patch changes, without its preconditions."""
    paths = []
    for key, value in patch.items():
        path = f"{prefix}.{key}" if prefix else key
        if path in ("metadata.uid", "metadata.resourceVersion"):
            continue
        if isinstance(value, Mapping) and value:
            paths.extend(fields(value, path))
        else:
            paths.append(path)
    return sorted(paths)
