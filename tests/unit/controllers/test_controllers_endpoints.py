"""Endpoints: exactly the Pods of a Service, in the API server's canonical form."""

from itertools import permutations
from typing import Any

import pytest
from controllers_world import NAMESPACE, World
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controllers.endpoints import subsets as endpoint_subsets
from vcsync.controllers.endpoints.endpoints_plan import ENDPOINT, MANAGED_BY, NAME, OVER_CAPACITY
from vcsync.controllers.endpoints.pods_behind import HEADLESS_LABEL, TRIGGER_TIME
from vcsync.controllers.framework.plan import Create, Delete, Patch
from vcsync.kube.errors import ApiError, Forbidden, Status
from vcsync.kube.resources import ENDPOINTS, PODS, SERVICES

LABELS = {"app": "web"}
WEB = {"name": "web", "port": 80, "targetPort": 8080, "protocol": "TCP"}
SEEN = {"name": "web", "port": 8080, "protocol": "TCP"}


def service(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "labels": {"team": "blue"}},
        "spec": {
            "selector": LABELS,
            "clusterIP": "10.0.0.1",
            "ipFamilies": ["IPv4"],
            "ports": [WEB],
            **spec,
        },
    }


def put_pod(world: World, number: int, *, ready: bool = True, **fields: Any) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": world.time()}
    ips = [f"10.1.{number // 250}.{number % 250}", f"fd00::{number:x}"]
    status = {
        "phase": "Running",
        "podIP": ips[0],
        "podIPs": [{"ip": ip} for ip in ips],
        "conditions": [condition],
        **fields.get("status", {}),
    }
    spec = {"nodeName": "n1", "containers": [], **fields.get("spec", {})}
    metadata = {"name": f"web-{number}", "labels": LABELS, **fields.get("metadata", {})}
    world.put(PODS, {"metadata": metadata, "spec": spec, "status": status})


def world(count: int = 0, **spec: Any) -> World:
    made = World([ENDPOINT])
    made.put(SERVICES, service(**spec))
    for number in range(1, count + 1):
        put_pod(made, number)
    made.settle()
    return made


def subsets(made: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made.body(ENDPOINTS, "web").get("subsets", [])
    return found


def ips(addresses: list[dict[str, Any]]) -> list[str]:
    return [each["ip"] for each in addresses]


def test_ready_pods_are_addresses_and_others_are_not_ready_ones() -> None:
    made = world(2)
    put_pod(made, 3, ready=False)
    made.settle()
    [subset] = subsets(made)
    assert ips(subset["addresses"]) == ["10.1.0.1", "10.1.0.2"]
    assert ips(subset["notReadyAddresses"]) == ["10.1.0.3"]
    assert subset["ports"] == [SEEN]
    uid = made.body(PODS, "web-1")["metadata"]["uid"]
    assert subset["addresses"][0] == {
        "ip": "10.1.0.1",
        "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": "web-1", "uid": uid},
    }


def test_endpoints_have_the_labels_of_the_service_and_a_manager() -> None:
    made = world(1)
    metadata = made.body(ENDPOINTS, "web")["metadata"]
    assert metadata["labels"] == {"team": "blue", MANAGED_BY: "endpoint-controller"}
    made.change(SERVICES, "web", {"metadata": {"labels": {"team": None, "tier": "front"}}})
    made.settle()
    labels = made.body(ENDPOINTS, "web")["metadata"]["labels"]
    assert labels == {"tier": "front", MANAGED_BY: "endpoint-controller"}


def test_a_service_without_pods_has_endpoints_without_addresses() -> None:
    assert subsets(world()) == []


def test_the_address_of_the_last_pod_is_removed() -> None:
    made = world(1)
    made.remove(PODS, "web-1")
    made.settle()
    assert subsets(made) == []


@pytest.mark.parametrize(
    ("fields", "published"),
    [
        pytest.param({"status": {"phase": "Succeeded"}}, False, id="finished"),
        pytest.param({"status": {"podIP": "", "podIPs": []}}, True, id="no-address"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False, id="going-away"),
        pytest.param({"metadata": {"labels": {"app": "other"}}}, False, id="no-match"),
    ],
)
def test_pods_that_cannot_serve_are_left_out(fields: dict[str, Any], published: bool) -> None:
    made = world(publishNotReadyAddresses=published)
    put_pod(made, 1, **fields)
    made.settle()
    assert subsets(made) == []


def test_unready_and_terminating_addresses_are_published_on_request() -> None:
    made = world(publishNotReadyAddresses=True)
    put_pod(made, 1, ready=False)
    put_pod(made, 2, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    made.settle()
    [subset] = subsets(made)
    assert ips(subset["addresses"]) == ["10.1.0.1", "10.1.0.2"]
    assert "notReadyAddresses" not in subset


def test_a_headless_service_needs_no_ports_and_has_hostnames() -> None:
    made = world(clusterIP="None", ports=[])
    put_pod(made, 1, spec={"hostname": "first", "subdomain": "web"})
    made.settle()
    [subset] = subsets(made)
    assert subset["addresses"][0]["hostname"] == "first"
    assert "ports" not in subset
    assert made.body(ENDPOINTS, "web")["metadata"]["labels"][HEADLESS_LABEL] == ""


def test_a_named_port_is_resolved_in_each_pod() -> None:
    named = {"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}
    made = world(ports=[named])
    for number, at in ((1, 8080), (2, 9090), (3, None)):
        ports = [{"name": "http", "containerPort": at}] if at else []
        put_pod(made, number, spec={"containers": [{"ports": ports}]})
    made.settle()
    found = {subset["ports"][0]["port"]: ips(subset["addresses"]) for subset in subsets(made)}
    assert found == {8080: ["10.1.0.1"], 9090: ["10.1.0.2"]}


def test_the_service_determines_the_address_family() -> None:
    made = world(ipFamilies=["IPv6", "IPv4"], clusterIP="fd00:1::1")
    put_pod(made, 10)
    made.settle()
    assert ips(subsets(made)[0]["addresses"]) == ["fd00::a"]


def test_at_most_a_thousand_addresses_ready_ones_first() -> None:
    made = world()
    for number in range(1, 1003):
        put_pod(made, number, ready=number > 20)
    made.settle()
    [subset] = subsets(made)
    assert len(subset["addresses"]) == 982
    assert len(subset["notReadyAddresses"]) == 18
    assert made.body(ENDPOINTS, "web")["metadata"]["annotations"][OVER_CAPACITY] == "truncated"
    for number in (1001, 1002):
        made.remove(PODS, f"web-{number}")
    made.settle()
    assert OVER_CAPACITY not in made.body(ENDPOINTS, "web")["metadata"]["annotations"]


def test_endpoints_have_the_trigger_time() -> None:
    made = world()
    annotations = made.body(ENDPOINTS, "web")["metadata"]["annotations"]
    assert annotations == {TRIGGER_TIME: "2026-01-01T00:00:00Z"}
    for number in (1, 2):
        made.pass_time(5)
        put_pod(made, number)
        made.settle()
        annotations = made.body(ENDPOINTS, "web")["metadata"]["annotations"]
        assert annotations == {TRIGGER_TIME: made.time()}
    made.remove(PODS, "web-1")
    made.settle()
    assert TRIGGER_TIME not in made.body(ENDPOINTS, "web")["metadata"]["annotations"]


def test_irrelevant_changes_cause_no_write() -> None:
    made = world(2)
    made.written.clear()
    made.change(PODS, "web-1", {"metadata": {"annotations": {"note": "x"}}})
    made.settle()
    assert made.written == []


@pytest.mark.parametrize(
    "spec", [{"selector": None}, {"selector": {}}, {"type": "ExternalName", "externalName": "x"}]
)
def test_endpoints_of_a_service_without_selector_are_kept(spec: dict[str, Any]) -> None:
    made = World([ENDPOINT])
    made.put(SERVICES, service(**spec))
    mine = {"metadata": {"name": "web"}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}]}
    made.put(ENDPOINTS, mine)
    made.settle()
    assert made.written == []


def test_endpoints_are_deleted_with_their_service() -> None:
    made = world(1)
    made.remove(SERVICES, "web")
    made.work(NAME, made.key(NAMESPACE, "web"))
    assert made.bodies(ENDPOINTS) == []
    assert isinstance(made.written[-1], Delete)


def test_endpoints_of_old_leader_elections_are_kept() -> None:
    made = World([ENDPOINT])
    note = {"control-plane.alpha.kubernetes.io/leader": "{}"}
    made.put(ENDPOINTS, {"metadata": {"name": "web", "annotations": note}})
    made.work(NAME, made.key(NAMESPACE, "web"))
    assert made.written == []


@pytest.mark.parametrize(
    ("action", "reason"),
    [(Create, "FailedToCreateEndpoint"), (Patch, "FailedToUpdateEndpoint")],
)
def test_a_write_that_fails_is_reported(action: type[Create | Patch], reason: str) -> None:
    made = World([ENDPOINT]) if action is Create else world()
    made.put(SERVICES, service())
    put_pod(made, 1)
    made.refusals = [(action, ApiError(Status(500, "InternalError", "no")))]
    made.work(NAME, made.key(NAMESPACE, "web"))
    assert [each.reason for each in made.events] == [reason]


def test_failures_in_a_terminating_namespace_are_not_reported() -> None:
    made = World([ENDPOINT])
    made.put(SERVICES, service())
    made.refusals = [(Create, Forbidden(Status(403, "Forbidden", "it ends")))]
    made.work(NAME, made.key(NAMESPACE, "web"))
    assert made.events == []


ADDRESS = st.integers(1, 4).map(lambda number: {"ip": f"10.0.0.{number}"})
PORT = st.sampled_from([{"port": 1}, {"port": 2, "name": "b"}, {"port": 2, "name": "c", "protocol": "UDP"}])
SUBSET = st.fixed_dictionaries(
    {
        "addresses": st.lists(ADDRESS, max_size=3),
        "notReadyAddresses": st.lists(ADDRESS, max_size=3),
        "ports": st.lists(PORT, max_size=3),
    }
)


def offered(subsets: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (address["ip"], str(sorted(endpoint_subsets.normal_port(port).items()) if port else ""))
        for subset in subsets
        for place in ("addresses", "notReadyAddresses")
        for address in subset.get(place, ())
        for port in subset.get("ports") or [None]
    }


@given(st.lists(SUBSET, max_size=3))
def test_canonical_subsets_do_not_depend_on_order_and_are_idempotent(
    given_subsets: list[dict[str, Any]],
) -> None:
    packed = endpoint_subsets.repack(given_subsets)
    with_ports = [each for each in given_subsets if each["ports"]]
    assert offered(with_ports) <= offered(packed)
    assert {ip for ip, _ in offered(packed)} == {ip for ip, _ in offered(given_subsets)}
    assert endpoint_subsets.repack(packed) == packed
    for order in permutations(given_subsets):
        assert endpoint_subsets.repack(order) == packed
