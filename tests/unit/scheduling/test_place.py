import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.scheduling.filters import FREE, refusals
from vcsync.scheduling.place import SliceRequest, Transfer, place_slices
from vcsync.scheduling.resources import add, pieces, subtract, times
from vcsync.scheduling.scores import Candidate, score
from vcsync.scheduling.snapshot import Health, SuperView, Taint

SIZE = {"cpu": 100, "memory": 100}


def view(super_id, slices=10, **fields):
    fields.setdefault("health", Health.READY)
    return SuperView(super_id, capacity={"cpu": slices * 100, "memory": slices * 100}, **fields)


def pool(*views):
    return {each.id: each for each in views}


def place(views, slices, *, allocated=None, **fields):
    return place_slices(views, allocated or {}, SliceRequest(slices, SIZE, **fields))


def refused(decision, super_id):
    [entry] = [entry for entry in decision.explanation if entry.super_id == super_id]
    return [refusal.filter for refusal in entry.refusals]


def test_the_walk_through_puts_one_slice_on_each_of_two_equal_super_clusters():
    decision = place(pool(view("r1"), view("r2")), 2)
    assert decision.placements == {"r1": 1, "r2": 1}
    assert decision.waiting == 0
    assert decision.reasons() == ""


def test_equal_super_clusters_are_filled_evenly_and_the_lower_id_first():
    assert place(pool(view("b"), view("c"), view("a")), 5).placements == {"a": 2, "b": 2, "c": 1}


def test_the_emptier_super_cluster_gets_the_odd_slice():
    allocated = {"r1": {"cpu": 500, "memory": 500}}
    assert place(pool(view("r1"), view("r2")), 1, allocated=allocated).placements == {"r2": 1}


def test_pack_fills_the_fullest_super_cluster_that_has_room():
    allocated = {"r2": {"cpu": 800, "memory": 800}}
    views = pool(view("r1"), view("r2"))
    assert place(views, 2, allocated=allocated, policy="pack").placements == {"r2": 2}
    assert place(views, 3, allocated=allocated, policy="pack").placements == {"r1": 1, "r2": 2}


def test_cheap_takes_the_lowest_price_first():
    views = pool(view("r1", price={"cpu": 20_000_000}), view("r2", 3, price={"cpu": 10_000_000}))
    assert place(views, 4, policy="cheap").placements == {"r1": 1, "r2": 3}


def test_slices_that_do_not_fit_wait_with_reasons():
    decision = place(pool(view("r1", 1), view("r2", 2)), 5)
    assert decision.placements == {"r1": 1, "r2": 2}
    assert decision.waiting == 2
    assert decision.reasons() == (
        "r1: cpu 100m asked, 0 of 100m free, memory 100m asked, 0 of 100m free; "
        "r2: cpu 100m asked, 0 of 200m free, memory 100m asked, 0 of 200m free"
    )


WITH_PODS = SIZE | {"pods": 4000}


def with_pods(super_id, pods):
    return SuperView(super_id, Health.READY, {"cpu": 1000, "memory": 1000, "pods": pods * 1000})


def deal(views, slices, *, allocated=None, **fields):
    return place_slices(views, allocated or {}, SliceRequest(slices, WITH_PODS, **fields))


def test_slices_are_limited_by_the_pods_that_a_super_cluster_can_take():
    decision = deal(pool(with_pods("r1", 9), with_pods("r2", 8)), 5, allocated={"r2": {"pods": 1000}})
    assert (decision.placements, decision.waiting) == ({"r1": 2, "r2": 1}, 2)
    assert decision.reasons() == "r1: pods 4 asked, 1 of 9 free; r2: pods 4 asked, 3 of 8 free"
    assert decision.reasons(public=True).startswith("r1: too little pods free for a slice")


def test_a_slice_may_have_more_pods_than_one_node_takes():
    views = pool(replace(with_pods("r1", 9), largest_node={"cpu": 1000, "pods": 3000}))
    assert deal(views, 1).placements == {"r1": 1}


@pytest.mark.parametrize(
    ("before", "slices", "placed", "pods"),
    [
        pytest.param(1, 5, 5, 1, id="one Pod each: 9 places for 5 slices"),
        pytest.param(1, 3, 3, 3, id="fewer slices leave room for Pods"),
        pytest.param(1, 2, 2, 4, id="as many Pods as a slice may have"),
        pytest.param(1, 12, 9, 1, id="slices come before more Pods"),
        pytest.param(None, 5, 5, 1, id="their number was not known"),
        pytest.param(None, 10, 9, 1, id="their number was not known, and there are more slices"),
        pytest.param(8, 1, 1, 4, id="fewer Pods at once"),
    ],
)
def test_present_slices_get_only_the_pods_that_fit(before, slices, placed, pods):
    old = SIZE if before is None else SIZE | {"pods": before * 1000}
    views = pool(replace(with_pods("r1", 9), capacity={"cpu": 2000, "memory": 2000, "pods": 9000}))
    decision = deal(views, slices, current={"r1": min(slices, 5)}, current_size=old)
    assert (decision.placements, decision.size["pods"]) == ({"r1": placed}, pods * 1000)


def test_a_new_super_cluster_with_more_pods_gives_the_full_ones_no_more():
    views = pool(with_pods("r1", 11), with_pods("r2", 100))
    size = SIZE | {"pods": 5000}
    request = SliceRequest(10, size, current={"r1": 10}, current_size=SIZE | {"pods": 1000})
    decision = place_slices(views, {}, request)
    assert (decision.placements, decision.size["pods"]) == ({"r1": 10}, 1000)
    both = place_slices(views, {}, replace(request, slices=11, current={"r1": 10, "r2": 1}))
    assert (both.placements, both.size["pods"]) == ({"r1": 10, "r2": 1}, 1000)
    elsewhere = place_slices(views, {}, replace(request, current={"r2": 10}))
    assert (elsewhere.placements, elsewhere.size["pods"]) == ({"r2": 10}, 5000)


def test_a_part_of_more_pods_is_given_only_if_it_is_more_than_a_quarter():
    size, old = SIZE | {"pods": 9000}, SIZE | {"pods": 4000}
    for room, pods in ((9, 4), (10, 4), (12, 6), (17, 8), (30, 9)):
        request = SliceRequest(2, size, current={"r1": 2}, current_size=old)
        assert place_slices(pool(with_pods("r1", room)), {}, request).size["pods"] == pods * 1000


def test_large_slices_that_become_tiny_have_no_more_pods_than_fit():
    views = pool(with_pods("r1", 110), with_pods("r2", 110))
    old, tiny = {"cpu": 100, "memory": 100, "pods": 11_000}, {"cpu": 1, "memory": 1, "pods": 1000}
    request = SliceRequest(1000, tiny, current={"r1": 5, "r2": 5}, current_size=old)
    for each in (request, replace(request, current={})):
        decision = place_slices(views, {}, each)
        assert (decision.placements, decision.waiting) == ({"r1": 110, "r2": 110}, 780)
        assert decision.reasons(public=True).startswith("r1: too little pods free for a slice")


def test_another_slice_size_keeps_the_pods_of_the_namespace():
    views = pool(with_pods("r1", 9))
    request = SliceRequest(2, {"cpu": 200, "memory": 200, "pods": 8000}, current={"r1": 4})
    merged = place_slices(views, {}, replace(request, current_size=SIZE | {"pods": 2000}))
    assert (merged.placements, merged.size["pods"]) == ({"r1": 2}, 4000)


def test_more_pods_stay_within_the_tenants_cap():
    views = pool(with_pods("r1", 90))
    request = SliceRequest(2, WITH_PODS, current={"r1": 2}, current_size=SIZE | {"pods": 1000})
    for cap, clearing, pods in ((8, 0, 4), (6, 0, 3), (8, 3, 2), (1, 0, 1)):
        limited = replace(
            request, tenant_free={"pods": cap * 1000}, tenant_clearing={"pods": clearing * 1000}
        )
        decision = place_slices(views, {}, limited)
        assert (decision.placements, decision.size["pods"]) == ({"r1": 2}, pods * 1000)


def test_the_tenants_cap_on_pods_limits_only_new_slices():
    views = pool(with_pods("r1", 90))
    cap = {"cpu": 900, "memory": 900, "pods": 10_000}
    decision = deal(views, 5, tenant_free=cap)
    assert (decision.placements, decision.waiting) == ({"r1": 2}, 3)
    assert decision.reasons() == "the tenant's quota: pods 20 asked, 10 left to this namespace"
    assert deal(views, 5, tenant_free=cap, current={"r1": 4}).placements == {"r1": 4}


def test_reasons_for_tenants_do_not_show_free_capacity():
    decision = place(pool(view("r1", 1)), 5)
    assert decision.reasons(public=True) == "r1: too little cpu and memory free for a slice"


def test_without_any_super_cluster_everything_waits():
    decision = place({}, 2)
    assert (decision.placements, decision.waiting) == ({}, 2)
    assert decision.reasons() == "there is no super cluster"


def test_a_resource_that_a_super_cluster_does_not_report_has_no_room():
    views = pool(SuperView("r1", Health.READY, {"cpu": 1000}))
    decision = place(views, 1)
    assert decision.waiting == 1
    assert decision.reasons() == "r1: memory 100m asked, 0 of 0 free"


@pytest.mark.parametrize(
    ("fields", "filter_name"),
    [
        ({"health": Health.SUSPECT}, "Health"),
        ({"health": Health.LOST}, "Health"),
        ({"health": Health.UNKNOWN}, "Health"),
        ({"cordoned": True}, "Cordon"),
        ({"taints": (Taint("gpu"),)}, "Taint"),
        ({"taints": (Taint("gpu", "", "NoExecute"),)}, "Taint"),
        ({"largest_node": {"cpu": 99}}, "LargestNode"),
    ],
)
def test_a_filter_excludes_new_slices_and_keeps_present_ones(fields, filter_name):
    views = pool(view("r1", **fields), view("r2", 3))
    fresh = place(views, 2)
    assert fresh.placements == {"r2": 2}
    assert refused(fresh, "r1") == [filter_name]
    grown = place(views, 4, current={"r1": 2})
    assert grown.placements == {"r1": 2, "r2": 2}


def test_a_drained_super_cluster_gets_no_new_slices():
    fresh = place(pool(view("r1", draining=True), view("r2", 3)), 4)
    assert (fresh.placements, fresh.waiting) == ({"r2": 3}, 1)
    assert refused(fresh, "r1") == ["Drain"]


def test_slices_leave_a_drained_super_cluster_if_others_have_room():
    assert place(pool(view("r1", draining=True), view("r2", 9)), 4, current={"r1": 4}).placements == {"r2": 4}
    tight = place(pool(view("r1", draining=True), view("r2", 3)), 4, current={"r1": 2, "r2": 2})
    assert (tight.placements, tight.waiting) == ({"r1": 1, "r2": 3}, 0)


def test_slices_stay_on_a_drained_super_cluster_until_their_turn_comes():
    views = pool(view("r1", draining=True), view("r2", 9))
    assert place(views, 4, current={"r1": 4}, held={"r1"}).placements == {"r1": 4}
    assert place(views, 6, current={"r1": 4}, held={"r1"}).placements == {"r1": 4, "r2": 2}
    assert place(views, 2, current={"r1": 4}, held={"r1"}).placements == {"r1": 2}
    assert place(views, 4, current={"r1": 4}, held={"r3"}).placements == {"r2": 4}


def test_pinned_slices_stay_on_a_drained_super_cluster():
    decision = place(pool(view("r1", draining=True), view("r2", 9)), 4, current={"r1": 4}, pins={"r1": 1})
    assert decision.placements == {"r1": 1, "r2": 3}


def test_a_super_cluster_with_a_preference_taint_is_the_last_choice():
    views = pool(view("r1", taints=(Taint("old", "", "PreferNoSchedule"),)), view("r2", 2))
    assert place(views, 3).placements == {"r1": 1, "r2": 2}


def test_slices_stay_where_they_are_when_the_quota_grows():
    views = pool(view("r1"), view("r2"))
    assert place(views, 4, current={"r1": 3}).placements == {"r1": 3, "r2": 1}


def test_slices_stay_on_a_super_cluster_that_shrank_below_them():
    decision = place(pool(view("r1", 1), view("r2", 0)), 3, current={"r1": 3})
    assert decision.placements == {"r1": 3}
    assert decision.waiting == 0


def test_slices_of_a_removed_super_cluster_are_placed_again():
    assert place(pool(view("r2")), 2, current={"r1": 2}).placements == {"r2": 2}


@pytest.mark.parametrize(
    ("current", "slices", "fields", "left"),
    [
        pytest.param({"r1": 1, "r2": 3}, 2, {}, {"r1": 1, "r2": 1}, id="from where there are most"),
        pytest.param({"r1": 2, "r2": 2}, 3, {}, {"r1": 1, "r2": 2}, id="lower id loses a tie"),
        pytest.param({"r1": 3, "r2": 1}, 3, {"health": Health.SUSPECT}, {"r1": 3}, id="unhealthy first"),
        pytest.param({"r1": 3, "r2": 2}, 4, {"cordoned": True}, {"r1": 3, "r2": 1}, id="cordoned first"),
        pytest.param({"r1": 1, "r2": 1}, 0, {}, {}, id="all"),
    ],
)
def test_a_shrinking_quota_removes_slices_in_a_fixed_order(current, slices, fields, left):
    assert place(pool(view("r1"), view("r2", **fields)), slices, current=current).placements == left


def test_pins_are_placed_first_and_removed_last():
    views = pool(view("r1"), view("r2"), view("r3"))
    assert place(views, 3, pins={"r3": 2}).placements == {"r1": 1, "r3": 2}
    shrunk = place(views, 2, current={"r1": 1, "r3": 2}, pins={"r3": 2})
    assert shrunk.placements == {"r3": 2}


def test_a_new_pin_moves_slices():
    views = pool(view("r1"), view("r2"))
    assert place(views, 2, current={"r1": 2}, pins={"r2": 1}).placements == {"r1": 1, "r2": 1}


def test_pins_tolerate_taints_but_nothing_else():
    views = pool(view("r1"), view("r2", taints=(Taint("own"),)), view("r3", cordoned=True))
    assert place(views, 2, pins={"r2": 2}).placements == {"r2": 2}
    assert place(views, 2, pins={"r3": 2}).placements == {"r1": 2}


def test_a_pin_without_room_does_not_delay_other_slices():
    views = pool(view("r1"), view("r2", 1))
    assert place(views, 3, pins={"r2": 3}).placements == {"r1": 2, "r2": 1}
    assert place(views, 1, pins={"gone": 1}).placements == {"r1": 1}


def test_the_tenants_cap_limits_all_slices_of_a_namespace():
    decision = place(pool(view("r1"), view("r2")), 4, tenant_free={"cpu": 250})
    assert decision.placements == {"r1": 1, "r2": 1}
    assert decision.waiting == 2
    assert decision.reasons() == "the tenant's quota: cpu 400m asked, 250m left to this namespace"
    over = place(pool(view("r1")), 3, current={"r1": 3}, tenant_free={"cpu": -50})
    assert over.placements == {}


def test_amounts_that_the_tenants_other_namespaces_are_clearing_limit_only_new_slices():
    views = pool(view("r1"))
    cap = {"tenant_free": {"cpu": 400}, "tenant_clearing": {"cpu": 300}}
    new = place(views, 4, **cap)
    assert (new.placements, new.waiting) == ({"r1": 1}, 3)
    assert new.reasons() == "the tenant's quota: cpu 400m asked, 100m left to this namespace"
    assert place(views, 4, current={"r1": 3}, **cap).placements == {"r1": 3}
    assert place(views, 9, current={"r1": 6}, **cap).placements == {"r1": 4}


@pytest.mark.parametrize(
    ("old", "current", "size", "slices", "placed"),
    [
        pytest.param(10, 19, 1000, 19, 1, id="tiny slices become large"),
        pytest.param(1000, 19, 10, 1900, 1900, id="large slices become tiny"),
        pytest.param(1000, 19, 500, 40, 38, id="half as large, and one more"),
        pytest.param(400, 10, 1000, 19, 4, id="what they have is kept in larger ones"),
    ],
)
def test_what_present_slices_have_counts_against_the_cap_and_not_their_number(
    old, current, size, slices, placed
):
    request = SliceRequest(
        slices,
        {"cpu": size},
        current={"r1": current},
        current_size={"cpu": old},
        tenant_free={"cpu": 20_000},
        tenant_clearing={"cpu": 19_000},
    )
    decision = place_slices(pool(view("r1", 1000)), {}, request)
    assert (sum(decision.placements.values()), decision.waiting) == (placed, slices - placed)


def test_new_slices_return_first_to_where_the_namespace_still_holds_amounts():
    views = pool(view("r1"), view("r2"), view("r3"))
    held = {"r3": {"cpu": 300, "memory": 300}, "r2": {"cpu": 50}}
    assert place(views, 4, clearing=held).placements == {"r2": 1, "r3": 3}
    assert place(views, 1, current={"r1": 1}, clearing=held).placements == {"r1": 1}


@pytest.mark.parametrize("fields", [{"cordoned": True}, {"health": Health.LOST}, {"draining": True}])
def test_no_slice_returns_to_a_super_cluster_that_takes_no_new_ones(fields):
    views = pool(view("r1"), view("r2", **fields))
    assert place(views, 2, clearing={"r2": {"cpu": 200, "memory": 200}, "gone": {}}).placements == {"r1": 2}


@pytest.mark.parametrize(
    ("old", "current", "size", "slices", "placements"),
    [
        pytest.param(200, {"r1": 2, "r2": 1}, 100, 6, {"r1": 4, "r2": 2}, id="halved"),
        pytest.param(100, {"r1": 4, "r2": 2}, 200, 3, {"r1": 2, "r2": 1}, id="doubled"),
        pytest.param(100, {"r1": 1, "r2": 1}, 300, 1, {"r1": 1}, id="one for two"),
    ],
)
def test_another_slice_size_keeps_the_proportions(old, current, size, slices, placements):
    decision = place_slices(
        pool(view("r1"), view("r2")),
        {},
        SliceRequest(slices, {"cpu": size}, current=current, current_size={"cpu": old}),
    )
    assert decision.placements == placements


def test_another_slice_size_does_not_overfill_a_super_cluster():
    views = pool(view("r1", 2), view("r2", 9))
    request = SliceRequest(2, {"cpu": 300}, current={"r1": 2}, current_size={"cpu": 100})
    assert place_slices(views, {}, request).placements == {"r2": 2}


# Properties

ids = st.sampled_from([f"r{number}" for number in range(6)])
taints = st.lists(
    st.builds(Taint, key=st.just("k"), effect=st.sampled_from(["NoSchedule", "PreferNoSchedule"])), max_size=1
).map(tuple)


amounts = st.fixed_dictionaries(
    {"cpu": st.integers(0, 900), "memory": st.just(0)},
    optional={"pods": st.integers(0, 9).map((1000).__mul__)},
)
capacities = st.fixed_dictionaries(
    {"cpu": st.integers(0, 1500), "memory": st.integers(0, 1500)},
    optional={"pods": st.integers(0, 40).map((1000).__mul__)},
)
pods = st.integers(1, 9).map((1000).__mul__)
old_sizes = st.fixed_dictionaries(
    {"cpu": st.sampled_from([50, 10, 300]), "memory": st.just(70)}, optional={"pods": pods}
)


@st.composite
def situations(draw, caps=({}, {"cpu": 700})):
    views = {
        super_id: SuperView(
            super_id,
            draw(st.just(Health.READY) | st.sampled_from(Health)),
            draw(capacities),
            cordoned=draw(st.sampled_from([False, False, False, True])),
            taints=draw(taints),
        )
        for super_id in sorted(draw(st.sets(ids, max_size=4)))
    }
    allocated = draw(st.dictionaries(ids, amounts, max_size=3))
    known = st.sampled_from([*sorted(views), "r0"])
    few = st.dictionaries(known, st.integers(0, 6), max_size=3)
    size = st.fixed_dictionaries(
        {"cpu": st.integers(1, 300), "memory": st.integers(1, 300)}, optional={"pods": pods}
    )
    wanted = draw(size)
    request = SliceRequest(
        draw(st.integers(0, 25)),
        wanted,
        current=draw(few),
        current_size=draw(st.one_of(st.none(), old_sizes, pods.map(lambda each: {**wanted, "pods": each}))),
        pins=draw(few),
        clearing=draw(st.dictionaries(known, amounts, max_size=3)),
        tenant_free=draw(st.sampled_from(caps)),
        tenant_clearing=draw(st.sampled_from([{}, {"cpu": 300}, {"memory": 300}])),
        policy=draw(st.sampled_from(["spread", "pack", "cheap"])),
    )
    return views, allocated, request


def present_on(request, super_id):
    """Return the amounts of the present slices on a super cluster."""
    return times(request.current_size or request.size, request.current.get(super_id, 0))


@given(situations())
def test_every_slice_is_placed_or_waits(situation):
    views, allocated, request = situation
    decision = place_slices(views, allocated, request)
    assert sum(decision.placements.values()) + decision.waiting == request.slices
    assert decision.waiting >= 0
    assert all(slices > 0 for slices in decision.placements.values())
    assert set(decision.placements) <= set(views)
    assert bool(decision.reasons()) == bool(decision.waiting)


@given(situations())
def test_new_slices_never_ignore_a_filter(situation):
    views, allocated, request = situation
    for entry in place_slices(views, allocated, request).explanation:
        if entry.slices > entry.kept:
            assert views[entry.super_id].health is Health.READY
            assert not views[entry.super_id].cordoned


@settings(max_examples=200)
@given(situations())
def test_slices_have_what_is_free_or_what_they_had(situation):
    views, allocated, request = situation
    decision = place_slices(views, allocated, request)
    for super_id, slices in decision.placements.items():
        free = subtract(views[super_id].capacity, allocated.get(super_id, {}))
        had = present_on(request, super_id)
        for name, amount in decision.size.items():
            known = name in free and (name in had or name not in request.size)
            if name == "pods" and not known and slices <= request.current.get(super_id, 0):
                continue  # nobody knows how many Pods there are, and present slices stay
            assert slices * amount <= max(free.get(name, 0), had.get(name, 0)), (super_id, name)


@given(situations())
def test_a_slice_has_no_more_pods_than_it_may(situation):
    decision = place_slices(*situation)
    assert decision.size.keys() == situation[2].size.keys()
    assert decision.size.get("pods", 1000) >= 1000
    assert all(amount <= situation[2].size[name] for name, amount in decision.size.items())


@given(situations(), st.integers(1, 9), st.integers(1, 9))
def test_more_pods_take_no_present_slice_away_and_are_given_only_where_they_fit(situation, before, after):
    views, allocated, request = situation
    request = replace(
        request,
        slices=max(25, sum(request.current.values())),
        size=request.size | {"pods": after * 1000},
        current_size=request.size | {"pods": before * 1000},
        tenant_free={},
        pins={},
    )
    decision = place_slices(views, allocated, request)
    assert min(before, after) * 1000 <= decision.size["pods"] <= after * 1000
    for super_id, each in views.items():
        slices = decision.placements.get(super_id, 0)
        assert slices >= request.current.get(super_id, 0)
        if "pods" in each.capacity:
            free = each.capacity["pods"] - allocated.get(super_id, {}).get("pods", 0)
            assert slices * decision.size["pods"] <= max(free, present_on(request, super_id)["pods"])


CAPS = ({}, {"cpu": 700}, {"cpu": 2000, "memory": 900, "pods": 9000}, {"pods": 20_000}, {"cpu": -5})


def held_on(request, super_id):
    """Return what a namespace holds on a super cluster before a decision."""
    return add(present_on(request, super_id), request.clearing.get(super_id, {}))


def after(request, decision):
    """Return the same request once the decision is written: what it took away is being cleared."""
    clearing = {}
    for super_id in {**request.current, **request.clearing}:
        now = times(decision.size, decision.placements.get(super_id, 0))
        left = subtract(held_on(request, super_id), now)
        clearing[super_id] = {name: amount for name, amount in left.items() if amount > 0}
    return replace(request, current=decision.placements, current_size=decision.size, clearing=clearing)


@given(situations(CAPS))
def test_deciding_again_changes_nothing(situation):
    views, allocated, request = situation
    first = place_slices(views, allocated, request)
    again = place_slices(views, allocated, after(request, first))
    assert again.placements == first.placements
    assert again.size == first.size
    assert again.waiting == first.waiting


def in_use(request, decision, name):
    """Return how much of a resource a namespace may use once a decision is written, freed or not."""
    return sum(
        max(
            held_on(request, super_id).get(name, 0),
            decision.placements.get(super_id, 0) * decision.size.get(name, 0),
        )
        for super_id in {**request.current, **request.clearing, **decision.placements}
    )


def most_in_use(request, name):
    """Return how much of a resource a namespace may use at most: what the cap leaves to it, or what it holds already."""
    held = sum(held_on(request, each).get(name, 0) for each in {**request.current, **request.clearing})
    return max(held, request.tenant_free[name] - request.tenant_clearing.get(name, 0))


@settings(max_examples=200)
@given(situations(CAPS))
def test_slices_and_what_is_not_freed_yet_are_within_the_cap(situation):
    views, allocated, request = situation
    there = {super_id: slices for super_id, slices in request.current.items() if super_id in views}
    request = replace(request, pins={}, current=there)
    decision = place_slices(views, allocated, request)
    total = sum(decision.placements.values())
    for name in request.tenant_free.keys() & decision.size.keys():
        if name in (request.current_size or request.size):
            assert in_use(request, decision, name) <= most_in_use(request, name), name
        if name != "pods":  # present ones may have more Pods than the pool has now
            assert not total or total * decision.size[name] <= request.tenant_free[name]


@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(situation, random):
    views, allocated, request = situation

    def shuffled(mapping):
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    other = replace(request, current=shuffled(request.current), pins=shuffled(request.pins))
    assert place_slices(views, allocated, request) == place_slices(
        shuffled(views), shuffled(allocated), other
    )


@given(situations(), ids, st.integers(0, 2000))
def test_more_capacity_never_places_less(situation, super_id, more):
    views, allocated, request = situation
    before = place_slices(views, allocated, request)
    if super_id in views:
        grown = {name: amount + more for name, amount in views[super_id].capacity.items()}
        views = {**views, super_id: replace(views[super_id], capacity=grown)}
    assert place_slices(views, allocated, request).waiting <= before.waiting


@given(situations(), st.integers(0, 10))
def test_a_larger_request_removes_no_slice(situation, more):
    views, allocated, request = situation
    request = replace(request, pins={})
    before = place_slices(views, allocated, request)
    after = place_slices(
        views,
        allocated,
        replace(request, slices=request.slices + more, current=before.placements, current_size=before.size),
    ).placements
    assert all(after[super_id] >= slices for super_id, slices in before.placements.items())


@given(situations())
def test_the_explanation_describes_super_clusters_as_they_are_after_the_decision(situation):
    views, allocated, request = situation
    decision = place_slices(views, allocated, request)
    for entry in decision.explanation:
        view, held = views[entry.super_id], allocated.get(entry.super_id, {})
        free = subtract(subtract(view.capacity, held), times(decision.size, entry.slices))
        assert entry.score == score(request.policy, Candidate(view, free, entry.slices), decision.size)
        short = not pieces(free, decision.size)
        refused = [refusal for refusal in entry.refusals if refusal.filter != "Capacity"]
        assert refused == refusals(FREE, view, decision.size)
        assert len(entry.refusals) - len(refused) == short


@st.composite
def losses(draw, caps=({},)):
    """A situation in which super clusters are drained, or are lost and may be left."""
    views, allocated, request = draw(situations(caps))
    leaving = {}
    for super_id, each in views.items():
        if draw(st.booleans()):
            views[super_id] = replace(each, draining=True)
        elif draw(st.booleans()):
            views[super_id] = replace(each, health=Health.LOST)
            leaving[super_id] = draw(st.integers(0, 3))
    fixed = {} if any(caps) else {"tenant_clearing": {}}
    changed = replace(request, pins={}, current_size=None, leaving=leaving, **fixed)
    return views, allocated, replace(changed, slices=max(request.slices, sum(request.current.values())))


@given(losses())
def test_only_slices_that_have_to_leave_move_and_only_if_others_have_room(situation):
    views, allocated, request = situation
    decision = place_slices(views, allocated, request)
    stayed = 0
    for super_id, each in views.items():
        present, now = request.current.get(super_id, 0), decision.placements.get(super_id, 0)
        must_stay = present
        if each.draining or super_id in request.leaving:
            must_stay = 0 if each.draining else min(present, request.leaving[super_id])
            assert now <= present
        assert now >= must_stay
        stayed += now - must_stay if now <= present else 0
    if stayed or decision.waiting:
        for entry in decision.explanation:
            assert entry.refusals, "a slice stays or waits though another super cluster has room"


@settings(max_examples=200)
@given(losses(CAPS))
def test_only_slices_that_leave_are_in_use_twice_beyond_the_cap(situation):
    views, allocated, request = situation
    decision = place_slices(views, allocated, request)
    leaving = {each for each, view in views.items() if view.draining} | request.leaving.keys()
    for name in request.tenant_free.keys() & request.size.keys():
        left = sum(
            max(0, slices - decision.placements.get(super_id, 0)) * request.size[name]
            for super_id, slices in request.current.items()
            if super_id in leaving or super_id not in views
        )
        assert in_use(request, decision, name) <= most_in_use(request, name) + left, name


def test_a_drain_ends_though_the_tenant_uses_its_whole_cap():
    views = pool(view("r1", draining=True), view("r2", 20))
    cap = {"tenant_free": {"cpu": 1000}}
    decision = place(views, 10, current={"r1": 10}, **cap)
    assert (decision.placements, decision.waiting) == ({"r2": 10}, 0)
    more = place(views, 15, current={"r1": 10}, **cap)
    assert (more.placements, more.waiting) == ({"r2": 10}, 5)
    while_others_clear = place(views, 10, current={"r1": 10}, tenant_clearing={"cpu": 500}, **cap)
    assert while_others_clear.placements == {"r2": 10}


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(view("r1", cordoned=True), id="cordoned"),
        pytest.param(view("r1", draining=True), id="drained"),
        pytest.param(view("r1", health=Health.RECOVERING), id="recovering"),
        pytest.param(view("r1", health=Health.LOST), id="lost"),
        pytest.param(view("r1", largest_node={"cpu": 99}), id="the slice is larger than its nodes"),
        pytest.param(view("r1", 0), id="full"),
        pytest.param(None, id="gone"),
    ],
)
def test_what_the_namespace_has_not_freed_counts_against_the_cap_where_its_slices_cannot_return(there):
    views = pool(*([there] if there else []), view("r2", 99))
    clearing = {"r1": {"cpu": 1900, "memory": 1900}}
    decision = place(views, 19, clearing=clearing, tenant_free={"cpu": 2000})
    assert (decision.placements, decision.waiting) == ({"r2": 1}, 18)
    assert decision.reasons(public=True) == (
        "the tenant's quota: cpu 1900m asked, 100m left to this namespace; it has not freed 1900m on r1 yet"
    )
    assert place(views, 19, tenant_free={"cpu": 2000}).waiting == 0


def test_slices_that_return_need_nothing_more_of_the_cap():
    views = pool(view("r1", 19), view("r2", 99))
    clearing = {"r1": {"cpu": 1900, "memory": 1900}}
    decision = place(views, 25, clearing=clearing, tenant_free={"cpu": 2000})
    assert (decision.placements, decision.waiting) == ({"r1": 19, "r2": 1}, 5)


@given(losses(), st.randoms(use_true_random=False))
def test_the_order_of_super_clusters_that_are_left_does_not_matter(situation, random):
    views, allocated, request = situation

    def shuffled(mapping):
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    other = replace(
        request,
        current=shuffled(request.current),
        leaving=shuffled(request.leaving),
        clearing=shuffled(request.clearing),
    )
    assert place_slices(views, allocated, request) == place_slices(shuffled(views), allocated, other)


def test_a_hundred_slices_over_fifty_super_clusters_are_spread_evenly():
    views = pool(*(view(f"r{number}") for number in range(50)))
    assert place(views, 100).placements == {f"r{number}": 2 for number in range(50)}


# Transfers


def transfer(source, target, slices, stay):
    return Transfer(source, target, slices, stay)


def test_a_transfer_moves_slices_to_the_super_cluster_that_it_names():
    views = pool(view("r1"), view("r2"), view("r3"))
    moved = place(views, 3, current={"r1": 3}, transfers=(transfer("r1", "r3", 2, 1),))
    assert moved.placements == {"r1": 1, "r3": 2}
    again = place(views, 3, current=moved.placements, transfers=(transfer("r1", "r3", 2, 1),))
    assert again.placements == moved.placements


def test_transfers_of_one_source_share_what_stays_there():
    transfers = (transfer("r1", "r2", 1, 2), transfer("r1", "r3", 2, 2))
    views = pool(view("r1"), view("r2"), view("r3"))
    moved = place(views, 5, current={"r1": 5}, transfers=transfers)
    assert moved.placements == {"r1": 2, "r2": 1, "r3": 2}
    assert place(views, 5, current=moved.placements, transfers=transfers).placements == moved.placements


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (view("r2", 1), {"r1": 2, "r2": 1}),
        (view("r2", cordoned=True), {"r1": 3}),
        (view("r2", health=Health.SUSPECT), {"r1": 3}),
        (None, {"r1": 3}),
    ],
    ids=["no room for all", "cordoned", "suspect", "gone"],
)
def test_transferred_slices_that_do_not_fit_stay(target, after):
    views = pool(view("r1"), *([target] if target else []))
    decision = place(views, 3, current={"r1": 3}, transfers=(transfer("r1", "r2", 2, 1),))
    assert decision.placements == after
    assert not decision.waiting


def test_pinned_slices_are_not_transferred():
    views = pool(view("r1"), view("r2"))
    decision = place(views, 3, current={"r1": 3}, pins={"r1": 2}, transfers=(transfer("r1", "r2", 3, 0),))
    assert decision.placements == {"r1": 2, "r2": 1}


def test_a_namespace_that_shrinks_while_slices_move_keeps_no_more_than_it_asks_for():
    views = pool(view("r1"), view("r2"))
    decision = place(views, 1, current={"r1": 3}, transfers=(transfer("r1", "r2", 2, 1),))
    assert sum(decision.placements.values()) == 1
