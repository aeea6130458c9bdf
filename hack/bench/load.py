"""The load: one client creates Pods, watches them until they run, and deletes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from msgspec import Struct

from hack.bench.meter import percentile
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import AlreadyExists, NotFound, ServerError
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope, decode

IN_FLIGHT = 50
"""Concurrent requests of a load that runs as fast as possible."""
BUSY_PAUSES = (1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts to create a Pod while the server answers 5xx."""
IMAGE = "bench/app:1"


class NotInTime(Exception):
    """An expected result did not appear in time."""


class _Status(Struct, gc=False):
    phase: str = ""


class Latency(Struct, frozen=True):
    """Milliseconds from sending the creation of Pods until a watch reports them as running."""

    p50: float
    p99: float
    longest: float
    pods: int

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Latency:
        """Summarize durations given in seconds."""
        values = [value * 1000 for value in seconds]
        return cls(percentile(values, 0.5), percentile(values, 0.99), max(values), len(values))


@asynccontextmanager
async def client_of(kubeconfig: Any, name: str) -> AsyncIterator[Client]:
    """Return a client with as many connections as the load has concurrent requests."""
    async with Client(
        Connection.from_kubeconfig_file(kubeconfig), name=name, max_connections=IN_FLIGHT
    ) as client:
        yield client


class PodWatch:
    """The state of a namespace's Pods as reported by a watch, with times (`time.monotonic`).

    Use `watching` to create one.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Envelope] = {}
        self.running: dict[str, float] = {}
        """Time when the Pod was first seen in phase Running."""
        self.gone: dict[str, float] = {}
        self._changed = asyncio.Condition()

    async def until(self, reached: Callable[[PodWatch], bool], *, what: str, seconds: float) -> None:
        """Wait until the watch has reported the state that `reached` expects.

        Raises:
            NotInTime: it was not reported within `seconds`.
        """
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: reached(self))
        except TimeoutError:
            raise NotInTime(f"{what}: not within {seconds:.0f} s ({len(self.pods)} Pods exist)") from None

    async def follow(self, client: Client, namespace: str, version: str) -> None:
        """Watch from a version on, until cancelled."""
        while True:
            batches = client.watch_batches(PODS, namespace, resource_version=version, timeout_seconds=3600)
            async with aclosing(batches) as each:
                async for batch in each:
                    now = time.monotonic()
                    for event in batch:
                        version = event.object.resource_version
                        if event.type != "BOOKMARK":
                            self._note(event.object, now, deleted=event.type == "DELETED")
                    async with self._changed:
                        self._changed.notify_all()

    def note_existing(self, pods: Iterable[Envelope]) -> None:
        """Record the state before the watch."""
        now = time.monotonic()
        for pod in pods:
            self._note(pod, now, deleted=False)

    def _note(self, pod: Envelope, now: float, *, deleted: bool) -> None:
        if deleted:
            self.gone[pod.name] = now
            self.pods.pop(pod.name, None)
            return
        self.pods[pod.name] = pod
        if pod.name not in self.running and decode(pod.status, _Status).phase == "Running":
            self.running[pod.name] = now


@asynccontextmanager
async def watching(client: Client, namespace: str) -> AsyncIterator[PodWatch]:
    """Watch the Pods of a namespace, starting with the existing ones."""
    watch = PodWatch()
    version = ""
    async with aclosing(client.pages(PODS, namespace)) as pages:
        async for page in pages:
            version = page.resource_version
            watch.note_existing(page.items)
    task = asyncio.create_task(watch.follow(client, namespace, version))
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def pod(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a Pod with one container and no token volume."""
    container = {
        "name": "app",
        "image": IMAGE,
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    }
    return {
        "metadata": {"name": name, "labels": {"app": "bench", **(labels or {})}},
        "spec": {"automountServiceAccountToken": False, "containers": [container]},
    }


async def create(client: Client, namespace: str, name: str, labels: Mapping[str, str] | None = None) -> float:
    """Create a Pod, retrying while the server is too busy; returns the time of the first attempt (`time.monotonic`)."""
    sent = time.monotonic()
    for pause in (*BUSY_PAUSES, None):
        try:
            await client.create(PODS, pod(name, labels), namespace)
            break
        except ServerError:  # e.g. "resource quota evaluation timed out"
            if pause is None:
                raise
            await asyncio.sleep(pause)
        except AlreadyExists:  # An earlier attempt had created it.
            break
    return sent


async def create_many(
    client: Client, namespace: str, names: Sequence[str], labels: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Create Pods as fast as possible; returns when each was sent."""
    sent: dict[str, float] = {}

    async def one(name: str) -> None:
        sent[name] = await create(client, namespace, name, labels)

    await side_by_side(one, names)
    return sent


async def create_paced(
    client: Client,
    namespace: str,
    names: Sequence[str],
    per_second: float,
    labels: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Create Pods at a constant rate, independent of earlier ones; returns when each was sent."""
    sent: dict[str, float] = {}

    async def one(name: str) -> None:
        sent[name] = await create(client, namespace, name, labels)

    start = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number, name in enumerate(names):
            await asyncio.sleep(max(0.0, start + number / per_second - time.monotonic()))
            tasks.create_task(one(name))
    return sent


async def delete_many(client: Client, namespace: str, names: Iterable[str]) -> None:
    """Delete Pods as fast as possible, each with its own grace period."""

    async def one(name: str) -> None:
        try:
            await client.delete(PODS, name, namespace)
        except NotFound:
            return

    await side_by_side(one, names)


async def side_by_side(work: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
    """Call `work` for every name, `IN_FLIGHT` of them concurrently."""
    left = iter(list(names))

    async def worker() -> None:
        for name in left:
            await work(name)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(IN_FLIGHT):
            tasks.create_task(worker())


async def clear(client: Client, namespace: str, *, seconds: float = 180.0) -> None:
    """Delete all Pods of a namespace and wait until they are gone."""
    async with watching(client, namespace) as watch:
        await delete_many(client, namespace, list(watch.pods))
        await watch.until(lambda seen: not seen.pods, what="deleting all Pods", seconds=seconds)
