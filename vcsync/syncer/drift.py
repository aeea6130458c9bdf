"""The drift ledger: repairs of objects that were changed in a super cluster only."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

KEPT = 500
"""Number of repairs that are remembered. The oldest is dropped first."""


class Repair(Struct, frozen=True):
    """One repair of an object that was changed in the super cluster and not in the tenant."""

    when: datetime
    tenant: str
    kind: str
    namespace: str
    name: str
    what: str
    """`created`, `deleted`, or the names of the changed fields, comma separated. Values may be secret and are left out."""


class DriftLedger:
    """The latest repairs, for operators, and the total number of repairs."""

    def __init__(self) -> None:
        self._repairs: deque[Repair] = deque(maxlen=KEPT)
        self.total = 0

    def record(self, repair: Repair) -> None:
        """Add a repair."""
        self._repairs.append(repair)
        self.total += 1

    def latest(self, count: int = 50) -> list[Repair]:
        """Return the most recent repairs, newest first."""
        return list(self._repairs)[: -count - 1 : -1]


def fields(patch: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the sorted paths of the fields that a merge patch changes, without its preconditions."""
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
