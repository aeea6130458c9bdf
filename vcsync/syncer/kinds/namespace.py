"""Namespaces: a tenant namespace placed here becomes a super namespace with a ResourceQuota of exactly its slices.

The objects of a tenant namespace that is being deleted are deleted in the tenant first. The super namespace is deleted
when the tenant namespace is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import NAMESPACES, RESOURCE_QUOTAS, ROLE_BINDINGS, SERVICES
from vcsync.objects import quantity
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.kinds import device_quota, metadata, stream_binding
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Create,
    Dependency,
    Kind,
    Notify,
    Parts,
    Placement,
    Plan,
    Related,
    TenantContext,
    View,
    Wait,
)


class _QuotaSpec(Struct, gc=False):
    hard: dict[str, str] = {}


def plan(  # noqa: PLR0911 - each return is a case of its own
    v: Envelope | None, p: Envelope | None, context: TenantContext, view: View
) -> Plan:
    """Keep a super namespace and its quota equal to the ledger's entry.

    The labels include the cluster key, since Pod affinity terms of this tenant are restricted to namespaces with it.
    """
    if v is None:
        if p is None:
            return EMPTY
        return metadata.orphan(NAMESPACES, p, p.annotations.get(names.NAMESPACE, ""), context, view)
    placement = view.placement(v.name)
    if placement is None:
        return Plan(wait=Wait(f"namespace {v.name} has no slices on super cluster {context.super_id}"))
    if p is None:
        if v.deleting or (placement.name_server_only and _name_server(view) is None):
            return EMPTY
        return _create(v, context, placement)
    if metadata.belongs_elsewhere(p, context.key, v.name):
        return _name_collision(v, p, context)
    if (unsettled := metadata.settle_identity(NAMESPACES, v, p, context)) is not None:
        return unsettled
    changes = metadata.metadata_patch(
        NAMESPACES, v, p, context, labels=_labels(v, context), annotations=_annotations(v, context, placement)
    )
    actions = metadata.super_patch(NAMESPACES, p, changes, {})
    quota = _quota(v, p.name, context, placement, view)
    return Plan(actions + quota + stream_binding.bind(v, p.name, context, view))


def _name_server(view: View) -> Envelope | None:
    return view.tenant(SERVICES, names.TENANT_DNS_NAMESPACE, names.TENANT_DNS_SERVICE)


def _namespace_of_name_server(service: Envelope) -> tuple[str, str] | None:
    """Return the namespace of a name server: a new one may need it on super clusters where it has no slices."""
    is_one = service.key == (names.TENANT_DNS_NAMESPACE, names.TENANT_DNS_SERVICE)
    return ("", service.namespace) if is_one else None


def _name_collision(v: Envelope, p: Envelope, context: TenantContext) -> Plan:
    """Report a super namespace that belongs to another namespace, since the hashes of both long names are equal."""
    message = (
        "where your Pods run, this namespace cannot be distinguished from another one with a similar name; "
        "use another name, or a shorter one"
    )
    return Plan(
        (Notify("Warning", metadata.NAME_TAKEN, message),),
        Wait(
            f"super cluster {context.super_id} holds another namespace than {v.name} under the name {p.name}",
            (Dependency("super", NAMESPACES, "", p.name),),
            metadata.RETRY_SECONDS,
        ),
    )


def _create(v: Envelope, context: TenantContext, placement: Placement) -> Plan:
    name = names.super_namespace(context.key, v.name)
    body: dict[str, Any] = {
        "apiVersion": NAMESPACES.api_version,
        "kind": NAMESPACES.kind,
        "metadata": {
            "name": name,
            "labels": _labels(v, context),
            "annotations": _annotations(v, context, placement),
        },
    }
    binding = (stream_binding.create(v, name, context),) if context.binds_streams else ()
    return Plan((Create("super", NAMESPACES, "", body), _create_quota(v, name, context, placement), *binding))


def _labels(v: Envelope, context: TenantContext) -> dict[str, str]:
    return metadata.desired_labels(NAMESPACES, v, context) | {names.CLUSTER: context.key}


def _annotations(v: Envelope, context: TenantContext, placement: Placement) -> dict[str, str]:
    return metadata.desired_annotations(NAMESPACES, v, context) | {
        names.NAMESPACE: v.name,
        names.VC_UID: context.vc_uid,
        names.PLACEMENTS: _text(placement.placements),
        names.SLICE: _text(placement.slice_size),
    }


def _text(values: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(values), order="sorted").decode()


def _quota(
    v: Envelope, namespace: str, context: TenantContext, placement: Placement, view: View
) -> tuple[Action, ...]:
    quota = view.super(RESOURCE_QUOTAS, namespace, names.SUPER_QUOTA_NAME)
    if quota is None:
        return (_create_quota(v, namespace, context, placement),)
    changes = metadata.metadata_patch(RESOURCE_QUOTAS, v, quota, context, **_quota_metadata(v, context))
    hard = decode(quota.spec, _QuotaSpec).hard if quota.spec else {}
    wanted = {**placement.hard, **device_quota.limits(hard, placement.devices)}
    wrong: dict[str, str | None] = {
        resource: amount
        for resource, amount in wanted.items()
        if resource not in hard or not _same_amount(hard[resource], amount)
    }
    wrong.update((resource, None) for resource in hard if resource not in wanted)
    return metadata.super_patch(RESOURCE_QUOTAS, quota, changes, {"spec": {"hard": wrong}} if wrong else {})


def _same_amount(one: str, other: str) -> bool:
    return one == other or quantity.milli(one) == quantity.milli(other)


def _create_quota(v: Envelope, namespace: str, context: TenantContext, placement: Placement) -> Create:
    body = {
        "apiVersion": RESOURCE_QUOTAS.api_version,
        "kind": RESOURCE_QUOTAS.kind,
        "metadata": {
            "name": names.SUPER_QUOTA_NAME,
            "namespace": namespace,
            **_quota_metadata(v, context),
        },
        "spec": {"hard": dict(placement.hard)},
    }
    return Create("super", RESOURCE_QUOTAS, namespace, body)


def _quota_metadata(v: Envelope, context: TenantContext) -> dict[str, dict[str, str]]:
    return {
        "labels": dict(metadata.own_labels(context)),
        "annotations": metadata.own_annotations(v, context) | {names.NAMESPACE: v.name},
    }


def _namespace_of_quota(quota: Envelope) -> tuple[str, str] | None:
    tenant_namespace = quota.annotations.get(names.NAMESPACE)
    if quota.name != names.SUPER_QUOTA_NAME or not tenant_namespace:
        return None
    return "", tenant_namespace


NAMESPACE = Kind(
    name="namespaces",
    resource=NAMESPACES,
    plan=plan,
    super_name=lambda _: None,
    tenant_name=lambda _: None,
    tenant_parts=Parts(spec=False, status=False),
    super_parts=Parts(spec=False, status=False),
    related=(
        Related("super", RESOURCE_QUOTAS, _namespace_of_quota),
        Related("super", ROLE_BINDINGS, stream_binding.namespace_of),
        Related("tenant", SERVICES, _namespace_of_name_server),
    ),
)
"""Namespaces. The engine maps their names by `names.super_namespace` and annotation `tenancy.x-k8s.io/namespace`."""
