"""Virtual nodes: the Nodes that a tenant sees for the nodes of its Pods. Pure; the engine writes and removes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from vcsync.api import names
from vcsync.api.without_effect import CORDONED, LABELLED, TAINTED, chosen_labels, scheduling_taints
from vcsync.kube.resources import NODES
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.syncer.kinds import shown_nodes
from vcsync.syncer.kinds.plan import TenantContext

Json = dict[str, Any]

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
NODE_REMOVED: Final = "NodeRemoved"
"""Reason of a virtual node's Ready condition: the super cluster's node is gone."""
_COPIED_LABELS: Final = ("kubernetes.io/os", "kubernetes.io/arch")
_PUBLIC_NODE_INFO: Final = (
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_PRIVATE_NODE_INFO: Final = ("machineID", "systemUUID", "bootID")
"""Fields that the API requires, by which tenants could recognise a machine. They are empty."""
_KUBELET_FIELDS: Final = ("addresses", "allocatable", "capacity", "daemonEndpoints", "nodeInfo")
NO_KUBELET_PORT: Final = 65536
"""An invalid port, so that no API server connects to it.

Addresses of virtual nodes belong to another network. For logs and exec, a tenant's own kube-apiserver would connect to any
host with that address, send its client certificate, and wait long if there is no answer.
"""
NO_KUBELET_HOST: Final = "logs-do-not-reach-the-clusters-of-your-operator.invalid"
"""The host name that a kube-apiserver names first when it cannot call that port, and so the reason that `kubectl logs` prints.

The name is never resolved: Go refuses the port first, and no name ends in `.invalid` (RFC 2606).
"""


class _Spec(Struct):
    unschedulable: bool = False
    taints: list[Json] = field(default_factory=list)


class _Status(Struct):
    conditions: list[Condition] = field(default_factory=list)


def virtual_node(p: Envelope, context: TenantContext) -> Json:
    """Return the Node to create in the tenant for a super cluster's node.

    Args:
        p: the super cluster's node.
        context: the tenant's settings, with the labels and taints that the operator shows.

    Raises:
        InvalidName: the virtual node's name would be too long.
    """
    name = names.virtual_node_name(p.name, context.super_id)
    spec: Json = {}
    theirs = decode(p.spec, _Spec)
    if theirs.unschedulable:
        spec["unschedulable"] = True
    if taints := shown_nodes.taints(theirs.taints, context.shown_nodes):
        spec["taints"] = taints
    metadata: Json = {"name": name, "labels": _labels(p, name, context)}
    if shown := shown_nodes.annotation(shown_nodes.labels(p, context.shown_nodes), taints):
        metadata["annotations"] = {names.SHOWN: shown}
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": metadata,
        "spec": spec,
        "status": _status(p, context),
    }


def node_status_patch(v: Envelope, p: Envelope, context: TenantContext, now: str) -> Json | None:
    """Return the merge patch of a virtual node (subresource status) if its node differs; None if it does not.

    Heartbeat times of conditions are ignored, since the virtual node's Lease is its heartbeat.

    Args:
        v: the virtual node.
        p: the super cluster's node.
        context: the tenant's settings.
        now: RFC 3339 time, which becomes the heartbeat time of the conditions if they are written.
    """
    have: Json = untyped(v.status)
    want = _status(p, context)
    patch: Json = {}
    for resources in ("capacity", "allocatable"):
        if changed := _map_change(want.get(resources) or {}, have.get(resources) or {}):
            patch[resources] = changed
    if changed := _map_change(want["nodeInfo"], have.get("nodeInfo") or {}):
        patch["nodeInfo"] = changed
    if want["addresses"] != (have.get("addresses") or []):
        patch["addresses"] = want["addresses"]
    if want["daemonEndpoints"] != have.get("daemonEndpoints"):
        patch["daemonEndpoints"] = want["daemonEndpoints"]
    if _material(want["conditions"]) != _material(have.get("conditions") or []):
        patch["conditions"] = [{**condition, "lastHeartbeatTime": now} for condition in want["conditions"]]
    return {"status": patch} if patch else None


def readiness(node: Envelope) -> str:
    """Return the status of a node's Ready condition; "" if it has none."""
    conditions = decode(node.status, _Status).conditions
    return next((each.status for each in conditions if each.type == "Ready"), "")


def kubelet_fields_changed(old: Envelope, new: Envelope) -> bool:
    """Return whether two states of a virtual node differ in what nobody but a kubelet reports: its address and its amounts."""
    if old.status == new.status:
        return False
    before, after = untyped(old.status), untyped(new.status)
    return any(before.get(each) != after.get(each) for each in _KUBELET_FIELDS)


def node_gone_patch(v: Envelope, now: str) -> Json | None:
    """Return the merge patch (subresource status) of a virtual node whose node has been removed; None if it is up to date.

    The virtual node remains until the super cluster has deleted its Pods.

    Args:
        v: the virtual node.
        now: RFC 3339 time.
    """
    return _unknown_patch(v, NODE_REMOVED, "the node has been removed from its cluster", now)


def node_lost_patch(v: Envelope, out_of_touch: str, now: str) -> Json | None:
    """Return the merge patch (subresource status) of a virtual node whose super cluster is lost; None if it is up to date.

    Args:
        v: the virtual node.
        out_of_touch: since when nobody knows what happens there, in words.
        now: RFC 3339 time.
    """
    return _unknown_patch(v, names.SUPER_CLUSTER_LOST, f"its cluster is lost: {out_of_touch}", now)


def _unknown_patch(v: Envelope, reason: str, message: str, now: str) -> Json | None:
    have: list[Json] = untyped(v.status).get("conditions") or []
    unknown = {"type": "Ready", "status": "Unknown", "reason": reason, "message": message}
    others = [condition for condition in have if condition.get("type") != "Ready"]
    if _material([*others, unknown]) == _material(have):
        return None
    return {
        "status": {"conditions": [*others, {**unknown, "lastHeartbeatTime": now, "lastTransitionTime": now}]}
    }


def node_patch(v: Envelope, p: Envelope, context: TenantContext) -> Json | None:
    """Return the merge patch of a virtual node's spec and labels; None if they are up to date.

    Other labels and taints, which the tenant and its node controller add, are kept.

    Args:
        v: the virtual node.
        p: the super cluster's node.
        context: the tenant's settings.
    """
    patch: Json = {}
    wanted = _labels(p, v.name, context)
    labels = _map_change(wanted, v.labels, remove=False)
    if context.kubelet is None and names.STREAMS in v.labels:
        labels[names.STREAMS] = None
    have, theirs = decode(v.spec, _Spec), decode(p.spec, _Spec)
    spec: Json = {}
    if have.unschedulable != theirs.unschedulable:
        spec["unschedulable"] = theirs.unschedulable or None
    if context.shown_nodes is not None:  # until then, what an earlier process has shown remains
        before = shown_nodes.stated(v)
        labels.update((key, None) for key in before.labels if key in v.labels and key not in wanted)
        shown = shown_nodes.taints(theirs.taints, context.shown_nodes)
        ours = {*before.taints, *context.shown_nodes.taints}
        if [taint for taint in have.taints if taint.get("key") in ours] != shown:
            others = [taint for taint in have.taints if taint.get("key") not in ours]
            spec["taints"] = [*others, *shown] or None
        said = shown_nodes.annotation(shown_nodes.labels(p, context.shown_nodes), shown)
        if v.annotations.get(names.SHOWN, "") != said:
            patch["metadata"] = {"annotations": {names.SHOWN: said or None}}
    if labels:
        patch.setdefault("metadata", {})["labels"] = labels
    if spec:
        patch["spec"] = spec
    return patch or None


def without_effect(old: Envelope, new: Envelope, p: Envelope, context: TenantContext) -> list[str]:
    """Return messages for the tenant about changes of a virtual node that have no effect.

    Fields that are copied from the super cluster's node are not reported, since the syncer writes them.

    Args:
        old: the virtual node before the change.
        new: the virtual node.
        p: the super cluster's node.
        context: the tenant's settings, with the labels and taints that the operator shows.
    """
    before, after, theirs = (decode(each.spec, _Spec) for each in (old, new, p))
    cordoned = after.unschedulable and not before.unschedulable and not theirs.unschedulable
    messages = [CORDONED] if cordoned else []
    taints = scheduling_taints(after.taints) - scheduling_taints(before.taints)
    shown_keys = context.shown_nodes.taints if context.shown_nodes is not None else ()
    if any(key not in shown_keys for key, _ in taints):
        messages.append(TAINTED)
    shown = _labels(p, new.name, context)
    labels = chosen_labels(new.labels) - chosen_labels(old.labels)
    return [*messages, LABELLED] if labels - shown.items() else messages


def _labels(p: Envelope, name: str, context: TenantContext) -> dict[str, str]:
    labels = shown_nodes.labels(p, context.shown_nodes)
    labels |= {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: context.super_id}
    if context.kubelet is not None:
        labels[names.STREAMS] = names.TRUE
    labels.update((label, p.labels[label]) for label in _COPIED_LABELS if label in p.labels)
    labels.pop(HOSTNAME_LABEL, None)
    if len(name) <= names.MAX_LABEL_LENGTH:  # a node's name may be longer than a label's value
        labels[HOSTNAME_LABEL] = name
    return labels


def _status(p: Envelope, context: TenantContext) -> Json:
    theirs: Json = untyped(p.status)
    info = theirs.get("nodeInfo") or {}
    addresses, port = _endpoint(theirs.get("addresses") or [], context)
    return {
        "capacity": theirs.get("capacity") or {},
        "allocatable": theirs.get("allocatable") or {},
        "conditions": theirs.get("conditions") or [],
        "addresses": addresses,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            **{key: info.get(key, "") for key in _PUBLIC_NODE_INFO},
            **dict.fromkeys(_PRIVATE_NODE_INFO, ""),
        },
    }


def _endpoint(theirs: list[Json], context: TenantContext) -> tuple[list[Json], int]:
    """Return the addresses and the port of a virtual node, at which the tenant's kube-apiserver looks for its kubelet.

    Where the syncer serves the kubelet API, its address is the only one: a kube-apiserver takes the first address of the
    types that it prefers.
    """
    if context.kubelet is not None:
        address, port = context.kubelet
        return [{"type": "InternalIP", "address": address}], port
    addresses = [each for each in theirs if each.get("type") == "InternalIP"]
    return [*addresses, {"type": "Hostname", "address": NO_KUBELET_HOST}], NO_KUBELET_PORT


def _material(conditions: list[Json]) -> dict[Any, tuple[Any, ...]]:
    return {
        condition.get("type"): tuple(condition.get(key) or "" for key in ("status", "reason", "message"))
        for condition in conditions
    }


def _map_change(want: Mapping[str, Any], have: Mapping[str, Any], *, remove: bool = True) -> Json:
    change: Json = {key: value for key, value in want.items() if have.get(key) != value}
    if remove:
        change.update((key, None) for key in have if key not in want)
    return change
