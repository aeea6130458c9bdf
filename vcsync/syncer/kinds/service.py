"""Services: the tenant's settings are copied down. Values that a super cluster allocates stay there or become annotations.

Addresses, node ports and health check ports belong to the API server that allocates them, but for cluster IPs of a range that a
tenant has for itself (see `cluster_ips`). With several super clusters, each of them contributes its load balancer addresses. Each
syncer writes its own contribution and the union of all, so the order of the writes does not matter. Each syncer also writes an
annotation with the node ports of its super cluster. What a Service of another type may not have, each syncer removes for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from vcsync.api import names
from vcsync.kube.resources import PODS, SERVICES
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.syncer.kinds import balancer_status, cluster_ips, ip_families, keys, metadata, reachability
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Create,
    Delete,
    Kind,
    Notify,
    Plan,
    TenantContext,
    View,
    Wait,
)

HEADLESS: Final = "None"
EXTERNAL_NAME: Final = "ExternalName"
LOAD_BALANCER: Final = "LoadBalancer"
NODE_PORT: Final = "NodePort"
CLASS_NOT_OFFERED: Final = "ClassNotOffered"
"""Event reason: the operator does not offer the class of load balancers or ingress controllers that an object names."""

_ALLOCATED: Final = ("clusterIP", "clusterIPs", "healthCheckNodePort", "ipFamilies", "ipFamilyPolicy")
"""Fields of spec that the super cluster sets, or that each super cluster must be asked for in its own way."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
    "externalTrafficPolicy": "Cluster",
    "allocateLoadBalancerNodePorts": True,
    "publishNotReadyAddresses": False,
    "ports": [],
    "selector": {},
    "sessionAffinityConfig": {},
    "loadBalancerSourceRanges": [],
}
"""The values of absent fields, so that API servers of two versions, which set other defaults, do not always differ."""

_COMPARED: Final = (
    "type",
    "selector",
    "ports",
    "sessionAffinity",
    "sessionAffinityConfig",
    "externalName",
    "externalTrafficPolicy",
    "internalTrafficPolicy",
    "publishNotReadyAddresses",
    "loadBalancerIP",
    "loadBalancerClass",
    "loadBalancerSourceRanges",
    "allocateLoadBalancerNodePorts",
    "trafficDistribution",
)


class Backing(Enum):
    """The source of a Service's addresses in a super cluster."""

    ABSENT = "the Service is missing on one of the two sides"
    PODS = "the Service has a selector on at least one side"
    USER = "the Service has no selector on either side, so a user writes its addresses"


class _Selecting(msgspec.Struct):
    selector: dict[str, str] | None = None


def backing(namespace: str, name: str, context: TenantContext, view: View) -> Backing:
    """Return the source of a Service's addresses in the super cluster.

    Both sides count, because the policy may keep a Service there from losing its selector. Addresses that a tenant chooses,
    beside those of its Pods, would lead an ingress controller where the operator's policy does not let it go.

    Args:
        namespace: the Service's namespace in the tenant.
        name: its name.
        context: the tenant's settings.
        view: the caches.
    """
    v = view.tenant(SERVICES, namespace, name)
    p = view.super(SERVICES, names.super_namespace(context.key, namespace), name)
    if any(each is not None and decode(each.spec, _Selecting).selector for each in (v, p)):
        return Backing.PODS
    if v is None or p is None or metadata.identify(v, p, context) is not metadata.Identity.OURS:
        return Backing.ABSENT
    return Backing.USER


def is_api_service(namespace: str, name: str) -> bool:
    """Return whether this is the Service of the API server itself, which every cluster has."""
    return namespace == "default" and name == "kubernetes"


def plan(  # noqa: PLR0911 - each return is a case of its own
    v: Envelope | None, p: Envelope | None, context: TenantContext, view: View
) -> Plan:
    """Keep the super Service's spec equal to the tenant's, and copy its address and load balancer status up."""
    if v is None:
        return EMPTY if p is None else metadata.orphan(SERVICES, p, p.name, context, view)
    if is_api_service(v.namespace, v.name):
        return EMPTY
    spec: dict[str, Any] = untyped(v.spec)
    if selector := spec.get("selector"):
        spec["selector"] = keys.match_labels(selector, PODS, context)
    placement = view.placement(v.namespace)
    if placement is not None and placement.name_server_only:
        spec.pop("selector", None)  # none of its Pods is here; the tenant's Endpoints have their addresses
    if p is None:
        return _create(v, spec, context, view)
    if (unsettled := metadata.settle_identity(SERVICES, v, p, context)) is not None:
        return unsettled
    if (refused := _refused(v, spec, context)) is not None:
        return refused
    if (refused := _leads_elsewhere(v, spec, context, view)) is not None:
        return refused
    actual: dict[str, Any] = untyped(p.spec)
    if _is_headless(spec) != _is_headless(actual):
        # clusterIP cannot change between None and an address.
        return Plan((Delete("super", SERVICES, p.namespace, p.name, p.uid),))
    if cluster_ips.differ(cluster_ips.kept(spec, context), actual) and not is_name_server(v):
        return Plan((Delete("super", SERVICES, p.namespace, p.name, p.uid),))
    changes = metadata.metadata_patch(SERVICES, v, p, context, annotations=_annotations(v, spec, context))
    mark, notices = _missing_family(spec, actual, p, context)
    if mark:
        changes["annotations"] = changes.get("annotations", {}) | mark
    fields = _spec_patch(spec, actual)
    down = metadata.super_patch(SERVICES, p, changes, {"spec": fields} if fields else {})
    down = (*down, *notices)
    return Plan(down + _upward(v, p, spec, actual, context=context, view=view))


def _missing_family(
    spec: Mapping[str, Any], actual: Mapping[str, Any], p: Envelope, context: TenantContext
) -> tuple[dict[str, str | None], tuple[Notify, ...]]:
    """Return the change of the mark that a missing IP family was reported, and the report. It is made once: the copy tells it."""
    family = ip_families.only_family(spec, actual)
    if bool(family) == (names.REFUSED in p.annotations):
        return {}, ()
    if not family:
        return {names.REFUSED: None}, ()
    message = ip_families.missing(family, context.super_id)
    return {names.REFUSED: ip_families.FIELD}, (Notify("Warning", ip_families.ONE_FAMILY, message),)


def is_name_server(v: Envelope) -> bool:
    """Return whether a Service is the tenant's name server. Running Pods have the address that its copy got first."""
    return (v.namespace, v.name) == (names.TENANT_DNS_NAMESPACE, names.TENANT_DNS_SERVICE)


def _refused(v: Envelope, spec: Mapping[str, Any], context: TenantContext) -> Plan | None:
    """Refuse a Service that would use what may belong to others; None if it does not."""
    if (reason := _refusal(spec, context)) is not None:
        return _refuse(v, reason)
    wanted = spec.get("loadBalancerClass")
    if spec.get("type") != LOAD_BALANCER or not wanted:
        return None
    offered = context.service_policy.load_balancer_classes
    if wanted in offered:
        return None
    remedy = f"use {', '.join(offered)}, or leave it out" if offered else "leave it out"
    reason = (
        f"spec.loadBalancerClass {wanted} is not offered to tenants here: {remedy} for the default load balancer, "
        "or ask the operator"
    )
    return _refuse(v, reason, event=CLASS_NOT_OFFERED)


def _refusal(spec: Mapping[str, Any], context: TenantContext) -> str | None:
    """Return why a Service is refused, since it uses addresses that may belong to others, and the remedy; None if not."""
    if spec.get("externalIPs"):
        return (
            "spec.externalIPs is not allowed: it could catch other tenants' traffic; use a Service of type "
            "LoadBalancer, or remove spec.externalIPs"
        )
    policy, kind = context.service_policy, spec.get("type")
    if (kind == LOAD_BALANCER and policy.load_balancer != "Allow") or (
        kind == NODE_PORT and policy.node_port != "Allow"
    ):
        return f"spec.type {kind} is not allowed here: use ClusterIP, or ask the operator"
    if kind in (LOAD_BALANCER, NODE_PORT) and is_external(spec) and policy.external_backends != "Allow":
        return (
            f"spec.type {kind} without spec.selector is not allowed here: nodes would forward traffic to any address; set "
            "spec.selector, use ClusterIP, or ask the operator"
        )
    if spec.get("loadBalancerIP") and policy.load_balancer_ip != "Allow":
        return (
            "spec.loadBalancerIP is not allowed here: the address may be meant for others; remove it, or ask the "
            "operator"
        )
    return None


def _leads_elsewhere(v: Envelope, spec: Mapping[str, Any], context: TenantContext, view: View) -> Plan | None:
    """Refuse a Service that would lead ingress controllers to addresses that the tenant chooses; None if it does not."""
    if not is_external(spec) or context.ingress_policy.external_backends == "Allow":
        return None
    if not view.is_backend(names.super_namespace(context.key, v.namespace), v.name):
        return None
    reason = (
        "spec.selector and spec.type do not select Pods, which is not allowed here for a Service that an Ingress uses: set "
        "spec.selector, and another type than ExternalName, or ask the operator"
    )
    return _refuse(v, reason, after=metadata.RETRY_SECONDS)


def is_external(spec: Mapping[str, Any]) -> bool:
    """Return whether a Service leads to addresses that the tenant chooses, and not to Pods."""
    return spec.get("type") == EXTERNAL_NAME or not spec.get("selector")


def _refuse(
    v: Envelope, reason: str, *, after: float | None = None, event: str = metadata.POLICY_REFUSED
) -> Plan:
    return Plan(
        (Notify("Warning", event, reason),),
        Wait(f"Service {v.name}: {reason.partition(':')[0]}", after=after),
    )


def _create(v: Envelope, spec: dict[str, Any], context: TenantContext, view: View) -> Plan:
    if v.deleting:
        return EMPTY
    if (refused := _refused(v, spec, context)) is not None:
        return refused
    if (refused := _leads_elsewhere(v, spec, context, view)) is not None:
        return refused
    if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
        return Plan(wait=wait)
    body: dict[str, Any] = {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": metadata.super_metadata(SERVICES, v, context),
        "spec": convert(spec),
    }
    body["metadata"]["annotations"] |= _cluster_ip_annotation(spec)
    if addresses := cluster_ips.kept(spec, context):
        body["spec"] |= {"clusterIP": addresses[0], "clusterIPs": addresses}
    return Plan((Create("super", SERVICES, body["metadata"]["namespace"], body),))


def convert(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec to create in the super cluster, without the values that the tenant's API server allocated."""
    converted = {field: value for field, value in spec.items() if field not in _ALLOCATED}
    if _is_headless(spec):
        converted["clusterIP"] = HEADLESS
    converted |= ip_families.policy(spec)
    if "ports" in converted:
        converted["ports"] = [
            {field: value for field, value in port.items() if field != "nodePort"}
            for port in converted["ports"]
        ]
    return converted


def has_address(spec: Mapping[str, Any]) -> bool:
    """Return whether a Service of this spec gets an address in each cluster."""
    return spec.get("type") != EXTERNAL_NAME and not _is_headless(spec)


def _is_headless(spec: Mapping[str, Any]) -> bool:
    return spec.get("clusterIP") == HEADLESS and spec.get("type") != EXTERNAL_NAME


def _cluster_ip_annotation(spec: Mapping[str, Any]) -> dict[str, str]:
    address = spec.get("clusterIP")
    return {names.CLUSTER_IP: address} if address and address != HEADLESS else {}


def _annotations(v: Envelope, spec: Mapping[str, Any], context: TenantContext) -> dict[str, str]:
    return metadata.desired_annotations(SERVICES, v, context) | _cluster_ip_annotation(spec)


# --- Downward comparison ---------------------------------------------------------------------------------


def _spec_patch(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for field in _COMPARED:
        want = wanted.get(field)
        have = actual.get(field)
        if want == have:
            continue
        if field == "ports":
            want_ports, have_ports = _ports(wanted), _ports(actual)
            if want_ports != have_ports:
                patch["ports"] = _with_node_ports(want_ports, actual) or None
        elif field == "selector":
            if (changed := _map_change(want or {}, have or {})) is not None:
                patch["selector"] = changed
        elif _meaning(field, want) != _meaning(field, have) and not _follows_from_type(field, wanted):
            patch[field] = want
    if has_address(wanted) and has_address(actual):
        patch |= ip_families.change(wanted, actual)
    return patch


def _meaning(field: str, value: Any) -> Any:
    return _DEFAULTS.get(field) if value is None else value


def _follows_from_type(field: str, wanted: Mapping[str, Any]) -> bool:
    """Return whether the API server drops the field itself when the type changes, so that the patch must not name it."""
    if wanted.get(field) is not None:
        return False
    return (
        field in ("loadBalancerClass", "allocateLoadBalancerNodePorts")
        and wanted.get("type") != LOAD_BALANCER
    )


def _map_change(want: Mapping[str, str], have: Mapping[str, str]) -> dict[str, str | None] | None:
    """Return the merge patch of a map of strings; None if nothing differs."""
    change: dict[str, str | None] = {key: value for key, value in want.items() if have.get(key) != value}
    change.update((key, None) for key in have if key not in want)
    return change or None


def _ports(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ports with the API's defaults and without node ports, for comparison."""
    ports = []
    for port in spec.get("ports") or ():
        normal = {field: value for field, value in port.items() if field != "nodePort"}
        normal.setdefault("protocol", "TCP")
        normal.setdefault("targetPort", normal.get("port"))
        ports.append(normal)
    return ports


def _with_node_ports(ports: list[dict[str, Any]], actual: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Keep the node ports that the super cluster has allocated, by port name, else by number and protocol."""
    by_name: dict[Any, int] = {}
    by_number: dict[Any, int] = {}
    for port in actual.get("ports") or ():
        if node_port := port.get("nodePort"):
            by_number[(port.get("port"), port.get("protocol", "TCP"))] = node_port
            if name := port.get("name"):
                by_name[name] = node_port
    kept = []
    taken: set[tuple[Any, Any]] = set()
    for port in ports:
        node_port = by_name.get(port.get("name")) or by_number.get((port.get("port"), port["protocol"]))
        if node_port is not None and (node_port, port["protocol"]) not in taken:
            taken.add((node_port, port["protocol"]))
            kept.append({**port, "nodePort": node_port})
        else:
            kept.append(port)
    return kept


# --- Upward ----------------------------------------------------------------------------------------------


def _upward(
    v: Envelope,
    p: Envelope,
    spec: Mapping[str, Any],
    actual: Mapping[str, Any],
    *,
    context: TenantContext,
    view: View,
) -> tuple[Action, ...]:
    placement = view.placement(v.namespace)
    if placement is None or context.super_id not in placement.placements:
        return ()
    placed = sorted(placement.placements)
    annotations = _address_up(v, actual) if placed[0] == context.super_id else {}
    node_ports = _node_ports(actual)
    wanted = msgspec.json.encode(node_ports).decode() if node_ports else None
    annotations |= (
        balancer_status.own_annotation(v, names.NODE_PORTS_PREFIX, wanted, placed, context)
        if spec.get("type") in (LOAD_BALANCER, NODE_PORT)
        else balancer_status.no_annotations(v, names.NODE_PORTS_PREFIX)
    )
    own = balancer_status.addresses(p.status) if spec.get("type") == LOAD_BALANCER else None
    return (
        *balancer_status.status_patch(SERVICES, v, p, context, placement, own=own, annotations=annotations),
        *reachability.patch(v, placement, context, view, selects=not is_external(spec)),
    )


def _address_up(v: Envelope, actual: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the annotation with the ClusterIP here, for the tenant's DNS. Only the first super cluster in order writes it."""
    address = actual.get("clusterIP")
    if not address or address == HEADLESS or actual.get("type") == EXTERNAL_NAME:
        return {names.TRANSPARENT_CLUSTER_IP: None} if names.TRANSPARENT_CLUSTER_IP in v.annotations else {}
    if v.annotations.get(names.TRANSPARENT_CLUSTER_IP) == address:
        return {}
    return {names.TRANSPARENT_CLUSTER_IP: address}


def _node_ports(actual: Mapping[str, Any]) -> dict[str, int]:
    """Return the ports on which the nodes of the super cluster listen: `<port>/<protocol>` -> node port."""
    found = {
        f"{port.get('port')}/{port.get('protocol', 'TCP')}": port["nodePort"]
        for port in actual.get("ports") or ()
        if port.get("nodePort")
    }
    if actual.get("healthCheckNodePort"):
        found["healthCheck"] = actual["healthCheckNodePort"]
    return found


SERVICE = Kind(name="services", resource=SERVICES, plan=plan, upward=True)
"""Services."""
