"""Priority and fairness as one thing: what the server needs of it."""

from collections.abc import Callable, Sequence
from functools import partial

from vcsync.controlplane.flow import configuration, metrics
from vcsync.controlplane.flow.configuration import MARK
from vcsync.controlplane.flow.gate import Bounds, Gate
from vcsync.controlplane.flow.upkeep import Upkeep
from vcsync.controlplane.store.interface import Change, Store, tenant_of


class Fairness:
    """Seats, and the objects that share them out.

    Attributes:
        gate: gives seats.
        upkeep: keeps the objects; `run` it.
    """

    def __init__(self, store: Store, now: Callable[[], str], bounds: Bounds | None = None) -> None:
        """Take the store, what tells the time in RFC 3339, and how much may go on at once."""
        self.gate = Gate(bounds or Bounds(), partial(configuration.read, store))
        self.upkeep = Upkeep(store, now)

    def changed(self, changes: Sequence[Change]) -> None:
        """Take note of changes of the store; cheap for all but a few."""
        for change in changes:
            if MARK in change.key:
                self.gate.changed(tenant_of(change.key))
                self.upkeep.changed((change,))

    def text(self, tenant: str) -> bytes:
        """Write a tenant's metrics."""
        space = self.gate.spaces.get(tenant)
        return metrics.text(space, self.gate.hands.waiting(tenant)) if space is not None else b""
