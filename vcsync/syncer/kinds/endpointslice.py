"""EndpointSlices that a tenant writes for Services without selector. Controllers of each cluster write all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vcsync.api import names
from vcsync.kube.resources import ENDPOINT_SLICES, SERVICES
from vcsync.objects.envelope import Envelope, untyped
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Create,
    Delete,
    Dependency,
    Kind,
    Notify,
    Parts,
    Plan,
    Related,
    TenantContext,
    View,
    Wait,
)
from vcsync.syncer.kinds.service import Backing, backing, is_api_service

SERVICE_NAME: Final = "kubernetes.io/service-name"
"""Label with the name of the Service that a slice belongs to."""
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
"""Label with the writer of a slice."""
_CONTROLLERS: Final = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
"""Upstream's writers of slices. Those of the super cluster do the same from Pods and Endpoints there."""
WRITTEN_BY_USERS: Final = f"{SERVICE_NAME},{MANAGED_BY} notin ({','.join(_CONTROLLERS)})"
"""Selects the slices of Services that no controller of upstream writes."""

_OF_THE_TENANTS_CLUSTER: Final = frozenset({"targetRef", "nodeName", "zone", "hints", "deprecatedTopology"})
"""Fields of an endpoint that refer to the tenant's Pods, nodes and zones."""


def plan(  # noqa: PLR0911 - each return is a case of its own
    v: Envelope | None, p: Envelope | None, context: TenantContext, view: View
) -> Plan:
    """Keep the super EndpointSlice's addresses and ports equal to the tenant's, while its Service has no selector.

    A slice stands only while both clusters have the Service without selector. So a Service that is created with a
    selector never finds addresses there that the tenant chose.
    """
    if v is None:
        return EMPTY if p is None else metadata.orphan(ENDPOINT_SLICES, p, p.name, context, view)
    service = service_of(v)
    if is_api_service(v.namespace, service):
        return EMPTY
    match backing(v.namespace, service, context, view):
        case Backing.PODS:
            return _leave_to_controller(v, p, service, context)
        case Backing.ABSENT:
            return _wait_for_service(v, p, service, context)
    labels = metadata.desired_labels(ENDPOINT_SLICES, v, context) | {
        SERVICE_NAME: service,
        MANAGED_BY: names.GROUP,
    }
    content = _content(v)
    if p is None:
        if v.deleting:
            return EMPTY
        if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
            return Plan(wait=wait)
        body: dict[str, Any] = {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": metadata.super_metadata(ENDPOINT_SLICES, v, context) | {"labels": labels},
            **content,
        }
        return Plan((Create("super", ENDPOINT_SLICES, body["metadata"]["namespace"], body),))
    if (unsettled := metadata.settle_identity(ENDPOINT_SLICES, v, p, context)) is not None:
        return unsettled
    actual = _content(p)
    if actual["addressType"] != content["addressType"]:
        return Plan((Delete("super", ENDPOINT_SLICES, p.namespace, p.name, p.uid),))  # it cannot change
    changes = metadata.metadata_patch(ENDPOINT_SLICES, v, p, context, labels=labels)
    fields = {field: value for field, value in content.items() if actual[field] != value}
    return Plan(metadata.super_patch(ENDPOINT_SLICES, p, changes, fields))


def service_of(v: Envelope) -> str:
    """Return the name of the Service that a slice belongs to; "" if it has none."""
    return v.labels.get(SERVICE_NAME, "")


def _leave_to_controller(v: Envelope, p: Envelope | None, service: str, context: TenantContext) -> Plan:
    reason = (
        f"Service {service} has a selector: each super cluster writes its EndpointSlices, and this one is not used where "
        "Pods run; remove spec.selector of the Service, or use a Service without selector"
    )
    return Plan(
        (
            *metadata.without_copy(ENDPOINT_SLICES, v, p, context),
            Notify("Warning", metadata.POLICY_REFUSED, reason),
        ),
        Wait(f"Service {service} has a selector", _services(v, service, context)),
    )


def _wait_for_service(v: Envelope, p: Envelope | None, service: str, context: TenantContext) -> Plan:
    wait = Wait(f"Service {service} does not exist", _services(v, service, context))
    return Plan(metadata.without_copy(ENDPOINT_SLICES, v, p, context), wait)


def _services(v: Envelope, service: str, context: TenantContext) -> tuple[Dependency, ...]:
    below = names.super_namespace(context.key, v.namespace)
    return Dependency("tenant", SERVICES, v.namespace, service), Dependency("super", SERVICES, below, service)


def _content(envelope: Envelope) -> dict[str, Any]:
    """Return the fields of a slice that are copied."""
    found: dict[str, Any] = untyped(envelope.rest)
    return {
        "addressType": found.get("addressType"),
        "endpoints": [_endpoint(each) for each in found.get("endpoints") or ()],
        "ports": found.get("ports"),
    }


def _endpoint(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in endpoint.items() if field not in _OF_THE_TENANTS_CLUSTER}


ENDPOINT_SLICE = Kind(
    name="endpointslices",
    resource=ENDPOINT_SLICES,
    plan=plan,
    optional=True,
    tenant_selector=WRITTEN_BY_USERS,
    # Controllers of the super cluster copy the labels of Services to their own slices, with the label of all copies.
    super_selector=f"{MANAGED_BY}={names.GROUP}",
    tenant_parts=Parts(spec=False, status=False),
    super_parts=Parts(spec=False, status=False),
    related=(Related("tenant", SERVICES, names=service_of),),
)
"""EndpointSlices without a controller of upstream."""
