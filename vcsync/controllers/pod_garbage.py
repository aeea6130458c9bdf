"""Pods that nobody ends: of nodes that are gone, finished ones above a number, those that no kubelet will stop.

Behaviour: Kubernetes' `pkg/controller/podgc`. One pass for a tenant, at most every 20 s; the number of finished Pods holds
for each tenant.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.controllers import pods
from vcsync.controllers.mirror import Key, namespace_of
from vcsync.controllers.plan import Look, Watch
from vcsync.controllers.waking import standing
from vcsync.controllers.working import Desk, Worker
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.errors import Conflict, NotFound
from vcsync.kube.resources import NAMESPACES, NODES, PODS

NAME = "pod-garbage-collector-controller"
FINISHED_KEPT = 12500
"""`--terminated-pod-gc-threshold`."""
PASS_SECONDS = 20.0
QUARANTINE_SECONDS = 40.0
"""A node must be missing for so long before its Pods are given up: it may only not have been seen yet."""
AT_A_TIME = 500
"""Pods looked at before others have their turn."""
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
    conditions: tuple[pods.Condition, ...] | None = None


class _Found(Struct):
    """What a look through a tenant's Pods found. `lost`: by the node that is missing."""

    finished: list[Envelope]
    stuck: list[Envelope]
    lost: dict[str, list[Envelope]]


class PodGarbage:
    """Looks through tenants' Pods; remembers since when a node has been missing.

    Args:
        kept: finished Pods that a tenant may keep; 0: all.
    """

    def __init__(self, kept: int = FINISHED_KEPT) -> None:
        self._kept = kept
        self._missing: dict[str, dict[str, datetime]] = {}
        self._last: dict[str, datetime] = {}

    async def work(self, desk: Desk, key: Key) -> float | None:
        """Go through the Pods of a tenant once.

        Returns:
            seconds after which to look again: the last pass was just now, or a node's quarantine runs.

        Raises:
            KubeError: a Pod could not be given up.
        """
        now, last = desk.look.now, self._last.get(key.tenant)
        if not any(True for _ in desk.look.of[NAMESPACES].within(key.tenant)):
            self._forget(key.tenant)
            return None
        if last is not None and (passed := (now - last).total_seconds()) < PASS_SECONDS:
            return PASS_SECONDS - passed
        self._last[key.tenant] = now
        found = await _search(desk.look, key.tenant)
        for pod in (*self._superfluous(found.finished), *found.stuck):
            await _give_up(desk.client, pod)
        return await self._orphans(desk, key.tenant, found.lost)

    def _forget(self, tenant: str) -> None:
        """Keep nothing of a tenant that is gone."""
        self._last.pop(tenant, None)
        self._missing.pop(tenant, None)

    def _superfluous(self, finished: list[Envelope]) -> list[Envelope]:
        """Return finished Pods above the number that is kept: evicted ones first, then the oldest."""
        if not self._kept or len(finished) <= self._kept:
            return []
        finished.sort(key=lambda pod: (not _evicted(pod), pod.creation_timestamp, pod.name))
        return finished[: len(finished) - self._kept]

    async def _orphans(self, desk: Desk, tenant: str, lost: Mapping[str, list[Envelope]]) -> float | None:
        """Give up the Pods of nodes that have been missing for long enough."""
        now, since = desk.look.now, self._missing.get(tenant, {})
        missing = {node: since.get(node, now) for node in lost}
        if not missing:
            self._missing.pop(tenant, None)
            return None
        self._missing[tenant] = missing
        for node, its in lost.items():
            ripe = (now - missing[node]).total_seconds() >= QUARANTINE_SECONDS
            if ripe and not await _exists(desk.client, node):
                for pod in its:
                    await _give_up(desk.client, pod, {**_GONE, "lastTransitionTime": pods.told(now)})
        return PASS_SECONDS


async def _search(look: Look, tenant: str) -> _Found:
    """Look through a tenant's Pods; others have their turn in between."""
    found = _Found([], [], {})
    for namespace in look.of[NAMESPACES].within(tenant):
        for position, pod in enumerate(look.of[PODS].within(tenant, namespace.name)):
            if position % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)
            node = pods.spec(pod).node_name
            if pods.status(pod).phase in pods.FINISHED:
                found.finished.append(pod)
            if node and look.of[NODES].get(tenant, "", node) is None:
                found.lost.setdefault(node, []).append(pod)
            elif pod.deleting and _nobody_stops(look, pod):
                found.stuck.append(pod)
    return found


def _evicted(pod: Envelope) -> bool:
    return pods.status(pod).phase == "Failed" and decode(pod.status, _Reason).reason == "Evicted"


def _nobody_stops(look: Look, pod: Envelope) -> bool:
    """Whether no kubelet will ever stop a Pod that is being deleted: it has no node, or one that is out of service."""
    name = pods.spec(pod).node_name
    if not name:
        return True
    node = look.of[NODES].get(pod.tenant, "", name)
    if node is None:
        return False
    ready = pods.condition(decode(node.status, _NodeStatus).conditions, "Ready")
    taints = decode(node.spec, _NodeSpec).taints or ()
    return (ready is None or ready.status != "True") and any(each.key == OUT_OF_SERVICE for each in taints)


async def _exists(client: Client, node: str) -> bool:
    try:
        await client.metadata_only().get(NODES, node)
    except NotFound:
        return False
    return True


async def _give_up(client: Client, pod: Envelope, condition: dict[str, Any] | None = None) -> None:
    """Mark a Pod as failed unless it has finished, so that its owner counts it so, and delete it at once.

    Raises:
        KubeError: it could not be done; that the Pod is gone, or another, is none.
    """
    namespace = namespace_of(pod)
    try:
        if pods.status(pod).phase not in pods.FINISHED:
            status = {"phase": "Failed", **({"conditions": [condition]} if condition else {})}
            patch = {"metadata": {"uid": pod.uid}, "status": status}
            await client.patch(PODS, pod.name, patch, namespace, kind="strategic", subresource="status")
        await client.delete(PODS, pod.name, namespace, uid=pod.uid, grace_seconds=0)
    except (NotFound, Conflict):
        return


def _tenant(change: Change) -> list[Key]:
    return [Key(standing(change).tenant, "", "")]


def _pods(change: Change, look: Look) -> Iterable[Key]:
    """Pods that have finished, that nobody will stop, or whose node is not there."""
    pod = change.new
    if pod is None:
        return ()
    node = pods.spec(pod).node_name
    finished = pods.status(pod).phase in pods.FINISHED
    lost = node and look.of[NODES].get(pod.tenant, "", node) is None
    stuck = pod.deleting and _nobody_stops(look, pod)
    return _tenant(change) if finished or lost or stuck else ()


def _nodes(change: Change, _look: Look) -> Iterable[Key]:
    """Nodes that are gone, or out of service by now."""
    new = change.new
    if new is None or any(each.key == OUT_OF_SERVICE for each in decode(new.spec, _NodeSpec).taints or ()):
        return _tenant(change)
    return ()


def pod_garbage_collector(kept: int = FINISHED_KEPT) -> Worker:
    """Return the controller; `kept`: finished Pods that a tenant may keep, 0: all."""
    return Worker(
        NAME, (Watch(NODES, _nodes), Watch(PODS, _pods)), PodGarbage(kept).work, reads=(NAMESPACES,)
    )
