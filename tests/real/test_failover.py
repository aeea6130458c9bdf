"""Slices and Pods leave a lost super cluster by the policy of their tenant, and nothing runs twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from hack.system import SystemFailed
from tests.real.failure_kit import (
    AT_ONCE,
    LOSS_SECONDS,
    RETURN_SECONDS,
    SCHEDULERS,
    copies,
    health,
    impatient_pool,
    lifted,
    listed,
    names_of,
    on,
    recorded,
    restart_schedulers,
    seen,
    space_on_all,
    spread,
    stateful_set,
    terminating,
    told_to_leave,
    uids,
)
from tests.real.pool.pool_kit import (
    Json,
    Pool,
    Space,
    condition,
    deployment,
    is_running,
    items,
    phase,
    pod,
    super_of,
)
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.podscheduler.evictions import EVICTED, FENCED
from vcsync.tenancy.health import HELD

pytestmark = pytest.mark.timeout(900)
TERM_SECONDS = 15
"""Seconds for which schedulers lead that are restarted again and again."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Three super clusters, and roles with little patience."""
    with impatient_pool(tmp_path_factory.mktemp("failover")) as pool:
        yield pool


@pytest.fixture
def space(pool: Pool) -> Iterator[Space]:
    """A namespace with a slice on each super cluster, which leaves lost ones."""
    pool.system.vcsync("tenant", "set", "acme", "--failover", AT_ONCE)
    try:
        with space_on_all(pool) as space:
            yield space
    finally:
        pool.system.vcsync("tenant", "set", "acme", "--failover", "")


def node_states(pool: Pool, super_id: str) -> set[str]:
    """Return the states of the condition Ready of a super cluster's virtual nodes in acme."""
    found = items(pool.cluster("acme"), f"/api/v1/nodes?labelSelector={names.SUPER_CLUSTER_ID}%3D{super_id}")
    return {condition(each, "Ready")["status"] for each in found}


def foretold(space: Space, *options: str) -> tuple[Json, list[Json]]:
    """Return what a question says about the placements of the namespace, and about its slices on lost super clusters."""
    found = json.loads(space.pool.system.vcsync("what-if", *options, "--pods", "-o", "json"))
    after = [each["after"] for each in found["namespaces"] if each["namespace"] == space.name]
    return (
        after[0] if after else space.placements(),
        [each for each in found["lostSlices"] if each["namespace"] == space.name],
    )


def test_slices_and_pods_leave_a_lost_super_cluster_and_stateful_pods_wait_for_its_return(
    pool: Pool, space: Space
) -> None:
    spread(space)
    web, db = on(space.pods("web"), "r2"), on(space.pods("db"), "r2")
    after, [lost] = foretold(space, "--lose", "r2")
    assert (lost["leave"], lost["pods"]["replaced"], lost["pods"]["waitForFence"]) == (1, len(web), len(db))
    pool.supers["r2"].kill("kube-apiserver")
    try:
        eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
        eventually(lambda: set(space.placements()) == {"r1", "r3"})
        assert space.placements() == after
        held = (space.ledger() or {})["status"]["clearing"]
        assert held["r2"]["cpu"] == "500m"

        eventually(lambda: not on(space.pods(), "r2"), LOSS_SECONDS)
        replaced = space.all_running("web", 3)
        assert {super_of(each) for each in replaced} == {"r1", "r3"}
        assert not web & {each["metadata"]["name"] for each in replaced}
        eventually(lambda: told_to_leave(space, next(iter(web))))
        eventually(lambda: node_states(pool, "r2") == {"Unknown"})
        assert node_states(pool, "r1") == node_states(pool, "r3") == {"True"}
        # The same name must not run twice, so nothing replaces it before its end is known.
        assert terminating(space, "db") == db
        assert len(space.pods("db")) == 2
    finally:
        pool.supers["r2"].start("kube-apiserver")

    eventually(lambda: health(pool, "r2") == {"Ready"}, LOSS_SECONDS)
    moved = space.all_running("db", 3, RETURN_SECONDS)
    assert {super_of(each) for each in moved} <= {"r1", "r3"}
    eventually(lambda: copies(pool, space) == names_of(space.pods()), RETURN_SECONDS)
    eventually(lambda: space.stands_on() == {"r1", "r3"}, RETURN_SECONDS)
    eventually(lambda: not (space.ledger() or {})["status"].get("clearing"))
    assert set(space.placements()) == {"r1", "r3"}


def test_leaders_that_are_gone_before_the_patience_of_a_policy_is_over_move_slices_and_pods(
    pool: Pool, space: Space
) -> None:
    pool.system.vcsync("tenant", "set", "acme", "--failover", "MoveAfter=1m")
    spread(space)
    web = on(space.pods("web"), "r2")
    pool.supers["r2"].kill("kube-apiserver")
    try:
        lost = eventually(lambda: is_lost(recorded(pool, "r2")), LOSS_SECONDS)
        assert listed(pool, "r2")["state"] == "Lost"
        eventually(
            lambda: another_leader_moves(pool, lambda: set(space.placements()) == {"r1", "r3"}), LOSS_SECONDS
        )
        eventually(lambda: another_leader_moves(pool, lambda: not web & on(space.pods(), "r2")), LOSS_SECONDS)
        assert recorded(pool, "r2")["since"] == lost["since"]
    finally:
        pool.supers["r2"].start("kube-apiserver")
    eventually(lambda: recorded(pool, "r2")["state"] == "Ready", RETURN_SECONDS)
    assert recorded(pool, "r2")["failures"] > 0
    eventually(lambda: space.stands_on() == {"r1", "r3"}, RETURN_SECONDS)
    eventually(lambda: copies(pool, space) == names_of(space.pods()), RETURN_SECONDS)


def is_lost(record: Json) -> Json | None:
    return record if record.get("state") == "Lost" else None


def another_leader_moves(pool: Pool, moved: Callable[[], bool]) -> bool:
    """Begin terms that are shorter than the time of the policy. Return whether something has moved."""
    restart_schedulers(pool)
    try:
        return eventually(moved, TERM_SECONDS)
    except AssertionError:
        return False


def test_slices_go_back_to_a_super_cluster_that_has_returned_if_the_policy_says_so(
    pool: Pool, space: Space
) -> None:
    pool.system.vcsync("tenant", "set", "acme", "--fail-back", "WithinBudget")
    try:
        space.apply(deployment("web", 3))
        space.all_running("web", 3)
        pool.supers["r2"].kill("kube-apiserver")
        try:
            eventually(lambda: set(space.placements()) == {"r1", "r3"}, LOSS_SECONDS)
            assert (space.ledger() or {})["status"]["away"] == {"r2": 1}
        finally:
            pool.supers["r2"].start("kube-apiserver")
        eventually(lambda: space.placements() == {"r1": 1, "r2": 1, "r3": 1}, RETURN_SECONDS)
        eventually(lambda: health(pool, "r2") == {"Ready"}, LOSS_SECONDS)
        assert not (space.ledger() or {})["status"].get("away")
        space.all_running("web", 3, RETURN_SECONDS)
        eventually(lambda: copies(pool, space) == names_of(space.pods()), RETURN_SECONDS)
    finally:
        pool.system.vcsync("tenant", "set", "acme", "--fail-back", "")


def test_a_fence_ends_stateful_pods_and_nothing_of_them_is_left_when_it_is_lifted(
    pool: Pool, space: Space
) -> None:
    spread(space)
    db = on(space.pods("db"), "r2")
    [name] = db
    ghost = uids(space.all_there("r2", "pods"))
    assert "super cluster r2 is not lost" in refusal(pool, "super", "fence", "r2")
    pool.supers["r2"].kill("kube-apiserver")
    try:
        eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
        eventually(lambda: terminating(space, "db") == db, LOSS_SECONDS)
        story = pool.system.vcsync("explain", "pod", f"acme/{space.name}/{name}")
        assert "or when 'vcsync super fence r2' confirms that nothing runs there" in story

        pool.system.vcsync("super", "fence", "r2")
        replaced = space.all_running("db", 3, RETURN_SECONDS)
        assert {super_of(each) for each in replaced} == {"r1", "r3"}
        assert space.events(name, FENCED)
        eventually(lambda: not terminating(space, "web"))
        assert "stays fenced" in refusal(pool, "super", "unfence", "r2")
    finally:
        pool.supers["r2"].start("kube-apiserver")
        eventually(lambda: lifted(pool, "r2"), RETURN_SECONDS)

    # The command removes them before the syncer starts.
    assert not ghost & uids(space.all_there("r2", "pods"))
    eventually(lambda: health(pool, "r2") == {"Ready"}, LOSS_SECONDS)
    eventually(lambda: space.stands_on() == {"r1", "r3"}, RETURN_SECONDS)
    eventually(lambda: copies(pool, space) == names_of(space.pods()))
    assert uids(space.pods("db")) == uids(replaced)


def test_a_name_that_is_deleted_before_its_pod_has_a_node_is_free_after_a_fence(
    pool: Pool, space: Space
) -> None:
    """The copy may have started there. The tenant's garbage collector marks the Pod as failed meanwhile."""
    pool.supers["r2"].pause("kube-scheduler")
    try:
        space.apply(pod("solo", on="r2"))
        eventually(lambda: space.there("r2", "pods", "solo"))
        pool.supers["r2"].kill("kube-apiserver")
        try:
            eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
            space.kubectl("delete", "pod", "solo", "--grace-period=0", "--force", "--wait=false")
            eventually(lambda: phase(space.get("pods", "solo")) == "Failed", LOSS_SECONDS)
            told = eventually(lambda: space.events("solo", "FailedScheduling"))
            assert (
                "the Pod keeps its name until r2 answers again or its operator fences it"
                in told[-1]["message"]
            )
            story = pool.system.vcsync("explain", "pod", f"acme/{space.name}/solo")
            assert "or when 'vcsync super fence r2' confirms that nothing runs there" in story
            assert space.get("pods", "solo") is not None

            pool.system.vcsync("super", "fence", "r2")
            eventually(lambda: space.get("pods", "solo") is None, RETURN_SECONDS)
            space.apply(pod("solo"))
            assert super_of(space.running("solo", RETURN_SECONDS)) in ("r1", "r3")
        finally:
            pool.supers["r2"].start("kube-apiserver")
            eventually(lambda: lifted(pool, "r2"), RETURN_SECONDS)
    finally:
        pool.supers["r2"].resume("kube-scheduler")
    eventually(lambda: copies(pool, space) == names_of(space.pods()), RETURN_SECONDS)


def refusal(pool: Pool, *command: str) -> str:
    """Run a command that is refused, and return its message."""
    with pytest.raises(SystemFailed) as caught:
        pool.system.vcsync(*command)
    return str(caught.value)


def claim_on(super_id: str) -> Json:
    """Return a claim that is assigned to a super cluster, as with its first Pod."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "labels": {names.SUPER_CLUSTER: super_id}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def test_a_slice_with_a_claim_stays_and_pods_without_claims_leave(pool: Pool, space: Space) -> None:
    pool.system.vcsync("tenant", "set", "acme", "--failover", "MoveStateless=5s")
    spread(space)
    space.apply(claim_on("r2"))
    after, [lost] = foretold(space, "--lose", "r2")
    assert (lost["leave"], [each["slices"] for each in lost["stay"]]) == (0, [1])
    pool.supers["r2"].kill("kube-apiserver")
    try:
        eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
        eventually(lambda: not on(space.pods("web"), "r2"), LOSS_SECONDS)
        assert {super_of(each) for each in space.all_running("web", 3)} == {"r1", "r3"}
        assert space.placements() == after == {"r1": 1, "r2": 1, "r3": 1}
    finally:
        pool.supers["r2"].start("kube-apiserver")
    eventually(lambda: health(pool, "r2") == {"Ready"}, LOSS_SECONDS)
    eventually(lambda: copies(pool, space) == names_of(space.pods()), RETURN_SECONDS)


def test_nothing_moves_when_two_of_three_super_clusters_vanish_at_once(pool: Pool, space: Space) -> None:
    spread(space)
    before = {each["metadata"]["uid"]: super_of(each) for each in space.pods()}
    placements = space.placements()
    silent = ("r1", "r2")
    after, lost = foretold(space, "--lose", "r1", "--lose", "r2")
    assert (after, [each["leave"] for each in lost]) == (placements, [0, 0])
    for super_id in silent:
        pool.supers[super_id].kill("kube-apiserver")
    try:
        eventually(
            lambda: all(HELD in seen(pool, each)[one]["reason"] for each in SCHEDULERS for one in silent),
            LOSS_SECONDS,
        )
        assert space.placements() == placements
        assert {each["metadata"]["uid"]: super_of(each) for each in space.pods()} == before
        # When one of them is back, the other is lost by itself. It may need longer than this test's short duration.
        pool.system.vcsync("tenant", "set", "acme", "--failover", "Stay")
    finally:
        for super_id in silent:
            pool.supers[super_id].start("kube-apiserver")
    eventually(lambda: all(health(pool, super_id) == {"Ready"} for super_id in silent), LOSS_SECONDS * 2)
    assert {each["metadata"]["uid"]: super_of(each) for each in space.pods()} == before
    assert all(is_running(each) or super_of(each) in silent for each in space.pods())


def starting(space: Space, app: str, super_id: str) -> list[Json]:
    """Return the Pods of an app that have a copy on a super cluster, and no node in the tenant."""
    return [
        each
        for each in space.pods(app)
        if each["metadata"].get("labels", {}).get(names.SUPER_CLUSTER) == super_id
        and "nodeName" not in each["spec"]
    ]


def test_a_pod_that_may_have_started_is_replaced_at_once_only_if_the_policy_says_so(
    pool: Pool, space: Space
) -> None:
    pool.system.vcsync("tenant", "set", "acme", "--failover", "Stay")
    lost = pool.supers["r2"]
    lost.pause("kube-scheduler")
    try:
        space.apply(deployment("web", 3), stateful_set("db", 3))
        [web] = eventually(lambda: starting(space, "web", "r2"))
        [db] = eventually(lambda: starting(space, "db", "r2"))
        eventually(lambda: len(space.all_there("r2", "pods")) == 2)
        lost.kill("kube-apiserver")
        try:
            eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
            assert [web["metadata"]["uid"]] == [*uids(starting(space, "web", "r2"))]
            pool.system.vcsync("tenant", "set", "acme", "--pod-replacement-policy", "TerminationStarted")
            replaced = space.all_running("web", 3)
            assert {super_of(each) for each in replaced} == {"r1", "r3"}
            assert web["metadata"]["uid"] not in uids(replaced)
            assert "it may have started there" in space.events(web["metadata"]["name"], EVICTED)[0]["message"]
            # Its namesake could run elsewhere beside it.
            assert [db["metadata"]["uid"]] == [*uids(starting(space, "db", "r2"))]
            assert set(space.placements()) == {"r1", "r2", "r3"}
        finally:
            lost.start("kube-apiserver")
    finally:
        lost.resume("kube-scheduler")
        pool.system.vcsync("tenant", "set", "acme", "--pod-replacement-policy", "")
    assert db["metadata"]["uid"] in uids(space.all_running("db", 3, RETURN_SECONDS))
    eventually(lambda: copies(pool, space) == names_of(space.pods()), RETURN_SECONDS)
