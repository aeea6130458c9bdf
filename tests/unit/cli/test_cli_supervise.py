"""Roles in one process: failed roles are restarted, and their errors are visible."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from vcsync.cli.run.pool_role import adjust
from vcsync.cli.run.supervision import Keeper, MakeRole, Role, Supervised, describe, pause
from vcsync.fairqueue import ObjectName
from vcsync.process.signals import until_signalled


class Worker:
    """A role that fails a given number of times and then works until cancelled."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.starts = 0
        self.ended = 0
        self.working = asyncio.Event()

    async def run(self) -> None:
        self.starts += 1
        if self.starts <= self.failures:
            raise RuntimeError(f"failure {self.starts}")
        self.working.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1

    def ready(self) -> tuple[bool, str]:
        return True, "works"

    def status(self) -> dict[str, Any]:
        return {"starts": self.starts}

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        return [{"time": "now", "what": f"{tenant}: {name.name} created"}]

    def metrics(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("vcsync_starts", "Starts")
        family.add_metric([], self.starts)
        return [family]


def maker(worker: Worker) -> MakeRole:
    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        yield worker

    return make


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (7, 60.0), (5000, 60.0)])
def test_delays_double_up_to_a_minute(failures: int, seconds: float) -> None:
    assert pause(failures) == seconds


async def test_a_failing_role_is_restarted_and_logged() -> None:
    worker, pauses = Worker(failures=3), []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    supervised = Supervised("worker", maker(worker), sleep=sleep)
    assert supervised.ready() == (False, "starts")
    assert supervised.timeline("acme", ObjectName("pods", "default", "web")) == []
    task = asyncio.create_task(supervised.run())
    await worker.working.wait()
    assert pauses == [1.0, 2.0, 4.0]
    assert supervised.ready() == (True, "works")
    (transition,) = supervised.timeline("acme", ObjectName("pods", "default", "web"))
    assert transition["what"] == "acme: web created"
    status = supervised.status()
    assert (status["starts"], status["restarts"]) == (4, 3)
    assert status["lastFailure"]["error"] == "RuntimeError: failure 3"
    samples = {s.name: s.value for family in supervised.metrics() for s in family.samples}
    assert samples == {"vcsync_role_restarts_total": 3.0, "vcsync_starts": 4.0}
    task.cancel()
    await asyncio.wait([task])
    assert worker.ended == 1


async def test_the_reason_is_shown_between_two_starts() -> None:
    blocked = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        blocked.set()
        await asyncio.Event().wait()

    supervised = Supervised("worker", maker(Worker(failures=1)), sleep=sleep)
    task = asyncio.create_task(supervised.run())
    await blocked.wait()
    assert supervised.ready() == (False, "failed: RuntimeError: failure 1")
    assert [family.name for family in supervised.metrics()] == ["vcsync_role_restarts"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_role_that_returns_counts_as_failed() -> None:
    class Quitter(Worker):
        async def run(self) -> None:
            return

    failed = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        failed.set()
        await asyncio.Event().wait()

    supervised = Supervised("quitter", maker(Quitter()), sleep=sleep)
    task = asyncio.create_task(supervised.run())
    await failed.wait()
    assert "ended by itself" in supervised.ready()[1]
    task.cancel()
    await asyncio.wait([task])


async def test_syncers_follow_the_list_of_super_clusters() -> None:
    made: list[str] = []

    def make(super_id: str) -> MakeRole:
        made.append(super_id)
        return maker(Worker())

    served: dict[str, str] = {}
    async with Keeper() as keeper:
        await adjust(keeper, served, {"r1": "a", "r2": "b"}, make)
        assert set(keeper.sources) == {"syncer/r1", "syncer/r2"}
        await adjust(keeper, served, {"r1": "a", "r2": "c", "r3": "d"}, make)  # r2 was registered anew
        assert set(keeper.sources) == {"syncer/r1", "syncer/r2", "syncer/r3"}
        await adjust(keeper, served, {"r3": "d"}, make)
        assert set(keeper.sources) == {"syncer/r3"}
    assert made == ["r1", "r2", "r2", "r3"]
    assert not keeper.sources


async def test_the_keepers_exit_ends_all_roles() -> None:
    workers = [Worker(), Worker()]
    async with Keeper() as keeper:
        for number, worker in enumerate(workers):
            keeper.start(f"w{number}", maker(worker))
        for worker in workers:
            await worker.working.wait()
    assert [worker.ended for worker in workers] == [1, 1]


def test_a_signal_ends_the_work_gracefully() -> None:
    worker = Worker()

    async def main() -> None:
        import os  # noqa: PLC0415
        import signal  # noqa: PLC0415

        work = asyncio.create_task(until_signalled(worker.run()))
        await worker.working.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await work

    asyncio.run(main())
    assert worker.ended == 1


async def test_cancellation_from_elsewhere_is_passed_on() -> None:
    task = asyncio.create_task(until_signalled(Worker().run()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_first_leaf_of_a_group_is_described() -> None:
    group = BaseExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("bad"), TypeError("worse")])])
    assert describe(group) == "ValueError: bad"
