"""The order of a namespace's waiting Pods: by priority, then by the time that they wait. Pure.

A Pod may pass those ahead of it that fit nowhere, so that a large one does not block small ones. But a Pod that has waited for
`PATIENCE_SECONDS` gets the next room: where it lacks least, no Pod behind it is placed any more until it fits. One Pod of a
namespace holds a share in this way, the first in the order that fits into the share's slices at all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest

from vcsync.podscheduler.pods import Pod
from vcsync.scheduling.scores import FULL
from vcsync.scheduling.shares import Share

PATIENCE_SECONDS = 300.0
"""Seconds for which others may pass a Pod that fits nowhere."""
MOST_AHEAD = 100
"""Number of waiting Pods, the first in the order, to which another Pod gives way. Each decision compares with all of them."""

MayUse = Callable[[Pod, Share], bool]
"""Returns whether anything but the room keeps a Pod from a share."""


def ranked(waiting: Iterable[Pod]) -> list[Pod]:
    """Return Pods in their order.

    Args:
        waiting: the Pods, the longest waiting first.
    """
    return sorted(waiting, key=lambda pod: -pod.priority)


def ahead_of(pod: Pod, waiting: Iterable[Pod]) -> list[Pod]:
    """Return the waiting Pods to which another one gives way, in their order.

    Args:
        pod: the Pod. If it does not wait, it comes after all others of its priority.
        waiting: the Pods that wait, the longest waiting first.
    """
    before = []
    passed = False
    for each in waiting:
        passed = passed or each.key == pod.key
        if each.priority > pod.priority or (each.priority == pod.priority and not passed):
            before.append(each)
    return nsmallest(MOST_AHEAD, before, key=lambda each: -each.priority)


class Room:
    """The free room of a namespace's shares while Pods take theirs in their order.

    Attributes:
        held: super cluster whose share is held -> name of the Pod that it is held for.

    Args:
        shares: the shares; they are not changed.
        may_use: see `MayUse`.
        now: monotonic seconds.
    """

    def __init__(self, shares: Iterable[Share], may_use: MayUse, now: float) -> None:
        self._shares = [Share(each.super_id, each.capacity, dict(each.used), each.pods) for each in shares]
        self._may_use = may_use
        self._now = now
        self.held: dict[str, str] = {}

    def take(self, pod: Pod) -> str:
        """Give a Pod room, and return the super cluster; empty if it fits nowhere."""
        requests = pod.needs.requests
        for share in self._shares:
            if share.super_id not in self.held and share.fits(requests) and self._may_use(pod, share):
                share.charge(requests)
                return share.super_id
        if not self.held and self._now - pod.seen_at >= PATIENCE_SECONDS:
            self._hold(pod)
        return ""

    def refusals(self, pod: Pod) -> dict[str, str]:
        """Return why shares with room for a Pod are not for it, by super cluster: others are ahead of it."""
        found = {
            share.super_id: "has room, which Pods get first that are ahead of it"
            for share in self._shares
            if not share.fits(pod.needs.requests)
        }
        return found | {
            super_id: f"keeps its room for Pod {name}, which is ahead of it"
            for super_id, name in self.held.items()
        }

    def _hold(self, pod: Pod) -> None:
        requests = pod.needs.requests
        able = [
            share for share in self._shares if _fits_at_all(share, requests) and self._may_use(pod, share)
        ]
        if able:
            best = min(able, key=lambda share: (_lack(share, requests), share.super_id))
            self.held[best.super_id] = pod.name


def give_way(pod: Pod, ahead: Sequence[Pod], room: Room) -> dict[str, str]:
    """Return the shares that are not for a Pod, since others are ahead of it: super cluster -> reason."""
    for each in ahead:
        room.take(each)
    return room.refusals(pod)


def _fits_at_all(share: Share, requests: Mapping[str, int]) -> bool:
    return all(requests.get(name, 0) <= amount for name, amount in share.capacity.items())


def _lack(share: Share, requests: Mapping[str, int]) -> int:
    """Return the largest share of the capacity that a Pod lacks."""
    return max(
        (
            (share.used.get(name, 0) + requests[name] - amount) * FULL // max(1, amount)
            for name, amount in share.capacity.items()
            if requests.get(name)
        ),
        default=0,
    )
