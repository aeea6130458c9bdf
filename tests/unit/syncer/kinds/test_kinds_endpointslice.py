"""EndpointSlices: those that users write for Services without selector are copied, without references to the tenant's cluster."""

from typing import Any

import pytest
from kinds_bench import Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import ENDPOINT_SLICES, SERVICES
from vcsync.syncer.kinds.endpointslice import MANAGED_BY, SERVICE_NAME, WRITTEN_BY_USERS
from vcsync.syncer.kinds.plan import Delete, Notify

ENDPOINT = {
    "addresses": ["192.0.2.7"],
    "conditions": {"ready": True},
    "hostname": "db-0",
    "targetRef": {"kind": "Pod", "name": "db-0"},
    "nodeName": "worker-1.r1",
    "zone": "a",
    "hints": {"forZones": [{"name": "a"}]},
}
PORTS = [{"name": "sql", "port": 5432, "protocol": "TCP"}]


def put(bench: Bench, **fields: Any) -> None:
    body = {
        "metadata": {"name": "db-1", "labels": {SERVICE_NAME: "db", MANAGED_BY: "hand", "team": "a"}},
        "addressType": "IPv4",
        "endpoints": [ENDPOINT],
        "ports": PORTS,
        **fields,
    }
    bench.put("tenant", ENDPOINT_SLICES, body)


def put_service(bench: Bench, name: str = "db") -> None:
    """Create a Service without selector on both sides."""
    bench.put("tenant", SERVICES, {"metadata": {"name": name}, "spec": {"ports": [{"port": 5432}]}})
    bench.settle("services", "shop", name)


def below(bench: Bench) -> Any:
    return bench.get("super", ENDPOINT_SLICES, "db-1", super_ns("shop"))


def test_a_slice_is_copied_without_references_and_belongs_to_its_service(bench: Bench) -> None:
    put_service(bench)
    put(bench)
    assert len(bench.settle("endpointslices", "shop", "db-1")) == 1
    copy = below(bench)
    assert copy["endpoints"] == [
        {"addresses": ["192.0.2.7"], "conditions": {"ready": True}, "hostname": "db-0"}
    ]
    assert (copy["addressType"], copy["ports"]) == ("IPv4", PORTS)
    labels = copy["metadata"]["labels"]
    assert (labels[SERVICE_NAME], labels[MANAGED_BY], labels["team"]) == ("db", names.GROUP, "a")
    assert bench.plan("endpointslices", "shop", "db-1").actions == ()


@pytest.mark.parametrize(
    "change",
    [
        {"endpoints": [{"addresses": ["192.0.2.8"]}]},
        {"endpoints": []},
        {"ports": [{"name": "sql", "port": 5433, "protocol": "TCP"}]},
        {"ports": None},
        {"metadata": {"labels": {SERVICE_NAME: "other"}}},
        {"metadata": {"labels": {"team": "b"}}},
    ],
)
@pytest.mark.parametrize("side", ["tenant", "super"])
def test_a_change_on_either_side_makes_the_copy_equal_again(bench: Bench, side: Any, change: Any) -> None:
    put_service(bench)
    put_service(bench, "other")
    put(bench)
    bench.settle("endpointslices", "shop", "db-1")
    bench.edit(side, ENDPOINT_SLICES, "db-1", change)
    assert len(bench.settle("endpointslices", "shop", "db-1")) == 1
    wanted = bench.get("tenant", ENDPOINT_SLICES, "db-1")
    copy = below(bench)
    assert [each["addresses"] for each in copy["endpoints"]] == [
        each["addresses"] for each in wanted["endpoints"]
    ]
    assert copy.get("ports") == wanted.get("ports")
    for key in (SERVICE_NAME, "team"):
        assert copy["metadata"]["labels"][key] == wanted["metadata"]["labels"][key]


@pytest.mark.parametrize("side", ["tenant", "super"])
def test_a_slice_of_a_service_with_a_selector_is_not_copied_and_an_event_says_why(
    bench: Bench, side: Any
) -> None:
    put_service(bench)
    put(bench)
    bench.settle("endpointslices", "shop", "db-1")
    bench.edit(side, SERVICES, "db", {"spec": {"selector": {"app": "db"}}})
    plan = bench.plan("endpointslices", "shop", "db-1")
    [delete, notify] = plan.actions
    assert isinstance(delete, Delete)
    assert isinstance(notify, Notify)
    assert "remove spec.selector of the Service" in notify.message
    assert plan.wait is not None
    assert [on.name for on in plan.wait.on] == ["db", "db"]


@pytest.mark.parametrize("side", ["tenant", "super"])
def test_a_slice_does_not_stand_without_its_service(bench: Bench, side: Any) -> None:
    put_service(bench)
    put(bench)
    bench.settle("endpointslices", "shop", "db-1")
    bench.remove(side, SERVICES, "db")
    plan = bench.plan("endpointslices", "shop", "db-1")
    assert [type(each) for each in plan.actions] == [Delete]
    assert plan.wait is not None
    assert plan.wait.reason == "Service db does not exist"
    assert [(on.side, on.name) for on in plan.wait.on] == [("tenant", "db"), ("super", "db")]


def test_a_slice_waits_for_its_service(bench: Bench) -> None:
    put(bench)
    plan = bench.plan("endpointslices", "shop", "db-1")
    assert plan.actions == ()
    assert plan.wait is not None
    put_service(bench)
    assert len(bench.settle("endpointslices", "shop", "db-1")) == 1


def test_a_slice_does_not_join_a_service_of_the_operator(bench: Bench) -> None:
    foreign = {"metadata": {"name": "db", "namespace": super_ns("shop")}, "spec": {"ports": [{"port": 5432}]}}
    bench.put("super", SERVICES, foreign)
    bench.put("tenant", SERVICES, {"metadata": {"name": "db"}, "spec": {"ports": [{"port": 5432}]}})
    put(bench)
    assert bench.plan("endpointslices", "shop", "db-1").actions == ()
    assert not bench.has("super", ENDPOINT_SLICES, "db-1", super_ns("shop"))


def test_a_copy_with_another_address_type_is_replaced(bench: Bench) -> None:
    put_service(bench)
    put(bench)
    bench.settle("endpointslices", "shop", "db-1")
    bench.edit("super", ENDPOINT_SLICES, "db-1", {"addressType": "FQDN"})
    [delete] = bench.plan("endpointslices", "shop", "db-1").actions
    assert isinstance(delete, Delete)


def test_the_api_servers_own_slice_is_not_copied(bench: Bench) -> None:
    bench.place("default")
    bench.put(
        "tenant",
        ENDPOINT_SLICES,
        {
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {SERVICE_NAME: "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [ENDPOINT],
        },
    )
    assert bench.plan("endpointslices", "default", "kubernetes").actions == ()


def test_a_deleted_slice_is_deleted_below(bench: Bench) -> None:
    put_service(bench)
    put(bench)
    bench.settle("endpointslices", "shop", "db-1")
    bench.remove("tenant", ENDPOINT_SLICES, "db-1")
    [delete] = bench.plan("endpointslices", "shop", "db-1").actions
    assert isinstance(delete, Delete)


def test_slices_of_controllers_are_not_read() -> None:
    assert WRITTEN_BY_USERS == (
        "kubernetes.io/service-name,endpointslice.kubernetes.io/managed-by notin "
        "(endpointslice-controller.k8s.io,endpointslicemirroring-controller.k8s.io)"
    )
