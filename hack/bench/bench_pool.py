"""The pool of the benchmark of the schedulers: equal super clusters, of which one is lost, and the numbers of what is on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from vcsync.api.specs import Failover
from vcsync.scheduling.ledger import Key
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import Health, SuperView

TENANTS = 1000
NAMESPACES = 5
"""Namespaces of a tenant."""
PODS = 20
"""Pods of a namespace."""
SLICES = 2
"""Slices of a namespace."""
LOST = "r001"
"""The super cluster that is lost."""
ON_LOST = 10
"""Number of namespaces of which one has all its slices and Pods on the super cluster that is lost."""
SPARE_PERCENT = 25
"""Capacity of the others in addition to what their own namespaces use."""
MOST_ROUNDS = 1000
NOW = "2026-01-01T00:00:00Z"
MOVE = Failover(policy="MoveAfter", after_seconds=0)


class BenchPool:
    """The pool as both schedulers see it: equal super clusters, of which the first one will be lost.

    Attributes:
        views: id -> view of each super cluster.
        tenants: number of tenants.
        held: whether nothing may be moved.
    """

    def __init__(self, supers: int, tenants: int) -> None:
        count = tenants * NAMESPACES
        there, others = count // ON_LOST, count - count // ON_LOST
        each = -(-others * SLICES * (100 + SPARE_PERCENT) // 100 // (supers - 1))
        self.tenants = tenants
        self.held = False
        self.views = {
            name: _view(name, there * SLICES if name == LOST else each)
            for name in (f"r{number:03}" for number in range(1, supers + 1))
        }

    def lose(self) -> None:
        """Lose the first super cluster."""
        view = self.views[LOST]
        self.views[LOST] = replace(view, health=Health.LOST, out_of_touch=f"no heartbeat since {NOW}")

    def lost(self) -> dict[str, float]:
        """Return the lost super clusters, with the seconds since when."""
        return {view.id: 0.0 for view in self.views.values() if view.health is Health.LOST}

    def namespaces(self) -> Iterator[Key]:
        """Yield all namespaces."""
        for tenant in range(self.tenants):
            for number in range(NAMESPACES):
                yield f"tenant-{tenant:04}", f"space-{number}"

    def at_first(self, index: int) -> Mapping[str, SuperView]:
        """Return the super clusters for the namespace of an index, before one is lost."""
        if index % ON_LOST == 0:
            return {LOST: self.views[LOST]}
        return {name: view for name, view in self.views.items() if name != LOST}


def _view(name: str, slices: int) -> SuperView:
    capacity = from_quantities(
        {"cpu": str(2 * slices), "memory": f"{4 * slices}Gi", "pods": str(50 * slices)}
    )
    return SuperView(name, Health.READY, capacity)
