"""Sums of the slices of all namespaces, updated entry by entry. Decisions count before they are written."""

from collections.abc import Callable, Iterator, Mapping

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
        away: super cluster -> number of slices that have left it because it was lost.
    """

    size: Resources
    placements: dict[str, int]
    clearing: dict[str, Resources] = {}
    away: dict[str, int] = {}

    def holds(self, super_id: str) -> Resources:
        """Return the amounts that the namespace may use on a super cluster at present."""
        return add(times(self.size, self.placements.get(super_id, 0)), self.clearing.get(super_id, {}))


class Ledger:
    """The entries of all namespaces, with their sums by super cluster and by tenant."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._supers: dict[str, Resources] = {}
        self._tenants: dict[str, Resources] = {}
        self._clearing: dict[str, Resources] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        """Return the entry of a namespace; None if it has none."""
        return self._entries.get(key)

    def entries(self) -> Mapping[Key, Entry]:
        """Return the entries of all namespaces."""
        return self._entries

    def on(self, super_id: str) -> list[Key]:
        """Return the namespaces that hold slices on a super cluster."""
        return [key for key, entry in self._entries.items() if entry.placements.get(super_id)]

    def clearing_on(self, super_id: str) -> list[Key]:
        """Return the namespaces that have lost all slices on a super cluster which its syncer has not cleared yet."""
        return [
            key
            for key, entry in self._entries.items()
            if super_id in entry.clearing and not entry.placements.get(super_id)
        ]

    def slices_on(self, super_id: str) -> int:
        """Return the number of slices of all namespaces on a super cluster."""
        return sum(entry.placements.get(super_id, 0) for entry in self._entries.values())

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
        """Return the amounts of the slices that a tenant has.

        Args:
            tenant: cluster key.
            without: a namespace to leave out of the sum.
        """
        return self._of_tenant(self._tenants, _sliced, tenant, without)

    def cleared_by(self, tenant: str, *, without: Key | None = None) -> Resources:
        """Return the amounts that a tenant still holds beyond its slices.

        Args:
            tenant: cluster key.
            without: a namespace to leave out of the sum.
        """
        return self._of_tenant(self._clearing, _clearing, tenant, without)

    def _of_tenant(
        self,
        sums: Mapping[str, Resources],
        amounts: Callable[[Entry], Iterator[tuple[Resources, int]]],
        tenant: str,
        without: Key | None,
    ) -> Resources:
        total = dict(sums.get(tenant, {}))
        entry = None if without is None or without[0] != tenant else self._entries.get(without)
        for size, count in () if entry is None else amounts(entry):
            _add(total, size, -count)
        return total

    def _count(self, key: Key, entry: Entry, sign: int) -> None:
        """Add an entry to the sums (`sign` 1), or subtract it (`sign` -1)."""
        for super_id in {**entry.placements, **entry.clearing}:
            _add(self._supers.setdefault(super_id, {}), entry.holds(super_id), sign)
            if not any(self._supers[super_id].values()):
                del self._supers[super_id]
        for sums, amounts in ((self._tenants, _sliced), (self._clearing, _clearing)):
            total = sums.setdefault(key[0], {})
            for size, count in amounts(entry):
                _add(total, size, sign * count)
            if not any(total.values()):
                del sums[key[0]]


def _sliced(entry: Entry) -> Iterator[tuple[Resources, int]]:
    yield entry.size, sum(entry.placements.values())


def _clearing(entry: Entry) -> Iterator[tuple[Resources, int]]:
    return ((amounts, 1) for amounts in entry.clearing.values())


def _add(total: Resources, size: Mapping[str, int], count: int) -> None:
    for name, amount in size.items():
        total[name] = total.get(name, 0) + count * amount
