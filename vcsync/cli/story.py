"""What is told of a Pod or a namespace in plain words: where it is, why, or what it waits for. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.kube.amounts import readable
from vcsync.scheduling.slices import OBJECTS, PODS

NO_LEDGER = (
    "It has no placement: it has no ResourceQuota on cpu or memory and its tenant no default quota, "
    "or nsscheduler has not come to it yet."
)


def namespace_story(
    name: str, placement: NamespacePlacement | None, supers: Mapping[str, SuperCluster]
) -> list[str]:
    """Tell where a namespace's slices are, and why there.

    Args:
        name: How the user calls it.
        placement: Its ledger entry.
        supers: The super clusters by id.
    """
    if placement is None:
        story = [f"Namespace {name} is placed nowhere.", NO_LEDGER]
        if silent := sorted(
            super_id for super_id, found in supers.items() if not found.status.heartbeat_time
        ):
            story.append(
                f"When the schedulers begin, they wait a few seconds for the first heartbeat of {', '.join(silent)}."
            )
        return story
    spec, status = placement.spec, placement.status
    size = _amounts(spec.slice_size)
    story = [f"Namespace {name} may use {_amounts(spec.quota)}: {_slices(spec.slices)} of {size}."]
    for super_id, slices in sorted(status.placements.items()):
        story.append(
            f"{slices} of them {'is' if slices == 1 else 'are'} on super cluster {super_id}{_health(supers.get(super_id))}."
        )
    for super_id, slices in sorted(spec.pins.items()):
        story.append(f"An operator pinned {slices} of them to {super_id}.")
    if status.waiting:
        story.append(f"{status.waiting} of them wait for a place.")
    for entry in status.explanation:
        if entry.refused_by or not entry.slices:
            reason = entry.reason or "others scored higher"
            story.append(f"Super cluster {entry.super_cluster} got {entry.slices or 'none'}: {reason}.")
    placed = condition_of(status.conditions, "Placed")
    if placed is not None and placed.status != "True":
        story.append(f"{placed.reason}: {placed.message}.")
    story += _draining(placement)
    return story


def _draining(placement: NamespacePlacement) -> list[str]:
    """Tell who has still to clear what."""
    holders = sorted(filter(None, map(names.super_id_of_finalizer, placement.finalizers)))
    if placement.deleting:
        return [f"Its placement is being removed; to be cleared first: {', '.join(holders) or 'nothing'}."]
    leaving = [super_id for super_id in holders if not placement.status.placements.get(super_id)]
    story = [f"Super cluster {super_id} is still clearing what it held of it." for super_id in leaving]
    for super_id, amounts in sorted(placement.status.clearing.items()):
        if placement.status.placements.get(super_id):
            more = _amounts(amounts)
            story.append(
                f"Super cluster {super_id} may still hold {more} beyond its slices there, which nobody else gets until "
                "Pods have ended."
            )
    return story


def pod_story(
    name: str,
    pod: Mapping[str, Any],
    placement: NamespacePlacement | None,
    supers: Mapping[str, SuperCluster],
    syncer_reason: str = "",
) -> list[str]:
    """Tell where a Pod runs, or what it waits for.

    Args:
        name: How the user calls it.
        pod: The tenant's object, decoded.
        placement: Ledger entry of its namespace.
        supers: The super clusters by id.
        syncer_reason: What the syncer says it waits for, if it was asked and does.
    """
    metadata, spec, status = (pod.get(field) or {} for field in ("metadata", "spec", "status"))
    super_id = (metadata.get("labels") or {}).get(names.SUPER_CLUSTER, "")
    phase = status.get("phase", "Pending")
    story = []
    if not super_id:
        story.append(f"Pod {name} is {phase}: no super cluster has been picked for it.")
        story += _scheduling(status)
        story += namespace_story(_namespace_of(name), placement, supers)
    elif node := spec.get("nodeName"):
        node = names.split_virtual_node(node, super_id) or node
        story.append(f"Pod {name} is {phase} on node {node} of super cluster {super_id}.")
    else:
        story.append(
            f"Pod {name} is {phase}: it belongs to super cluster {super_id} and has no node there yet."
        )
        story += _scheduling(status)
        if placement is not None and not placement.status.placements.get(super_id):
            story.append(f"Its namespace has no slices on {super_id} any more: the Pod cannot start there.")
    if super_id:
        slices = placement.status.placements.get(super_id, 0) if placement is not None else 0
        story.append(f"Its namespace has {_slices(slices)} there.")
        if health := _health(supers.get(super_id)):
            story.append(f"Super cluster {super_id}{health}.")
    if syncer_reason:
        story.append(f"The syncer waits: {syncer_reason}.")
    story += _containers(status)
    if metadata.get("deletionTimestamp"):
        story.append(f"It is being deleted since {metadata['deletionTimestamp']}.")
    return story


def _scheduling(status: Mapping[str, Any]) -> list[str]:
    """Repeat what a scheduler said."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            said = condition.get("message", "no message").rstrip(".")
            return [f"{condition.get('reason', 'Unschedulable')}: {said}."]
    return []


def _containers(status: Mapping[str, Any]) -> list[str]:
    """Tell which containers do not run, and why."""
    story = []
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            message = f": {waiting['message'].rstrip('.')}" if waiting.get("message") else ""
            story.append(
                f"Container {container['name']} waits: {waiting.get('reason', 'no reason')}{message}."
            )
    return story


def _health(super_cluster: SuperCluster | None) -> str:
    """Say what is wrong with a super cluster, if anything."""
    if super_cluster is None:
        return ", which is no longer registered"
    for kind in ("Reachable", "Ready"):
        condition = condition_of(super_cluster.status.conditions, kind)
        if condition is None:
            return ", whose syncer has not reported yet"
        if condition.status != "True":
            return f", which is not {kind.lower()} ({condition.reason}: {condition.message})"
    if super_cluster.spec.drain:
        return ", which is being drained"
    return ""


def _amounts(values: Mapping[str, str]) -> str:
    return ", ".join(_amount(readable(values[name], name), name) for name in sorted(values)) or "nothing"


def _amount(amount: str, name: str) -> str:
    return f"{amount} {name.removesuffix('s') if amount == '1' and name in (PODS, *OBJECTS) else name}"


def _namespace_of(pod: str) -> str:
    return pod.rpartition("/")[0]


def waiting_reason(roles: Mapping[str, Mapping[str, Any]], key: str, item: Sequence[str]) -> str:
    """Find in the /status of syncers what an object waits for, or what they failed at and try again.

    Args:
        roles: Status of roles by name.
        key: Cluster key of the tenant.
        item: Kind (plural), namespace and name.
    """
    for role in roles.values():
        tenants = role.get("tenants")
        for tenant in tenants if isinstance(tenants, list) else ():
            if tenant.get("key") != key:
                continue
            if tenant.get("state") == "Backoff":
                return f"the tenant is not synced: {tenant.get('last_error', '')}"
            for waiting in tenant.get("waiting") or ():
                if waiting.get("item") == "/".join(item):
                    return str(waiting.get("reason", ""))
        for error in role.get("lastErrors") or ():
            if (error.get("tenant"), error.get("item")) == (key, "/".join(item)):
                return str(error.get("message", ""))
        for drain in role.get("drains") or ():
            if (drain.get("tenant"), drain.get("namespace")) == (key, item[1]):
                return f"drains: {drain.get('reason', '')}"
    return ""


def _slices(count: int) -> str:
    return f"{count} slice{'' if count == 1 else 's'}"
