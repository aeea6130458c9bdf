"""Converts objects between a tenant and a super cluster by the documented rules, independently of vcsync's code."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from hack.audit import keys
from hack.audit.world import Json, Tenant, annotations, labels, place, super_namespace, uid

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_OF_SERVICES = frozenset({"services", "endpoints", "endpointslices", "networkpolicies"})
"""Kinds whose annotations `servicePolicy` allows. `podPolicy` allows those of others."""
_SUFFIXES = {
    **{
        suffix: Fraction(1024) ** power
        for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    "m": Fraction(1, 1000),
    "u": Fraction(1, 1000_000),
    "n": Fraction(1, 1000_000_000),
}


def amount(text: Any) -> Fraction:
    """Return a Kubernetes quantity as an exact number."""
    text = str(text)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * factor
    return Fraction(text)


def amounts(quantities: Mapping[str, Any] | None) -> dict[str, Fraction]:
    """Return resource -> exact number for a map of quantities."""
    return {name: amount(text) for name, text in (quantities or {}).items()}


# --- Labels and annotations ----------------------------------------------------------------------------------


def _in(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == one or domain.endswith("." + one) for one in domains)


def stays(key: str, tenant: Tenant) -> bool:
    """Return whether a label or annotation with this key stays in the tenant."""
    domain = key.partition("/")[0] if "/" in key else ""
    if key.startswith(("tenancy.x-k8s.io", "transparency.tenancy.x-k8s.io")) or _in(domain, keys.OUR_DOMAINS):
        return True
    if tenant.opaque and key.startswith(tenant.opaque):
        return True
    return _in(domain, keys.KUBERNETES_DOMAINS) and not _in(domain, keys.WORKLOAD_DOMAINS)


def going_down(values: Mapping[str, str], tenant: Tenant) -> dict[str, str]:
    """Return the tenant's labels that its super object has, too."""
    return {key: value for key, value in values.items() if not stays(key, tenant)}


def annotations_going_down(values: Mapping[str, str], tenant: Tenant, kind: str) -> dict[str, str]:
    """Return the tenant's annotations that its super object of a kind (plural) has, too: those that the policy names."""
    policy = tenant.spec.get("servicePolicy" if kind in _OF_SERVICES else "podPolicy") or {}
    patterns = policy.get("annotations") or ()
    exact = frozenset(pattern for pattern in patterns if not pattern.endswith("*"))
    beginnings = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return {
        key: value
        for key, value in values.items()
        if key in exact or (beginnings and key.startswith(beginnings))
    }


def own_labels(tenant: Tenant) -> dict[str, str]:
    """Return the labels that name the tenant of a super object."""
    namespace, name = place(tenant.record)
    return {keys.CONTROLLED: "true", keys.VC_NAME: name, keys.VC_NAMESPACE: namespace}


def own_annotations(source_uid: str, namespace: str, tenant: Tenant) -> dict[str, str]:
    """Return the annotations that name the source of a super object."""
    vc_namespace, vc_name = place(tenant.record)
    return {
        keys.CLUSTER: tenant.key,
        keys.UID: source_uid,
        keys.NAMESPACE: namespace,
        keys.VC_NAME: vc_name,
        keys.VC_NAMESPACE: vc_namespace,
    }


def metadata_differences(
    wanted: Mapping[str, str], actual: Mapping[str, str], tenant: Tenant, field: str
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, expected, actual) of labels or annotations, except keys that a super cluster may set by itself."""
    for key, value in wanted.items():
        if actual.get(key) != value:
            yield f"metadata.{field}[{key}]", value, actual.get(key)
    for key, value in actual.items():
        own = tenant.transparent and key.startswith(tenant.transparent)
        if key not in wanted and not stays(key, tenant) and not own:
            yield f"metadata.{field}[{key}]", None, value


def wanted_labels(source: Json, tenant: Tenant) -> dict[str, str]:
    """Return the labels of the super object for a namespaced object of a tenant."""
    return going_down(labels(source), tenant) | own_labels(tenant)


def wanted_annotations(source: Json, tenant: Tenant, kind: str) -> dict[str, str]:
    """Return the annotations of the super object for a namespaced object of a tenant, of a kind (plural)."""
    copied = annotations_going_down(annotations(source), tenant, kind)
    return copied | own_annotations(uid(source), place(source)[0], tenant)


# --- Fields of the kinds -------------------------------------------------------------------------------------


def config_map(found: Json) -> Json:
    """Return the synced fields of a ConfigMap."""
    return {
        "data": found.get("data") or {},
        "binaryData": found.get("binaryData") or {},
        "immutable": bool(found.get("immutable")),
    }


def secret(found: Json) -> Json:
    """Return the synced fields of a Secret, with the type that it has in a super cluster."""
    kind = found.get("type") or "Opaque"
    domain = kind.partition("/")[0]
    if kind not in keys.HARMLESS_SECRET_TYPES and _in(domain, keys.KUBERNETES_DOMAINS):
        kind = "Opaque"
    return {"data": found.get("data") or {}, "type": kind, "immutable": bool(found.get("immutable"))}


def service_account(found: Json) -> Json:
    """Return the fields of a ServiceAccount in a super cluster: the tenant's pull Secrets, no tokens."""
    return {"imagePullSecrets": found.get("imagePullSecrets") or [], "automountServiceAccountToken": False}


def service_account_as_is(found: Json) -> Json:
    """Return the same fields unchanged."""
    return {
        "imagePullSecrets": found.get("imagePullSecrets") or [],
        "automountServiceAccountToken": found.get("automountServiceAccountToken"),
    }


_SERVICE_DEFAULTS: Json = {
    "type": "ClusterIP",
    "selector": {},
    "sessionAffinity": "None",
    "sessionAffinityConfig": {},
    "externalName": "",
    "externalTrafficPolicy": "Cluster",
    "internalTrafficPolicy": "Cluster",
    "publishNotReadyAddresses": False,
    "loadBalancerIP": "",
    "loadBalancerClass": "",
    "loadBalancerSourceRanges": [],
    "allocateLoadBalancerNodePorts": True,
    "trafficDistribution": "",
}


def network_policy(found: Json) -> Json:
    """Return the fields of a NetworkPolicy without its namespace selectors, which differ between the clusters."""
    spec = found.get("spec") or {}
    said = {f"spec.{field}": spec.get(field) for field in ("podSelector", "policyTypes")}
    for field, peers in (("ingress", "from"), ("egress", "to")):
        said[f"spec.{field}"] = [
            {
                "ports": rule.get("ports"),
                "peers": [
                    {key: value for key, value in peer.items() if key != "namespaceSelector"}
                    for peer in rule.get(peers) or ()
                ],
            }
            for rule in spec.get(field) or ()
        ]
    return said


def namespace_selectors(policy: Json) -> list[Json]:
    """Return the namespace selectors of a NetworkPolicy's peers, in order."""
    spec = policy.get("spec") or {}
    rules = [(rule, "from") for rule in spec.get("ingress") or ()]
    rules += [(rule, "to") for rule in spec.get("egress") or ()]
    return [
        peer["namespaceSelector"]
        for rule, peers in rules
        for peer in rule.get(peers) or ()
        if peer.get("namespaceSelector") is not None
    ]


def own_namespaces(selector: Json, tenant: Tenant) -> Json:
    """Return the selector that selects the same namespaces of a tenant in a super cluster."""
    match = dict(selector.get("matchLabels") or {})
    if keys.NAMESPACE_NAME in match:
        match[keys.NAMESPACE_NAME] = super_namespace(tenant.key, match[keys.NAMESPACE_NAME])
    expressions = [
        {**each, "values": [super_namespace(tenant.key, value) for value in each["values"]]}
        if each["key"] == keys.NAMESPACE_NAME and each.get("values")
        else each
        for each in selector.get("matchExpressions") or ()
    ]
    own = {"matchLabels": {**match, keys.CLUSTER: tenant.key}}
    return {**own, "matchExpressions": expressions} if expressions else own


def budget(found: Json) -> Json:
    """Return the expected fields of the copy of a PodDisruptionBudget. Its `minAvailable` changes while nodes are drained."""
    return {"spec.selector": (found.get("spec") or {}).get("selector"), "spec.minAvailable is a number": True}


def budget_there(found: Json) -> Json:
    """Return these fields of a copy, without the label that restricts the selector to Pods of the tenant."""
    spec = found.get("spec") or {}
    selector = spec.get("selector")
    if selector is not None:
        match = dict(selector.get("matchLabels") or {})
        rest = {key: value for key, value in selector.items() if key != "matchLabels"}
        if match.pop(keys.CLUSTER, None) is None:
            rest["selects Pods of others"] = True
        selector = {**rest, **({"matchLabels": match} if match else {})}
    return {
        "spec.selector": selector,
        "spec.minAvailable is a number": isinstance(spec.get("minAvailable"), int),
    }


def ingress(found: Json) -> Json:
    """Return the fields of an Ingress except its class, which the super cluster may choose."""
    spec = found.get("spec") or {}
    return {f"spec.{field}": spec.get(field) for field in ("defaultBackend", "rules", "tls")}


def service(found: Json) -> Json:
    """Return the fields of a Service except those that each cluster allocates by itself."""
    spec = found.get("spec") or {}
    said = {f"spec.{field}": spec.get(field, default) for field, default in _SERVICE_DEFAULTS.items()}
    said["spec.ports"] = [
        {
            "name": port.get("name", ""),
            "port": port["port"],
            "protocol": port.get("protocol", "TCP"),
            "targetPort": port.get("targetPort", port["port"]),
            "appProtocol": port.get("appProtocol", ""),
        }
        for port in spec.get("ports") or ()
    ]
    said["spec.headless"] = spec.get("clusterIP") == "None"
    return said


def endpoints(found: Json) -> Json:
    """Return the single addresses of Endpoints, sorted, because API servers pack them into subsets differently."""
    return {"subsets": sorted(said for subset in found.get("subsets") or () for said in _addresses(subset))}


def endpoint_slice(found: Json) -> Json:
    """Return the expected fields of the copy of an EndpointSlice, from the tenant's."""
    endpoints = [
        {field: each[field] for field in ("addresses", "conditions", "hostname") if field in each}
        for each in found.get("endpoints") or ()
    ]
    service = labels(found).get(SERVICE_NAME)
    return {field: found.get(field) for field in ("addressType", "ports")} | {
        "endpoints": endpoints,
        SERVICE_NAME: service,
    }


def endpoint_slice_there(found: Json) -> Json:
    """Return the same fields of a copy, with all of its endpoints' fields: it has no others."""
    return endpoint_slice(found) | {"endpoints": found.get("endpoints") or []}


def _addresses(subset: Json) -> Iterator[list[Any]]:
    no_port: Json = {}
    for field in ("addresses", "notReadyAddresses"):
        for address in subset.get(field) or ():
            for port in subset.get("ports") or (no_port,):
                where = [field, address.get("ip", ""), address.get("hostname", "")]
                yield [*where, port.get("name", ""), port.get("port", 0), port.get("protocol", "TCP")]
