"""Leader election over a Lease that behaves as the API server's."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from vcsync.kube import envelope
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound, Status, Unreachable
from vcsync.kube.lease import LeaderElector, LeaseSpec, Watchman
from vcsync.kube.patches import merge_patch

TIMES = {"lease_seconds": 0.3, "renew_seconds": 0.2, "retry_seconds": 0.02}


class Store:
    """One Lease with optimistic concurrency; stands in for a client."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken = False
        self.writes = 0

    @property
    def holder(self) -> str | None:
        return None if self.lease is None else self.lease["spec"].get("holderIdentity")

    def _checked(self) -> dict[str, Any]:
        if self.broken:
            raise Unreachable("away")
        if self.lease is None:
            raise NotFound(Status(code=404))
        return self.lease

    def _envelope(self) -> Envelope:
        return envelope.parse(envelope.encode(self.lease))

    async def get(self, *_: object) -> Envelope:
        self._checked()
        return self._envelope()

    async def create(self, _: object, body: dict[str, Any], namespace: str) -> Envelope:
        if self.lease is not None:
            raise AlreadyExists(Status(code=409))
        self.lease = body
        return self._written()

    async def patch(self, _: object, name: str, patch: dict[str, Any], namespace: str) -> Envelope:
        if patch["metadata"]["resourceVersion"] != self._checked()["metadata"]["resourceVersion"]:
            raise Conflict(Status(code=409))
        self.lease = merge_patch(self.lease, patch)
        return self._written()

    def _written(self) -> Envelope:
        assert self.lease is not None
        self.version += 1
        self.writes += 1
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return self._envelope()


def elector(store: Store, identity: str) -> LeaderElector:
    return LeaderElector(store, "l", "n", identity, **TIMES)  # type: ignore[arg-type]


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


class Leader:
    """Leads until stopped, and notes who leads at the same time."""

    leading: set[str]

    def __init__(self, store: Store, identity: str, leading: set[str]) -> None:
        self.elector = elector(store, identity)
        self.identity = identity
        self.leading = leading
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self) -> None:
        self.leading.add(self.identity)
        assert len(self.leading) == 1
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.discard(self.identity)

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def test_one_leads_and_another_takes_over_at_once_when_it_stops() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    second = Leader(store, "second", leading)
    await asyncio.sleep(0.4)
    assert leading == {"first"}
    assert store.writes > 5
    await first.stop()
    assert store.holder is None
    await until(lambda: leading == {"second"})
    assert store.lease is not None
    assert store.lease["spec"]["leaseTransitions"] == 1
    await second.stop()


async def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    store.broken = True
    await until(lambda: not leading)
    assert not first.elector.is_leader
    store.broken = False
    await until(lambda: leading == {"first"})
    await first.stop()


async def test_a_dead_holder_is_waited_for_as_long_as_its_lease_lasts() -> None:
    store, leading = Store(), set[str]()
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2099-01-01T00:00:00.000000Z"}
    store.lease = {"metadata": {"name": "l", "resourceVersion": "0"}, "spec": dead}
    next_one = Leader(store, "next", leading)
    await asyncio.sleep(0.5)
    assert not leading
    await until(lambda: leading == {"next"})
    await next_one.stop()


async def test_whoever_lost_the_lease_to_another_stops() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    assert store.lease is not None
    store.lease = merge_patch(store.lease, {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}})
    store._written()
    await until(lambda: not leading)
    assert store.holder == "thief"
    await first.stop()
    assert store.holder == "thief"


async def test_a_renewal_whose_answer_was_lost_does_not_keep_the_lease_from_being_given_back() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    store._written()
    await first.stop()
    assert store.holder is None


async def test_the_work_that_ends_gives_the_lease_back_and_its_error_on() -> None:
    store = Store()

    async def fail() -> None:
        raise KeyError("work")

    with pytest.raises(KeyError):
        await elector(store, "me").run(fail)
    assert store.holder is None


def test_a_holder_lives_as_long_as_it_renews_whatever_its_clock_says() -> None:
    watchman = Watchman()
    old = LeaseSpec("other", 10, renew_time="1999-01-01T00:00:00Z")
    assert not watchman.expired(old, 100.0)
    assert not watchman.expired(old, 109.0)
    assert watchman.expired(old, 110.0)
    assert not watchman.expired(LeaseSpec("other", 10, renew_time="1999-01-01T00:00:01Z"), 111.0)
    assert watchman.expired(LeaseSpec(None, 10), 112.0)


def test_times_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="renew_seconds"):
        LeaderElector(Store(), "l", "n", "i", lease_seconds=5, renew_seconds=10)  # type: ignore[arg-type]
