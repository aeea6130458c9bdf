"""ResourceClaims: copied to the super cluster that the Pod scheduler chose; whether they are allocated comes up.

The scheduler of the super cluster allocates devices and reserves the claim for Pods there. A claim that the tenant's
controller makes from a template is a claim like any other; templates themselves are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import PodPolicy
from vcsync.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.published.kind import is_public
from vcsync.syncer.kinds import device_quota, metadata, pod_policy
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Create,
    Delete,
    Dependency,
    Kind,
    Notify,
    Patch,
    Plan,
    TenantContext,
    View,
    Wait,
)
from vcsync.syncer.kinds.token import TERMINAL_PHASES

ALLOCATED: Final[dict[str, Any]] = {}
"""The allocation that a tenant sees. Drivers, pools, devices and nodes are the operator's."""


class _Consumer(Struct, frozen=True, gc=False, rename="camel"):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class _Status(Struct, frozen=True, gc=False, rename="camel"):
    allocation: dict[str, Any] | None = None
    reserved_for: tuple[_Consumer, ...] | None = None


class _Phase(Struct, frozen=True, gc=False):
    phase: str = ""


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Return the next actions for a claim, in both directions."""
    if v is None:
        return EMPTY if p is None else metadata.orphan(RESOURCE_CLAIMS, p, p.name, context, view)
    if p is None:
        return _without_copy(v, context, view)
    if (unsettled := metadata.settle_identity(RESOURCE_CLAIMS, v, p, context)) is not None:
        return unsettled
    return _both(v, p, context, view)


# --- Without a copy --------------------------------------------------------------------------------------


def _without_copy(v: Envelope, context: TenantContext, view: View) -> Plan:
    if v.deleting:
        return EMPTY
    home = v.labels.get(names.SUPER_CLUSTER, "")
    if home != context.super_id:
        return EMPTY if home else Plan(wait=Wait("the claim waits for the first Pod that uses it"))
    spec = untyped(v.spec)
    if reasons := refusals(spec, context.policy):
        message = "; ".join(reasons)
        return Plan((Notify("Warning", metadata.POLICY_REFUSED, message),), Wait(message))
    wait = _class_wait(spec, context, view) or metadata.super_namespace_wait(v, context, view)
    if wait is not None:
        return Plan(wait=wait)
    if (unlimited := device_quota.limited(v.namespace, _classes(spec), context, view)) is not None:
        return unlimited
    namespace = names.super_namespace(context.key, v.namespace)
    body = {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "name": v.name,
            "namespace": namespace,
            "labels": dict(metadata.own_labels(context)),
            "annotations": metadata.own_annotations(v, context),
        },
        "spec": spec,
    }
    return Plan((Create("super", RESOURCE_CLAIMS, namespace, body),))


def requests(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (path, request) for each request of a claim, and for each choice of one."""
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        path = f"spec.devices.requests[{index}]"
        if (exactly := request.get("exactly")) is not None:
            yield f"{path}.exactly", exactly
        for position, choice in enumerate(request.get("firstAvailable") or ()):
            yield f"{path}.firstAvailable[{position}]", choice


def refusals(spec: Mapping[str, Any], policy: PodPolicy) -> list[str]:
    """Return the refusals of a claim's spec: the path of the field, the reason and the remedy.

    Args:
        spec: the spec of the tenant's claim.
        policy: the operator's policy, whose rule for tolerations holds for taints of devices, too.
    """
    found = [
        f"{path}.adminAccess is not allowed here: it gives access to devices that others use; remove it"
        for path, request in requests(spec)
        if request.get("adminAccess")
    ]
    for path, request in requests(spec):
        for index, toleration in enumerate(request.get("tolerations") or ()):
            if refusal := pod_policy.toleration_refusal(toleration, f"{path}.tolerations[{index}]", policy):
                found.append(refusal)
    devices = spec.get("devices") or {}
    if devices.get("config"):
        found.append(
            "spec.devices.config is not allowed here: its parameters are commands to the drivers of the clusters that your "
            "Pods run on; remove it, or ask your operator for a DeviceClass with the configuration"
        )
    if not any(True for _ in requests(spec)):
        found.append(
            "spec.devices.requests is empty: a claim here must request devices of a published DeviceClass"
        )
    return found


def _classes(spec: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(str(request.get("deviceClassName", "")) for _, request in requests(spec)))


def _class_wait(spec: Mapping[str, Any], context: TenantContext, view: View) -> Wait | None:
    missing = [name for name in _classes(spec) if not _publishes(name, view)]
    if not missing:
        return None
    return Wait(
        f"super cluster {context.super_id} does not publish DeviceClass {', '.join(missing)}",
        tuple(Dependency("super", DEVICE_CLASSES, "", name) for name in missing),
    )


def _publishes(name: str, view: View) -> bool:
    found = view.super(DEVICE_CLASSES, "", name)
    return found is not None and is_public(found)


# --- With a copy -----------------------------------------------------------------------------------------


def _both(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    home = v.labels.get(names.SUPER_CLUSTER, "")
    if home and home != context.super_id:
        return _leave(p)
    actions = [*_repair(v, p, context)]
    if v.deleting:
        return Plan(tuple(actions))
    if not home:
        label = {
            "metadata": {
                "uid": v.uid,
                "resourceVersion": v.resource_version,
                "labels": {names.SUPER_CLUSTER: context.super_id},
            }
        }
        actions.append(Patch("tenant", RESOURCE_CLAIMS, v.namespace, v.name, v.uid, label))
    elif status := status_patch(v, p, view):
        body = {"metadata": {"uid": v.uid}, "status": status}
        actions.append(
            Patch("tenant", RESOURCE_CLAIMS, v.namespace, v.name, v.uid, body, subresource="status")
        )
    return Plan(tuple(actions)) if actions else EMPTY


def _leave(p: Envelope) -> Plan:
    """Delete a copy of a claim that belongs to another super cluster, once no Pod uses it. There is no data to lose."""
    status = decode(p.status, _Status) if p.status else _Status()
    if status.allocation is not None or status.reserved_for:
        return Plan(wait=Wait("the claim is on another super cluster, and Pods here still use its copy"))
    return Plan(
        (Delete("super", RESOURCE_CLAIMS, p.namespace, p.name, p.uid, resource_version=p.resource_version),)
    )


def _repair(v: Envelope, p: Envelope, context: TenantContext) -> tuple[Action, ...]:
    """Repair the marks of ownership. Specs cannot change, and other keys are those of the super cluster's scheduler."""
    changes = {}
    for field, wanted, actual in (
        ("labels", metadata.own_labels(context), p.labels),
        ("annotations", metadata.own_annotations(v, context), p.annotations),
    ):
        if wrong := {key: value for key, value in wanted.items() if actual.get(key) != value}:
            changes[field] = wrong
    return metadata.super_patch(RESOURCE_CLAIMS, p, changes, {})


def status_patch(v: Envelope, p: Envelope, view: View) -> dict[str, Any]:
    """Return the merge patch of the status of the tenant's claim; empty if it is up to date.

    The claim is shown as allocated while it is reserved for Pods of the tenant that have not ended: then the tenant's own
    resourceclaim-controller, which removes other reservations, agrees.
    """
    have = decode(v.status, _Status) if v.status else _Status()
    theirs = decode(p.status, _Status) if p.status else _Status()
    reserved = tuple(_reserved(v, p, theirs, view)) if theirs.allocation is not None else ()
    if _has_content(have.allocation):
        # The tenant has written it. The API lets it be removed, but not be changed.
        return {"allocation": None, "reservedFor": None}
    patch: dict[str, Any] = {}
    if (have.allocation is not None) != bool(reserved):
        patch["allocation"] = ALLOCATED if reserved else None
    if (have.reserved_for or ()) != reserved:
        patch["reservedFor"] = [
            {"resource": each.resource, "name": each.name, "uid": each.uid} for each in reserved
        ] or None
    return patch


def _has_content(value: Any) -> bool:
    """Return whether a value has more than empty objects: kube-apiserver writes some into an empty allocation."""
    return any(map(_has_content, value.values())) if isinstance(value, dict) else bool(value)


def _reserved(v: Envelope, p: Envelope, theirs: _Status, view: View) -> Iterator[_Consumer]:
    """Yield the tenant's Pods for whose copies the copy of a claim is reserved."""
    for each in theirs.reserved_for or ():
        if each.resource != PODS.plural or each.api_group:
            continue
        copy = view.super(PODS, p.namespace, each.name)
        pod = view.tenant(PODS, v.namespace, each.name)
        if copy is None or pod is None or copy.uid != each.uid or copy.annotations.get(names.UID) != pod.uid:
            continue
        if not pod.status or decode(pod.status, _Phase).phase not in TERMINAL_PHASES:
            yield _Consumer("", PODS.plural, pod.name, pod.uid)


RESOURCE_CLAIM = Kind(
    name="resourceclaims",
    resource=RESOURCE_CLAIMS,
    plan=plan,
    optional=True,
    reads=(DEVICE_CLASSES,),
    upward=True,
)
"""ResourceClaims."""
