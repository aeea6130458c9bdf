"""Selects the super cluster for one Pod among those on which its namespace has slices."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from vcsync.scheduling import claims as claim_filter
from vcsync.scheduling import together
from vcsync.scheduling.claims import ClaimNeed
from vcsync.scheduling.filters import Refusal
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.resources import Resources, shortages, show, times
from vcsync.scheduling.scores import FULL
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.scheduling.together import Kept

HEALTH = "Health"
"""Name of the filter by the health of a super cluster."""
CLAIMS = "Claims"
"""Name of the filter by a Pod's claims."""
RUNTIME_CLASS = "RuntimeClass"
"""Name of the filter by a Pod's RuntimeClass."""
KEEP_TOGETHER = "KeepTogether"
"""Name of the filter by the Services that keep a Pod together with others."""
ROOM = "Share"
"""Name of the filter by the free part of a share."""
TURN = "Turn"
"""Name of the filter by other Pods of the namespace that are ahead."""
REFUSED = "Refused"
"""Name of the filter by what super clusters said when they refused the Pod."""
_NONE: Mapping[str, str] = {}


class Share(Struct):
    """A namespace's slices on one super cluster, taken together. Amounts are in thousandths.

    Attributes:
        super_id: the super cluster.
        capacity: amounts of the slices.
        used: amounts that unfinished Pods request.
        pods: number of those Pods.
    """

    super_id: str
    capacity: Resources
    used: Resources
    pods: int = 0

    def charge(self, requests: Mapping[str, int]) -> None:
        """Add a Pod's requests."""
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount
        self.pods += 1

    def release(self, requests: Mapping[str, int]) -> None:
        """Subtract a Pod's requests."""
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) - amount
        self.pods -= 1

    def fits(self, requests: Mapping[str, int]) -> bool:
        """Return whether a Pod fits in addition to the others. Resources that slices do not have are not limited."""
        for name, amount in self.capacity.items():
            asked = requests.get(name)
            if asked and self.used.get(name, 0) + asked > amount:
                return False
        return True


def share_of(super_id: str, slices: int, size: Mapping[str, int]) -> Share:
    """Return an unused share of `slices` slices of `size`."""
    return Share(super_id, times(size, slices), {})


class ShareExplanation(Struct, frozen=True):
    """The score of one super cluster, and why it was refused. The highest score without refusals is selected."""

    super_id: str
    score: int
    refusals: tuple[Refusal, ...]


class PodDecision(Struct, frozen=True):
    """The super cluster for a Pod, None if it has to wait, and why."""

    super_id: str | None
    explanation: tuple[ShareExplanation, ...]

    def reasons(self) -> str:
        """Return why the Pod waits, in one line; empty if it does not."""
        if self.super_id is not None:
            return ""
        if not self.explanation:
            return "its namespace holds no slices on any super cluster; it needs a ResourceQuota"
        return "; ".join(
            f"{entry.super_id}: {', '.join(refusal.message for refusal in entry.refusals)}"
            for entry in self.explanation
        )


def _health(_share: Share, _needs: PodNeeds, view: SuperView | None) -> str | None:
    if view is None:
        return "is not registered"
    if view.health is Health.LOST:
        return f"is lost: {view.out_of_touch}" if view.out_of_touch else "is lost"
    if view.health is Health.SUSPECT and view.out_of_touch:
        return f"is suspect: {view.out_of_touch}"
    return "has not reported yet" if view.health is Health.UNKNOWN else None


def _closed(_share: Share, _needs: PodNeeds, view: SuperView | None) -> str | None:
    return "is cordoned" if view is not None and view.cordoned and not view.draining else None


def _selected(share: Share, needs: PodNeeds, _view: SuperView | None) -> str | None:
    if needs.accepts(share.super_id):
        return None
    if needs.supers is None:
        return f"node affinity asks for no nodes of {', '.join(needs.avoided)}"
    return f"node selector asks for nodes of {', '.join(needs.supers) or 'no super cluster'}"


def _largest_node(_share: Share, needs: PodNeeds, view: SuperView | None) -> str | None:
    if view is None or not view.largest_node:
        return None
    too_large = [
        f"{name} {show(name, needs.requests[name])} asked, its largest node has {show(name, most)}"
        for name, most in sorted(view.largest_node.items())
        if needs.requests.get(name, 0) > most
    ]
    return ", ".join(too_large) or None


def _room(share: Share, needs: PodNeeds, _view: SuperView | None) -> str | None:
    if share.fits(needs.requests):
        return None
    free = {name: amount - share.used.get(name, 0) for name, amount in share.capacity.items()}
    return ", ".join(shortages(needs.requests, free, share.capacity)) or None


def runtime_refusal(name: str, super_id: str, views: Mapping[str, SuperView]) -> str | None:
    """Return why a RuntimeClass excludes a super cluster; None if it does not.

    A class that no super cluster publishes is the tenant's own. Whether its handler is published is known where it is converted.

    Args:
        name: name of the Pod's RuntimeClass; empty if it has none.
        super_id: id of the super cluster.
        views: the pool.
    """
    if not name or not any(view.publishes_runtime(name) for view in views.values()):
        return None
    view = views.get(super_id)
    return (
        None if view is not None and view.publishes_runtime(name) else f"does not publish RuntimeClass {name}"
    )


_Filter = Callable[[Share, PodNeeds, SuperView | None], str | None]

_FILTERS: tuple[tuple[str, _Filter], ...] = (
    (HEALTH, _health),
    ("Cordon", _closed),
    ("NodeSelector", _selected),
    ("LargestNode", _largest_node),
    (ROOM, _room),
)


def refusals(
    share: Share,
    needs: PodNeeds,
    views: Mapping[str, SuperView],
    claims: Sequence[ClaimNeed] = (),
    kept: Sequence[Kept] = (),
    *,
    refused: Mapping[str, str] = _NONE,
    turns: Mapping[str, str] = _NONE,
) -> tuple[Refusal, ...]:
    """Return every reason why a Pod cannot use a share.

    A super cluster that is out of touch is refused at once. One without ready nodes is only chosen last, since an
    autoscaler may add nodes for the Pod. So is one that recovers, and one that drains, as long as the namespace still has
    slices there: it may have no others.
    """
    messages = list(_messages(share, needs, views, claims=claims, kept=kept, refused=refused))
    if turns and not any(name == ROOM and message for name, message in messages):
        messages.append((TURN, turns.get(share.super_id)))
    return tuple(Refusal(name, message) for name, message in messages if message is not None)


def usable(
    share: Share,
    needs: PodNeeds,
    views: Mapping[str, SuperView],
    claims: Sequence[ClaimNeed] = (),
    kept: Sequence[Kept] = (),
    *,
    refused: Mapping[str, str] = _NONE,
) -> bool:
    """Return whether nothing but the room keeps a Pod from a share. This ends at the first reason."""
    messages = _messages(share, needs, views, claims=claims, kept=kept, refused=refused)
    return all(message is None for name, message in messages if name != ROOM)


def _messages(
    share: Share,
    needs: PodNeeds,
    views: Mapping[str, SuperView],
    *,
    claims: Sequence[ClaimNeed],
    kept: Sequence[Kept],
    refused: Mapping[str, str],
) -> Iterator[tuple[str, str | None]]:
    """Yield each filter and its reason to refuse the share, None if it does not."""
    view = views.get(share.super_id)
    for name, test in _FILTERS:
        yield name, test(share, needs, view)
    yield RUNTIME_CLASS, runtime_refusal(needs.runtime_class, share.super_id, views)
    if claims:
        yield CLAIMS, claim_filter.refusal(claims, share.super_id, view)
    if kept:
        yield KEEP_TOGETHER, together.refusal(kept, share.super_id)
    if refused:
        yield REFUSED, refused.get(share.super_id)


def score(share: Share, needs: PodNeeds, view: SuperView | None) -> int:
    """Return the score of a share for a Pod: ready super clusters first, then the share that is least used afterwards."""
    used = 0
    for name, amount in share.capacity.items():
        used = max(used, (share.used.get(name, 0) + needs.requests.get(name, 0)) * FULL // max(1, amount))
    healthy = view is not None and view.health is Health.READY and not view.draining
    return healthy * 10**12 - used


def pick_super(
    shares: Iterable[Share],
    needs: PodNeeds,
    views: Mapping[str, SuperView],
    claims: Sequence[ClaimNeed] = (),
    kept: Sequence[Kept] = (),
    *,
    refused: Mapping[str, str] = _NONE,
    turns: Mapping[str, str] = _NONE,
) -> PodDecision:
    """Select the share with the highest score among those without refusals.

    Among equal scores the share with fewer Pods wins, then the lower id. The result does not depend on the order of the
    shares. Super clusters that could not provision a claim are chosen only if no other one is possible. Super clusters in
    `refused` and `turns`, with a reason each, are not chosen.
    """
    ordered = sorted(shares, key=lambda share: share.super_id)
    for wanted in claim_filter.steps(claims):
        decision = _pick_super(ordered, needs, views, wanted, kept, refused=refused, turns=turns)
        if decision.super_id is not None:
            break
    return decision


def _pick_super(
    shares: Sequence[Share],
    needs: PodNeeds,
    views: Mapping[str, SuperView],
    claims: Sequence[ClaimNeed],
    kept: Sequence[Kept],
    *,
    refused: Mapping[str, str],
    turns: Mapping[str, str],
) -> PodDecision:
    best: tuple[int, int, str] | None = None
    explanation = []
    for share in shares:
        view = views.get(share.super_id)
        points = score(share, needs, view)
        objections = refusals(share, needs, views, claims, kept, refused=refused, turns=turns)
        explanation.append(ShareExplanation(share.super_id, points, objections))
        rank = (-points, share.pods, share.super_id)
        if not objections and (best is None or rank < best):
            best = rank
    return PodDecision(None if best is None else best[2], tuple(explanation))
