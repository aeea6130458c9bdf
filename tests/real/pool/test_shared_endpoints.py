"""Super clusters of one network share the endpoints of Services; what a tenant writes has no part in it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from endpoints_kit import GROUP, address, behind, endpoints, of, reached, remote, service
from pool_kit import Json, Pool, Space, condition, items, still_kubelets

from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.syncer.kinds.endpointslice import MANAGED_BY, SERVICE_NAME
from vcsync.syncer.shared_slices import CONTROLLER, HEADLESS_LABEL

FORGED = "192.0.2.66"


@pytest.fixture(scope="module")
def network(pool: Pool) -> Iterator[None]:
    """Both super clusters are in one network."""
    with pool.network():
        yield


@pytest.fixture
def shop(network: None, space: Space) -> Space:
    """A namespace with a Service, and a Pod behind it on each super cluster."""
    space.apply(service(), behind("web-1", "r1"), behind("web-2", "r2"))
    for name in ("web-1", "web-2"):
        space.running(name)
    return space


def shared(pool: Pool) -> list[Json]:
    return items(pool.bed.meta, f"/apis/{GROUP}/namespaces/{names.ENDPOINTS_NAMESPACE}/endpointslices")


def all_addresses(pool: Pool, space: Space) -> set[str]:
    """Return every address of an EndpointSlice in the meta cluster and in the namespace's copies."""
    found = shared(pool)
    for cluster in pool.supers.values():
        found += items(cluster, f"/apis/{GROUP}/namespaces/{space.super_name}/endpointslices")
    return {address for each in found for one in each["endpoints"] or () for address in one["addresses"]}


def test_a_service_reaches_the_pods_of_the_other_super_cluster(shop: Space) -> None:
    eventually(lambda: reached(shop, "r1") == [address(shop, "web-2")])
    eventually(lambda: reached(shop, "r2") == [address(shop, "web-1")])
    [found] = remote(shop, "r1")
    below = shop.there("r1", "services", "web")
    assert below is not None
    assert found["metadata"]["labels"][SERVICE_NAME] == "web"
    assert found["metadata"]["ownerReferences"][0]["uid"] == below["metadata"]["uid"]
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    [endpoint] = found["endpoints"]
    assert endpoint["conditions"]["ready"] is True
    assert not {"nodeName", "targetRef"} & endpoint.keys()


def test_a_condition_and_explain_say_who_reaches_whom(shop: Space, pool: Pool) -> None:
    name = f"acme/{shop.name}/web"

    def stated() -> str:
        found = condition(shop.get("services", "web"), names.REACHABLE_FROM_ALL)
        return f"{found.get('status')} {found.get('reason')}"

    def lines() -> dict[str, Json]:
        found = json.loads(pool.system.vcsync("explain", "service", name, "-o", "json"))
        return {each["superCluster"]: each for each in found["superClusters"]}

    eventually(lambda: stated() == "True SameNetwork")
    eventually(lambda: [each["shared"] for each in lines().values()] == [1, 1])
    assert [each["reaches"] for each in lines().values()] == [["r1", "r2"]] * 2
    assert [each["endpoints"] for each in lines().values()] == [1, 1]
    assert "reaches all its Pods" in pool.system.vcsync("explain", "service", name)
    pool.system.vcsync("super", "set", "r2", "--network-id", "")
    try:
        eventually(lambda: stated() == "False SeparateNetworks")
        eventually(lambda: [each["shared"] for each in lines().values()] == [0, 0])
        assert [each["reaches"] for each in lines().values()] == [["r1"], ["r2"]]
        assert "does not reach all its Pods" in pool.system.vcsync("explain", "service", name)
    finally:
        pool.system.vcsync("super", "set", "r2", "--network-id", "lab")
    eventually(lambda: stated() == "True SameNetwork")
    shop.kubectl("patch", "service", "web", "-p", json.dumps({"spec": {"selector": None}}))
    eventually(lambda: stated() == "None None")


def test_headless_services_share_endpoints_and_kube_proxy_leaves_them_alone(shop: Space) -> None:
    shop.apply(service("peers", clusterIP="None"))
    [found] = eventually(lambda: of(shop, "r1", "peers"))
    assert HEADLESS_LABEL in found["metadata"]["labels"]
    assert [one["addresses"] for one in found["endpoints"]] == [[address(shop, "web-2")]]


def test_services_that_select_no_pods_get_nothing_of_others(shop: Space) -> None:
    shop.apply(
        service("elsewhere", type="ExternalName", externalName="db.example.com", selector={"app": "web"}),
        service("by-hand", selector=None),
        service("last"),
    )
    eventually(lambda: of(shop, "r1", "last") and of(shop, "r2", "last"))
    for super_id in shop.pool.supers:
        assert of(shop, super_id, "elsewhere") == []
        assert of(shop, super_id, "by-hand") == []


def test_policies_affinity_and_families_of_the_copy_are_those_of_the_tenant(shop: Space) -> None:
    wanted = {
        "internalTrafficPolicy": "Local",
        "sessionAffinity": "ClientIP",
        "publishNotReadyAddresses": True,
        "ipFamilyPolicy": "PreferDualStack",
    }
    shop.apply(service("near", **wanted))
    [found] = eventually(lambda: of(shop, "r1", "near"))
    copy = shop.there("r1", "services", "near")
    assert copy is not None
    assert {field: copy["spec"][field] for field in wanted} == wanted
    assert found["addressType"] == copy["spec"]["ipFamilies"][0]
    assert "nodeName" not in found["endpoints"][0], "no node takes it for its own"


def test_endpoints_of_others_have_hints_if_the_service_prefers_near_ones(shop: Space) -> None:
    def hints() -> list[str]:
        return [one["hints"]["forZones"][0]["name"] for one in endpoints(shop, "r1") if "hints" in one]

    eventually(lambda: len(endpoints(shop, "r1")) == 1 and hints() == [])
    prefer_near(shop, "PreferClose")
    eventually(lambda: hints() == [one.get("zone", "r2") for one in endpoints(shop, "r1")])
    prefer_near(shop, None)
    eventually(lambda: hints() == [])


def prefer_near(space: Space, distribution: str | None) -> None:
    change = {"spec": {"trafficDistribution": distribution}}
    space.kubectl("patch", "service", "web", "--type=merge", "-p", json.dumps(change))


def test_named_ports_are_those_of_each_pod(shop: Space) -> None:
    shop.apply(behind("web-3", "r2", port=9090))
    eventually(lambda: sorted(one["ports"][0]["port"] for one in remote(shop, "r1")) == [8080, 9090])


def test_a_pod_that_ends_is_withdrawn(shop: Space, pool: Pool) -> None:
    eventually(lambda: reached(shop, "r1"))
    shop.kubectl("delete", "pod", "web-2")
    eventually(lambda: reached(shop, "r1") == [])
    eventually(lambda: not any(f".{shop.super_name}.r2" in each["metadata"]["name"] for each in shared(pool)))


def test_endpoints_end_with_their_service_and_with_their_namespace(shop: Space, pool: Pool) -> None:
    eventually(lambda: reached(shop, "r1"))
    shop.kubectl("delete", "service", "web")
    eventually(lambda: remote(shop, "r1") == [] and remote(shop, "r2") == [])
    shop.apply(service())
    eventually(lambda: reached(shop, "r1"))
    shop.delete()
    eventually(lambda: not any(shop.super_name in each["metadata"]["name"] for each in shared(pool)))


def test_endpoints_stay_while_a_placement_drains_and_end_with_it(shop: Space, pool: Pool) -> None:
    eventually(lambda: reached(shop, "r1"))
    with still_kubelets(pool.supers["r2"]):
        shop.pin(r1=2)
        eventually(lambda: [each["conditions"]["terminating"] for each in endpoints(shop, "r1")] == [True])
    eventually(lambda: shop.placements() == {"r1": 2} and shop.stands_on() == {"r1"})
    eventually(lambda: remote(shop, "r1") == [])
    eventually(lambda: not any(shop.super_name in each["metadata"]["name"] for each in shared(pool)))
    eventually(lambda: condition(shop.get("services", "web"), names.REACHABLE_FROM_ALL) == {})


def test_a_super_cluster_that_leaves_the_network_is_not_reached_any_more(shop: Space, pool: Pool) -> None:
    eventually(lambda: reached(shop, "r1"))
    pool.system.vcsync("super", "set", "r2", "--network-id", "")
    try:
        eventually(lambda: reached(shop, "r1") == [] and reached(shop, "r2") == [] and shared(pool) == [])
    finally:
        pool.system.vcsync("super", "set", "r2", "--network-id", "lab")
    eventually(lambda: reached(shop, "r1") == [address(shop, "web-2")])


def test_a_change_of_the_operator_s_cluster_is_repaired(shop: Space, pool: Pool) -> None:
    [found] = eventually(lambda: remote(shop, "r1"))
    change = {"endpoints": [{"addresses": [FORGED]}]}
    pool.supers["r1"].kubectl(
        "-n", shop.super_name, "patch", "endpointslice", found["metadata"]["name"],
        "--type=merge", "-p", json.dumps(change),
    )  # fmt: skip
    eventually(lambda: reached(shop, "r1") == [address(shop, "web-2")])


@pytest.mark.parametrize("writer", [CONTROLLER, names.REMOTE_ENDPOINTS, names.GROUP, "hand"])
@pytest.mark.parametrize("name", ["forged", "web-00000.r2"])
def test_addresses_that_a_tenant_writes_beside_its_pods_go_nowhere(
    shop: Space, pool: Pool, writer: str, name: str
) -> None:
    labels = {
        SERVICE_NAME: "web",
        MANAGED_BY: writer,
        names.CONTROLLED: names.TRUE,
        names.NETWORK_ID: "lab",
        names.SUPER_CLUSTER_ID: "r2",
        names.SERVICE: "web",
    }
    forged = {
        "apiVersion": GROUP,
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [FORGED], "nodeName": "worker-1.r2"}],
        "ports": [{"name": "http", "port": 8080}],
    }
    shop.apply(forged)
    # A Pod that comes later shows that the syncers have seen the forged slice.
    shop.apply(behind("web-9", "r2"))
    shop.running("web-9")
    eventually(lambda: address(shop, "web-9") in reached(shop, "r1"))
    assert FORGED not in all_addresses(pool, shop)


def test_a_service_does_not_reach_pods_of_another_tenant_s_namespace_of_the_same_name(
    shop: Space, pool: Pool
) -> None:
    with pool.space("umbrella", shop.name) as other:
        other.apply(service())
        other.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}})
        eventually(lambda: all(other.there(each, "configmaps", "last") for each in pool.supers))
        eventually(lambda: reached(shop, "r1") == [address(shop, "web-2")])
        assert [remote(other, each) for each in pool.supers] == [[], []]
