"""Super clusters for new Pods of a Service that keeps its Pods together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.shares import KEEP_TOGETHER, pick_super, share_of
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.scheduling.together import Kept, home, refusal

ALL = ("r1", "r2", "r3")
APART = {each: SuperView(each, Health.READY, {}) for each in ALL}
JOINED = {each: replace(view, network_id="" if each == "r3" else "lab") for each, view in APART.items()}


@pytest.mark.parametrize(
    ("pods", "views", "expected"),
    [
        ({}, APART, ()),
        ({"r2": 1}, APART, ("r2",)),
        ({"r1": 1, "r2": 2}, APART, ("r2",)),
        ({"r1": 1, "r2": 1}, APART, ("r1",)),
        ({"r2": 1}, JOINED, ("r1", "r2")),
        ({"r1": 1, "r2": 1, "r3": 1}, JOINED, ("r1", "r2")),
        ({"r1": 1, "r2": 1, "r3": 3}, JOINED, ("r3",)),
        ({"r4": 1}, APART, ()),
        ({"r1": 1}, APART | {"r1": replace(APART["r1"], draining=True)}, ()),
        ({"r1": 1}, APART | {"r1": replace(APART["r1"], health=Health.LOST)}, ()),
        ({"r1": 1}, APART | {"r1": replace(APART["r1"], health=Health.SUSPECT)}, ("r1",)),
        ({"r1": 1}, APART | {"r1": replace(APART["r1"], cordoned=True)}, ("r1",)),
        ({"r1": 3, "r2": 1}, {each: APART[each] for each in ("r2", "r3")}, ("r2",)),
    ],
)
def test_new_pods_go_where_most_pods_that_stay_are_reached(pods, views, expected):
    assert home(pods, ALL, views) == expected


def test_pods_on_a_super_cluster_without_slices_do_not_hold_the_others():
    assert home({"r1": 5, "r2": 1}, ("r2", "r3"), APART) == ("r2",)


@given(st.dictionaries(st.sampled_from(ALL), st.integers(0, 4)), st.permutations(ALL), st.booleans())
def test_a_home_is_one_group_with_a_pod_and_does_not_depend_on_order(pods, order, joined):
    views = JOINED if joined else APART
    found = home(pods, order, views)
    assert found == home(dict(reversed(pods.items())), ALL, views)
    assert bool(found) == any(pods.values())
    if found:
        assert any(pods.get(each) for each in found)
        assert len(found) == 1 or len({views[each].network_id for each in found} - {""}) == 1


def test_all_services_of_a_pod_must_accept_a_super_cluster():
    kept = (Kept("a", ("r1", "r2")), Kept("b", ("r2", "r3")), Kept("new", ()))
    assert [refusal(kept, each) is None for each in ALL] == [False, True, False]
    assert refusal(kept[:1], "r3") == (
        "Service a keeps its Pods together on r1, r2 (label tenancy.x-k8s.io/keep-together)"
    )


def test_a_pod_is_not_placed_where_its_service_does_not_let_it_go():
    shares = [share_of(each, 1, {"cpu": 100}) for each in ALL]
    needs = PodNeeds({"cpu": 50})
    assert pick_super(shares, needs, APART, (), (Kept("a", ("r3",)),)).super_id == "r3"
    decision = pick_super(shares, needs, APART, (), (Kept("a", ("r3",)), Kept("b", ("r1",))))
    assert decision.super_id is None
    assert all(refused.filter == KEEP_TOGETHER for each in decision.explanation for refused in each.refusals)
