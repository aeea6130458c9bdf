"""Leader election with a Lease that behaves like that of an API server."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.kube.errors import AlreadyExists, Conflict, NotFound, Status, Unreachable
from vcsync.kube.lease import HolderMonitor, LeaderElector, LeaseSpec, LeaseValidity
from vcsync.kube.resources import LEASES, Resource
from vcsync.objects import envelope
from vcsync.objects.envelope import Envelope
from vcsync.objects.merge_patch import merge_patch

Run = Callable[[Coroutine[Any, Any, None]], None]
TIMES = {"lease_seconds": 0.3, "renew_seconds": 0.2, "retry_seconds": 0.02}


class Store:
    """A stand-in for a client, with one Lease and optimistic concurrency."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken = False
        self.holders: list[str | None] = []

    @property
    def writes(self) -> int:
        return len(self.holders)

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

    async def get(self, resource: Resource, name: str, namespace: str) -> Envelope:
        assert (resource, name, namespace) == (LEASES, "l", "n")
        self._checked()
        return self._envelope()

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str) -> Envelope:
        assert (resource, body["metadata"]["name"], namespace) == (LEASES, "l", "n")
        if self.lease is not None:
            raise AlreadyExists(Status(code=409))
        self.lease = body
        return self._written()

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any], namespace: str) -> Envelope:
        assert (resource, name, namespace) == (LEASES, "l", "n")
        if patch["metadata"]["resourceVersion"] != self._checked()["metadata"]["resourceVersion"]:
            raise Conflict(Status(code=409))
        self.lease = merge_patch(self.lease, patch)
        return self._written()

    def _written(self) -> Envelope:
        assert self.lease is not None
        self.version += 1
        self.holders.append(self.holder)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease["metadata"].setdefault("uid", "lease-uid")
        return self._envelope()


def elector(store: Store, identity: str) -> LeaderElector:
    return LeaderElector(store, "l", "n", identity, **TIMES)  # type: ignore[arg-type]


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


class Leader:
    """A process that leads until stopped, and records all current leaders."""

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


async def test_another_process_takes_over_immediately_when_the_leader_stops() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    second = Leader(store, "second", leading)
    await asyncio.sleep(0.4)
    assert leading == {"first"}
    assert store.writes > 5
    await first.stop()
    await until(lambda: leading == {"second"})
    assert store.holders[store.holders.index("second") - 1] is None, (
        "the lease was given back, not waited for"
    )
    assert store.lease is not None
    assert store.lease["spec"]["leaseTransitions"] == 1
    await second.stop()


async def test_a_leader_that_cannot_renew_stops_before_another_can_lead() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    store.broken = True
    await until(lambda: not leading)
    assert not first.elector.is_leader
    store.broken = False
    await until(lambda: leading == {"first"})
    await first.stop()


async def test_the_lease_of_a_dead_holder_must_expire() -> None:
    store, leading = Store(), set[str]()
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2099-01-01T00:00:00.000000Z"}
    store.lease = {"metadata": {"name": "l", "resourceVersion": "0"}, "spec": dead}
    next_one = Leader(store, "next", leading)
    await asyncio.sleep(0.5)
    assert not leading
    await until(lambda: leading == {"next"})
    await next_one.stop()


async def test_the_lease_of_an_ended_process_is_taken_immediately() -> None:
    store, leading = Store(), set[str]()
    held = {
        "holderIdentity": "dead",
        "leaseDurationSeconds": 1000,
        "renewTime": "2099-01-01T00:00:00.000000Z",
    }
    store.lease = {"metadata": {"name": "l", "resourceVersion": "0"}, "spec": held}

    async def lead() -> None:
        leading.add("next")

    asked: list[str] = []

    def ended(identity: str) -> bool:
        asked.append(identity)
        return len(asked) > 1

    standing = LeaderElector(store, "l", "n", "next", **TIMES, ended=ended)  # type: ignore[arg-type]
    await standing.run(lead)
    assert leading == {"next"}
    assert asked == ["dead", "dead"]


async def test_a_renewal_is_repeated_after_a_conflicting_write() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    assert store.lease is not None
    for _ in range(3):
        stood = store.lease["spec"]["renewTime"]
        store._written()  # another client writes the lease, and the holder stays the same
        await until(lambda: store.lease and store.lease["spec"]["renewTime"] > stood)  # noqa: B023
    assert set(store.lease["spec"]) == {
        "holderIdentity",
        "leaseDurationSeconds",
        "acquireTime",
        "renewTime",
        "leaseTransitions",
    }
    assert leading == {"first"}
    await first.stop()


async def test_a_leader_that_lost_the_lease_stops() -> None:
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


async def test_the_lease_is_released_after_a_renewal_with_a_lost_response() -> None:
    store, leading = Store(), set[str]()
    first = Leader(store, "first", leading)
    await until(lambda: leading == {"first"})
    store._written()
    await first.stop()
    assert store.holder is None


async def test_work_that_ends_releases_the_lease_and_raises_its_error() -> None:
    store = Store()

    async def fail() -> None:
        raise KeyError("work")

    with pytest.raises(KeyError):
        await elector(store, "me").run(fail)
    assert store.holder is None


def test_a_holder_is_alive_while_it_renews_regardless_of_its_clock() -> None:
    monitor = HolderMonitor()
    old = LeaseSpec("other", 10, renew_time="1999-01-01T00:00:00Z")
    assert not monitor.expired(old, 100.0)
    assert not monitor.expired(old, 109.0)
    assert monitor.expired(old, 110.0)
    assert not monitor.expired(LeaseSpec("other", 10, renew_time="1999-01-01T00:00:01Z"), 111.0)
    assert monitor.expired(LeaseSpec(None, 10), 112.0)


def test_inconsistent_durations_are_refused() -> None:
    with pytest.raises(ValueError, match="renew_seconds"):
        LeaderElector(Store(), "l", "n", "i", lease_seconds=5, renew_seconds=10)  # type: ignore[arg-type]


# Delayed answers, in a world whose time passes at once


class SlowStore(Store):
    """A server that processes requests immediately or late, and responds later or never."""

    def __init__(self, delays: list[tuple[float, float]]) -> None:
        super().__init__()
        self._delays = delays
        self._requests = 0
        self._acting: set[asyncio.Task[Envelope]] = set()

    async def _slowly(self, act: Callable[[], Coroutine[Any, Any, Envelope]]) -> Envelope:
        before, after = self._delays[self._requests % len(self._delays)]
        self._requests += 1
        arrived = asyncio.create_task(self._arrive(before, act))
        self._acting.add(arrived)
        arrived.add_done_callback(self._acted)
        answer = await asyncio.shield(arrived)  # whoever stops waiting does not undo what he sent
        await asyncio.sleep(after)
        return answer

    def _acted(self, arrived: asyncio.Task[Envelope]) -> None:
        self._acting.discard(arrived)
        if not arrived.cancelled():
            arrived.exception()  # perhaps nobody waits for it any more

    async def _arrive(self, delay: float, act: Callable[[], Coroutine[Any, Any, Envelope]]) -> Envelope:
        await asyncio.sleep(delay)
        return await act()

    async def get(self, *args: object) -> Envelope:
        return await self._slowly(partial(super().get, *args))

    async def create(self, *args: Any) -> Envelope:
        return await self._slowly(partial(super().create, *args))

    async def patch(self, *args: Any) -> Envelope:
        return await self._slowly(partial(super().patch, *args))

    async def stop(self) -> None:
        for task in self._acting:
            task.cancel()
        await asyncio.gather(*self._acting, return_exceptions=True)


DELAY = st.one_of(st.sampled_from([0.0, 0.0, 4.5, 9.5, 1000.0]), st.floats(0, 30))


@settings(max_examples=300)
@given(delays=st.lists(st.tuples(DELAY, DELAY), min_size=1, max_size=30), second_begins=st.floats(0, 20))
def test_there_are_never_two_leaders_with_any_delays_of_responses(
    in_virtual_time: Run, delays: list[tuple[float, float]], second_begins: float
) -> None:
    terms: list[str] = []

    async def world() -> None:
        store = SlowStore(delays)
        leading: set[str] = set()
        loop = asyncio.get_running_loop()

        async def stand(identity: str, begins: float) -> None:
            await asyncio.sleep(begins)
            mine = LeaderElector(store, "l", "n", identity, clock=loop.time)  # type: ignore[arg-type]

            async def lead() -> None:
                leading.add(identity)
                assert len(leading) == 1
                assert mine.is_sure
                terms.append(mine.term)
                try:
                    await asyncio.sleep(40)
                finally:
                    leading.discard(identity)

            while True:
                await mine.run(lead)

        with suppress(TimeoutError):
            async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
                tasks.create_task(stand("first", 0.0))
                tasks.create_task(stand("second", second_begins))
        await store.stop()

    in_virtual_time(world())
    assert len(terms) == len(set(terms))


def test_a_leader_renews_the_lease_until_its_work_has_stopped(in_virtual_time: Run) -> None:
    seen: list[str] = []

    async def world() -> None:
        store = Store()
        loop = asyncio.get_running_loop()

        async def stand(identity: str) -> None:
            async def lead() -> None:
                seen.append(f"{identity} begins")
                try:
                    await asyncio.sleep(100)
                finally:
                    await asyncio.sleep(60)  # what is in flight takes four times as long as the lease
                    seen.append(f"{identity} has ended")

            await LeaderElector(store, "l", "n", identity, clock=loop.time).run(lead)  # type: ignore[arg-type]

        first = asyncio.create_task(stand("first"))
        await asyncio.sleep(1)
        second = asyncio.create_task(stand("second"))
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(70)
        second.cancel()
        await asyncio.wait((first, second))

    in_virtual_time(world())
    assert seen == ["first begins", "first has ended", "second begins", "second has ended"]


def test_an_acquisition_with_a_late_response_does_not_lead(in_virtual_time: Run) -> None:
    led_at: list[float] = []

    async def world() -> None:
        # Looking takes no time, the answer to the creation 12 s.
        store = SlowStore([(0, 0), (0, 12), (0, 0), (0, 0)])
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def lead() -> None:
            led_at.append(loop.time() - began)

        await LeaderElector(store, "l", "n", "me", clock=loop.time).run(lead)  # type: ignore[arg-type]
        await store.stop()

    in_virtual_time(world())
    assert led_at == [12.0]  # given up after 10 s, tried anew 2 s later


def test_a_leader_ends_its_work_ten_seconds_after_it_sent_the_last_answered_renewal(
    in_virtual_time: Run,
) -> None:
    ended_at: list[float] = []

    async def world() -> None:
        # Looking, creating (answered after 5 s), then silence.
        store = SlowStore([(0, 0), (0, 5), *[(0.0, 1000.0)] * 20])
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def lead() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended_at.append(loop.time() - began)

        standing = LeaderElector(store, "l", "n", "me", clock=loop.time)  # type: ignore[arg-type]
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                await standing.run(lead)
        await store.stop()

    in_virtual_time(world())
    assert ended_at == [10.0]


@given(
    st.lists(st.floats(0, 100), min_size=1),
    st.floats(0, 200),
)
def test_validity_counts_from_when_the_last_write_was_sent(sent: list[float], now: float) -> None:
    validity = LeaseValidity(10)
    assert validity.left(now) == 0
    for at in sent:
        validity.written(at)
    assert validity.left(now) == max(0.0, max(sent) + 10 - now)
    validity.end()
    assert validity.left(now) == 0


async def test_a_released_lease_has_no_holder_and_expires_immediately() -> None:
    store = Store()

    async def lead() -> None:
        return None

    await elector(store, "a").run(lead)
    assert store.lease is not None
    spec = store.lease["spec"]
    assert set(spec) <= {
        "leaseDurationSeconds",
        "renewTime",
        "acquireTime",
        "leaseTransitions",
        "holderIdentity",
    }
    assert (store.holder, spec["leaseDurationSeconds"]) == (None, 1)
    assert spec["renewTime"] > spec["acquireTime"]
