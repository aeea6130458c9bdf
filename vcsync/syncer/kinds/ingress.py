"""Ingresses: copied down if they take nothing that belongs to others. Addresses of all super clusters are copied up.

All tenants of a super cluster share its ingress controllers. The operator decides which classes tenants may use, and which
annotations are copied. A host belongs to the tenant that used it first (`vcsync.syncer.host_index`). A change that is refused
leaves the last accepted version in the super cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import INGRESS_CLASSES, INGRESSES, SECRETS, SERVICES
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.syncer.kinds import balancer_status, ingress_annotations, ingress_rules, keys, metadata, secret
from vcsync.syncer.kinds.ingress_rules import IngressSpec
from vcsync.syncer.kinds.keys import LEGACY_CLASS
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
from vcsync.syncer.kinds.service import CLASS_NOT_OFFERED, is_external

HOST_TAKEN = "HostTaken"
"""Event reason: a host belongs to another tenant or to the operator."""
_COPIED = ("defaultBackend", "rules", "tls")


class _Refusal(Struct, frozen=True):
    reason: str
    message: str
    on: tuple[Dependency, ...] = ()
    on_others: tuple[Dependency, ...] = ()


class _ServiceSpec(Struct):
    type: str = ""
    selector: dict[str, str] | None = None


def plan(  # noqa: PLR0911 - each return is a case of its own
    v: Envelope | None, p: Envelope | None, context: TenantContext, view: View
) -> Plan:
    """Keep the super Ingress equal to the tenant's, and copy the addresses of its load balancers up."""
    if v is None:
        return EMPTY if p is None else metadata.orphan(INGRESSES, p, p.name, context, view)
    if p is not None and (unsettled := metadata.settle_identity(INGRESSES, v, p, context)) is not None:
        return unsettled
    if p is not None and (first := _lost(p, context, view) or _withdraw(p, context)) is not None:
        return first
    if p is None and v.deleting:
        return EMPTY
    up = _upward(v, p, context, view) if p is not None else ()
    try:
        spec = ingress_rules.read(v.spec)
    except msgspec.ValidationError as error:
        unreadable = _Refusal(metadata.POLICY_REFUSED, f"spec is not that of an Ingress: {error}")
        return _refuse(v, p, up, unreadable)
    if (refusal := _refusal(v, p, spec, context, view)) is not None:
        return _refuse(v, p, up, refusal)
    wait = _secrets_wait(v, spec, context, view)
    if p is None and wait is None:
        wait = metadata.super_namespace_wait(v, context, view)
    if wait is not None:
        return Plan(up, wait)
    class_name = _class_name(v, spec)
    down = _create(v, class_name, context) if p is None else _change(v, p, class_name, context)
    return Plan((*down, *up))


def convert(spec: Mapping[str, Any], class_name: str) -> dict[str, Any]:
    """Return the spec for the super cluster. Services and Secrets have the same names there.

    Args:
        spec: the tenant's spec.
        class_name: the class that the tenant names; "" to let the super cluster choose its default.
    """
    converted = {field: spec[field] for field in _COPIED if spec.get(field) is not None}
    if class_name:
        converted["ingressClassName"] = class_name
    return converted


# --- What is refused -------------------------------------------------------------------------------------


def _class_name(v: Envelope, spec: IngressSpec) -> str:
    """Return the class that the tenant names; "" for none."""
    return spec.ingress_class_name or v.annotations.get(LEGACY_CLASS, "")


def _refusal(
    v: Envelope, p: Envelope | None, spec: IngressSpec, context: TenantContext, view: View
) -> _Refusal | None:
    """Return why an Ingress, or a change of it, is not copied; None if it is."""
    if message := ingress_rules.refusal(spec, context.ingress_policy, context.tenant or context.vc_name):
        return _Refusal(metadata.POLICY_REFUSED, message)
    return (
        _class_refusal(v, spec, context, view)
        or _backend_refusal(v, spec, context, view)
        or _host_refusal(p, spec, context, view)
    )


def _class_refusal(v: Envelope, spec: IngressSpec, context: TenantContext, view: View) -> _Refusal | None:
    class_name = _class_name(v, spec)
    if not class_name:
        return None
    legacy = v.annotations.get(LEGACY_CLASS, class_name)
    if legacy != class_name:
        message = f"spec.ingressClassName {class_name} and the annotation {LEGACY_CLASS} differ: remove the annotation"
        return _Refusal(CLASS_NOT_OFFERED, message)
    found = view.super(INGRESS_CLASSES, "", class_name)
    if found is not None and found.labels.get(names.SUPER_PUBLIC) == names.TRUE:
        return None
    field = "spec.ingressClassName" if spec.ingress_class_name else f"the annotation {LEGACY_CLASS}"
    message = (
        f"{field} {class_name[:253]} is not offered to tenants by super cluster {context.super_id}: use an IngressClass whose "
        f"annotation {names.PUBLISHED_BY} names {context.super_id}, leave it out for the default class, or ask the operator"
    )
    others = (Dependency("super", INGRESS_CLASSES, "", class_name),)
    return _Refusal(CLASS_NOT_OFFERED, message, on_others=others)


def _backend_refusal(v: Envelope, spec: IngressSpec, context: TenantContext, view: View) -> _Refusal | None:
    """Refuse Services that lead ingress controllers to addresses that the tenant chooses.

    A Service that an Ingress uses already does not become such a Service later; see `service.plan`.
    """
    if context.ingress_policy.external_backends == "Allow":
        return None
    below = names.super_namespace(context.key, v.namespace)
    for path, backend in ingress_rules.backends(spec):
        name = backend.service.name if backend.service is not None else ""
        for found in (view.tenant(SERVICES, v.namespace, name), view.super(SERVICES, below, name)):
            if found is not None and is_external(msgspec.to_builtins(decode(found.spec, _ServiceSpec))):
                message = (
                    f"{path}.service {name} does not select Pods, which is not allowed here: use a Service with "
                    "spec.selector, or ask the operator"
                )
                services = (
                    Dependency("tenant", SERVICES, v.namespace, name),
                    Dependency("super", SERVICES, below, name),
                )
                return _Refusal(metadata.POLICY_REFUSED, message, on=services)
    return None


def _host_refusal(
    p: Envelope | None, spec: IngressSpec, context: TenantContext, view: View
) -> _Refusal | None:
    has = ingress_rules.claims(ingress_rules.read(p.spec)).hosts if p is not None else frozenset[str]()
    for path, host in ingress_rules.hosts(spec):
        if host not in has and (holder := view.host_holder(host)) is not None:
            return _taken(path, host, holder, context)
    return None


def _taken(path: str, host: str, holder: Dependency, context: TenantContext) -> _Refusal:
    message = (
        f"{path} {host or '(any host)'} is in use by another tenant or by the operator on super cluster {context.super_id}: use "
        "another host, or wait until it is free"
    )
    return _Refusal(HOST_TAKEN, message, on_others=(holder,))


def _lost(p: Envelope, context: TenantContext, view: View) -> Plan | None:
    """Delete a copy with a host that belongs to somebody else; None if all belong to this tenant.

    Two processes that do not know each other's writes may give a host to two tenants. The older Ingress keeps it.
    """
    age = (p.creation_timestamp, p.uid)
    for path, host in ingress_rules.hosts(ingress_rules.read(p.spec)):
        if (holder := view.host_holder(host, before=age)) is not None:
            refusal = _taken(path, host, holder, context)
            return Plan(
                (
                    Notify("Warning", refusal.reason, refusal.message),
                    Delete("super", INGRESSES, p.namespace, p.name, p.uid),
                )
            )
    return None


def _withdraw(p: Envelope, context: TenantContext) -> Plan | None:
    """Remove annotations that the operator does not allow any more, even if the rest is refused or waits; None if none."""
    removed = ingress_annotations.withdrawn(p, context)
    return Plan(metadata.super_patch(INGRESSES, p, {"annotations": removed}, {})) if removed else None


def _refuse(v: Envelope, p: Envelope | None, up: tuple[Action, ...], refusal: _Refusal) -> Plan:
    stays = "" if p is None else "; the last version that was accepted stays in use"
    wait = Wait(
        f"Ingress {v.name}: {refusal.message.partition(': ')[0]}{stays}",
        refusal.on,
        on_others=refusal.on_others,
    )
    return Plan((*up, Notify("Warning", refusal.reason, refusal.message + stays)), wait)


def _secrets_wait(v: Envelope, spec: IngressSpec, context: TenantContext, view: View) -> Wait | None:
    """Return a Wait for certificates that are in the tenant and not yet in the super cluster; None if there are none."""
    below = names.super_namespace(context.key, v.namespace)
    missing = tuple(
        Dependency("super", SECRETS, below, name)
        for name in ingress_rules.secrets(spec)
        if secret.super_name(name) is not None
        and view.tenant(SECRETS, v.namespace, name) is not None
        and view.super(SECRETS, below, name) is None
    )
    if not missing:
        return None
    listed = ", ".join(f"Secret {dependency.name}" for dependency in missing)
    return Wait(f"waits in super cluster {context.super_id} for {listed}", missing)


# --- Down and up -----------------------------------------------------------------------------------------


def _create(v: Envelope, class_name: str, context: TenantContext) -> tuple[Action, ...]:
    about = metadata.super_metadata(INGRESSES, v, context)
    references = about["annotations"].get(names.OWNER_REFERENCES)
    about["annotations"] = ingress_annotations.desired(v, class_name, context)
    if references is not None:
        about["annotations"][names.OWNER_REFERENCES] = references
    body: dict[str, Any] = {
        "apiVersion": INGRESSES.api_version,
        "kind": INGRESSES.kind,
        "metadata": about,
        "spec": convert(untyped(v.spec), class_name),
    }
    return (Create("super", INGRESSES, about["namespace"], body), *_report_left_out(v, "", context))


def _change(v: Envelope, p: Envelope, class_name: str, context: TenantContext) -> tuple[Action, ...]:
    actual: dict[str, Any] = untyped(p.spec)
    if not class_name and names.INGRESS_CLASS not in p.annotations:
        actual.pop("ingressClassName", None)  # the super cluster's default class
    wanted = convert(untyped(v.spec), class_name)
    fields = create_merge_patch(actual, wanted)
    changes: dict[str, Any] = {}
    if labels := metadata.map_patch(metadata.desired_labels(INGRESSES, v, context), p.labels, context):
        changes["labels"] = labels
    annotations = ingress_annotations.desired(v, class_name, context)
    if changed := ingress_annotations.changes(annotations, p, context):
        changes["annotations"] = changed
    patch: tuple[Action, ...] = metadata.super_patch(
        INGRESSES, p, changes, {"spec": fields} if fields else {}
    )
    return (*patch, *_report_left_out(v, p.annotations.get(names.REFUSED, ""), context))


def _report_left_out(v: Envelope, reported: str, context: TenantContext) -> tuple[Action, ...]:
    """Report annotations that are not copied, unless the copy tells that they have been reported."""
    listed = ingress_annotations.left_out(v, context)
    if not listed or listed == reported:
        return ()
    message = (
        f"metadata.annotations {listed}: not copied to the clusters that serve this Ingress, since the operator has not allowed "
        "them; they have no effect there: remove them, or ask the operator"
    )
    return (Notify("Warning", keys.ANNOTATIONS_LEFT_OUT, message),)


def _upward(v: Envelope, p: Envelope, context: TenantContext, view: View) -> tuple[Patch, ...]:
    placement = view.placement(v.namespace)
    if placement is None or context.super_id not in placement.placements:
        return ()
    own = balancer_status.addresses(p.status)
    return balancer_status.status_patch(INGRESSES, v, p, context, placement, own=own, annotations={})


INGRESS = Kind(
    name="ingresses",
    resource=INGRESSES,
    plan=plan,
    optional=True,
    reads=(INGRESS_CLASSES,),
    claims=ingress_rules.claims_of_body,
    whole=True,
    upward=True,
)
"""Ingresses."""
