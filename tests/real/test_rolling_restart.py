"""Two replicas of the door restart in turn under load: no acknowledged write is lost, and no watch has a gap or a repeat."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from plane_kit import Caller, calling

from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.testbed import TestBed

NAMESPACE = "rolling"
COUNTERS = tuple(f"counter-{number}" for number in range(6))
LAST = "last"
"""Object that ends the watchers."""
WATCHERS = 3
LEAST_WRITES = 3
"""To each counter between two restarts."""
PAUSE_SECONDS = 0.02
"""Of each writer between two writes."""
UNAVAILABLE = frozenset({429, 502, 503, 504})
"""Answers of a replica that ends or starts. The write may have happened before a 502 or 504."""


@pytest.fixture(scope="module")
def replicas(testbed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ControlPlane]]:
    """Two replicas over one etcd, with acme, an embedded control plane, and umbrella, a kube-apiserver."""
    folder = tmp_path_factory.mktemp("replicas")
    with (
        Etcd(folder / "etcd") as etcd,
        ControlPlane(folder / "one", etcd=etcd.url) as one,
        ControlPlane(folder / "other", etcd=etcd.url) as other,
    ):
        one.create("acme")
        kubeconfig = testbed.tenants["umbrella"].kubeconfig
        one.vcsync("tenant", "connect", "umbrella", "--kubeconfig", str(kubeconfig))
        yield [one, other]


class Balancer:
    """A client in the role of a load balancer: a request goes to the other replica after a replica failed.

    Args:
        callers: a client of each replica.
        first: index of the replica to begin with.
    """

    def __init__(self, callers: list[Caller], first: int) -> None:
        self._callers = callers
        self._at = first % len(callers)

    async def request(self, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the answer of the first replica that gives one, and whether an earlier try may have had an effect.

        The answer's status is negative if an earlier try may have had an effect.
        """
        sign = 1
        while True:
            try:
                status, answer = await self._callers[self._at](verb, path, body)
            except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError):
                sign = -1
            else:
                if status not in UNAVAILABLE:
                    return sign * status, answer
                sign = -1 if status in {502, 504} else sign
            await self.fail_over()

    async def fail_over(self) -> None:
        self._at = (self._at + 1) % len(self._callers)
        await asyncio.sleep(0.05)

    async def events(self, path: str, version: str) -> AsyncIterator[dict[str, Any]]:
        """Return the events after a resourceVersion, from one replica after another, as an informer does."""
        while True:
            query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={version}"
            try:
                async with self._callers[self._at].watch(path + query) as events:
                    async for event in events:
                        assert event["type"] in {"ADDED", "MODIFIED", "BOOKMARK"}, event
                        version = event["object"]["metadata"]["resourceVersion"]
                        yield event
            except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError):
                pass
            except AssertionError as error:
                # The watch was refused: by a replica that starts or ends, or for good.
                if '"code":503' not in str(error) and '"code":429' not in str(error):
                    raise
            await self.fail_over()


def counter(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"n": "0"}}


class Load:
    """Writers that count up, each its own object, and watchers that check each step.

    Args:
        folder: URL path of the ConfigMaps.
        callers: a client of each replica.
    """

    def __init__(self, folder: str, callers: list[Caller]) -> None:
        self._folder = folder
        self._callers = callers
        self._ending = asyncio.Event()
        self.acknowledged = dict.fromkeys(COUNTERS, 0)

    async def run(self) -> list[dict[str, int]]:
        """Count up until `end`; return the last values that each watcher has seen."""
        setup = Balancer(self._callers, 0)
        for name in COUNTERS:
            assert (await setup.request("POST", self._folder, counter(name)))[0] == 201
        async with asyncio.TaskGroup() as tasks:
            watchers = [tasks.create_task(self._watch(number)) for number in range(WATCHERS)]
            async with asyncio.TaskGroup() as writers:
                for number, name in enumerate(COUNTERS):
                    writers.create_task(self._write(number, name))
            assert (await setup.request("POST", self._folder, counter(LAST)))[0] in {201, -201, -409}
        return [each.result() for each in watchers]

    def end(self) -> None:
        self._ending.set()

    async def progress(self) -> None:
        """Wait until every counter has some more acknowledged writes."""
        least = {name: value + LEAST_WRITES for name, value in self.acknowledged.items()}
        async with asyncio.timeout(120):
            while any(self.acknowledged[name] < value for name, value in least.items()):
                await asyncio.sleep(0.05)

    async def _write(self, number: int, name: str) -> None:
        """Count up by compare and swap. A write without an answer is looked up."""
        balancer = Balancer(self._callers, number)
        status, found = await balancer.request("GET", f"{self._folder}/{name}")
        assert abs(status) == 200, found
        while not self._ending.is_set():
            value = self.acknowledged[name] + 1
            wanted = {**found, "data": {"n": str(value)}}
            status, answer = await balancer.request("PUT", f"{self._folder}/{name}", wanted)
            if status != 200:
                # This writer has the object to itself. So only its own try without an answer explains a conflict.
                assert status in {-200, -409}, (status, answer)
                _, answer = await balancer.request("GET", f"{self._folder}/{name}")
            assert answer["data"]["n"] == str(value), f"{name}: {value} was written"
            found, self.acknowledged[name] = answer, value
            await asyncio.sleep(PAUSE_SECONDS)

    async def _watch(self, number: int) -> dict[str, int]:
        """Check every step of every counter until the last object is there."""
        balancer = Balancer(self._callers, number)
        status, listed = await balancer.request("GET", self._folder)
        assert abs(status) == 200, listed
        seen = {item["metadata"]["name"]: int(item["data"].get("n", 0)) for item in listed["items"]}
        async for event in balancer.events(self._folder, listed["metadata"]["resourceVersion"]):
            name = event["object"]["metadata"].get("name")
            if name == LAST:
                break
            if event["type"] != "BOOKMARK" and name in seen:
                value = int(event["object"]["data"]["n"])
                assert value == seen[name] + 1, f"{name}: {value} follows {seen[name]}"
                seen[name] = value
        return {name: seen[name] for name in COUNTERS}


async def test_a_rolling_restart_loses_no_acknowledged_write_and_no_event(
    replicas: list[ControlPlane],
) -> None:
    async with AsyncExitStack() as stack:
        loads = []
        for tenant in ("acme", "umbrella"):
            kubeconfig: Path = await asyncio.to_thread(replicas[0].kubeconfig, tenant)
            callers = [await stack.enter_async_context(calling(plane, kubeconfig)) for plane in replicas]
            namespaces = f"/tenants/{tenant}/api/v1/namespaces"
            made = await Balancer(callers, 0).request("POST", namespaces, {"metadata": {"name": NAMESPACE}})
            assert made[0] == 201, made
            loads.append(Load(f"{namespaces}/{NAMESPACE}/configmaps", callers))

        async def progress() -> None:
            for load in loads:
                await load.progress()

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(load.run()) for load in loads]
            await progress()
            for number, how in ((0, signal.SIGTERM), (1, signal.SIGTERM), (0, signal.SIGKILL)):
                await asyncio.to_thread(replicas[number].stop, how)
                await progress()  # by the other replica alone
                await asyncio.to_thread(replicas[number].start)
            await progress()
            for load in loads:
                load.end()

    for load, seen in zip(loads, running, strict=True):
        assert seen.result() == [load.acknowledged] * WATCHERS
