"""Silent nodes: their conditions, taints and Pods, and their recovery."""

from typing import Any

import pytest
from controllers_world import TENANT, World
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controllers.framework.mirror import Key, placed
from vcsync.controllers.framework.plan import Patch
from vcsync.controllers.node import taints as node_taints
from vcsync.controllers.node.lifecycle_plan import LEASE_NAMESPACE, NAME, node_lifecycle
from vcsync.kube.cache import Change
from vcsync.kube.errors import ServerError, Status
from vcsync.kube.resources import LEASES, NAMESPACES, NODES, PODS, Resource
from vcsync.objects.envelope import Envelope, encode, parse

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
GRACE = 50


class Place(World):
    """A tenant with nodes; passes changes to the controller as its watches do."""

    def __init__(self) -> None:
        super().__init__([node_lifecycle()])
        self.put(NAMESPACES, {"metadata": {"name": "default"}})

    def tell(self, resource: Resource, before: Envelope | None, name: str, namespace: str = "") -> list[Key]:
        after = self.shelves[resource].get(TENANT, namespace, name)
        (watch,) = [each for each in self.controllers[NAME].watches if each.resource == resource]
        return list(watch.keys(Change(before, after), self.view()))

    def report(self, name: str, ready: str = "True", labels: Any = None, **conditions: str) -> None:
        """Write a status as a kubelet does."""
        before = self.shelves[NODES].get(TENANT, "", name)
        wanted = {"Ready": ready, "MemoryPressure": "False", **conditions}
        status = {
            "conditions": [
                {"type": type_, "status": each, "lastHeartbeatTime": self.time()}
                for type_, each in wanted.items()
            ]
        }
        old = self.shelves[NODES].bodies.get(("", name), {"metadata": {"name": name, "labels": labels or {}}})
        self.put(NODES, {**old, "status": status if wanted else {}})
        self.tell(NODES, before, name)

    def renew(self, name: str, seconds: int = 40, namespace: str = LEASE_NAMESPACE) -> list[Key]:
        """Renew a Lease; return the keys that this queues."""
        before = self.shelves[LEASES].get(TENANT, namespace, name)
        spec = {"renewTime": f"{self.now.isoformat()}", "leaseDurationSeconds": seconds}
        self.put(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace)
        return self.tell(LEASES, before, name, namespace)

    def pass_seconds(self, seconds: int, *, living: tuple[str, ...] = ()) -> None:
        """Let time pass and do all due work; the living nodes renew their Leases."""
        for _ in range(seconds // 5):
            self.pass_time(5)
            for name in living:
                self.renew(name)
            self.settle()

    def ready(self, name: str) -> str:
        """A node's readiness."""
        reported = self.body(NODES, name, "")["status"]["conditions"]
        return str(next(each["status"] for each in reported if each["type"] == "Ready"))

    def taints(self, name: str) -> set[tuple[str, str]]:
        """A node's taints."""
        return {
            (each["key"], each["effect"]) for each in self.body(NODES, name, "")["spec"].get("taints") or ()
        }


@pytest.fixture
def place() -> Place:
    made = Place()
    for name in ("one", "two"):
        made.put(NODES, {"metadata": {"name": name}, "spec": {}})
        made.report(name)
    made.settle()
    assert not made.written
    return made


LOST = {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}


def test_a_silent_node_becomes_unknown_and_tainted(place: Place) -> None:
    place.pass_seconds(GRACE - 5, living=("two",))
    assert place.ready("one") == "True"
    place.pass_seconds(10, living=("two",))
    assert place.ready("one") == "Unknown"
    for each in place.body(NODES, "one", "")["status"]["conditions"]:
        assert each["status"] == "Unknown"
        reported = {"MemoryPressure": "NodeStatusUnknown", "Ready": "NodeStatusUnknown"}
        assert each["reason"] == reported.get(each["type"], "NodeStatusNeverUpdated")
    assert place.taints("one") == LOST
    assert place.ready("two") == "True"
    assert not place.taints("two")
    assert [(each.reason, each.message) for each in place.events] == [
        ("NodeNotReady", "Node one status is now: NodeNotReady")
    ]


def test_a_new_status_is_a_heartbeat(place: Place) -> None:
    for _ in range(4):
        place.pass_seconds(40, living=("two",))
        place.report("one")
    assert not place.written


def test_a_returning_node_loses_its_taints(place: Place) -> None:
    place.pass_seconds(70, living=("two",))
    assert place.taints("one") == LOST
    assert place.renew("one") == [Key(TENANT, "", "one")]
    place.report("one")
    place.pass_seconds(10, living=("one", "two"))
    assert place.ready("one") == "True"
    assert not place.taints("one")


def test_a_longer_lease_duration_extends_the_grace_period(place: Place) -> None:
    place.renew("one", seconds=600)
    place.pass_seconds(595, living=("two",))
    assert place.ready("one") == "True"
    place.pass_seconds(10, living=("two",))
    assert place.ready("one") == "Unknown"


def test_other_leases_are_ignored(place: Place) -> None:
    assert place.renew("one", namespace="kube-system") == []
    assert place.renew("nobody") == []
    place.pass_seconds(70, living=("two", "nobody"))
    assert place.ready("one") == "Unknown"


def test_a_node_without_status_has_a_minute(place: Place) -> None:
    place.put(NODES, {"metadata": {"name": "new"}, "spec": {}, "status": {}})
    place.pass_seconds(55, living=("one", "two"))
    assert not place.body(NODES, "new", "")["status"]
    place.pass_seconds(10, living=("one", "two"))
    conditions = place.body(NODES, "new", "")["status"]["conditions"]
    assert {each["reason"] for each in conditions} == {"NodeStatusNeverUpdated"}
    assert {each["message"] for each in conditions} == {"Kubelet never posted node status."}
    assert place.taints("new") == LOST


def test_pods_of_a_silent_node_become_not_ready(place: Place) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    for name, node in (("p", "one"), ("q", "two")):
        place.put(PODS, {"metadata": {"name": name}, "spec": {"nodeName": node}, "status": ready})
    place.pass_seconds(70, living=("two",))
    (reported,) = place.body(PODS, "p")["status"]["conditions"]
    assert reported["status"] == "False"
    assert place.body(PODS, "q")["status"] == ready
    assert ("p", "NodeNotReady", "Node is not ready") in [
        (each.about.name, each.reason, each.message) for each in place.events
    ]


def test_failed_steps_are_repeated_at_the_next_reconcile(place: Place) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    place.put(PODS, {"metadata": {"name": "p"}, "spec": {"nodeName": "one"}, "status": ready})
    place.pass_time(60)
    place.renew("two")
    place.refusals.append((Patch, ServerError(Status(500, "InternalError"))))
    place.work(NAME, Key(TENANT, "", "one"))
    assert place.ready("one") == "True"
    place.settle()
    assert place.body(PODS, "p")["status"]["conditions"][0]["status"] == "False"
    assert place.ready("one") == "Unknown"


def test_pods_are_not_evicted_while_all_nodes_fail(place: Place) -> None:
    place.pass_seconds(70)
    for name in ("one", "two"):
        assert place.ready(name) == "Unknown"
        assert place.taints(name) == {(UNREACHABLE, "NoSchedule")}


def test_evictions_end_when_the_last_node_fails(place: Place) -> None:
    place.pass_seconds(70, living=("two",))
    assert place.taints("one") == LOST
    place.pass_seconds(70)
    assert place.taints("one") == place.taints("two") == {(UNREACHABLE, "NoSchedule")}


def test_nodes_of_a_zone_are_evicted_one_by_one(place: Place) -> None:
    names = [f"n{number}" for number in range(2)]
    for name in names:
        place.put(NODES, {"metadata": {"name": name}, "spec": {}})
        place.report(name)
    place.pass_seconds(GRACE, living=("one", "two"))
    given_up = [sum(bool(place.taints(name) >= LOST) for name in names)]
    for _ in range(5):
        place.pass_seconds(5, living=("one", "two"))
        given_up.append(sum(bool(place.taints(name) >= LOST) for name in names))
    assert given_up == sorted(given_up)
    assert given_up[-1] == 2
    assert 1 in given_up


def test_a_disrupted_small_zone_has_no_evictions(place: Place) -> None:
    names = [f"n{number}" for number in range(4)]
    for name in names:
        place.put(NODES, {"metadata": {"name": name}, "spec": {}})
        place.report(name)
    place.pass_seconds(100, living=("one", "two"))
    assert all(place.ready(name) == "Unknown" for name in names)
    assert sum(place.taints(name) >= LOST for name in names) <= 2


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"ready": "False"}, {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}),
        ({"MemoryPressure": "True"}, {("node.kubernetes.io/memory-pressure", "NoSchedule")}),
        ({"DiskPressure": "True"}, {("node.kubernetes.io/disk-pressure", "NoSchedule")}),
        ({"PIDPressure": "True"}, {("node.kubernetes.io/pid-pressure", "NoSchedule")}),
        ({"NetworkUnavailable": "True"}, {("node.kubernetes.io/network-unavailable", "NoSchedule")}),
        ({}, set()),
    ],
)
def test_taints_follow_conditions(place: Place, conditions: dict[str, str], expected: set[Any]) -> None:
    place.report("one", **conditions)
    place.settle()
    assert place.taints("one") == expected
    place.report("one")
    place.settle()
    assert not place.taints("one")


def test_a_not_ready_taint_replaces_the_unreachable_one(place: Place) -> None:
    place.pass_seconds(70, living=("two",))
    place.report("one", ready="False")
    place.settle()
    assert place.taints("one") == {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}


def test_a_new_node_loses_its_initial_taint_without_a_status(place: Place) -> None:
    new = {"key": NOT_READY, "effect": "NoSchedule"}
    place.put(NODES, {"metadata": {"name": "new"}, "spec": {"taints": [new]}})
    place.change(NODES, "one", {"spec": {"taints": [new]}}, "")
    place.settle()
    assert not place.taints("new")
    assert not place.taints("one")


def test_a_cordon_becomes_a_taint_and_other_taints_stay(place: Place) -> None:
    mine = {"key": "mine", "effect": "NoSchedule", "value": "x"}
    place.change(NODES, "one", {"spec": {"unschedulable": True, "taints": [mine]}}, "")
    place.settle()
    assert place.taints("one") == {("mine", "NoSchedule"), (UNSCHEDULABLE, "NoSchedule")}
    place.change(NODES, "one", {"spec": {"unschedulable": None}}, "")
    place.settle()
    assert place.body(NODES, "one", "")["spec"]["taints"] == [mine]


@given(st.integers(0, 200), st.integers(1, 200))
def test_eviction_rate_of_a_zone(ready: int, failed: int) -> None:
    found = node_taints.pause(ready, failed, 10, 100)
    mostly = ready > 0 and failed > 2 and failed >= 0.55 * (ready + failed)
    assert found == (10 if not mostly else 100 if ready + failed > 50 else None)


def test_the_zone_comes_from_labels() -> None:
    def node(**labels: str) -> Envelope:
        return placed(parse(encode({"metadata": {"name": "n", "labels": labels}})), TENANT)

    east = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "east"}
    assert node_taints.zone(node(**east)) == node_taints.zone(node(**east, other="x"))
    assert node_taints.zone(node(**east)) != node_taints.zone(
        node(**{**east, "topology.kubernetes.io/region": "w"})
    )
