"""Deals a namespace's slices out: pinned ones first, then where they are now, then free ones."""

from collections.abc import Mapping
from heapq import heapify, heappop, heapreplace

from msgspec import Struct

from vcsync.scheduling.filters import FREE, PINNED, Refusal, refusals
from vcsync.scheduling.resources import Resources, pieces, shortages, show, subtract, times
from vcsync.scheduling.scores import Candidate, score
from vcsync.scheduling.slices import PODS
from vcsync.scheduling.snapshot import Health, SuperView


class SliceRequest(Struct, frozen=True):
    """What a namespace asks for.

    `slices` of `size` (thousandths). `current`: slices per super cluster that it holds now, of `current_size`
    (None: the same size). `pins`: slices an operator wants on a super cluster. `tenant_free`: what the
    operator's cap leaves for this namespace, present slices included; resources it does not name are not
    capped. `policy`: see `POLICIES`.
    """

    slices: int
    size: Resources
    current: dict[str, int] = {}
    current_size: Resources | None = None
    pins: dict[str, int] = {}
    tenant_free: Resources = {}
    policy: str = "spread"


class SuperExplanation(Struct, frozen=True):
    """What became of one super cluster: slices it got, those that stayed, its score, what kept more off."""

    super_id: str
    slices: int
    kept: int
    score: int
    refusals: tuple[Refusal, ...]


class Decision(Struct, frozen=True):
    """Slices per super cluster (only positive numbers, in order of ids), slices that wait, and why.

    `refusals` concern the whole namespace, those in `explanation` one super cluster.
    """

    placements: dict[str, int]
    waiting: int
    explanation: tuple[SuperExplanation, ...]
    refusals: tuple[Refusal, ...]

    def reasons(self, *, public: bool = False) -> str:
        """Why slices wait, in one line: what was missing where; empty if none waits.

        `public`: as a tenant may read it, without the amounts that are left of other tenants' use.
        """
        if not self.waiting:
            return ""

        def text(refusal: Refusal) -> str:
            return (public and refusal.public) or refusal.message

        texts = [text(refusal) for refusal in self.refusals]
        if not texts:
            texts = [
                f"{entry.super_id}: {', '.join(text(refusal) for refusal in entry.refusals)}"
                for entry in self.explanation
                if entry.refusals
            ]
        return "; ".join(texts) or "there is no super cluster"


class _Deal:
    """The state of one decision while it is made."""

    def __init__(self, candidates: dict[str, Candidate], request: SliceRequest, allowed: int) -> None:
        self.candidates = candidates
        self.request = request
        self.left = allowed  # slices that may still be given
        self.kept: dict[str, int] = {}

    def room(self, super_id: str) -> int:
        """How many more slices fit there, and may still be given."""
        return min(self.left, pieces(self.candidates[super_id].free, self.request.size))

    def take(self, super_id: str, slices: int) -> None:
        candidate = self.candidates[super_id]
        candidate.slices += slices
        candidate.free = subtract(candidate.free, times(self.request.size, slices))
        self.left -= slices

    def keep(self, super_id: str, slices: int) -> None:
        self.take(super_id, slices)
        self.kept[super_id] = self.kept.get(super_id, 0) + slices


def place_slices(
    views: Mapping[str, SuperView], allocated: Mapping[str, Mapping[str, int]], request: SliceRequest
) -> Decision:
    """Decide where a namespace's slices go.

    `views`: the super clusters by id. `allocated`: per id what other namespaces hold (thousandths). What fits
    is placed even if not everything does. Slices stay where they are whatever the health or fill of that
    super cluster, as long as it exists; those on ids not in `views` are placed anew. From a super cluster that
    is drained they move as far as others have room; the rest stays. When there are fewer slices than before,
    they go from unhealthy super clusters first, then from where the namespace has most; pinned ones last.
    """
    candidates = {
        super_id: Candidate(
            views[super_id], subtract(views[super_id].capacity, allocated.get(super_id, {})), 0
        )
        for super_id in sorted(views)
    }
    allowed, capped = _within_cap(request)
    current = _carried_over(request, candidates)
    deal = _Deal(candidates, request, allowed)
    _place_pinned(deal, current)
    drained = {super_id: current.pop(super_id) for super_id in list(current) if views[super_id].draining}
    _keep_present(deal, current)
    _place_free(deal)
    _keep_present(deal, drained)
    return _decision(deal, capped)


def _within_cap(request: SliceRequest) -> tuple[int, Refusal | None]:
    """How many slices the tenant's cap lets the namespace have; its objection if that is fewer than asked.

    Pods bound new slices only: slices that Pods run on do not go for having more Pods than before.
    """
    capped = {name: amount for name, amount in request.size.items() if name in request.tenant_free}
    allowed = request.slices
    for name, amount in capped.items():
        room = pieces(request.tenant_free, {name: amount})
        allowed = min(allowed, max(room, sum(request.current.values())) if name == PODS else room)
    if allowed >= request.slices:
        return request.slices, None
    tight = [name for name in sorted(capped) if request.tenant_free[name] < capped[name] * request.slices]
    texts = [
        f"{name} {show(name, capped[name] * request.slices)} asked, "
        f"{show(name, max(0, request.tenant_free[name]))} left to this namespace"
        for name in tight
    ]
    return allowed, Refusal("TenantQuota", f"the tenant's quota: {', '.join(texts)}")


def _carried_over(request: SliceRequest, candidates: Mapping[str, Candidate]) -> dict[str, int]:
    """The present slices on known super clusters, counted in the size they have from now on.

    With another size every super cluster keeps its share of the namespace, so that its Pods stay inside it.
    Beyond what it holds already it gets only what has room. No slice goes for having more Pods than before.
    """
    present = {super_id: slices for super_id, slices in sorted(request.current.items()) if slices > 0}
    current = {super_id: slices for super_id, slices in present.items() if super_id in candidates}
    old_size = request.current_size
    if old_size is None or old_size == request.size:
        return current
    total = sum(present.values())
    compute = {name: amount for name, amount in request.size.items() if name != PODS}
    return {
        super_id: min(
            slices * request.slices // total,
            max(pieces(times(old_size, slices), compute), pieces(candidates[super_id].free, request.size)),
        )
        for super_id, slices in current.items()
    }


def _place_pinned(deal: _Deal, current: dict[str, int]) -> None:
    """Place what is pinned and fits; what stands there already stays. Takes it out of `current`."""
    for super_id in sorted(deal.request.pins):
        if super_id not in deal.candidates:
            continue
        there = current.get(super_id, 0)
        staying = min(deal.request.pins[super_id], there, deal.left)
        deal.keep(super_id, staying)
        if super_id in current:
            current[super_id] -= staying
        if not refusals(PINNED, deal.candidates[super_id].view, deal.request.size):
            deal.take(super_id, min(deal.request.pins[super_id] - staying, deal.room(super_id)))


def _keep_present(deal: _Deal, current: dict[str, int]) -> None:
    """Keep the present slices, or as many as are allowed: the least trusted and fullest places lose first."""

    def order(super_id: str) -> tuple[Health, int, str]:
        view = deal.candidates[super_id].view
        health = min(view.health, Health.SUSPECT) if view.cordoned else view.health
        return health, -current[super_id] - deal.candidates[super_id].slices, super_id

    for _ in range(sum(current.values()) - deal.left):
        current[min((super_id for super_id in current if current[super_id]), key=order)] -= 1
    for super_id, slices in current.items():
        if slices:
            deal.keep(super_id, slices)


def _place_free(deal: _Deal) -> None:
    """Give the remaining slices one by one to the best candidate.

    A heap does: a slice changes only its taker's score.
    """
    heap = [
        (-_score(deal, super_id), super_id)
        for super_id, candidate in deal.candidates.items()
        if deal.room(super_id) and not refusals(FREE, candidate.view, deal.request.size)
    ]
    heapify(heap)
    while heap and deal.left:
        super_id = heap[0][1]
        deal.take(super_id, 1)
        if deal.room(super_id):
            heapreplace(heap, (-_score(deal, super_id), super_id))
        else:
            heappop(heap)


def _score(deal: _Deal, super_id: str) -> int:
    return score(deal.request.policy, deal.candidates[super_id], deal.request.size)


def _decision(deal: _Deal, capped: Refusal | None) -> Decision:
    waiting = deal.request.slices - sum(candidate.slices for candidate in deal.candidates.values())
    return Decision(
        {super_id: candidate.slices for super_id, candidate in deal.candidates.items() if candidate.slices},
        waiting,
        tuple(
            SuperExplanation(
                super_id,
                candidate.slices,
                deal.kept.get(super_id, 0),
                _score(deal, super_id),
                tuple(
                    refusals(FREE, candidate.view, deal.request.size)
                    + _shortage(candidate, deal.request.size)
                ),
            )
            for super_id, candidate in deal.candidates.items()
        ),
        () if capped is None else (capped,),
    )


def _shortage(candidate: Candidate, size: Mapping[str, int]) -> list[Refusal]:
    """What is missing for one more slice, given what was placed."""
    free = {name: candidate.free.get(name, 0) for name in size}
    missing = shortages(size, free, candidate.view.capacity)
    if not missing:
        return []
    short = " and ".join(name for name in sorted(size) if size[name] > free[name])
    return [Refusal("Capacity", ", ".join(missing), f"too little {short} free for a slice")]
