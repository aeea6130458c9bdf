"""The Pod scheduler's core in the benchmark: the Pods of all tenants, and control planes that answer its writes."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

from hack.bench.bench_pool import LOST, MOST_ROUNDS, MOVE, NOW, PODS, BenchPool
from vcsync.api import names
from vcsync.kube.cache import Cache
from vcsync.nsscheduler.reconcile import Plan
from vcsync.objects.envelope import Envelope, parse
from vcsync.podscheduler.evictions import Evictions, Stand
from vcsync.podscheduler.pods import Key as PodKey
from vcsync.podscheduler.pods import Pod, lost, slim
from vcsync.podscheduler.tenant import TenantPods
from vcsync.scheduling.ledger import Key

_REQUESTS = {"cpu": "180m", "memory": "360Mi"}


class PodBench:
    """The Pod scheduler's core: the Pods of all tenants, and a queue.

    Attributes:
        tenants: the tenants' Pods.
    """

    def __init__(self, pool: BenchPool) -> None:
        self._pool = pool
        self._queue: deque[tuple[TenantPods, PodKey]] = deque()
        self._writers: dict[str, _Writer] = {}
        self.tenants: dict[str, TenantPods] = {}
        for number in range(pool.tenants):
            tenant = f"tenant-{number:04}"
            writer = self._writers[tenant] = _Writer()
            writer.pods = self.tenants[tenant] = self._tenant(writer)
            writer.pods.begin()

    def _tenant(self, writer: _Writer) -> TenantPods:
        def add(key: PodKey, _urgent: bool) -> None:
            assert writer.pods is not None  # noqa: S101 - set right after
            self._queue.append((writer.pods, key))

        return TenantPods(writer, lambda: self._pool.views, add, lambda _key, _delay: None, clock=lambda: 0.0)

    def grant(self, key: Key, plan: Plan) -> None:
        """Give a namespace the slices of a decision."""
        self.tenants[key[0]].grant(key[1], plan.size, plan.placements or {})

    def create_all(self) -> None:
        """Show all Pods to the scheduler."""
        for tenant, namespace in self._pool.namespaces():
            for number in range(PODS):
                self._writers[tenant].store(_body(namespace, f"web-{number:02}"))

    def work_off(self) -> None:
        """Work the queue off."""
        asyncio.run(self._work_off())

    async def _work_off(self) -> None:
        while self._queue:
            pods, key = self._queue.popleft()
            if key[1]:
                await pods.schedule(key)
            else:
                pods.wake(key[0])

    def bind_all(self) -> None:
        """Show all Pods as bound."""
        for writer in self._writers.values():
            for pod in list(_unbound(writer)):
                writer.store(
                    _body(pod.namespace, pod.name, pod.uid, home=pod.label, node=f"node-1.{pod.label}")
                )

    def mark(self) -> None:
        """Mark the Pods on the super cluster that has been lost."""
        for pods in self.tenants.values():
            pods.pool_changed(frozenset({LOST}))
        self.work_off()

    def evict(self) -> list[tuple[str, Pod]]:
        """Evict all Pods that have to leave, wave by wave, and return them with their tenants."""
        return asyncio.run(self._evict())

    async def _evict(self) -> list[tuple[str, Pod]]:
        evictions = Evictions(
            self._pool,  # type: ignore[arg-type]  # the parts of a pool that evictions use
            _not_fenced,
            self._stands,
            Random(1),  # noqa: S311 - no secret
            lambda: 0.0,
        )
        for _ in range(MOST_ROUNDS):
            before = evictions.counts["evicted"]
            steps: list[Coroutine[Any, Any, None]] = []
            evictions.look(steps.append)
            for step in steps:
                await step
            if evictions.counts["evicted"] == before:
                return [(tenant, pod) for tenant, writer in self._writers.items() for pod in writer.evicted]
        raise AssertionError("the evictions do not end")

    def _stands(self) -> dict[str, Stand]:
        return {
            tenant: Stand(
                MOVE,
                pods.accounting.pods.values,
                pods.accounting.capacities,
                lambda _namespace, _super_id: [],
                self._writers[tenant],
            )
            for tenant, pods in self.tenants.items()
        }

    def replace(self, evicted: list[tuple[str, Pod]]) -> None:
        """Show a new Pod for each that was evicted, and decide on it."""
        for tenant, pod in evicted:
            self._writers[tenant].store(_body(pod.namespace, f"{pod.name}-again"))
        self.work_off()

    def homes(self) -> dict[str, int]:
        """Return the number of Pods by super cluster, without those that are being deleted; the empty id for those that wait."""
        found: dict[str, int] = {}
        for pods in self.tenants.values():
            for pod in pods.accounting.pods.values():
                if not pod.deleting:
                    found[pod.label] = found.get(pod.label, 0) + 1
        return found


async def _not_fenced(_super_id: str) -> bool:
    return False


def _unbound(writer: _Writer) -> Iterator[Pod]:
    assert writer.pods is not None  # noqa: S101 - set with the writer
    return (pod for pod in writer.pods.accounting.pods.values() if not pod.needs.node)


class _Writer:
    """Stands for one tenant's control plane: a write is answered with the object, which is parsed as from a server.

    Attributes:
        pods: the scheduler's Pods of the tenant.
        evicted: Pods that were evicted.
    """

    def __init__(self) -> None:
        self.pods: TenantPods | None = None
        self.evicted: list[Pod] = []
        self._cache = Cache()
        self._version = 0

    def store(self, body: dict[str, Any]) -> None:
        """Let the scheduler see a Pod in a new version."""
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        change = self._cache.observe(slim(parse(json.dumps(body).encode())))
        assert change is not None  # noqa: S101 - each version is new
        assert self.pods is not None  # noqa: S101
        self.pods.observe(change)

    async def patch(self, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Assign a Pod."""
        home = change["metadata"]["labels"][names.SUPER_CLUSTER]
        self.store(_body(namespace, name, change["metadata"]["uid"], home=home))

    async def may_run(self, namespace: str, super_id: str) -> bool:
        """Fail: nothing here moves a Pod away from its super cluster."""
        raise AssertionError(f"a Pod of {namespace} leaves {super_id}")

    async def patch_status(self, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Mark a Pod as lost, or as waiting."""
        assert self.pods is not None  # noqa: S101
        pod = self.pods.accounting.pods[namespace, name]
        body = _body(namespace, name, pod.uid, home=pod.label, node=pod.needs.node)
        self.store({**body, "status": change["status"]})

    async def evict(self, pod: Pod, why: str) -> bool:
        """Evict a Pod, which remains, since nobody knows of its end."""
        del why
        body = _body(pod.namespace, pod.name, pod.uid, home=pod.label, node=pod.needs.node)
        body["metadata"]["deletionTimestamp"] = NOW
        self.store({**body, "status": lost(pod, "", NOW)["status"]})
        self.evicted.append(pod)
        return True

    async def delete(self, pod: Pod, why: str) -> None:
        """Take no part."""
        raise AssertionError(f"{pod.name}: {why}")

    async def confirm(self, pod: Pod, why: str) -> None:
        """Take no part."""
        raise AssertionError(f"{pod.name}: {why}")

    async def patch_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        """Take no part."""
        raise AssertionError(f"{claim.name}: {change}")

    async def patch_device_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        """Take no part."""
        raise AssertionError(f"{claim.name}: {change}")

    async def still_holds(self, namespace: str, super_id: str) -> bool:
        """Take no part."""
        raise AssertionError(f"{namespace}: {super_id}")

    def gone(self, namespace: str, name: str, uid: str) -> None:
        """Take no part."""
        raise AssertionError(f"{namespace}/{name}: {uid}")

    def emit(self, pod: Pod, message: str) -> None:
        """Drop an Event."""


def _body(namespace: str, name: str, uid: str = "", *, home: str = "", node: str = "") -> dict[str, Any]:
    """Return a Pod as a Deployment's controller makes it, and its API server completes it."""
    marks = {names.SUPER_CLUSTER: home} if home else {}
    container = {
        "name": "web",
        "image": "registry.example.com/web:1",
        "resources": {"requests": _REQUESTS},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"2f1c0d6e-8a3b-4c5d-9e7f-{namespace}-{name}",
            "labels": {"app": "web", **marks},
            "annotations": marks,
            "creationTimestamp": NOW,
        },
        "spec": {
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "priority": 0,
            "enableServiceLinks": True,
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
