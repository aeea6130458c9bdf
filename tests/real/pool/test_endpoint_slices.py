"""EndpointSlices that a tenant writes for Services without selector are in every super cluster with slices of their namespace."""

from __future__ import annotations

import json
from typing import Any

from pool_kit import Pool, Space, items

from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.syncer.kinds.endpointslice import MANAGED_BY, SERVICE_NAME

GROUP = "discovery.k8s.io/v1"
PLURAL = "endpointslices"
PORTS = [{"name": "sql", "port": 5432, "protocol": "TCP"}]


def service(**spec: Any) -> dict[str, Any]:
    ports = [{"name": "sql", "port": 5432}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db"},
        "spec": {"ports": ports, **spec},
    }


def endpoint_slice(*addresses: str, managed_by: str = "hand", of: str = "db") -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": "EndpointSlice",
        "metadata": {"name": "db-1", "labels": {SERVICE_NAME: of, MANAGED_BY: managed_by}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [each], "nodeName": "worker.r1", "zone": "a"} for each in addresses],
        "ports": PORTS,
    }


def below(space: Space) -> list[Any]:
    """Return the addresses in each super cluster; None where there is no copy."""
    found = [space.there(each, PLURAL, "db-1", GROUP) for each in ("r1", "r2")]
    return [each and [one["addresses"][0] for one in each["endpoints"] or ()] for each in found]


def test_a_slice_is_created_changed_and_deleted_in_every_super_cluster(space: Space) -> None:
    space.apply(service(), endpoint_slice("192.0.2.7"))
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)
    copy = space.there("r1", PLURAL, "db-1", GROUP)
    assert copy is not None
    assert copy["metadata"]["labels"][SERVICE_NAME] == "db"
    assert copy["metadata"]["labels"][MANAGED_BY] == names.GROUP
    assert copy["ports"] == PORTS
    assert not {"nodeName", "zone"} & copy["endpoints"][0].keys()
    space.apply(endpoint_slice("192.0.2.7", "192.0.2.8"))
    eventually(lambda: below(space) == [["192.0.2.7", "192.0.2.8"]] * 2)
    space.kubectl("delete", "endpointslice", "db-1")
    eventually(lambda: below(space) == [None, None])


def test_a_change_or_deletion_in_a_super_cluster_is_repaired(space: Space) -> None:
    space.apply(service(), endpoint_slice("192.0.2.7"))
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)
    cluster = space.pool.supers["r1"]
    change = {"endpoints": [{"addresses": ["192.0.2.66"]}], "metadata": {"labels": {SERVICE_NAME: "other"}}}
    cluster.kubectl(
        "-n", space.super_name, "patch", "endpointslice", "db-1", "--type=merge", "-p", json.dumps(change)
    )
    eventually(lambda: below(space)[0] == ["192.0.2.7"])
    copy = space.there("r1", PLURAL, "db-1", GROUP)
    assert copy is not None
    assert copy["metadata"]["labels"][SERVICE_NAME] == "db"
    cluster.kubectl("-n", space.super_name, "delete", "endpointslice", "db-1")
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)


def test_a_selector_of_the_service_takes_the_slice_away_and_an_event_says_why(space: Space) -> None:
    space.apply(service(), endpoint_slice("192.0.2.7"))
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)
    space.kubectl("patch", "service", "db", "-p", json.dumps({"spec": {"selector": {"app": "db"}}}))
    eventually(lambda: below(space) == [None, None])
    [event, *_] = eventually(lambda: space.events("db-1", "PolicyRefused"))
    assert "remove spec.selector of the Service" in event["message"]
    space.kubectl("patch", "service", "db", "-p", json.dumps({"spec": {"selector": None}}))
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)


def test_a_slice_leaves_with_its_service_and_comes_back_with_it(space: Space) -> None:
    space.apply(service(), endpoint_slice("192.0.2.7"))
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)
    space.kubectl("delete", "service", "db")
    eventually(lambda: below(space) == [None, None])
    assert space.kubectl("get", "endpointslice", "db-1", "-o", "name")
    space.apply(service(selector={"app": "db"}))
    eventually(lambda: space.events("db-1", "PolicyRefused"))
    assert below(space) == [None, None]
    space.kubectl("delete", "service", "db")
    space.apply(service())
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)


def test_a_slice_of_a_controller_is_not_copied(space: Space) -> None:
    space.apply(service(), endpoint_slice("192.0.2.7"))
    eventually(lambda: below(space) == [["192.0.2.7"]] * 2)
    label = f"{MANAGED_BY}=endpointslicemirroring-controller.k8s.io"
    space.kubectl("label", "endpointslice", "db-1", "--overwrite", label)
    eventually(lambda: below(space) == [None, None])


def test_slices_of_pods_and_of_the_api_server_stay_in_the_tenant(pool: Pool, space: Space) -> None:
    space.apply(service(selector={"app": "db"}))
    eventually(lambda: space.all(PLURAL, group=GROUP))
    space.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}})
    eventually(lambda: all(space.there(each, "configmaps", "last") for each in ("r1", "r2")))
    for super_id in ("r1", "r2"):
        query = f"labelSelector={MANAGED_BY}%3D{names.GROUP}"
        assert (
            items(pool.supers[super_id], f"/apis/{GROUP}/namespaces/{space.super_name}/{PLURAL}?{query}")
            == []
        )
