"""Hollow nodes kept alive: registered once, reported of, said anew when somebody doubts it."""

import asyncio
from typing import Any

from vcsync.kube.cache import Cache
from vcsync.kube.envelope import Envelope, encode, parse
from vcsync.kube.errors import NotFound, Status
from vcsync.kube.patches import merge_patch
from vcsync.kube.resources import NODES, Resource
from vcsync.simulate.fleet import Fleet, pace
from vcsync.simulate.nodes import Shape

STATE = "hollow.tenancy.x-k8s.io/state"


class Api:
    """A cluster's API, as far as nodes' kubelets speak to it, and what is seen of it."""

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

    # As a reflector
    def observe(self, _envelope: Envelope) -> None:
        pass

    def status_of(self, name: str, type_: str = "Ready") -> str:
        told = self.bodies["nodes", name]["status"]["conditions"]
        return str(next(each["status"] for each in told if each["type"] == type_))

    def keep(self, fleet: Fleet, name: str = "node-0") -> list[str]:
        """What is asked of the API when it is time to look at a node."""
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


def test_nobody_elses_nodes_are_kept() -> None:
    api, fleet = made()
    assert api.keep(fleet, "node-2") == []
    assert api.keep(fleet, "other") == []


def test_a_node_that_was_deleted_stays_away_until_somebody_makes_it() -> None:
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


def test_what_somebody_else_says_of_a_node_is_put_right() -> None:
    api, fleet = made()
    api.keep(fleet)
    doubted = [{"type": "Ready", "status": "Unknown"}]
    api.put(NODES, merge_patch(api.bodies["nodes", "node-0"], {"status": {"conditions": doubted}}))
    assert api.keep(fleet) == ["patch nodes"]
    assert api.status_of("node-0") == "True"


def test_a_node_that_is_down_says_so_once_and_is_silent() -> None:
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


def test_many_nodes_beat_more_rarely() -> None:
    assert pace(10).beat == 30
    assert pace(5000).beat == 2500


def test_a_restart_says_nothing_that_was_said_before() -> None:
    api, fleet = made()
    api.keep(fleet)
    again = begun(api)
    assert api.keep(again) == []
    assert again.alive("node-0")
    moved = begun(api)
    moved.endpoint = ("127.0.0.1", 1)
    assert api.keep(moved) == ["patch nodes", "patch leases"]
