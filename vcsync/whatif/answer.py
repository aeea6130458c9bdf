"""Compares the pool before and after decisions: moved slices, waiting slices, use and price. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from vcsync.scheduling.place import Decision
from vcsync.scheduling.resources import Resources, add, subtract, to_quantities
from vcsync.scheduling.slices import DIMENSIONS, PODS
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.whatif.edits import Edits, edited
from vcsync.whatif.lost import LEAVING, SUSPENDED, LostSlices, LostSuper, lost_slices, lost_supers
from vcsync.whatif.settle import Core, Settled, settle
from vcsync.whatif.snapshot import Amounts, Counts, NamespaceState, Snapshot, TenantState, ordered

_UNIT = {"memory": 1 << 30}
"""Amount of a resource that its price is for; 1 for the others."""


class _Answer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the answer."""


class Refused(_Answer, frozen=True, kw_only=True):
    """A filter that refused further slices.

    Attributes:
        filter: name of the filter.
        message: the reason, with the numbers that were compared.
    """

    filter: str
    message: str


class Result(_Answer, frozen=True, kw_only=True):
    """The decision about one super cluster.

    Attributes:
        super_cluster: its id.
        slices: number of slices of the namespace.
        score: its score for one more slice; the highest gets it.
        refused: why it got no more; empty if others scored higher, or no more were needed.
    """

    super_cluster: str
    slices: int
    score: int
    refused: tuple[Refused, ...]


class NamespaceChange(_Answer, frozen=True, kw_only=True):
    """The slices of a namespace before and after.

    Attributes:
        tenant: name of the tenant.
        namespace: the namespace.
        before: super cluster -> number of slices.
        after: the same after the change.
        leave: super cluster -> number of slices that it gives up.
        enter: super cluster -> number of slices that it gets.
        size_before: amounts of a slice.
        size_after: the same after the change.
        waiting_before: number of slices that wait.
        waiting_after: the same after the change.
        reason: why they wait; empty if none does.
        results: the last decision, by super cluster; empty if nothing was decided.
    """

    tenant: str
    namespace: str
    before: Counts
    after: Counts
    leave: Counts
    enter: Counts
    size_before: Amounts
    size_after: Amounts
    waiting_before: int
    waiting_after: int
    reason: str
    results: tuple[Result, ...]

    @property
    def moved(self) -> int:
        """The number of slices that go from one super cluster to another."""
        return min(sum(self.leave.values()), sum(self.enter.values()))


class Use(_Answer, frozen=True, kw_only=True):
    """The slices on a super cluster.

    Attributes:
        capacity: amounts that may be distributed.
        used: amounts of the slices, and those that are still being cleared unless it is lost.
        clearing: amounts that a lost super cluster has to clear when it returns. Nothing is placed there before.
        slices: number of slices.
        price: price of the used amounts per hour, in millionths.
    """

    capacity: Amounts
    used: Amounts
    clearing: Amounts
    slices: int
    price: int


class SuperChange(_Answer, frozen=True, kw_only=True):
    """A super cluster.

    Attributes:
        super_cluster: its id.
        before: its use; None if it is added.
        after: its use after the change; None if it is taken out.
    """

    super_cluster: str
    before: Use | None
    after: Use | None


class Answer(_Answer, frozen=True, kw_only=True):
    """The answer to a question.

    Attributes:
        moved: number of slices that go from one super cluster to another.
        staying: number of slices that stay on lost super clusters.
        waiting_before: number of slices that wait.
        waiting_after: the same after the change.
        price_before: price per hour of all slices, in millionths.
        price_after: the same after the change.
        settled: whether decisions came to an end.
        rounds: number of rounds over all namespaces until then.
        super_clusters: use and price, by id.
        namespaces: namespaces whose slices change, or of which some wait.
        lost: the lost super clusters, by id.
        lost_slices: the slices on them, by super cluster and namespace.
    """

    moved: int
    staying: int
    waiting_before: int
    waiting_after: int
    price_before: int
    price_after: int
    settled: bool
    rounds: int
    super_clusters: tuple[SuperChange, ...]
    namespaces: tuple[NamespaceChange, ...]
    lost: tuple[LostSuper, ...]
    lost_slices: tuple[LostSlices, ...]


def answer(snapshot: Snapshot, edits: Edits) -> Answer:
    """Return what the namespace scheduler would do after changes of the pool.

    Raises:
        InvalidEdit: a change cannot be made.
    """
    snapshot = ordered(snapshot)
    changed = edited(snapshot, edits)
    before, after = Core(snapshot), settle(changed)
    on_lost = lost_slices(snapshot, changed, after, edits.gone)
    supers = tuple(
        SuperChange(super_cluster=super_id, before=_use(before, super_id), after=_use(after, super_id))
        for super_id in sorted({**before.views, **after.views})
    )
    namespaces = _changes(snapshot, changed, after)
    return Answer(
        moved=sum(each.moved for each in namespaces),
        staying=sum(stay.slices for each in on_lost for stay in each.stay),
        waiting_before=sum(each.waiting_before for each in namespaces),
        waiting_after=sum(each.waiting_after for each in namespaces),
        price_before=_total(each.before for each in supers),
        price_after=_total(each.after for each in supers),
        settled=after.settled,
        rounds=after.rounds,
        super_clusters=supers,
        namespaces=namespaces,
        lost=lost_supers(changed, after, edits.gone, on_lost),
        lost_slices=on_lost,
    )


def _changes(snapshot: Snapshot, changed: Snapshot, after: Settled) -> tuple[NamespaceChange, ...]:
    tenants = {each.key: each for each in snapshot.tenants}
    found = (
        _change(old, new, tenants[old.tenant], after)
        for old, new in zip(snapshot.namespaces, changed.namespaces, strict=True)
    )
    return tuple(
        each
        for each in found
        if each.before != each.after
        or each.size_before != each.size_after
        or each.waiting_before
        or each.waiting_after
    )


def _change(old: NamespaceState, new: NamespaceState, tenant: TenantState, after: Settled) -> NamespaceChange:
    entry = after.ledger.get(new.key)
    assert entry is not None  # noqa: S101 - every namespace has one
    decided = not (new.leaving or tenant.suspended)
    here = {super_id: slices for super_id, slices in old.placements.items() if slices}
    decision = after.decisions.get(new.key)
    there = {
        super_id: slices
        for super_id, slices in entry.placements.items()
        if super_id in after.views and slices
    }
    return NamespaceChange(
        tenant=tenant.name,
        namespace=old.name,
        before=here,
        after=there,
        leave=_more(here, there),
        enter=_more(there, here),
        size_before=dict(old.placed_slice_size or old.slice_size),
        size_after=to_quantities(entry.size),
        waiting_before=old.waiting,
        waiting_after=new.slices - sum(there.values()) if decided else new.waiting,
        reason=_reason(new, tenant, decision),
        results=() if decision is None else _results(decision),
    )


def _results(decision: Decision) -> tuple[Result, ...]:
    return tuple(
        Result(
            super_cluster=each.super_id,
            slices=each.slices,
            score=each.score,
            refused=tuple(
                Refused(filter=refusal.filter, message=refusal.message)
                for refusal in (*decision.refusals, *each.refusals)
            ),
        )
        for each in decision.explanation
    )


def _reason(namespace: NamespaceState, tenant: TenantState, decision: Decision | None) -> str:
    if not namespace.leaving and not tenant.suspended:
        return "" if decision is None else decision.reasons()
    if not namespace.waiting:
        return ""
    return LEAVING if namespace.leaving else SUSPENDED


def _more(left: Mapping[str, int], right: Mapping[str, int]) -> Counts:
    """Return by how much `left` is more than `right`, where it is."""
    return {name: left[name] - right.get(name, 0) for name in sorted(left) if left[name] > right.get(name, 0)}


def _use(pool: Core | Settled, super_id: str) -> Use | None:
    view = pool.views.get(super_id)
    if view is None:
        return None
    used = pool.ledger.allocated(super_id)
    clearing = _clearing(pool, super_id) if view.health is Health.LOST else {}
    used = subtract(used, clearing)
    names = (*DIMENSIONS, PODS)
    return Use(
        capacity=to_quantities({name: view.capacity[name] for name in names if name in view.capacity}),
        used=to_quantities({name: used.get(name, 0) for name in names if name in {**view.capacity, **used}}),
        clearing=to_quantities({name: clearing[name] for name in names if clearing.get(name)}),
        slices=pool.ledger.slices_on(super_id),
        price=price(view, used),
    )


def _clearing(pool: Core | Settled, super_id: str) -> Resources:
    """Return the amounts that a super cluster still has to clear."""
    total: Resources = {}
    for entry in pool.ledger.entries().values():
        total = add(total, entry.clearing.get(super_id, {}))
    return total


def _total(uses: Iterable[Use | None]) -> int:
    return sum(each.price for each in uses if each is not None)


def price(view: SuperView, amounts: Mapping[str, int]) -> int:
    """Return the price of amounts (in thousandths) per hour on a super cluster, in millionths, rounded down."""
    exact = sum(
        view.price.get(name, 0) * amount * (max(_UNIT.values()) // _UNIT.get(name, 1))
        for name, amount in amounts.items()
    )
    return exact // (1000 * max(_UNIT.values()))


def decimal(amount: int) -> str:
    """Return millionths as a decimal number without trailing zeros."""
    whole, part = divmod(amount, 1_000_000)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")
