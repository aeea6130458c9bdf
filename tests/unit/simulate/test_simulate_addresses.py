"""Addresses of Pods and of load balancers are unique."""

from ipaddress import ip_address, ip_network
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vcsync.objects.envelope import encode, parse
from vcsync.simulate.addresses import NETWORKS, Addresses, network_of
from vcsync.simulate.balancers import Balancers


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 3)), max_size=60))
def test_no_two_pods_share_an_address(history: list[tuple[bool, int, int]]) -> None:
    addresses = Addresses(per_node=100)
    held: dict[str, str] = {}
    for comes, number, node in history:
        uid = f"u{number}"
        if not comes:
            addresses.free(uid)
            held.pop(uid, None)
            continue
        before = held.get(uid)
        held[uid] = addresses.take(uid, node)
        assert before in (None, held[uid])
        if before is None:
            assert ip_address(held[uid]) in ip_network(addresses.range_of(node))
    assert len(set(held.values())) == len(held)


def test_a_pod_keeps_the_address_in_its_status() -> None:
    addresses = Addresses(per_node=100)
    addresses.hold("old", "10.0.0.1")
    assert addresses.take("new", 0) == "10.0.0.2"
    assert addresses.take("old", 0) == "10.0.0.1"
    for text in ("172.16.0.1", "fd00::1", "", "10.0.0"):
        addresses.hold("odd", text)
    addresses.free("old")
    assert addresses.take("next", 0) == "10.0.0.1"


def test_every_node_has_room_for_its_pods() -> None:
    addresses = Addresses(per_node=500)
    taken = {addresses.take(f"u{number}", 7) for number in range(500)}
    assert len(taken) == 500
    assert all(ip_address(each) in ip_network(addresses.range_of(7)) for each in taken)
    assert not ip_network(addresses.range_of(7)).overlaps(ip_network(addresses.range_of(8)))


def service(name: str, status: Any = None, **spec: Any) -> Any:
    body = {"metadata": {"name": name, "namespace": "n"}, "spec": {"type": "LoadBalancer", **spec}}
    return parse(encode({**body, "status": status or {}}))


def address(report: Any) -> str:
    return str(report["loadBalancer"]["ingress"][0]["ip"])


def test_load_balancer_addresses_are_unique_and_depend_on_the_seed() -> None:
    one, again, other = Balancers(1), Balancers(1), Balancers(2)
    first = [address(one.report(service(f"s{number}"))) for number in range(2000)]
    assert len(set(first)) == 2000
    assert first == [address(again.report(service(f"s{number}"))) for number in range(2000)]
    assert first[0] != address(other.report(service("s0")))
    assert all(ip_address(each) in ip_network("198.18.0.0/15") for each in first)


def test_existing_and_requested_addresses_are_kept() -> None:
    balancers = Balancers(1)
    there = service("s", {"loadBalancer": {"ingress": [{"ip": "198.18.0.9"}]}})
    balancers.see(there)
    assert balancers.report(there) is None
    assert address(balancers.report(service("t", loadBalancerIP="192.0.2.7"))) == "192.0.2.7"


def test_other_services_get_no_address() -> None:
    balancers = Balancers(1)
    assert balancers.report(service("s", type="ClusterIP")) is None
    assert balancers.report(service("s", loadBalancerClass="x.io/y")) is None
    was = service("s", {"loadBalancer": {"ingress": [{"ip": "198.18.0.9"}]}}, type="ClusterIP")
    assert balancers.report(was) == {"loadBalancer": None}


def test_pods_of_different_clusters_have_different_addresses() -> None:
    assert sorted(map(network_of, range(NETWORKS))) == list(range(NETWORKS))
    assert network_of(NETWORKS - 1) == 0, "where Services have their addresses"
    clusters = [Addresses(100, network_of(number)) for number in range(8)]
    ranges = [ip_network(each.range_of(node)) for each in clusters for node in (0, 1, 9_999)]
    assert len(set(ranges)) == len(ranges)
    last = max(int(ip_network(clusters[0].range_of(9_999)).broadcast_address), 0)
    assert all(int(ip_network(each.range_of(0)).network_address) > last for each in clusters[1:])
    assert len({each.take("pod", 0) for each in clusters}) == len(clusters)


@given(st.integers(0, 255), st.integers(1, 500_000), st.integers(0, 20_000))
def test_a_freed_address_is_reused(network: int, per_node: int, node: int) -> None:
    addresses = Addresses(per_node, network)
    first = addresses.take("one", node)
    assert addresses.take("two", node) != first
    addresses.free("one")
    assert addresses.take("three", node) == first
