"""Sums over all namespaces' placements, kept up to date entry by entry; assumed decisions count too."""

from collections.abc import Mapping

from msgspec import Struct

from vcsync.scheduling.resources import Resources, add, times

Key = tuple[str, str]
"""(cluster key of the tenant, namespace)."""


class Entry(Struct, frozen=True):
    """What one namespace holds: slices per super cluster, and the size of a slice in thousandths.

    `clearing`: what a super cluster may still hold beyond them, because slices have shrunk or moved and its syncer
    has not cleared it yet; in thousandths, too.
    """

    size: Resources
    placements: dict[str, int]
    clearing: dict[str, Resources] = {}

    def holds(self, super_id: str) -> Resources:
        """All that may stand on a super cluster."""
        return add(times(self.size, self.placements.get(super_id, 0)), self.clearing.get(super_id, {}))


class Ledger:
    """Who holds what, with the sums per super cluster and per tenant that placing asks for."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._supers: dict[str, Resources] = {}
        self._tenants: dict[str, Resources] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        """What a namespace holds."""
        return self._entries.get(key)

    def on(self, super_id: str) -> list[Key]:
        """The namespaces that hold slices on a super cluster."""
        return [key for key, entry in self._entries.items() if entry.placements.get(super_id)]

    def put(self, key: Key, entry: Entry) -> bool:
        """Replace what a namespace holds; True if that is a change."""
        if self._entries.get(key) == entry:
            return False
        self.drop(key)
        self._entries[key] = entry
        self._book(key, entry, 1)
        return True

    def drop(self, key: Key) -> bool:
        """Forget a namespace; True if it held anything."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._book(key, entry, -1)
        return True

    def allocated(self, super_id: str, *, without: Key | None = None) -> Resources:
        """What is dealt out on a super cluster or not cleared there yet, leaving one namespace aside."""
        total = dict(self._supers.get(super_id, {}))
        entry = None if without is None else self._entries.get(without)
        if entry is not None:
            _add(total, entry.holds(super_id), -1)
        return total

    def used_by(self, tenant: str, *, without: Key | None = None) -> Resources:
        """What is dealt out to a tenant, leaving one namespace aside."""
        total = dict(self._tenants.get(tenant, {}))
        entry = None if without is None or without[0] != tenant else self._entries.get(without)
        if entry is not None:
            _add(total, entry.size, -sum(entry.placements.values()))
        return total

    def _book(self, key: Key, entry: Entry, sign: int) -> None:
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
