"""The order of a namespace's waiting Pods: by priority, then by the time that they wait. Pure.

A Pod may pass those ahead of it that fit nowhere, so that a large one does not block small ones. But a Pod that has waited for
`PATIENCE_SECONDS` gets the next room: where it lacks least, no Pod behind it is placed any more until it fits. One Pod of a
namespace holds a share in this way, the first in the order that fits into the share's slices at all.
"""

from collections.abc import Callable, Iterable, Mapping

from vcsync.objects.budget import PIECE_STEPS
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.waiting import Place, Waiting, Walk
from vcsync.scheduling.scores import FULL
from vcsync.scheduling.shares import Share
from vcsync.scheduling.slices import PODS

PATIENCE_SECONDS = 300.0
"""Seconds for which others may pass a Pod that fits nowhere."""
MOST_AHEAD = 100
"""Number of waiting Pods, the first in the order, with which each decision compares. Equal ones that find no room count once."""
MOST_STEPS = PIECE_STEPS
"""Steps of about a microsecond after which a comparison with waiting Pods ends."""
_FILTER_STEPS = 5  # of the filters for one share, and of each claim or Service of a Pod
_NAMES_A_STEP = 16  # super clusters in a Pod's node selector that are compared in a step
_LEAST = {PODS: 1000}

Usable = Callable[[Share], bool]
"""Returns whether anything but the room keeps a Pod from a share."""


class Room:
    """The free room of a namespace's shares while Pods take theirs in their order.

    Attributes:
        held: super cluster whose share is held -> name of the Pod that it is held for.
        steps: steps of about a microsecond that were taken.

    Args:
        shares: the shares; they are not changed.
        usable: returns the shares that a Pod may use, but for their room.
        now: monotonic seconds.
    """

    def __init__(self, shares: Iterable[Share], usable: Callable[[Pod], Usable], now: float) -> None:
        self._shares = [Share(each.super_id, each.capacity, dict(each.used), each.pods) for each in shares]
        self._open = [share for share in self._shares if share.fits(_LEAST)]
        self._usable = usable
        self._now = now
        self.held: dict[str, str] = {}
        self.steps = 0

    @property
    def full(self) -> bool:
        """Return whether no share has room for any Pod."""
        return not self._open

    def take(self, pod: Pod) -> str:
        """Give a Pod room, and return the super cluster; empty if it fits nowhere."""
        requests = pod.needs.requests
        usable: Usable | None = None
        for share in self._open:
            self.steps += 1
            if share.fits(requests):
                self.steps += filter_steps(pod)
                usable = usable or self._usable(pod)
                if usable(share):
                    share.charge(requests)
                    if not share.fits(_LEAST):
                        self._open.remove(share)
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
        self.steps += len(self._open) * (1 + filter_steps(pod))
        usable = self._usable(pod)
        able = [share for share in self._open if _fits_at_all(share, requests) and usable(share)]
        if able:
            best = min(able, key=lambda share: (_lack(share, requests), share.super_id))
            self.held[best.super_id] = pod.name
            self._open.remove(best)


def serve(
    waiting: Waiting,
    find: Callable[[str], Pod | None],
    room: Room,
    *,
    after: Place | None = None,
    before: Place | None = None,
    most: int | None = None,
    part: int = 1,
) -> tuple[list[str], Place | None]:
    """Give waiting Pods room in their order, until that has taken `MOST_STEPS` steps. It looks at one Pod at least.

    Args:
        waiting: the Pods.
        find: returns a Pod by its name.
        room: the room.
        after: begins after this place.
        before: ends before this place.
        most: ends after this number of Pods.
        part: ends after this part of `MOST_STEPS`.

    Returns:
        The names of the Pods that find room, and the place of the last one that was looked at, if others follow it.
    """
    found: list[str] = []
    end = room.steps + MOST_STEPS // part
    walk, looked, last, took = Walk(waiting, after), 0, after, False
    while not room.full:
        place = walk.next(took=took)
        if place is None or (before is not None and place >= before):
            break
        if looked and (looked == most or room.steps >= end):
            return found, last
        pod, last = find(place[2]), place
        took = pod is not None and bool(room.take(pod))
        looked += 1
        room.steps += 1
        if took:
            found.append(place[2])
    return found, None


def filter_steps(pod: Pod) -> int:
    """Return the steps of the filters of a Pod for one share."""
    needs = pod.needs
    filters = 1 + len(needs.claims) + len(needs.devices) + len(pod.services)
    return _FILTER_STEPS * filters + len(needs.supers or needs.avoided) // _NAMES_A_STEP


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
