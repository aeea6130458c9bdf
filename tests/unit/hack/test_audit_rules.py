"""Each rule of the audit finds its defect and nothing else, in a correct world with one defect at a time."""

import base64
import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from hack.audit import Cluster, Tenant, World, audit, table
from hack.audit.convert import amount
from hack.audit.world import cluster_key, super_namespace

Json = dict[str, Any]

ACME, UMBRELLA = "vcsync-aaaaaa-acme", "vcsync-bbbbbb-umbrella"
SHOP = f"{ACME}-shop"
SUPER_CLUSTER = "scheduler.virtualcluster.io/superCluster"


class Draft:
    """Clusters that tests can change; `world()` returns the input of the audit."""

    def __init__(self) -> None:
        self.meta: dict[str, list[Json]] = {}
        self.supers: dict[str, dict[str, list[Json]]] = {"r1": {}, "r2": {}}
        self.tenants: dict[str, dict[str, list[Json]]] = {ACME: {}, UMBRELLA: {}}
        self.empty_nodes = True

    def find(self, place: str, kind: str, name: str) -> Json:
        """An object of `meta`, `r1`, `r2` or a tenant, by kind and name."""
        return next(found for found in self._of(place)[kind] if found["metadata"]["name"] == name)

    def remove(self, place: str, kind: str, name: str) -> None:
        self._of(place)[kind].remove(self.find(place, kind, name))

    def add(self, place: str, kind: str, found: Json) -> None:
        self._of(place).setdefault(kind, []).append(found)

    def world(self) -> World:
        records = {found["status"]["clusterNamespace"]: found for found in self.meta["virtualclusters"]}
        return World(
            meta=Cluster(self.meta),
            supers={name: Cluster(objects) for name, objects in self.supers.items()},
            tenants={
                key: Tenant(key, records[key], Cluster(objects)) for key, objects in self.tenants.items()
            },
            now=datetime(2026, 1, 1, tzinfo=UTC),
            markers={ACME: ("acme-secret",), UMBRELLA: ("umbrella-secret",)},
            empty_nodes=self.empty_nodes,
        )

    def _of(self, place: str) -> dict[str, list[Json]]:
        return self.meta if place == "meta" else {**self.supers, **self.tenants}[place]


def made(name: str, namespace: str = "", *, uid: str = "", **fields: Any) -> Json:
    metadata: Json = {"name": name, "uid": uid or f"uid-{namespace}-{name}", "labels": {}, "annotations": {}}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] |= fields.pop("labels", {})
    metadata["annotations"] |= fields.pop("annotations", {})
    return {"metadata": metadata, **fields}


OWN_LABELS = {
    "tenancy.x-k8s.io/controlled": "true",
    "tenancy.x-k8s.io/vcname": "acme",
    "tenancy.x-k8s.io/vcnamespace": "vcsync",
}


def copied(
    source: Json,
    *,
    name: str = "",
    labels: Json | None = None,
    annotations: Json | None = None,
    **fields: Any,
) -> Json:
    """The super cluster's copy of an object in acme's namespace shop."""
    below = copy.deepcopy(source)
    metadata = source["metadata"]
    below["metadata"] = {
        "name": name or metadata["name"],
        "namespace": SHOP,
        "uid": f"super-{metadata['uid']}",
        "labels": {
            **{key: value for key, value in metadata["labels"].items() if "virtualcluster.io" not in key},
            **OWN_LABELS,
            **(labels or {}),
        },
        "annotations": {
            **{key: value for key, value in metadata["annotations"].items() if "x-k8s.io" not in key},
            "tenancy.x-k8s.io/cluster": ACME,
            "tenancy.x-k8s.io/uid": metadata["uid"],
            "tenancy.x-k8s.io/namespace": "shop",
            "tenancy.x-k8s.io/vcname": "acme",
            "tenancy.x-k8s.io/vcnamespace": "vcsync",
            **(annotations or {}),
        },
    }
    return {**below, **fields}


def token_of(namespace: str, pod_uid: str) -> str:
    payload = {"kubernetes.io": {"namespace": namespace, "pod": {"uid": pod_uid}}}
    text = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=")
    return base64.b64encode(b"header." + text + b".signature").decode()


def correct() -> Draft:
    """Tenant acme has namespace shop with three slices, two on r1 and one on r2; umbrella has nothing placed."""
    draft = Draft()
    for key, name in ((ACME, "acme"), (UMBRELLA, "umbrella")):
        spec = {"podPolicy": {"annotations": ["note"]}}
        record = made(name, "vcsync", uid=f"vc-{name}", spec=spec, status={"clusterNamespace": key})
        draft.add("meta", "virtualclusters", record)
    size = {"cpu": "1", "memory": "1Gi", "pods": "10", "object-bytes": "8Mi"}
    placements = {"r1": 2, "r2": 1}
    line = made("shop", ACME, spec={}, status={"placements": placements, "waiting": 0})
    line["metadata"]["finalizers"] = ["tenancy.x-k8s.io/drain-r1", "tenancy.x-k8s.io/drain-r2"]
    line["spec"] = {
        "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc-acme"},
        "tenant": ACME,
        "namespace": "shop",
        "namespaceUID": "uid-shop",
        "sliceSize": size,
        "slices": 3,
    }
    draft.add("meta", "namespaceplacements", line)

    shop = made("shop", uid="uid-shop", labels={"team": "a", "kubernetes.io/metadata.name": "shop"})
    shop["metadata"]["labels"] |= {
        "placement.scheduler.virtualcluster.io/r1": "2",
        "placement.scheduler.virtualcluster.io/r2": "1",
    }
    shop["metadata"]["annotations"] |= {
        "scheduler.virtualcluster.io/placements": json.dumps(placements),
        "scheduler.virtualcluster.io/slice": '{"cpu":"1","memory":"1Gi"}',
        "note": "acme-secret",
    }
    draft.add(ACME, "namespaces", shop)
    draft.add(UMBRELLA, "namespaces", made("default", uid="uid-default-of-umbrella"))
    draft.add(
        ACME,
        "resourcequotas",
        made("q", "shop", spec={"hard": {"requests.cpu": "2500m", "limits.memory": "3Gi"}}),
    )

    settings = made(
        "settings", "shop", labels={"app.kubernetes.io/name": "shop"}, data={"text": "acme-secret"}
    )
    root_ca = made("kube-root-ca.crt", "shop", data={"ca.crt": "tenant"})
    password = made("password", "shop", type="kubernetes.io/service-account-token", data={"p": "eA=="})
    account = made("default", "shop", imagePullSecrets=[{"name": "password"}])
    front = made("front", "shop", status={"loadBalancer": {}})
    front["spec"] = {
        "clusterIP": "10.1.0.5",
        "selector": {"app": "shop"},
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
    }
    front["metadata"]["annotations"]["transparency.tenancy.x-k8s.io/clusterIP"] = "10.9.0.7"
    outside = made("outside", "shop", spec={"clusterIP": "None", "ports": [{"port": 5432}]}, status={})
    addresses = made(
        "outside", "shop", subsets=[{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 5432}]}]
    )
    policy = made("front", "shop")
    policy["spec"] = {
        "podSelector": {"matchLabels": {"app": "shop"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"team": "a"}}}]}],
        "egress": [
            {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}]},
            {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 443}]},
        ],
    }
    budget = made("web", "shop", spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}})
    unenforced = made("os", "shop", spec={"selector": {"matchLabels": {"kubernetes.io/os": "linux"}}})
    external = made("db-1", "shop", labels={"kubernetes.io/service-name": "outside"})
    external |= {"addressType": "IPv4", "ports": [{"port": 5432}]}
    external["endpoints"] = [{"addresses": ["192.0.2.7"], "nodeName": "node-0.r1", "hostname": "db-0"}]
    written = made("front-1", "shop", labels={"kubernetes.io/service-name": "front"})
    written["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = (
        "endpointslice-controller.k8s.io"
    )
    site = made("site", "shop", annotations={"stays": "here"})
    site["spec"] = {"rules": [{"host": "shop.example.com"}]}
    for kind, source in (
        ("networkpolicies", policy),
        ("poddisruptionbudgets", budget),
        ("poddisruptionbudgets", unenforced),
        ("configmaps", settings),
        ("configmaps", root_ca),
        ("secrets", password),
        ("secrets", made("sh.helm.release.v1.web.v1", "shop", type="helm.sh/release.v1")),
        ("serviceaccounts", account),
        ("services", front),
        ("services", outside),
        ("endpoints", addresses),
        ("endpointslices", external),
        ("endpointslices", written),
        ("ingresses", site),
        ("ingresses", made("waits", "shop", spec={"rules": [{"host": "edge.example.com"}]})),
    ):
        draft.add(ACME, kind, source)
    draft.add(ACME, "endpoints", made("front", "shop", subsets=[]))

    for super_id, slices in placements.items():
        below = copied(shop, name=SHOP, labels={"tenancy.x-k8s.io/cluster": ACME})
        del below["metadata"]["namespace"]
        below["metadata"]["labels"].pop("placement.scheduler.virtualcluster.io/r1", None)
        below["metadata"]["annotations"] |= {
            "tenancy.x-k8s.io/vcuid": "vc-acme",
            "scheduler.virtualcluster.io/placements": json.dumps(placements),
            "scheduler.virtualcluster.io/slice": json.dumps(size),
        }
        draft.add(super_id, "namespaces", below)
        hard = {
            "requests.cpu": str(slices),
            "requests.memory": f"{slices * 1024}Mi",
            "pods": str(slices * 10),
        }
        draft.add(
            super_id,
            "resourcequotas",
            copied(shop, name="vcsync-slices", spec={"hard": hard}, status={"hard": hard, "used": {}}),
        )
        draft.add(super_id, "configmaps", copied(settings))
        draft.add(super_id, "configmaps", copied(root_ca, name="tenant-kube-root-ca.crt"))
        draft.add(super_id, "configmaps", made("kube-root-ca.crt", SHOP, data={"ca.crt": "super"}))
        draft.add(super_id, "secrets", copied(password, type="Opaque"))
        draft.add(super_id, "serviceaccounts", copied(account, automountServiceAccountToken=False))
        match = {"app": "web", "tenancy.x-k8s.io/cluster": ACME}
        closed = {"minAvailable": 2**31 - 1, "selector": {"matchLabels": match}}
        draft.add(super_id, "poddisruptionbudgets", copied(budget, spec=closed))
        address = {"r1": "10.9.0.7", "r2": "10.8.0.7"}[super_id]
        service = copied(front, annotations={"tenancy.x-k8s.io/clusterIP": "10.1.0.5"})
        service["spec"]["clusterIP"] = address
        service["spec"]["ports"][0]["nodePort"] = 30000
        service["metadata"]["annotations"].pop("transparency.tenancy.x-k8s.io/clusterIP", None)
        draft.add(super_id, "services", service)
        draft.add(super_id, "services", copied(outside))
        draft.add(super_id, "endpoints", copied(addresses))
        there = copied(external, endpoints=[{"addresses": ["192.0.2.7"], "hostname": "db-0"}])
        manager = "endpointslice.kubernetes.io/managed-by"
        there["metadata"]["labels"] |= {"kubernetes.io/service-name": "outside", manager: "tenancy.x-k8s.io"}
        mirrored = copied(addresses, name="outside-x7k2p")
        mirrored["metadata"]["labels"][manager] = "endpointslicemirroring-controller.k8s.io"
        draft.add(super_id, "endpointslices", mirrored)
        draft.add(super_id, "endpointslices", there)
        restricted = copied(policy)
        own = {"tenancy.x-k8s.io/cluster": ACME}
        inward, outward = (
            restricted["spec"]["ingress"][0]["from"][0],
            restricted["spec"]["egress"][0]["to"][0],
        )
        inward["namespaceSelector"]["matchLabels"] |= own
        outward["namespaceSelector"]["matchLabels"] = {"kubernetes.io/metadata.name": SHOP, **own}
        draft.add(super_id, "networkpolicies", restricted)
        below = copied(site)
        del below["metadata"]["annotations"]["stays"]
        below["spec"]["ingressClassName"] = "default"
        draft.add(super_id, "ingresses", below)
        edge = made("edge", "edge", uid=f"edge-{super_id}", spec={"rules": [{"host": "edge.example.com"}]})
        draft.add(super_id, "ingresses", edge)
        draft.add(super_id, "endpoints", made("front", SHOP, subsets=[]))
        draft.add(super_id, "nodes", made("node-0", uid=f"node-{super_id}", status=_ready("True")))

    pod = made("web", "shop", labels={"app": "shop", SUPER_CLUSTER: "r1"}, annotations={SUPER_CLUSTER: "r1"})
    container = {"name": "main", "image": "app:1", "env": [{"name": "A", "value": "b"}]}
    pod["spec"] = {
        "containers": [{**container, "resources": {"requests": {"cpu": "100m"}}}],
        "nodeName": "node-0.r1",
        "serviceAccountName": "default",
        "volumes": [
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        ],
    }
    pod["status"] = {
        "phase": "Running",
        "podIP": "10.0.0.9",
        "qosClass": "Burstable",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}],
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0}],
    }
    draft.add(ACME, "pods", pod)
    below = copied(pod, labels={"tenancy.x-k8s.io/cluster": ACME})
    del below["metadata"]["annotations"][SUPER_CLUSTER]
    below["spec"]["nodeName"] = "node-0"
    below["spec"]["automountServiceAccountToken"] = False
    below["spec"]["volumes"][0]["projected"]["sources"] = [
        {"secret": {"name": f"vcsync-token-{pod['metadata']['uid']}"}}
    ]
    below["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "0.1", "memory": "0"}}
    below["spec"]["containers"][0]["env"] = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
        *container["env"],
    ]
    draft.add("r1", "pods", below)
    token = copied(
        pod,
        name=f"vcsync-token-{pod['metadata']['uid']}",
        annotations={"tenancy.x-k8s.io/token-expires": "2026-01-01T01:00:00Z"},
        data={"token-0": token_of("shop", pod["metadata"]["uid"])},
    )
    draft.add("r1", "secrets", token)
    node = made(
        "node-0.r1",
        uid="virtual-node",
        labels={"tenancy.x-k8s.io/virtualnode": "true", "tenancy.x-k8s.io/superclusterid": "r1"},
        status=_ready("True"),
    )
    draft.add(ACME, "nodes", node)
    return draft


def _ready(status: str) -> Json:
    return {
        "conditions": [{"type": "Ready", "status": status}],
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "4"},
    }


POD_TOKEN = "vcsync-token-uid-shop-web"


def _set(place: str, kind: str, name: str, path: str, value: Any) -> Callable[[Draft], None]:
    """Change one field, named like `spec/containers/0/image`; None removes it."""

    def change(draft: Draft) -> None:
        holder: Any = draft.find(place, kind, name)
        *steps, last = path.split("|")
        for step in steps:
            holder = holder[int(step) if isinstance(holder, list) else step]
        if value is None:
            del holder[last]
        else:
            holder[last] = value

    return change


def _gone(place: str, kind: str, name: str) -> Callable[[Draft], None]:
    return lambda draft: draft.remove(place, kind, name)


def _twin(source: str, target: str, kind: str, original: str, **changes: Any) -> Callable[[Draft], None]:
    """Copy an object of one cluster into another; `changes` go into its metadata."""

    def change(draft: Draft) -> None:
        found = copy.deepcopy(draft.find(source, kind, original))
        found["metadata"] |= changes
        draft.add(target, kind, found)

    return change


CLUSTER, UID = "metadata|annotations|tenancy.x-k8s.io/cluster", "metadata|annotations|tenancy.x-k8s.io/uid"

FROM, TO = "spec|ingress|0|from|0|namespaceSelector", "spec|egress|0|to|0|namespaceSelector"

DEFECTS: list[tuple[str, Callable[[Draft], None], list[str]]] = [
    # what, how, findings as `rule super-cluster kind name`
    (
        "NetworkPolicy open to the namespaces of all tenants",
        _set("r1", "networkpolicies", "front", FROM, {"matchLabels": {"team": "a"}}),
        ["stale r1 networkpolicies front"],
    ),
    (
        "NetworkPolicy to a namespace that is not translated",
        _set("r2", "networkpolicies", "front", TO, {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}),
        ["stale r2 networkpolicies front"],
    ),
    (
        "NetworkPolicy with other ports",
        _set("r2", "networkpolicies", "front", "spec|egress|1|ports|0|port", 80),
        ["stale r2 networkpolicies front"],
    ),
    (
        "EndpointSlice with a foreign address",
        _set("r2", "endpointslices", "db-1", "endpoints|0|addresses", ["10.9.0.8"]),
        ["stale r2 endpointslices db-1"],
    ),
    (
        "EndpointSlice of another Service",
        _set("r1", "endpointslices", "db-1", "metadata|labels|kubernetes.io/service-name", "front"),
        ["stale r1 endpointslices db-1"],
    ),
    (
        "EndpointSlice that names a node of the tenant",
        _set("r1", "endpointslices", "db-1", "endpoints|0|nodeName", "node-0.r1"),
        ["stale r1 endpointslices db-1"],
    ),
    (
        "EndpointSlice missing",
        _gone("r1", "endpointslices", "db-1"),
        ["missing r1 endpointslices db-1"],
    ),
    (
        "NetworkPolicy missing",
        _gone("r1", "networkpolicies", "front"),
        ["missing r1 networkpolicies front"],
    ),
    (
        "ledger line of nobody",
        _twin("meta", "meta", "namespaceplacements", "shop", namespace="stranger", uid="x"),
        ["foreign - namespaceplacements shop"],
    ),
    (
        "ledger line of another namespace UID",
        _set("meta", "namespaceplacements", "shop", "spec|namespaceUID", "old"),
        ["ledger - namespaceplacements shop"],
    ),
    (
        "ledger line that deals too little",
        _set("meta", "namespaceplacements", "shop", "spec|slices", 4),
        ["ledger - namespaceplacements shop", "ledger - namespaces shop"],
    ),
    (
        "ledger line without drain finalizer",
        _set("meta", "namespaceplacements", "shop", "metadata|finalizers", ["tenancy.x-k8s.io/drain-r1"]),
        ["ledger - namespaceplacements shop"],
    ),
    (
        "quota changed, ledger did not",
        _set(ACME, "resourcequotas", "q", "spec|hard|requests.cpu", "5"),
        ["ledger - namespaces shop"],
    ),
    (
        "quota that is scoped away",
        _set(ACME, "resourcequotas", "q", "spec|scopes", ["Terminating"]),
        ["ledger - namespaces shop"],
    ),
    (
        "mirror annotation",
        _set(ACME, "namespaces", "shop", "metadata|annotations|scheduler.virtualcluster.io/placements", "{}"),
        ["mirror - namespaces shop"],
    ),
    (
        "mirror label",
        _set(ACME, "namespaces", "shop", "metadata|labels|placement.scheduler.virtualcluster.io/r2", "7"),
        ["mirror - namespaces shop"],
    ),
    (
        "super namespace with another UID",
        _set("r2", "namespaces", SHOP, UID, "old"),
        [f"stale r2 namespaces {SHOP}"],
    ),
    (
        "super namespace label",
        _set("r2", "namespaces", SHOP, "metadata|labels|team", "b"),
        [f"stale r2 namespaces {SHOP}"],
    ),
    (
        "super namespace without place",
        _twin("r1", "r1", "namespaces", SHOP, name=f"{ACME}-old"),
        [f"foreign r1 namespaces {ACME}-old", f"doubled r1 namespaces {ACME}-old"],
    ),
    (
        "super quota",
        _set("r1", "resourcequotas", "vcsync-slices", "spec|hard|requests.cpu", "3"),
        ["stale r1 resourcequotas vcsync-slices"],
    ),
    (
        "super quota with too many pods",
        _set("r1", "resourcequotas", "vcsync-slices", "spec|hard|pods", "300"),
        ["stale r1 resourcequotas vcsync-slices"],
    ),
    (
        "super quota with more resources",
        _set("r1", "resourcequotas", "vcsync-slices", "spec|hard|services", "3"),
        ["stale r1 resourcequotas vcsync-slices"],
    ),
    (
        "super quota gone",
        _gone("r1", "resourcequotas", "vcsync-slices"),
        ["missing r1 resourcequotas vcsync-slices"],
    ),
    (
        "second quota",
        _twin("r1", "r1", "resourcequotas", "vcsync-slices", name="more"),
        ["foreign r1 resourcequotas more"],
    ),
    ("ConfigMap gone", _gone("r2", "configmaps", "settings"), ["missing r2 configmaps settings"]),
    (
        "ConfigMap data",
        _set("r2", "configmaps", "settings", "data|text", "old"),
        ["stale r2 configmaps settings"],
    ),
    (
        "ConfigMap of an earlier namesake",
        _set("r2", "configmaps", "settings", UID, "old"),
        ["stale r2 configmaps settings"],
    ),
    (
        "label lost",
        _set("r2", "configmaps", "settings", "metadata|labels|app.kubernetes.io/name", None),
        ["stale r2 configmaps settings"],
    ),
    (
        "label added",
        _set("r2", "configmaps", "settings", "metadata|labels|more", "x"),
        ["stale r2 configmaps settings"],
    ),
    (
        "our marker lost",
        _set("r2", "configmaps", "settings", "metadata|labels|tenancy.x-k8s.io/controlled", None),
        ["stale r2 configmaps settings"],
    ),
    (
        "tenant's root CA",
        _set("r1", "configmaps", "tenant-kube-root-ca.crt", "data|ca.crt", "super"),
        ["stale r1 configmaps tenant-kube-root-ca.crt"],
    ),
    (
        "ConfigMap without source",
        _gone(ACME, "configmaps", "settings"),
        ["foreign r1 configmaps settings", "foreign r2 configmaps settings"],
    ),
    (
        "ConfigMap twice",
        _twin("r1", "r1", "configmaps", "settings", name="other"),
        ["foreign r1 configmaps other", "doubled r1 configmaps other"],
    ),
    (
        "ours in a strange namespace",
        _twin(
            "r1",
            "r1",
            "configmaps",
            "settings",
            namespace="kube-system",
            annotations={"tenancy.x-k8s.io/cluster": ACME},
        ),
        ["foreign r1 configmaps settings"],
    ),
    (
        "Secret of Helm",
        _twin(ACME, "r1", "secrets", "sh.helm.release.v1.web.v1", namespace=SHOP),
        ["foreign r1 secrets sh.helm.release.v1.web.v1"],
    ),
    ("Secret data", _set("r1", "secrets", "password", "data|p", "eQ=="), ["stale r1 secrets password"]),
    (
        "Secret type that the super cluster acts on",
        _set("r1", "secrets", "password", "type", "kubernetes.io/service-account-token"),
        ["stale r1 secrets password"],
    ),
    (
        "ServiceAccount with tokens",
        _set("r1", "serviceaccounts", "default", "automountServiceAccountToken", True),
        ["stale r1 serviceaccounts default"],
    ),
    (
        "ServiceAccount pull secrets",
        _set("r1", "serviceaccounts", "default", "imagePullSecrets", []),
        ["stale r1 serviceaccounts default"],
    ),
    (
        "PodDisruptionBudget selector",
        _set("r1", "poddisruptionbudgets", "web", "spec|selector|matchLabels|app", "api"),
        ["stale r1 poddisruptionbudgets web"],
    ),
    (
        "PodDisruptionBudget of other tenants' Pods",
        _set("r1", "poddisruptionbudgets", "web", "spec|selector", {"matchLabels": {"app": "web"}}),
        ["stale r1 poddisruptionbudgets web"],
    ),
    (
        "PodDisruptionBudget that no super cluster can count",
        _set("r1", "poddisruptionbudgets", "web", "spec|minAvailable", "50%"),
        ["stale r1 poddisruptionbudgets web"],
    ),
    (
        "Service port",
        _set("r1", "services", "front", "spec|ports", [{"name": "http", "port": 81}]),
        ["stale r1 services front"],
    ),
    (
        "Service selector",
        _set("r1", "services", "front", "spec|selector", {"app": "x"}),
        ["stale r1 services front"],
    ),
    (
        "Service that should be headless",
        _set("r1", "services", "outside", "spec|clusterIP", "10.9.0.8"),
        ["stale r1 services outside", "status - services outside"],
    ),
    (
        "Service address missing",
        _set(
            ACME,
            "services",
            "front",
            "metadata|annotations|transparency.tenancy.x-k8s.io/clusterIP",
            "1.1.1.1",
        ),
        ["status - services front"],
    ),
    (
        "load balancer of a Service that has none",
        _set(ACME, "services", "front", "status|loadBalancer", {"ingress": [{"ip": "1.1.1.1"}]}),
        ["status - services front"],
    ),
    ("Endpoints address", _set("r1", "endpoints", "outside", "subsets", []), ["stale r1 endpoints outside"]),
    (
        "Endpoints of a Service with selector",
        _twin("r1", "r1", "endpoints", "outside", name="front-2"),
        ["foreign r1 endpoints front-2", "doubled r1 endpoints front-2"],
    ),
    (
        "Ingress changed",
        _set("r1", "ingresses", "site", "spec|rules", [{"host": "other.example.com"}]),
        ["stale r1 ingresses site"],
    ),
    (
        "annotation of an Ingress that was not allowed",
        _set("r1", "ingresses", "site", "metadata|annotations|stays", "here"),
        ["stale r1 ingresses site"],
    ),
    *(
        (
            f"annotation of {kind} that was not allowed",
            _set("r1", kind, name, "metadata|annotations|metallb.io/loadBalancerIPs", "10.0.0.1"),
            [f"stale r1 {kind} {name}"],
        )
        for kind, name in (("services", "front"), ("pods", "web"), ("namespaces", SHOP))
    ),
    (
        "host of two owners",
        _set("r1", "ingresses", "edge", "spec|rules", [{"host": "*.example.com"}]),
        ["host r1 ingresses site"],
    ),
    ("Pod gone below", _gone("r1", "pods", "web"), ["missing r1 pods web"]),
    (
        "Pod gone above",
        _gone(ACME, "pods", "web"),
        ["foreign r1 pods web", f"foreign r1 secrets {POD_TOKEN}"],
    ),
    (
        "Pod of an earlier namesake",
        _set("r1", "pods", "web", UID, "old"),
        ["stale r1 pods web", "foreign r1 pods web"],
    ),
    (
        "Pod in two super clusters",
        _twin("r1", "r2", "pods", "web"),
        ["doubled r2 pods web", "foreign r2 pods web", f"missing r2 secrets {POD_TOKEN}"],
    ),
    (
        "Pod label of a place without slices",
        _set(ACME, "pods", "web", f"metadata|labels|{SUPER_CLUSTER}", "r9"),
        ["stale r9 pods web", "foreign r1 pods web", f"foreign r1 secrets {POD_TOKEN}"],
    ),
    (
        "Pod that nobody places",
        _set(ACME, "pods", "web", f"metadata|labels|{SUPER_CLUSTER}", None),
        ["missing - pods web", "foreign r1 pods web", f"foreign r1 secrets {POD_TOKEN}"],
    ),
    (
        "Pod image",
        _set(
            "r1",
            "pods",
            "web",
            "spec|containers",
            [
                {
                    "name": "main",
                    "image": "app:0",
                    "env": [{"name": "KUBERNETES_SERVICE_HOST"}, {"name": "A", "value": "b"}],
                    "resources": {"requests": {"cpu": "0.1"}},
                }
            ],
        ),
        ["stale r1 pods web"],
    ),
    ("Pod bound elsewhere", _set("r1", "pods", "web", "spec|nodeName", "node-1"), ["status r1 pods web"]),
    (
        "Pod with a token of the super cluster",
        _set("r1", "pods", "web", "spec|automountServiceAccountToken", True),
        ["stale r1 pods web"],
    ),
    ("Pod phase", _set("r1", "pods", "web", "status|phase", "Pending"), ["status r1 pods web"]),
    ("Pod address", _set(ACME, "pods", "web", "status|podIP", "10.0.0.1"), ["status r1 pods web"]),
    ("Pod condition", _set("r1", "pods", "web", "status|conditions", []), ["status r1 pods web"]),
    ("container status", _set(ACME, "pods", "web", "status|containerStatuses", []), ["status r1 pods web"]),
    (
        "Pod that hangs in deletion",
        _set("r1", "pods", "web", "metadata|deletionTimestamp", "2026-01-01T00:00:00Z"),
        ["stuck r1 pods web"],
    ),
    (
        "Pod that hangs in deletion and lost its label",
        _twin(ACME, ACME, "pods", "web", name="left", labels={}, deletionTimestamp="2026-01-01T00:00:00Z"),
        ["stuck - pods left"],
    ),
    (
        "Pod that keeps its name without a copy",
        _twin(
            ACME,
            ACME,
            "pods",
            "web",
            name="kept",
            deletionTimestamp="2026-01-01T00:00:00Z",
            finalizers=["tenancy.x-k8s.io/copy"],
        ),
        ["stuck r1 pods kept"],
    ),
    ("virtual node gone", _gone(ACME, "nodes", "node-0.r1"), ["missing - nodes node-0.r1"]),
    (
        "virtual node of no node",
        _twin(ACME, ACME, "nodes", "node-0.r1", name="node-7.r1"),
        ["foreign r1 nodes node-7.r1"],
    ),
    (
        "virtual node that seems ready",
        _set("r1", "nodes", "node-0", "status|conditions", [{"type": "Ready", "status": "False"}]),
        ["stale r1 nodes node-0.r1"],
    ),
    (
        "virtual node of another size",
        _set("r1", "nodes", "node-0", "status|allocatable", {"cpu": "2"}),
        ["stale r1 nodes node-0.r1"],
    ),
    ("token Secret gone", _gone("r1", "secrets", POD_TOKEN), [f"missing r1 secrets {POD_TOKEN}"]),
    (
        "token of another Pod",
        _set("r1", "secrets", POD_TOKEN, "data", {"token-0": token_of("shop", "uid-of-another")}),
        [f"stale r1 secrets {POD_TOKEN}"],
    ),
    (
        "token out of date",
        _set(
            "r1",
            "secrets",
            POD_TOKEN,
            "metadata|annotations|tenancy.x-k8s.io/token-expires",
            "2025-12-31T00:00:00Z",
        ),
        [f"stale r1 secrets {POD_TOKEN}"],
    ),
    (
        "token of a Pod that has ended",
        lambda draft: (
            [_set(place, "pods", "web", "status|phase", "Succeeded")(draft) for place in (ACME, "r1")]
            and None
        ),
        [f"foreign r1 secrets {POD_TOKEN}"],
    ),
    (
        "another tenant's key",
        _set(UMBRELLA, "namespaces", "default", "metadata|annotations|note", f"from {ACME}"),
        ["visible - namespaces default"],
    ),
    (
        "another tenant's marker",
        _set(UMBRELLA, "namespaces", "default", "metadata|annotations|note", "acme-secret"),
        ["visible - namespaces default"],
    ),
    (
        "the super clusters' name for the tenant",
        lambda draft: (
            [_set(place, "pods", "web", "status|message", f"{SHOP} is full")(draft) for place in (ACME, "r1")]
            and None
        ),
        ["status r1 pods web", "revealed - pods web"],
    ),
    (
        "object claimed by another tenant",
        _set("r1", "configmaps", "kube-root-ca.crt", CLUSTER, UMBRELLA),
        ["visible r1 configmaps kube-root-ca.crt"],
    ),
]


def test_a_correct_world_is_clean() -> None:
    findings = audit(correct().world())
    assert not findings, table(findings)


@pytest.mark.parametrize(
    ("spoil", "expected"), [case[1:] for case in DEFECTS], ids=[case[0] for case in DEFECTS]
)
def test_a_defect_is_found_and_nothing_else(spoil: Callable[[Draft], None], expected: list[str]) -> None:
    draft = correct()
    spoil(draft)
    findings = audit(draft.world())
    found = {
        f"{finding.rule} {finding.super_cluster or '-'} {finding.kind} {finding.name}" for finding in findings
    }
    assert found >= set(expected), table(findings)
    # One defect may show in several places of the same object, but in no other object.
    assert {_object(line) for line in found} == {_object(line) for line in expected}, table(findings)


def _object(line: str) -> str:
    return line.partition(" ")[2]


def test_all_objects_of_a_missing_super_namespace_are_missing() -> None:
    draft = correct()
    for kind in list(draft.supers["r2"]):
        draft.supers["r2"][kind] = [
            found
            for found in draft.supers["r2"][kind]
            if SHOP not in (found["metadata"].get("namespace"), found["metadata"]["name"])
        ]
    rules = {(finding.rule, finding.kind) for finding in audit(draft.world())}
    assert rules == {
        ("missing", kind)
        for kind in (
            "namespaces",
            "configmaps",
            "secrets",
            "serviceaccounts",
            "endpointslices",
            "networkpolicies",
            "poddisruptionbudgets",
            "services",
            "endpoints",
        )
    }


def test_objects_left_after_a_removed_placement_are_foreign() -> None:
    draft = correct()
    draft.find("meta", "namespaceplacements", "shop")["status"]["placements"] = {"r1": 3}
    found = {
        (finding.rule, finding.kind) for finding in audit(draft.world()) if finding.super_cluster == "r2"
    }
    assert found == {
        ("foreign", kind)
        for kind in (
            "namespaces",
            "resourcequotas",
            "configmaps",
            "secrets",
            "serviceaccounts",
            "endpointslices",
            "networkpolicies",
            "poddisruptionbudgets",
            "services",
            "endpoints",
            "ingresses",
        )
    }


def test_uids_of_one_tenant_must_not_be_visible_in_another() -> None:
    draft = correct()
    uid = "0f0f0f0f-0000-4000-8000-00000000000f"
    draft.find(ACME, "configmaps", "settings")["metadata"]["uid"] = uid
    for super_id in ("r1", "r2"):
        draft.find(super_id, "configmaps", "settings")["metadata"]["annotations"]["tenancy.x-k8s.io/uid"] = (
            uid
        )
    assert not audit(draft.world())
    draft.find(UMBRELLA, "namespaces", "default")["metadata"]["annotations"]["note"] = uid
    assert [finding.rule for finding in audit(draft.world())] == ["visible"]


def test_empty_virtual_nodes_are_findings_only_after_their_delay() -> None:
    draft = correct()
    _twin(ACME, ACME, "nodes", "node-0.r1", name="node-1.r1")(draft)
    _twin("r1", "r1", "nodes", "node-0", name="node-1")(draft)
    assert not audit(draft.world())
    draft.empty_nodes = False
    assert [(finding.rule, finding.name) for finding in audit(draft.world())] == [("foreign", "node-1.r1")]


WAITS: list[tuple[str, Callable[[Json], None]]] = [
    ("gated", lambda pod: pod["spec"].update(schedulingGates=[{"name": "later"}])),
    (
        "kept in the tenant by its label",
        lambda pod: pod["metadata"]["labels"].update({"tenancy.x-k8s.io/ignore-sync": "true"}),
    ),
    (
        "refused",
        lambda pod: pod["status"].update(
            conditions=[{"type": "PodScheduled", "status": "False", "reason": "PolicyRefused"}]
        ),
    ),
    (
        "waiting for a ConfigMap",
        lambda pod: pod["spec"].update(volumes=[{"name": "v", "configMap": {"name": "none"}}]),
    ),
    (
        "too large for its slices",
        lambda pod: pod["spec"]["containers"][0].update(resources={"requests": {"cpu": "3"}}),
    ),
    ("ended", lambda pod: pod["status"].update(phase="Succeeded")),
]


@pytest.mark.parametrize("excuse", [case[1] for case in WAITS], ids=[case[0] for case in WAITS])
def test_a_pod_may_have_no_copy_for_a_reason(excuse: Callable[[Json], None]) -> None:
    draft = correct()
    draft.remove("r1", "pods", "web")
    draft.remove("r1", "secrets", POD_TOKEN)
    excuse(draft.find(ACME, "pods", "web"))
    assert not audit(draft.world())


def test_a_pod_that_names_an_optional_config_map_has_no_excuse() -> None:
    draft = correct()
    draft.remove("r1", "pods", "web")
    volume = {"name": "v", "configMap": {"name": "none", "optional": True}}
    draft.find(ACME, "pods", "web")["spec"]["volumes"] = [volume]
    assert "missing" in {finding.rule for finding in audit(draft.world())}


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1000m"), ("1Gi", "1024Mi"), ("1e3", "1k"), ("0.5", "500m"), ("1500u", "1.5m")]
)
def test_equal_quantities_are_equal(one: str, other: str) -> None:
    assert amount(one) == amount(other)


def test_names_equal_those_of_the_retired_system() -> None:
    """Examples that were computed with the retired system's code (reference section 2.3)."""
    record = made("name", "ns", uid="d64ea0c0-91f8-46f5-8643-c0cab32ab0cd")
    assert cluster_key(record) == "ns-fd1b34-name"
    assert super_namespace("ns-fd1b34-name", "default") == "ns-fd1b34-name-default"
    assert len(super_namespace("k" * 40, "n" * 40)) == 63


def with_claim() -> Draft:
    draft = correct()
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    source = made("data", "shop", labels={"app": "db"}, spec=spec)
    draft.add(ACME, "persistentvolumeclaims", source)
    below = copied(source)
    del below["metadata"]["labels"]["app"]
    below["spec"]["volumeName"] = "pv"
    draft.add("r1", "persistentvolumeclaims", below)
    return draft


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
@pytest.mark.parametrize(
    ("named", "rules"),
    [
        ({"kind": "PersistentVolumeClaim", "name": "data"}, []),
        ({"kind": "PersistentVolumeClaim", "name": "data", "apiGroup": None}, []),
        ({"kind": "PersistentVolumeClaim", "name": "other"}, ["stale"]),
        ({"kind": "PersistentVolumeClaim", "name": "data", "namespace": "umbrella"}, ["stale"]),
        ({"kind": "VolumeSnapshot", "name": "data"}, ["stale"]),
    ],
)
def test_a_clone_has_the_source_that_the_tenant_named(field: str, named: Json, rules: list[str]) -> None:
    draft = with_claim()
    source = draft.find(ACME, "persistentvolumeclaims", "data")
    source["spec"]["dataSource"] = {"kind": "PersistentVolumeClaim", "name": "data", "apiGroup": None}
    copy_of_claim(draft)["spec"][field] = named
    assert [found.rule for found in audit(draft.world())] == rules


@pytest.mark.parametrize(
    ("named", "rules"),
    [
        ({}, []),
        ({"name": "tuesday"}, ["stale"]),
        ({"namespace": "umbrella"}, ["stale"]),
        ({"apiGroup": "example.com"}, ["stale"]),
        ({"apiGroup": None, "kind": "PersistentVolumeClaim"}, ["stale"]),
    ],
)
def test_a_restored_claim_has_the_snapshot_that_the_tenant_named(named: Json, rules: list[str]) -> None:
    draft = with_claim()
    monday = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"}
    draft.find(ACME, "persistentvolumeclaims", "data")["spec"]["dataSource"] = monday
    copy_of_claim(draft)["spec"]["dataSource"] = {**monday, **named}
    assert [found.rule for found in audit(draft.world())] == rules


def copy_of_claim(draft: Draft) -> Json:
    return draft.find("r1", "persistentvolumeclaims", "data")


def test_a_claim_is_on_one_super_cluster() -> None:
    draft = with_claim()
    assert audit(draft.world()) == []
    draft.add("r2", "persistentvolumeclaims", copy.deepcopy(copy_of_claim(draft)))
    assert [found.rule for found in audit(draft.world())] == ["doubled"]


@pytest.mark.parametrize(
    ("spoil", "rule", "field"),
    [
        (lambda found: found["spec"].update(dataSource={"name": "x"}), "stale", "spec.dataSource"),
        (
            lambda found: found["spec"].update(dataSource={"kind": "PersistentVolumeClaim", "name": "x"}),
            "stale",
            "spec.dataSource",
        ),
        (lambda found: found["spec"].update(storageClassName="p"), "stale", "spec.storageClassName"),
        (lambda found: found["metadata"]["labels"].update(app="db"), "stale", "metadata.labels[app]"),
        (
            lambda found: found["metadata"]["annotations"].update({"tenancy.x-k8s.io/uid": "other"}),
            "foreign",
            "",
        ),
    ],
)
def test_a_claim_has_nothing_of_the_tenant_but_its_needs(
    spoil: Callable[[Json], Any], rule: str, field: str
) -> None:
    draft = with_claim()
    spoil(copy_of_claim(draft))
    [found] = audit(draft.world())
    assert (found.rule, found.field) == (rule, field)


def with_device_claim() -> Draft:
    draft = correct()
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    source = made("gpu", "shop", spec=spec)
    draft.add(ACME, "resourceclaims", source)
    below = copied(source)
    below["status"] = {"allocation": {"devices": {"results": [{"driver": "d", "pool": "p", "device": "0"}]}}}
    source["status"] = {"allocation": {}}
    draft.add("r1", "resourceclaims", below)
    return draft


def test_a_claim_to_devices_that_is_allocated_is_correct() -> None:
    assert audit(with_device_claim().world()) == []


@pytest.mark.parametrize(
    ("where", "spoil", "found"),
    [
        ("r1", {"spec": {"devices": {"config": [{"opaque": {}}]}}}, {"spec", "spec.devices.config"}),
        ("r1", {"metadata": {"annotations": {"tenancy.x-k8s.io/uid": "other"}}}, {""}),
        (
            ACME,
            {"status": {"allocation": {"devices": {"results": [{"driver": "d"}]}}}},
            {"status.allocation: driver"},
        ),
    ],
)
def test_a_claim_to_devices_commands_and_reveals_nothing(where: str, spoil: Json, found: set[str]) -> None:
    draft = with_device_claim()
    claim = draft.find(where, "resourceclaims", "gpu")
    for field, value in spoil.items():
        if field == "metadata":
            claim["metadata"]["annotations"].update(value["annotations"])
        else:
            claim[field] = value
    assert {each.field for each in audit(draft.world())} == found


@pytest.mark.parametrize(
    ("address", "source", "service", "rules"),
    [
        ("10.0.0.9", "r1", "front", []),
        ("10.0.0.8", "r1", "front", ["stale"]),
        ("10.0.0.9", "r3", "front", ["stale"]),
        ("10.0.0.9", "r1", "gone", ["foreign"]),
    ],
)
def test_a_remote_endpoint_is_a_pod_of_the_same_namespace_in_the_super_cluster_that_shares_it(
    address: str, source: str, service: str, rules: list[str]
) -> None:
    draft = correct()
    for place in ("r1", ACME):
        draft.find(place, "pods", "web")["status"]["podIPs"] = [{"ip": "10.0.0.9"}]
    labels = {
        "kubernetes.io/service-name": service,
        "endpointslice.kubernetes.io/managed-by": "remote.tenancy.x-k8s.io",
        "tenancy.x-k8s.io/superclusterid": source,
    }
    draft.add(
        "r2",
        "endpointslices",
        made("front-1.r1", SHOP, labels=labels, endpoints=[{"addresses": [address]}]),
    )
    assert [finding.rule for finding in audit(draft.world())] == rules


def with_snapshot() -> Draft:
    draft = correct()
    spec = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "nightly"}
    source = made("monday", "shop", labels={"app": "db"}, spec=spec)
    draft.add(ACME, "volumesnapshots", source)
    below = copied(source)
    del below["metadata"]["labels"]["app"]
    draft.add("r1", "volumesnapshots", below)
    return draft


@pytest.mark.parametrize("spec", [None, "text", ["data"], {"source": None}, {"source": ["data"]}])
def test_a_snapshot_of_the_tenant_may_have_any_shape(spec: Any) -> None:
    draft = with_snapshot()
    draft.find(ACME, "volumesnapshots", "monday")["spec"] = spec
    assert {found.rule for found in audit(draft.world())} == {"stale"}


def test_a_copy_that_is_being_deleted_outlives_its_snapshot() -> None:
    draft = with_snapshot()
    draft.find(ACME, "volumesnapshots", "monday")["metadata"]["uid"] = "later"
    assert [found.rule for found in audit(draft.world())] == ["foreign"]
    draft.find("r1", "volumesnapshots", "monday")["metadata"]["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    assert audit(draft.world()) == []


def test_a_snapshot_may_be_where_its_volume_is() -> None:
    assert audit(with_snapshot().world()) == []


@pytest.mark.parametrize(
    ("spoil", "rule", "field"),
    [
        (lambda found: found["spec"]["source"].update(persistentVolumeClaimName="x"), "stale", "spec.source"),
        (lambda found: found["spec"]["source"].update(volumeSnapshotContentName="x"), "stale", "spec.source"),
        (lambda found: found["spec"].update(other="x"), "stale", "spec.other"),
        (
            lambda found: found["spec"].update(volumeSnapshotClassName="x"),
            "stale",
            "spec.volumeSnapshotClassName",
        ),
        (lambda found: found["metadata"]["labels"].update(app="db"), "stale", "metadata.labels[app]"),
        (
            lambda found: found["metadata"]["annotations"].update({"tenancy.x-k8s.io/uid": "other"}),
            "foreign",
            "",
        ),
    ],
)
def test_a_snapshot_has_nothing_of_the_tenant_but_claim_and_class(
    spoil: Callable[[Json], Any], rule: str, field: str
) -> None:
    draft = with_snapshot()
    spoil(draft.find("r1", "volumesnapshots", "monday"))
    [found] = audit(draft.world())
    assert (found.rule, found.field) == (rule, field)
