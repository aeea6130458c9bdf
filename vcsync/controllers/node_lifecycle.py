"""Nodes that give no sign of life: said to be unknown, tainted, and their Pods no longer ready.

Behaviour: Kubernetes' `pkg/controller/nodelifecycle`, the default settings. A node shows that it lives by its Lease or by
its status. How long it has been silent counts from when this process saw it last: a restart begins anew. Where a Lease
says that it holds for longer than the usual grace, that counts: who beats for thousands of nodes beats rarely.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.controllers import node_taints, pods
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.plan import NOTHING, Action, Controller, Emit, Look, Patch, Plan, Watch
from vcsync.controllers.waking import standing
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import LEASES, NAMESPACES, NODES, PODS

NAME = "node-lifecycle-controller"
GRACE_SECONDS, STARTUP_SECONDS = 50.0, 60.0
"""How long a node may be silent; one whose status nobody has written yet."""
LOOK_SECONDS = 5.0
"""How often a node that is not ready is looked at: what becomes of it depends on the others."""
EVICTION_SECONDS, FEW_EVICTIONS_SECONDS = 10.0, 100.0
"""Between two nodes of a zone whose Pods are driven off; in a zone most of which has failed."""
LEASE_NAMESPACE = "kube-node-lease"
BEATEN = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that a kubelet tells."""


class _Condition(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_heartbeat_time: str | None = None


class _Status(Struct):
    conditions: tuple[_Condition, ...] | None = None


class _LeaseSpec(Struct, rename="camel"):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class NodeLifecycle:
    """Remembers when nodes were last heard of, and when a zone's last node was given up."""

    def __init__(self) -> None:
        self._heard: dict[Key, datetime] = {}
        self._given_up: dict[tuple[str, str], datetime] = {}

    def plan(self, look: Look, key: Key) -> Plan:
        """Say what is to be said of a node."""
        node = look.of[NODES].get(key.tenant, "", key.name)
        if node is None:
            self._heard.pop(key, None)
            return NOTHING
        told = _conditions(node)
        if "Ready" in told:
            heard, grace = self._heard.setdefault(key, look.now), _grace(look, key)
        else:
            heard = self._heard.setdefault(key, pods.moment(node.creation_timestamp))
            grace = STARTUP_SECONDS
        left = grace - (look.now - heard).total_seconds()
        silent = left <= 0
        ready = "Unknown" if silent else told.get("Ready", "")
        steps: list[Sequence[Action]] = []
        if silent and told.get("Ready") != "Unknown":
            if told.get("Ready") == "True":
                steps += [_unready(look, node), [_event(node)]]
            steps.append([_unknown(look, node, told)])
            told |= dict.fromkeys(BEATEN, "Unknown")
        give_up = ready not in ("True", "") and self._gives_up(look, node)
        taints = node_taints.wanted(node, told, evicting=give_up, now=pods.told(look.now))
        if taints is not None:
            # All taints are written together: none that somebody sets meanwhile may be lost. What we say ourselves
            # just before makes another version.
            metadata = {"uid": node.uid} | ({} if steps else {"resourceVersion": node.resource_version})
            steps.append(
                [Patch(NODES, "", key.name, {"metadata": metadata, "spec": {"taints": taints or None}})]
            )
        return Plan(steps, again=LOOK_SECONDS if silent or ready != "True" else left)

    def _gives_up(self, look: Look, node: Envelope) -> bool:
        """Whether the Pods of a node that is not ready are to be driven off now.

        Nothing is wrong with nodes that have failed all together, but with the way to them. One by one in each zone
        otherwise, so that what is wrong with many can be noticed.
        """
        ready, failed = 0, 0
        anywhere = False
        for other in look.of[NODES].within(node.tenant):
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
        if last is not None and (look.now - last).total_seconds() < pause:
            return False
        self._given_up[place] = look.now
        return True

    def node(self, change: Change, look: Look) -> Iterable[Key]:
        """The node itself; a status that was told anew is a sign of life."""
        key = key_of(standing(change))
        if change.new is not None and _beat(change.new) != _beat(change.old):
            self._heard[key] = look.now
        return [key]

    def lease(self, change: Change, look: Look) -> Iterable[Key]:
        """The node that a Lease is of, if it was not known to live; a Lease that was renewed is a sign of life."""
        lease = standing(change)
        if namespace_of(lease) != LEASE_NAMESPACE or change.new is None:
            return ()
        if change.old is not None and _renewed(change.old) == _renewed(change.new):
            return ()
        key = Key(lease.tenant, "", lease.name)
        node = look.of[NODES].get(lease.tenant, "", lease.name)
        if node is None:
            return ()
        self._heard[key] = look.now
        return () if _conditions(node).get("Ready") == "True" else [key]


def _conditions(node: Envelope) -> dict[str, str]:
    """Return the status of each of a node's conditions."""
    return {each.type: each.status for each in decode(node.status, _Status).conditions or ()}


def _beat(node: Envelope | None) -> str | None:
    """Return when a node's status was told last, as it says itself."""
    if node is None:
        return None
    told = decode(node.status, _Status).conditions or ()
    return next((each.last_heartbeat_time or "" for each in told if each.type == "Ready"), None)


def _renewed(lease: Envelope) -> str | None:
    return decode(lease.spec, _LeaseSpec).renew_time


def _grace(look: Look, key: Key) -> float:
    lease = look.of[LEASES].get(key.tenant, LEASE_NAMESPACE, key.name)
    holds = decode(lease.spec, _LeaseSpec).lease_duration_seconds if lease is not None else None
    return max(GRACE_SECONDS, float(holds or 0))


def _unknown(look: Look, node: Envelope, told: dict[str, str]) -> Patch:
    """Say that nobody knows how a node is."""
    now = pods.told(look.now)
    stopped = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    never = {
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": node.creation_timestamp,
    }
    conditions: list[dict[str, Any]] = [
        {"type": each, "status": "Unknown", "lastTransitionTime": now, **(stopped if each in told else never)}
        for each in BEATEN
        if told.get(each) != "Unknown"
    ]
    patch = {"metadata": {"uid": node.uid}, "status": {"conditions": conditions}}
    return Patch(NODES, "", node.name, patch, "strategic", "status")


def _event(node: Envelope) -> Emit:
    about = ObjectRef("v1", "Node", node.name, "", node.uid)
    return Emit(about, "Normal", "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")


def _unready(look: Look, node: Envelope) -> list[Action]:
    """Say of the Pods of a node that they are not ready any more."""
    actions: list[Action] = []
    for namespace in look.of[NAMESPACES].within(node.tenant):
        for pod in look.of[PODS].within(node.tenant, namespace.name):
            ready = pods.condition(pods.status(pod).conditions, "Ready")
            if ready is None or ready.status == "False" or pods.spec(pod).node_name != node.name:
                continue
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": pods.told(look.now)}
            patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
            actions.append(Patch(PODS, namespace.name, pod.name, patch, "strategic", "status"))
            about = ObjectRef("v1", "Pod", pod.name, namespace.name, pod.uid)
            actions.append(Emit(about, "Warning", "NodeNotReady", "Node is not ready"))
    return actions


def node_lifecycle() -> Controller:
    """Return the controller."""
    mind = NodeLifecycle()
    return Controller(
        NAME, (Watch(NODES, mind.node), Watch(LEASES, mind.lease)), mind.plan, reads=(NAMESPACES, PODS)
    )
