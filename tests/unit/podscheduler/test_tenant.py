import json
from typing import Any

import pytest

from vcsync.api.names import SUPER_CLUSTER
from vcsync.kube.cache import Cache
from vcsync.kube.envelope import Envelope, parse
from vcsync.kube.errors import Conflict, NotFound, ServerError, Status
from vcsync.kube.patches import merge_patch
from vcsync.podscheduler.pods import Pod, slim
from vcsync.podscheduler.tenant import PodDoor, TenantPods
from vcsync.scheduling.snapshot import Health, SuperView

NS = "shop"
SIZE = {"cpu": 100, "memory": 100 * 1024 * 1024 * 1000}


class Tenant:
    """A tenant's Pods in memory, watched by the scheduler under test; `settle` works its queue off."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.views = {super_id: SuperView(super_id, Health.READY, {}) for super_id in ("r1", "r2")}
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.events: list[tuple[str, str]] = []
        self.fail: list[Exception] = []
        self.queue: list[tuple[tuple[str, str], bool]] = []
        self.cache = Cache()
        self.version = 0
        self.now = 0.0
        self.later: list[tuple[tuple[str, str], float]] = []
        door = PodDoor(self.patch, self.patch_status, self.gone, self.emit)
        self.pods = TenantPods(door, lambda: self.views, self.add, self.add_after, lambda: self.now)

    # The API server

    def create(self, name: str, cpu: str = "50m", **fields: Any) -> None:
        metadata = {"name": name, "namespace": NS, "uid": f"uid-{name}", "labels": fields.pop("labels", {})}
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        self.store(name, {"metadata": metadata, "spec": {"containers": [container], **fields}})

    def store(self, name: str, body: dict[str, Any]) -> Envelope:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[name] = body
        envelope = parse(json.dumps(body).encode())
        self.observe(envelope)
        return envelope

    def delete(self, name: str) -> None:
        del self.objects[name]
        self.gone(NS, name, f"uid-{name}")

    def observe(self, envelope: Envelope) -> None:
        change = self.cache.observe(slim(envelope))
        if change is not None:
            self.pods.observe(change)

    # What the scheduler gets

    def add(self, item: tuple[str, str], urgent: bool) -> None:
        if (item, urgent) not in self.queue:
            self.queue.append((item, urgent))

    def add_after(self, item: tuple[str, str], delay: float) -> None:
        self.later.append((item, self.now + delay))

    async def patch(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self.patches.append((name, patch))
        if self.fail:
            raise self.fail.pop()
        if name not in self.objects:
            raise NotFound(Status(404))
        present = self.objects[name]["metadata"]
        if patch["metadata"]["resourceVersion"] != present["resourceVersion"]:
            raise Conflict(Status(409))
        self.store(name, merge_patch(self.objects[name], patch))

    async def patch_status(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self.patches.append((name, patch))
        if self.fail:
            raise self.fail.pop()
        if name not in self.objects:
            raise NotFound(Status(404))
        self.store(name, self.objects[name] | {"status": patch["status"]})

    def gone(self, namespace: str, name: str, uid: str) -> None:
        change = self.cache.observe_gone(namespace, name, uid)
        if change is not None:
            self.pods.observe(change)

    def emit(self, pod: Pod, message: str) -> None:
        self.events.append((pod.name, message))

    # What tests do

    async def settle(self) -> None:
        for _ in range(100):
            if not self.queue:
                return
            key, _ = self.queue.pop(0)
            if key[1]:
                await self.pods.schedule(key)
            else:
                self.pods.wake(key[0])
        raise AssertionError("it does not settle")

    async def pass_time(self) -> None:
        for item, due in self.later:
            self.now = max(self.now, due)
            self.add(item, False)
        self.later.clear()
        await self.settle()

    def home(self, name: str) -> str:
        metadata = self.objects[name]["metadata"]
        label = metadata["labels"].get(SUPER_CLUSTER, "")
        assert metadata.get("annotations", {}).get(SUPER_CLUSTER, "") == label
        return label


@pytest.fixture
def tenant() -> Tenant:
    made = Tenant()
    made.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    made.pods.begin()
    return made


async def test_a_new_pod_costs_one_patch_and_no_event(tenant):
    tenant.create("p")
    assert tenant.queue == [((NS, "p"), True)]
    await tenant.settle()
    assert tenant.home("p") == "r1"
    assert len(tenant.patches) == 1
    assert tenant.events == []


async def test_nothing_is_decided_before_all_pods_are_counted():
    tenant = Tenant()
    tenant.create("new", "100m")
    tenant.create("old", "100m", labels={SUPER_CLUSTER: "r1"})
    tenant.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    assert tenant.queue == []
    tenant.pods.begin()
    await tenant.settle()
    assert tenant.home("new") == "r2"


async def test_a_pod_that_does_not_fit_is_told_once_and_tried_when_something_is_freed(tenant):
    for name in ("a", "b", "c"):
        tenant.create(name, "100m")
    await tenant.settle()
    assert (tenant.home("a"), tenant.home("b"), tenant.home("c")) == ("r1", "r2", "")
    assert [name for name, _ in tenant.events] == ["c"]
    [condition] = tenant.objects["c"]["status"]["conditions"]
    assert condition["message"] == "r1: cpu 100m asked, 0 of 100m free; r2: cpu 100m asked, 0 of 100m free"
    done = len(tenant.patches)
    tenant.store("c", tenant.objects["c"])  # anything happens to it
    await tenant.settle()
    assert len(tenant.patches) == done
    tenant.delete("b")
    await tenant.settle()
    assert tenant.home("c") == "r2"


async def test_after_a_restart_nobody_is_told_the_same_again(tenant):
    tenant.create("large", "150m")
    await tenant.settle()
    again = Tenant()
    again.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    again.store("large", tenant.objects["large"])
    again.pods.begin()
    await again.settle()
    assert (again.patches, again.events) == ([], [])
    again.pods.grant(NS, SIZE, {"r1": 2, "r2": 1})
    await again.settle()
    assert again.home("large") == "r1"


async def test_a_pod_made_with_its_namespace_is_told_nothing_while_slices_are_being_dealt():
    tenant = Tenant()
    tenant.pods.begin()
    tenant.create("p")
    await tenant.settle()
    assert (tenant.patches, tenant.events) == ([], [])
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    await tenant.settle()
    await tenant.pass_time()
    assert tenant.home("p") == "r1"
    assert (len(tenant.patches), tenant.events) == (1, [])


async def test_a_pod_without_slices_that_could_not_be_told_is_told_the_next_time():
    tenant = Tenant()
    tenant.pods.begin()
    tenant.create("p")
    await tenant.settle()
    tenant.fail = [ServerError(Status(500))]
    with pytest.raises(ServerError):
        await tenant.pass_time()
    await tenant.pods.schedule((NS, "p"))
    await tenant.pods.schedule((NS, "p"))
    assert [name for name, _ in tenant.events] == ["p"]


async def test_pods_wait_for_slices_and_move_with_them(tenant):
    tenant.pods.grant(NS, {}, {})
    tenant.create("p")
    await tenant.settle()
    await tenant.pass_time()
    assert tenant.home("p") == ""
    assert "needs a ResourceQuota" in tenant.events[0][1]
    tenant.pods.grant(NS, SIZE, {"r2": 1})
    await tenant.settle()
    assert tenant.home("p") == "r2"
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    await tenant.settle()
    assert tenant.home("p") == "r1"


async def test_a_pod_that_waits_is_no_super_clusters(tenant):
    tenant.create("p", "150m", labels={SUPER_CLUSTER: "r1"})
    tenant.pods.grant(NS, SIZE, {"r2": 1})  # where it was put has lost its slices, and the other has no room
    await tenant.settle()
    metadata = tenant.objects["p"]["metadata"]
    assert (metadata["labels"], metadata.get("annotations", {})) == ({}, {})
    assert [message for _, message in tenant.events] == ["r2: cpu 150m asked, 100m of 100m free"]
    patches = len(tenant.patches)
    tenant.pods.grant(NS, SIZE, {"r2": 2})
    await tenant.settle()
    assert tenant.home("p") == "r2"
    assert len(tenant.patches) == patches + 1


async def test_pods_wait_for_a_super_cluster_to_come_back(tenant):
    for super_id in ("r1", "r2"):
        tenant.views[super_id] = SuperView(super_id, Health.LOST, {})
    tenant.create("p")
    await tenant.settle()
    assert tenant.events == [("p", "r1: is lost; r2: is lost")]
    tenant.views["r2"] = SuperView("r2", Health.READY, {})
    tenant.pods.pool_changed()
    await tenant.settle()
    assert tenant.home("p") == "r2"


@pytest.mark.parametrize("error", [Conflict(Status(409)), ServerError(Status(500))])
async def test_a_failed_write_gives_the_share_back_and_the_pod_is_tried_again(tenant, error):
    tenant.create("p", "100m")
    tenant.fail = [error]
    with pytest.raises(type(error)):
        await tenant.settle()
    assert tenant.pods.book.share(NS, "r1").used["cpu"] == 0
    await tenant.pods.schedule((NS, "p"))  # as the work queue does after its backoff
    assert tenant.home("p") == "r1"


async def test_a_pod_that_could_not_be_told_is_told_the_next_time(tenant):
    tenant.create("p", "150m")
    tenant.fail = [ServerError(Status(500))]
    with pytest.raises(ServerError):
        await tenant.settle()
    assert tenant.events == []
    await tenant.pods.schedule((NS, "p"))
    assert [name for name, _ in tenant.events] == ["p"]


async def test_a_pod_deleted_meanwhile_is_forgotten(tenant):
    tenant.create("p", "100m")
    del tenant.objects["p"]
    await tenant.settle()
    assert tenant.pods.book.pods == {}
    assert tenant.pods.book.share(NS, "r1").used["cpu"] == 0


async def test_a_tampered_label_of_a_bound_pod_is_put_right(tenant):
    tenant.create("p", labels={SUPER_CLUSTER: "r2"}, nodeName="node.r1")
    await tenant.settle()
    assert tenant.home("p") == "r1"


async def test_a_gated_pod_is_left_alone_until_its_gates_open(tenant):
    tenant.create("p", schedulingGates=[{"name": "wait"}])
    await tenant.settle()
    assert (tenant.patches, tenant.home("p")) == ([], "")
    tenant.create("p")
    await tenant.settle()
    assert tenant.home("p") == "r1"


async def test_a_namesake_of_a_waiting_pod_is_told_itself_though_nobody_saw_the_other_go(tenant):
    tenant.create("web-0", "150m")
    await tenant.settle()
    anew = tenant.objects["web-0"]
    anew["metadata"]["uid"] = "another"
    del anew["status"]
    tenant.store("web-0", anew)
    await tenant.settle()
    assert "150m asked" in tenant.objects["web-0"]["status"]["conditions"][0]["message"]
    assert [name for name, _ in tenant.events] == ["web-0", "web-0"]
