"""Rules about the contents of objects that are copied down: ConfigMaps, Secrets, Services, Ingresses and others.

Each exists in every super cluster that has slices of its namespace.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hack.audit import convert, keys
from hack.audit.findings import Difference, Finding
from hack.audit.world import (
    Json,
    Tenant,
    World,
    annotations,
    deleting,
    labels,
    place,
    super_namespace,
    uid,
)


def _same_name(name: str) -> str | None:
    return name


def _config_map_name(name: str) -> str | None:
    """Return a ConfigMap's name in super clusters; the tenant's root CA is renamed, because they have their own."""
    if name == keys.TENANT_ROOT_CA:
        return None
    return keys.TENANT_ROOT_CA if name == keys.ROOT_CA else name


def _secret_name(name: str) -> str | None:
    return None if name.startswith(keys.TOKEN_SECRET) else name


def _secret_goes(secret: Json, _: Tenant) -> bool:
    """Return whether a Secret is synced: not a record of Helm."""
    return secret.get("type") != keys.HELM_RELEASE


def _always(_: Json, __: Tenant) -> bool:
    return True


def service_goes(service: Json, _: Tenant) -> bool:
    """Return whether a Service is synced: not the API server's own, which every cluster has, nor with external IPs."""
    return place(service) != ("default", "kubernetes") and not (service.get("spec") or {}).get("externalIPs")


def _budget_goes(budget: Json, tenant: Tenant) -> bool:
    """Return whether a PodDisruptionBudget is synced: it selects by labels that copies of Pods have."""
    selector = (budget.get("spec") or {}).get("selector") or {}
    used = [*(selector.get("matchLabels") or {})]
    used += [each["key"] for each in selector.get("matchExpressions") or ()]
    return not any(convert.stays(key, tenant) for key in used)


def _endpoints_go(endpoints: Json, tenant: Tenant) -> bool:
    """Return whether Endpoints are synced: a Service with a selector gets its Endpoints from each cluster's controller."""
    namespace, name = place(endpoints)
    service = tenant.cluster.get("services", namespace, name)
    selected = service is not None and bool((service.get("spec") or {}).get("selector"))
    return (namespace, name) != ("default", "kubernetes") and not selected


def _endpoint_slice_goes(found: Json, tenant: Tenant) -> bool:
    """Return whether an EndpointSlice is synced: no controller has written it, and its Service exists without a selector."""
    name = labels(found).get(convert.SERVICE_NAME, "")
    namespace, _ = place(found)
    service = tenant.cluster.get("services", namespace, name)
    if service is None or not service_goes(service, tenant):
        return False
    written = labels(found).get(convert.MANAGED_BY, "").endswith("-controller.k8s.io")
    return not written and not (service.get("spec") or {}).get("selector")


@dataclass(frozen=True)
class Content:
    """A kind whose objects are synced to every super cluster with slices of their namespace."""

    kind: str
    wanted: Callable[[Json], Json]
    """Returns the expected fields of a super object, from the tenant's object."""
    actual: Callable[[Json], Json]
    """Returns the same fields of a super object."""
    super_name: Callable[[str], str | None] = _same_name
    """Returns the name in super clusters; None: an object of this name is not synced."""
    goes: Callable[[Json, Tenant], bool] = _always
    stray: Callable[[Json], bool] = lambda _: True
    """Returns whether a super object without a source is a finding even if it is not marked as ours."""
    may_wait: bool = False
    """Whether a super cluster may lack an object because others have what it asks for, or the operator refuses it."""
    annotated: bool = True
    """Whether the tenant's annotations are copied."""


CONTENTS = (
    Content(
        "configmaps",
        convert.config_map,
        convert.config_map,
        _config_map_name,
        stray=lambda found: place(found)[1] != keys.ROOT_CA,
    ),
    Content(
        "secrets",
        convert.secret,
        lambda found: convert.secret(found) | {"type": found.get("type")},
        _secret_name,
        goes=_secret_goes,
        stray=lambda found: not place(found)[1].startswith(keys.TOKEN_SECRET),
    ),
    Content("serviceaccounts", convert.service_account, convert.service_account_as_is),
    Content(
        "networkpolicies",
        convert.network_policy,
        convert.network_policy,
        stray=lambda found: keys.CLUSTER in annotations(found),
    ),
    Content(
        "poddisruptionbudgets",
        convert.budget,
        convert.budget_there,
        goes=_budget_goes,
        stray=lambda found: keys.CLUSTER in annotations(found),
    ),
    Content("services", convert.service, convert.service, goes=service_goes),
    Content(
        "ingresses",
        convert.ingress,
        convert.ingress,
        stray=lambda found: keys.CLUSTER in annotations(found),
        may_wait=True,
        annotated=False,
    ),
    Content(
        "endpoints",
        convert.endpoints,
        convert.endpoints,
        goes=_endpoints_go,
        # The super cluster's controller creates the Endpoints of Services with a selector.
        stray=lambda found: keys.CLUSTER in annotations(found),
    ),
    Content(
        "endpointslices",
        convert.endpoint_slice,
        convert.endpoint_slice_there,
        goes=_endpoint_slice_goes,
        # Controllers of the super cluster create those of Pods and Endpoints, with the labels and annotations of these.
        stray=lambda found: labels(found).get(convert.MANAGED_BY) == keys.GROUP,
    ),
)


def contents(world: World) -> Iterator[Finding]:
    """The tenant's objects exist unchanged in every super cluster with slices of their namespace, and no others do."""
    for tenant, namespace, super_id, _, line in world.placed():
        there = super_namespace(tenant.key, line.namespace)
        cluster = world.supers[super_id]
        for content in CONTENTS:
            sources = {
                name: source
                for source in tenant.cluster.within(content.kind, line.namespace)
                if (name := content.super_name(place(source)[1])) is not None and content.goes(source, tenant)
            }
            found = {place(copy)[1]: copy for copy in cluster.within(content.kind, there)}
            wanted = {} if deleting(namespace) else sources
            for rule, name, difference in _compare(content, tenant, sources, wanted, found):
                yield Finding(rule, tenant.key, super_id, content.kind, there, name, *difference)


Named = Mapping[str, Json]
"""Name in super clusters -> object."""


def _compare(
    content: Content, tenant: Tenant, sources: Named, wanted: Named, found: Named
) -> Iterator[tuple[str, str, Difference]]:
    for name, source in wanted.items():
        if name not in found and not deleting(source) and not content.may_wait:
            yield "missing", name, ("", uid(source), None)
    for name, copy in found.items():
        if name in sources:
            for difference in _differences(sources[name], copy, tenant, content):
                yield "stale", name, difference
        elif content.stray(copy):
            yield "foreign", name, ("", None, annotations(copy).get(keys.UID))


def _differences(source: Json, found: Json, tenant: Tenant, content: Content) -> Iterator[Difference]:
    wanted = convert.wanted_annotations(source, tenant, content.kind)
    if not content.annotated:
        wanted = convert.own_annotations(uid(source), place(source)[0], tenant)
    if content.kind == "services":
        address = (source.get("spec") or {}).get("clusterIP")
        if address and address != "None":
            wanted[keys.CLUSTER_IP] = address
    yield from convert.metadata_differences(
        convert.wanted_labels(source, tenant), labels(found), tenant, "labels"
    )
    yield from convert.metadata_differences(wanted, annotations(found), tenant, "annotations")
    if deleting(found) and not deleting(source):
        yield "metadata.deletionTimestamp", None, found["metadata"]["deletionTimestamp"]
    actual = content.actual(found)
    for field, expected in content.wanted(source).items():
        if actual[field] != expected:
            yield field, expected, actual[field]


def peers(world: World) -> Iterator[Finding]:
    """A super NetworkPolicy selects the namespaces that its tenant's policy selects, and none of other tenants."""
    for tenant, _, super_id, _, line in world.placed():
        there = super_namespace(tenant.key, line.namespace)
        for copy in world.supers[super_id].within("networkpolicies", there):
            name = place(copy)[1]
            source = tenant.cluster.get("networkpolicies", line.namespace, name)
            if source is None:
                # The rule `contents` reports it.
                continue
            wanted = [convert.own_namespaces(one, tenant) for one in convert.namespace_selectors(source)]
            actual = convert.namespace_selectors(copy)
            if actual != wanted:
                yield Finding(
                    "stale",
                    tenant.key,
                    super_id,
                    "networkpolicies",
                    there,
                    name,
                    "namespaceSelector",
                    wanted,
                    actual,
                )


def strays(world: World) -> Iterator[Finding]:
    """No object marked as ours exists outside the super namespaces of the ledger."""
    known = {
        (super_id, super_namespace(line.tenant, line.namespace)) for *_, super_id, _, line in world.placed()
    }
    keeping = {
        (super_id, super_namespace(line.tenant, line.namespace)) for *_, super_id, line in world.keeping()
    }
    for super_id, cluster in world.supers.items():
        for kind, found in cluster.everything():
            namespace, name = place(found)
            ours = labels(found).get(keys.CONTROLLED) == "true" or keys.CLUSTER in annotations(found)
            if kind in ("namespaces", "nodes", "events") or (super_id, namespace) in known or not ours:
                continue
            if (super_id, namespace) in keeping and kind != "pods":
                continue
            owner = annotations(found).get(keys.CLUSTER, "")
            yield Finding(
                "foreign", owner, super_id, kind, namespace, name, "", None, annotations(found).get(keys.UID)
            )


def doubles(world: World) -> Iterator[Finding]:
    """No two objects of a kind in a super cluster have the same source; a Pod or claim exists in only one super cluster."""
    seen: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    for super_id, cluster in world.supers.items():
        for kind, found in cluster.everything():
            source = annotations(found).get(keys.UID)
            if not source or kind in ("resourcequotas", "nodes", "events"):
                continue
            namespace, name = place(found)
            if kind == "secrets" and name.startswith(keys.TOKEN_SECRET):
                continue
            key = (kind, source, "" if kind in ("pods", "persistentvolumeclaims") else super_id)
            if key in seen:
                owner = annotations(found).get(keys.CLUSTER, "")
                before = "/".join(seen[key])
                yield Finding(
                    "doubled", owner, super_id, kind, namespace, name, keys.UID, f"only {before}", source
                )
            seen[key] = (super_id, namespace, name)


def service_addresses(world: World) -> Iterator[Finding]:
    """A tenant's Service has the address of its first super cluster, and the addresses of all load balancers."""
    for tenant in world.tenants.values():
        for service in tenant.cluster.all("services"):
            namespace, name = place(service)
            line = world.placement(tenant.key, namespace)
            if line is None or not line.slices or not service_goes(service, tenant) or deleting(service):
                continue
            there = super_namespace(tenant.key, namespace)
            copies = [
                found
                for super_id in sorted(line.slices)
                if super_id in world.supers
                and (found := world.supers[super_id].get("services", there, name)) is not None
            ]
            if len(copies) < len(line.slices):
                # The rule `contents` reports the missing ones.
                continue
            address = (copies[0].get("spec") or {}).get("clusterIP")
            wanted = address if address and address != "None" else None
            actual = annotations(service).get(keys.TRANSPARENT_CLUSTER_IP)
            field = f"metadata.annotations[{keys.TRANSPARENT_CLUSTER_IP}]"
            if actual != wanted:
                yield Finding("status", tenant.key, "", "services", namespace, name, field, wanted, actual)
            balanced = (service.get("spec") or {}).get("type") == "LoadBalancer"
            union: list[Any] = []
            for copy in copies if balanced else ():
                union.extend(entry for entry in _ingress(copy) if entry not in union)
            if _ingress(service) != union:
                field = "status.loadBalancer.ingress"
                yield Finding(
                    "status", tenant.key, "", "services", namespace, name, field, union, _ingress(service)
                )


def _ingress(service: Json) -> list[Any]:
    return list(((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ())
