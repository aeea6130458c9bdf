import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.shares import Share, pick_super, share_of
from vcsync.scheduling.snapshot import Health, SuperView

SIZE = {"cpu": 100, "memory": 100_000}


def view(super_id, health=Health.READY, **fields):
    return SuperView(super_id, health, {}, **fields)


def pick(shares, needs, *views):
    known = {share.super_id: view(share.super_id) for share in shares} | {each.id: each for each in views}
    return pick_super(shares, needs, known)


def needs(cpu=0, **fields):
    return PodNeeds({"cpu": cpu} if cpu else {}, **fields)


def test_pods_alternate_between_equal_shares():
    shares = [share_of("r2", 2, SIZE), share_of("r1", 2, SIZE)]
    chosen = []
    for _ in range(4):
        decision = pick(shares, needs(100))
        chosen.append(decision.super_id)
        next(share for share in shares if share.super_id == decision.super_id).charge({"cpu": 100})
    assert chosen == ["r1", "r2", "r1", "r2"]
    assert pick(shares, needs(100)).super_id is None


def test_the_share_that_stays_least_used_wins():
    shares = [share_of("r1", 1, SIZE), share_of("r2", 3, SIZE)]
    assert pick(shares, needs(50)).super_id == "r2"


def test_a_pod_too_large_for_every_share_waits_with_the_reason_for_each():
    shares = [share_of("r1", 1, SIZE), share_of("r2", 1, SIZE)]
    decision = pick(shares, needs(150))
    assert decision.super_id is None
    assert (
        decision.reasons() == "r1: cpu 150m asked, 100m of 100m free; r2: cpu 150m asked, 100m of 100m free"
    )


def test_without_slices_a_pod_waits_for_a_quota():
    assert pick([], needs()).reasons() == (
        "its namespace holds no slices on any super cluster; it needs a ResourceQuota"
    )


def test_a_pod_without_requests_fits_a_full_share_and_spreads_by_number():
    shares = [Share("r1", {"cpu": 100}, {"cpu": 100}, 3), Share("r2", {"cpu": 100}, {"cpu": 100}, 2)]
    assert pick(shares, needs()).super_id == "r2"


def test_resources_that_slices_lack_are_not_limited():
    assert pick([share_of("r1", 1, SIZE)], PodNeeds({"nvidia.com/gpu": 4000})).super_id == "r1"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"health": Health.LOST}, "is lost"),
        (
            {"health": Health.LOST, "out_of_touch": "no heartbeat since 2026-01-01T00:00:00Z"},
            "is lost: no heartbeat since 2026-01-01T00:00:00Z",
        ),
        (
            {"health": Health.SUSPECT, "out_of_touch": "its API server has not answered since noon"},
            "is suspect: its API server has not answered since noon",
        ),
        ({"health": Health.UNKNOWN}, "has not reported yet"),
        ({"cordoned": True}, "is cordoned"),
        ({"largest_node": {"cpu": 40}}, "cpu 50m asked, its largest node has 40m"),
    ],
)
def test_a_super_cluster_out_of_service_gets_no_new_pods(fields, reason):
    shares = [share_of("r1", 9, SIZE), share_of("r2", 1, SIZE)]
    assert pick(shares, needs(50), view("r1", **fields)).super_id == "r2"
    assert pick(shares[:1], needs(50), view("r1", **fields)).reasons() == f"r1: {reason}"


def test_a_super_cluster_that_is_not_registered_gets_no_pods():
    assert pick_super([share_of("r1", 1, SIZE)], needs(), {}).reasons() == "r1: is not registered"


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_super_cluster_that_drains_is_the_last_choice(cordoned):
    """A namespace whose slices have not left yet may have no others."""
    shares = [share_of("r1", 9, SIZE), share_of("r2", 1, SIZE)]
    drains = view("r1", draining=True, cordoned=cordoned)
    assert pick(shares, needs(50), drains).super_id == "r2"
    assert pick(shares, needs(500), drains).super_id == "r1"


@pytest.mark.parametrize("health", [Health.SUSPECT, Health.RECOVERING])
def test_a_super_cluster_without_ready_nodes_and_one_that_recovers_are_the_last_choice(health):
    shares = [share_of("r1", 9, SIZE), share_of("r2", 1, SIZE)]
    weak = view("r1", health)
    assert pick(shares, needs(50), weak).super_id == "r2"
    assert pick(shares, needs(500), weak).super_id == "r1"


def test_a_pod_goes_where_its_node_selector_says():
    shares = [share_of("r1", 9, SIZE), share_of("r2", 1, SIZE)]
    assert pick(shares, needs(50, supers=("r2",))).super_id == "r2"
    assert "r1: node selector asks for nodes of r3" in pick(shares, needs(50, supers=("r3",))).reasons()


def test_charging_and_releasing_cancel_out():
    share = share_of("r1", 1, SIZE)
    share.charge({"cpu": 70, "gpu": 1})
    assert not share.fits({"cpu": 40})
    share.release({"cpu": 70, "gpu": 1})
    assert share.fits({"cpu": 100})
    assert share.pods == 0


amounts = st.integers(0, 300)
shares_of_a_namespace = st.dictionaries(
    st.sampled_from(["r1", "r2", "r3", "r4"]),
    st.tuples(st.integers(1, 3), amounts, st.integers(0, 5)),
).map(
    lambda found: [
        Share(key, {"cpu": n * 100}, {"cpu": used}, pods) for key, (n, used, pods) in found.items()
    ]
)


@given(shares_of_a_namespace, amounts, st.randoms(use_true_random=False))
def test_a_pod_is_placed_exactly_if_it_fits_somewhere_whatever_the_order(shares, cpu, random):
    decision = pick(shares, needs(cpu))
    fitting = {share.super_id for share in shares if share.fits({"cpu": cpu})}
    assert (decision.super_id in fitting) if fitting else decision.super_id is None
    assert bool(decision.reasons()) == (decision.super_id is None)
    shuffled = list(shares)
    random.shuffle(shuffled)
    assert pick(shuffled, needs(cpu)) == decision
