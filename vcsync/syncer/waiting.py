"""What waits for what: items parked until an object they depend on changes, each with a reason that can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vcsync.syncer.kinds.plan import Dependency, Wait


class Item(NamedTuple):
    """One unit of work of the engine: an object of one kind, named as its tenant names it."""

    kind: str
    """Name of the kind's declaration, e.g. `pods`."""
    namespace: str
    name: str


class Parked(NamedTuple):
    """Why an item is not settled, and since when (monotonic seconds)."""

    reason: str
    since: float
    on: tuple[Dependency, ...]


class WaitingRoom:
    """Items of all tenants that wait for another object.

    Level-based: an item that is woken is simply reconciled again; if what it needs is still missing it parks again and
    keeps the time it began to wait.
    """

    def __init__(self) -> None:
        self._parked: dict[str, dict[Item, Parked]] = {}
        # Items by what they wait for, in the order in which they began to.
        self._sleepers: dict[tuple[str, Dependency], dict[Item, None]] = {}
        self._size = 0

    def park(self, tenant: str, item: Item, wait: Wait, *, now: float) -> None:
        """Remember that `item` of `tenant` waits; replaces what it waited for before.

        Args:
            tenant: cluster key.
            item: the item.
            wait: reason and the objects that may end the wait.
            now: monotonic seconds.
        """
        before = self.reason(tenant, item)
        if before is not None:
            self._unlink(tenant, item, before)
        since = before.since if before is not None and before.reason == wait.reason else now
        items = self._parked.setdefault(tenant, {})
        if since == now:
            items.pop(item, None)  # who begins to wait goes to the end: the first is who waits longest
        self._size += before is None
        items[item] = Parked(wait.reason, since, wait.on)
        for dependency in wait.on:
            self._sleepers.setdefault((tenant, dependency), {})[item] = None

    def settle(self, tenant: str, item: Item) -> None:
        """Forget the wait of an item that no longer waits."""
        items = self._parked.get(tenant, {})
        parked = items.pop(item, None)
        if parked is not None:
            self._size -= 1
            self._unlink(tenant, item, parked)
            if not items:
                del self._parked[tenant]

    def wake(self, tenant: str, dependency: Dependency) -> tuple[Item, ...]:
        """The items to reconcile again because `dependency` has changed."""
        sleepers = self._sleepers.get((tenant, dependency))
        return tuple(sleepers) if sleepers else ()

    def forget_tenant(self, tenant: str) -> None:
        """Drop every wait of a tenant that has left."""
        for item in list(self._parked.get(tenant, ())):
            self.settle(tenant, item)

    def reason(self, tenant: str, item: Item) -> Parked | None:
        """Why an item waits, or None if it does not."""
        return self._parked.get(tenant, {}).get(item)

    def longest(self, tenant: str) -> tuple[Item, Parked] | None:
        """The tenant's item that has waited longest."""
        return next(self.of(tenant), None)

    def of(self, tenant: str) -> Iterator[tuple[Item, Parked]]:
        """The tenant's waiting items, those first that have waited longest."""
        return iter(self._parked.get(tenant, {}).items())

    def __len__(self) -> int:
        return self._size

    def _unlink(self, tenant: str, item: Item, parked: Parked) -> None:
        for dependency in parked.on:
            sleepers = self._sleepers.get((tenant, dependency))
            if sleepers is not None:
                sleepers.pop(item, None)
                if not sleepers:
                    del self._sleepers[(tenant, dependency)]
