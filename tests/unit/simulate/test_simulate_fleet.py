"""Hollow nodes: registration, reports, and repeated reports after another client has overwritten them."""

import asyncio
from typing import Any

from vcsync.kube.cache import Cache
from vcsync.kube.errors import NotFound, Status
from vcsync.kube.resources import NODES, Resource
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.merge_patch import merge_patch
from vcsync.simulate.fleet import Fleet, pace
from vcsync.simulate.nodes import Shape

STATE = "hollow.tenancy.x-k8s.io/state"


class Api:
    """The part of a cluster's API that kubelets use for nodes; records all writes."""

    def __init__(self) -> None:
        self.bodies: dict[tuple[str, str], dict[str, Any]] = {}
        self.asked: list[str] = []
        self.cache = Cache()
        self._version = 0

    def put(self, resource: Resource, body: dict[str, Any]) -> Envelope:
        self._version += 1
        metadata = {"uid": f"uid-{self._version}", **body["metadata"], "resourceVersion": str(self._version)}
        stored = {**body, "metadata": metadata}
        self.bodies[resource.plural, metadata["name"]] = stored
        envelope = parse(encode(stored))
        if resource == NODES:
            self.cache.observe(envelope)
        return envelope

    def drop_node(self, name: str) -> None:
        body = self.bodies.pop(("nodes", name))
        self.cache.observe_gone("", name, body["metadata"]["uid"])

    async def create(self, resource: Resource, body: dict[str, Any], _namespace: str = "") -> Envelope:
        self.asked.append(f"create {resource.plural}")
        return self.put(resource, body)

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], _namespace: str = "", **_how: str
    ) -> Envelope:
        self.asked.append(f"patch {resource.plural}")
        if (resource.plural, name) not in self.bodies:
            raise NotFound(Status(404))
        before = self.bodies[resource.plural, name]
        return self.put(resource, merge_patch(before, patch))

    # The interface of a reflector
    def observe(self, _envelope: Envelope) -> None:
        pass

    def status_of(self, name: str, type_: str = "Ready") -> str:
        conditions = self.bodies["nodes", name]["status"]["conditions"]
        return str(next(each["status"] for each in conditions if each["type"] == type_))

    def keep(self, fleet: Fleet, name: str = "node-0") -> list[str]:
        """Return the writes of one check of a node."""
        self.asked.clear()
        asyncio.run(fleet.keep(name))
        return self.asked


def made() -> tuple[Api, Fleet]:
    api = Api()
    return api, begun(api)


def begun(api: Api) -> Fleet:
    nodes: Any = api
    client: Any = api
    return Fleet(client, nodes, 2, Shape(), pace(2), lambda _node: None)


def test_a_node_registers_reports_and_has_a_lease() -> None:
    api, fleet = made()
    assert api.keep(fleet) == ["create nodes", "patch nodes", "create leases"]
    assert api.status_of("node-0") == "True"
    assert ("leases", "node-0") in api.bodies
    assert api.keep(fleet) == []


def test_nodes_of_others_are_ignored() -> None:
    api, fleet = made()
    assert api.keep(fleet, "node-2") == []
    assert api.keep(fleet, "other") == []


def test_a_deleted_node_stays_deleted_until_it_is_created_again() -> None:
    api, fleet = made()
    api.keep(fleet)
    api.drop_node("node-0")
    fleet.forget("node-0")
    assert api.keep(fleet) == []
    assert not fleet.alive("node-0")
    api.put(NODES, {"metadata": {"name": "node-0"}, "spec": {}, "status": {}})
    del api.bodies["leases", "node-0"]
    assert api.keep(fleet) == ["patch nodes", "patch leases", "create leases"]
    assert api.status_of("node-0") == "True"


def test_a_status_overwritten_by_others_is_reported_again() -> None:
    api, fleet = made()
    api.keep(fleet)
    doubted = [{"type": "Ready", "status": "Unknown"}]
    api.put(NODES, merge_patch(api.bodies["nodes", "node-0"], {"status": {"conditions": doubted}}))
    assert api.keep(fleet) == ["patch nodes"]
    assert api.status_of("node-0") == "True"


def test_a_node_that_is_down_reports_it_once_and_then_sends_no_heartbeats() -> None:
    api, fleet = made()
    api.keep(fleet)
    api.put(NODES, merge_patch(api.bodies["nodes", "node-0"], {"metadata": {"annotations": {STATE: "down"}}}))
    assert api.keep(fleet) == ["patch nodes"]
    assert api.status_of("node-0") == "Unknown"
    assert fleet.down() == ["node-0"]
    assert api.keep(fleet) == []
    api.put(NODES, merge_patch(api.bodies["nodes", "node-0"], {"metadata": {"annotations": {STATE: None}}}))
    assert api.keep(fleet)[0] == "patch nodes"
    assert api.status_of("node-0") == "True"


def test_many_nodes_send_heartbeats_less_often() -> None:
    assert pace(10).beat == 30
    assert pace(5000).beat == 2500


def test_a_restart_does_not_repeat_reports() -> None:
    api, fleet = made()
    api.keep(fleet)
    again = begun(api)
    assert api.keep(again) == []
    assert again.alive("node-0")
    moved = begun(api)
    moved.endpoint = ("127.0.0.1", 1)
    assert api.keep(moved) == ["patch nodes", "patch leases"]
