"""Draining a super cluster: Deployments keep their Pods, the drain can be stopped, and it names what blocks it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from pool_kit import Json, Pool, Space, deployment, is_running, pod, still_kubelets, super_of

from tests.real.waiting import eventually


class Watched:
    """The smallest number of ready Pods of an app, as its tenant's API has shown it."""

    def __init__(self, space: Space, app: str) -> None:
        self._space, self._app = space, app
        self._end = Event()
        self._thread = Thread(target=self._watch)
        self.least = 1_000

    def _watch(self) -> None:
        while not self._end.is_set():
            self.least = min(self.least, sum(map(is_running, self._space.pods(self._app))))
            self._end.wait(0.05)

    @contextmanager
    def watching(self) -> Iterator[Watched]:
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join()


@contextmanager
def ended(pool: Pool) -> Iterator[None]:
    """End the drain of r1 after the block."""
    try:
        yield
    finally:
        pool.system.vcsync("super", "undrain", "r1")
        unset = '{"spec":{"evictionSeconds":null}}'
        pool.bed.meta.kubectl("patch", "supercluster", "r1", "--type=merge", "-p", unset)


def drain_status(pool: Pool) -> Json:
    found: Json = json.loads(pool.system.vcsync("super", "drain", "r1", "--status", "-o", "json"))
    return found


def on(space: Space, super_id: str, app: str = "web") -> list[str]:
    return [each["metadata"]["name"] for each in space.pods(app) if super_of(each) == super_id]


@pytest.mark.timeout(400)
def test_a_deployment_keeps_its_pods_while_its_super_cluster_drains(pool: Pool) -> None:
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        space.apply(deployment("web", 5))
        space.all_running("web", 5)
        space.pin()
        with ended(pool), Watched(space, "web").watching() as watched:
            said = pool.system.vcsync("super", "drain", "r1", "--wait", "--timeout", "240")
            first, *_, last = said.splitlines()
            told = re.match(r"super cluster r1 drains: (\d+) namespaces?, (\d+) Pods", first)
            assert told is not None, first
            assert int(told[1]) >= 1, "namespaces of other tests may still leave"
            assert int(told[2]) >= 5
            assert "Pods a minute" in said
            assert last == "super cluster r1 is empty"
            assert len(on(space, "r2")) == 5
            space.all_running("web", 5)
        assert watched.least >= 4
        eventually(lambda: not drain_status(pool)["drain"])


@pytest.mark.timeout(400)
def test_a_drain_names_what_blocks_it_stops_and_goes_on(pool: Pool) -> None:
    """Replacements on r2 never become ready at first, so that most Pods stay on r1."""
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        space.apply(deployment("web", 4))
        space.all_running("web", 4)
        space.pin()
        with ended(pool):
            with still_kubelets(pool.supers["r2"]):
                pool.system.vcsync("super", "drain", "r1")
                blocked = eventually(lambda: _blocked(pool, space), 120)
                assert "waits for replacements elsewhere: Deployment web has 3 of 4 Pods ready" in blocked
                assert f"{space.key}/{space.name}" in pool.system.vcsync("super", "drain", "r1", "--status")
                assert len(on(space, "r1")) == 3
                said = pool.system.vcsync("super", "undrain", "r1", "--keep-cordon")
                assert "does not drain any more, and gets no new slices" in said
                eventually(lambda: "progress" not in drain_status(pool))
                assert space.placements() == {"r2": 2}, "what has left stays where it is"
            pool.system.vcsync("super", "drain", "r1", "--wait", "--timeout", "120")
            space.all_running("web", 4)
            assert on(space, "r1") == []


@pytest.mark.timeout(300)
def test_slices_that_fit_nowhere_block_a_drain_and_stay(pool: Pool) -> None:
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        space.apply(pod("web", labels={"app": "web"}))
        space.running("web")
        pool.system.vcsync("super", "cordon", "r2")
        try:
            space.pin()
            with ended(pool):
                pool.system.vcsync("super", "drain", "r1")
                blocked = eventually(lambda: _blocked(pool, space))
                assert "no other super cluster takes its slices: r2: cordoned" in blocked
                assert on(space, "r1") == ["web"]
        finally:
            pool.system.vcsync("super", "uncordon", "r2")


def _blocked(pool: Pool, space: Space) -> str:
    """Return why the drain cannot move a namespace; "" while it can."""
    found = drain_status(pool).get("progress", {}).get("blocked", [])
    return next(
        (each["reason"] for each in found if (each["tenant"], each["namespace"]) == (space.key, space.name)),
        "",
    )
