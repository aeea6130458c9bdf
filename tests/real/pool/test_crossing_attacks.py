"""A tenant reaches nothing of another tenant or the operator by the fields and states of the objects that a chart brings.

Each attack is one line of a table. docs/isolation.md counts them, with those of other modules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pool_kit import Json, Pool, Space, condition, container, items, pod

from hack.testbed import Cluster, KubectlError
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.syncer.kinds.endpointslice import SERVICE_NAME

NETWORKING = "networking.k8s.io/v1"
DISCOVERY = "discovery.k8s.io/v1"
NAME = "kubernetes.io/metadata.name"
FORGED_ADDRESS = "192.0.2.66"
FORGED_AMOUNT = "4711"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def victim(pool: Pool) -> Iterator[Space]:
    """A namespace of tenant umbrella with a running Pod and a Secret."""
    with pool.space("umbrella") as space:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}}
        space.apply(pod("web", on="r1", labels={"app": "web"}), {**secret, "stringData": {"word": "xyzzy"}})
        space.running("web")
        yield space


@pytest.fixture(scope="module")
def mine(pool: Pool) -> Iterator[Space]:
    """The namespace of tenant acme that attacks."""
    with pool.space(hard={"cpu": "2", "memory": "2Gi"}) as space:
        yield space


def later_writes_arrive(space: Space, name: str) -> None:
    """Wait until super cluster r1 has an object that was written after everything else."""
    space.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"after-{name}"}})
    eventually(lambda: space.there("r1", "configmaps", f"after-{name}"))


def slug(text: str) -> str:
    return text.lower().replace(" ", "-")


# --- NetworkPolicies: a peer selects namespaces of its tenant only


def expression(key: str, operator: str, *values: str) -> Json:
    found: Json = {"key": key, "operator": operator}
    return {"matchExpressions": [{**found, "values": list(values)} if values else found]}


def peers(own: Space, other: Space) -> dict[str, Json]:
    """Return the selectors of namespaces by which a policy would open Pods to others."""
    return {
        "every namespace": {},
        "the name below": {"matchLabels": {NAME: other.super_name}},
        "the name above": {"matchLabels": {NAME: other.name}},
        "one of two names": expression(NAME, "In", other.super_name, own.super_name),
        "any name": expression(NAME, "Exists"),
        "all names but the own": expression(NAME, "NotIn", own.super_name),
        "namespaces without a label": expression("team", "DoesNotExist"),
        "the key of the tenant": {"matchLabels": {names.CLUSTER: other.key}},
        "one of two keys": expression(names.CLUSTER, "In", own.key, other.key),
        "any key": expression(names.CLUSTER, "Exists"),
        "no key": expression(names.CLUSTER, "DoesNotExist"),
        "what vcsync makes": {"matchLabels": {names.CONTROLLED: names.TRUE}},
        "a namespace of the operator": {"matchLabels": {NAME: "kube-system"}},
    }


PEERS = (
    "every namespace", "the name below", "the name above", "one of two names", "any name", "all names but the own",
    "namespaces without a label", "the key of the tenant", "one of two keys", "any key", "no key", "what vcsync makes",
    "a namespace of the operator",
)  # fmt: skip


def selected(cluster: Cluster, selector: Json) -> set[str]:
    """Return the namespaces that a super cluster selects by a LabelSelector."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(each.get("values") or ())
        form = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}
        terms.append(form[each["operator"]].format(key, values))
    found = json.loads(cluster.kubectl("get", "namespaces", "-l", ",".join(terms), "-o", "json"))
    return {each["metadata"]["name"] for each in found["items"]}


@pytest.mark.parametrize("attack", PEERS)
def test_a_network_policy_opens_no_pod_to_others(mine: Space, victim: Space, attack: str) -> None:
    table = peers(mine, victim)
    assert tuple(table) == PEERS
    name = f"policy-{slug(attack)}"
    rule = [{"namespaceSelector": table[attack]}]
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    spec |= {"ingress": [{"from": rule}], "egress": [{"to": rule}]}
    mine.apply({"apiVersion": NETWORKING, "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec})

    def copies() -> dict[str, Json]:
        found = {each: mine.there(each, "networkpolicies", name, NETWORKING) for each in mine.pool.supers}
        return {each: copy for each, copy in found.items() if copy is not None}

    eventually(lambda: len(copies()) == len(mine.pool.supers) or mine.events(name, "NotEnforced"))
    for super_id, copy in copies().items():
        cluster = mine.pool.supers[super_id]
        for peer in (*copy["spec"]["ingress"][0]["from"], *copy["spec"]["egress"][0]["to"]):
            own = {
                each["metadata"]["name"]
                for each in items(cluster, "/api/v1/namespaces")
                if each["metadata"].get("labels", {}).get(names.CLUSTER) == mine.key
            }
            assert selected(cluster, peer["namespaceSelector"]) <= own


# --- Endpoints: nothing that a tenant writes names others' Pods


def address(space: Space) -> str:
    return str((space.get("pods", "web") or {})["status"]["podIP"])


def service(name: str, *, selects: bool) -> Json:
    spec: Json = {"ports": [{"port": 80}]} | ({"selector": {"app": name}} if selects else {})
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def named(victim: Space) -> Json:
    """Return the fields by which an address stands for the victim's Pod."""
    target = {"kind": "Pod", "name": "web", "namespace": victim.super_name}
    return {"targetRef": target, "nodeName": "r1-node-1"}


def endpoints(name: str, victim: Space) -> Json:
    subset = {"addresses": [{"ip": address(victim), **named(victim)}], "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": [subset]}


def endpoint_slice(name: str, victim: Space, **labels: str) -> Json:
    about = {"name": f"{name}-forged", "labels": {SERVICE_NAME: name, **labels}}
    endpoint = {"addresses": [address(victim)], "zone": "r1", **named(victim)}
    return {
        "apiVersion": DISCOVERY,
        "kind": "EndpointSlice",
        "metadata": about,
        "addressType": "IPv4",
        "ports": [{"port": 80}],
        "endpoints": [endpoint],
    }


SKIPPED = {"endpointslice.kubernetes.io/skip-mirror": "true"}
ENDPOINTS: dict[str, tuple[bool, Any]] = {
    "Endpoints beside Pods": (True, endpoints),
    "a slice beside Pods": (True, endpoint_slice),
    "a slice that no mirror follows": (True, lambda name, it: endpoint_slice(name, it, **SKIPPED)),
    "Endpoints that name a Pod": (False, endpoints),
    "a slice that names a Pod": (False, endpoint_slice),
}


@pytest.mark.parametrize("attack", ENDPOINTS)
def test_endpoints_lead_to_no_pod_of_others(mine: Space, victim: Space, attack: str) -> None:
    selects, make = ENDPOINTS[attack]
    name = slug(attack)
    mine.apply(service(name, selects=selects))
    mine.apply(make(name, victim))
    eventually(lambda: mine.there("r1", "services", name))
    later_writes_arrive(mine, name)

    def addresses() -> list[Json]:
        path = f"/apis/{DISCOVERY}/namespaces/{mine.super_name}/endpointslices?labelSelector={SERVICE_NAME}%3D{name}"
        found = [one for each in items(mine.pool.supers["r1"], path) for one in each["endpoints"] or ()]
        subsets = (mine.there("r1", "endpoints", name) or {}).get("subsets") or ()
        return [*found, *(one for subset in subsets for one in subset.get("addresses") or ())]

    if not selects:  # The addresses of such a Service are its tenant's choice, as in a cluster of its own.
        eventually(addresses)
    found = addresses()
    assert not any({"targetRef", "nodeName", "zone"} & each.keys() for each in found)
    if selects:
        assert found == []


OUTSIDE = [
    (kind, way, make)
    for kind in ("LoadBalancer", "NodePort")
    for way in ("from the start", "later")
    for make in (endpoints, endpoint_slice)
]


@pytest.mark.parametrize(("kind", "way", "make"), OUTSIDE)
def test_traffic_from_outside_reaches_no_pod_of_others(
    mine: Space, victim: Space, kind: str, way: str, make: Any
) -> None:
    """A node forwards traffic from outside to any address, and policies that admit nodes let it pass (CVE-2021-25740)."""
    name = slug(f"{kind} {way} {make.__name__.replace('_', '-')}")
    body = service(name, selects=False)
    if way == "later":
        mine.apply(body, make(name, victim))
        eventually(lambda: mine.there("r1", "services", name))
    body["spec"]["type"] = kind
    mine.apply(body, make(name, victim))
    (event,) = eventually(lambda: mine.events(name, "PolicyRefused")[:1])
    assert f"spec.type {kind} without spec.selector is not allowed here" in event["message"]
    later_writes_arrive(mine, name)
    for super_id in mine.pool.supers:
        found = mine.there(super_id, "services", name)
        assert found is None or found["spec"]["type"] == "ClusterIP"


def test_a_load_balancer_of_the_operators_class_is_not_for_tenants(mine: Space) -> None:
    mine.pool.configure("acme", servicePolicy={"loadBalancerClasses": None})
    body = service("internal", selects=True)
    body["spec"] |= {"type": "LoadBalancer", "loadBalancerClass": "example.com/internal"}
    mine.apply(body)
    (event,) = eventually(lambda: mine.events("internal", "ClassNotOffered")[:1])
    assert "spec.loadBalancerClass example.com/internal is not offered to tenants here" in event["message"]
    assert all(mine.there(super_id, "services", "internal") is None for super_id in mine.pool.supers)
    mine.pool.configure("acme", servicePolicy={"loadBalancerClasses": ["example.com/internal"]})
    try:
        mine.kubectl("annotate", "service", "internal", "looked-at=again")
        for super_id in mine.pool.supers:
            found = eventually(lambda super_id=super_id: mine.there(super_id, "services", "internal"))
            assert found["spec"]["loadBalancerClass"] == "example.com/internal"
    finally:
        mine.pool.configure("acme", servicePolicy={"loadBalancerClasses": None})


# --- Volumes: a copy has data of its own tenant only


def mounting(**source: Any) -> Json:
    """Return the fields of a Pod that mounts a volume."""
    mount = {"name": "data", "mountPath": "/data"}
    return {"containers": [container(volumeMounts=[mount])], "volumes": [{"name": "data", **source}]}


def below_a_volume(**mount: Any) -> Json:
    """Return the fields of a Pod that mounts a part of an empty volume."""
    fields = {"name": "data", "mountPath": "/data", **mount}
    environment = [{"name": "UP", "value": "../.."}]
    return {
        "containers": [container(volumeMounts=[fields], env=environment)],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }


API, POLICY, WAITS, CONFINED = "refused by the API", "refused by the policy", "waits", "confined"
VOLUMES: dict[str, tuple[Json, str]] = {
    "a path above the volume": (below_a_volume(subPath="../../etc"), API),
    "an absolute path": (below_a_volume(subPath="/etc"), API),
    "a hidden way up": (below_a_volume(subPath="a/../../etc"), API),
    "a way up in an expression": (below_a_volume(subPathExpr="../$(UP)"), API),
    "a variable that leads up": (below_a_volume(subPathExpr="$(UP)/etc"), CONFINED),
    "mounts that spread to the node": (below_a_volume(mountPropagation="Bidirectional"), API),
    "a key that leads up": (
        mounting(secret={"secretName": "x", "items": [{"key": "a", "path": "../../etc/passwd"}]}),
        API,
    ),
    "a file of the node": (mounting(hostPath={"path": "/etc/shadow", "type": "File"}), POLICY),
    "a server of the operator": (mounting(nfs={"server": "10.0.0.1", "path": "/"}), POLICY),
    "a disk of the operator": (
        mounting(iscsi={"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:x", "lun": 0}),
        POLICY,
    ),
    "a driver of the operator": (mounting(csi={"driver": "secrets-store.csi.k8s.io"}), POLICY),
    "a program of the node": (mounting(flexVolume={"driver": "example.com/mount"}), POLICY),
    "a claim of the operator": (mounting(persistentVolumeClaim={"claimName": "operators"}), WAITS),
}


@pytest.mark.parametrize("attack", VOLUMES)
def test_a_pod_mounts_nothing_of_others(mine: Space, victim: Space, attack: str) -> None:
    fields, outcome = VOLUMES[attack]
    name = slug(attack)
    body = pod(name, on="r1", **fields)
    if attack == "a claim of the operator":
        with_claim(mine)
    if outcome == API:
        assert mine.refused(body)
        return
    mine.apply(body)
    try:
        reaches_nothing(mine, name, fields, outcome)
    finally:  # Each counts against the Pods of the namespace's slices.
        mine.kubectl("delete", "pod", name, "--force")


def reaches_nothing(mine: Space, name: str, fields: Json, outcome: str) -> None:
    """Check the outcome of a Pod that the tenant's API has accepted."""
    if outcome == POLICY:
        found = eventually(lambda: policy_refusal(mine, name))
        assert "spec." in found
    elif outcome == CONFINED:
        mine.running(name)
    later_writes_arrive(mine, name)
    copy = mine.there("r1", "pods", name)
    assert (copy is not None) == (outcome == CONFINED)
    if copy is not None:
        assert [each for each in copy["spec"]["volumes"] if each["name"] == "data"] == [
            {"name": "data", "emptyDir": {}}
        ]
        [mount] = [each for each in copy["spec"]["containers"][0]["volumeMounts"] if each["name"] == "data"]
        assert mount["subPathExpr"] == fields["containers"][0]["volumeMounts"][0]["subPathExpr"]


def policy_refusal(space: Space, name: str) -> str:
    found = condition(space.get("pods", name), "PodScheduled")
    refused = found.get("reason") == "PolicyRefused"
    return str(found["message"]) if refused else ""


def with_claim(space: Space) -> None:
    """Have the operator make a claim in the tenant's super namespace."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "operators"},
        "spec": spec,
    }
    space.pool.supers["r1"].kubectl("apply", "-n", space.super_name, "-f", "-", input=json.dumps(claim))


# --- States: what a tenant writes into them is nobody's truth


def forge(space: Space, kind: str, name: str, **status: Any) -> None:
    """Write the status of one of the tenant's objects."""
    where = () if kind == "node" else ("-n", space.name)
    body = json.dumps({"status": status})
    space.tenant.kubectl("patch", kind, name, *where, "--subresource=status", "--type=merge", "-p", body)


@pytest.fixture
def web(mine: Space) -> str:
    """A running Pod on r1."""
    if mine.get("pods", "web") is None:
        mine.apply(pod("web", on="r1", labels={"app": "web"}))
    mine.running("web")
    return "web"


def status_below(space: Space, plural: str, name: str, group: str = "") -> Json:
    return dict((space.there("r1", plural, name, group) or {}).get("status") or {})


def test_an_address_that_a_tenant_writes_into_a_pod_is_repaired(mine: Space, victim: Space, web: str) -> None:
    own = address(mine)
    forge(mine, "pod", web, podIP=address(victim), podIPs=[{"ip": address(victim)}])
    eventually(lambda: address(mine) == own)
    assert status_below(mine, "pods", web)["podIP"] == own


def test_a_container_of_others_in_the_state_of_a_pod_is_repaired(
    mine: Space, victim: Space, web: str
) -> None:
    theirs = (victim.get("pods", "web") or {})["status"]["containerStatuses"]
    own = status_below(mine, "pods", web)["containerStatuses"]
    forge(mine, "pod", web, containerStatuses=[{**theirs[0], "containerID": "containerd://forged"}])

    def shown() -> list[str]:
        found = (mine.get("pods", web) or {})["status"]["containerStatuses"]
        return [each["containerID"] for each in found]

    eventually(lambda: shown() == [each["containerID"] for each in own])
    assert status_below(mine, "pods", web)["containerStatuses"] == own


@pytest.mark.parametrize("kind", ["service", "ingress"])
def test_addresses_that_a_tenant_writes_into_a_state_go_nowhere(mine: Space, kind: str) -> None:
    name, plural = f"state-{kind}", {"service": "services", "ingress": "ingresses"}[kind]
    group = "" if kind == "service" else NETWORKING
    body = service(name, selects=True)
    body["spec"]["type"] = "LoadBalancer"
    if kind == "ingress":
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        paths = {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}
        rules = [{"host": f"{mine.name}.example.com", "http": paths}]
        body = {
            "apiVersion": NETWORKING,
            "kind": "Ingress",
            "metadata": {"name": name},
            "spec": {"rules": rules},
        }
    mine.apply(body)
    eventually(lambda: mine.there("r1", plural, name, group))
    forge(mine, kind, name, loadBalancer={"ingress": [{"ip": FORGED_ADDRESS}]})
    eventually(lambda: FORGED_ADDRESS not in json.dumps((mine.get(plural, name, group) or {})["status"]))
    assert FORGED_ADDRESS not in json.dumps(status_below(mine, plural, name, group))


def test_a_budget_that_a_tenant_calls_met_protects_as_before(mine: Space, web: str) -> None:
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": web}}}
    mine.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "strict"},
            "spec": spec,
        }
    )
    eventually(
        lambda: "disruptionsAllowed" in status_below(mine, "poddisruptionbudgets", "strict", "policy/v1")
    )
    forge(mine, "poddisruptionbudget", "strict", disruptionsAllowed=int(FORGED_AMOUNT))
    later_writes_arrive(mine, "budget")
    assert status_below(mine, "poddisruptionbudgets", "strict", "policy/v1")["disruptionsAllowed"] == 0
    mine.kubectl("delete", "poddisruptionbudget", "strict")


def test_a_quota_whose_state_a_tenant_writes_gives_no_slices(mine: Space) -> None:
    before = (mine.ledger() or {})["status"]["placements"]
    forge(mine, "resourcequota", "quota", hard={"cpu": FORGED_AMOUNT, "memory": "4711Gi"}, used={"cpu": "0"})
    later_writes_arrive(mine, "quota")
    assert (mine.ledger() or {})["status"]["placements"] == before
    [limit] = mine.all_there("r1", "resourcequotas")
    assert FORGED_AMOUNT not in json.dumps(limit)


def test_a_claim_that_a_tenant_calls_bound_gets_no_volume(mine: Space) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "of-nobody",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    about = {"name": "forged"}
    mine.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about, "spec": spec})
    forge(mine, "persistentvolumeclaim", "forged", phase="Bound", capacity={"storage": "4711Gi"})
    mine.apply(pod("user", on="r1", **mounting(persistentVolumeClaim={"claimName": "forged"})))
    later_writes_arrive(mine, "claim")
    assert mine.there("r1", "persistentvolumeclaims", "forged") is None
    assert mine.there("r1", "pods", "user") is None
    mine.kubectl("delete", "pod", "user", "--force")


def test_a_tenant_has_no_way_to_write_the_victims_objects(mine: Space, victim: Space) -> None:
    """The targets of all attacks are unchanged, and the attacker's own credentials end at its own API."""
    assert victim.running("web")
    assert victim.there("r1", "secrets", "password") is not None
    with pytest.raises(KubectlError, match=r"NotFound|not found"):
        mine.tenant.kubectl("-n", victim.name, "get", "secret", "password")
