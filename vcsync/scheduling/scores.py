"""Scores of the namespace scheduler: a policy is a weighted sum of integer scores of a super cluster."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from vcsync.scheduling.resources import Resources
from vcsync.scheduling.snapshot import SuperView

FULL = 1_000_000
"""The share of a whole: shares are integers in millionths."""


class Candidate(Struct):
    """A super cluster while slices are placed.

    Attributes:
        view: the super cluster.
        free: amounts that are free for further slices, in thousandths.
        slices: number of slices that the namespace has there.
    """

    view: SuperView
    free: Resources
    slices: int


Score = Callable[[Candidate, Mapping[str, int]], int]


def unpreferred(candidate: Candidate, _size: Mapping[str, int]) -> int:
    """Put super clusters with PreferNoSchedule taints last: minus the number of those taints."""
    taints = candidate.view.taints
    return -sum(item.effect == "PreferNoSchedule" for item in taints) if taints else 0


def fewest_slices(candidate: Candidate, _size: Mapping[str, int]) -> int:
    """Spread a namespace's slices, so that the loss of a super cluster affects few: -1000 to 0."""
    return -candidate.slices


def most_slices(candidate: Candidate, _size: Mapping[str, int]) -> int:
    """Put a namespace's slices together, so that its Pods are near each other: 0 to 1000."""
    return candidate.slices


def free_share(candidate: Candidate, size: Mapping[str, int]) -> int:
    """Return the share of capacity that stays free after one more slice, of the scarcest resource: up to `FULL`."""
    free, capacity = candidate.free, candidate.view.capacity
    return min(
        [(free.get(name, 0) - amount) * FULL // (capacity.get(name, 0) or 1) for name, amount in size.items()]
    )


def used_share(candidate: Candidate, size: Mapping[str, int]) -> int:
    """Prefer full super clusters, so that others stay empty for large slices: 0 to `FULL`."""
    return FULL - free_share(candidate, size)


def cheapest(candidate: Candidate, size: Mapping[str, int]) -> int:
    """Return minus the price of a slice per hour, in millionths. A resource without a price costs nothing."""
    return -sum(
        candidate.view.price.get(name, 0) * amount // (1000 * (_GIB if name == "memory" else 1))
        for name, amount in size.items()
    )


_GIB = 1 << 30
_TAINT_WEIGHT = 10**12
"""Weight that exceeds the sum of all other scores of a namespace's slices."""
_SLICE_WEIGHT = 2 * FULL
"""Weight that exceeds every share."""

POLICIES: dict[str, tuple[tuple[int, Score], ...]] = {
    "spread": ((_TAINT_WEIGHT, unpreferred), (_SLICE_WEIGHT, fewest_slices), (1, free_share)),
    "pack": ((_TAINT_WEIGHT, unpreferred), (_SLICE_WEIGHT, most_slices), (1, used_share)),
    "cheap": ((_TAINT_WEIGHT, unpreferred), (_SLICE_WEIGHT, cheapest), (1, free_share)),
}
"""The weighted scores of each policy. A score depends only on its candidate. The lower id wins among equal sums."""


def score(policy: str, candidate: Candidate, size: Mapping[str, int]) -> int:
    """Return a candidate's score for one more slice of `size`. The highest score gets the slice."""
    return sum([weight * part(candidate, size) for weight, part in POLICIES[policy]])
