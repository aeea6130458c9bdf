"""Makes a snapshot of the stored objects of the meta cluster. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, cluster_key
from vcsync.api.specs import STAY, FailBack, Failover
from vcsync.objects.times import time_text
from vcsync.scheduling.resources import to_quantities
from vcsync.scheduling.slices import OBJECTS
from vcsync.tenancy.distribution import entry_of
from vcsync.tenancy.failure import PATIENCE
from vcsync.tenancy.health import Judgement, absences_stored, judge_all_stored, recorded_patience
from vcsync.whatif.snapshot import NamespaceState, Snapshot, SuperState, SuperTaint, TenantState, ordered


def capture(
    supers: Iterable[SuperCluster],
    virtual_clusters: Iterable[VirtualCluster],
    placements: Iterable[NamespacePlacement],
    *,
    now: datetime,
    policy: str,
    default_slice: Mapping[str, str],
    failover: Failover = STAY,
    fail_back: FailBack = "Never",
) -> Snapshot:
    """Return the state of the pool.

    A placement whose VirtualCluster is gone is included, since it holds amounts until it is cleared; it is `leaving`.

    Args:
        supers: the pool's SuperClusters.
        virtual_clusters: the tenants' VirtualClusters.
        placements: the ledger.
        now: the current time.
        policy: the namespace scheduler's policy, which no object has.
        default_slice: its default slice, which no object has either.
        failover: the schedulers' policy for lost super clusters of tenants without one, which no object has either.
        fail_back: the same for the way back.
    """
    pool = list(supers)
    patience = recorded_patience(pool) or PATIENCE
    judged, absent = judge_all_stored(pool, now), absences_stored(pool, now)
    tenants = {cluster_key(each): _tenant(each, failover, fail_back) for each in virtual_clusters}
    entries = list(placements)
    orphans = {each.namespace for each in entries} - set(tenants)
    return ordered(
        Snapshot(
            taken_at=time_text(now),
            policy=policy,
            default_slice=dict(default_slice),
            suspect_after_seconds=int(patience.suspect_after),
            lost_after_seconds=int(patience.lost_after),
            super_clusters=tuple(_super_cluster(each, judged[each.name], absent[each.name]) for each in pool),
            tenants=(*tenants.values(), *(TenantState(key=key, name=key) for key in orphans)),
            namespaces=tuple(_namespace(each, leaving=each.namespace in orphans) for each in entries),
        )
    )


def _super_cluster(found: SuperCluster, judged: Judgement, absent: float | None) -> SuperState:
    spec, status = found.spec, found.status
    return SuperState(
        id=found.name,
        health=judged.word,
        reason=judged.reason,
        allocatable=_texts(status.allocatable),
        largest_node=_texts(status.largest_node),
        headroom=_texts(spec.headroom),
        overcommit=_texts(spec.overcommit),
        cordoned=spec.cordoned,
        draining=spec.drain or found.deleting,
        taints=tuple(
            SuperTaint(key=taint.key, value=taint.value, effect=taint.effect) for taint in spec.taints
        ),
        prices=_texts(spec.prices),
        labels=dict(sorted(found.labels.items())),
        network_id=spec.network_id,
        out_of_touch_seconds=None if absent is None else int(absent),
        fenced=spec.fenced,
    )


def _tenant(found: VirtualCluster, failover: Failover, fail_back: FailBack) -> TenantState:
    spec = found.spec
    return TenantState(
        key=cluster_key(found),
        name=spec.tenant or found.name,
        weight=spec.weight,
        suspended=spec.suspended,
        quota=_texts(spec.quota),
        slice_size=None if spec.slice_size is None else _texts(spec.slice_size),
        failover=spec.failover or failover,
        own_failover=spec.failover is not None,
        fail_back=spec.fail_back or fail_back,
    )


def _namespace(found: NamespacePlacement, *, leaving: bool) -> NamespaceState:
    entry = entry_of(found)
    return NamespaceState(
        tenant=found.namespace,
        name=found.name,
        quota=_texts(found.spec.quota),
        slice_size=_sliced(found.spec.slice_size),
        slices=found.spec.slices,
        pins=dict(sorted(found.spec.pins.items())),
        placements=dict(sorted(entry.placements.items())),
        placed_slice_size=_sliced(found.placed_slice_size),
        clearing={super_id: to_quantities(entry.clearing[super_id]) for super_id in sorted(entry.clearing)},
        waiting=found.status.waiting,
        leaving=leaving or found.deleting,
    )


def _sliced(size: Mapping[str, str]) -> dict[str, str]:
    """Return the resources of a slice that super clusters distribute."""
    return {name: text for name, text in _texts(size).items() if name not in OBJECTS}


def _texts(amounts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}
