"""`vcsync what-if`: which slices move or wait after a change of the pool, and what is never broken."""

import random
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from whatif_pools import SLICE, namespace, pool, pools, settled, super_cluster

from vcsync.scheduling.resources import from_quantities
from vcsync.whatif.answer import answer, decimal
from vcsync.whatif.edits import Edits, InvalidEdit
from vcsync.whatif.settle import Core
from vcsync.whatif.snapshot import TenantState, ordered

TWO = (super_cluster("r1", 4), super_cluster("r2", 4))


def one(found, name="shop"):
    [change] = [each for each in found.namespaces if each.namespace == name]
    return change


def test_slices_of_a_removed_super_cluster_move_where_there_is_room():
    found = answer(pool(TWO, namespace("shop", 4, r1=2, r2=2)), Edits(remove=("r2",)))
    change = one(found)
    assert (change.leave, change.enter, change.after) == ({"r2": 2}, {"r1": 2}, {"r1": 4})
    assert (found.moved, found.waiting_after) == (2, 0)


def test_slices_without_room_wait_with_the_numbers_that_were_compared():
    found = answer(pool(TWO, namespace("shop", 6, r1=3, r2=3)), Edits(remove=("r2",)))
    assert one(found).waiting_after == 2
    assert one(found).reason == "r1: cpu 1 asked, 0 of 4 free, memory 1Gi asked, 0 of 4Gi free"
    [result] = one(found).results
    assert (result.super_cluster, result.slices) == ("r1", 4)
    assert [(each.filter, each.message) for each in result.refused] == [
        ("Capacity", "cpu 1 asked, 0 of 4 free, memory 1Gi asked, 0 of 4Gi free")
    ]


def test_an_answer_shows_the_scores_of_those_that_did_not_refuse():
    supers = (*TWO, super_cluster("r3", 4, cordoned=True))
    results = {
        each.super_cluster: each for each in one(answer(pool(supers, namespace("shop", 1)), Edits())).results
    }
    assert results["r2"].score > results["r1"].score
    assert not results["r2"].refused
    assert [each.filter for each in results["r3"].refused] == ["Cordon"]


def test_an_added_super_cluster_takes_what_waited():
    snapshot = pool(TWO, namespace("shop", 10, r1=4, r2=4))
    found = answer(snapshot, Edits(add=(super_cluster("r3", 2),)))
    assert one(found).enter == {"r3": 2}
    assert (found.waiting_before, found.waiting_after, found.moved) == (2, 0, 0)
    assert [each.super_cluster for each in found.super_clusters if each.before is None] == ["r3"]


def test_a_larger_tenant_gets_more_slices_and_a_larger_cap():
    acme = TenantState(key="k-acme", name="acme", quota={"cpu": "2"})
    snapshot = pool(TWO, namespace("shop", 2, r1=1, r2=1), tenants=[acme])
    found = answer(snapshot, Edits(scale={"acme": Fraction(2)}))
    assert one(found).after == {"r1": 2, "r2": 2}
    assert found.waiting_after == 0


def test_a_smaller_tenant_gives_slices_back():
    found = answer(pool(TWO, namespace("shop", 4, r1=2, r2=2)), Edits(scale={"acme": Fraction(1, 2)}))
    assert one(found).after == {"r1": 1, "r2": 1}


def test_another_default_slice_concerns_those_that_have_the_present_one():
    own = TenantState(key="k-own", name="own", slice_size=SLICE)
    snapshot = pool(
        TWO,
        namespace("shop", 2, r1=1, r2=1),
        namespace("odd", 1, size={"cpu": "1500m", "memory": "1Gi"}, r1=1),
        namespace("own", 2, tenant="k-own", r1=1, r2=1),
        tenants=[own],
    )
    found = answer(snapshot, Edits(slice_size={"cpu": "2", "memory": "2Gi"}))
    assert [each.namespace for each in found.namespaces] == ["shop"]
    assert one(found).size_after == {"cpu": "2", "memory": "2Gi"}
    assert sum(one(found).after.values()) == 1


def test_a_larger_headroom_takes_no_slice_away_and_holds_new_ones_back():
    snapshot = pool(TWO, namespace("shop", 4, r1=2, r2=2), namespace("new", 2))
    found = answer(snapshot, Edits(headroom={"cpu": "50%"}))
    assert [each.namespace for each in found.namespaces] == ["new"]
    assert one(found, "new").waiting_after == 2
    assert one(found, "new").reason.startswith("r1: cpu 1 asked, 0 of 2 free")


def test_a_policy_decides_about_new_slices():
    snapshot = pool(TWO, namespace("shop", 4))
    assert one(answer(snapshot, Edits(policy="pack"))).after == {"r1": 4}
    assert one(answer(snapshot, Edits(policy="spread"))).after == {"r1": 2, "r2": 2}


def test_use_and_price_are_shown_before_and_after():
    supers = (super_cluster("r1", 4, prices={"cpu": "0.5", "memory": "0.25"}), super_cluster("r2", 4))
    found = answer(pool(supers, namespace("shop", 2, r2=2)), Edits(remove=("r2",)))
    first, second = found.super_clusters
    assert (decimal(found.price_before), decimal(found.price_after)) == ("0", "1.5")
    assert (first.before.slices, first.after.slices, second.after) == (0, 2, None)
    assert first.after.used == {"cpu": "2", "memory": "2Gi"}
    assert first.after.capacity == {"cpu": "4", "memory": "4Gi"}


def test_slices_of_suspended_tenants_and_of_leaving_namespaces_wait_for_something_else():
    snapshot = pool(
        TWO,
        namespace("shop", 2, tenant="k-late"),
        replace(namespace("old", 1, waiting=1), leaving=True),
        tenants=[TenantState(key="k-late", name="late", suspended=True)],
    )
    found = answer(snapshot, Edits())
    assert one(found).reason == "the tenant is suspended"
    assert one(found, "old").reason == "its placement is being removed"
    assert found.waiting_after == 3


def test_amounts_that_are_still_cleared_stay_held_and_slices_return_to_them():
    held = replace(namespace("shop", 1), clearing={"r2": {"cpu": "1", "memory": "1Gi"}})
    found = answer(pool(TWO, held), Edits())
    assert one(found).after == {"r2": 1}
    assert found.super_clusters[1].after.used == {"cpu": "1", "memory": "1Gi"}


def test_the_pods_of_a_slice_follow_the_pool():
    supers = tuple(
        replace(super_cluster(super_id, 4), allocatable={"cpu": "4", "memory": "4Gi", "pods": "40"})
        for super_id in ("r1", "r2")
    )
    found = answer(pool(supers, namespace("shop", 1)), Edits())
    assert one(found).size_after == {"cpu": "1", "memory": "1Gi", "pods": "10"}


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (Edits(remove=("r9",)), "--remove r9: there is no such super cluster; there are r1, r2"),
        (
            Edits(add=(super_cluster("r1"),)),
            "--add-super r1: there is such a super cluster; choose another name",
        ),
        (Edits(scale={"nobody": Fraction(2)}), "--scale-tenant nobody: there is no such tenant"),
        (
            Edits(scale={"acme": Fraction(1000)}),
            "--scale-tenant acme: namespace acme/shop cannot be sliced so",
        ),
        (
            Edits(slice_size={"cpu": "1m", "memory": "1Gi"}),
            "--slice-size: namespace acme/shop cannot be sliced so",
        ),
        (Edits(headroom={"cpu": "-1"}), "spec.headroom.cpu: '-1' is negative"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(edits, message):
    with pytest.raises(InvalidEdit, match=message):
        answer(pool(TWO, namespace("shop", 2, r1=1, r2=1)), edits)


def test_a_super_cluster_without_pods_is_not_added_to_a_pool_with_pods():
    supers = [replace(super_cluster("r1"), allocatable={"cpu": "1", "memory": "1Gi", "pods": "10"})]
    with pytest.raises(InvalidEdit, match="--add-super r2: name its pods, too"):
        answer(pool(supers), Edits(add=(super_cluster("r2"),)))


@given(pools())
def test_without_changes_nothing_moves_on_a_settled_pool(snapshot):
    rest = settled(snapshot)
    found = answer(rest, Edits())
    assert found.moved == 0
    assert all(each.before == each.after for each in found.namespaces)
    assert found.waiting_before == found.waiting_after
    assert [each.before for each in found.super_clusters] == [each.after for each in found.super_clusters]


@given(pools(), st.sampled_from(["r1", "r2"]))
def test_the_core_leaves_namespaces_that_rest_as_they_are(snapshot, drained):
    rest = settled(snapshot)
    supers = tuple(replace(each, draining=each.id == drained) for each in rest.super_clusters)
    tenants = tuple(replace(each, quota={"cpu": "5"}) for each in rest.tenants)
    for changed in (rest, replace(rest, super_clusters=supers), replace(rest, tenants=tenants)):
        core = Core(changed)
        for key in core.keys:
            if core.rests(key):
                decision = core.decide(key)
                assert decision.waiting == 0
                assert not core.apply(key, decision)


@given(pools(), st.sampled_from(["r1", "r2"]))
def test_no_super_cluster_gets_more_than_its_capacity_and_no_slice_vanishes(snapshot, lost):
    assume(any(each.id == lost for each in snapshot.super_clusters))
    rest = settled(snapshot)
    found = answer(rest, Edits(remove=(lost,)))
    for each in found.super_clusters:
        if each.after is not None:
            used, capacity = from_quantities(each.after.used), from_quantities(each.after.capacity)
            assert all(amount <= capacity.get(name, 0) for name, amount in used.items())
    for change in found.namespaces:
        asked = next(
            each.slices for each in rest.namespaces if each.key == (f"k-{change.tenant}", change.namespace)
        )
        assert sum(change.after.values()) + change.waiting_after == asked
        assert lost not in change.after


@given(pools(), st.sampled_from(["r1", "r2"]), st.randoms(use_true_random=False))
def test_the_order_of_the_input_has_no_effect(snapshot, lost, shuffler: random.Random):
    assume(any(each.id == lost for each in snapshot.super_clusters))

    def shuffled(parts):
        return tuple(shuffler.sample(parts, len(parts)))

    other = replace(
        snapshot,
        super_clusters=shuffled(snapshot.super_clusters),
        tenants=shuffled(snapshot.tenants),
        namespaces=shuffled(snapshot.namespaces),
    )
    first, second = (answer(each, Edits(remove=(lost,))) for each in (ordered(snapshot), other))
    assert first == second


@given(pools(), st.sampled_from(["r1", "r2"]))
def test_a_super_cluster_that_is_removed_and_added_back_leaves_the_same_sums(snapshot, lost):
    same = [each for each in snapshot.super_clusters if each.id == lost]
    assume(same)
    rest = settled(snapshot)
    found = answer(rest, Edits(remove=(lost,), add=tuple(same)))
    assert found == answer(rest, Edits())
