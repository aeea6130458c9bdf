"""Tells what becomes of slices and Pods on lost super clusters: which leave, which stay and why. Pure."""

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from vcsync.api.specs import FailBack, Failover
from vcsync.scheduling.place import Decision
from vcsync.tenancy.failure import MOST_PERCENT
from vcsync.whatif.settle import Settled
from vcsync.whatif.snapshot import NamespaceState, PodCounts, Snapshot, TenantState

POLICY = "the tenant's policy is Stay"
HELD = f"more than {MOST_PERCENT} % of the pool is out of touch at once, so nothing moves"
PINNED = "an operator has pinned them there"
CLAIMS = "Pods with claims need them"
ALONE = "there is no other super cluster"
IN_LINE = "namespaces of the same tenant find no room, and others of it wait for them"
SUSPENDED = "the tenant is suspended"
LEAVING = "its placement is being removed"


class _Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the answer."""


class Staying(_Part, frozen=True, kw_only=True):
    """Slices that stay on a lost super cluster, and why."""

    slices: int
    reason: str


class PodFates(_Part, frozen=True, kw_only=True):
    """The Pods of a namespace on a lost super cluster. The numbers add up to all of them.

    Attributes:
        replaced: Pods that other super clusters run instead.
        wait_for_fence: Pods of StatefulSets, which are replaced when the super cluster is fenced or returns.
        wait_for_return: Pods that wait for the super cluster: their slices stay, or their claims have volumes there.
        replaced_or_wait: Pods of namespaces of which only some slices leave, so that it depends on their sizes.
    """

    replaced: int = 0
    wait_for_fence: int = 0
    wait_for_return: int = 0
    replaced_or_wait: int = 0


class LostSlices(_Part, frozen=True, kw_only=True):
    """The slices of a namespace on a lost super cluster.

    Attributes:
        tenant: name of the tenant.
        namespace: the namespace.
        super_cluster: the lost super cluster.
        slices: number of slices there before.
        leave: number of those that leave it.
        stay: those that stay, by reason.
        failover: the tenant's policy.
        fail_back: the tenant's policy for the way back of those that leave.
        pods: its Pods there; None if they are not known.
    """

    tenant: str
    namespace: str
    super_cluster: str
    slices: int
    leave: int
    stay: tuple[Staying, ...]
    failover: Failover
    fail_back: FailBack
    pods: PodFates | None


class LostSuper(_Part, frozen=True, kw_only=True):
    """A super cluster that is lost, or would be if most of the pool had not vanished with it.

    Attributes:
        super_cluster: its id.
        health: `Lost` or `Suspect`.
        fenced: whether it is fenced.
        namespaces: number of namespaces with slices there.
        leaving: number of those that leave it, at least with some slices.
        waves: number of waves in which they leave.
    """

    super_cluster: str
    health: str
    fenced: bool
    namespaces: int
    leaving: int
    waves: int


def lost_slices(
    snapshot: Snapshot, changed: Snapshot, after: Settled, gone: Collection[str]
) -> tuple[LostSlices, ...]:
    """Return what becomes of the slices on lost super clusters, by super cluster and namespace.

    Args:
        snapshot: the pool before.
        changed: the pool with its changes, before decisions.
        after: the pool after all decisions.
        gone: ids of super clusters that the question loses, whether they count as lost or not.
    """
    tenants = {each.key: each for each in changed.tenants}
    fenced = {super_id for super_id, view in after.views.items() if view.fenced}
    found = []
    for super_id in sorted({*gone, *(each.id for each in changed.super_clusters if after.is_lost(each.id))}):
        for old, new in zip(snapshot.namespaces, changed.namespaces, strict=True):
            slices = old.placements.get(super_id, 0)
            entry = after.ledger.get(new.key)
            assert entry is not None  # noqa: S101 - every namespace has one
            left = entry.placements.get(super_id, 0)
            if not (slices or left):
                continue
            tenant = tenants[new.tenant]
            stay = tuple(_stay(new, tenant, super_id, left, after))
            waits = after.held or tenant.failover.policy == "Stay"
            found.append(
                LostSlices(
                    tenant=tenant.name,
                    namespace=new.name,
                    super_cluster=super_id,
                    slices=slices,
                    leave=max(0, slices - left),
                    stay=stay,
                    failover=tenant.failover,
                    fail_back=tenant.fail_back,
                    pods=_fates(new, super_id, stay, waits=waits, fenced=super_id in fenced)
                    if tenant.pods_known
                    else None,
                )
            )
    return tuple(found)


def lost_supers(
    changed: Snapshot, after: Settled, gone: Collection[str], slices: Collection[LostSlices]
) -> tuple[LostSuper, ...]:
    """Return the lost super clusters, by id; see `lost_slices`."""
    return tuple(
        LostSuper(
            super_cluster=each.id,
            health=after.views[each.id].health.name.capitalize(),
            fenced=each.fenced,
            namespaces=sum(one.super_cluster == each.id for one in slices),
            leaving=sum(one.super_cluster == each.id and one.leave > 0 for one in slices),
            waves=after.waves.get(each.id, 0),
        )
        for each in changed.super_clusters
        if each.id in gone or after.is_lost(each.id)
    )


def _stay(
    namespace: NamespaceState, tenant: TenantState, super_id: str, left: int, after: Settled
) -> Iterator[Staying]:
    """Yield the slices that stay, by reason. Their numbers add up to `left`."""
    if not left:
        return
    released = after.departures.released(super_id)
    whole = _whole(namespace, tenant, super_id, after)
    if whole:
        yield Staying(slices=left, reason=whole)
        return
    pinned = min(left, namespace.pins.get(super_id, 0))
    claimed = min(left - pinned, released.get(namespace.key, 0))
    crowded = left - pinned - claimed
    for slices, reason in (
        (pinned, PINNED),
        (claimed, CLAIMS),
        (crowded, _no_room(after.decisions.get(namespace.key), after.views.keys() - {super_id})),
    ):
        if slices:
            yield Staying(slices=slices, reason=reason)


def _whole(namespace: NamespaceState, tenant: TenantState, super_id: str, after: Settled) -> str:
    """Return why all slices stay, whatever room there is; empty otherwise. A drain moves slices whatever the policy says."""
    released = namespace.key in after.departures.released(super_id)
    reasons = (
        (namespace.leaving, LEAVING),
        (tenant.suspended, SUSPENDED),
        (after.views[super_id].draining, ""),
        (tenant.failover.policy == "Stay", POLICY),
        (after.held, HELD),
        (not released, IN_LINE),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _no_room(decision: Decision | None, others: Collection[str]) -> str:
    """Return why the other super clusters took no more slices, with the numbers that were compared."""
    explained: Mapping[str, str] = (
        {}
        if decision is None
        else {
            each.super_id: ", ".join(refusal.message for refusal in (*decision.refusals, *each.refusals))
            for each in decision.explanation
            if each.super_id in others
        }
    )
    return "; ".join(f"{super_id}: {text}" for super_id, text in explained.items() if text) or ALONE


def _fates(
    namespace: NamespaceState, super_id: str, stay: Collection[Staying], *, waits: bool, fenced: bool
) -> PodFates:
    """Return what becomes of the Pods. Pods with claims wait in any case, since their volumes stay where they are.

    Args:
        namespace: the namespace.
        super_id: the lost super cluster.
        stay: the slices that stay there.
        waits: whether no Pod is evicted, wherever slices are.
        fenced: whether the super cluster is fenced.
    """
    there = namespace.pods.get(super_id, PodCounts())
    free = there.pods - there.with_claims - there.of_stateful_sets
    reasons = {each.reason for each in stay}
    if waits or reasons & {LEAVING, SUSPENDED, IN_LINE}:
        return PodFates(wait_for_return=there.pods)
    if reasons - {CLAIMS}:
        return PodFates(wait_for_return=there.with_claims, replaced_or_wait=there.pods - there.with_claims)
    return PodFates(
        replaced=free + (there.of_stateful_sets if fenced else 0),
        wait_for_fence=0 if fenced else there.of_stateful_sets,
        wait_for_return=there.with_claims,
    )
