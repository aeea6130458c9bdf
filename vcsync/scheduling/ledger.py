"""Sums of the slices of all namespaces, updated entry by entry. Decisions count before they are written."""

from collections.abc import Mapping

from msgspec import Struct

from vcsync.scheduling.resources import Resources, add, times

Key = tuple[str, str]
"""(cluster key of the tenant, namespace)."""


class Entry(Struct, frozen=True):
    """The slices of one namespace. Amounts are in thousandths.

    Attributes:
        size: amounts of one slice.
        placements: super cluster -> number of slices.
        clearing: super cluster -> amounts that may still be in use there beyond the slices, because slices have shrunk
            or moved and the syncer has not freed them yet.
    """

    size: Resources
    placements: dict[str, int]
    clearing: dict[str, Resources] = {}

    def holds(self, super_id: str) -> Resources:
        """Return the amounts that the namespace may use on a super cluster at present."""
        return add(times(self.size, self.placements.get(super_id, 0)), self.clearing.get(super_id, {}))


class Ledger:
    """The entries of all namespaces, with their sums by super cluster and by tenant."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._supers: dict[str, Resources] = {}
        self._tenants: dict[str, Resources] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        """Return the entry of a namespace; None if it has none."""
        return self._entries.get(key)

    def on(self, super_id: str) -> list[Key]:
        """Return the namespaces that hold slices on a super cluster."""
        return [key for key, entry in self._entries.items() if entry.placements.get(super_id)]

    def put(self, key: Key, entry: Entry) -> bool:
        """Replace the entry of a namespace. Return whether that is a change."""
        if self._entries.get(key) == entry:
            return False
        self.drop(key)
        self._entries[key] = entry
        self._count(key, entry, 1)
        return True

    def drop(self, key: Key) -> bool:
        """Remove the entry of a namespace. Return whether there was one."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._count(key, entry, -1)
        return True

    def allocated(self, super_id: str, *, without: Key | None = None) -> Resources:
        """Return the amounts that are distributed on a super cluster or not cleared there yet.

        Args:
            super_id: the super cluster.
            without: a namespace to leave out of the sum.
        """
        total = dict(self._supers.get(super_id, {}))
        entry = None if without is None else self._entries.get(without)
        if entry is not None:
            _add(total, entry.holds(super_id), -1)
        return total

    def used_by(self, tenant: str, *, without: Key | None = None) -> Resources:
        """Return the amounts that are distributed to a tenant.

        Args:
            tenant: cluster key.
            without: a namespace to leave out of the sum.
        """
        total = dict(self._tenants.get(tenant, {}))
        entry = None if without is None or without[0] != tenant else self._entries.get(without)
        if entry is not None:
            _add(total, entry.size, -sum(entry.placements.values()))
        return total

    def _count(self, key: Key, entry: Entry, sign: int) -> None:
        """Add an entry to the sums (`sign` 1), or subtract it (`sign` -1)."""
        for super_id in {**entry.placements, **entry.clearing}:
            _add(self._supers.setdefault(super_id, {}), entry.holds(super_id), sign)
            if not any(self._supers[super_id].values()):
                del self._supers[super_id]
        _add(self._tenants.setdefault(key[0], {}), entry.size, sign * sum(entry.placements.values()))
        if not any(self._tenants[key[0]].values()):
            del self._tenants[key[0]]


def _add(total: Resources, size: Mapping[str, int], count: int) -> None:
    for name, amount in size.items():
        total[name] = total.get(name, 0) + count * amount
