"""Node lifecycle: silent nodes become unknown and are tainted, and their Pods become not ready.

Behaviour: Kubernetes' `pkg/controller/nodelifecycle` with its default settings. A renewed Lease or a new status is a
heartbeat of a node. Its silence counts from the last heartbeat that this process has seen, so a restart starts the count
again. If a Lease has a duration above the usual grace period, that duration counts: kubelets of thousands of nodes renew
rarely.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import NOTHING, Action, Controller, Emit, Patch, Plan, View, Watch
from vcsync.controllers.node import taints as node_taints
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import LEASES, NAMESPACES, NODES, PODS
from vcsync.objects.conditions import Condition, find_condition
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.times import time_text

NAME = "node-lifecycle-controller"
GRACE_SECONDS, STARTUP_SECONDS = 50.0, 60.0
"""Seconds that a node may be silent, and that a new node may take until its first status."""
RECHECK_SECONDS = 5.0
"""Seconds between two reconciles of a node that is not ready: its handling depends on the other nodes."""
EVICTION_SECONDS, FEW_EVICTIONS_SECONDS = 10.0, 100.0
"""Seconds between the evictions of two nodes of a zone: usually, and where most of a zone has failed."""
LEASE_NAMESPACE = "kube-node-lease"
BEATEN = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that a kubelet reports."""


class _NodeCondition(Condition, rename="camel"):
    last_heartbeat_time: str | None = None


class _Status(Struct):
    conditions: tuple[_NodeCondition, ...] | None = None


class _LeaseSpec(Struct, rename="camel"):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class NodeLifecycle:
    """Remembers the last heartbeat of nodes, and the last eviction of each zone."""

    def __init__(self) -> None:
        self._heard: dict[Key, datetime] = {}
        self._given_up: dict[tuple[str, str], datetime] = {}

    def plan(self, view: View, key: Key) -> Plan:
        """Reconcile a node."""
        node = view.of[NODES].get(key.tenant, "", key.name)
        if node is None:
            self._heard.pop(key, None)
            return NOTHING
        conditions = _conditions(node)
        if "Ready" in conditions:
            heard, grace = self._heard.setdefault(key, view.now), _grace(view, key)
        else:
            heard = self._heard.setdefault(key, pods.moment(node.creation_timestamp))
            grace = STARTUP_SECONDS
        left = grace - (view.now - heard).total_seconds()
        silent = left <= 0
        ready = "Unknown" if silent else conditions.get("Ready", "")
        steps: list[Sequence[Action]] = []
        if silent and conditions.get("Ready") != "Unknown":
            if conditions.get("Ready") == "True":
                steps += [_unready(view, node), [_event(node)]]
            steps.append([_unknown(view, node, conditions)])
            conditions |= dict.fromkeys(BEATEN, "Unknown")
        give_up = ready not in ("True", "") and self._gives_up(view, node)
        taints = node_taints.wanted(node, conditions, evicting=give_up, now=time_text(view.now))
        if taints is not None:
            # All taints are written together. The resourceVersion is a precondition, so that no taint is lost that
            # another client sets meanwhile. It is left out if an earlier step of this plan changes the version.
            metadata = {"uid": node.uid} | ({} if steps else {"resourceVersion": node.resource_version})
            steps.append(
                [Patch(NODES, "", key.name, {"metadata": metadata, "spec": {"taints": taints or None}})]
            )
        return Plan(steps, again=RECHECK_SECONDS if silent or ready != "True" else left)

    def _gives_up(self, view: View, node: Envelope) -> bool:
        """Return whether the Pods of a node that is not ready should be evicted now.

        If all nodes fail, the network has probably failed, and no node is evicted. Otherwise nodes are evicted one by
        one in each zone, so that a failure of many nodes is noticed in time.
        """
        ready, failed = 0, 0
        anywhere = False
        for other in view.of[NODES].within(node.tenant):
            well = _conditions(other).get("Ready") == "True" and other.name != node.name
            anywhere = anywhere or well
            if node_taints.zone(other) == node_taints.zone(node):
                ready, failed = ready + well, failed + (not well)
        if not anywhere:
            return False
        if node_taints.evicting(node):
            return True
        pause = node_taints.pause(ready, failed, EVICTION_SECONDS, FEW_EVICTIONS_SECONDS)
        if pause is None:
            return False
        place = node.tenant, node_taints.zone(node)
        last = self._given_up.get(place)
        if last is not None and (view.now - last).total_seconds() < pause:
            return False
        self._given_up[place] = view.now
        return True

    def node(self, change: Change, view: View) -> Iterable[Key]:
        """Return the node itself; a new status is a heartbeat."""
        key = key_of(standing(change))
        if change.new is not None and _beat(change.new) != _beat(change.old):
            self._heard[key] = view.now
        return [key]

    def lease(self, change: Change, view: View) -> Iterable[Key]:
        """Return the node of a Lease if the node was not ready; a renewed Lease is a heartbeat."""
        lease = standing(change)
        if namespace_of(lease) != LEASE_NAMESPACE or change.new is None:
            return ()
        if change.old is not None and _renewed(change.old) == _renewed(change.new):
            return ()
        key = Key(lease.tenant, "", lease.name)
        node = view.of[NODES].get(lease.tenant, "", lease.name)
        if node is None:
            return ()
        self._heard[key] = view.now
        return () if _conditions(node).get("Ready") == "True" else [key]


def _conditions(node: Envelope) -> dict[str, str]:
    """Return the status of each of a node's conditions."""
    return {each.type: each.status for each in decode(node.status, _Status).conditions or ()}


def _beat(node: Envelope | None) -> str | None:
    """Return the time of a node's last heartbeat according to its status."""
    if node is None:
        return None
    ready = find_condition(decode(node.status, _Status).conditions, "Ready")
    return (ready.last_heartbeat_time or "") if ready is not None else None


def _renewed(lease: Envelope) -> str | None:
    return decode(lease.spec, _LeaseSpec).renew_time


def _grace(view: View, key: Key) -> float:
    lease = view.of[LEASES].get(key.tenant, LEASE_NAMESPACE, key.name)
    holds = decode(lease.spec, _LeaseSpec).lease_duration_seconds if lease is not None else None
    return max(GRACE_SECONDS, float(holds or 0))


def _unknown(view: View, node: Envelope, reported: dict[str, str]) -> Patch:
    """Set the conditions of a silent node to Unknown."""
    now = time_text(view.now)
    stopped = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    never = {
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": node.creation_timestamp,
    }
    conditions: list[dict[str, Any]] = [
        {
            "type": each,
            "status": "Unknown",
            "lastTransitionTime": now,
            **(stopped if each in reported else never),
        }
        for each in BEATEN
        if reported.get(each) != "Unknown"
    ]
    patch = {"metadata": {"uid": node.uid}, "status": {"conditions": conditions}}
    return Patch(NODES, "", node.name, patch, "strategic", "status")


def _event(node: Envelope) -> Emit:
    about = ObjectRef("v1", "Node", node.name, "", node.uid)
    return Emit(about, "Normal", "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")


def _unready(view: View, node: Envelope) -> list[Action]:
    """Set the Pods of a node to not ready."""
    actions: list[Action] = []
    for namespace in view.of[NAMESPACES].within(node.tenant):
        for pod in view.of[PODS].within(node.tenant, namespace.name):
            ready = find_condition(pods.status(pod).conditions, "Ready")
            if ready is None or ready.status == "False" or pods.spec(pod).node_name != node.name:
                continue
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": time_text(view.now)}
            patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
            actions.append(Patch(PODS, namespace.name, pod.name, patch, "strategic", "status"))
            about = ObjectRef("v1", "Pod", pod.name, namespace.name, pod.uid)
            actions.append(Emit(about, "Warning", "NodeNotReady", "Node is not ready"))
    return actions


def node_lifecycle() -> Controller:
    """Return the controller."""
    lifecycle = NodeLifecycle()
    return Controller(
        NAME,
        (Watch(NODES, lifecycle.node), Watch(LEASES, lifecycle.lease)),
        lifecycle.plan,
        reads=(NAMESPACES, PODS),
    )
