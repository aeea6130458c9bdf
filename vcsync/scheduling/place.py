"""Places a namespace's slices on super clusters: pinned slices first, then present ones, then new ones. Pure."""

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heapreplace

from msgspec import Struct
from msgspec.structs import replace

from vcsync.scheduling.filters import FREE, PINNED, Refusal, refusals
from vcsync.scheduling.resources import Resources, add, pieces, shortages, show, subtract, times
from vcsync.scheduling.scores import Candidate, score
from vcsync.scheduling.slices import PODS
from vcsync.scheduling.snapshot import Health, SuperView

_POD = 1000
"""One Pod, in thousandths."""

TENANT_QUOTA = "TenantQuota"
"""Name of the refusal by the operator's cap on a tenant, which concerns all super clusters."""


class Transfer(Struct, frozen=True):
    """Slices of a namespace that are to go from one super cluster to another.

    Attributes:
        source: the super cluster that they leave.
        target: the super cluster that gets them.
        slices: how many.
        stay: number of slices that stay on `source`, so that a transfer which was carried out asks for nothing more.
    """

    source: str
    target: str
    slices: int
    stay: int


class SliceRequest(Struct, frozen=True):
    """The request of a namespace.

    Attributes:
        slices: number of slices.
        size: amounts of one slice, in thousandths. Its Pods are the most that a slice may have.
        current: super cluster -> number of present slices.
        current_size: amounts of one present slice; None for the same size.
        pins: super cluster -> number of slices that an operator wants there.
        clearing: super cluster -> amounts that the namespace still holds there beyond its present slices.
        tenant_free: amounts that the operator's cap on the tenant leaves to this namespace, including its present
            slices. Resources that it does not name are not capped.
        tenant_clearing: amounts that the tenant's other namespaces still hold beyond their slices. They leave less for
            new slices, and take no present ones away.
        policy: one of `POLICIES`.
        leaving: lost super cluster that the namespace may leave -> number of slices that must stay there.
        transfers: slices that go to another super cluster if it has room.
        held: super clusters that are being drained, and that the namespace may not leave yet.
    """

    slices: int
    size: Resources
    current: dict[str, int] = {}
    current_size: Resources | None = None
    pins: dict[str, int] = {}
    clearing: Mapping[str, Resources] = {}
    tenant_free: Resources = {}
    tenant_clearing: Resources = {}
    policy: str = "spread"
    leaving: Mapping[str, int] = {}
    transfers: tuple[Transfer, ...] = ()
    held: Collection[str] = ()


class SuperExplanation(Struct, frozen=True):
    """The result for one super cluster.

    Attributes:
        super_id: the super cluster.
        slices: number of slices after the decision.
        kept: number of slices that were there before.
        score: its score for one more slice.
        refusals: the reasons why it got no more slices.
    """

    super_id: str
    slices: int
    kept: int
    score: int
    refusals: tuple[Refusal, ...]


class Decision(Struct, frozen=True):
    """The placement of a namespace's slices.

    Attributes:
        size: amounts of one slice: those of the request, but fewer Pods where more do not fit beside the present slices.
        placements: super cluster -> number of slices; only positive numbers, in order of ids.
        waiting: number of slices that wait.
        explanation: the result for each super cluster.
        refusals: refusals that concern the whole namespace.
    """

    size: Resources
    placements: dict[str, int]
    waiting: int
    explanation: tuple[SuperExplanation, ...]
    refusals: tuple[Refusal, ...]

    def reasons(self, *, public: bool = False) -> str:
        """Return why slices wait, in one line; empty if none waits.

        Args:
            public: whether the text is for a tenant, and must not show amounts that depend on other tenants.
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


class _State:
    """The state of one decision while it is made."""

    def __init__(self, candidates: dict[str, Candidate], request: SliceRequest, allowed: int) -> None:
        self.candidates = candidates
        self.request = request
        self.left = allowed  # slices that may still be placed
        self.kept: dict[str, int] = {}
        self._refusals: dict[str, list[Refusal]] = {}
        self._scores: dict[str, int] = {}

    def room(self, super_id: str) -> int:
        """Return how many more slices may be placed on a super cluster."""
        return min(self.left, pieces(self.candidates[super_id].free, self.request.size))

    def refusals(self, super_id: str) -> list[Refusal]:
        """Return why a super cluster takes no new slices but pinned ones, apart from its room."""
        found = self._refusals.get(super_id)
        if found is None:
            found = refusals(FREE, self.candidates[super_id].view, self.request.size)
            self._refusals[super_id] = found
        return found

    def score(self, super_id: str) -> int:
        """Return a super cluster's score for one more slice."""
        found = self._scores.get(super_id)
        if found is None:
            found = score(self.request.policy, self.candidates[super_id], self.request.size)
            self._scores[super_id] = found
        return found

    def take(self, super_id: str, slices: int) -> None:
        if not slices:
            return
        self._scores.pop(super_id, None)
        candidate = self.candidates[super_id]
        candidate.slices += slices
        candidate.free = subtract(candidate.free, times(self.request.size, slices))
        self.left -= slices

    def give_pods(self, more: int) -> None:
        """Let each slice have more Pods, in thousandths."""
        self.request = replace(self.request, size=add(self.request.size, {PODS: more}))
        for candidate in self.candidates.values():
            candidate.free = subtract(candidate.free, {PODS: more * candidate.slices})
        self._refusals.clear()
        self._scores.clear()

    def keep(self, super_id: str, slices: int) -> None:
        self.take(super_id, slices)
        self.kept[super_id] = self.kept.get(super_id, 0) + slices


def place_slices(
    views: Mapping[str, SuperView], allocated: Mapping[str, Mapping[str, int]], request: SliceRequest
) -> Decision:
    """Place a namespace's slices.

    As many slices as fit are placed. Present slices are kept on their super cluster, whatever its health and load, as long
    as it exists; those on ids that are not in `views` are placed again. Slices on a super cluster that is being drained,
    unless the namespace is held there, or that the namespace may leave, move if others have room, and are kept otherwise; so
    do those that are transferred. New slices go first to where the namespace still holds amounts, since its Pods or volumes
    may still be there. If the number of slices shrinks, they are removed from unhealthy super clusters first, then from where
    the namespace has most; pinned slices last. Slices of another size keep what the present ones have on each super cluster,
    and present slices get more Pods only as far as these fit on all of them.

    Args:
        views: id -> view of each super cluster.
        allocated: id -> amounts that other namespaces hold there, in thousandths.
        request: the namespace's request.
    """
    candidates = {
        super_id: Candidate(
            views[super_id], subtract(views[super_id].capacity, allocated.get(super_id, {})), 0
        )
        for super_id in sorted(views)
    }
    most_pods = request.size.get(PODS)
    request = _with_present_pods(request, candidates)
    allowed, capped = _within_cap(request)
    current = _carried_over(request, candidates)
    state = _State(candidates, request, allowed)
    _place_pinned(state, current)
    drained = _movable(current, views, request)
    transferred = _transferred(state, current)
    _keep_present(state, current)
    _place_transferred(state, transferred)
    _place_returning(state)
    _place_free(state)
    _keep_present(state, drained)
    if most_pods is not None:
        _add_pods(state, most_pods)
    return _decision(state, capped)


def _with_present_pods(request: SliceRequest, candidates: Mapping[str, Candidate]) -> SliceRequest:
    """Return the request with as many Pods in a slice as the present slices have. A slice has one Pod at least."""
    most, old = request.size.get(PODS), request.current_size
    if most is None or old is None or old == request.size:
        return request
    carried = _carried_over(replace(request, size=_compute(request.size)), candidates)
    present = [
        (old[PODS] * request.current[super_id] if PODS in old else candidates[super_id].free[PODS]) // slices
        for super_id, slices in carried.items()
        if slices and PODS in candidates[super_id].free
    ]
    pods = min(most, max(_POD, min(present, default=most) // _POD * _POD))
    return replace(request, size=request.size | {PODS: pods})


def _compute(size: Resources) -> Resources:
    return {name: amount for name, amount in size.items() if name != PODS}


def _within_cap(request: SliceRequest) -> tuple[int, Refusal | None]:
    """Return how many slices the tenant's cap allows, and a refusal if that is fewer than requested.

    Present slices count by what they have now: small ones that become large are new for the rest. The number of Pods limits
    only new slices: present ones are not removed because they now have more Pods.
    """
    capped = {name: amount for name, amount in request.size.items() if name in request.tenant_free}
    free = subtract(request.tenant_free, request.tenant_clearing)
    present = sum(request.current.values())
    held = times(request.current_size or request.size, present)
    allowed = request.slices
    for name, amount in capped.items():
        one = {name: amount}
        if name == PODS:
            kept = pieces(held, one) if PODS in held else present
        else:
            kept = min(pieces(held, one), pieces(request.tenant_free, one))
        allowed = min(allowed, max(kept, pieces(free, {name: amount})))
    if allowed >= request.slices:
        return request.slices, None
    tight = [name for name in sorted(capped) if free[name] < capped[name] * request.slices]
    texts = [
        f"{name} {show(name, capped[name] * request.slices)} asked, "
        f"{show(name, max(0, free[name]))} left to this namespace"
        for name in tight
    ]
    return allowed, Refusal(TENANT_QUOTA, f"the tenant's quota: {', '.join(texts)}")


def _carried_over(request: SliceRequest, candidates: Mapping[str, Candidate]) -> dict[str, int]:
    """Return the present slices on known super clusters, converted to the new size.

    If the size changes, every super cluster keeps its share of the namespace, so that its Pods remain within it. It gets
    more than it holds, of any resource, only if there is room. Pods alone take no slice away.
    """
    present = {super_id: slices for super_id, slices in sorted(request.current.items()) if slices > 0}
    current = {super_id: slices for super_id, slices in present.items() if super_id in candidates}
    old_size, compute = request.current_size, _compute(request.size)
    if old_size is None or _compute(old_size) == compute:
        return current
    total = sum(present.values())
    return {
        super_id: min(
            slices * request.slices // total,
            max(
                min(slices, pieces(times(old_size, slices), compute)),
                pieces(times(old_size, slices), request.size),
                pieces(candidates[super_id].free, request.size),
            ),
        )
        for super_id, slices in current.items()
    }


def _place_pinned(state: _State, current: dict[str, int]) -> None:
    """Place the pinned slices that fit, and keep those already there. They are removed from `current`."""
    for super_id in sorted(state.request.pins):
        if super_id not in state.candidates:
            continue
        there = current.get(super_id, 0)
        staying = min(state.request.pins[super_id], there, state.left)
        state.keep(super_id, staying)
        if super_id in current:
            current[super_id] -= staying
        if not refusals(PINNED, state.candidates[super_id].view, state.request.size):
            state.take(super_id, min(state.request.pins[super_id] - staying, state.room(super_id)))


def _movable(
    current: dict[str, int], views: Mapping[str, SuperView], request: SliceRequest
) -> dict[str, int]:
    """Return the present slices that move if others have room. They are removed from `current`."""
    drained = [super_id for super_id in current if views[super_id].draining and super_id not in request.held]
    movable = {super_id: current.pop(super_id) for super_id in drained}
    for super_id, stay in request.leaving.items():
        if (moving := current.get(super_id, 0) - stay) > 0:
            movable[super_id] = moving
            current[super_id] = stay
    return movable


def _transferred(state: _State, current: dict[str, int]) -> list[Transfer]:
    """Return the transfers that are not carried out yet, with what they still move. That is removed from `current`."""
    found = []
    for each in state.request.transfers:
        there = current.get(each.source, 0)
        slices = min(each.slices, there, there + state.kept.get(each.source, 0) - each.stay)
        if slices > 0 and each.target in state.candidates:
            current[each.source] -= slices
            found.append(replace(each, slices=slices))
    return found


def _place_transferred(state: _State, transfers: list[Transfer]) -> None:
    """Place transferred slices, and keep those for which there is no room where they are."""
    for each in transfers:
        target = state.candidates[each.target]
        slices = min(each.slices, state.room(each.target))
        if refusals(FREE, target.view, state.request.size):
            slices = 0
        state.take(each.target, slices)
        _keep_present(state, {each.source: each.slices - slices})


def _keep_present(state: _State, current: dict[str, int]) -> None:
    """Keep the present slices, or as many as allowed. The least healthy and fullest super clusters lose slices first."""

    def order(super_id: str) -> tuple[Health, int, str]:
        view = state.candidates[super_id].view
        health = min(view.health, Health.SUSPECT) if view.cordoned else view.health
        return health, -current[super_id] - state.candidates[super_id].slices, super_id

    for _ in range(sum(current.values()) - state.left):
        current[min((super_id for super_id in current if current[super_id]), key=order)] -= 1
    for super_id, slices in current.items():
        if slices:
            state.keep(super_id, slices)


def _place_returning(state: _State) -> None:
    """Place slices where the namespace still holds amounts: as many as these make, and one at least."""
    for super_id in sorted(state.request.clearing):
        candidate = state.candidates.get(super_id)
        if candidate is None or state.refusals(super_id):
            continue
        held = pieces(state.request.clearing[super_id], state.request.size)
        state.take(super_id, min(max(1, held), state.room(super_id)))


def _place_free(state: _State) -> None:
    """Place the remaining slices one by one on the best candidate.

    A heap suffices, since a slice changes only the score of its own super cluster.
    """
    heap = [
        (-state.score(super_id), super_id)
        for super_id in state.candidates
        if state.room(super_id) and not state.refusals(super_id)
    ]
    heapify(heap)
    while heap and state.left:
        super_id = heap[0][1]
        state.take(super_id, 1)
        if state.room(super_id):
            heapreplace(heap, (-state.score(super_id), super_id))
        else:
            heappop(heap)


def _add_pods(state: _State, most: int) -> None:
    """Let slices have more Pods, as far as these fit on each super cluster that has slices.

    A part of what is wanted is given only if it adds more than a quarter, so that not each Pod that becomes free changes
    namespaces.
    """
    request, pods = state.request, state.request.size[PODS]
    room = [
        candidate.free[PODS] // candidate.slices
        for candidate in state.candidates.values()
        if candidate.slices and PODS in candidate.free
    ]
    slices = sum(candidate.slices for candidate in state.candidates.values())
    if slices and PODS in request.tenant_free:
        free = request.tenant_free[PODS] - request.tenant_clearing.get(PODS, 0)
        room.append(free // slices - pods)
    more = min(most - pods, max(0, min(room, default=0)) // _POD * _POD)
    if more and (pods + more == most or more * 4 > pods):
        state.give_pods(more)


def _decision(state: _State, capped: Refusal | None) -> Decision:
    waiting = state.request.slices - sum(candidate.slices for candidate in state.candidates.values())
    return Decision(
        state.request.size,
        {super_id: candidate.slices for super_id, candidate in state.candidates.items() if candidate.slices},
        waiting,
        tuple(
            SuperExplanation(
                super_id,
                candidate.slices,
                state.kept.get(super_id, 0),
                state.score(super_id),
                (*state.refusals(super_id), *_shortage(candidate, state.request.size)),
            )
            for super_id, candidate in state.candidates.items()
        ),
        () if capped is None else (capped,),
    )


def _shortage(candidate: Candidate, size: Mapping[str, int]) -> list[Refusal]:
    """Return a refusal if there is no capacity for one more slice after this decision."""
    if pieces(candidate.free, size):
        return []
    free = {name: candidate.free.get(name, 0) for name in size}
    missing = shortages(size, free, candidate.view.capacity)
    if not missing:
        return []
    short = " and ".join(name for name in sorted(size) if size[name] > free[name])
    return [Refusal("Capacity", ", ".join(missing), f"too little {short} free for a slice")]
