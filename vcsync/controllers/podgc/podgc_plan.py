"""Garbage collection of Pods: of missing nodes, finished ones above a limit, and those that no kubelet will stop.

Behaviour: Kubernetes' `pkg/controller/podgc`. A tenant is processed at most every 20 s. The limit of finished Pods applies
to each tenant.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key, namespace_of
from vcsync.controllers.framework.plan import View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, NotFound
from vcsync.kube.resources import NAMESPACES, NODES, PODS
from vcsync.objects.conditions import Condition, find_condition
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.times import time_text

NAME = "pod-garbage-collector-controller"
FINISHED_KEPT = 12500
"""`--terminated-pod-gc-threshold`."""
PASS_SECONDS = 20.0
QUARANTINE_SECONDS = 40.0
"""Seconds that a node must be missing before its Pods are deleted: this process may not have seen a new node yet."""
AT_A_TIME = 500
"""Number of Pods that are processed before the event loop runs other tasks."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_GONE = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}


class _Reason(Struct):
    reason: str = ""


class _Taint(Struct):
    key: str = ""


class _NodeSpec(Struct):
    taints: tuple[_Taint, ...] | None = None


class _NodeStatus(Struct):
    conditions: tuple[Condition, ...] | None = None


class _Found(Struct):
    """The result of a pass over a tenant's Pods. `lost`: Pods by their missing node."""

    finished: list[Envelope]
    stuck: list[Envelope]
    lost: dict[str, list[Envelope]]


class PodGarbage:
    """Processes the Pods of tenants; remembers since when nodes have been missing.

    Args:
        kept: finished Pods that a tenant may keep; 0: all.
    """

    def __init__(self, kept: int = FINISHED_KEPT) -> None:
        self._kept = kept
        self._missing: dict[str, dict[str, datetime]] = {}
        self._last: dict[str, datetime] = {}

    async def work(self, context: ReconcileContext, key: Key) -> float | None:
        """Process the Pods of a tenant once.

        Returns:
            seconds until the next pass: the last one was recent, or a node's quarantine runs.

        Raises:
            KubeError: a Pod could not be deleted.
        """
        now, last = context.view.now, self._last.get(key.tenant)
        if not any(True for _ in context.view.of[NAMESPACES].within(key.tenant)):
            self._forget(key.tenant)
            return None
        if last is not None and (passed := (now - last).total_seconds()) < PASS_SECONDS:
            return PASS_SECONDS - passed
        self._last[key.tenant] = now
        found = await _search(context.view, key.tenant)
        for pod in (*self._superfluous(found.finished), *found.stuck):
            await _give_up(context, pod)
        return await self._orphans(context, key.tenant, found.lost)

    def _forget(self, tenant: str) -> None:
        """Forget a tenant that is gone."""
        self._last.pop(tenant, None)
        self._missing.pop(tenant, None)

    def _superfluous(self, finished: list[Envelope]) -> list[Envelope]:
        """Return finished Pods above the limit: evicted ones first, then the oldest."""
        if not self._kept or len(finished) <= self._kept:
            return []
        finished.sort(key=lambda pod: (not _evicted(pod), pod.creation_timestamp, pod.name))
        return finished[: len(finished) - self._kept]

    async def _orphans(
        self, context: ReconcileContext, tenant: str, lost: Mapping[str, list[Envelope]]
    ) -> float | None:
        """Delete the Pods of nodes that have been missing for long enough."""
        now, since = context.view.now, self._missing.get(tenant, {})
        missing = {node: since.get(node, now) for node in lost}
        if not missing:
            self._missing.pop(tenant, None)
            return None
        self._missing[tenant] = missing
        for node, its in lost.items():
            ripe = (now - missing[node]).total_seconds() >= QUARANTINE_SECONDS
            if ripe and not await _exists(context.client, node):
                for pod in its:
                    await _give_up(context, pod, {**_GONE, "lastTransitionTime": time_text(now)})
        return PASS_SECONDS


async def _search(view: View, tenant: str) -> _Found:
    """Examine a tenant's Pods; regularly yields to the event loop."""
    found = _Found([], [], {})
    for namespace in view.of[NAMESPACES].within(tenant):
        for position, pod in enumerate(view.of[PODS].within(tenant, namespace.name)):
            if position % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)
            node = pods.spec(pod).node_name
            if pods.status(pod).phase in pods.FINISHED:
                found.finished.append(pod)
            if node and view.of[NODES].get(tenant, "", node) is None:
                found.lost.setdefault(node, []).append(pod)
            elif pod.deleting and _nobody_stops(view, pod):
                found.stuck.append(pod)
    return found


def _evicted(pod: Envelope) -> bool:
    return pods.status(pod).phase == "Failed" and decode(pod.status, _Reason).reason == "Evicted"


def _nobody_stops(view: View, pod: Envelope) -> bool:
    """Return whether no kubelet will ever stop a Pod being deleted: it has no node, or the node is out of service."""
    name = pods.spec(pod).node_name
    if not name:
        return True
    node = view.of[NODES].get(pod.tenant, "", name)
    if node is None:
        return False
    ready = find_condition(decode(node.status, _NodeStatus).conditions, "Ready")
    taints = decode(node.spec, _NodeSpec).taints or ()
    return (ready is None or ready.status != "True") and any(each.key == OUT_OF_SERVICE for each in taints)


async def _exists(client: Client, node: str) -> bool:
    try:
        await client.metadata_only().get(NODES, node)
    except NotFound:
        return False
    return True


async def _give_up(context: ReconcileContext, pod: Envelope, condition: dict[str, Any] | None = None) -> None:
    """Mark a Pod as failed unless it has finished, so that its owner counts it as failed, and delete it immediately.

    Raises:
        KubeError: a write failed. A Pod that is gone or replaced raises none.
    """
    namespace = namespace_of(pod)
    try:
        if pods.status(pod).phase not in pods.FINISHED:
            status = {"phase": "Failed", **({"conditions": [condition]} if condition else {})}
            patch = {"metadata": {"uid": pod.uid}, "status": status}
            await context.client.patch(
                PODS, pod.name, patch, namespace, kind="strategic", subresource="status"
            )
        await context.client.delete(PODS, pod.name, namespace, uid=pod.uid, grace_seconds=0)
    except (NotFound, Conflict):
        return
    context.note(ObjectName(PODS.plural, namespace, pod.name), "deleted", pod.resource_version)


def _tenant(change: Change) -> list[Key]:
    return [Key(standing(change).tenant, "", "")]


def _pods(change: Change, view: View) -> Iterable[Key]:
    """Return Pods that have finished, that no kubelet will stop, or whose node is missing."""
    pod = change.new
    if pod is None:
        return ()
    node = pods.spec(pod).node_name
    finished = pods.status(pod).phase in pods.FINISHED
    lost = node and view.of[NODES].get(pod.tenant, "", node) is None
    stuck = pod.deleting and _nobody_stops(view, pod)
    return _tenant(change) if finished or lost or stuck else ()


def _nodes(change: Change, _look: View) -> Iterable[Key]:
    """Return nodes that are gone, or that are now out of service."""
    new = change.new
    if new is None or any(each.key == OUT_OF_SERVICE for each in decode(new.spec, _NodeSpec).taints or ()):
        return _tenant(change)
    return ()


def pod_garbage_collector(kept: int = FINISHED_KEPT) -> Worker:
    """Return the controller; `kept`: number of finished Pods that a tenant may keep, 0: all."""
    return Worker(
        NAME, (Watch(NODES, _nodes), Watch(PODS, _pods)), PodGarbage(kept).work, reads=(NAMESPACES,)
    )
