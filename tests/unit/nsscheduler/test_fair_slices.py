"""Scarce slices: many namespaces of a tenant take none that the weights give to others, and what fits nowhere blocks nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from vcsync.fairqueue import FairQueue
from vcsync.scheduling.ledger import Entry, Key, Ledger
from vcsync.scheduling.place import SliceRequest, place_slices
from vcsync.scheduling.resources import Resources, times
from vcsync.scheduling.snapshot import Health, SuperView

SIZE = {"cpu": 100}
LARGE = {"cpu": 5000}
FLOOD = "flood"
OTHERS = ("calm", "busy")


def deal(
    weights: Mapping[str, int], room: Mapping[str, int], asked: Mapping[str, list[Resources]]
) -> Counter[str]:
    """Return how many namespaces of each tenant get their slice if all of them wait at the same time.

    Args:
        weights: tenant -> weight.
        room: super cluster -> number of slices.
        asked: tenant -> size of the slice of each of its namespaces; the tenants in the order in which they came.
    """
    work: FairQueue[str] = FairQueue()
    for tenant, sizes in asked.items():
        work.set_weight(tenant, weights[tenant])
        for number in range(len(sizes)):
            work.add(tenant, f"ns-{number}", now=0.0)
    views = {name: SuperView(name, Health.READY, times(SIZE, slices)) for name, slices in room.items()}
    ledger = Ledger()
    found: Counter[str] = Counter()
    while (popped := work.pop(now=0.0)) is not None:
        tenant, namespace = popped
        key: Key = (tenant, namespace)
        size = asked[tenant][int(namespace.removeprefix("ns-"))]
        allocated = {name: ledger.allocated(name, without=key) for name in views}
        decision = place_slices(views, allocated, SliceRequest(1, size))
        ledger.put(key, Entry(size, decision.placements))
        found[tenant] += 1 - decision.waiting
        work.done(tenant, namespace, now=0.0)
    return found


weights_of = st.fixed_dictionaries({name: st.integers(1, 5) for name in (FLOOD, *OTHERS)})
rooms = st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), st.integers(1, 15), min_size=1)


@given(
    weights_of,
    rooms,
    st.integers(40, 60),
    st.fixed_dictionaries({name: st.integers(0, 20) for name in OTHERS}),
)
def test_each_tenant_gets_its_weighted_share_of_scarce_slices(weights, room, flood, others):
    asked = {FLOOD: [SIZE] * flood} | {name: [SIZE] * count for name, count in others.items()}
    found = deal(weights, room, asked)
    slices = sum(room.values())
    assert sum(found.values()) == min(slices, flood + sum(others.values()))
    for name, count in others.items():
        share = slices * weights[name] / sum(weights.values())
        assert found[name] >= min(count, share - weights[name])


@given(weights_of, rooms, st.lists(st.booleans(), min_size=1, max_size=40))
def test_a_namespace_whose_slice_fits_nowhere_blocks_no_other_one(weights, room, large):
    asked = {FLOOD: [LARGE if each else SIZE for each in large], "calm": [SIZE]}
    found = deal(weights, room, asked)
    assert sum(found.values()) == min(sum(room.values()), large.count(False) + 1)
