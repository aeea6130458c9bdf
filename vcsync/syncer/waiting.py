"""Keeps items parked until an object that they depend on changes, each with the reason for its wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vcsync.syncer.kinds.plan import Dependency, Wait


class Item(NamedTuple):
    """A unit of work: an object of one kind, identified by its names in the tenant."""

    kind: str
    """Name of the kind's declaration, e.g. `pods`."""
    namespace: str
    name: str


class Parked(NamedTuple):
    """The reason why an item waits, since when (monotonic seconds), and the objects it waits for."""

    reason: str
    since: float
    on: tuple[Dependency, ...]
    on_others: tuple[Dependency, ...] = ()


class ParkedItems:
    """The parked items of all tenants.

    It is level-based: an item that is woken is reconciled again. If an object that it needs is still missing, the item is
    parked again and keeps the time since which it waits.
    """

    def __init__(self) -> None:
        self._parked: dict[str, dict[Item, Parked]] = {}
        # (tenant, dependency) -> the items that wait for it, in the order in which they were parked.
        self._waiters: dict[tuple[str, Dependency], dict[Item, None]] = {}
        # Dependency on an object of somebody else -> the (tenant, item) that wait for it, in the same order.
        self._waiters_of_others: dict[Dependency, dict[tuple[str, Item], None]] = {}
        self._size = 0

    def park(self, tenant: str, item: Item, wait: Wait, *, now: float) -> None:
        """Park an item. This replaces its earlier reason and dependencies.

        Args:
            tenant: cluster key.
            item: the item.
            wait: the reason, and the objects whose changes may end the wait.
            now: monotonic seconds.
        """
        before = self.reason(tenant, item)
        if before is not None:
            self._unlink(tenant, item, before)
        since = before.since if before is not None and before.reason == wait.reason else now
        items = self._parked.setdefault(tenant, {})
        if since == now:
            # A new wait goes to the end, so that the first item has waited longest.
            items.pop(item, None)
        self._size += before is None
        items[item] = Parked(wait.reason, since, wait.on, wait.on_others)
        for dependency in wait.on:
            self._waiters.setdefault((tenant, dependency), {})[item] = None
        for dependency in wait.on_others:
            self._waiters_of_others.setdefault(dependency, {})[(tenant, item)] = None

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
        """Return the items to reconcile again because `dependency` has changed."""
        waiters = self._waiters.get((tenant, dependency))
        return tuple(waiters) if waiters else ()

    def wake_others(self, dependency: Dependency) -> tuple[tuple[str, Item], ...]:
        """Return the (tenant, item) to reconcile again because an object that is not theirs has changed."""
        return tuple(self._waiters_of_others.get(dependency, ()))

    def forget_tenant(self, tenant: str) -> None:
        """Forget all items of a tenant."""
        for item in list(self._parked.get(tenant, ())):
            self.settle(tenant, item)

    def reason(self, tenant: str, item: Item) -> Parked | None:
        """Return why an item waits; None if it does not."""
        return self._parked.get(tenant, {}).get(item)

    def longest(self, tenant: str) -> tuple[Item, Parked] | None:
        """Return the tenant's item that has waited longest; None if none waits."""
        return next(self.of(tenant), None)

    def of(self, tenant: str) -> Iterator[tuple[Item, Parked]]:
        """Iterate over the tenant's parked items, those that have waited longest first."""
        return iter(self._parked.get(tenant, {}).items())

    def __len__(self) -> int:
        return self._size

    def _unlink(self, tenant: str, item: Item, parked: Parked) -> None:
        for dependency in parked.on:
            waiters = self._waiters.get((tenant, dependency))
            if waiters is not None:
                waiters.pop(item, None)
                if not waiters:
                    del self._waiters[(tenant, dependency)]
        for dependency in parked.on_others:
            others = self._waiters_of_others.get(dependency)
            if others is not None:
                others.pop((tenant, item), None)
                if not others:
                    del self._waiters_of_others[dependency]
