"""Super clusters that flap, are slow or are cut off, and schedulers that are: what moves, what waits, what is left at the end."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from hack.audit import audit, read_world, table
from hack.system import System
from hack.testbed import TestBed
from hack.testbed.faults import Slow, Stall
from hack.testbed.provisioner import storage_class
from tests.real.failure_kit import (
    AT_ONCE,
    LOSS_SECONDS,
    PATIENCE,
    RETURN_SECONDS,
    SCHEDULERS,
    THREE_SLICES,
    copies,
    forget_failures,
    health,
    lifted,
    listed,
    names_of,
    on,
    seen,
    space_on_all,
    spread,
    stateful_set,
    terminating,
    told_to_leave,
    uids,
)
from tests.real.lines_kit import Line, Lines
from tests.real.pool.pool_kit import Json, Pool, Space, condition, deployment, pod, quota, read, super_of
from tests.real.pool.volume_kit import CLAIMS, claim, published, shown
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.podscheduler.evictions import FENCED
from vcsync.tenancy.health import HELD

QUIET = re.compile(r"counts as ready after (\d+)s without failure \(failures so far: (\d+)\)")
FLAPS = 12
"""Number of failures after which a test gives up that waits for a long quiet time."""
HEARTBEATS = 4
"""Number of heartbeats of a super cluster, 20 seconds apart, that take longer than it takes to be lost, and to move."""
FOREVER = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}]
"""Tolerations of Pods that the tenant's own controllers leave on a node of which nobody hears."""

pytestmark = pytest.mark.timeout(900)


class Cables:
    """The connections of the system.

    Attributes:
        to: super cluster -> the connection of all roles to it.
        meta: the connection of both schedulers to the meta cluster.
    """

    def __init__(self, to: dict[str, Line], meta: Line) -> None:
        self.to = to
        self.meta = meta


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Three super clusters, and a tenant."""
    directory = tmp_path_factory.mktemp("glitches")
    with TestBed(supers=3, nodes=1, tenants=("acme",), directory=directory) as bed:
        yield bed


@pytest.fixture(scope="module")
def cables(bed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cables]:
    """Connections that can be cut."""
    with Lines(tmp_path_factory.mktemp("lines")) as lines:
        yield Cables({name: lines.lay(each) for name, each in bed.supers.items()}, lines.lay(bed.meta))


@pytest.fixture(scope="module")
def system(bed: TestBed, cables: Cables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The roles, with little patience, whose connections can be cut."""
    directory = tmp_path_factory.mktemp("system")
    kubeconfigs = {name: line.kubeconfig for name, line in cables.to.items()}
    system = System(bed, directory, kubeconfigs=kubeconfigs)
    system.options |= dict.fromkeys(system.role_names, PATIENCE)
    try:
        system.install()
        for role in SCHEDULERS:
            led = rerouted(system.role_directory / f"{role}.kubeconfig", bed.meta.url, cables.meta.url)
            system.options[role] = (*PATIENCE, "--meta", str(led))
        system.start()
        yield system
    finally:
        system.stop()


def rerouted(kubeconfig: Path, server: str, by: str) -> Path:
    """Return a copy of a kubeconfig that leads to a server by another way."""
    text = kubeconfig.read_text()
    assert server in text
    made = kubeconfig.with_name(f"rerouted-{kubeconfig.name}")
    made.touch(mode=0o600)
    made.write_text(text.replace(server, by))
    return made


@pytest.fixture
def pool(bed: TestBed, system: System) -> Pool:
    """The pool, of whose failures nothing is remembered."""
    forget_failures(bed, system)
    return Pool(bed, system)


@contextmanager
def failing_over(pool: Pool, policy: str) -> Iterator[None]:
    """Set the tenant's policy for lost super clusters."""
    pool.system.vcsync("tenant", "set", "acme", "--failover", policy)
    try:
        yield
    finally:
        pool.system.vcsync("tenant", "set", "acme", "--failover", "", "--fail-back", "")


@pytest.fixture
def space(pool: Pool) -> Iterator[Space]:
    """A namespace with a slice on each super cluster, which leaves lost ones at once."""
    with failing_over(pool, AT_ONCE), space_on_all(pool) as space:
        yield space


def stands(space: Space) -> dict[str, tuple[str, str, Json]]:
    """Return where each Pod is, which one it is, and since when it is or is not ready."""
    return {
        each["metadata"]["name"]: (super_of(each), each["metadata"]["uid"], condition(each, "Ready"))
        for each in space.pods()
    }


def doubled(pool: Pool, space: Space) -> list[str]:
    """Return the names of Pods that have several copies."""
    found = copies(pool, space)
    return sorted({name for name in found if found.count(name) > 1})


def settled(pool: Pool, space: Space) -> None:
    """Wait until all is well again: every super cluster is ready, each Pod has one copy, and the audit finds nothing."""
    eventually(lambda: all(health(pool, each) == {"Ready"} for each in pool.supers), RETURN_SECONDS)
    eventually(lambda: copies(pool, space) == names_of(space.pods()), RETURN_SECONDS)

    def clean() -> bool:
        world = read_world(
            pool.bed.meta.kubeconfig,
            {name: cluster.kubeconfig for name, cluster in pool.supers.items()},
            {"acme": pool.cluster("acme").kubeconfig},
        )
        findings = audit(world)
        assert not findings, table(findings)
        return True

    eventually(clean, RETURN_SECONDS)


def quiet_time(pool: Pool, super_id: str) -> tuple[int, int] | None:
    """Return a super cluster's failures and quiet time in seconds, as the namespace scheduler sees it; None if it is ready."""
    found = seen(pool, "nsscheduler")[super_id]
    assert found["health"] in ("Ready", "Recovering"), found
    told = QUIET.search(found["reason"])
    return (int(told[2]), int(told[1])) if told else None


def fail_shortly(pool: Pool, line: Line, super_id: str) -> tuple[int, int] | None:
    """Let a super cluster that answers fail until both schedulers know, and answer again. Return its `quiet_time` then."""
    eventually(lambda: health(pool, super_id) <= {"Ready", "Recovering"}, RETURN_SECONDS)
    with line.down():
        eventually(lambda: health(pool, super_id) == {"Suspect"})
    found: list[tuple[int, int] | None] = []

    def answers() -> bool:
        found[:] = [quiet_time(pool, super_id)]
        return True

    eventually(answers)
    return found[0]


def test_each_failure_doubles_the_quiet_time_and_glitches_move_nothing(
    pool: Pool, space: Space, cables: Cables
) -> None:
    spread(space)
    before, placements = stands(space), space.placements()
    quiet: dict[int, int] = {}
    for _ in range(FLAPS):
        told = fail_shortly(pool, cables.to["r2"], "r2")
        quiet |= [told] if told else []
        if told and told[1] >= 30 and no_new_slices(pool, "r2", told[0]):
            break
    else:
        raise AssertionError(f"no failure was followed by a quiet time in which slices were placed: {quiet}")
    counted = sorted(quiet)
    assert len(counted) > 1
    for earlier, later in pairwise(counted):
        assert quiet[later] >= quiet[earlier] * 2 ** (later - earlier)

    space.apply(pod("after", on="r2"))
    space.running("after", RETURN_SECONDS)
    settled(pool, space)
    after = stands(space)
    assert {name: after[name] for name in before} == before
    assert space.placements() == placements


def no_new_slices(pool: Pool, super_id: str, failures: int) -> bool:
    """Return whether a namespace was placed during a quiet time; its slices must be on other super clusters."""
    fresh = pool.new_space()
    fresh.create()
    try:
        fresh.apply(quota(THREE_SLICES))
        placed = eventually(fresh.placements)
        told = quiet_time(pool, super_id)
        if told is None or told[0] != failures:  # a slow machine
            return False
        assert super_id not in placed
        return True
    finally:
        fresh.delete()


def test_what_left_a_super_cluster_that_returns_and_fails_again_is_there_once(
    pool: Pool, space: Space, cables: Cables
) -> None:
    spread(space)
    web, db = on(space.pods("web"), "r2"), on(space.pods("db"), "r2")
    with cables.to["r2"].down():
        eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
        eventually(lambda: not on(space.pods(), "r2"), LOSS_SECONDS)
        assert not web & set(names_of(space.all_running("web", 3)))
        # What is cut off still runs.
        assert web | db <= set(names_of(space.all_there("r2", "pods")))
        assert terminating(space, "db") == db
        assert not doubled(pool, space)
    fail_shortly(pool, cables.to["r2"], "r2")
    fail_shortly(pool, cables.to["r2"], "r2")

    moved = space.all_running("db", 3, RETURN_SECONDS)
    assert {super_of(each) for each in moved} == {"r1", "r3"}
    settled(pool, space)
    assert set(space.placements()) == {"r1", "r3"}
    assert space.stands_on() == {"r1", "r3"}


def test_a_slow_super_cluster_keeps_all_and_delays_no_other(pool: Pool, cables: Cables) -> None:
    with failing_over(pool, "MoveAfter=10m"), space_on_all(pool) as space:
        spread(space)
        before, placements = stands(space), space.placements()
        with cables.to["r3"].suffering(Slow(latency=0.5)):
            space.apply(*(pod(f"slow-{each}", on=each) for each in pool.supers))
            for each in pool.supers:
                space.running(f"slow-{each}", RETURN_SECONDS)
            assert not health(pool, "r3") & {"Lost"}
        with cables.to["r3"].suffering(Stall()):
            space.apply(*(pod(f"held-{each}", on=each) for each in ("r3", "r1", "r2")))
            for each in ("r1", "r2"):
                space.running(f"held-{each}")
            with pool.space_unplaced() as fresh:
                eventually(fresh.placements)
            assert space.there("r3", "pods", "held-r3") is None
        space.running("held-r3", RETURN_SECONDS)
        settled(pool, space)
        after = stands(space)
        assert {name: after[name] for name in before} == before
        assert space.placements() == placements


def test_a_frozen_api_server_that_continues_soon_loses_nothing(pool: Pool, space: Space) -> None:
    spread(space)
    before, placements = stands(space), space.placements()
    for number in range(2):
        pool.supers["r3"].pause("kube-apiserver")
        try:
            space.apply(pod(f"meanwhile-{number}", on="r1"))
            space.running(f"meanwhile-{number}")
        finally:
            pool.supers["r3"].resume("kube-apiserver")
        space.apply(pod(f"then-{number}", on="r3"))
        space.running(f"then-{number}", RETURN_SECONDS)
    settled(pool, space)
    after = stands(space)
    assert {name: after[name][:2] for name in before} == {name: before[name][:2] for name in before}
    assert space.placements() == placements


def test_two_of_three_that_vanish_at_once_keep_everything_and_people_are_told_why(
    pool: Pool, space: Space, cables: Cables
) -> None:
    spread(space)
    before, placements = stands(space), space.placements()
    silent = ("r1", "r2")
    with ExitStack() as stack:
        for super_id in silent:
            stack.enter_context(cables.to[super_id].down())
        eventually(
            lambda: all(HELD in seen(pool, each)[one]["reason"] for each in SCHEDULERS for one in silent),
            LOSS_SECONDS,
        )
        for super_id in silent:
            shown_ = listed(pool, super_id)
            assert "its API server has not answered for " in shown_["reason"]
        space.apply(pod("waits", on="r1"), pod("goes-on", on="r3"))
        space.running("goes-on")
        story = pool.system.vcsync("explain", "pod", f"acme/{space.name}/waits")
        assert "its API server has not answered for " in story
        assert stands(space).items() >= before.items()
        assert space.placements() == placements
        # Those that return last are lost as soon as the others are back. They may need longer than this policy's five seconds.
        pool.system.vcsync("tenant", "set", "acme", "--failover", "Stay")
    space.running("waits", RETURN_SECONDS)
    settled(pool, space)
    after = stands(space)
    assert {name: after[name][:2] for name in before} == {name: before[name][:2] for name in before}
    space.all_running("web", 3, RETURN_SECONDS)
    space.all_running("db", 3, RETURN_SECONDS)
    assert space.placements() == placements


def test_a_super_cluster_without_ready_nodes_is_never_lost_and_keeps_everything(
    pool: Pool, space: Space
) -> None:
    space.apply(deployment("web", 3, tolerations=FOREVER))
    there = space.all_running("web", 3)
    assert {super_of(each) for each in there} == set(pool.supers)
    before, placements = stands(space), space.placements()
    pool.supers["r2"].kill("kwok")
    try:
        eventually(lambda: health(pool, "r2") == {"Suspect"}, LOSS_SECONDS)
        assert "node" in listed(pool, "r2")["reason"]
        space.apply(deployment("after", 2))
        assert {super_of(each) for each in space.all_running("after", 2)} <= {"r1", "r3"}
        outlast(pool)
        assert health(pool, "r2") == {"Suspect"}
        # Its syncer still says how the Pods are, so nobody calls them lost.
        [name] = on(there, "r2")
        assert condition(space.get("pods", name), "Ready").get("reason") != names.SUPER_CLUSTER_LOST
        assert {key: each[:2] for key, each in stands(space).items() if key in before} == {
            key: each[:2] for key, each in before.items()
        }
        assert space.placements() == placements
    finally:
        pool.supers["r2"].start("kwok")
    settled(pool, space)
    assert uids(space.pods("web")) == uids(there)
    assert space.placements() == placements


@contextmanager
def frozen(pool: Pool, _: Cables) -> Iterator[None]:
    """Stop both schedulers' processes until the block ends."""
    pids = [pool.system.pid(role) for role in SCHEDULERS]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def cut_off(_: Pool, cables: Cables) -> AbstractContextManager[None]:
    """Cut both schedulers off from the meta cluster until the block ends."""
    return cables.meta.down()


@pytest.mark.parametrize("absent", [cut_off, frozen])
def test_nothing_moves_when_the_schedulers_are_away_for_longer_than_their_patience(
    pool: Pool, space: Space, cables: Cables, absent: Callable[[Pool, Cables], AbstractContextManager[None]]
) -> None:
    spread(space)
    before, placements = stands(space), space.placements()
    with absent(pool, cables):
        outlast(pool)
        space.apply(deployment("meanwhile", 3))

    eventually(lambda: lead(pool), RETURN_SECONDS)
    space.all_running("meanwhile", 3, RETURN_SECONDS)
    with pool.space_unplaced() as fresh:
        eventually(fresh.placements)
    settled(pool, space)
    # Conditions that were never changed show that no Pod was marked.
    after = stands(space)
    assert {name: after[name] for name in before} == before
    assert space.placements() == placements


def outlast(pool: Pool) -> None:
    """Wait for more heartbeats of each super cluster than fit into the time in which one is lost and left."""
    heard: dict[str, set[str]] = {super_id: set() for super_id in pool.supers}

    def beaten() -> bool:
        for super_id, times in heard.items():
            times.add(heartbeat(pool, super_id))
        return all(len(times) > HEARTBEATS for times in heard.values())

    eventually(beaten, LOSS_SECONDS * 2)


def heartbeat(pool: Pool, super_id: str) -> str:
    """Return the time of a super cluster's last heartbeat."""
    found = read(pool.bed.meta, f"/apis/{names.API_VERSION}/superclusters/{super_id}")
    return str((found or {})["status"]["heartbeatTime"])


def lead(pool: Pool) -> bool:
    """Return whether both schedulers lead; restart those that have ended, as a Deployment would."""
    pool.system.revive()
    try:
        return all(seen(pool, role) for role in SCHEDULERS)
    except OSError:  # it does not listen yet
        return False


def stateful_spread(space: Space) -> None:
    """Create apps with and without claims, with a Pod on each super cluster; again if one did not take Pods for a moment."""
    db = stateful_set("db", 3)
    db["spec"]["volumeClaimTemplates"] = [claim("data")]
    db["spec"]["template"]["spec"] |= {"tolerations": FOREVER}
    db["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]

    def made() -> bool:
        space.apply(deployment("web", 3), db)
        found = [{super_of(each) for each in space.all_running(app, 3)} for app in ("web", "db")]
        if all(each == set(space.pool.supers) for each in found):
            return True
        space.kubectl("delete", "deployment/web", "statefulset/db")
        space.kubectl("delete", CLAIMS, "--all")
        eventually(lambda: not space.all("pods") and not space.all(CLAIMS))
        return False

    eventually(made, RETURN_SECONDS)


@pytest.fixture
def shop(pool: Pool) -> Iterator[Space]:
    """A namespace with a slice on each super cluster, all of which publish class `fast`."""
    with (
        published(pool, {each: [storage_class("fast")] for each in pool.supers}),
        space_on_all(pool) as space,
    ):
        eventually(lambda: shown(space, "fast") == "r1,r2,r3")
        try:
            yield space
        finally:
            eventually(lambda: lifted(pool, "r2"), RETURN_SECONDS)


def volumes(space: Space) -> dict[str, str]:
    """Return claim -> its volume."""
    return {each["metadata"]["name"]: each["spec"].get("volumeName", "") for each in space.all(CLAIMS)}


def test_a_pod_with_a_claim_stays_by_move_stateless_and_its_successor_waits_for_the_claim(
    pool: Pool, shop: Space, cables: Cables
) -> None:
    with failing_over(pool, "MoveStateless=5s"):
        stateful_spread(shop)
        data = volumes(shop)
        [name] = on(shop.pods("db"), "r2")
        old, ghost = uid(shop.get("pods", name)), uid(shop.there("r2", "pods", name))
        with cables.to["r2"].down():
            eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
            eventually(lambda: not on(shop.pods("web"), "r2"), LOSS_SECONDS)
            shop.all_running("web", 3)
            pool.system.vcsync("super", "fence", "r2")
            shop.kubectl("delete", "pod", name, "--wait=false")
            # The fence ends it, and its successor has the same claim.
            eventually(lambda: shop.events(name, FENCED))
            eventually(lambda: successor(shop, name, old))
            story = eventually(lambda: waits_for_claim(pool, shop, name))
            assert "r2" in story
            assert uid(shop.there("r2", "pods", name)) == ghost
            assert not doubled(pool, shop)
            assert shop.placements() == {"r1": 1, "r2": 1, "r3": 1}
        eventually(lambda: lifted(pool, "r2"), RETURN_SECONDS)
        assert ghost not in uids(shop.all_there("r2", "pods"))
        found = shop.all_running("db", 3, RETURN_SECONDS)
        assert on(found, "r2") == {name}
        assert volumes(shop) == data
        settled(pool, shop)


def test_a_pod_with_a_claim_is_evicted_by_move_after_and_finds_its_data_when_slices_are_back(
    pool: Pool, shop: Space, cables: Cables
) -> None:
    with failing_over(pool, AT_ONCE):
        pool.system.vcsync("tenant", "set", "acme", "--fail-back", "WithinBudget")
        stateful_spread(shop)
        data = volumes(shop)
        [name] = on(shop.pods("db"), "r2")
        old, ghost = uid(shop.get("pods", name)), uid(shop.there("r2", "pods", name))
        with cables.to["r2"].down():
            eventually(lambda: terminating(shop, "db") == {name}, LOSS_SECONDS)
            eventually(lambda: told_to_leave(shop, name))
            eventually(lambda: not on(shop.pods("web"), "r2"), LOSS_SECONDS)
            shop.all_running("web", 3)
            # Its place elsewhere is free, and it still waits for somebody who knows that it has ended.
            assert terminating(shop, "db") == {name}
            assert len(shop.pods("db")) == 2
            pool.system.vcsync("super", "fence", "r2")
            eventually(lambda: successor(shop, name, old))
            eventually(lambda: waits_for_claim(pool, shop, name))
            assert uid(shop.there("r2", "pods", name)) == ghost
            assert not doubled(pool, shop)
        eventually(lambda: lifted(pool, "r2"), RETURN_SECONDS)
        assert ghost not in uids(shop.all_there("r2", "pods"))
        eventually(lambda: shop.placements() == {"r1": 1, "r2": 1, "r3": 1}, RETURN_SECONDS)
        found = shop.all_running("db", 3, RETURN_SECONDS)
        assert on(found, "r2") == {name}
        assert volumes(shop) == data
        settled(pool, shop)


def uid(found: Json | None) -> str:
    """Return an object's UID. It must exist."""
    assert found is not None
    return str(found["metadata"]["uid"])


def successor(space: Space, name: str, old: str) -> Json | None:
    """Return the Pod that has replaced one."""
    found = space.get("pods", name)
    return found if found is not None and found["metadata"]["uid"] != old else None


def waits_for_claim(pool: Pool, space: Space, name: str) -> str:
    """Return what is told about a Pod that has no super cluster because of its claim; empty if it is not told yet."""
    found = condition(space.get("pods", name), "PodScheduled")
    text = str(found.get("message", "")) if found.get("status") == "False" else ""
    story = pool.system.vcsync("explain", "pod", f"acme/{space.name}/{name}")
    return story if f"data-{name}" in text else ""
