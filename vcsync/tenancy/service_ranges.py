"""The ranges of cluster IPs that tenants have for themselves. Pure.

The copies of a tenant's Services have the tenant's own cluster IPs in every super cluster, so two tenants must not share one.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vcsync.api.objects import InvalidObject, VirtualCluster
from vcsync.kube.cache import Change
from vcsync.objects.address_ranges import AddressRange, address_range

Name = tuple[str, str]
"""Namespace and name of a VirtualCluster."""


class Claim(NamedTuple):
    """The range that a VirtualCluster asks for."""

    created: str
    """When the VirtualCluster was created, in RFC 3339."""
    name: Name
    cidr: str


def granted(claims: Iterable[Claim]) -> dict[Name, str]:
    """Return the ranges that tenants have for themselves.

    Of ranges that overlap, the one of the older VirtualCluster counts: a new tenant takes nothing from another one.
    """
    taken: list[tuple[int, int, int]] = []
    found: dict[Name, str] = {}
    for claim in sorted(claims):
        wanted = address_range(claim.cidr)
        if wanted is None:
            continue
        span = _span(wanted)
        place = bisect_left(taken, span)
        neighbours = taken[max(place - 1, 0) : place + 1]
        if any(_overlap(span, each) for each in neighbours):
            continue
        insort(taken, span)
        found[claim.name] = claim.cidr
    return found


def _span(wanted: AddressRange) -> tuple[int, int, int]:
    """Return version, first and last address."""
    return wanted.version, int(wanted.network_address), int(wanted.broadcast_address)


def _overlap(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[0] == other[0] and one[1] <= other[2] and other[1] <= one[2]


class ServiceRanges:
    """The ranges of all tenants, which follow their VirtualClusters."""

    def __init__(self) -> None:
        self._claims: dict[Name, Claim] = {}
        self._granted: Mapping[Name, str] = {}

    def range_of(self, virtual_cluster: VirtualCluster) -> str:
        """Return the range that a tenant has for itself, in CIDR notation; "" if it has none."""
        return self._granted.get((virtual_cluster.namespace, virtual_cluster.name), "")

    def observe(self, change: Change) -> bool:
        """Take a change of a VirtualCluster. Return whether the range of any tenant has changed.

        One that cannot be read keeps what it had.
        """
        if change.new is None:
            claim = None
        else:
            try:
                cidr = VirtualCluster.from_envelope(change.new).spec.service_cidr
            except InvalidObject:
                return False
            claim = Claim(change.new.creation_timestamp, change.new.key, cidr) if cidr else None
        subject = change.new or change.old
        if subject is None or self._claims.get(subject.key) == claim:
            return False
        if claim is None:
            del self._claims[subject.key]
        else:
            self._claims[subject.key] = claim
        before, self._granted = self._granted, granted(self._claims.values())
        return before != self._granted
