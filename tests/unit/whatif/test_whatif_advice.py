"""`vcsync what-if --advise-headroom`: the least headroom that survives the loss of any one super cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from whatif_pools import namespace, pool, super_cluster

from vcsync.whatif.advice import headroom_advice
from vcsync.whatif.edits import Edits, edited
from vcsync.whatif.settle import settle
from vcsync.whatif.snapshot import TenantState


def equal(number, slices=100):
    return tuple(super_cluster(f"r{index}", slices) for index in range(1, number + 1))


@pytest.mark.parametrize(("number", "percent"), [(2, 50), (3, 34), (4, 25), (5, 20)])
def test_equal_super_clusters_keep_the_share_of_one(number, percent):
    found = headroom_advice(pool(equal(number), namespace("shop", 2, r1=2)))
    assert (found.percent, found.reason) == (percent, "")
    assert all(each.room >= each.slices > 0 and each.waiting == 0 for each in found.losses)


def test_the_largest_super_cluster_decides():
    supers = (super_cluster("r1", 200), super_cluster("r2", 100), super_cluster("r3", 100))
    found = headroom_advice(pool(supers))
    assert found.percent == 50
    assert [(each.slices, each.room) for each in found.losses] == [(100, 100), (50, 150), (50, 150)]


def test_one_super_cluster_alone_survives_nothing():
    found = headroom_advice(pool(equal(1)))
    assert found.percent is None
    assert found.reason == "the pool has 1 super clusters, and the loss of one needs another"


def test_present_slices_that_no_headroom_saves_are_counted():
    found = headroom_advice(pool(equal(2, 4), namespace("shop", 7, r1=4, r2=3)))
    assert found.percent is None
    assert found.reason == (
        "present slices would wait even if no headroom were kept: 3 after the loss of r1, 3 after the loss of r2"
    )
    assert [(each.slices, each.room, each.waiting) for each in found.losses] == [(4, 4, 3), (4, 4, 3)]


def test_super_clusters_that_take_no_slices_do_not_count_as_room():
    supers = (*equal(2), super_cluster("r3", 100, cordoned=True))
    assert headroom_advice(pool(supers)).percent == 50


def test_slices_that_wait_already_are_no_sign_of_a_loss():
    acme = TenantState(key="k-acme", name="acme", quota={"cpu": "2"})
    found = headroom_advice(pool(equal(2), namespace("shop", 8, r1=1, r2=1), tenants=[acme]))
    assert found.percent == 50
    assert [each.waiting for each in found.losses] == [0, 0]


def test_slices_of_namespaces_that_are_leaving_need_no_other_place():
    leaving = replace(namespace("old", 2, r1=1, r2=1), leaving=True)
    found = headroom_advice(pool(equal(2), leaving))
    assert found.percent == 50
    assert [each.waiting for each in found.losses] == [0, 0]


def test_slices_larger_than_every_super_cluster_leave_no_room_to_count():
    found = headroom_advice(pool(equal(2, 4), namespace("huge", 1, size={"cpu": "9", "memory": "1Gi"})))
    assert found.percent is None
    assert found.reason.startswith("with every headroom that leaves room for slices")


@given(st.lists(st.integers(1, 12), min_size=2, max_size=4))
def test_a_pool_that_is_full_up_to_the_advised_headroom_survives_every_loss(sizes):
    supers = tuple(super_cluster(f"r{index}", size) for index, size in enumerate(sizes))
    found = headroom_advice(pool(supers))
    if found.percent is None:
        return
    kept = dict.fromkeys(("cpu", "memory"), f"{found.percent}%")
    many = sum(sizes)
    full = edited(pool(supers, namespace("shop", many)), Edits(headroom=kept))
    there = settle(full).ledger.get(("k-acme", "shop")).placements
    total = sum(there.values())
    held = namespace("shop", total, **there)
    for lost in there:
        left = settle(edited(pool(supers, held), Edits(remove=(lost,))))
        assert sum(left.ledger.get(held.key).placements.values()) == total
