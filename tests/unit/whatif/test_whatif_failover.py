"""`vcsync what-if --lose`: what leaves lost super clusters under the policies of tenants, what stays, and why."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from whatif_pools import namespace, pool, pools, settled, super_cluster

from vcsync.api.specs import STAY, Failover
from vcsync.scheduling.failover import SMALLEST_WAVE
from vcsync.scheduling.resources import from_quantities, to_quantities
from vcsync.whatif.answer import answer
from vcsync.whatif.edits import Edits, InvalidEdit, edited
from vcsync.whatif.lost import ALONE, CLAIMS, HELD, IN_LINE, LEAVING, PINNED, POLICY, PodFates
from vcsync.whatif.replay import replay
from vcsync.whatif.settle import Core, settle
from vcsync.whatif.snapshot import InvalidSnapshot, PodCounts, TenantState, read, write

MOVE = Failover(policy="MoveAfter")
LATE = Failover(policy="MoveAfter", after_seconds=3600)
STATELESS = Failover(policy="MoveStateless")
THREE = tuple(super_cluster(super_id, 4) for super_id in ("r1", "r2", "r3"))
LOSE = Edits(lose=("r2",), failover=MOVE)


def stays(found, name="shop"):
    [one] = [each for each in found.lost_slices if each.namespace == name]
    return [(each.slices, each.reason) for each in one.stay]


def test_by_default_slices_stay_on_a_lost_super_cluster():
    found = answer(pool(THREE, namespace("shop", 3, r1=1, r2=2)), Edits(lose=("r2",)))
    assert (found.moved, found.staying, found.namespaces) == (0, 2, ())
    assert stays(found) == [(2, POLICY)]
    [lost] = found.lost
    assert (lost.super_cluster, lost.health, lost.namespaces, lost.leaving, lost.waves) == (
        "r2",
        "Lost",
        1,
        0,
        0,
    )


@pytest.mark.parametrize("policy", [MOVE, LATE, STATELESS])
def test_slices_leave_where_the_policy_lets_them_whatever_time_it_takes(policy):
    found = answer(pool(THREE, namespace("shop", 3, r1=1, r2=2)), replace(LOSE, failover=policy))
    assert (found.moved, found.staying, found.waiting_after) == (2, 0, 0)
    [change] = found.namespaces
    assert (change.leave, change.after) == ({"r2": 2}, {"r1": 2, "r3": 1})
    assert (found.lost[0].leaving, found.lost[0].waves) == (1, 1)


@pytest.mark.parametrize(("lost_after", "left"), [(120, 2), (300, 0)])
def test_a_loss_has_lasted_since_the_limit_of_the_schedulers(lost_after, left):
    """r2 has been out of touch for 400 seconds, and its slices may leave 200 seconds after it was lost."""
    supers = (THREE[0], replace(THREE[1], health="Lost", out_of_touch_seconds=400), THREE[2])
    policy = Failover(policy="MoveAfter", after_seconds=200)
    tenants = (TenantState(key="k-acme", name="acme", failover=policy),)
    found = pool(supers, namespace("shop", 3, r1=1, r2=2), tenants=tenants, lost_after_seconds=lost_after)
    assert Core(found).leaving_now(("k-acme", "shop")) == ({"r2": 0} if left else {})


def test_each_tenant_has_its_own_policy():
    tenants = (
        TenantState(key="k-acme", name="acme", failover=MOVE, own_failover=True),
        TenantState(key="k-late", name="late"),
    )
    snapshot = pool(
        THREE, namespace("shop", 1, r2=1), namespace("web", 1, tenant="k-late", r2=1), tenants=tenants
    )
    assert [each.leave for each in answer(snapshot, Edits(lose=("r2",))).lost_slices] == [1, 0]
    asked = Edits(lose=("r2",), default_failover=STATELESS)
    assert [each.failover for each in answer(snapshot, asked).lost_slices] == [MOVE, STATELESS]
    asked = Edits(lose=("r2",), failover=STAY, failovers={"late": LATE})
    assert [each.failover for each in answer(snapshot, asked).lost_slices] == [STAY, LATE]


def test_slices_without_room_elsewhere_stay_with_the_numbers_that_were_compared():
    snapshot = pool(THREE, namespace("shop", 5, r1=1, r2=4), namespace("full", 6, r1=3, r3=3))
    found = answer(snapshot, LOSE)
    assert (found.moved, found.staying) == (1, 3)
    assert stays(found) == [
        (
            3,
            "; ".join(
                f"{each}: cpu 1 asked, 0 of 4 free, memory 1Gi asked, 0 of 4Gi free" for each in ("r1", "r3")
            ),
        )
    ]


def test_slices_stay_without_another_super_cluster():
    found = answer(pool(THREE[:1], namespace("shop", 1, r1=1)), Edits(lose=("r1",), failover=MOVE))
    assert stays(found) == [(1, ALONE)]


def test_pinned_slices_stay():
    pinned = replace(namespace("shop", 3, r2=3), pins={"r2": 1})
    found = answer(pool(THREE, pinned), LOSE)
    assert stays(found) == [(1, PINNED)]
    assert found.moved == 2


def test_placements_that_are_being_removed_stay():
    found = answer(pool(THREE, replace(namespace("old", 1, r2=1), leaving=True)), LOSE)
    assert stays(found, "old") == [(1, LEAVING)]


def test_most_of_the_pool_at_once_is_not_lost_and_nothing_moves():
    snapshot = pool(THREE, namespace("shop", 3, r1=1, r2=1, r3=1))
    found = answer(snapshot, replace(LOSE, lose=("r2", "r3")))
    assert (found.moved, found.staying) == (0, 2)
    assert [(each.super_cluster, each.health, each.leaving) for each in found.lost] == [
        ("r2", "Suspect", 0),
        ("r3", "Suspect", 0),
    ]
    assert {each.stay for each in found.lost_slices} == {found.lost_slices[0].stay}
    assert found.lost_slices[0].stay[0].reason == HELD


def test_half_of_the_pool_at_once_is_lost():
    four = (*THREE, super_cluster("r4", 4))
    found = answer(pool(four, namespace("shop", 4, r1=2, r2=1, r3=1)), replace(LOSE, lose=("r2", "r3")))
    assert [each.health for each in found.lost] == ["Lost", "Lost"]
    assert (found.moved, found.staying) == (2, 0)


def test_a_super_cluster_that_was_lost_before_does_not_count_as_vanished_together():
    supers = (*THREE[:2], replace(THREE[2], health="Lost", out_of_touch_seconds=310))
    found = answer(pool(supers, namespace("shop", 3, r1=1, r2=1, r3=1)), LOSE)
    assert [(each.super_cluster, each.health) for each in found.lost] == [("r2", "Lost"), ("r3", "Lost")]
    assert found.moved == 2


def test_a_super_cluster_that_is_out_of_touch_counts_as_vanished_together():
    supers = (*THREE[:2], replace(THREE[2], health="Suspect", out_of_touch_seconds=100))
    found = answer(pool(supers, namespace("shop", 2, r1=1, r2=1)), LOSE)
    assert stays(found) == [(1, HELD)]


def test_a_super_cluster_without_ready_nodes_is_in_touch():
    supers = (*THREE[:2], replace(THREE[2], health="Suspect"))
    found = answer(pool(supers, namespace("shop", 2, r1=1, r2=1)), LOSE)
    assert found.moved == 1


def test_what_is_lost_in_the_snapshot_is_left_without_a_question():
    supers = (*THREE[:2], replace(THREE[2], health="Lost", out_of_touch_seconds=400))
    found = answer(pool(supers, namespace("shop", 2, r1=1, r3=1)), Edits(failover=MOVE))
    assert found.moved == 1


def test_stay_keeps_slices_on_a_fenced_super_cluster():
    found = answer(pool(THREE, namespace("shop", 1, r2=1)), Edits(fence=("r2",)))
    assert [(each.super_cluster, each.fenced) for each in found.lost] == [("r2", True)]
    assert stays(found) == [(1, POLICY)]


def test_what_leaves_is_held_on_the_lost_super_cluster_and_costs_nothing_there():
    supers = tuple(replace(each, prices={"cpu": "0.5"}) for each in THREE)
    found = answer(pool(supers, namespace("shop", 3, r2=3)), LOSE)
    r2 = found.super_clusters[1]
    assert (r2.after.slices, r2.after.used["cpu"], r2.after.price) == (0, "0", 0)
    assert r2.after.clearing == {"cpu": "3", "memory": "3Gi"}
    assert found.price_before == found.price_after == 1_500_000


def test_what_is_held_counts_against_the_cap_of_the_tenant():
    acme = TenantState(key="k-acme", name="acme", quota={"cpu": "4"}, failover=MOVE)
    snapshot = pool(THREE, namespace("shop", 2, r2=2), namespace("web", 2), tenants=[acme])
    assert answer(snapshot, Edits()).waiting_after == 0
    snapshot = pool(THREE, namespace("shop", 3, r2=3), namespace("web", 1, r1=1), tenants=[acme])
    found = answer(snapshot, Edits(lose=("r2",)))
    assert (found.moved, found.waiting_after) == (3, 0)


def test_namespaces_leave_in_waves():
    many = [namespace(f"n{number:02}", 1, r2=1) for number in range(2 * SMALLEST_WAVE + 5)]
    supers = (super_cluster("r1", 50), super_cluster("r2", 50), super_cluster("r3", 50))
    [lost] = answer(pool(supers, *many), LOSE).lost
    assert (lost.namespaces, lost.leaving, lost.waves) == (25, 25, 3)


def test_a_tenant_whose_namespaces_find_no_room_waits_with_the_others_and_holds_back_no_other_tenant():
    stuck = [namespace(f"n{number:02}", 3, r2=3) for number in range(6 * SMALLEST_WAVE)]
    supers = (super_cluster("r1", 1), super_cluster("r2", 200))
    found = answer(pool(supers, *stuck, namespace("web", 1, tenant="k-other", r2=1)), LOSE)
    waiting = [each for each in found.lost_slices if any(stay.reason == IN_LINE for stay in each.stay)]
    assert {each.tenant for each in waiting} == {"acme"}
    # The last wave that began with one less than that could release a whole one.
    assert len(stuck) - 2 * SMALLEST_WAVE < len(waiting) <= len(stuck) - SMALLEST_WAVE
    assert found.moved == 1


KNOWN = TenantState(key="k-acme", name="acme", pods_known=True)
COUNTS = PodCounts(pods=6, with_claims=2, of_stateful_sets=1, slices=1)


@pytest.mark.parametrize(
    ("edits", "left", "fates"),
    [
        (Edits(lose=("r2",)), [(2, POLICY)], PodFates(wait_for_return=6)),
        (LOSE, [], PodFates(replaced=3, wait_for_fence=1, wait_for_return=2)),
        (
            Edits(lose=("r2",), failover=STATELESS),
            [(1, CLAIMS)],
            PodFates(replaced=3, wait_for_fence=1, wait_for_return=2),
        ),
        (Edits(fence=("r2",), failover=MOVE), [], PodFates(replaced=4, wait_for_return=2)),
        (Edits(fence=("r2",)), [(2, POLICY)], PodFates(wait_for_return=6)),
        (
            Edits(lose=("r2",), failover=MOVE, headroom={"cpu": "75%"}),
            None,
            PodFates(wait_for_return=2, replaced_or_wait=4),
        ),
    ],
)
def test_pods_are_replaced_or_wait_for_a_fence_or_for_the_return(edits, left, fates):
    shop = replace(namespace("shop", 2, r2=2), pods={"r2": COUNTS})
    taken = namespace("taken", 1, tenant="k-other", r1=1)
    found = answer(pool(THREE, shop, taken, tenants=[KNOWN]), edits)
    [one] = [each for each in found.lost_slices if each.namespace == "shop"]
    assert one.pods == fates
    if left is None:
        assert len(one.stay) == 1
        assert "of 1 free" in one.stay[0].reason
    else:
        assert stays(found) == left


def test_pods_that_are_not_known_are_not_told():
    [one] = answer(pool(THREE, namespace("shop", 1, r2=1)), LOSE).lost_slices
    assert one.pods is None


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (Edits(lose=("r9",)), "--lose r9: there is no such super cluster; there are r1, r2, r3"),
        (Edits(fence=("r9",)), "--fence r9: there is no such super cluster"),
        (Edits(lose=("r2",), remove=("r2",)), "--remove r2: --lose names it, too; give one of them"),
        (
            Edits(failovers={"nobody": MOVE}),
            "--failover nobody: there is no such tenant; 'vcsync tenant list'",
        ),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(edits, message):
    with pytest.raises(InvalidEdit, match=message):
        answer(pool(THREE, namespace("shop", 1, r1=1)), edits)


def of_version_1(snapshot):
    """The file of a snapshot without the fields of version 2."""
    plain = json.loads(write(snapshot))
    plain["version"] = 1
    for part, fields in (
        ("superClusters", ("outOfTouchSeconds", "fenced")),
        ("tenants", ("failover", "ownFailover", "failBack", "podsKnown")),
        ("namespaces", ("pods",)),
    ):
        for each in plain[part]:
            for field in fields:
                del each[field]
    return json.dumps(plain).encode()


def test_a_file_of_version_1_is_read_as_if_all_slices_stayed():
    supers = (*THREE[:2], replace(THREE[2], health="Lost"))
    found = read(of_version_1(pool(supers, namespace("shop", 2, r1=1, r3=1))))
    assert found.version == 1
    assert {each.failover for each in found.tenants} == {STAY}
    assert not any(each.fenced for each in found.super_clusters)
    assert answer(found, Edits()).moved == 0
    # One that is lost without a time has been lost for long.
    asked = answer(found, replace(LOSE, lose=("r2",)))
    assert [each.health for each in asked.lost] == ["Lost", "Lost"]
    assert read(write(found)).version == 2


@pytest.mark.parametrize(
    ("part", "fields", "message"),
    [
        ("tenants", {"failover": {"policy": "Run"}}, "Run"),
        ("tenants", {"failover": {"policy": "MoveAfter", "afterSeconds": -1}}, "afterSeconds"),
        (
            "superClusters",
            {"outOfTouchSeconds": -1},
            "superClusters r1: outOfTouchSeconds: it is less than zero",
        ),
        ("namespaces", {"pods": {"r1": {"pods": 1, "withClaims": 2}}}, "pods r1: the numbers contradict"),
        ("namespaces", {"pods": {"r1": {"pods": 1, "slices": -1}}}, "pods r1: the numbers contradict"),
    ],
)
def test_a_file_with_a_wrong_field_is_refused(part, fields, message):
    plain = json.loads(write(pool(THREE, namespace("shop", 1, r1=1))))
    plain[part][0] |= fields
    with pytest.raises(InvalidSnapshot, match=message):
        read(json.dumps(plain).encode())


def lost_pool(policy, seconds, *, known=False, **fields):
    tenant = TenantState(key="k-acme", name="acme", failover=policy, pods_known=known)
    supers = (*THREE[:2], replace(THREE[2], health="Lost", out_of_touch_seconds=seconds, **fields))
    shop = replace(namespace("shop", 3, r1=1, r3=2), pods={"r3": COUNTS} if known else {})
    return pool(supers, shop, tenants=[tenant])


@pytest.mark.parametrize(
    ("snapshot", "decided"),
    [
        (lost_pool(STAY, 10_000), None),
        (lost_pool(MOVE, 599), None),
        (lost_pool(MOVE, 600), {"r1": 2, "r2": 1}),
        (lost_pool(LATE, 3000), None),
        (lost_pool(LATE, 3000, fenced=True), {"r1": 2, "r2": 1}),
        (lost_pool(STATELESS, 10_000), None),
        (lost_pool(STATELESS, 10_000, known=True), {"r1": 1, "r2": 1, "r3": 1}),
    ],
)
def test_a_replay_moves_what_the_policy_lets_leave_at_the_time_of_the_file(snapshot, decided):
    found = replay(snapshot)
    assert [each.decided for each in found.differences] == ([] if decided is None else [decided])


policies = st.sampled_from([STAY, MOVE, LATE, STATELESS])


@st.composite
def lost_pools(draw):
    """Pools at rest with policies and Pods, and one or two super clusters to lose."""
    drawn = draw(pools())
    calm = replace(
        drawn,
        super_clusters=tuple(replace(each, health="Ready", draining=False) for each in drawn.super_clusters),
        tenants=tuple(
            replace(each, failover=draw(policies), pods_known=draw(st.booleans())) for each in drawn.tenants
        ),
    )
    rest = settled(calm)
    known = {each.key for each in rest.tenants if each.pods_known}

    def counts(each):
        found = {}
        for super_id in each.placements if each.tenant in known else ():
            claims, stateful, others = (draw(st.integers(0, 3)) for _ in range(3))
            found[super_id] = PodCounts(
                pods=claims + stateful + others,
                with_claims=claims,
                of_stateful_sets=stateful,
                slices=draw(st.integers(1, 4)) if claims else 0,
            )
        return replace(each, pods=found)

    ids = [each.id for each in rest.super_clusters]
    lost = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True))
    return replace(rest, namespaces=tuple(map(counts, rest.namespaces))), tuple(lost)


@given(lost_pools(), st.booleans())
def test_with_stay_for_all_nothing_moves(drawn, fenced):
    snapshot, lost = drawn
    asked = Edits(fence=lost, failover=STAY) if fenced else Edits(lose=lost, failover=STAY)
    found = answer(snapshot, asked)
    assert found.moved == 0
    assert not any(each.leave or each.enter for each in found.namespaces if not each.waiting_before)
    assert all(each.leave == 0 for each in found.lost_slices)


@given(lost_pools(), st.one_of(st.none(), policies))
def test_sums_are_exact_and_no_super_cluster_gets_more_than_its_capacity(drawn, policy):
    snapshot, lost = drawn
    found = answer(snapshot, Edits(lose=lost, failover=policy))
    asked = {each.key: each.slices for each in snapshot.namespaces}
    for change in found.namespaces:
        key = f"k-{change.tenant}", change.namespace
        assert sum(change.after.values()) + change.waiting_after == asked[key]
    for each in found.super_clusters:
        used, capacity = from_quantities(each.after.used), from_quantities(each.after.capacity)
        assert all(amount <= capacity.get(name, 0) for name, amount in used.items())
    before = {(each.key, name): n for each in snapshot.namespaces for name, n in each.placements.items()}
    for each in found.lost_slices:
        left = sum(stay.slices for stay in each.stay)
        assert all(stay.slices > 0 and stay.reason for stay in each.stay)
        assert (
            each.leave + left
            == each.slices
            == before[(f"k-{each.tenant}", each.namespace), each.super_cluster]
        )
    assert {(f"k-{each.tenant}", each.namespace, each.super_cluster) for each in found.lost_slices} == {
        (*key, name) for (key, name), slices in before.items() if slices and name in lost
    }


@given(lost_pools(), policies)
def test_all_pods_are_told_and_claims_keep_their_slices(drawn, policy):
    snapshot, lost = drawn
    found = answer(snapshot, Edits(lose=lost, failover=policy))
    counts = {(each.key, name): pods for each in snapshot.namespaces for name, pods in each.pods.items()}
    for each in found.lost_slices:
        there = counts.get(((f"k-{each.tenant}", each.namespace), each.super_cluster))
        if each.pods is None:
            assert there is None
            continue
        assert sum(
            (
                each.pods.replaced,
                each.pods.wait_for_fence,
                each.pods.wait_for_return,
                each.pods.replaced_or_wait,
            )
        ) == (there.pods)
        assert each.pods.wait_for_return >= there.with_claims
        if policy is STATELESS:
            assert sum(stay.slices for stay in each.stay) >= min(each.slices, there.slices)


@given(lost_pools(), policies)
def test_a_saved_pool_answers_the_same_after_it_was_read(drawn, policy):
    snapshot, lost = drawn
    asked = Edits(lose=lost, failover=policy)
    assert answer(read(write(snapshot)), asked) == answer(snapshot, asked)


@given(lost_pools())
def test_the_pool_after_all_waves_replays_to_the_same_result(drawn):
    snapshot, lost = drawn
    gone = edited(snapshot, Edits(lose=lost, failover=MOVE))
    after = settle(gone)
    assume(after.settled)

    def one(each):
        entry = after.ledger.get(each.key)
        return replace(
            each,
            placements=entry.placements,
            placed_slice_size=to_quantities(entry.size),
            clearing={name: to_quantities(amounts) for name, amounts in entry.clearing.items()},
            waiting=each.slices - sum(entry.placements.values()),
        )

    rest = replace(gone, namespaces=tuple(map(one, gone.namespaces)))
    later = tuple(
        replace(each, out_of_touch_seconds=each.out_of_touch_seconds and 10_000)
        for each in rest.super_clusters
    )
    assert replay(replace(rest, super_clusters=later)).differences == ()
    assert answer(rest, Edits()).moved == 0


def test_decisions_are_made_about_what_a_loss_concerns_only(monkeypatch):
    # 1,000 tenants. A decision about each namespace would take ten times as long.
    many = [
        namespace(f"n{number % 5}", 1, tenant=f"k-t{number // 5:03}", **{f"r{number % 10}": 1})
        for number in range(5000)
    ]
    supers = tuple(super_cluster(f"r{number}", 1000) for number in range(10))
    decided = []
    decide = Core.decide

    def noted(core, key, leaving=None):
        decided.append(key)
        return decide(core, key, leaving)

    monkeypatch.setattr(Core, "decide", noted)
    found = answer(pool(supers, *many), LOSE)
    there = {each.key for each in many if each.placements.get("r2")}
    assert found.moved == len(there) == 500
    assert set(decided) == there
    assert len(decided) == len(there)


def test_a_drain_moves_slices_from_a_lost_super_cluster_and_its_pods_wait_with_the_policy_stay():
    supers = (THREE[0], replace(THREE[1], draining=True))
    shop = replace(namespace("shop", 3, r2=3), pods={"r2": COUNTS})
    found = answer(pool(supers, shop, namespace("full", 2, r1=2), tenants=[KNOWN]), Edits(lose=("r2",)))
    [one] = [each for each in found.lost_slices if each.namespace == "shop"]
    assert (one.leave, one.pods) == (2, PodFates(wait_for_return=6))
    assert [(each.slices, each.reason[:3]) for each in one.stay] == [(1, "r1:")]
