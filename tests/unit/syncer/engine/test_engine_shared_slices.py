"""The forms of shared EndpointSlices, and the writes that bring present slices to the wanted ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import names
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.syncer import shared_slices as slices
from vcsync.syncer.kinds.endpointslice import MANAGED_BY, SERVICE_NAME
from vcsync.syncer.shared_slices import Name, Owner, Write

PLACE = "root-acme-shop"
OWNER = Owner("root-acme", "shop")
PORTS = [{"name": "web", "port": 8080, "protocol": "TCP"}]


def below(
    *endpoints: dict[str, Any], name: str = "web-x7k2p", family: str = "IPv4", **labels: str
) -> Envelope:
    """Return a slice of r2's own controller."""
    body = {
        "metadata": {
            "name": name,
            "namespace": PLACE,
            "uid": f"uid-{name}",
            "labels": {SERVICE_NAME: "web", MANAGED_BY: slices.CONTROLLER, **labels},
        },
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": PORTS,
    }
    return parse(encode(body))


def endpoint(address: str = "10.2.0.5", *, ready: bool = True, **fields: Any) -> dict[str, Any]:
    return {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": ready, "terminating": False},
        "nodeName": "worker-1",
        "targetRef": {"kind": "Pod", "name": "web-0", "namespace": PLACE},
        **fields,
    }


def service(*, cluster: str = OWNER.tenant, deleting: bool = False, **spec: Any) -> Envelope:
    metadata: dict[str, Any] = {
        "name": "web",
        "namespace": PLACE,
        "uid": "uid-web",
        "annotations": {names.CLUSTER: cluster, names.NAMESPACE: OWNER.namespace},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return parse(encode({"metadata": metadata, "spec": {"selector": {"app": "web"}, **spec}}))


def as_shared(found: Envelope, super_id: str = "r2") -> Envelope:
    return parse(encode(slices.shared(found, OWNER, super_id, "frankfurt")))


def as_remote(found: Envelope, **spec: Any) -> dict[str, Any]:
    name = slices.read_name(as_shared(found).name)
    assert name is not None
    return slices.remote(as_shared(found), name, service(**spec), OWNER)


def stored(body: dict[str, Any]) -> Envelope:
    """Return a wanted slice as an API server returns it."""
    return parse(encode({**body, "metadata": {**body["metadata"], "uid": "uid-stored"}}))


def test_a_shared_slice_has_addresses_ports_and_conditions_and_no_names_of_pods_and_nodes() -> None:
    found = slices.shared(below(endpoint(zone="a", hostname="web-0")), OWNER, "r2", "frankfurt")
    assert found["endpoints"] == [
        {
            "addresses": ["10.2.0.5"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "hostname": "web-0",
            "zone": "a",
        }
    ]
    assert (found["addressType"], found["ports"]) == ("IPv4", PORTS)
    assert found["metadata"]["labels"][names.NETWORK_ID] == "frankfurt"
    assert SERVICE_NAME not in found["metadata"]["labels"], (
        "a Service of that name in the meta cluster would use it"
    )


def test_a_remote_slice_belongs_to_the_service_and_has_no_node() -> None:
    found = as_remote(below(endpoint()))
    assert found["metadata"]["name"] == "web-x7k2p.r2"
    assert found["metadata"]["labels"][SERVICE_NAME] == "web"
    assert found["metadata"]["labels"][MANAGED_BY] == names.REMOTE_ENDPOINTS
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-web"
    assert not {"nodeName", "targetRef"} & found["endpoints"][0].keys()


@pytest.mark.parametrize("condition", ["ready", "serving", "terminating"])
def test_conditions_are_those_where_the_pod_runs(condition: str) -> None:
    for value in (True, False):
        conditions = {"ready": False, "serving": False, "terminating": False, condition: value}
        [found] = as_remote(below(endpoint(conditions=conditions)))["endpoints"]
        assert found["conditions"] == conditions


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_each_address_family_has_slices_of_its_own(family: str) -> None:
    assert as_remote(below(endpoint(), family=family))["addressType"] == family


@pytest.mark.parametrize(
    ("spec", "zone", "hints"),
    [
        ({}, "a", None),
        ({"trafficDistribution": "PreferClose"}, "a", "a"),
        ({"trafficDistribution": "PreferSameZone"}, "a", "a"),
        ({"trafficDistribution": "PreferSameNode"}, "a", "a"),
        ({"trafficDistribution": "PreferClose"}, "", "r2"),
        ({"trafficDistribution": "Anywhere"}, "a", None),
    ],
)
def test_hints_follow_the_traffic_distribution(spec: dict[str, Any], zone: str, hints: str | None) -> None:
    [found] = as_remote(below(endpoint(zone=zone)), **spec)["endpoints"]
    assert found.get("hints") == ({"forZones": [{"name": hints}]} if hints else None)


def test_an_endpoint_that_is_not_ready_has_no_hint() -> None:
    [found] = as_remote(below(endpoint(ready=False, zone="a")), trafficDistribution="PreferClose")[
        "endpoints"
    ]
    assert "hints" not in found


def test_only_slices_of_headless_services_are_marked_as_such() -> None:
    assert slices.HEADLESS_LABEL in as_remote(below(endpoint()), clusterIP="None")["metadata"]["labels"]
    assert (
        slices.HEADLESS_LABEL not in as_remote(below(endpoint()), clusterIP="10.0.0.1")["metadata"]["labels"]
    )


@pytest.mark.parametrize(
    ("found", "selects"),
    [
        (service(), True),
        (None, False),
        (service(deleting=True), False),
        (service(selector={}), False),
        (service(selector=None), False),
        (service(type="ExternalName"), False),
        (service(cluster="root-umbrella"), False),
    ],
)
def test_only_a_copy_with_a_selector_takes_part(found: Envelope | None, selects: bool) -> None:
    assert slices.selects_pods(found, OWNER) is selects


@pytest.mark.parametrize("text", ["web", "a.b", "a.b.c.d", "..", "a..c", ""])
def test_other_names_are_no_names_of_shared_slices(text: str) -> None:
    assert slices.read_name(text) is None


label = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@given(label, label, label)
def test_names_are_read_back(slice_: str, place: str, super_id: str) -> None:
    name = Name(slice_, place, super_id)
    assert slices.read_name(str(name)) == name


addresses = st.lists(st.integers(1, 250).map(lambda n: f"10.2.0.{n}"), max_size=4, unique=True)
wanted_sets = st.dictionaries(st.sampled_from(["web-1", "web-2", "web-3"]), addresses, max_size=3)


@given(wanted_sets, wanted_sets)
def test_the_writes_lead_to_what_is_wanted_and_then_end(
    before: dict[str, list[str]], after: dict[str, list[str]]
) -> None:
    def bodies(found: dict[str, list[str]]) -> list[dict[str, Any]]:
        return [as_remote(below(*map(endpoint, each), name=name)) for name, each in found.items()]

    present = {each.name: each for each in map(stored, bodies(before))}
    wanted = bodies(after)
    for write in slices.writes(wanted, present.values()):
        if write.verb == "delete":
            del present[write.name]
        else:
            present[write.name] = stored(
                next(each for each in wanted if each["metadata"]["name"] == write.name)
            )
    assert list(slices.writes(wanted, present.values())) == []


def test_a_settled_slice_is_not_written() -> None:
    wanted = as_remote(below(endpoint()))
    assert list(slices.writes([wanted], [stored(wanted)])) == []


@pytest.mark.parametrize(
    "change",
    [
        {"endpoints": [{"addresses": ["192.0.2.66"]}]},
        {"ports": [{"port": 22}]},
        {"metadata": {"labels": {SERVICE_NAME: "other"}}},
        {"metadata": {"ownerReferences": []}},
    ],
)
def test_a_changed_slice_is_repaired(change: dict[str, Any]) -> None:
    wanted = as_remote(below(endpoint()))
    there = {**wanted, **change, "metadata": {**wanted["metadata"], **change.get("metadata", {})}}
    [write] = slices.writes([wanted], [stored(there)])
    assert write.verb == "patch"
    field = next(iter(change))
    if field == "metadata":
        inner = next(iter(change["metadata"]))
        assert write.body["metadata"][inner]
    else:
        assert write.body[field] == wanted[field]


def test_another_address_type_needs_another_object() -> None:
    found = stored(as_remote(below(endpoint())))
    writes = list(slices.writes([as_remote(below(endpoint(), family="IPv6"))], [found]))
    assert writes == [Write("delete", "web-x7k2p.r2", uid="uid-stored")]


def test_the_headless_mark_is_taken_away_again() -> None:
    found = stored(as_remote(below(endpoint()), clusterIP="None"))
    [write] = slices.writes([as_remote(below(endpoint()))], [found])
    assert write.body["metadata"]["labels"] == {slices.HEADLESS_LABEL: None}
