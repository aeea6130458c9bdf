"""Super clusters that fail and return: new Pods avoid them at once, and what is there stays where it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.failure_kit import (
    LOSS_SECONDS,
    RETURN_SECONDS,
    SCHEDULERS,
    copies,
    health,
    impatient_pool,
    listed,
    names_of,
    seen,
    space_on_all,
    uids,
)
from tests.real.pool.endpoints_kit import address, behind, reached, service
from tests.real.pool.pool_kit import Json, Pool, Space, condition, deployment, pod, super_of
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.tenancy.health import HELD

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Three super clusters, and schedulers with little patience."""
    with impatient_pool(tmp_path_factory.mktemp("failure")) as pool:
        yield pool


@pytest.fixture
def space(pool: Pool) -> Iterator[Space]:
    """A namespace with a slice on each super cluster."""
    with space_on_all(pool) as space:
        yield space


def unknown(space: Space, app: str) -> set[str]:
    """Return the names of an app's Pods that say that their super cluster is lost."""
    shown = {each["metadata"]["name"]: condition(each, "Ready") for each in space.pods(app)}
    return {
        name
        for name, ready in shown.items()
        if (ready.get("status"), ready.get("reason")) == ("Unknown", names.SUPER_CLUSTER_LOST)
        and " is lost: its API server has not answered since " in ready["message"]
    }


def unplaced(space: Space, name: str) -> str:
    """Return why a Pod has no super cluster; empty if it is not reported."""
    found: dict[str, Any] = condition(space.get("pods", name), "PodScheduled")
    return str(found.get("message", "")) if found.get("status") == "False" else ""


def test_new_pods_avoid_a_super_cluster_without_api_server_and_nothing_else_moves(
    pool: Pool, space: Space
) -> None:
    space.apply(deployment("before", 3))
    before = space.all_running("before", 3)
    assert {super_of(each) for each in before} == {"r1", "r2", "r3"}
    placements = space.placements()
    bodies = {super_id: uids(space.all_there(super_id, "pods")) for super_id in pool.supers}

    pool.supers["r2"].kill("kube-apiserver")
    try:
        eventually(lambda: health(pool, "r2") <= {"Suspect", "Lost"}, LOSS_SECONDS)
        assert "its API server has not answered for " in listed(pool, "r2")["reason"]

        space.apply(deployment("after", 4), pod("there", on="r2"))
        after = space.all_running("after", 4)
        assert {super_of(each) for each in after} == {"r1", "r3"}
        reason = eventually(lambda: unplaced(space, "there"))
        assert "its API server has not answered since " in reason
        story = pool.system.vcsync("explain", "pod", f"acme/{space.name}/there")
        assert "its API server has not answered for " in story

        eventually(lambda: health(pool, "r2") == {"Lost"}, LOSS_SECONDS)
        eventually(lambda: "r2: is lost: " in unplaced(space, "there"))
        there = {each["metadata"]["name"] for each in before if super_of(each) == "r2"}
        eventually(lambda: unknown(space, "before") == there)
        assert uids(space.pods("before")) == uids(before)
        assert space.placements() == placements
    finally:
        pool.supers["r2"].start("kube-apiserver")

    eventually(lambda: health(pool, "r2") == {"Ready"}, LOSS_SECONDS)
    # The watches of its syncer are opened again after their longest pause, a minute. Until then its caches may be old.
    space.running("there", RETURN_SECONDS)
    # Whether they are ready is not compared: the node of r2 was away, and kwok does not make its Pods ready again.
    eventually(lambda: not unknown(space, "before"), RETURN_SECONDS)
    assert uids(space.pods("before")) == uids(before)
    eventually(lambda: copies(pool, space) == names_of(space.pods()))
    for super_id, uids_before in bodies.items():
        assert uids_before <= uids(space.all_there(super_id, "pods"))


def test_no_super_cluster_is_lost_when_most_of_the_pool_falls_silent_at_once(
    pool: Pool, space: Space
) -> None:
    silent = ("r1", "r2")
    for super_id in silent:
        pool.system.kill(f"syncer-{super_id}")
    try:
        eventually(
            lambda: all(HELD in seen(pool, each)[one]["reason"] for each in SCHEDULERS for one in silent),
            LOSS_SECONDS,
        )
        eventually(lambda: all(health(pool, super_id) == {"Suspect"} for super_id in silent))
        assert set(space.placements()) == set(pool.supers)
    finally:
        pool.system.start(*(f"syncer-{super_id}" for super_id in silent))
    eventually(lambda: all(health(pool, super_id) == {"Ready"} for super_id in silent), LOSS_SECONDS * 2)


def stated(space: Space, name: str) -> str:
    """Return what the condition of a Service says, without its message."""
    found = condition(space.get("services", name), names.REACHABLE_FROM_ALL)
    return f"{found.get('status')} {found.get('reason')}"


def explained(pool: Pool, space: Space, name: str) -> dict[str, Json]:
    """Return what `vcsync explain service` says about each super cluster."""
    found = json.loads(pool.system.vcsync("explain", "service", f"acme/{space.name}/{name}", "-o", "json"))
    return {each["superCluster"]: each for each in found["superClusters"]}


def test_endpoints_of_a_lost_super_cluster_are_withdrawn_and_come_back_with_it(
    pool: Pool, space: Space
) -> None:
    # r1 is the one that states the condition as long as it is there.
    homes = {"web-1": "r1", "web-2": "r2", "web-3": "r3"}
    with pool.network():
        space.apply(service(), *(behind(name, home) for name, home in homes.items()))
        for name in homes:
            space.running(name)
        at = {name: address(space, name) for name in homes}
        eventually(lambda: reached(space, "r2") == sorted([at["web-1"], at["web-3"]]))
        eventually(lambda: reached(space, "r3") == sorted([at["web-1"], at["web-2"]]))
        eventually(lambda: stated(space, "web") == "True SameNetwork")

        pool.supers["r1"].kill("kube-apiserver")
        try:
            eventually(lambda: health(pool, "r1") == {"Lost"}, LOSS_SECONDS)
            eventually(lambda: reached(space, "r2") == [at["web-3"]], LOSS_SECONDS)
            eventually(lambda: reached(space, "r3") == [at["web-2"]])
            eventually(lambda: stated(space, "web") == f"False {names.SUPER_CLUSTER_LOST}")
            found = condition(space.get("services", "web"), names.REACHABLE_FROM_ALL)
            assert "are lost: r1. Until they return" in found["message"]
            # The command does not know the roles' patience, and calls a super cluster lost after the usual time only.
            assert explained(pool, space, "web")["r1"]["health"] in ("Suspect", "Lost")
        finally:
            pool.supers["r1"].start("kube-apiserver")

        eventually(lambda: reached(space, "r2") == sorted([at["web-1"], at["web-3"]]), RETURN_SECONDS)
        eventually(lambda: reached(space, "r3") == sorted([at["web-1"], at["web-2"]]))
        eventually(lambda: reached(space, "r1") == sorted([at["web-2"], at["web-3"]]), RETURN_SECONDS)
        eventually(lambda: stated(space, "web") == "True SameNetwork", RETURN_SECONDS)
        eventually(
            lambda: all(
                each["reaches"] == ["r1", "r2", "r3"] for each in explained(pool, space, "web").values()
            )
        )
