"""Terminating namespaces: emptied, Pods first, with conditions about the remaining objects, then finalized."""

from typing import Any

import msgspec
import pytest
from controllers_world import Shelf, World
from msgspec.structs import replace

from vcsync.controllers.framework.mirror import placed
from vcsync.controllers.framework.plan import Controller
from vcsync.controllers.framework.worker import ReconcileContext
from vcsync.controllers.namespace.conditions import Remains, conditions
from vcsync.controllers.namespace.namespace_controller import NAMESPACE, NotEmptied
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.errors import Forbidden, NotFound, ServerError, Status
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, Resource
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.merge_patch import merge_patch

NOW = "2026-01-01T00:00:00Z"
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)
VERBS = ["create", "delete", "deletecollection", "get", "list", "watch"]


def discovered(resource: Resource, verbs: list[str]) -> dict[str, Any]:
    return {
        "resource": resource.plural,
        "responseKind": {"kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "verbs": verbs,
    }


class Server:
    """A tenant's API as the controller uses it; deleted objects with finalizers or a grace period stay."""

    name = "acme"

    def __init__(self, world: World, *, verbs: list[str] = VERBS) -> None:
        self.world = world
        self.resources = [PODS, CONFIG_MAPS, WIDGETS, NAMESPACES]
        self.verbs = verbs
        self.stale = False
        self.deleted: list[str] = []
        self.refuse: dict[str, Exception] = {}

    def metadata_only(self) -> "Server":
        return self

    async def request(self, verb: str, path: str, *, accept: str) -> bytes:
        assert (verb, "APIGroupDiscoveryList" in accept) == ("GET", True)
        if path in self.refuse:
            raise self.refuse[path]
        core = path == "/api"
        groups: dict[str, list[Resource]] = {}
        for each in self.resources:
            if (each.group == "") == core:
                groups.setdefault(each.group, []).append(each)
        items = [
            {
                "metadata": {"name": group},
                "versions": [
                    {
                        "version": "v1",
                        "freshness": "Stale" if self.stale and group else "Current",
                        "resources": [discovered(each, self.verbs) for each in found],
                    }
                ],
            }
            for group, found in groups.items()
        ]
        return msgspec.json.encode({"items": items})

    async def get(self, resource: Resource, name: str) -> Envelope:
        try:
            return parse(encode(self.world.body(resource, name)))
        except KeyError:
            raise NotFound(Status(404)) from None

    async def list(
        self, resource: Resource, namespace: str, limit: int = 500, most_pages: int | None = None
    ) -> list[Envelope]:
        if resource.plural in self.refuse:
            raise self.refuse[resource.plural]
        shelf = self.world.shelves.setdefault(resource, Shelf())
        return list(shelf.within("acme", namespace))[:limit]

    async def delete_collection(self, resource: Resource, namespace: str) -> None:
        for each in await self.list(resource, namespace):
            await self.delete(resource, each.name, namespace)

    async def delete(self, resource: Resource, name: str, namespace: str, **_: Any) -> None:
        self.deleted.append(f"{resource.plural}/{name}")
        body = self.world.body(resource, name, namespace)
        if not body["metadata"].get("finalizers") and "stays" not in body:
            self.world.remove(resource, name, namespace)

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str
    ) -> Envelope:
        assert (subresource, patch["metadata"]["uid"]) == (
            "status",
            self.world.body(resource, name)["metadata"]["uid"],
        )
        body = merge_patch(self.world.body(resource, name), {"status": patch["status"]})
        self.world.shelves[resource].bodies["", name] = body
        return await self.get(resource, name)

    async def replace(self, resource: Resource, name: str, body: dict[str, Any], *, subresource: str) -> None:
        assert subresource == "finalize"
        assert body["metadata"]["resourceVersion"]
        if body["spec"]["finalizers"]:
            self.world.shelves[resource].bodies["", name] = body
        else:
            self.world.remove(resource, name)


@pytest.fixture
def world() -> World:
    made = World([Controller("reads", NAMESPACE.watches, lambda *_: None)])  # type: ignore[arg-type]
    body = {
        "metadata": {"name": "shop", "deletionTimestamp": NOW},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Terminating"},
    }
    made.put(NAMESPACES, body)
    return made


async def work(world: World, server: Server, noted: list[tuple[Any, ...]] | None = None) -> float | None:
    timeline: list[tuple[Any, ...]] = [] if noted is None else noted
    context = ReconcileContext(world.view(), server, note=lambda *each: timeline.append(each))  # type: ignore[arg-type]
    return await NAMESPACE.work(context, world.key("", "shop"))


def condition(world: World, type_: str) -> tuple[str, str, str]:
    found = world.body(NAMESPACES, "shop")["status"]["conditions"]
    [mine] = [each for each in found if each["type"] == type_]
    return mine["status"], mine["reason"], mine["message"]


def put(world: World, resource: Resource, name: str, **fields: Any) -> None:
    metadata = {"name": name, **fields.pop("metadata", {})}
    world.put(resource, {"metadata": metadata, **fields}, "shop")


async def test_a_namespace_is_emptied_of_every_kind_and_finalized(world: World) -> None:
    put(world, CONFIG_MAPS, "one")
    put(world, WIDGETS, "two")
    world.put(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}})
    server = Server(world)
    noted: list[tuple[Any, ...]] = []
    assert await work(world, server, noted) is None
    assert set(server.deleted) == {"configmaps/one", "widgets/two"}
    shop = ObjectName("namespaces", "", "shop")
    assert set(noted) == {(shop, f"deleted all {each} in it", "") for each in ("configmaps", "widgets")}
    assert world.bodies(NAMESPACES) == []
    assert [each["metadata"]["name"] for each in world.bodies(CONFIG_MAPS)] == ["elsewhere"]


async def test_pods_are_deleted_first_with_their_grace_period(world: World) -> None:
    put(world, PODS, "web", spec={"terminationGracePeriodSeconds": 30}, stays=True)
    put(world, CONFIG_MAPS, "one")
    server = Server(world)
    assert await work(world, server) == 16
    assert server.deleted == ["pods/web"]
    assert condition(world, "NamespaceDeletionContentFailure")[0] == "False"
    assert condition(world, "NamespaceContentRemaining") == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: pods. has 1 resource instances",
    )
    world.remove(PODS, "web", "shop")
    assert await work(world, server) is None
    assert world.bodies(NAMESPACES) == []


async def test_pods_beyond_their_grace_period_are_an_error_and_delay_other_objects(world: World) -> None:
    put(world, PODS, "web", spec={"terminationGracePeriodSeconds": 30}, stays=True)
    put(world, CONFIG_MAPS, "one")
    world.pass_time(31)
    server = Server(world)
    with pytest.raises(NotEmptied):
        await work(world, server)
    status, reason, message = condition(world, "NamespaceDeletionContentFailure")
    assert (status, reason) == ("True", "ContentDeletionFailed")
    assert message.endswith("unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods")
    assert server.deleted == ["pods/web"]


async def test_objects_with_finalizers_delay_the_namespace(world: World) -> None:
    for name in ("one", "two"):
        put(world, CONFIG_MAPS, name, metadata={"finalizers": ["example.com/hold"]})
    assert await work(world, Server(world)) == 8.5
    assert condition(world, "NamespaceFinalizersRemaining") == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances",
    )
    assert condition(world, "NamespaceContentRemaining")[2].endswith("configmaps. has 2 resource instances")


async def test_resources_without_deletecollection_are_deleted_one_by_one(world: World) -> None:
    put(world, WIDGETS, "one")
    put(world, WIDGETS, "two")
    await work(world, Server(world, verbs=["delete", "list"]))
    assert world.bodies(WIDGETS) == []


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_a_failed_discovery_keeps_the_finalizer(world: World, path: str) -> None:
    put(world, CONFIG_MAPS, "one")
    server = Server(world)
    server.refuse[path] = ServerError(Status(503, message="no"))
    with pytest.raises(NotEmptied):
        await work(world, server)
    assert condition(world, "NamespaceDeletionDiscoveryFailure")[:2] == ("True", "DiscoveryFailed")
    assert world.bodies(NAMESPACES)


async def test_unknown_groups_keep_the_finalizer(world: World) -> None:
    put(world, CONFIG_MAPS, "one")
    server = Server(world)
    server.stale = True
    with pytest.raises(NotEmptied):
        await work(world, server)
    assert world.bodies(CONFIG_MAPS) == []
    assert condition(world, "NamespaceDeletionDiscoveryFailure")[2].startswith(
        "Discovery failed for some groups, 1 failing: "
    )


async def test_a_failing_resource_does_not_delay_others(world: World) -> None:
    put(world, CONFIG_MAPS, "one")
    put(world, WIDGETS, "two")
    server = Server(world)
    server.refuse["widgets"] = Forbidden(Status(403, message="no"))
    with pytest.raises(NotEmptied):
        await work(world, server)
    assert world.bodies(CONFIG_MAPS) == []
    assert condition(world, "NamespaceDeletionContentFailure")[1] == "ContentDeletionFailed"


async def test_other_finalizers_are_kept(world: World) -> None:
    world.change(NAMESPACES, "shop", {"spec": {"finalizers": ["example.com/mine", "kubernetes"]}})
    await work(world, Server(world))
    assert world.body(NAMESPACES, "shop")["spec"]["finalizers"] == ["example.com/mine"]


async def test_an_active_namespace_is_not_changed(world: World) -> None:
    world.change(NAMESPACES, "shop", {"metadata": {"deletionTimestamp": None}})
    put(world, CONFIG_MAPS, "one")
    server = Server(world)
    assert await work(world, server) is None
    assert server.deleted == []


def test_the_deletion_of_the_last_pod_queues_its_namespace(world: World) -> None:
    pod = placed(Envelope("web", "shop", "u"), "acme")
    keys = NAMESPACE.watches[1].keys
    assert list(keys(Change(pod, None), world.view())) == [world.key("", "shop")]
    assert list(keys(Change(pod, pod), world.view())) == []
    put(world, PODS, "another")
    assert list(keys(Change(pod, None), world.view())) == []


def test_conditions_keep_their_transition_time_while_their_status_stays() -> None:
    before = conditions((Condition("Other", "True"),), Remains(counts={"pods.": 1}), "then")
    after = conditions(before, Remains(counts={"pods.": 2}), "now")
    assert [each.type for each in after] == [each.type for each in before]
    assert after[0] == Condition("Other", "True")
    [left] = [each for each in after if each.type == "NamespaceContentRemaining"]
    assert (left.last_transition_time, left.message[-30:]) == ("then", "pods. has 2 resource instances")
    assert conditions(after, Remains(counts={"pods.": 2}), "later") == after
    fine = {each.type: each for each in conditions(after, Remains(), "later")}
    assert fine["NamespaceContentRemaining"] == replace(
        left,
        status="False",
        reason="ContentRemoved",
        message="All content successfully removed",
        last_transition_time="later",
    )
