"""The measurements: each puts a load on one side of the stage and returns the result."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

from msgspec import Struct

from hack.bench import load
from hack.bench.load import Latency
from hack.bench.meter import Usage
from hack.bench.stage import NAMESPACE, SYNCER, SYNCER_SOURCE, Side, Stage
from hack.system import System
from vcsync.kube.client import Client
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope, decode

WARM_UP = 200
ALL_RUNNING_SECONDS = 600.0
ONE_AT_A_TIME = 100
PACE = 20.0
PACED_SECONDS = 15.0
IDLE_SECONDS = 60.0
PATROL_SECONDS = 5.0
"""Seconds between two rounds of the patrol while it is measured."""
PATROL_ROUNDS = 5
CHANGED_WHILE_DOWN = 50
"""Pods per kind of change that are changed while the syncer is down."""
RESTART_SECONDS = 120.0
LINGER_AFTER_SECONDS = 5.0
"""Seconds without a disappearing Pod, after all DELETEs were answered, after which the remaining Pods count as
lingering."""
DELETION_SECONDS = 180.0


class Burst(Struct, frozen=True):
    """Many Pods, created as fast as possible."""

    pods: int
    per_second: float
    """Pods per second, from the first creation until the last Pod runs."""
    latency: Latency
    usage: Usage
    seconds: float
    """Seconds of the measurement, until the system was idle."""
    reviews: dict[str, int] = {}
    """Calls of the placement webhook by their outcome; empty if nobody serves it."""


class LowLoad(Struct, frozen=True):
    """Few Pods at a time: the latency of an idle system."""

    one_at_a_time: Latency
    paced: Latency
    """At `PACE` Pods per second."""


class Memory(Struct, frozen=True):
    """Bytes of memory by role."""

    before: dict[str, int]
    """Memory with the Pods of the warm-up, so that the difference is due to Pods and not to one-time allocations."""
    after: dict[str, int]
    """Memory with all Pods running and no activity."""


class Idle(Struct, frozen=True):
    """A time without any change."""

    seconds: float
    pods: int
    usage: Usage


class Restart(Struct, frozen=True):
    """Seconds from the start of the syncer's process until each change made while it was down was reconciled."""

    pods: int
    changed: int
    """Pods per kind of change."""
    new_pod: float
    """A Pod created while it was down runs."""
    deleted_in_tenant: float
    """The last Pod that was deleted in the tenant is gone, in the super cluster and in the tenant."""
    changed_in_tenant: float
    """The last Pod with a changed image and label has them in the super cluster."""
    deleted_in_super: float
    """The last Pod that was deleted in the super cluster is gone from the tenant."""
    usage: Usage


class Deletion(Struct, frozen=True):
    """Many Pods, deleted as fast as possible."""

    pods: int
    per_second: float
    """Pods per second, from the first DELETE until the last Pod is gone."""
    lingering: int
    """Pods that still existed when none had disappeared for `LINGER_AFTER_SECONDS` (a slow machine does not count as
    lingering)."""
    after_last_answer: float
    """Seconds from the answer to the last DELETE until the last Pod was gone."""
    usage: Usage


# --- throughput


async def warm_up(stage: Stage, side: Side, count: int = WARM_UP) -> None:
    """Create some Pods that stay, so that connections, buffers and code are loaded before anything is measured."""
    pods = [f"warm-{number:03}" for number in range(count)]
    async with (
        load.client_of(side.cluster.kubeconfig, side.name) as client,
        load.watching(client, NAMESPACE) as watch,
    ):
        await load.create_many(client, NAMESPACE, pods, side.labels)
        await watch.until(
            lambda seen: len(seen.running) >= count, what="warming up", seconds=ALL_RUNNING_SECONDS
        )
    await stage.settle()


async def burst(stage: Stage, side: Side, count: int) -> Burst:
    """Create `count` Pods with `load.IN_FLIGHT` concurrent creations, and wait until all run and the system is idle."""
    pods = [f"pod-{number:05}" for number in range(count)]
    async with (
        load.client_of(side.cluster.kubeconfig, side.name) as client,
        load.watching(client, NAMESPACE) as watch,
    ):
        running = len(watch.running)
        reviews = stage.reviews()
        before = stage.read()
        start = time.monotonic()
        sent = await load.create_many(client, NAMESPACE, pods, side.labels)
        await watch.until(
            lambda seen: len(seen.running) >= running + count,
            what=f"{count} Pods running",
            seconds=ALL_RUNNING_SECONDS,
        )
        await stage.settle()
        usage = stage.usage_since(before)
        seconds = time.monotonic() - start
        reviews = {outcome: value - reviews.get(outcome, 0) for outcome, value in stage.reviews().items()}
    first, last = min(sent.values()), max(watch.running.values())
    return Burst(
        pods=count,
        per_second=count / (last - first),
        latency=_latency(sent, watch.running),
        usage=usage,
        seconds=seconds,
        reviews=reviews,
    )


def _latency(sent: dict[str, float], running: dict[str, float]) -> Latency:
    return Latency.of(running[name] - moment for name, moment in sent.items())


# --- latency at low load


async def low_load(side: Side) -> LowLoad:
    """Create Pods one at a time, each when the previous one runs; then at a constant rate."""
    async with load.client_of(side.cluster.kubeconfig, side.name) as client:
        single = await _one_at_a_time(client, side)
        await load.clear(client, NAMESPACE)
        paced = await _paced(client, side)
        await load.clear(client, NAMESPACE)
    return LowLoad(single, paced)


async def one_at_a_time(side: Side, count: int = ONE_AT_A_TIME) -> Latency:
    """Create Pods one at a time, each when the previous one runs, and delete them."""
    async with load.client_of(side.cluster.kubeconfig, side.name) as client:
        latency = await _one_at_a_time(client, side, count)
        await load.clear(client, NAMESPACE)
    return latency


async def _one_at_a_time(client: Client, side: Side, count: int = ONE_AT_A_TIME) -> Latency:
    async with load.watching(client, NAMESPACE) as watch:
        sent: dict[str, float] = {}
        for number in range(count):
            name = f"single-{number:03}"
            sent[name] = await load.create(client, NAMESPACE, name, side.labels)
            await watch.until(partial(_runs, name), what=name, seconds=60.0)
            # The Event that the Pod causes belongs to its own cost, not to the next Pod's.
            await asyncio.sleep(0.02)
        return _latency(sent, watch.running)


def _runs(name: str, seen: load.PodWatch) -> bool:
    return name in seen.running


async def _paced(client: Client, side: Side) -> Latency:
    pods = [f"paced-{number:03}" for number in range(round(PACE * PACED_SECONDS))]
    async with load.watching(client, NAMESPACE) as watch:
        sent = await load.create_paced(client, NAMESPACE, pods, PACE, side.labels)
        await watch.until(
            lambda seen: len(seen.running) >= len(pods), what="the paced Pods", seconds=ALL_RUNNING_SECONDS
        )
        return _latency(sent, watch.running)


# --- rest


async def idle(stage: Stage, count: int, seconds: float = IDLE_SECONDS) -> Idle:
    """Meter a time in which nothing changes."""
    before = stage.read()
    await asyncio.sleep(seconds)
    return Idle(seconds, count, stage.usage_since(before))


# --- patrol


class Patrol(Struct, frozen=True):
    """Comparisons of everything that find nothing."""

    pods: int
    rounds: int
    cpu_seconds: float
    """CPU seconds of the most expensive round."""
    longest_step: float
    """CPU seconds of the longest step of any round, during which the event loop did nothing else."""


async def patrol(stage: Stage, count: int) -> Patrol:
    """Restart the syncer with a short period of its patrol, and read the cost of rounds while nothing changes."""
    system = stage.system
    stage.kill(SYNCER)
    system.options[SYNCER] = ("--patrol-seconds", str(PATROL_SECONDS))
    await asyncio.to_thread(stage.respawn, SYNCER)
    await asyncio.to_thread(system.wait_ready, SYNCER)
    await stage.settle()
    costs: dict[int, tuple[float, float]] = {}
    first = (await _patrol_status(system))["rounds"]
    deadline = time.monotonic() + ALL_RUNNING_SECONDS
    while len(costs) < PATROL_ROUNDS:
        if time.monotonic() > deadline:
            raise load.NotInTime(f"the patrol made {len(costs)} rounds")
        await asyncio.sleep(1.0)
        shown = await _patrol_status(system)
        if shown["rounds"] > first + 1:  # the first of them may have begun before everything was settled
            costs[shown["rounds"]] = (shown["cpuSeconds"], shown["longestStepSeconds"])
    del system.options[SYNCER]
    return Patrol(
        count, len(costs), max(cost for cost, _ in costs.values()), max(step for _, step in costs.values())
    )


async def _patrol_status(system: System) -> dict[str, Any]:
    status = await asyncio.to_thread(system.status, SYNCER)
    return dict(status["roles"][SYNCER_SOURCE]["patrol"])


# --- restart


async def restart(stage: Stage, count: int) -> Restart:
    """Kill the syncer, change Pods on both sides, restart it and measure when each change is reconciled."""
    super_namespace = await stage.super_namespace()
    pods = [f"pod-{number:05}" for number in range(3 * CHANGED_WHILE_DOWN)]
    doomed, changed, lost = (pods[start::3] for start in range(3))
    stage.kill(SYNCER)
    async with (
        load.client_of(stage.tenant.cluster.kubeconfig, "tenant") as tenant,
        load.client_of(stage.direct.cluster.kubeconfig, "super") as here,
    ):
        await load.delete_many(tenant, NAMESPACE, doomed)
        await load.side_by_side(lambda name: _change(tenant, name), changed)
        await load.delete_many(here, super_namespace, lost)
        await load.create(tenant, NAMESPACE, "created-meanwhile", stage.tenant.labels)
        async with load.watching(tenant, NAMESPACE) as above, load.watching(here, super_namespace) as below:
            before = stage.read()
            start = time.monotonic()
            spawned = asyncio.create_task(asyncio.to_thread(stage.respawn, SYNCER))
            times = await asyncio.gather(
                _when(above, lambda seen: "created-meanwhile" in seen.running, "the new Pod"),
                _when(above, _gone(doomed), "what was deleted in the tenant (tenant)"),
                _when(below, _gone(doomed), "what was deleted in the tenant (super cluster)"),
                _when(below, _all_changed(changed), "what was changed in the tenant"),
                _when(above, _gone(lost), "what was deleted in the super cluster"),
            )
            await spawned
            await stage.settle()
            usage = stage.usage_since(before)
    new, gone_above, gone_below, changes, lost_gone = (moment - start for moment in times)
    return Restart(
        pods=count,
        changed=CHANGED_WHILE_DOWN,
        new_pod=new,
        deleted_in_tenant=max(gone_above, gone_below),
        changed_in_tenant=changes,
        deleted_in_super=lost_gone,
        usage=usage,
    )


class _Container(Struct, gc=False):
    image: str = ""


class _Spec(Struct, gc=False):
    containers: tuple[_Container, ...] = ()


_NEW_IMAGE = "bench/app:2"
_NEW_LABEL = "bench-change"


async def _change(client: Client, name: str) -> None:
    patch = {
        "metadata": {"labels": {_NEW_LABEL: "2"}},
        "spec": {"containers": [{"name": "app", "image": _NEW_IMAGE}]},
    }
    await client.patch(PODS, name, patch, NAMESPACE, kind="strategic")


def _is_changed(pod: Envelope) -> bool:
    images = {container.image for container in decode(pod.spec, _Spec).containers}
    return images == {_NEW_IMAGE} and pod.labels.get(_NEW_LABEL) == "2"


def _all_changed(pods: Iterable[str]) -> Callable[[load.PodWatch], bool]:
    left = set(pods)

    def reached(seen: load.PodWatch) -> bool:
        left.difference_update([name for name in left if name in seen.pods and _is_changed(seen.pods[name])])
        return not left

    return reached


def _gone(pods: Iterable[str]) -> Callable[[load.PodWatch], bool]:
    left = frozenset(pods)
    return lambda seen: left.isdisjoint(seen.pods)


async def _when(watch: load.PodWatch, reached: Callable[[load.PodWatch], bool], what: str) -> float:
    """Return when (`time.monotonic`) the watch had reported the state that `reached` expects."""
    await watch.until(reached, what=what, seconds=RESTART_SECONDS)
    return time.monotonic()


# --- deletion


async def deletion(stage: Stage, side: Side) -> Deletion:
    """Delete all Pods with `load.IN_FLIGHT` concurrent DELETEs, and wait until all are gone."""
    async with (
        load.client_of(side.cluster.kubeconfig, side.name) as client,
        load.watching(client, NAMESPACE) as watch,
    ):
        count = len(watch.pods)
        before = stage.read()
        start = time.monotonic()
        await load.delete_many(client, NAMESPACE, list(watch.pods))
        answered = time.monotonic()
        with contextlib.suppress(load.NotInTime):  # The remaining Pods linger, and are reported.
            await watch.until(
                lambda seen: not seen.pods, what=f"{count} Pods deleted", seconds=DELETION_SECONDS
            )
        last = time.monotonic() if watch.pods else max(watch.gone.values())
        await stage.settle()
        usage = stage.usage_since(before)
    return Deletion(
        pods=count,
        per_second=count / (last - start),
        lingering=len(watch.pods) + lingering(answered, watch.gone.values()),
        after_last_answer=max(last - answered, 0.0),
        usage=usage,
    )


def lingering(answered: float, gone: Iterable[float]) -> int:
    """Return how many Pods disappeared only after a time in which none did.

    Args:
        answered: when the last DELETE was answered.
        gone: when each Pod disappeared.
    """
    after = sorted(moment for moment in gone if moment > answered)
    for position, (before, moment) in enumerate(pairwise([answered, *after])):
        if moment - before > LINGER_AFTER_SECONDS:
            return len(after) - position
    return 0
