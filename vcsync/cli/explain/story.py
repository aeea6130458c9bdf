"""Explanations of a Pod or namespace in words: where it is, why, or what it waits for. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.api.refusals import REFUSED, WITHDRAWN, said_by_all
from vcsync.cli.command.output import table
from vcsync.kube.resources import POD_DISRUPTION_BUDGETS
from vcsync.objects.readable_amounts import readable
from vcsync.scheduling.ledger import Ledger
from vcsync.scheduling.place import TENANT_QUOTA
from vcsync.scheduling.slices import OBJECTS, PODS
from vcsync.tenancy.distribution import slice_amounts
from vcsync.tenancy.health import judge_all_stored

NO_LEDGER = (
    "It has no placement: it has no ResourceQuota on cpu or memory and its tenant has no default quota, "
    "or nsscheduler has not processed it yet."
)


def namespace_story(
    name: str,
    placement: NamespacePlacement | None,
    supers: Mapping[str, SuperCluster],
    now: datetime,
    ledger: Ledger,
) -> list[str]:
    """Explain where a namespace's slices are, and why.

    Args:
        name: The name that the user gave.
        placement: Its ledger entry.
        supers: The super clusters by id.
        now: The current time, for the age of heartbeats.
        ledger: The slices distributed over the pool.
    """
    if placement is None:
        story = [f"Namespace {name} is not placed.", NO_LEDGER]
        if silent := sorted(
            super_id for super_id, found in supers.items() if not found.status.heartbeat_time
        ):
            story.append(
                f"After their start, the schedulers wait a few seconds for the first heartbeat of {', '.join(silent)}."
            )
        return story
    spec, status = placement.spec, placement.status
    size = _amounts(spec.slice_size)
    story = [f"Namespace {name} may use {_amounts(spec.quota)}: {_slices(spec.slices)} of {size}."]
    for super_id, slices in sorted(status.placements.items()):
        story.append(
            f"{slices} of them {'is' if slices == 1 else 'are'} on super cluster {super_id}{_health(super_id, supers, now)}."
        )
    for super_id, slices in sorted(spec.pins.items()):
        story.append(f"An operator pinned {slices} of them to {super_id}.")
    if status.waiting:
        story.append(f"{status.waiting} of them wait for a place.")
        story += _left(supers, ledger, spec.slice_size)
    for entry in status.explanation:
        # The tenant's cap is reported once, for all super clusters together.
        own_refusals = set(entry.refused_by) - {TENANT_QUOTA}
        if own_refusals or not (entry.slices or entry.refused_by):
            reason = entry.reason or "others scored higher"
            story.append(f"Super cluster {entry.super_cluster} got {entry.slices or 'none'}: {reason}.")
    placed = condition_of(status.conditions, "Placed")
    if placed is not None and placed.status != "True":
        story.append(f"{placed.reason}: {placed.message}.")
    story += _draining(placement)
    return story


def score_lines(placement: NamespacePlacement) -> list[str]:
    """Return the scheduler's result for each super cluster as the lines of a table; empty without any."""
    rows = [
        (each.super_cluster, str(each.slices), str(each.score), ", ".join(each.refused_by), each.reason)
        for each in placement.status.explanation
    ]
    return (
        table(("SUPER CLUSTER", "SLICES", "SCORE", "REFUSED BY", "REASON"), rows).splitlines() if rows else []
    )


def _left(supers: Mapping[str, SuperCluster], ledger: Ledger, size: Mapping[str, str]) -> list[str]:
    """Describe the free amounts of the slices' resources in super clusters."""
    story = []
    for super_id, found in sorted(supers.items()):
        slices = slice_amounts(found, ledger)
        free, capacity = (
            {name: amounts[name] for name in size if name in amounts}
            for amounts in (slices.free, slices.capacity)
        )
        if slices.problem:
            story.append(f"Super cluster {super_id} cannot get slices: {slices.problem}.")
        elif capacity:
            story.append(f"Super cluster {super_id} has {_amounts(free)} free of {_amounts(capacity)}.")
    return story


def _draining(placement: NamespacePlacement) -> list[str]:
    """Describe the super clusters that still have to clear slices."""
    holders = sorted(filter(None, map(names.super_id_of_finalizer, placement.finalizers)))
    if placement.deleting:
        return [
            f"Its placement is being removed; super clusters to clear first: {', '.join(holders) or 'none'}."
        ]
    leaving = [super_id for super_id in holders if not placement.status.placements.get(super_id)]
    story = [f"Super cluster {super_id} is still clearing its objects." for super_id in leaving]
    for super_id, amounts in sorted(placement.status.clearing.items()):
        if placement.status.placements.get(super_id):
            more = _amounts(amounts)
            story.append(
                f"Super cluster {super_id} may still hold {more} beyond its slices there; other namespaces do not get it "
                "until Pods have ended."
            )
    return story


def pod_story(
    name: str,
    pod: Mapping[str, Any],
    placement: NamespacePlacement | None,
    supers: Mapping[str, SuperCluster],
    now: datetime,
    *,
    ledger: Ledger,
    syncer_reason: str = "",
) -> list[str]:
    """Explain where a Pod runs, or what it waits for.

    Args:
        name: The name that the user gave.
        pod: The tenant's object, decoded.
        placement: Ledger entry of its namespace.
        supers: The super clusters by id.
        now: The current time, for the age of heartbeats.
        ledger: The slices distributed over the pool.
        syncer_reason: The syncer's reason for waiting, if it was asked and waits.
    """
    metadata, spec, status = (pod.get(field) or {} for field in ("metadata", "spec", "status"))
    super_id = (metadata.get("labels") or {}).get(names.SUPER_CLUSTER, "")
    phase = status.get("phase", "Pending")
    story = []
    if not super_id:
        story.append(f"Pod {name} is {phase}: no super cluster has been picked for it.")
        story += _scheduling(status)
        story += namespace_story(_namespace_of(name), placement, supers, now, ledger)
    elif node := spec.get("nodeName"):
        node = names.split_virtual_node(node, super_id) or node
        story.append(f"Pod {name} is {phase} on node {node} of super cluster {super_id}.")
    else:
        story.append(
            f"Pod {name} is {phase}: it belongs to super cluster {super_id} and has no node there yet."
        )
        story += _scheduling(status)
        if not metadata.get("deletionTimestamp"):
            story += _leaving(placement, super_id, supers, now)
    if not spec.get("nodeName"):
        story += _refusals(metadata, super_id)
    if super_id:
        slices = placement.status.placements.get(super_id, 0) if placement is not None else 0
        story.append(f"Its namespace has {_slices(slices)} there.")
        if health := _health(super_id, supers, now):
            story.append(f"Super cluster {super_id}{health}.")
    if syncer_reason and not any(syncer_reason in line for line in story):
        story.append(f"The syncer waits: {syncer_reason}.")
    story += _containers(status)
    if metadata.get("deletionTimestamp"):
        story.append(f"It has been terminating since {metadata['deletionTimestamp']}.")
        keeps_name = names.COPY_FINALIZER in (metadata.get("finalizers") or ())
        if super_id and (spec.get("nodeName") or keeps_name) and _is_out_of_touch(super_id, supers, now):
            story.append(
                f"It ends when {super_id} answers again and it has ended there, or when 'vcsync super fence {super_id}' confirms "
                "that nothing runs there."
            )
        elif super_id and keeps_name:
            story.append(f"It keeps its name until {super_id} has ended its copy there, if there is one.")
    return story


def _leaving(
    placement: NamespacePlacement | None, super_id: str, supers: Mapping[str, SuperCluster], now: datetime
) -> list[str]:
    """Describe what keeps a Pod without a node on its super cluster."""
    story = []
    if placement is not None and not placement.status.placements.get(super_id):
        story.append(
            f"Its namespace has no slices on {super_id} any more. The Pod goes elsewhere when {super_id} has confirmed that "
            "it does not run there."
        )
    if _is_out_of_touch(super_id, supers, now) and not supers[super_id].spec.fenced:
        story.append(
            f"Super cluster {super_id} may run it already. Until it answers again, the Pod goes elsewhere only if "
            f"'vcsync super fence {super_id}' confirms that nothing runs there."
        )
    return story


def _refusals(metadata: Mapping[str, Any], home: str) -> list[str]:
    """Describe what super clusters say that refused a Pod which has no node yet."""
    story = []
    for super_id, said in sorted(said_by_all(metadata.get("annotations") or {}).items()):
        times = said.returns + (said.state in (REFUSED, WITHDRAWN))
        often = f" ({times} times)" if times > 1 else ""
        if not said.refuses and said.state:
            if super_id == home and said.state == WITHDRAWN:
                story.append(
                    f"It leaves super cluster {super_id} as soon as it has no copy there: {said.why}."
                )
        elif super_id != home or said.state not in (REFUSED, WITHDRAWN):
            story.append(f"Super cluster {super_id} refused it{often}: {said.why}.")
        elif said.state == WITHDRAWN:
            story.append(
                f"Super cluster {super_id} refused it{often}: {said.why}. It goes to another one as soon as its copy is gone."
            )
        else:
            story.append(f"Super cluster {super_id} refuses it{often}: {said.why}. No other one can take it.")
    return story


def _scheduling(status: Mapping[str, Any]) -> list[str]:
    """Return the scheduler's message."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            said = condition.get("message", "no message").rstrip(".")
            return [f"{condition.get('reason', 'Unschedulable')}: {said}."]
    return []


_SEE_EVENTS = "; 'kubectl describe pod' shows its Events, which may say why"


def _containers(status: Mapping[str, Any]) -> list[str]:
    """Describe the containers that do not run, with reasons."""
    story = []
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            message = f": {waiting['message'].rstrip('.')}" if waiting.get("message") else _SEE_EVENTS
            story.append(
                f"Container {container['name']} waits: {waiting.get('reason', 'no reason')}{message}."
            )
    return story


def _health(super_id: str, supers: Mapping[str, SuperCluster], now: datetime) -> str:
    """Describe a super cluster's problem; empty: it has none."""
    super_cluster = supers.get(super_id)
    if super_cluster is None:
        return ", which is no longer registered"
    judgement = judge_all_stored(supers.values(), now)[super_id]
    if super_cluster.spec.fenced:
        return f", which is fenced ('vcsync super unfence {super_id}' ends that)"
    if judgement.reason:
        return f", which is {judgement.word.lower()} ({judgement.reason})"
    if super_cluster.spec.drain:
        return ", which is being drained"
    return ""


def _is_out_of_touch(super_id: str, supers: Mapping[str, SuperCluster], now: datetime) -> bool:
    return super_id in supers and judge_all_stored(supers.values(), now)[super_id].out_of_touch


def _amounts(values: Mapping[str, str]) -> str:
    return ", ".join(_amount(readable(values[name], name), name) for name in sorted(values)) or "nothing"


def _amount(amount: str, name: str) -> str:
    return f"{amount} {name.removesuffix('s') if amount == '1' and name in (PODS, *OBJECTS) else name}"


def _namespace_of(pod: str) -> str:
    return pod.rpartition("/")[0]


def waiting_reason(roles: Mapping[str, Mapping[str, Any]], key: str, item: Sequence[str]) -> str:
    """Return the reason why an object waits, or the error that is being retried, from the /status of syncers.

    Args:
        roles: Status of roles by name.
        key: Cluster key of the tenant.
        item: Kind (plural), namespace and name.
    """
    for role in roles.values():
        for tenant in _listed(role, "tenants"):
            if tenant.get("key") != key:
                continue
            if tenant.get("state") == "Backoff":
                return f"the tenant is not synced: {tenant.get('last_error', '')}"
            for waiting in _listed(tenant, "waiting"):
                if waiting.get("item") == "/".join(item):
                    return str(waiting.get("reason", ""))
        for error in _listed(role, "lastErrors"):
            if (error.get("tenant"), error.get("item")) == (key, "/".join(item)):
                return str(error.get("error", ""))
        for drain in _listed(role, "drains"):
            if (drain.get("tenant"), drain.get("namespace")) == (key, item[1]):
                return f"drains: {drain.get('reason', '')}"
    return _budget_reason(roles, key, item[1]) if item[0] == "pods" else ""


def _budget_reason(roles: Mapping[str, Mapping[str, Any]], key: str, namespace: str) -> str:
    """Return why Pods of a namespace stay on a node that is being drained."""
    prefix = f"{POD_DISRUPTION_BUDGETS.plural}/{namespace}/"
    for role in roles.values():
        for tenant in _listed(role, "tenants"):
            for waiting in _listed(tenant, "waiting") if tenant.get("key") == key else ():
                if str(waiting.get("item")).startswith(prefix):
                    return str(waiting.get("reason", ""))
    return ""


def _listed(state: Mapping[str, Any], field: str) -> Iterator[Mapping[str, Any]]:
    """Return the entries of a list in a role's status; other roles may use the same key for something else."""
    value = state.get(field)
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, Mapping):
            yield entry


def _slices(count: int) -> str:
    return f"{count} slice{'' if count == 1 else 's'}"


def transition_lines(transitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format an object's last transitions as lines, oldest first; empty if there are none.

    Args:
        transitions: as in the status endpoint's `/timeline`.
    """
    if not transitions:
        return []
    lines = ["its last transitions:"]
    for each in transitions:
        version = f", decided from version {each['version']}" if each["version"] else ""
        reconcile = f", reconcile {each['reconcile']}" if each["reconcile"] else ""
        lines.append(f"  {each['time']} {each['controller']}: {each['what']}{version}{reconcile}")
    return lines
