"""Places a namespace's slices on super clusters: pinned slices first, then present ones, then new ones. Pure."""

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heapreplace

from msgspec import Struct
from msgspec.structs import replace

from vcsync.scheduling.filters import PINNED, Refusal, refusals
from vcsync.scheduling.placing import POD, Placing
from vcsync.scheduling.resources import Resources, add, pieces, shortages, show, subtract, times
from vcsync.scheduling.scores import Candidate
from vcsync.scheduling.slices import PODS
from vcsync.scheduling.snapshot import Health, SuperView

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
    current = _carried_over(request, candidates)
    held = _held(request)
    free_of_cap = subtract(request.tenant_free, request.tenant_clearing)
    for amounts in held.values():
        free_of_cap = subtract(free_of_cap, amounts)
    allowed = _allowed(request)
    state = Placing(
        candidates, request.size, request.policy, left=allowed, held=held, free_of_cap=free_of_cap
    )
    _place_pinned(state, request, current)
    drained = _movable(current, views, request)
    transferred = _transferred(state, request, current)
    _keep_present(state, current)
    _place_transferred(state, request, transferred)
    _place_returning(state, request)
    _place_free(state)
    _place_moving(state, request, drained)
    _keep_present(state, drained)
    if most_pods is not None:
        state.add_pods(most_pods)
    return _decision(state, request, allowed)


def _with_present_pods(request: SliceRequest, candidates: Mapping[str, Candidate]) -> SliceRequest:
    """Return the request with as many Pods in a slice as the present slices have. A slice has one Pod at least.

    Present slices whose number of Pods is not known count with as many as fit.
    """
    most, old = request.size.get(PODS), request.current_size or request.size
    if most is None:
        return replace(request, current_size=old)
    carried = _carried_over(replace(request, size=_compute(request.size)), candidates)
    present = [
        (old[PODS] * request.current[super_id] if PODS in old else candidates[super_id].free[PODS]) // slices
        for super_id, slices in carried.items()
        if slices and (PODS in old or PODS in candidates[super_id].free)
    ]
    pods = min(most, max(POD, min(present, default=most) // POD * POD))
    return replace(request, size=request.size | {PODS: pods}, current_size={PODS: pods, **old})


def _compute(size: Resources) -> Resources:
    return {name: amount for name, amount in size.items() if name != PODS}


def _present(request: SliceRequest, super_id: str) -> Resources:
    """Return the amounts of the present slices on a super cluster."""
    return times(request.current_size or request.size, request.current.get(super_id, 0))


def _held(request: SliceRequest) -> dict[str, Resources]:
    """Return what the namespace holds on each super cluster, the unknown ones included."""
    return {
        super_id: add(_present(request, super_id), request.clearing.get(super_id, {}))
        for super_id in {**request.current, **request.clearing}
    }


def _allowed(request: SliceRequest) -> int:
    """Return how many slices the tenant's cap allows, wherever they are.

    Present slices count by what they have now: small ones that become large are new for the rest. The number of Pods limits
    only new slices: present ones are not removed because the pool has fewer Pods.
    """
    free = subtract(request.tenant_free, request.tenant_clearing)
    present = times(request.current_size or request.size, sum(request.current.values()))
    allowed = request.slices
    for name in request.size.keys() & request.tenant_free.keys():
        one = {name: request.size[name]}
        kept = pieces(present, one)
        if name != PODS:
            kept = min(kept, pieces(request.tenant_free, one))
        allowed = min(allowed, max(kept, pieces(free, one)))
    return allowed


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
                pieces(_present(request, super_id), request.size),
                pieces(candidates[super_id].free, request.size),
            ),
        )
        for super_id, slices in current.items()
    }


def _place_pinned(state: Placing, request: SliceRequest, current: dict[str, int]) -> None:
    """Place the pinned slices that fit, and keep those already there. They are removed from `current`.

    An operator's pins move slices. So they are placed though the old place still holds what they leave.
    """
    for super_id in sorted(request.pins):
        if super_id not in state.candidates:
            continue
        there = current.get(super_id, 0)
        staying = min(request.pins[super_id], there, state.left)
        state.keep(super_id, staying)
        if super_id in current:
            current[super_id] -= staying
        if not refusals(PINNED, state.candidates[super_id].view, state.size):
            _move(state, super_id, request.pins[super_id] - staying)


def _move(state: Placing, super_id: str, slices: int) -> int:
    """Place slices that leave another super cluster, as many as fit. Return their number."""
    state.beyond_cap = slices
    moved = min(slices, state.room(super_id))
    state.take(super_id, moved)
    state.beyond_cap = 0
    return moved


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


def _transferred(state: Placing, request: SliceRequest, current: dict[str, int]) -> list[Transfer]:
    """Return the transfers that are not carried out yet, with what they still move. That is removed from `current`."""
    found = []
    for each in request.transfers:
        there = current.get(each.source, 0)
        slices = min(each.slices, there, there + state.kept.get(each.source, 0) - each.stay)
        if slices > 0 and each.target in state.candidates:
            current[each.source] -= slices
            found.append(replace(each, slices=slices))
    return found


def _place_transferred(state: Placing, request: SliceRequest, transfers: list[Transfer]) -> None:
    """Place transferred slices, and keep those for which there is no room where they are."""
    for each in transfers:
        slices = 0
        if not state.refusals(each.target):
            most = pieces(_present(request, each.source), state.size)
            slices = _move(state, each.target, min(each.slices, most))
        _keep_present(state, {each.source: each.slices - slices})


def _keep_present(state: Placing, current: dict[str, int]) -> None:
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


def _place_returning(state: Placing, request: SliceRequest) -> None:
    """Place slices where the namespace still holds amounts: as many as these make, and one at least."""
    for super_id in sorted(request.clearing):
        candidate = state.candidates.get(super_id)
        if candidate is None or state.refusals(super_id):
            continue
        held = pieces(request.clearing[super_id], state.size)
        state.take(super_id, min(max(1, held), state.room(super_id)))


def _place_free(state: Placing) -> None:
    """Place the remaining slices one by one on the best candidate.

    A heap suffices, since a slice changes only the score of its own super cluster. It may use up what the cap leaves to all.
    """
    heap = [
        (-state.score(super_id), super_id)
        for super_id in state.candidates
        if state.room(super_id) and not state.refusals(super_id)
    ]
    heapify(heap)
    while heap and state.left:
        super_id = heap[0][1]
        if state.room(super_id):
            state.take(super_id, 1)
            heapreplace(heap, (-state.score(super_id), super_id))
        else:
            heappop(heap)


def _place_moving(state: Placing, request: SliceRequest, drained: Mapping[str, int]) -> None:
    """Place what new slices leave of the cap and more: slices that leave another super cluster need none of it.

    Their number is what the present ones have there. The others on a super cluster that is gone move, too.
    """
    if not request.tenant_free:
        return
    gone = request.current.keys() - state.candidates.keys()
    moving = {super_id: pieces(_present(request, super_id), state.size) for super_id in gone}
    moving |= {
        super_id: min(slices, pieces(_present(request, super_id), state.size))
        for super_id, slices in drained.items()
    }
    state.left = min(state.left, sum(moving[each] for each in gone) + sum(drained.values()))
    state.beyond_cap = sum(moving.values())
    _place_free(state)
    state.beyond_cap = 0


def _decision(state: Placing, request: SliceRequest, allowed: int) -> Decision:
    waiting = request.slices - sum(candidate.slices for candidate in state.candidates.values())
    capped = _capped(state, request, allowed) if waiting else None
    return Decision(
        state.size,
        {super_id: candidate.slices for super_id, candidate in state.candidates.items() if candidate.slices},
        waiting,
        tuple(
            SuperExplanation(
                super_id,
                candidate.slices,
                state.kept.get(super_id, 0),
                state.score(super_id),
                (*state.refusals(super_id), *_shortage(candidate, state.size)),
            )
            for super_id, candidate in state.candidates.items()
        ),
        () if capped is None else (capped,),
    )


def _capped(state: Placing, request: SliceRequest, allowed: int) -> Refusal | None:
    """Return a refusal if slices wait because of the tenant's cap; None if they wait for something else."""
    if allowed == request.slices and not any(
        pieces(candidate.free, state.size) and not state.refusals(super_id)
        for super_id, candidate in state.candidates.items()
    ):
        return None
    free = subtract(request.tenant_free, request.tenant_clearing)
    unused = {super_id: state.unused(super_id) for super_id in sorted(_held(request))}
    texts = []
    for name in sorted(state.size.keys() & free.keys()):
        asked, held = state.size[name] * request.slices, sum(each[name] for each in unused.values())
        if free[name] - held >= asked:
            continue
        text = f"{name} {show(name, asked)} asked, {show(name, max(0, free[name] - held))} left to this namespace"
        if held:
            places = ", ".join(super_id for super_id, each in unused.items() if each[name])
            text += f"; it has not freed {show(name, held)} on {places} yet"
        texts.append(text)
    return Refusal(TENANT_QUOTA, f"the tenant's quota: {', '.join(texts)}")


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
