"""Leader election over a Lease that behaves as the API server's."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.kube import envelope
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound, Status, Unreachable
from vcsync.kube.lease import LeaderElector, LeaseSpec, Tenure, Watchman
from vcsync.kube.patches import merge_patch

Run = Callable[[Coroutine[Any, Any, None]], None]
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
        self.lease["metadata"].setdefault("uid", "lease-uid")
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


async def test_a_holder_that_has_certainly_ended_is_followed_at_once() -> None:
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


# Delayed answers, in a world whose time passes at once


class SlowStore(Store):
    """A server that acts on a request at once or late, and answers still later or never."""

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
def test_there_are_never_two_leaders_whatever_the_delays_of_answers(
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


def test_an_acquisition_answered_too_late_is_not_led_by(in_virtual_time: Run) -> None:
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
def test_a_tenure_ends_so_long_after_the_newest_write_was_sent(sent: list[float], now: float) -> None:
    tenure = Tenure(10)
    assert tenure.left(now) == 0
    for at in sent:
        tenure.written(at)
    assert tenure.left(now) == max(0.0, max(sent) + 10 - now)
    tenure.end()
    assert tenure.left(now) == 0
