"""A Pod whose slices move before its tenant knows its node has one copy at any time: not two of one UID, nor of one name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from pool_kit import Json, Pool, Space, annotation, is_running, super_of

from tests.real.failure_kit import stateful_set
from tests.real.waiting import eventually
from vcsync.api.names import COPY_FINALIZER, REFUSAL_PREFIX, UID


class Copies:
    """Watches whether a Pod of the space has copies in r1 and r2 at the same moment, by UID or by name."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._end = Event()
        self._thread = Thread(target=self._watch)
        self.looks = 0
        self.doubled: set[str] = set()

    def _watch(self) -> None:
        while not self._end.is_set():
            # r2 is read first: a copy that is in r1 afterwards has been there all the time, since Pods move to r2 only.
            second = self._marks("r2")
            self.doubled |= second & self._marks("r1")
            self.looks += 1
            self._end.wait(0.02)

    def _marks(self, super_id: str) -> set[str]:
        there = self._space.all_there(super_id, "pods")
        return {str(annotation(each, UID)) for each in there} | {each["metadata"]["name"] for each in there}

    @contextmanager
    def watching(self) -> Iterator[Copies]:
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join()


@contextmanager
def stopped(pool: Pool, role: str) -> Iterator[None]:
    """Stop a role's process until the block ends."""
    process = pool.system.pid(role)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def move(space: Space) -> None:
    """Move the slices to r2."""
    space.pin()
    space.pin(r2=2)


def on(space: Space, super_id: str) -> list[Json]:
    return [each for each in space.pods("web") if super_of(each) == super_id and is_running(each)]


@pytest.mark.timeout(300)
def test_a_pod_that_runs_before_its_tenant_knows_stays_until_its_syncer_has_said_so(pool: Pool) -> None:
    scheduler = pool.supers["r1"]
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        scheduler.pause("kube-scheduler")
        try:
            space.apply(stateful_set("web", 1))
            eventually(lambda: space.there("r1", "pods", "web-0"))
            with Copies(space).watching() as copies:
                with stopped(pool, "syncer-r1"):
                    scheduler.resume("kube-scheduler")
                    eventually(lambda: is_running(space.there("r1", "pods", "web-0")))
                    move(space)
                    eventually(lambda: space.placements() == {"r2": 2})
                    marked = REFUSAL_PREFIX + "r1"
                    eventually(lambda: "withdrawn" in (annotation(space.get("pods", "web-0"), marked) or ""))
                    time.sleep(3)
                    assert space.there("r2", "pods", "web-0") is None
                    [event] = space.events("web-0", "FailedScheduling")
                    assert (
                        "it is placed again once r1 has confirmed that it does not run there"
                        in event["message"]
                    )
                eventually(lambda: on(space, "r2"), 120)
            assert copies.looks
            assert copies.doubled == set()
        finally:
            scheduler.resume("kube-scheduler")


@pytest.mark.timeout(300)
def test_no_pod_of_a_new_stateful_set_runs_twice_when_its_slices_move_in_the_same_second(pool: Pool) -> None:
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        made = stateful_set("web", 8)
        made["spec"]["podManagementPolicy"] = "Parallel"
        with Copies(space).watching() as copies:
            space.apply(made)
            move(space)
            eventually(lambda: len(on(space, "r2")) == 8, 150)
        assert copies.looks
        assert copies.doubled == set()


@pytest.mark.timeout(300)
def test_the_name_of_a_pod_that_is_deleted_while_it_starts_is_free_when_its_copy_has_ended(
    pool: Pool,
) -> None:
    """A StatefulSet makes a Pod of the same name at once, and the slices have moved meanwhile."""
    with pool.space() as space:
        space.pin(r1=2)
        eventually(lambda: space.placements() == {"r1": 2})
        pool.supers["r1"].pause("kube-scheduler")
        try:
            space.apply(stateful_set("web", 1))
            eventually(lambda: space.there("r1", "pods", "web-0"))
            first = (space.get("pods", "web-0") or {})["metadata"]
            assert first["finalizers"] == [COPY_FINALIZER]
            with Copies(space).watching() as copies:
                with stopped(pool, "syncer-r1"):
                    pool.supers["r1"].resume("kube-scheduler")
                    eventually(lambda: is_running(space.there("r1", "pods", "web-0")))
                    move(space)
                    eventually(lambda: space.placements() == {"r2": 2})
                    space.kubectl("delete", "pod", "web-0", "--grace-period=0", "--force", "--wait=false")
                    time.sleep(5)
                    kept = (space.get("pods", "web-0") or {})["metadata"]
                    assert (kept["uid"], "deletionTimestamp" in kept) == (first["uid"], True)
                    assert space.there("r2", "pods", "web-0") is None
                [second] = eventually(lambda: on(space, "r2"), 120)
            assert second["metadata"]["uid"] != first["uid"]
            assert "finalizers" not in second["metadata"], "a node keeps it now"
            assert copies.looks
            assert copies.doubled == set()
        finally:
            pool.supers["r1"].resume("kube-scheduler")
