"""Decides what becomes of one namespace's ledger entry and its mirror: an ordered list of small steps. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.conditions import condition_of, set_condition
from vcsync.api.fields import Quantity
from vcsync.api.objects import NamespacePlacement, VirtualCluster
from vcsync.api.specs import (
    Explanation,
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    VirtualClusterRef,
)
from vcsync.kube.envelope import Envelope
from vcsync.kube.events import EventType
from vcsync.nsscheduler.pods import pods_of_pool, whole_pool
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.place import Decision, SliceRequest, SuperExplanation, place_slices
from vcsync.scheduling.resources import Resources, from_quantities, subtract, times, to_quantities
from vcsync.scheduling.slices import (
    DEFAULT_SLICE,
    DIMENSIONS,
    OBJECTS,
    PODS,
    InvalidQuota,
    InvalidSlice,
    pods_beside,
    quota_from_hards,
    slice_count,
    slice_from_annotation,
    slice_objects,
    slice_pods,
)
from vcsync.scheduling.snapshot import SuperView

PLACED = "Placed"
"""Type of the condition on a NamespacePlacement."""

BRAKED = "Braked"
"""Type of the condition, and reason: the placement would go with too many others, and waits for an operator."""

SCHEDULED = "Scheduled"
FAILED = "FailedScheduling"
NO_QUOTA = "NoQuota"
INVALID_SLICE = "InvalidSlice"
INVALID_QUOTA = "InvalidQuota"
DRAINING = "Draining"
GONE = "Gone"
TERMINATING = "Terminating"

_USUAL = from_quantities(DEFAULT_SLICE)
"""Bounds the objects that no operator's slice names."""
_LONGEST_REASON = 1024  # characters of an explanation's reason
_LONGEST_MESSAGE = 4096  # characters of a condition's message


class Facts(Struct, frozen=True):
    """All that the decision on one namespace depends on.

    `namespace`: None if the tenant has none of that name. `hards`: `spec.hard` of its ResourceQuotas that
    count. `placement`: its ledger entry. `default_size`: slice size of the deployment, in thousandths. `now`:
    RFC 3339.
    """

    key: tuple[str, str]
    virtual_cluster: VirtualCluster
    namespace: Envelope | None
    hards: tuple[dict[str, str], ...]
    placement: NamespacePlacement | None
    views: Mapping[str, SuperView]
    ledger: Ledger
    default_size: Resources
    policy: str
    now: str


class Wish(Struct):
    """What is to be: filled by the steps, carried out by the committer.

    `reason` and `message` say how the namespace stands. `delete`: the ledger entry goes; `unless` names the
    live check that must confirm it (`namespace` or `quota`). `spec`, `status`: of the ledger entry, None to
    leave them. `placements`: what the tenant is shown, None to leave the mirror alone; `assumed`: the part of
    the quota that came from the default. `event`: (type, reason, message) for the tenant.
    """

    reason: str = ""
    message: str = ""
    delete: bool = False
    confirm: str = ""
    spec: NamespacePlacementSpec | None = None
    status: NamespacePlacementStatus | None = None
    placements: dict[str, int] | None = None
    assumed: dict[str, str] = {}
    event: tuple[EventType, str, str] | None = None
    # What steps hand to later ones:
    quota: Resources = {}
    size: Resources = {}
    objects: Resources = {}
    slices: int = 0
    decision: Decision | None = None
    clearing: dict[str, Resources] = {}

    @property
    def waiting(self) -> bool:
        """Whether slices wait, so that any change of the pool may help."""
        return self.status is not None and self.status.waiting > 0


Step = Callable[[Facts, Wish], bool]
"""Adds to the wish; True ends the list."""


def reconcile(facts: Facts) -> Wish:
    """Decide what is to be with a namespace."""
    wish = Wish()
    for step in STEPS:
        if step(facts, wish):
            break
    return wish


def namespace_gone(facts: Facts, wish: Wish) -> bool:
    """A ledger entry outlives neither its namespace nor a namesake of it."""
    found, placement = facts.namespace, facts.placement
    if found is None:
        wish.reason, wish.message = GONE, "the namespace does not exist"
        wish.delete, wish.confirm = placement is not None, "namespace"
        return True
    if placement is not None and not placement.deleting and placement.spec.namespace_uid != found.uid:
        wish.reason, wish.message = (
            DRAINING,
            "the namespace was deleted and made anew; its old placement goes first",
        )
        wish.delete, wish.confirm = True, "namespace"
        wish.placements = {}
        return True
    return False


def namespace_terminating(facts: Facts, wish: Wish) -> bool:
    """While a namespace empties itself its placement stays: its Pods are still to be stopped in order."""
    if facts.namespace is None or not facts.namespace.deleting:
        return False
    wish.reason, wish.message = TERMINATING, "the namespace is being deleted"
    return True


def entry_draining(facts: Facts, wish: Wish) -> bool:
    """An entry on its way out cannot be used again; a new one follows when it is gone."""
    placement = facts.placement
    if placement is None or not placement.deleting:
        return False
    holders = [
        super_id
        for finalizer in placement.finalizers
        if (super_id := names.super_id_of_finalizer(finalizer)) is not None
    ]
    wish.reason = DRAINING
    wish.message = (
        f"its former placement is being cleared by {', '.join(sorted(holders)) or 'nobody any more'}"
    )
    wish.placements = {}
    return True


def compute_quota(facts: Facts, wish: Wish) -> bool:
    """What the namespace may use; without any bound it gets nothing."""
    default = facts.virtual_cluster.spec.default_quota
    try:
        wish.quota = quota_from_hards(facts.hards, default)
        own = quota_from_hards(facts.hards)
    except InvalidQuota as error:
        _refuse(facts, wish, INVALID_QUOTA, str(error))
        return True
    wish.assumed = {name: str(default[name]) for name in DIMENSIONS if name in wish.quota and name not in own}
    if any(wish.quota.values()):
        return False
    what = (
        "its ResourceQuota allows no cpu and memory"
        if wish.quota
        else "it has no ResourceQuota on cpu or memory"
    )
    wish.reason = NO_QUOTA
    wish.message = f"nothing is placed: {what}; create one, e.g. with hard.cpu and hard.memory"
    wish.delete, wish.confirm = facts.placement is not None, "quota"
    wish.placements = {}
    wish.assumed = {}
    wish.event = ("Warning", NO_QUOTA, wish.message)
    return True


def compute_slices(facts: Facts, wish: Wish) -> bool:
    """How large a slice is and how many hold the quota. A bad annotation leaves everything as it is.

    The tenant says how much CPU and memory it has. With how many Pods and other objects is not for it to say.
    """
    assert facts.namespace is not None  # noqa: S101 - an earlier step saw to it
    references = _operators_slices(facts)
    try:
        size = slice_from_annotation(
            facts.namespace.annotations.get(names.SLICE), {name: references[0][name] for name in DIMENSIONS}
        )
        wish.slices = slice_count(wish.quota, size)
    except InvalidSlice as error:
        _refuse(facts, wish, INVALID_SLICE, str(error))
        return True
    told = _slice_with_pods(references)
    pods = slice_pods(size, told) if told else pods_of_pool(size, facts.views, _kept_pods(facts, size))
    wish.size = size | pods
    wish.objects = slice_objects(size, *references, _USUAL)
    return False


def _operators_slices(facts: Facts) -> tuple[Resources, ...]:
    """Slices as operators describe them: the tenant's, if it has its own, before that of all tenants."""
    own = facts.virtual_cluster.spec.slice_size
    if own is None:
        return (facts.default_size,)
    known = (*DIMENSIONS, PODS, *OBJECTS)
    return from_quantities({name: own[name] for name in known if name in own}), facts.default_size


def _slice_with_pods(references: Iterable[Resources]) -> Resources | None:
    """The slice by which an operator says how many Pods go with CPU and memory; None: by the pool."""
    return next((size for size in references if PODS in size), None)


def _kept_pods(facts: Facts, size: Resources) -> int | None:
    """The Pods of the namespace's present slices, if those have this size."""
    if facts.placement is None:
        return None
    present = from_quantities(facts.placement.dealt_size)
    return present.pop(PODS, None) if size.items() <= present.items() else None


def deal(facts: Facts, wish: Wish) -> bool:
    """Where the slices go."""
    present = facts.ledger.get(facts.key)
    placement = facts.placement
    request = SliceRequest(
        wish.slices,
        wish.size,
        current={} if present is None else present.placements,
        current_size=None if present is None else present.size,
        pins={} if placement is None else placement.spec.pins,
        tenant_free=_left_of_cap(facts),
        policy=facts.policy,
    )
    allocated = {super_id: facts.ledger.allocated(super_id, without=facts.key) for super_id in facts.views}
    wish.decision = place_slices(facts.views, allocated, request)
    return False


def _left_of_cap(facts: Facts) -> Resources:
    """What the operator's cap leaves; with it go as many Pods as with slices of that much CPU and memory.

    Slices that were dealt while the pool had more Pods for its size have kept up to a third more.
    """
    cap = facts.virtual_cluster.spec.quota
    limits = from_quantities({name: cap[name] for name in (*DIMENSIONS, PODS) if name in cap})
    if PODS not in limits and all(name in limits for name in DIMENSIONS):
        told = _slice_with_pods(_operators_slices(facts))
        pods = pods_beside(limits, told or whole_pool(facts.views))
        limits |= {} if pods is None else {PODS: pods if told else pods * 4 // 3000 * 1000}
    return subtract(limits, facts.ledger.used_by(facts.key[0], without=facts.key))


def write_entry(facts: Facts, wish: Wish) -> bool:
    """What the ledger and the tenant are told."""
    assert facts.namespace is not None  # noqa: S101 - earlier steps saw to both
    assert wish.decision is not None  # noqa: S101
    decision, placement, owner = wish.decision, facts.placement, facts.virtual_cluster
    wish.reason = FAILED if decision.waiting else SCHEDULED
    wish.message = _message(decision)[:_LONGEST_MESSAGE]
    wish.placements = decision.placements
    wish.spec = NamespacePlacementSpec(
        virtual_cluster=VirtualClusterRef(namespace=owner.namespace, name=owner.name, uid=owner.uid),
        tenant=facts.key[0],
        namespace=facts.namespace.name,
        namespace_uid=facts.namespace.uid,
        quota=_quantities(wish.quota),
        slice_size=_quantities(wish.size | wish.objects),
        slices=wish.slices,
        pins={} if placement is None else placement.spec.pins,
    )
    wish.clearing = _still_to_clear(placement, wish.size, decision.placements)
    clearing = {super_id: _quantities(amounts) for super_id, amounts in wish.clearing.items()}
    old = NamespacePlacementStatus() if placement is None else placement.status
    told = condition_of(old.conditions, PLACED)
    kept = tuple(condition for condition in old.conditions if condition.type != BRAKED)
    if (
        told is not None
        and kept == old.conditions
        and (old.placements, old.waiting, told.reason) == (decision.placements, decision.waiting, wish.reason)
        and (old.slice_size, old.clearing) == (wish.spec.slice_size, clearing)
        and _refusals(old.explanation) == _refusals(_explain(decision))
    ):
        wish.status = old  # nothing that matters differs; free amounts and scores change all the time
        return True
    wish.status = NamespacePlacementStatus(
        placements=decision.placements,
        slice_size=wish.spec.slice_size,
        clearing=clearing,
        waiting=decision.waiting,
        explanation=_explain(decision),
        conditions=set_condition(
            kept,
            PLACED,
            status=not decision.waiting,
            reason=wish.reason,
            message=wish.message,
            now=facts.now,
            observed_generation=0 if placement is None else placement.generation,
        ),
    )
    if told is None or (old.placements, old.waiting) != (decision.placements, decision.waiting):
        told_tenant = _message(decision, public=True)[:_LONGEST_MESSAGE]
        wish.event = ("Warning" if decision.waiting else "Normal", wish.reason, told_tenant)
    return True


def _still_to_clear(
    placement: NamespacePlacement | None, size: Resources, placements: Mapping[str, int]
) -> dict[str, Resources]:
    """What super clusters may hold beyond the slices that they are to have from now on."""
    if placement is None:
        return {}
    held = entry_of(placement)
    left = {
        super_id: {
            name: amount
            for name, amount in subtract(
                held.holds(super_id), times(size, placements.get(super_id, 0))
            ).items()
            if amount > 0
        }
        for super_id in {**held.placements, **held.clearing}
        if names.drain_finalizer(super_id) in placement.finalizers  # else it is gone with all it had
    }
    return {super_id: left[super_id] for super_id in sorted(left) if left[super_id]}


def _message(decision: Decision, *, public: bool = False) -> str:
    placed = ", ".join(f"{super_id}: {slices}" for super_id, slices in decision.placements.items()) or "none"
    total = sum(decision.placements.values()) + decision.waiting
    if not decision.waiting:
        return f"{total} slices placed ({placed})"
    return f"{decision.waiting} of {total} slices wait: {decision.reasons(public=public)}; placed: {placed}"


def _explain(decision: Decision) -> tuple[Explanation, ...]:
    return tuple(
        Explanation(
            super_cluster=entry.super_id,
            slices=entry.slices,
            refused_by=tuple(refusal.filter for refusal in (*decision.refusals, *entry.refusals)),
            score=entry.score,
            reason=_reason(entry, decision),
        )
        for entry in decision.explanation
    )


def _reason(entry: SuperExplanation, decision: Decision) -> str:
    parts = []
    if entry.slices:
        parts.append(f"{entry.slices} slices, {entry.kept} of them as before")
    parts += [refusal.message for refusal in (*decision.refusals, *entry.refusals)]
    return "; ".join(parts)[:_LONGEST_REASON]


def _refusals(explanation: tuple[Explanation, ...]) -> dict[str, tuple[str, ...]]:
    return {entry.super_cluster: entry.refused_by for entry in explanation}


def _quantities(resources: Resources) -> dict[str, Quantity]:
    return {name: Quantity(text) for name, text in to_quantities(resources).items()}


def _refuse(facts: Facts, wish: Wish, reason: str, message: str) -> None:
    """Keep the present placement and say why nothing moves."""
    placement = facts.placement
    wish.reason, wish.message = reason, message[:_LONGEST_MESSAGE]
    wish.placements = {} if placement is None else placement.status.placements
    if placement is not None:
        conditions = set_condition(
            placement.status.conditions,
            PLACED,
            status=False,
            reason=reason,
            message=wish.message,
            now=facts.now,
            observed_generation=placement.generation,
        )
        wish.spec, wish.status = placement.spec, replace(placement.status, conditions=conditions)
        told = condition_of(placement.status.conditions, PLACED)
        if told is not None and (told.reason, told.message) == (reason, wish.message):
            return
    wish.event = ("Warning", reason, wish.message)


STEPS: tuple[Step, ...] = (
    namespace_gone,
    namespace_terminating,
    entry_draining,
    compute_quota,
    compute_slices,
    deal,
    write_entry,
)
"""In this order; each may be the last."""


def finalizers_for(placement: NamespacePlacement | None, status: NamespacePlacementStatus) -> tuple[str, ...]:
    """The entry's finalizers with those that its new status needs; none is ever removed.

    A drain finalizer for every super cluster that gets slices, and one of those that keep some and give others up.
    """
    present = () if placement is None else placement.finalizers
    wanted = [names.drain_finalizer(super_id) for super_id in sorted(status.placements)]
    wanted += [
        names.clear_finalizer(super_id)
        for super_id in sorted(status.clearing)
        if super_id in status.placements
    ]
    return (*present, *(finalizer for finalizer in wanted if finalizer not in present))


def entry_of(placement: NamespacePlacement) -> Entry:
    """What a NamespacePlacement holds of what is dealt out, for the sums."""
    size = from_quantities({name: text for name, text in placement.dealt_size.items() if name not in OBJECTS})
    placements = {super_id: slices for super_id, slices in placement.status.placements.items() if slices}
    clearing = {
        super_id: from_quantities({name: str(text) for name, text in amounts.items()})
        for super_id, amounts in placement.status.clearing.items()
        if is_clearing(placement, super_id)
    }
    return Entry(size, placements, clearing)


def is_clearing(placement: NamespacePlacement, super_id: str) -> bool:
    """Whether a super cluster has not cleared yet what it was to give up: its syncer then takes its finalizer off."""
    stays = placement.status.placements.get(super_id)
    finalizer = names.clear_finalizer(super_id) if stays else names.drain_finalizer(super_id)
    return finalizer in placement.finalizers


def counted_hard(spec: Any) -> dict[str, str] | None:
    """`spec.hard` of a ResourceQuota if it bounds all Pods of its namespace; None if it has scopes or no bound."""
    if not isinstance(spec, dict) or spec.get("scopes") or spec.get("scopeSelector"):
        return None
    hard = spec.get("hard")
    if not isinstance(hard, dict):
        return None
    return {str(name): str(amount) for name, amount in hard.items()}
