"""The measurements: bursts of Pods, idle time, and Deployments next to a tenant that creates many Jobs."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hack.bench.load import Latency, NotInTime, pod
from hack.bench_up.system import Clients, Up
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Timeout, TooManyRequests
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import DEPLOYMENTS, JOBS, NAMESPACES, PODS, RESOURCE_QUOTAS
from vcsync.objects.envelope import Envelope, decode

NAMESPACE = "default"
IN_FLIGHT = 64
GREEDY = 16
"""Concurrent creations of Jobs by the greedy tenant."""
PATIENCE = 1800.0
LOOK_SECONDS = 0.05
"""Seconds between two checks whether all has been seen; the times themselves are recorded exactly."""
T = TypeVar("T")
Pod = tuple[str, str]
"""(space, name)."""


class Burst(Struct):
    """Pods created as fast as they are accepted: from the first creation to the last one's Running."""

    pods: int
    seconds: float
    cpu: float
    latency: Latency

    @property
    def per_second(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds

    @property
    def cpu_per_pod(self) -> float:
        """CPU milliseconds."""
        return 1000 * self.cpu / self.pods


class _Status(Struct):
    phase: str = ""


class Seen:
    """Times at which Pods were first seen Running, by `time.monotonic`; and the same by their label `app`."""

    def __init__(self) -> None:
        self.running: dict[Pod, float] = {}
        self.apps: dict[Pod, float] = {}

    async def until(self, reached: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait until something has been seen.

        Raises:
            NotInTime: it has not.
        """
        try:
            async with asyncio.timeout(seconds):
                while not reached():  # noqa: ASYNC110 - thousands of changes, one look
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise NotInTime(f"{what}: not within {seconds:.0f} s") from None

    async def follow(self, client: Client, ready: asyncio.Event) -> None:
        """Watch until cancelled, across reconnects; sets `ready` when the initial state is known."""
        reflector = Reflector(client, PODS, place=_placed, project=_slim, sink=self._changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflector.run())
            await reflector.wait_synced()
            ready.set()

    def _changed(self, change: Change) -> None:
        if change.new is not None:
            self._note(change.new, time.monotonic())

    def _note(self, found: Envelope, now: float) -> None:
        key = (found.tenant, found.name)
        if key not in self.running and decode(found.status, _Status).phase == "Running":
            self.running[key] = now
            self.apps.setdefault((found.tenant, found.labels.get("app", "")), now)


def _placed(found: Envelope) -> Envelope:
    return replace(found, namespace=f"{found.tenant}/{found.namespace}")


def _slim(found: Envelope) -> Envelope:
    return replace(found, spec=b"", rest=b"", annotations={})


@asynccontextmanager
async def seeing(clients: Clients) -> AsyncIterator[Seen]:
    """Watch all Pods of all spaces during the context."""
    seen, ready = Seen(), asyncio.Event()
    task = asyncio.create_task(seen.follow(clients.everybody, ready))
    await ready.wait()
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def prepare(clients: Clients) -> None:
    """Set every tenant's quota, the only step it must take, and run one Pod in each."""
    hard = {"cpu": "2", "memory": "4Gi"}
    quota = {"metadata": {"name": "all"}, "spec": {"hard": hard}}
    for client in clients.tenants.values():
        await patiently(partial(client.create, RESOURCE_QUOTAS, quota, NAMESPACE))
    async with seeing(clients) as seen:
        await _fill(clients.tenants, NAMESPACE, seen, len(clients.tenants), "warm")


async def burst(up: Up, clients: Clients, spaces: Mapping[str, Client], pods: int) -> Burst:
    """Create Pods, spread over the spaces, and wait until all run."""
    namespace = {"metadata": {"name": "bench"}}
    if spaces is not clients.tenants:
        for client in spaces.values():
            with suppress(AlreadyExists):
                await client.create(NAMESPACES, namespace)
    where, prefix = (NAMESPACE, "load") if spaces is clients.tenants else ("bench", "direct")
    async with seeing(clients) as seen:
        before, began = up.cpu(), time.monotonic()
        sent = await _fill(spaces, where, seen, pods, prefix)
        seconds, cpu = max(map(seen.running.__getitem__, sent)) - began, up.cpu() - before
    return Burst(pods, seconds, cpu, Latency.of(seen.running[each] - at for each, at in sent.items()))


async def _fill(
    spaces: Mapping[str, Client], namespace: str, seen: Seen, pods: int, prefix: str
) -> dict[Pod, float]:
    sent: dict[Pod, float] = {}

    async def one(key: Pod) -> None:
        sent[key] = time.monotonic()
        await patiently(lambda: spaces[key[0]].create(PODS, pod(key[1]), namespace))

    turn = itertools.cycle(spaces)
    await side_by_side(one, [(next(turn), f"{prefix}-{number}") for number in range(pods)])
    await seen.until(lambda: sent.keys() <= seen.running.keys(), f"{pods} Pods run")
    return sent


async def idle(up: Up, seconds: float) -> float:
    """Return the share of one CPU that is used while no client sends requests."""
    before, began = up.cpu(), time.monotonic()
    await asyncio.sleep(seconds)
    return (up.cpu() - before) / (time.monotonic() - began)


async def deployments(clients: Clients, tenant: str, count: int, prefix: str) -> Latency:
    """Create Deployments of one replica one after another; measures from sending each to its Pod's Running."""
    client, waited = clients.tenants[tenant], []
    async with seeing(clients) as seen:
        for number in range(count):
            name = f"{prefix}-{number}"
            began = time.monotonic()
            await client.create(DEPLOYMENTS, _deployment(name), NAMESPACE)
            await seen.until(
                partial(seen.apps.__contains__, (tenant, name)), f"Deployment {name} runs", 300.0
            )
            waited.append(seen.apps[tenant, name] - began)
    for number in range(count):
        await client.delete(DEPLOYMENTS, f"{prefix}-{number}", NAMESPACE, propagation="Background")
    await _gone(client, tuple(f"{prefix}-{number}-" for number in range(count)))
    return Latency.of(waited)


async def _gone(client: Client, prefixes: tuple[str, ...]) -> None:
    """Wait until Pods are gone, so that their ends do not affect the next measurement."""
    async with asyncio.timeout(PATIENCE):
        while True:
            pages = client.pages(PODS, NAMESPACE)
            if not any([each.name.startswith(prefixes) async for page in pages for each in page.items]):
                return
            await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def greedy(client: Client) -> AsyncIterator[list[int]]:
    """Let a tenant create Jobs as fast as possible during the context; yields a counter of them."""
    async with (
        Client(client.connection, name="greedy", max_connections=GREEDY) as hungry,
        _creating(hungry) as made,
    ):
        yield made


@asynccontextmanager
async def _creating(client: Client) -> AsyncIterator[list[int]]:
    made = [0]

    async def worker() -> None:
        while True:
            made[0] += 1
            await patiently(partial(client.create, JOBS, _job(f"job-{made[0]}"), NAMESPACE))

    tasks = [asyncio.create_task(worker()) for _ in range(GREEDY)]
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def patiently(call: Callable[[], Awaitable[object]]) -> None:
    """Send a request, retrying while the server has no room or is too slow."""
    while True:
        try:
            await call()
        except AlreadyExists:
            return  # its answer was lost
        except Timeout:
            continue
        except TooManyRequests as refusal:
            await asyncio.sleep(refusal.retry_after or 1.0)
        else:
            return


async def side_by_side(work: Callable[[T], Awaitable[object]], items: Iterable[T]) -> None:
    """Do the work for every item, `IN_FLIGHT` concurrently."""
    left = iter(list(items))

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(IN_FLIGHT):
            tasks.create_task(worker())


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("")["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def _job(name: str) -> dict[str, Any]:
    container = {**pod("")["spec"]["containers"][0], "command": ["true"]}
    spec = {"automountServiceAccountToken": False, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}}
