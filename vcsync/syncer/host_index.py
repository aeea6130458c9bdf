"""An index of the hosts of a super cluster: the Ingresses that exist there, and those that are being written. No I/O.

All tenants of a super cluster share its ingress controllers. A host belongs to the tenant of the first Ingress there that
uses it, or to the operator. The index is made of the Ingresses of the super cluster, so a restart does not change owners. An
Ingress reserves its hosts before it is written, so two tenants that ask at the same time cannot both get one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from vcsync.kube.cache import Change
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.ingress_rules import ANY_HOST, WILDCARD, Claims, claims, covering, read

Age = tuple[str, str]
"""Creation timestamp and UID: the order in which Ingresses of a super cluster got their hosts."""
_NOT_YET: Age = ("~", "")
"""Age of an Ingress that is being written: younger than all that exist."""
_LAST = "\x7f"
"""Greater than all characters of a host."""


class Place(NamedTuple):
    """Namespace and name of an Ingress in the super cluster."""

    namespace: str
    name: str


class HostTaken(Exception):
    """A host belongs to somebody else."""


class _Record(Struct, frozen=True, gc=False):
    owner: str
    age: Age
    claims: Claims


_Id = tuple[Place, bool]
"""Place of an Ingress, and whether the record is a reservation."""


class HostIndex:
    """Hosts of one super cluster, by the Ingresses that use them.

    The time of each operation does not depend on the number of other Ingresses, but for logarithms.

    Args:
        on_freed: called with the place of an Ingress that has given up some of its hosts.
        on_contested: called with the place of every Ingress that exists and shares a host with somebody else's.
    """

    def __init__(
        self,
        on_freed: Callable[[Place], None] = lambda _: None,
        on_contested: Callable[[Place], None] = lambda _: None,
    ) -> None:
        self._on_freed = on_freed
        self._on_contested = on_contested
        self._records: dict[_Id, _Record] = {}
        self._reserved: dict[Place, str] = {}
        # host -> owner -> the Ingresses of the owner that use it.
        self._holders: dict[str, dict[str, dict[_Id, _Record]]] = {}
        # Hosts with their labels in reverse order, so that all names below a domain are neighbours.
        self._all: list[tuple[str, str]] = []
        self._of: dict[str, list[str]] = {}
        self._backends: Counter[tuple[str, str]] = Counter()

    def follow(self, change: Change, owner_of: Callable[[Envelope], str]) -> None:
        """Follow a change of an Ingress in the super cluster.

        Args:
            change: the change.
            owner_of: returns the cluster key of the tenant of an Ingress; "" if it is the operator's.
        """
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self.remove(Place(*old.key))
            return
        if old is not None and (old.uid, old.spec, old.annotations) == (new.uid, new.spec, new.annotations):
            return
        try:
            found = claims(read(new.spec))
        except msgspec.ValidationError:
            found = Claims()  # no API server accepts such an Ingress
        self.put(Place(*new.key), owner_of(new), (new.creation_timestamp, new.uid), found)

    def put(self, place: Place, owner: str, age: Age, taken: Claims) -> None:
        """Record an Ingress that exists in the super cluster, or its change.

        Args:
            place: the Ingress.
            owner: cluster key of its tenant; "" for an Ingress of the operator.
            age: when it was created.
            taken: its hosts and Services.
        """
        old = self._records.get((place, False))
        had = old.claims.hosts if old is not None and old.owner == owner else frozenset[str]()
        self._set((place, False), _Record(owner, age, taken))
        rivals = {rival for host in taken.hosts - had for rival in self._others(owner, host, None)}
        for contested in (place, *rivals) if rivals else ():
            self._on_contested(contested)

    def remove(self, place: Place) -> None:
        """Record that an Ingress does not exist in the super cluster any more."""
        self._set((place, False), None)

    def reserve(self, place: Place, owner: str, taken: Claims) -> None:
        """Take hosts for an Ingress that is about to be written. `release` ends the reservation.

        Raises:
            HostTaken: one of them belongs to somebody else.
        """
        standing = self._records.get((place, False))
        has = standing.claims.hosts if standing is not None and standing.owner == owner else frozenset[str]()
        if any(self.holder(owner, host) is not None for host in taken.hosts - has):
            raise HostTaken
        self._reserved[place] = owner
        self._set((place, True), _Record(owner, _NOT_YET, taken))

    def release(self, place: Place) -> None:
        """End a reservation, if there is one: the Ingress has been written, or will not be."""
        if self._reserved.pop(place, None) is not None:
            self._set((place, True), None)

    def release_all(self, owner: str) -> None:
        """End all reservations of a tenant whose session has ended."""
        for place in [place for place, other in self._reserved.items() if other == owner]:
            self.release(place)

    def holder(self, owner: str, host: str, *, before: Age | None = None) -> Place | None:
        """Return an Ingress of somebody else with this host or one that overlaps; None if there is none.

        Args:
            owner: cluster key of the tenant that asks.
            host: the host; a wildcard overlaps with all names that it covers.
            before: return only Ingresses that are older.
        """
        return next(self._others(owner, host, before), None)

    def is_backend(self, namespace: str, service: str) -> bool:
        """Return whether an Ingress in a super namespace sends requests to a Service."""
        return self._backends[(namespace, service)] > 0

    def __len__(self) -> int:
        return len(self._records)

    def _others(self, owner: str, host: str, before: Age | None) -> Iterator[Place]:
        for name in covering(host):
            for other, records in self._holders.get(name, {}).items():
                if other != owner:
                    yield from _matching(records, before)
        if host.startswith(WILDCARD):
            yield from self._others_below(owner, _reversed(host.removeprefix(WILDCARD)), before)

    def _others_below(self, owner: str, domain: str, before: Age | None) -> Iterator[Place]:
        first, last = bisect_right(self._all, (domain, _LAST)), bisect_left(self._all, (domain + _LAST, ""))
        own = self._of.get(owner, [])
        if last - first == bisect_left(own, domain + _LAST) - bisect_right(own, domain):
            return
        for position in range(first, last):
            name, other = self._all[position]
            if other != owner:
                yield from _matching(self._holders[_forward(name)][other], before)

    def _set(self, which: _Id, record: _Record | None) -> None:
        old = self._records.pop(which, None)
        if record is not None:
            self._records[which] = record
            for host in record.claims.hosts:
                self._hold(host, which, record)
            self._backends.update((which[0].namespace, service) for service in record.claims.services)
        if old is None:
            return
        kept = record.claims.hosts if record is not None and record.owner == old.owner else frozenset[str]()
        for host in old.claims.hosts - kept:
            self._let_go(host, which, old)
        for service in old.claims.services:
            place = (which[0].namespace, service)
            self._backends[place] -= 1
            if not self._backends[place]:
                del self._backends[place]
        other = self._records.get((which[0], not which[1]))
        if old.claims.hosts - kept - (other.claims.hosts if other is not None else frozenset()):
            self._on_freed(which[0])

    def _hold(self, host: str, which: _Id, record: _Record) -> None:
        owners = self._holders.setdefault(host, {})
        if record.owner not in owners:
            owners[record.owner] = {}
            insort(self._all, (_reversed(host), record.owner))
            insort(self._of.setdefault(record.owner, []), _reversed(host))
        owners[record.owner][which] = record

    def _let_go(self, host: str, which: _Id, record: _Record) -> None:
        owners = self._holders[host]
        del owners[record.owner][which]
        if owners[record.owner]:
            return
        del owners[record.owner]
        if not owners:
            del self._holders[host]
        own = self._of[record.owner]
        del self._all[bisect_left(self._all, (_reversed(host), record.owner))]
        del own[bisect_left(own, _reversed(host))]
        if not own:
            del self._of[record.owner]


def _matching(records: dict[_Id, _Record], before: Age | None) -> Iterator[Place]:
    return (place for (place, _), record in records.items() if before is None or record.age < before)


def _reversed(host: str) -> str:
    """Return a host with its labels in reverse order, each with a dot behind it; "" for any host."""
    return "".join(f"{label}." for label in reversed(host.split("."))) if host != ANY_HOST else ""


def _forward(name: str) -> str:
    return ".".join(reversed(name.removesuffix(".").split("."))) if name else ANY_HOST
