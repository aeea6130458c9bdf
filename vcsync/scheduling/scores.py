"""Which super cluster gets a slice: a policy is a weighted sum of small integer scores."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from vcsync.scheduling.resources import Resources
from vcsync.scheduling.snapshot import SuperView

FULL = 1_000_000
"""Millionths: shares are compared in these, as integers."""


class Candidate(Struct):
    """A super cluster while slices are dealt: what is free for new ones, what the namespace has there."""

    view: SuperView
    free: Resources
    slices: int


Score = Callable[[Candidate, Mapping[str, int]], int]


def unpreferred(candidate: Candidate, _size: Mapping[str, int]) -> int:
    """Super clusters with a PreferNoSchedule taint come last. 0 or less."""
    return -sum(item.effect == "PreferNoSchedule" for item in candidate.view.taints)


def fewest_slices(candidate: Candidate, _size: Mapping[str, int]) -> int:
    """A namespace survives the loss of a super cluster best when its slices are spread. -1000 to 0."""
    return -candidate.slices


def most_slices(candidate: Candidate, _size: Mapping[str, int]) -> int:
    """A namespace's Pods are nearest to each other on one super cluster. 0 to 1000."""
    return candidate.slices


def free_share(candidate: Candidate, size: Mapping[str, int]) -> int:
    """Millionths of capacity that stay free after one more slice, in the scarcest resource."""
    return min(
        (candidate.free.get(name, 0) - amount) * FULL // max(1, candidate.view.capacity.get(name, 0))
        for name, amount in size.items()
    )


def used_share(candidate: Candidate, size: Mapping[str, int]) -> int:
    """The fuller the better: leaves other super clusters empty for what is large. 0 to `FULL`."""
    return FULL - free_share(candidate, size)


def cheapest(candidate: Candidate, size: Mapping[str, int]) -> int:
    """Minus what a slice costs there an hour, in millionths; a resource without a price costs nothing."""
    return -sum(
        candidate.view.price.get(name, 0) * amount // (1000 * (_GIB if name == "memory" else 1))
        for name, amount in size.items()
    )


_GIB = 1 << 30
_NEVER = 10**12  # outweighs all slices of a namespace
_SLICE = 2 * FULL  # outweighs any share

POLICIES: dict[str, tuple[tuple[int, Score], ...]] = {
    "spread": ((_NEVER, unpreferred), (_SLICE, fewest_slices), (1, free_share)),
    "pack": ((_NEVER, unpreferred), (_SLICE, most_slices), (1, used_share)),
    "cheap": ((_NEVER, unpreferred), (_SLICE, cheapest), (1, free_share)),
}
"""(weight, score) of each policy. A score depends on its candidate alone. Equal sums: the lower id wins."""


def score(policy: str, candidate: Candidate, size: Mapping[str, int]) -> int:
    """A candidate's score for one more slice of `size`; the highest gets it."""
    return sum(weight * part(candidate, size) for weight, part in POLICIES[policy])
