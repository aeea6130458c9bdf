"""Decides on one namespace's ledger entry and its mirror in the tenant, in an ordered list of small steps. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.conditions import condition_of, set_condition
from vcsync.api.fields import Quantity
from vcsync.api.objects import NamespacePlacement, VirtualCluster
from vcsync.api.specs import (
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    VirtualClusterRef,
)
from vcsync.kube.events import EventType
from vcsync.nsscheduler.away import slices_away
from vcsync.nsscheduler.decision_texts import explain, message_of, moved, refused
from vcsync.objects.envelope import Envelope
from vcsync.scheduling.ledger import Ledger
from vcsync.scheduling.objects import slice_objects
from vcsync.scheduling.place import Decision, SliceRequest, Transfer, place_slices
from vcsync.scheduling.pool_pods import cap_limits, is_whole, pods_of_pool, whole_pool
from vcsync.scheduling.resources import Resources, from_quantities, subtract, times, to_quantities
from vcsync.scheduling.slices import (
    DEFAULT_SLICE,
    DIMENSIONS,
    OBJECTS,
    PODS,
    InvalidQuota,
    InvalidSlice,
    enlargement,
    multiple_of,
    quota_from_hards,
    slice_count,
    slice_from_annotation,
    slice_pods,
    whole_pods,
)
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.distribution import entry_of
from vcsync.tenancy.suspension import TENANT_SUSPENDED, is_suspended

PLACED = "Placed"
"""Type of the condition on a NamespacePlacement."""

BRAKED = "Braked"
"""Type and reason of a condition: the removal of a placement waits for an operator, since too many would be removed."""

SCHEDULED = "Scheduled"
FAILED = "FailedScheduling"
SUSPENDED = names.SUSPENDED
NO_QUOTA = "NoQuota"
INVALID_SLICE = "InvalidSlice"
INVALID_QUOTA = "InvalidQuota"
DRAINING = "Draining"
GONE = "Gone"
TERMINATING = "Terminating"

_DEFAULT_AMOUNTS = from_quantities(DEFAULT_SLICE)
"""Amounts of objects for slices in which the operator names none."""
EMPTY_NAMESPACES = frozenset({"kube-node-lease", "kube-public", names.SYSTEM_NAMESPACE})
"""Namespaces that every control plane has, and in which nothing runs."""
_LONGEST_MESSAGE = 4096  # characters of a condition's message


class Inputs(Struct, frozen=True):
    """The inputs of the decision on one namespace.

    Attributes:
        key: (cluster key, namespace).
        virtual_cluster: the tenant's VirtualCluster.
        namespace: the tenant's Namespace; None if it does not exist.
        hards: `spec.hard` of each of its ResourceQuotas that count.
        placement: its ledger entry; None if there is none.
        views: id -> view of each super cluster.
        ledger: amounts that are distributed to all namespaces.
        default_size: the default slice size, in thousandths.
        policy: `spread`, `pack` or `cheap`.
        now: the current time in RFC 3339.
        leaving: lost super cluster that the namespace may leave -> number of slices that must stay there.
        transfers: slices that are to go to another super cluster.
        held: super clusters that are being drained, and that the namespace may not leave yet.
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
    leaving: Mapping[str, int] = {}
    transfers: tuple[Transfer, ...] = ()
    held: Collection[str] = ()


class Plan(Struct):
    """The decision on one namespace: the steps fill it, and `commit` writes it.

    Attributes:
        reason: the namespace's state, as the reason of a condition.
        message: the same for people.
        delete: whether to delete the ledger entry.
        confirm: the live check that must confirm that the slices are withdrawn: `namespace` or `quota`; empty if they
            are not.
        spec: the entry's new spec; None to keep it.
        status: the entry's new status; None to keep it.
        placements: slices by super cluster for the tenant's mirror; None to keep it.
        assumed: the part of the quota that comes from the tenant's default quota.
        event: (type, reason, message) of an Event for the tenant.
        quota: amounts that the namespace may use; an intermediate result of the steps, like all that follow.
        size: amounts of one slice.
        objects: amounts of objects in one slice.
        slices: number of slices.
        decision: the placement of the slices.
        clearing: super cluster -> amounts that it has not freed yet.
        kept: whether the slices are those that were there, but for the operator's orders.
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
    quota: Resources = {}
    size: Resources = {}
    objects: Resources = {}
    slices: int = 0
    decision: Decision | None = None
    clearing: dict[str, Resources] = {}
    kept: bool = False

    @property
    def waiting(self) -> bool:
        """Whether some slices wait, so that any change of the pool may help."""
        return self.status is not None and self.status.waiting > 0 and not self.kept


Step = Callable[[Inputs, Plan], bool]
"""Adds to the decision. Returns True to skip the remaining steps."""


def reconcile(inputs: Inputs) -> Plan:
    """Decide on a namespace.

    What the tenant has to confirm waits for the operator's orders, since the tenant may confirm nothing.
    """
    plan = _run(STEPS, inputs)
    if plan.confirm and inputs.placement is not None:
        ordered = obey(inputs)
        if ordered.status is not None and ordered.status.placements != inputs.placement.status.placements:
            return ordered
    return plan


def obey(inputs: Inputs) -> Plan:
    """Decide what the operator's orders make of the present slices, regardless of anything that the tenant says.

    Drains, caps, suspension, pins and lost super clusters take slices away or move them. Nothing adds any.
    """
    return _run(ORDERS, inputs)


def _run(steps: Iterable[Step], inputs: Inputs) -> Plan:
    plan = Plan()
    for step in steps:
        if step(inputs, plan):
            break
    return plan


def namespace_gone(inputs: Inputs, plan: Plan) -> bool:
    """Take all slices away from a namespace that is gone, or that was created again. Its entry ends when all have cleared it.

    An entry that is being deleted could not serve the new namespace, which would wait for super clusters that are lost.
    """
    found, placement = inputs.namespace, inputs.placement
    if found is not None and not _is_gone(inputs):
        return False
    plan.reason, plan.message = GONE, "the namespace does not exist"
    if placement is None or placement.deleting:
        return found is None
    holders = _holders(placement)
    if not placement.status.placements and holders <= set(placement.status.former):
        if found is not None:
            plan.reason = plan.message = ""
            return False
        if not holders:
            plan.delete, plan.confirm = True, "namespace"
        return True
    if found is not None:
        plan.reason = DRAINING
        plan.message = "the namespace was deleted and created again; its old placement is removed first"
    plan.confirm, plan.placements = "namespace", {}
    plan.spec = replace(placement.spec, quota={}, slices=0, pins={})
    status = _take_all(inputs, placement, plan, plan.reason, waiting=0)
    plan.status = replace(status, former=tuple(sorted(holders)))
    return True


def _holders(placement: NamespacePlacement) -> set[str]:
    """Return the super clusters that have slices or objects of the namespace."""
    return {
        super_id
        for finalizer in placement.finalizers
        if (super_id := names.super_id_of_finalizer(finalizer)) is not None
    }


def _former(placement: NamespacePlacement | None) -> tuple[str, ...]:
    """Return the super clusters that may hold objects of an earlier namespace of the name. They get no slices."""
    if placement is None or not placement.status.former:
        return ()
    holders = _holders(placement)
    return tuple(super_id for super_id in placement.status.former if super_id in holders)


def namespace_terminating(inputs: Inputs, plan: Plan) -> bool:
    """Keep the placement of a namespace that is being deleted, since its Pods still have to stop."""
    if inputs.namespace is None or not inputs.namespace.deleting:
        return False
    plan.reason, plan.message = TERMINATING, "the namespace is being deleted"
    if inputs.placement is None or inputs.placement.deleting:
        return True
    keep(inputs, plan)
    if plan.status is not None and is_suspended(inputs.placement):
        _tell(inputs, plan, plan.status, placed=False)
    plan.event = None  # the namespace takes none any more
    return True


def entry_draining(inputs: Inputs, plan: Plan) -> bool:
    """Wait for the end of an entry that is being deleted. A new one follows when it is gone."""
    placement = inputs.placement
    if placement is None or not placement.deleting:
        return False
    _wait_for(plan, _holders(placement))
    return True


def former_cleared(inputs: Inputs, plan: Plan) -> bool:
    """Wait for super clusters that clear an earlier namespace of the name, so that the new one is spread over them.

    One that is lost is not waited for. Nor is any once the namespace has slices.
    """
    placement = inputs.placement
    if placement is None or placement.status.placements:
        return False
    views = inputs.views
    waits = [each for each in _former(placement) if each in views and views[each].health is not Health.LOST]
    if not waits:
        return False
    _wait_for(plan, waits)
    return True


def _wait_for(plan: Plan, holders: Iterable[str]) -> None:
    plan.reason = DRAINING
    plan.message = f"its former placement is being cleared by {', '.join(sorted(holders)) or 'no super cluster any more'}"
    plan.placements = {}


def suspend(inputs: Inputs, plan: Plan) -> bool:
    """Take all slices away from a suspended tenant, pinned ones too, whatever it says about its namespace.

    Later steps remove the entry of a namespace that is gone.
    """
    placement = inputs.placement
    if not inputs.virtual_cluster.spec.suspended:
        return False
    if placement is not None and (
        placement.deleting or (inputs.namespace is None and is_suspended(placement))
    ):
        return False
    plan.reason, plan.message, plan.placements = SUSPENDED, TENANT_SUSPENDED, {}
    if placement is None:
        return True
    placed = condition_of(placement.status.conditions, PLACED)
    plan.spec = placement.spec
    _take_all(inputs, placement, plan, SUSPENDED, waiting=placement.spec.slices)
    if placed is None or placed.reason != SUSPENDED:
        plan.event = ("Warning", SUSPENDED, plan.message)
    return True


def _is_gone(inputs: Inputs) -> bool:
    """Return whether the namespace of the entry does not exist, as far as is known: there is none, or one with another UID."""
    found, placement = inputs.namespace, inputs.placement
    return found is None or (placement is not None and placement.spec.namespace_uid != found.uid)


def default_quota(owner: VirtualCluster, namespace: Envelope) -> Mapping[str, str]:
    """Return the quota of a namespace without ResourceQuota; empty if there is none.

    `EMPTY_NAMESPACES` have none, since their slices would be of no use, nor have namespaces whose annotation says so.
    """
    without = opts_out(namespace) or namespace.name in EMPTY_NAMESPACES
    return {} if without else owner.spec.default_quota


def opts_out(namespace: Envelope) -> bool:
    """Return whether a Namespace opts out of its tenant's default quota."""
    return namespace.annotations.get(names.WITHOUT_DEFAULT_QUOTA) == "true"


def compute_quota(inputs: Inputs, plan: Plan) -> bool:
    """Compute the amounts that the namespace may use. A namespace without a quota gets no slices."""
    assert inputs.namespace is not None  # noqa: S101 - an earlier step ends without one
    default = default_quota(inputs.virtual_cluster, inputs.namespace)
    try:
        plan.quota = quota_from_hards(inputs.hards, default)
        own = quota_from_hards(inputs.hards)
    except InvalidQuota as error:
        _refuse(inputs, plan, INVALID_QUOTA, str(error))
        return True
    plan.assumed = {name: str(default[name]) for name in DIMENSIONS if name in plan.quota and name not in own}
    if any(plan.quota.values()):
        return False
    what = (
        "its ResourceQuota allows no cpu and memory"
        if plan.quota
        else "it has no ResourceQuota on cpu or memory"
    )
    plan.reason = NO_QUOTA
    plan.message = f"nothing is placed: {what}; create one, e.g. with hard.cpu and hard.memory"
    plan.placements = {}
    plan.assumed = {}
    plan.event = ("Warning", NO_QUOTA, plan.message)
    _withdraw(inputs, plan)
    return True


def _withdraw(inputs: Inputs, plan: Plan) -> None:
    """Take all slices away from a namespace without a quota. Its entry remains until the syncers have drained it.

    So a quota that is created again gets its slices at once, where the volumes of the namespace are. An entry that is
    being deleted could not return.
    """
    placement = inputs.placement
    if placement is None:
        return
    plan.confirm = "quota"
    if not _holders(placement):
        plan.delete = True
        return
    plan.spec = replace(placement.spec, quota={}, slices=0)
    _take_all(inputs, placement, plan, NO_QUOTA, waiting=0)


def _take_all(
    inputs: Inputs, placement: NamespacePlacement, plan: Plan, reason: str, *, waiting: int
) -> NamespacePlacementStatus:
    """Write a status without slices, and return it. What the super clusters still hold is being cleared."""
    plan.clearing = _still_to_clear(placement, {}, {})
    plan.status = replace(
        placement.status,
        placements={},
        away={},
        former=_former(placement),
        clearing={super_id: _quantities(amounts) for super_id, amounts in plan.clearing.items()},
        waiting=waiting,
        explanation=(),
        conditions=set_condition(
            tuple(condition for condition in placement.status.conditions if condition.type != BRAKED),
            PLACED,
            status=False,
            reason=reason,
            message=plan.message,
            now=inputs.now,
            observed_generation=placement.generation,
        ),
    )
    return plan.status


def compute_slices(inputs: Inputs, plan: Plan) -> bool:
    """Compute the size of a slice and their number. An invalid annotation changes nothing.

    The tenant may choose the CPU and memory of a slice, but not its number of Pods and other objects. All slices together
    have no more of them than slices of the operator's size would have.
    """
    assert inputs.namespace is not None  # noqa: S101 - checked by an earlier step
    references = _operators_slices(inputs)
    operators = {name: references[0][name] for name in DIMENSIONS}
    reference = _slice_with_pods(references)
    annotation = inputs.namespace.annotations.get(names.SLICE)
    try:
        size = slice_from_annotation(annotation, operators)
        plan.slices = slice_count(plan.quota, size)
    except InvalidSlice as error:
        _refuse(inputs, plan, INVALID_SLICE, str(error))
        return True
    most = None
    if annotation is not None:
        size = times(size, _enlargement(inputs, plan, size, operators, reference))
        plan.slices = slice_count(plan.quota, size)
        pods = whole_pods(plan.quota, operators, reference or whole_pool(inputs.views))
        most = None if pods is None else pods // plan.slices
    pods_of_slice = (
        slice_pods(size, reference, most=most)
        if reference
        else pods_of_pool(size, inputs.views, _kept_pods(inputs, size), most)
    )
    plan.size = size | pods_of_slice
    plan.objects = slice_objects(plan.quota, size, plan.slices, *references, _DEFAULT_AMOUNTS)
    return False


def _enlargement(
    inputs: Inputs, plan: Plan, size: Resources, operators: Resources, reference: Resources | None
) -> int:
    """Return how many slices of the tenant's size become one, so that it has a Pod. The pool's Pods may not be known now."""
    present = {} if inputs.placement is None else from_quantities(inputs.placement.placed_slice_size)
    if reference is None and not is_whole(inputs.views):
        return multiple_of(size, present) or enlargement(
            plan.quota, size, operators, whole_pool(inputs.views)
        )
    return enlargement(plan.quota, size, operators, reference or whole_pool(inputs.views), present)


def _operators_slices(inputs: Inputs) -> tuple[Resources, ...]:
    """Return the operator's slices: the tenant's own, if there is one, before that of all tenants."""
    own = inputs.virtual_cluster.spec.slice_size
    if own is None:
        return (inputs.default_size,)
    known = (*DIMENSIONS, PODS, *OBJECTS)
    return from_quantities({name: own[name] for name in known if name in own}), inputs.default_size


def _slice_with_pods(references: Iterable[Resources]) -> Resources | None:
    """Return the first slice with a number of Pods; None if the pool determines it."""
    return next((size for size in references if PODS in size), None)


def _kept_pods(inputs: Inputs, size: Resources) -> int | None:
    """Return the number of Pods of the namespace's present slices; None if their size differs."""
    if inputs.placement is None:
        return None
    present = from_quantities(inputs.placement.placed_slice_size)
    return present.pop(PODS, None) if size.items() <= present.items() else None


def place(inputs: Inputs, plan: Plan) -> bool:
    """Place the slices on super clusters."""
    present = inputs.ledger.get(inputs.key)
    placement = inputs.placement
    former = _former(placement)
    views = {super_id: view for super_id, view in inputs.views.items() if super_id not in former}
    request = SliceRequest(
        plan.slices,
        plan.size,
        current={} if present is None else present.placements,
        current_size=None if present is None else present.size,
        pins={} if placement is None else placement.spec.pins,
        clearing={} if present is None else present.clearing,
        tenant_free=_free_of_cap(inputs),
        tenant_clearing=inputs.ledger.cleared_by(inputs.key[0], without=inputs.key),
        policy=inputs.policy,
        leaving=inputs.leaving,
        transfers=inputs.transfers,
        held=inputs.held,
    )
    allocated = {super_id: inputs.ledger.allocated(super_id, without=inputs.key) for super_id in views}
    plan.decision = place_slices(views, allocated, request)
    plan.size = plan.decision.size
    return False


def _free_of_cap(inputs: Inputs) -> Resources:
    """Return the amounts of the operator's cap that other namespaces leave."""
    reference = _slice_with_pods(_operators_slices(inputs))
    limits = cap_limits(inputs.virtual_cluster.spec.quota, reference, inputs.views)
    return subtract(limits, inputs.ledger.used_by(inputs.key[0], without=inputs.key))


def write_entry(inputs: Inputs, plan: Plan) -> bool:
    """Compute the ledger entry, the tenant's mirror and the Event."""
    assert inputs.namespace is not None  # noqa: S101 - earlier steps checked both
    assert plan.decision is not None  # noqa: S101
    decision, placement, owner = plan.decision, inputs.placement, inputs.virtual_cluster
    plan.reason = _outcome(decision)
    plan.message = message_of(decision)[:_LONGEST_MESSAGE]
    plan.placements = decision.placements
    plan.spec = NamespacePlacementSpec(
        virtual_cluster=VirtualClusterRef(namespace=owner.namespace, name=owner.name, uid=owner.uid),
        tenant=inputs.key[0],
        namespace=inputs.namespace.name,
        namespace_uid=inputs.namespace.uid,
        quota=_quantities(plan.quota),
        slice_size=_quantities(plan.size | plan.objects),
        slices=plan.slices,
        pins={} if placement is None else placement.spec.pins,
    )
    plan.clearing = _still_to_clear(placement, plan.size, decision.placements)
    clearing = {super_id: _quantities(amounts) for super_id, amounts in plan.clearing.items()}
    old = NamespacePlacementStatus() if placement is None else placement.status
    away = slices_away(old, decision.placements, inputs.leaving, inputs.views)
    placed = condition_of(old.conditions, PLACED)
    kept = tuple(condition for condition in old.conditions if condition.type != BRAKED)
    explanation = explain(decision)
    if (
        placed is not None
        and kept == old.conditions
        and (old.placements, old.waiting, placed.reason)
        == (decision.placements, decision.waiting, plan.reason)
        and (old.slice_size, old.clearing, old.away, old.former)
        == (plan.spec.slice_size, clearing, away, _former(placement))
        and refused(old.explanation) == refused(explanation)
    ):
        # Only free amounts and scores differ, which change all the time.
        plan.status = old
        return True
    plan.status = NamespacePlacementStatus(
        placements=decision.placements,
        slice_size=plan.spec.slice_size,
        clearing=clearing,
        away=away,
        former=_former(placement),
        waiting=decision.waiting,
        explanation=explanation,
        conditions=set_condition(
            kept,
            PLACED,
            status=not decision.waiting,
            reason=plan.reason,
            message=plan.message,
            now=inputs.now,
            observed_generation=0 if placement is None else placement.generation,
        ),
    )
    if placed is None or (old.placements, old.waiting) != (decision.placements, decision.waiting):
        message = (message_of(decision, public=True) + moved(old.placements, decision, inputs.leaving))[
            :_LONGEST_MESSAGE
        ]
        plan.event = ("Warning" if decision.waiting else "Normal", plan.reason, message)
    return True


def _still_to_clear(
    placement: NamespacePlacement | None, size: Resources, placements: Mapping[str, int]
) -> dict[str, Resources]:
    """Return the amounts that super clusters may still use beyond the slices that they keep."""
    if placement is None:
        return {}
    entry = entry_of(placement)
    left = {
        super_id: {
            name: amount
            for name, amount in subtract(
                entry.holds(super_id), times(size, placements.get(super_id, 0))
            ).items()
            if amount > 0
        }
        for super_id in {**entry.placements, **entry.clearing}
        # A super cluster without its finalizer has removed everything.
        if names.drain_finalizer(super_id) in placement.finalizers
    }
    return {super_id: left[super_id] for super_id in sorted(left) if left[super_id]}


def _quantities(resources: Resources) -> dict[str, Quantity]:
    return {name: Quantity(text) for name, text in to_quantities(resources).items()}


def keep(inputs: Inputs, plan: Plan) -> bool:
    """Keep the present slices, but for what the operator orders. Their number and their size depend on no input of the tenant.

    An earlier step may have said why; otherwise the reason is that of the decision.
    """
    placement = inputs.placement
    if placement is None:
        return True
    old, entry = placement.status, entry_of(placement)
    plan.kept, plan.size, plan.slices = True, entry.size, sum(entry.placements.values())
    place(inputs, plan)
    assert plan.decision is not None  # noqa: S101 - the step has made it
    decision = replace(plan.decision, waiting=old.waiting + plan.decision.waiting)
    moves = decision.placements != old.placements
    plan.placements, plan.spec = decision.placements, placement.spec
    plan.clearing = _still_to_clear(placement, plan.size, decision.placements)
    plan.status = replace(
        old,
        placements=decision.placements,
        clearing={super_id: _quantities(amounts) for super_id, amounts in plan.clearing.items()},
        away=slices_away(old, decision.placements, inputs.leaving, inputs.views),
        former=_former(placement),
        waiting=decision.waiting,
        explanation=explain(decision) if moves else old.explanation,
    )
    if not moves:
        return True
    text = message_of(decision, public=True) + moved(old.placements, decision, inputs.leaving)
    plan.event = ("Warning" if decision.waiting else "Normal", _outcome(decision), text[:_LONGEST_MESSAGE])
    if not plan.reason:
        plan.reason, plan.message = _outcome(decision), message_of(decision)[:_LONGEST_MESSAGE]
    _tell(inputs, plan, plan.status, placed=not decision.waiting)
    return True


def _outcome(decision: Decision) -> str:
    return FAILED if decision.waiting else SCHEDULED


def _tell(inputs: Inputs, plan: Plan, status: NamespacePlacementStatus, *, placed: bool) -> None:
    """Write the reason of a decision to the condition of the entry."""
    plan.status = replace(
        status,
        conditions=set_condition(
            status.conditions,
            PLACED,
            status=placed,
            reason=plan.reason,
            message=plan.message,
            now=inputs.now,
            observed_generation=0 if inputs.placement is None else inputs.placement.generation,
        ),
    )


def _refuse(inputs: Inputs, plan: Plan, reason: str, message: str) -> None:
    """Keep the present placement, but for what the operator orders, and report why."""
    placement = inputs.placement
    plan.reason, plan.message = reason, message[:_LONGEST_MESSAGE]
    plan.placements = {}
    keep(inputs, plan)
    text = plan.message if plan.event is None else f"{plan.message}; {plan.event[2]}"[:_LONGEST_MESSAGE]
    if placement is not None and plan.status is not None:
        _tell(inputs, plan, plan.status, placed=False)
        placed = condition_of(placement.status.conditions, PLACED)
        known = placed is not None and (placed.reason, placed.message) == (reason, plan.message)
        if known and plan.event is None:
            return
    plan.event = ("Warning", reason, text)


STEPS: tuple[Step, ...] = (
    suspend,
    namespace_gone,
    namespace_terminating,
    entry_draining,
    former_cleared,
    compute_quota,
    compute_slices,
    place,
    write_entry,
)
"""The steps in their order. Each may skip the remaining ones."""

ORDERS: tuple[Step, ...] = (suspend, entry_draining, keep)
"""The steps without those that read what the tenant says."""


def finalizers_for(placement: NamespacePlacement | None, status: NamespacePlacementStatus) -> tuple[str, ...]:
    """Return the entry's finalizers, extended by those that its new status needs. None is removed.

    Each super cluster with slices needs a drain finalizer. A super cluster that keeps some slices and must free others
    needs a clear finalizer, too.
    """
    present = () if placement is None else placement.finalizers
    wanted = [names.drain_finalizer(super_id) for super_id in sorted(status.placements)]
    wanted += [
        names.clear_finalizer(super_id)
        for super_id in sorted(status.clearing)
        if super_id in status.placements
    ]
    return (*present, *(finalizer for finalizer in wanted if finalizer not in present))


def counted_hard(spec: Any) -> dict[str, str] | None:
    """Return `spec.hard` of a ResourceQuota; None if it has scopes or limits nothing."""
    if not isinstance(spec, dict) or spec.get("scopes") or spec.get("scopeSelector"):
        return None
    hard = spec.get("hard")
    if not isinstance(hard, dict):
        return None
    return {str(name): str(amount) for name, amount in hard.items()}
