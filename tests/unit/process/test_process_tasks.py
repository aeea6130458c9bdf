"""Tasks that fail after their waiter was cancelled. asyncio must not report their exceptions."""

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from vcsync.apimachinery.cel import cooperative
from vcsync.apimachinery.cel.values import CostExceeded
from vcsync.apiserver.apiextensions.conversion import refuse
from vcsync.apiserver.offload.jobs import Setup
from vcsync.apiserver.offload.parent import OffloadProcess
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.storage.interface import StoreUnavailable

Report = dict[str, Any]


@pytest.fixture
async def reported() -> Callable[[], list[Report]]:
    """Return a function that returns the reports of the loop after a garbage collection."""
    found: list[Report] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, report: found.append(report))

    def collected() -> list[Report]:
        gc.collect()
        return found

    return collected


async def test_the_failure_of_a_second_process_after_its_waiter_was_cancelled_is_retrieved(
    monkeypatch: pytest.MonkeyPatch, reported: Callable[[], list[Report]]
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    class Ended:
        async def wait(self) -> int:
            return 0

    async def start(*_: object, **__: object) -> Ended:
        begun.set()
        await goes_on.wait()
        return Ended()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    process = OffloadProcess(Mock(), refuse, Setup())
    asking = asyncio.create_task(process.encode([], None))  # type: ignore[arg-type]
    await begun.wait()
    asking.cancel()
    await asyncio.wait([asking])
    goes_on.set()
    await process.stop()
    await asyncio.sleep(0)
    assert reported() == []


async def test_the_failure_of_a_transaction_after_its_client_has_gone_is_retrieved(
    reported: Callable[[], list[Report]],
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    class Fails:
        async def txn(self, *_: object) -> None:
            begun.set()
            await goes_on.wait()
            raise StoreUnavailable("no answer")

    writing = asyncio.create_task(Registry(Fails()).commit([], []))  # type: ignore[arg-type]
    await begun.wait()
    writing.cancel()
    await asyncio.wait([writing])
    del writing
    goes_on.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert reported() == []


async def test_the_failure_of_an_evaluation_after_its_request_has_gone_is_retrieved(
    reported: Callable[[], list[Report]],
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def evaluate() -> None:
        begun.set()
        goes_on.wait()
        raise CostExceeded("too long")

    evaluating = asyncio.create_task(cooperative.evaluate_in_thread("acme", evaluate))
    while not begun.is_set():
        await asyncio.sleep(0)
    evaluating.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    await asyncio.wait([evaluating])
    del evaluating
    assert reported() == []
