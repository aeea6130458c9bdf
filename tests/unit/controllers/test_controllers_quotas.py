"""ResourceQuotas: usage is recounted and written with the version that was read."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from controllers_world import Shelf, World

from vcsync.controllers.framework.mirror import placed
from vcsync.controllers.framework.plan import Controller
from vcsync.controllers.framework.worker import ReconcileContext
from vcsync.controllers.resourcequota.resourcequota_controller import AT_ONCE, RESOURCE_QUOTA, gathered
from vcsync.kube.cache import Change
from vcsync.kube.errors import Conflict, NotFound, Status
from vcsync.kube.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Resource,
)
from vcsync.objects.envelope import Envelope, ListPage, encode, parse
from vcsync.objects.merge_patch import merge_patch

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


class Server:
    """A tenant's API as the controller uses it; `before_write` may change objects once, before the write."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.listed: list[str] = []
        self.written: list[dict[str, Any]] = []
        self.before_write: list[dict[str, Any]] = []
        self.largest = 0

    def metadata_only(self) -> "Server":
        return self

    async def request(self, _verb: str, path: str, **_: Any) -> bytes:
        found = {
            "resource": "widgets",
            "responseKind": {"kind": "Widget"},
            "scope": "Namespaced",
            "verbs": ["list"],
        }
        group = {"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": [found]}]}
        return msgspec.json.encode({"items": [group] if path == "/apis" else []})

    async def get(self, resource: Resource, name: str, namespace: str) -> Envelope:
        try:
            return parse(encode(self.world.body(resource, name, namespace)))
        except KeyError:
            raise NotFound(Status(404)) from None

    async def pages(
        self, resource: Resource, namespace: str, *, limit: int
    ) -> AsyncGenerator[ListPage, None]:
        self.listed.append(resource.plural)
        bodies = self.world.shelves.setdefault(resource, Shelf()).bodies
        found = [parse(encode(body)) for (where, _), body in bodies.items() if where == namespace]
        for start in range(0, max(len(found), 1), limit):
            self.largest = max(self.largest, len(found[start : start + limit]))
            yield ListPage(found[start : start + limit], "1", "", None)

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], namespace: str, *, subresource: str
    ) -> None:
        if self.before_write:
            self.world.change(resource, name, self.before_write.pop())
        there = self.world.body(resource, name, namespace)
        if patch["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise Conflict(Status(409))
        assert subresource == "status"
        self.written.append(patch["status"])
        self.world.put(resource, merge_patch(there, {"status": patch["status"]}), namespace)


@pytest.fixture
def world() -> World:
    return World([Controller("reads", RESOURCE_QUOTA.watches, lambda *_: None)])  # type: ignore[arg-type]


def quota(world: World, spec: dict[str, Any], **status: Any) -> None:
    world.put(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": spec, "status": status})


def pod(name: str, cpu: str = "", **fields: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    spec = {"containers": [{"name": "c", "resources": resources}], **fields.pop("spec", {})}
    return {"metadata": {"name": name}, "spec": spec, **fields}


async def work(world: World, server: Server | None = None) -> Server:
    server = server or Server(world)
    await RESOURCE_QUOTA.work(ReconcileContext(world.view(), server), world.key("default", "q"))  # type: ignore[arg-type]
    return server


def status(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.body(RESOURCE_QUOTAS, "q")["status"]
    return found


async def test_a_new_quota_gets_limits_and_usage(world: World) -> None:
    hard = {"pods": "4", "requests.cpu": "1", "configmaps": "3", "count/widgets.example.com": "2"}
    quota(world, {"hard": hard})
    world.put(PODS, pod("a", "100m"))
    world.put(PODS, pod("b", "0.2"))
    world.put(PODS, pod("done", "1", status={"phase": "Succeeded"}))
    world.put(CONFIG_MAPS, {"metadata": {"name": "m"}}, "elsewhere")
    world.put(WIDGETS, {"metadata": {"name": "w"}})
    await work(world)
    used = {"pods": "2", "requests.cpu": "300m", "configmaps": "0", "count/widgets.example.com": "1"}
    assert status(world) == {"hard": hard, "used": used}


async def test_an_unchanged_usage_is_not_written(world: World) -> None:
    quota(
        world, {"hard": {"requests.cpu": "1"}}, hard={"requests.cpu": "1000m"}, used={"requests.cpu": "500m"}
    )
    world.put(PODS, pod("a", "0.5"))
    assert (await work(world)).written == []


async def test_only_limited_resources_are_listed(world: World) -> None:
    quota(world, {"hard": {"secrets": "1"}})
    assert (await work(world)).listed == [SECRETS.plural]


async def test_usage_without_limit_is_removed_and_uncountable_usage_kept(world: World) -> None:
    hard = {"pods": "1", "example.com/unknown": "5"}
    quota(
        world,
        {"hard": hard},
        hard={"pods": "1", "secrets": "2"},
        used={"secrets": "1", "example.com/unknown": "3"},
    )
    await work(world)
    assert status(world) == {"hard": hard, "used": {"pods": "0", "example.com/unknown": "3"}}


@pytest.mark.parametrize(
    ("spec", "used"),
    [
        ({"scopes": ["BestEffort"]}, "1"),
        ({"scopes": ["NotBestEffort"]}, "2"),
        ({"scopes": ["Terminating"]}, "1"),
        ({"scopes": ["Terminating", "BestEffort"]}, "0"),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
            "0",
        ),
    ],
)
async def test_scopes_choose_what_counts(world: World, spec: dict[str, Any], used: str) -> None:
    quota(world, {"hard": {"pods": "9"}, **spec})
    world.put(PODS, pod("easy"))
    world.put(PODS, pod("busy", "1"))
    world.put(PODS, pod("short", "1", spec={"activeDeadlineSeconds": 5}))
    await work(world)
    assert status(world)["used"] == {"pods": used}


async def test_objects_admitted_during_the_count_are_counted(world: World) -> None:
    quota(world, {"hard": {"pods": "9"}})
    world.put(PODS, pod("a"))
    server = Server(world)
    server.before_write = [{"status": {"used": {"pods": "7"}}}]
    await work(world, server)
    assert status(world)["used"] == {"pods": "1"}
    assert server.listed == ["pods", "pods"]


async def test_a_deleted_quota_is_not_an_error(world: World) -> None:
    await work(world)


def wakes(world: World, resource: Resource, old: dict[str, Any] | None, new: dict[str, Any] | None) -> bool:
    [watch] = [each for each in RESOURCE_QUOTA.watches if each.resource == resource]

    def envelope(body: dict[str, Any] | None) -> Envelope | None:
        if body is None:
            return None
        metadata = {"namespace": "default", **body["metadata"]}
        return placed(parse(encode({**body, "metadata": metadata})), "acme")

    keys = list(watch.keys(Change(envelope(old), envelope(new)), world.view()))
    assert set(keys) <= {world.key("default", "q")}
    return bool(keys)


def test_quotas_are_recounted_when_usage_may_decrease(world: World) -> None:
    quota(world, {"hard": {"pods": "9", "services.loadbalancers": "1"}})
    balanced = {"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer"}}
    assert wakes(world, PODS, pod("a"), None)
    assert wakes(world, PODS, pod("a"), pod("a", status={"phase": "Failed"}))
    assert wakes(world, SERVICES, balanced, {"metadata": {"name": "s"}, "spec": {}})
    assert not wakes(world, PODS, None, pod("a"))
    assert not wakes(world, PODS, pod("a"), pod("a", status={"phase": "Running"}))
    assert not wakes(world, PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "c"}}, None)


def test_a_binding_queues_a_quota_only_if_the_pods_usage_changes(world: World) -> None:
    quota(world, {"hard": {"pods": "9", "cpu": "2"}})
    bound = {"nodeName": "n"}
    assert not wakes(world, PODS, pod("a", "100m"), pod("a", "100m", spec=bound))
    assert not wakes(world, PODS, pod("a", "100m"), pod("a", "100m", spec=bound, status={"phase": "Running"}))
    assert wakes(world, PODS, pod("a", "100m"), pod("a", "50m", spec=bound))
    assert wakes(world, PODS, pod("a", "100m"), pod("a", "100m", spec=bound, status={"phase": "Succeeded"}))


def test_changed_limits_queue_the_quota(world: World) -> None:
    one = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    other = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    assert wakes(world, RESOURCE_QUOTAS, None, one)
    assert wakes(world, RESOURCE_QUOTAS, one, other)
    assert not wakes(world, RESOURCE_QUOTAS, one, {**one, "status": {"used": {"pods": "1"}}})
    assert not wakes(world, RESOURCE_QUOTAS, one, None)


def test_a_change_of_scope_recounts_both_quotas(world: World) -> None:
    quota(world, {"hard": {"pods": "9"}, "scopes": ["NotTerminating"]})
    assert wakes(world, PODS, pod("a"), pod("a", spec={"activeDeadlineSeconds": 5}))
    assert not wakes(world, PODS, pod("a"), pod("a", spec={"nodeName": "n"}))


async def test_counting_thousands_yields_to_the_event_loop(world: World) -> None:
    """Before, a namespace of 2,000 Pods was counted in one step, which delayed all tenants by 40 ms."""
    quota(world, {"hard": {"pods": "900"}})
    for number in range(3 * AT_ONCE):
        world.put(PODS, pod(f"p{number}"))
    server = await work(world)
    assert status(world)["used"] == {"pods": str(3 * AT_ONCE)}
    assert server.largest == AT_ONCE


@pytest.mark.parametrize(
    ("used", "seconds"),
    [
        ({}, 0.0),
        ({"cpu": "50", "memory": "4Gi"}, 0.0),
        ({"count/widgets.example.com": "2k"}, 2.0),
        ({"secrets": "1M"}, 10.0),
        ({"secrets": "9" * 1000}, 0.0),
    ],
)
def test_collection_time_grows_with_the_counted_objects(
    world: World, used: dict[str, str], seconds: float
) -> None:
    """Before, each Pod that ended caused a recount of thousands of Pods."""
    quota(world, {"hard": {"pods": "900"}}, used=used)
    waits = [gathered(world.view(), world.key("default", "q"))]
    for number in range(2):
        world.put(PODS, pod(f"p{number}"))
        waits.append(gathered(world.view(), world.key("default", "q")))
    assert waits == [pytest.approx(max(seconds, number / 1000)) for number in range(3)]
