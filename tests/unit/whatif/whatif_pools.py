"""Pools as snapshots, for tests and for hypothesis."""

from hypothesis import assume
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.scheduling.resources import to_quantities
from vcsync.whatif.settle import settle
from vcsync.whatif.snapshot import NamespaceState, Snapshot, SuperState, TenantState, ordered

SLICE = {"cpu": "1", "memory": "1Gi"}


def super_cluster(super_id, slices=10, **fields):
    """A super cluster with room for a number of slices."""
    allocatable = {"cpu": str(slices), "memory": f"{slices}Gi"}
    return SuperState(id=super_id, allocatable=allocatable, **fields)


def namespace(name, slices, *, tenant="k-acme", size=SLICE, waiting=None, **placements):
    """A namespace; what its placements lack waits."""
    return NamespaceState(
        tenant=tenant,
        name=name,
        quota={"cpu": str(slices), "memory": f"{slices}Gi"},
        slice_size=dict(size),
        slices=slices,
        placements=placements,
        waiting=slices - sum(placements.values()) if waiting is None else waiting,
    )


def pool(supers, *namespaces, tenants=(), **fields):
    """A snapshot. Tenants that are not given have no settings."""
    known = {each.key: each for each in tenants}
    for each in namespaces:
        known.setdefault(each.tenant, TenantState(key=each.tenant, name=each.tenant.removeprefix("k-")))
    return Snapshot(
        default_slice=SLICE,
        super_clusters=tuple(supers),
        tenants=tuple(known.values()),
        namespaces=namespaces,
        **fields,
    )


def settled(snapshot):
    """The snapshot after all decisions, and after what was given up has been cleared."""
    found = settle(snapshot)
    assume(found.settled)

    def placed(each):
        entry = found.ledger.get(each.key)
        return replace(
            each,
            placements=entry.placements,
            placed_slice_size=to_quantities(entry.size),
            waiting=each.slices - sum(entry.placements.values()),
        )

    return replace(snapshot, namespaces=tuple(map(placed, ordered(snapshot).namespaces)))


_supers = st.lists(
    st.builds(
        super_cluster,
        st.sampled_from(["r1", "r2", "r3", "r4"]),
        st.integers(0, 12),
        cordoned=st.booleans(),
        draining=st.booleans(),
        health=st.sampled_from(["Ready", "Ready", "Suspect", "Lost"]),
        prices=st.sampled_from([{}, {"cpu": "0.04"}, {"cpu": "0.01", "memory": "0.005"}]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each.id,
)


@st.composite
def pools(draw):
    """Pools in which nothing is placed yet."""
    supers = draw(_supers)
    tenants = [
        TenantState(
            key=f"k-{name}",
            name=name,
            weight=draw(st.integers(1, 3)),
            quota=draw(st.sampled_from([{}, {"cpu": "4"}, {"cpu": "9", "memory": "20Gi"}])),
        )
        for name in ("acme", "umbrella")
    ]
    namespaces = [
        NamespaceState(
            tenant=tenant.key,
            name=f"n{number}",
            quota={"cpu": str(slices)},
            slice_size=draw(st.sampled_from([SLICE, {"cpu": "500m", "memory": "2Gi"}])),
            slices=slices,
            waiting=slices,
            pins=draw(st.sampled_from([{}, {}, {"r1": 1}, {"r2": 2}])),
        )
        for tenant in tenants
        for number in range(draw(st.integers(0, 4)))
        for slices in [draw(st.integers(0, 6))]
    ]
    policy = draw(st.sampled_from(["spread", "pack", "cheap"]))
    return pool(supers, *namespaces, tenants=tenants, policy=policy)
