"""Reports of super clusters are copied to the tenant: Events with their counts, and load balancer addresses of all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pool_kit import Json, Pool, Space, annotation, pod

from tests.real.waiting import eventually
from vcsync.api import names


def stamp() -> str:
    """Return the current time in the format of Events."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def service(name: str, **spec: Any) -> Json:
    """Return a Service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def super_event(space: Space, name: str, pod_name: str, count: int, super_id: str = "r1") -> Json:
    """Return an Event like a kubelet's."""
    standing = space.there(super_id, "pods", pod_name)
    assert standing is not None
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": space.super_name},
        "involvedObject": {
            "kind": "Pod",
            "namespace": space.super_name,
            "name": pod_name,
            "uid": standing["metadata"]["uid"],
            "apiVersion": "v1",
        },
        "reason": "BackOff",
        "message": f"Back-off restarting failed container in {space.super_name}/{pod_name}",
        "type": "Warning",
        "count": count,
        "firstTimestamp": stamp(),
        "lastTimestamp": stamp(),
        "source": {"component": "kubelet", "host": standing["spec"]["nodeName"]},
        "reportingComponent": "kubelet",
        "reportingInstance": standing["spec"]["nodeName"],
    }


@pytest.mark.core
def test_events_and_their_counts_are_copied_with_the_tenants_names(space: Space) -> None:
    space.apply(pod("loops", on="r1"))
    mine = space.running("loops")
    r1 = space.pool.supers["r1"]
    path = f"/api/v1/namespaces/{space.super_name}/events"
    body = super_event(space, "loops.1", "loops", 1)
    code, answer = r1.call("POST", path, body)
    assert code == 201, answer

    event = eventually(lambda: space.events("loops", "BackOff"))[0]

    assert event["message"] == f"Back-off restarting failed container in {space.name}/loops"
    assert event["count"] == 1
    assert event["involvedObject"]["uid"] == mine["metadata"]["uid"]
    assert event["involvedObject"]["namespace"] == space.name
    assert event["source"]["host"] == mine["spec"]["nodeName"]

    for count in (2, 7):
        code, answer = r1.call("PATCH", f"{path}/loops.1", {"count": count, "lastTimestamp": stamp()})
        assert code == 200, answer
        eventually(lambda count=count: space.events("loops", "BackOff")[0]["count"] == count)  # type: ignore[misc]
    assert len(space.events("loops", "BackOff")) == 1
    # In messages of the super cluster's scheduler, the tenant sees the name of the virtual node.
    scheduled = eventually(lambda: space.events("loops", "Scheduled"))[0]
    assert mine["spec"]["nodeName"] in scheduled["message"]
    assert space.super_name not in scheduled["message"]


@pytest.mark.core
def test_load_balancer_addresses_are_copied_from_both_super_clusters(space: Space) -> None:
    space.apply(service("front", type="LoadBalancer", selector={"app": "front"}))
    addresses = {"r1": "192.0.2.11", "r2": "198.51.100.22"}
    for super_id, address in addresses.items():
        eventually(lambda super_id=super_id: space.there(super_id, "services", "front"))  # type: ignore[misc]
        _answer_as_load_balancer(space, super_id, [{"ip": address}])

    eventually(lambda: _ingress(space) == set(addresses.values()))
    assert space.kubectl("get", "service", "front", "--no-headers").split()[3].count(".") == 6

    _answer_as_load_balancer(space, "r1", [{"ip": "192.0.2.33"}])
    eventually(lambda: _ingress(space) == {"192.0.2.33", addresses["r2"]})
    _answer_as_load_balancer(space, "r1", [])
    eventually(lambda: _ingress(space) == {addresses["r2"]})

    # The address of a removed super cluster is removed, too.
    space.pin(r1=2)
    eventually(lambda: _ingress(space) == set())


def test_a_service_over_two_super_clusters_may_stop_being_a_load_balancer(space: Space) -> None:
    """The tenant's API refuses addresses then, so no syncer may write the union with the other's."""
    space.apply(service("front", type="LoadBalancer", selector={"app": "front"}))
    addresses = {"r1": "192.0.2.11", "r2": "198.51.100.22"}
    for super_id, address in addresses.items():
        eventually(lambda super_id=super_id: space.there(super_id, "services", "front"))  # type: ignore[misc]
        _answer_as_load_balancer(space, super_id, [{"ip": address}])
    eventually(lambda: _ingress(space) == set(addresses.values()))

    space.kubectl("patch", "service", "front", "--type=merge", "-p", '{"spec":{"type":"NodePort"}}')

    def told() -> Json:
        annotations: Json = (space.get("services", "front") or {})["metadata"]["annotations"]
        assert not [each for each in annotations if each.startswith(names.INGRESS_PREFIX)], annotations
        return {each: json.loads(annotations[names.NODE_PORTS_PREFIX + each])["80/TCP"] for each in addresses}

    def here() -> Json:
        found = {each: space.there(each, "services", "front") or {} for each in addresses}
        assert {each["spec"]["type"] for each in found.values()} == {"NodePort"}
        return {key: each["spec"]["ports"][0]["nodePort"] for key, each in found.items()}

    eventually(lambda: _ingress(space) == set() and told() == here())
    space.kubectl("patch", "service", "front", "--type=merge", "-p", '{"spec":{"type":"LoadBalancer"}}')
    for super_id, address in addresses.items():
        eventually(lambda super_id=super_id: _is_load_balancer(space, super_id))  # type: ignore[misc]
        _answer_as_load_balancer(space, super_id, [{"ip": address}])
    eventually(lambda: _ingress(space) == set(addresses.values()))


def _is_load_balancer(space: Space, super_id: str) -> bool:
    found = space.there(super_id, "services", "front")
    return found is not None and found["spec"]["type"] == "LoadBalancer"


def _answer_as_load_balancer(space: Space, super_id: str, ingress: list[Json]) -> None:
    patch = {"status": {"loadBalancer": {"ingress": ingress}}}
    space.pool.supers[super_id].kubectl(
        "-n", space.super_name, "patch", "service", "front", "--subresource=status", "--type=merge",
        "-p", json.dumps(patch),
    )  # fmt: skip


def _ingress(space: Space) -> set[str]:
    found = space.get("services", "front") or {}
    return {each["ip"] for each in found["status"]["loadBalancer"].get("ingress", ())}


def test_endpoints_without_selector_are_synced(space: Space) -> None:
    endpoints: Json = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "outside"},
        "subsets": [{"addresses": [{"ip": "203.0.113.5"}], "ports": [{"port": 5432}]}],
    }
    space.apply(service("outside"), endpoints)
    for super_id in space.pool.supers:
        found = eventually(lambda super_id=super_id: space.there(super_id, "endpoints", "outside"))  # type: ignore[misc]
        assert found["subsets"][0]["addresses"] == [{"ip": "203.0.113.5"}]
        assert found["subsets"][0]["ports"][0]["port"] == 5432
    endpoints["subsets"][0]["addresses"] = [{"ip": "203.0.113.6"}, {"ip": "203.0.113.7"}]
    space.apply(endpoints)
    for super_id in space.pool.supers:
        eventually(lambda super_id=super_id: _addresses(space, super_id) == {"203.0.113.6", "203.0.113.7"})  # type: ignore[misc]
    space.kubectl("delete", "service/outside", "endpoints/outside", "--ignore-not-found")
    for super_id in space.pool.supers:
        eventually(lambda super_id=super_id: space.there(super_id, "endpoints", "outside") is None)  # type: ignore[misc]


def _addresses(space: Space, super_id: str) -> set[str]:
    found = space.there(super_id, "endpoints", "outside") or {}
    return {each["ip"] for subset in found.get("subsets", ()) for each in subset["addresses"]}


def test_a_service_keeps_its_own_address_in_tenant_and_super_cluster(space: Space) -> None:
    space.apply(service("web", selector={"app": "web"}, type="NodePort"))
    mine = eventually(lambda: space.get("services", "web"))
    for super_id in space.pool.supers:
        standing = eventually(lambda super_id=super_id: space.there(super_id, "services", "web"))  # type: ignore[misc]
        assert standing["spec"]["clusterIP"] != mine["spec"]["clusterIP"]
        assert annotation(standing, names.CLUSTER_IP) == mine["spec"]["clusterIP"]
    first = (space.there("r1", "services", "web") or {})["spec"]["clusterIP"]
    eventually(lambda: annotation(space.get("services", "web"), names.TRANSPARENT_CLUSTER_IP) == first)
    assert (space.get("services", "web") or {})["spec"]["clusterIP"] == mine["spec"]["clusterIP"]


def test_a_tenant_learns_the_node_ports_of_each_super_cluster(space: Space) -> None:
    space.apply(service("open", selector={"app": "web"}, type="NodePort"))
    for super_id in space.pool.supers:
        (port,) = eventually(lambda super_id=super_id: space.there(super_id, "services", "open"))["spec"][
            "ports"
        ]  # type: ignore[misc]
        shown = f'{{"{port["port"]}/TCP":{port["nodePort"]}}}'
        key = names.NODE_PORTS_PREFIX + super_id
        eventually(lambda key=key, shown=shown: annotation(space.get("services", "open"), key) == shown)  # type: ignore[misc]


def test_external_ips_are_refused(space: Space) -> None:
    space.apply(service("catcher", selector={"app": "x"}, externalIPs=["203.0.113.9"]))
    events = eventually(lambda: space.events("catcher", "PolicyRefused"))
    assert "externalIPs" in events[0]["message"]
    assert not any(space.there(super_id, "services", "catcher") for super_id in space.pool.supers)


def test_an_address_for_a_load_balancer_is_synced_once_the_operator_allows_it(
    pool: Pool, space: Space
) -> None:
    space.apply(service("front", selector={"app": "x"}, type="LoadBalancer", loadBalancerIP="203.0.113.9"))
    (event,) = eventually(lambda: space.events("front", "PolicyRefused")[:1])
    assert event["message"].startswith(
        "spec.loadBalancerIP is not allowed here: the address may be meant for"
    )
    assert not any(space.there(super_id, "services", "front") for super_id in pool.supers)
    with pool.configured("acme", servicePolicy={"loadBalancerIP": "Allow"}):
        standing = eventually(lambda: space.there("r1", "services", "front"))
        assert standing["spec"]["loadBalancerIP"] == "203.0.113.9"
    with pool.configured("acme", servicePolicy={"nodePort": "Refuse"}):
        space.apply(service("wide", selector={"app": "x"}, type="NodePort"))
        (event,) = eventually(lambda: space.events("wide", "PolicyRefused")[:1])
        assert event["message"].startswith("spec.type NodePort is not allowed here")
        pool.configure("acme", servicePolicy={"nodePort": "Allow"})
        eventually(lambda: space.there("r1", "services", "wide"))
