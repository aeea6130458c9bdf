"""Addresses and node ports of Services."""

from collections.abc import Callable
from typing import Any

import pytest

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.core.service_claims import Network, allocate, held
from vcsync.apimachinery.strategy import Context, User

SERVICE = BEHAVIOURS["", "Service"]
CONTEXT = Context("acme", User("admin"), "2026-01-01T00:00:00Z")
NETWORK = Network("10.0.0.0/28", 30000, 30003)


def service(**spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}, **spec},
    }
    SERVICE.default(made)
    return made


def first(_: int) -> int:
    return 0


@pytest.mark.parametrize(("policy", "left"), [("Local", False), ("Nobody", True)])
def test_an_external_name_has_no_policy_for_traffic_inside_but_a_wrong_one_is_refused(
    policy: str, left: bool
) -> None:
    made = service(type="ExternalName", externalName="example.com", internalTrafficPolicy=policy)
    SERVICE.prepare_create(made, CONTEXT)
    assert ("internalTrafficPolicy" in made["spec"]) == left
    wrong = [each.field for each in SERVICE.validate(made)]
    assert ("spec.internalTrafficPolicy" in wrong) == left


def test_an_address_is_chosen_within_the_range() -> None:
    made = service()
    taken = allocate(made, None, NETWORK, first)
    assert [(each.key, each.taken) for each in taken.claims] == [("ip/10.0.0.1", None)]
    assert made["spec"]["clusterIPs"] == ["10.0.0.1"]
    assert made["spec"]["ipFamilies"] == ["IPv4"]
    assert made["spec"]["ipFamilyPolicy"] == "SingleStack"
    last = allocate(service(), None, NETWORK, lambda n: n - 1)
    assert [each.key for each in last.claims] == ["ip/10.0.0.14"]


def test_an_address_that_is_asked_for_says_why_it_cannot_be_had() -> None:
    taken = allocate(service(clusterIP="10.0.0.5", clusterIPs=["10.0.0.5"]), None, NETWORK, first)
    assert taken.claims[0].taken is not None
    assert taken.claims[0].taken.body.endswith(
        "failed to allocate IP 10.0.0.5: provided IP is already allocated"
    )
    outside = allocate(service(clusterIP="10.9.0.5", clusterIPs=["10.9.0.5"]), None, NETWORK, first)
    assert outside.findings[0].body.endswith(
        "the provided IP (10.9.0.5) is not in the valid range. The range of valid IPs is 10.0.0.0/28"
    )


def test_headless_and_external_names_take_nothing() -> None:
    assert allocate(service(clusterIP="None", clusterIPs=["None"]), None, NETWORK, first).claims == ()
    external = service(type="ExternalName", externalName="a.b", ports=[])
    assert allocate(external, None, NETWORK, first).claims == ()


def test_ports_of_one_number_share_a_node_port() -> None:
    ports = [
        {"name": "a", "port": 53, "protocol": "UDP"},
        {"name": "b", "port": 53},
        {"name": "c", "port": 80},
    ]
    made = service(type="NodePort", ports=ports)
    taken = allocate(made, None, NETWORK, first)
    assert [each["nodePort"] for each in made["spec"]["ports"]] == [30000, 30000, 30001]
    assert [each.key for each in taken.claims] == ["ip/10.0.0.1", "port/30000", "port/30001"]
    assert held(made) == {"ip/10.0.0.1", "port/30000", "port/30001"}


def test_a_new_service_cannot_give_two_ports_one_node_port() -> None:
    for protocols, numbers, refused in (
        (("UDP", "UDP"), (53, 54), True),
        (("UDP", "TCP"), (53, 54), True),
        (("UDP", "TCP"), (53, 53), False),
    ):
        ports = [
            {"name": protocol.lower() + str(at), "port": number, "protocol": protocol, "nodePort": 30003}
            for at, (protocol, number) in enumerate(zip(protocols, numbers, strict=True))
        ]
        made = service(type="NodePort", ports=ports)
        taken = allocate(made, None, NETWORK, first)
        told = "spec.ports[1].nodePort: Invalid value: 30003: provided port is already allocated"
        assert [str(each) for each in taken.findings] == ([told] if refused else [])
        assert refused or allocate(made, made, NETWORK, first).findings == ()


def test_what_a_service_holds_it_need_not_take_again() -> None:
    old = service(type="NodePort")
    allocate(old, None, NETWORK, first)
    new = service(type="NodePort")
    SERVICE.prepare_update(new, old, CONTEXT)
    assert allocate(new, old, NETWORK, first).claims == ()
    assert SERVICE.validate_update(new, old) == []
    assert new["spec"]["ports"][0]["nodePort"] == 30000


def test_another_type_gives_up_its_node_ports() -> None:
    old = service(type="NodePort")
    allocate(old, None, NETWORK, first)
    new = {
        "metadata": {"name": "web"},
        "spec": {**old["spec"], "type": "ClusterIP", "ports": [dict(old["spec"]["ports"][0])]},
    }
    SERVICE.default(new)
    SERVICE.prepare_update(new, old, CONTEXT)
    assert "nodePort" not in new["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in new["spec"]
    assert SERVICE.validate_update(new, old) == []
    assert held(old) - held(new) == {"port/30000"}


def test_a_node_port_outside_the_range_is_refused() -> None:
    taken = allocate(service(type="NodePort", ports=[{"port": 80, "nodePort": 80}]), None, NETWORK, first)
    told = "provided port is not in the valid range. The range of valid ports is 30000-30003"
    assert [str(each) for each in taken.findings] == [f"spec.ports[0].nodePort: Invalid value: 80: {told}"]


def test_the_address_of_a_service_may_not_change() -> None:
    old = service(clusterIP="10.0.0.5", clusterIPs=["10.0.0.5"])
    new = service(clusterIP="10.0.0.6", clusterIPs=["10.0.0.6"])
    assert [str(each) for each in SERVICE.validate_update(new, old)] == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.6"]: may not change once set'
    ]


FURTHER = Network("10.0.0.0/28", further=("10.64.0.0/28", "10.65.0.0/28"))


def test_an_address_is_chosen_from_the_tenants_further_ranges() -> None:
    assert [each.key for each in allocate(service(), None, FURTHER, first).claims] == ["ip/10.64.0.1"]
    last = allocate(service(), None, FURTHER, lambda n: n - 1)
    assert [each.key for each in last.claims] == ["ip/10.65.0.14"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("10.0.0.5", True),
        ("10.64.0.5", True),
        ("10.65.0.14", True),
        ("10.65.0.15", False),
        ("10.64.0.0", False),
        ("10.66.0.5", False),
    ],
)
def test_an_address_of_any_range_can_be_asked_for(asked: str, given: bool) -> None:
    made = allocate(service(clusterIP=asked, clusterIPs=[asked]), None, FURTHER, first)
    assert bool(made.claims) == given
    assert bool(made.findings) != given


@pytest.mark.parametrize("choose", [first, lambda n: n - 1])
def test_the_last_free_address_of_small_ranges_is_found(choose: Callable[[int], int]) -> None:
    taken = {f"ip/{range_}.{number}" for range_ in ("10.64.0", "10.65.0") for number in range(1, 15)}
    free = "ip/10.64.0.9"
    made = allocate(service(), None, FURTHER, choose, avoid=taken - {free})
    assert [each.key for each in made.claims] == [free]
    full = allocate(service(), None, FURTHER, choose, avoid=taken)
    assert full.claims[0].key in taken
