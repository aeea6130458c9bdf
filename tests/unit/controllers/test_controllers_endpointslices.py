"""EndpointSlices: exactly the Pods of a Service, in few slices with few writes."""

from typing import Any

import pytest
from controllers_world import NAMESPACE, World
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.controllers.endpoints.endpointslice_plan import ENDPOINT_SLICE, MANAGER, NAME
from vcsync.controllers.endpoints.objects import MANAGED_BY, SERVICE_NAME
from vcsync.controllers.endpoints.pods_behind import TRIGGER_TIME
from vcsync.controllers.framework.plan import Create, Delete, Patch
from vcsync.kube.errors import ApiError, Status
from vcsync.kube.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES

LABELS = {"app": "web"}
WEB = {"name": "web", "port": 80, "targetPort": 8080, "protocol": "TCP"}
SEEN = {"name": "web", "port": 8080, "protocol": "TCP"}


def service(**spec: Any) -> dict[str, Any]:
    given_spec = {"selector": LABELS, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [WEB]}
    return {"metadata": {"name": "web", "labels": {"team": "blue"}}, "spec": {**given_spec, **spec}}


def put_pod(world: World, number: int, *, ready: bool = True, **fields: Any) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": world.time()}
    ips = [f"10.1.{number // 250}.{number % 250}", f"fd00::{number + 1:x}"]
    status = {"phase": "Running", "podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
    spec = {"nodeName": "n1", "containers": [], **fields.get("spec", {})}
    metadata = {"name": f"web-{number}", "labels": LABELS, **fields.get("metadata", {})}
    body = {"metadata": metadata, "spec": spec, "status": {**status, "conditions": [condition]}}
    world.put(PODS, body)


def world(count: int = 0, **spec: Any) -> World:
    made = World([ENDPOINT_SLICE])
    made.put(NODES, {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "east"}}})
    made.put(SERVICES, service(**spec))
    for number in range(count):
        put_pod(made, number)
    made.settle()
    return made


def slices(made: World) -> list[dict[str, Any]]:
    return made.bodies(ENDPOINT_SLICES)


def endpoints(made: World) -> list[dict[str, Any]]:
    return [each for slice_ in slices(made) for each in slice_["endpoints"]]


def targets(made: World) -> list[str]:
    return sorted(each["targetRef"]["name"] for each in endpoints(made))


def kinds(made: World) -> list[str]:
    return [type(each).__name__ for each in made.written]


def test_a_pod_is_an_endpoint_with_its_topology_and_state() -> None:
    made = world(1)
    [slice_] = slices(made)
    uid = made.body(PODS, "web-0")["metadata"]["uid"]
    assert slice_["endpoints"] == [
        {
            "addresses": ["10.1.0.0"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": "n1",
            "zone": "east",
            "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": "web-0", "uid": uid},
        }
    ]
    assert (slice_["addressType"], slice_["ports"]) == ("IPv4", [SEEN])


def test_a_slice_names_its_service_manager_and_trigger_time() -> None:
    made = world(1)
    metadata = slices(made)[0]["metadata"]
    assert metadata["labels"] == {"team": "blue", SERVICE_NAME: "web", MANAGED_BY: MANAGER}
    assert metadata["annotations"] == {TRIGGER_TIME: made.time()}
    assert metadata["generateName"] == "web-"
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["apiVersion"], owner["controller"]) == ("Service", "v1", True)


@pytest.mark.parametrize(
    ("ready", "going", "published", "conditions"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (True, True, False, (False, True, True)),
        (False, True, False, (False, False, True)),
        (False, False, True, (True, False, False)),
        (True, True, True, (True, True, True)),
    ],
)
def test_conditions(ready: bool, going: bool, published: bool, conditions: tuple[bool, bool, bool]) -> None:
    made = world(publishNotReadyAddresses=published)
    metadata = {"deletionTimestamp": made.time()} if going else {}
    put_pod(made, 1, ready=ready, metadata=metadata)
    made.settle()
    [endpoint] = endpoints(made)
    found = endpoint["conditions"]
    assert (found["ready"], found["serving"], found["terminating"]) == conditions


def test_a_service_without_pods_has_an_empty_slice() -> None:
    made = world()
    [slice_] = slices(made)
    assert (slice_["endpoints"], slice_["ports"]) == ([], [])
    made.written.clear()
    made.settle()
    assert made.written == []


def test_the_empty_slice_is_filled_and_emptied_again() -> None:
    made = world()
    name = slices(made)[0]["metadata"]["name"]
    put_pod(made, 1)
    made.settle()
    assert targets(made) == ["web-1"]
    made.remove(PODS, "web-1")
    made.settle()
    [slice_] = slices(made)
    assert (slice_["metadata"]["name"], slice_["endpoints"], slice_["ports"]) == (name, [], [])
    assert kinds(made) == ["Create", "Patch", "Patch"]


def test_a_hundred_endpoints_fit_into_a_slice() -> None:
    made = world(250)
    assert sorted(len(each["endpoints"]) for each in slices(made)) == [50, 100, 100]
    assert len(targets(made)) == len(set(targets(made))) == 250


def test_a_new_pod_fills_a_slice_that_has_room() -> None:
    made = world(150)
    made.written.clear()
    put_pod(made, 150)
    made.settle()
    assert kinds(made) == ["Patch"]
    assert sorted(len(each["endpoints"]) for each in slices(made)) == [51, 100]


def test_a_pod_that_is_replaced_costs_one_write() -> None:
    made = world(150)
    made.written.clear()
    made.remove(PODS, "web-3")
    put_pod(made, 200)
    made.settle()
    assert kinds(made) == ["Patch"]


def test_empty_slices_are_deleted() -> None:
    made = world(101)
    small = next(each for each in slices(made) if len(each["endpoints"]) == 1)
    made.remove(PODS, small["endpoints"][0]["targetRef"]["name"])
    made.written.clear()
    made.settle()
    assert kinds(made) == ["Delete"]
    assert len(slices(made)) == 1


def test_every_family_has_slices_of_its_own() -> None:
    made = world(1, ipFamilies=["IPv4", "IPv6"])
    found = {each["addressType"]: each["endpoints"][0]["addresses"] for each in slices(made)}
    assert found == {"IPv4": ["10.1.0.0"], "IPv6": ["fd00::1"]}
    made.change(SERVICES, "web", {"spec": {"ipFamilies": ["IPv4"]}})
    made.settle()
    assert [each["addressType"] for each in slices(made)] == ["IPv4"]


def test_pods_that_serve_other_ports_are_in_other_slices() -> None:
    made = world(ports=[{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}])
    for number, at in ((1, 8080), (2, 9090)):
        containers = [{"ports": [{"name": "http", "containerPort": at}]}]
        put_pod(made, number, spec={"containers": containers})
    made.settle()
    found = {each["ports"][0]["port"]: len(each["endpoints"]) for each in slices(made)}
    assert found == {8080: 1, 9090: 1}


def test_a_changed_port_rewrites_the_slice() -> None:
    made = world(1)
    made.change(SERVICES, "web", {"spec": {"ports": [{**WEB, "targetPort": 9090}]}})
    made.settle()
    [slice_] = slices(made)
    assert slice_["ports"] == [{**SEEN, "port": 9090}]
    assert kinds(made) == ["Create", "Patch"]


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "east"}]}),
        ("PreferSameZone", {"forZones": [{"name": "east"}]}),
        ("PreferSameNode", {"forZones": [{"name": "east"}], "forNodes": [{"name": "n1"}]}),
    ],
)
def test_hints_follow_the_traffic_distribution(distribution: str | None, hints: Any) -> None:
    made = world(1, trafficDistribution=distribution)
    assert endpoints(made)[0].get("hints") == hints
    made.change(SERVICES, "web", {"spec": {"trafficDistribution": None}})
    made.settle()
    assert "hints" not in endpoints(made)[0]


def test_a_pod_with_an_invisible_node_is_an_endpoint_without_zone() -> None:
    made = world()
    put_pod(made, 1, spec={"nodeName": "hidden"})
    made.settle()
    [endpoint] = endpoints(made)
    assert endpoint["nodeName"] == "hidden"
    assert "zone" not in endpoint


def test_labels_of_the_service_are_copied_and_removed() -> None:
    made = world(1)
    made.change(SERVICES, "web", {"metadata": {"labels": {"team": None, "tier": "x"}}})
    made.settle()
    [slice_] = slices(made)
    assert slice_["metadata"]["labels"] == {"tier": "x", SERVICE_NAME: "web", MANAGED_BY: MANAGER}


def test_slices_of_an_earlier_service_are_replaced_and_those_of_others_stay() -> None:
    made = world(1)
    [slice_] = slices(made)
    made.put(ENDPOINT_SLICES, {**slice_, "metadata": {"name": "theirs", "labels": {SERVICE_NAME: "web"}}})
    made.remove(SERVICES, "web")
    made.put(SERVICES, service())
    made.settle()
    names = [each["metadata"]["name"] for each in slices(made)]
    assert "theirs" in names
    assert slice_["metadata"]["name"] not in names
    assert len(names) == 2


def test_a_deleted_slice_is_created_again() -> None:
    made = world(1)
    made.remove(ENDPOINT_SLICES, slices(made)[0]["metadata"]["name"])
    made.settle()
    assert targets(made) == ["web-0"]


def test_a_terminating_service_gets_no_new_slices() -> None:
    made = World([ENDPOINT_SLICE])
    body = service()
    body["metadata"] |= {"deletionTimestamp": made.time(), "finalizers": ["x/y"]}
    made.put(SERVICES, body)
    made.settle()
    assert slices(made) == []


def test_a_write_that_fails_is_reported() -> None:
    made = World([ENDPOINT_SLICE])
    made.put(SERVICES, service())
    made.refusals = [(Create, ApiError(Status(500, "InternalError", "no")))]
    made.work(NAME, made.key(NAMESPACE, "web"))
    assert [each.reason for each in made.events] == ["FailedToUpdateEndpointSlices"]


CHANGES = st.lists(st.lists(st.tuples(st.integers(0, 130), st.booleans()), max_size=60), max_size=6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 130), CHANGES)
def test_after_any_history_every_pod_is_in_one_slice_of_limited_size(
    count: int, changes: list[list[tuple[int, bool]]]
) -> None:
    made = world(count)
    for each in changes:
        for number, there in each:
            if there:
                put_pod(made, number)
            else:
                made.remove(PODS, f"web-{number}")
        made.written.clear()
        made.settle()
        assert len([one for one in made.written if isinstance(one, Create | Patch | Delete)]) <= 4
        assert targets(made) == sorted(pod["metadata"]["name"] for pod in made.bodies(PODS))
        assert all(len(slice_["endpoints"]) <= 100 for slice_ in slices(made))
