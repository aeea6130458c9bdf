"""EndpointSlices for Endpoints that users wrote."""

from typing import Any

import pytest
from controllers_world import NAMESPACE, World

from vcsync.controllers.endpoints.mirroring_plan import ENDPOINT_SLICE_MIRRORING, MANAGER, NAME
from vcsync.controllers.endpoints.objects import MANAGED_BY, SERVICE_NAME
from vcsync.kube.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES

PORTS = [{"name": "db", "port": 5432, "protocol": "TCP"}]
SERVICE: dict[str, Any] = {"metadata": {"name": "db"}, "spec": {"clusterIP": "10.0.0.1"}}


def written(*addresses: str, **metadata: Any) -> dict[str, Any]:
    subset = {"addresses": [{"ip": each} for each in addresses], "ports": PORTS}
    return {"metadata": {"name": "db", **metadata}, "subsets": [subset]}


def world(*addresses: str, **metadata: Any) -> World:
    made = World([ENDPOINT_SLICE_MIRRORING])
    made.put(SERVICES, SERVICE)
    made.put(ENDPOINTS, written(*addresses, **metadata))
    made.settle()
    return made


def slices(made: World) -> list[dict[str, Any]]:
    return made.bodies(ENDPOINT_SLICES)


def ips(made: World) -> list[str]:
    return sorted(ip for each in slices(made) for one in each["endpoints"] for ip in one["addresses"])


def test_addresses_are_mirrored_with_ports_and_readiness() -> None:
    made = world()
    subset = {
        "addresses": [{"ip": "192.0.2.1", "hostname": "a", "nodeName": "n1"}],
        "notReadyAddresses": [{"ip": "192.0.2.2"}],
        "ports": PORTS,
    }
    made.change(ENDPOINTS, "db", {"subsets": [subset]})
    made.settle()
    [slice_] = slices(made)
    assert (slice_["addressType"], slice_["ports"]) == ("IPv4", PORTS)
    assert slice_["endpoints"] == [
        {"addresses": ["192.0.2.1"], "conditions": {"ready": True}, "hostname": "a", "nodeName": "n1"},
        {"addresses": ["192.0.2.2"], "conditions": {"ready": False}},
    ]


def test_slices_are_labelled_and_annotated_as_the_endpoints() -> None:
    note = {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    made = world("192.0.2.1", labels={"team": "blue"}, annotations=note)
    [slice_] = slices(made)
    labels = {"team": "blue", SERVICE_NAME: "db", MANAGED_BY: MANAGER}
    assert slice_["metadata"]["labels"] == labels
    assert slice_["metadata"]["annotations"] == {"note": "x"}
    assert slice_["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
    made.change(ENDPOINTS, "db", {"metadata": {"annotations": {"note": None}, "labels": {"team": "red"}}})
    made.settle()
    [slice_] = slices(made)
    assert slice_["metadata"]["labels"] == {**labels, "team": "red"}
    assert slice_["metadata"]["annotations"] == {}


def test_every_family_has_a_slice_and_changes_rewrite_it() -> None:
    made = world("192.0.2.1", "2001:db8::1")
    before = {each["metadata"]["name"] for each in slices(made)}
    assert {each["addressType"] for each in slices(made)} == {"IPv4", "IPv6"}
    made.put(ENDPOINTS, written("192.0.2.9", "2001:db8::1"))
    made.settle()
    assert {each["metadata"]["name"] for each in slices(made)} == before
    assert ips(made) == ["192.0.2.9", "2001:db8::1"]


def test_nothing_is_written_twice() -> None:
    made = world("192.0.2.1", "2001:db8::1")
    made.written.clear()
    made.settle()
    assert made.written == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param((ENDPOINTS, {"subsets": None}), id="no-addresses"),
        pytest.param(
            (ENDPOINTS, {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}),
            id="not-to-be-mirrored",
        ),
        pytest.param(
            (
                ENDPOINTS,
                {"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}},
            ),
            id="an-election",
        ),
        pytest.param((SERVICES, {"spec": {"selector": {"app": "db"}}}), id="a-selector"),
    ],
)
def test_endpoints_that_are_not_mirrored_have_no_slices(change: tuple[Any, dict[str, Any]]) -> None:
    made = world("192.0.2.1")
    assert len(slices(made)) == 1
    made.change(change[0], "db", change[1])
    made.settle()
    assert slices(made) == []


@pytest.mark.parametrize("gone", [ENDPOINTS, SERVICES])
def test_slices_are_deleted_with_their_endpoints(gone: Any) -> None:
    made = world("192.0.2.1")
    made.remove(gone, "db")
    made.work(NAME, made.key(NAMESPACE, "db"))
    assert slices(made) == []


def test_at_most_a_thousand_addresses_are_mirrored_and_skipped_ones_reported() -> None:
    made = world("none", *(f"10.0.{number // 250}.{number % 250}" for number in range(1003)))
    assert len(ips(made)) == 1000
    assert {each.reason for each in made.events} == {"InvalidIPAddress", "TooManyAddressesToMirror"}
    assert "4 addresses were skipped" in made.events[-1].message
