"""The speed of both schedulers' cores: a pool, tenants and Pods in this process, without any API, and a lost super cluster.

Everything that a scheduler does for an object is measured but requests: Pods are parsed, counted, decided, and read again as
the answer of a write. Seconds are CPU seconds of this process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random

import structlog
from msgspec import Struct

from hack.bench.bench_pool import LOST, MOST_ROUNDS, MOVE, NAMESPACES, NOW, ON_LOST, PODS, TENANTS, BenchPool
from hack.bench.meter import memory_bytes
from hack.bench.pod_bench import PodBench
from vcsync.api.objects import NamespacePlacement, VirtualCluster
from vcsync.api.specs import VirtualClusterSpec
from vcsync.nsscheduler.departures import Waves
from vcsync.nsscheduler.reconcile import Inputs, Plan, finalizers_for, reconcile
from vcsync.objects.envelope import Envelope
from vcsync.podscheduler.pods import Pod
from vcsync.process import loop
from vcsync.scheduling.ledger import Entry, Key, Ledger
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.slices import DEFAULT_SLICE
from vcsync.scheduling.snapshot import SuperView

SUPERS = (10, 100)
"""Sizes of the pool that are measured, in super clusters."""
_HARD = {"cpu": "4", "memory": "8Gi"}
_DEFAULT_SIZE = from_quantities(DEFAULT_SLICE)


class Speed(Struct, frozen=True):
    """CPU seconds of one pool's decisions.

    Attributes:
        supers: number of super clusters.
        namespaces: number of namespaces.
        pods: number of Pods.
        placing: of placing all namespaces.
        deciding_again: of deciding on all namespaces again, which changes nothing.
        pods_seen: of reading and counting all new Pods.
        pods_decided: of deciding on all Pods, and reading the answers of the writes.
        pods_bound: of reading and counting all Pods again, now bound.
        memory: bytes of memory that all Pods take in the Pod scheduler.
        loss: the loss of one super cluster.
    """

    supers: int
    namespaces: int
    pods: int
    placing: float
    deciding_again: float
    pods_seen: float
    pods_decided: float
    pods_bound: float
    memory: int
    loss: Loss


class Loss(Struct, frozen=True):
    """CPU seconds of all decisions about a lost super cluster, without the time between two waves.

    Attributes:
        pods: number of Pods there.
        namespaces: number of namespaces there.
        marking: of marking its Pods.
        slices: of moving its namespaces' slices, wave by wave.
        evictions: of choosing the Pods to evict, wave by wave.
        replacing: of reading the Pods that replace them, and deciding on these.
    """

    pods: int
    namespaces: int
    marking: float
    slices: float
    evictions: float
    replacing: float

    @property
    def total(self) -> float:
        """CPU seconds of everything."""
        return self.marking + self.slices + self.evictions + self.replacing


def measure_all(say: Callable[[str], None]) -> list[Speed]:
    """Measure each size of the pool in a process of its own, so that none finds the freed memory of another."""
    found = []
    for supers in SUPERS:
        say(f"cores of the schedulers: {supers} super clusters, {TENANTS * NAMESPACES * PODS} Pods")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            found.append(process.submit(_measure_alone, supers).result())
    return found


def _measure_alone(supers: int) -> Speed:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    loop.tune_gc()  # as every role does
    return measure(supers)


def measure(supers: int, tenants: int = TENANTS) -> Speed:
    """Measure one pool.

    Args:
        supers: number of super clusters.
        tenants: number of tenants.
    """
    pool = BenchPool(supers, tenants)
    namespaces = NamespaceBench(pool)
    placing = _seconds(namespaces.decide_all)
    again = _seconds(namespaces.decide_all)
    pods = PodBench(pool)
    for key, plan in namespaces.plans.items():
        pods.grant(key, plan)
    before = _memory()
    seen = _seconds(pods.create_all)
    decided = _seconds(pods.work_off)
    bound = _seconds(pods.bind_all)
    memory = _memory() - before
    loss = _lose(pool, namespaces, pods)
    count = len(namespaces.plans)
    return Speed(supers, count, count * PODS, placing, again, seen, decided, bound, memory, loss)


def _seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _memory() -> int:
    gc.collect()
    return memory_bytes(os.getpid())


class NamespaceBench:
    """The namespace scheduler's core: the ledger, and one decision for each namespace.

    Attributes:
        plans: the last decision on each namespace.
        ledger: the slices of all namespaces.
    """

    def __init__(self, pool: BenchPool) -> None:
        self._pool = pool
        self.ledger = Ledger()
        self.plans: dict[Key, Plan] = {}
        self._entries: dict[Key, NamespacePlacement] = {}
        self._owners: dict[str, VirtualCluster] = {}
        self._namespaces: dict[Key, Envelope] = {}
        self._at_first: dict[Key, Mapping[str, SuperView]] = {}
        first = [pool.at_first(index) for index in (0, 1)]
        for index, key in enumerate(pool.namespaces()):
            tenant, namespace = key
            spec = VirtualClusterSpec(failover=MOVE)
            self._owners[tenant] = VirtualCluster(name=tenant, namespace=tenant, uid=tenant, spec=spec)
            self._namespaces[key] = Envelope(namespace, uid=f"{tenant}/{namespace}")
            self._at_first[key] = first[index % ON_LOST != 0]

    def decide_all(self) -> None:
        """Decide on all namespaces, in order."""
        for key in self._namespaces:
            self.decide(key, self._at_first[key], {})

    def decide(self, key: Key, views: Mapping[str, SuperView], leaving: Mapping[str, int]) -> None:
        """Decide on a namespace, and count the decision."""
        present = self._entries.get(key)
        plan = reconcile(
            Inputs(
                key,
                self._owners[key[0]],
                self._namespaces[key],
                (_HARD,),
                present,
                views,
                self.ledger,
                _DEFAULT_SIZE,
                "spread",
                NOW,
                leaving,
            )
        )
        assert plan.spec is not None  # noqa: S101 - every namespace has a quota
        assert plan.status is not None  # noqa: S101
        self.plans[key] = plan
        self.ledger.put(key, Entry(plan.size, plan.placements or {}, plan.clearing))
        self._entries[key] = NamespacePlacement(
            name=key[1],
            namespace=key[0],
            finalizers=finalizers_for(present, plan.status),
            spec=plan.spec,
            status=plan.status,
        )

    def move(self) -> list[Key]:
        """Let all namespaces leave the lost super clusters, wave by wave, and return them in the order of the decisions."""
        return asyncio.run(self._move())

    async def _move(self) -> list[Key]:
        queue: deque[Key] = deque()
        moved: list[Key] = []
        waves = Waves(
            self._pool,  # type: ignore[arg-type]  # the parts of a pool that waves use
            self.ledger,
            lambda tenant: self._owners[tenant].spec.failover,
            _no_claims,
            queue.append,
            Random(1),  # noqa: S311 - no secret
            lambda: 0.0,
        )
        for _ in range(MOST_ROUNDS):
            await waves.look()
            if not queue:
                return moved
            while queue:
                key = queue.popleft()
                leaving = waves.departures.leaving(key)
                self.decide(key, self._pool.views, leaving)
                waves.departures.note_tried(key)
                moved.append(key)
        raise AssertionError("the waves do not end")


async def _no_claims(_key: Key, _super_id: str) -> int:
    return 0


def _lose(pool: BenchPool, namespaces: NamespaceBench, pods: PodBench) -> Loss:
    """Lose a super cluster, and decide on everything that was there."""
    there = len(namespaces.ledger.on(LOST))
    count = pods.homes()[LOST]
    pool.lose()
    marking = _seconds(pods.mark)
    moved: list[Key] = []
    slices = _seconds(lambda: moved.extend(namespaces.move()))
    for key in moved:
        pods.grant(key, namespaces.plans[key])
    evicted: list[tuple[str, Pod]] = []
    evictions = _seconds(lambda: evicted.extend(pods.evict()))
    replacing = _seconds(lambda: pods.replace(evicted))
    left = pods.homes()
    if len(evicted) != count or left.get("") or left.get(LOST) or namespaces.ledger.on(LOST):
        raise AssertionError(f"{len(evicted)} of {count} Pods left, and {left.get('', 0)} wait")
    return Loss(count, there, marking, slices, evictions, replacing)
