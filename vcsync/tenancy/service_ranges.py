"""The ranges of cluster IPs that tenants have for themselves. Pure.

The copies of a tenant's Services have the tenant's own cluster IPs in every super cluster, so two tenants must not share one.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from vcsync.api.objects import InvalidObject, VirtualCluster
from vcsync.kube.cache import Change
from vcsync.objects.address_ranges import AddressRange, address_ranges

Name = tuple[str, str]
"""Namespace and name of a VirtualCluster."""
Span = tuple[int, int, int]
"""IP version, first and last address of a range."""


RANGE_REFUSED: Final = "ServiceRangeRefused"
"""Event reason of a VirtualCluster whose range has no effect."""


class Claim(NamedTuple):
    """The ranges that a VirtualCluster asks for: one, or one of each IP family."""

    created: str
    """Time at which the VirtualCluster was created, in RFC 3339."""
    name: Name
    cidr: str


def granted(claims: Iterable[Claim]) -> dict[Name, str]:
    """Return the ranges that tenants have for themselves.

    Of ranges that overlap, those of the older VirtualCluster count: a new tenant takes nothing from another one.
    """
    taken: list[Span] = []
    found: dict[Name, str] = {}
    for claim in sorted(claims):
        spans = [_span(each) for each in address_ranges(claim.cidr)]
        if not spans or any(_is_taken(span, taken) for span in spans):
            continue
        for span in spans:
            insort(taken, span)
        found[claim.name] = claim.cidr
    return found


def _is_taken(span: Span, taken: Sequence[Span]) -> bool:
    """Return whether a range overlaps one of others, which are in order and do not overlap each other."""
    place = bisect_left(taken, span)
    return any(_overlap(span, each) for each in taken[max(place - 1, 0) : place + 1])


def _span(wanted: AddressRange) -> Span:
    return wanted.version, int(wanted.network_address), int(wanted.broadcast_address)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and one[1] <= other[2] and other[1] <= one[2]


def range_refused(cidr: str) -> str:
    """Return the text of an Event about a range that has no effect, for operators."""
    return (
        f"spec.serviceCidr {cidr} has no effect: it is not a range of addresses such as 10.64.0.0/20, or it overlaps that of an "
        "older VirtualCluster; choose another one"
    )


class ServiceRanges:
    """The ranges of all tenants, which follow their VirtualClusters."""

    def __init__(self) -> None:
        self._claims: dict[Name, Claim] = {}
        self._granted: Mapping[Name, str] = {}

    def range_of(self, virtual_cluster: VirtualCluster) -> str:
        """Return the range that a tenant has for itself, in CIDR notation; "" if it has none."""
        return self._granted.get((virtual_cluster.namespace, virtual_cluster.name), "")

    def refused(self) -> dict[Name, str]:
        """Return the ranges that have no effect, of VirtualClusters by name."""
        return {name: each.cidr for name, each in self._claims.items() if name not in self._granted}

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
