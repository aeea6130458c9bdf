"""Virtual nodes of a removed super cluster are deleted; those of a silent one are kept."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Self

import pytest

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, Forbidden, NotFound, ServerError, Status, Unauthorized
from vcsync.kube.resources import NODES, Resource
from vcsync.nsscheduler import nodes
from vcsync.nsscheduler.leadership import REMAINS, Leadership
from vcsync.nsscheduler.nodes import clear_nodes
from vcsync.nsscheduler.settings import Settings
from vcsync.objects.envelope import Envelope, ListPage, parse


class Api(Client):
    """A control plane with objects of one kind; `error` is what it answers next, `asked` what it was asked."""

    def __init__(self, resource: Resource, *objects: Envelope) -> None:
        self.name = "acme"
        self.resource = resource
        self.objects = {each.name: each for each in objects}
        self.asked: list[str] = []
        self.selector = ""
        self.error: Exception | None = None

    def metadata_only(self) -> Self:
        return self

    async def list(self, resource: Resource, *_: Any, label_selector: str = "", **__: Any) -> list[Envelope]:
        assert resource == self.resource
        self.asked.append("list")
        self.selector = label_selector
        if self.error:
            raise self.error
        return list(self.objects.values())

    async def pages(self, resource: Resource, *_: Any, **how: Any) -> AsyncGenerator[ListPage, None]:
        for each in await self.list(resource, **how):
            yield ListPage([each], "1", "", None)

    async def delete(self, resource: Resource, name: str, *_: Any, uid: str | None = None, **__: Any) -> None:
        assert resource == self.resource
        self.asked.append(f"delete {name} {uid}")
        if self.error:
            raise self.error
        self.objects.pop(name)


def virtual_node(name: str, super_id: str, **fields: Any) -> Envelope:
    labels = {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: super_id}
    return Envelope(name, "", f"uid of {name}", "1", labels=labels, **fields)


def super_cluster(super_id: str) -> Envelope:
    body = {"metadata": {"name": super_id, "resourceVersion": "1"}, "spec": {"id": super_id}}
    return parse(json.dumps(body).encode())


@pytest.fixture
def tenant() -> Api:
    return Api(
        NODES, *[virtual_node(f"{node}.{super_id}", super_id) for node in ("a", "b") for super_id in "xyz"]
    )


async def passes(_super_id: str, _node: str, _count: object) -> None:
    """Let every node go."""


def pool(*ids: str) -> Api:
    return Api(SUPER_CLUSTERS, *map(super_cluster, ids))


async def test_the_virtual_nodes_of_a_removed_super_cluster_are_deleted(tenant: Api) -> None:
    assert await clear_nodes(tenant, pool("x", "z"), {"x", "z"}, passes) == ["a.y", "b.y"]
    assert sorted(tenant.objects) == ["a.x", "a.z", "b.x", "b.z"]
    assert tenant.asked == ["list", "delete a.y uid of a.y", "delete b.y uid of b.y"]
    assert tenant.selector == "tenancy.x-k8s.io/virtualnode=true"


async def test_the_number_of_nodes_deleted_in_one_check_is_limited(
    tenant: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "MAX_NODES", 3)
    looks = [await clear_nodes(tenant, pool("x"), {"x"}, passes) for _ in range(3)]
    assert looks == [["a.y", "a.z", "b.y"], ["b.z"], []]


async def test_nodes_of_a_super_cluster_in_the_meta_cluster_are_kept(tenant: Api) -> None:
    assert await clear_nodes(tenant, pool("x", "y", "z"), set(), passes) == []
    assert tenant.asked == ["list"]


async def test_the_meta_cluster_is_not_asked_if_nothing_is_unknown(tenant: Api) -> None:
    meta = pool()
    assert await clear_nodes(tenant, meta, {"x", "y", "z"}, passes) == []
    assert not meta.asked


@pytest.mark.parametrize("error", [ServerError(Status(503)), NotFound(Status(404))])
async def test_nothing_is_deleted_while_the_meta_cluster_does_not_answer(
    tenant: Api, error: Exception
) -> None:
    """Not even if it knows the kind no longer."""
    meta = pool()
    meta.error = error
    with pytest.raises(type(error)):
        await clear_nodes(tenant, meta, {"x"}, passes)
    assert tenant.asked == ["list"]


@pytest.mark.parametrize(
    "node",
    [
        virtual_node("a.x", "y"),
        virtual_node("own", "y"),
        virtual_node("own", ""),
        virtual_node("a.y", "y", deletion_timestamp="2026-01-01T00:00:00Z"),
    ],
)
async def test_other_nodes_and_nodes_being_deleted_are_kept(node: Envelope) -> None:
    tenant = Api(NODES, node)
    assert await clear_nodes(tenant, pool(), set(), passes) == []
    assert tenant.asked == ["list"]


@pytest.mark.parametrize("error", [NotFound(Status(404)), Conflict(Status(409))])
async def test_a_node_that_is_gone_or_was_replaced_is_skipped(error: Exception) -> None:
    class Behind(Api):
        async def delete(self, resource: Resource, name: str, *_: Any, **__: Any) -> None:
            if name == "a.y":
                raise error
            await super().delete(resource, name)

    tenant = Behind(NODES, virtual_node("a.y", "y"), virtual_node("b.y", "y"))
    assert await clear_nodes(tenant, pool(), set(), passes) == ["b.y"]


# While the scheduler leads


class Stage:
    """A scheduler that leads, with one tenant."""

    def __init__(self, meta: Api, tenant: Api) -> None:
        self.refused = 0
        self.leader = Leadership(meta, Settings())
        self.virtual_cluster = VirtualCluster(name="acme", namespace="vcsync")
        handle = SimpleNamespace(
            key="acme", client=tenant, refused=self._refused, virtual_cluster=self.virtual_cluster
        )
        self.leader.tenants["acme"] = SimpleNamespace(handle=handle)  # type: ignore[assignment]
        for found in meta.objects.values():
            self.leader.pool.observe(Change(None, found))

    def _refused(self) -> None:
        self.refused += 1

    def waits(self) -> bool:
        return self.leader.work.queue.depth("acme") > 0

    async def work(self) -> float | None:
        return await self.leader._handle("acme", REMAINS)

    def removed(self, meta: Api, *super_ids: str, reported: bool = True) -> None:
        """Take super clusters out of the pool, or lose them."""
        for super_id in super_ids:
            self.leader.pool.observe(Change(meta.objects.pop(super_id), None, reported))


async def test_a_removed_super_cluster_is_cleared_in_every_tenant(tenant: Api) -> None:
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    assert not stage.waits()
    stage.removed(meta, "y")
    assert stage.waits()
    running = asyncio.create_task(stage.leader.work.run())
    async with asyncio.timeout(60):
        while len(tenant.objects) > 4:
            await asyncio.sleep(0)
    running.cancel()
    assert sorted(tenant.objects) == ["a.x", "a.z", "b.x", "b.z"]


async def test_a_lost_or_cordoned_super_cluster_keeps_its_nodes(tenant: Api) -> None:
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    silent = {
        "metadata": {"name": "y", "resourceVersion": "2"},
        "spec": {"id": "y", "cordoned": True, "drain": True},
        "status": {"heartbeatTime": "2020-01-01T00:00:00Z"},
    }
    stage.leader.pool.observe(Change(meta.objects["y"], parse(json.dumps(silent).encode())))
    assert not stage.waits()
    assert await stage.work() is None
    assert len(tenant.objects) == 6


async def test_nodes_are_checked_again_until_none_is_left(tenant: Api) -> None:
    """A syncer that still runs may have made one anew."""
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    stage.removed(meta, "z")
    again = await stage.work()
    assert again is not None
    assert again > 0
    assert await stage.work() is None


async def test_a_tenant_that_forbids_the_deletion_keeps_its_nodes(tenant: Api) -> None:
    tenant.error = Forbidden(Status(403))
    assert await Stage(pool(), tenant).work() is None


async def test_credentials_that_are_refused_are_read_again(tenant: Api) -> None:
    tenant.error = Unauthorized(Status(401), endpoint="acme")
    stage = Stage(pool(), tenant)
    with pytest.raises(Unauthorized):
        await stage.work()
    assert stage.refused == 1


@pytest.mark.parametrize("lost", [["x"], ["x", "y", "z"]])
async def test_nodes_of_missing_super_clusters_are_kept(tenant: Api, lost: list[str]) -> None:
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    stage.removed(meta, *lost, reported=False)
    assert await stage.work() is not None
    assert len(tenant.objects) == 6
    (brake,) = stage.leader.limiter.braked.values()
    assert (brake.tenant, brake.wanted, brake.of) == ("acme", 2 * len(lost), 6)


async def test_an_operators_release_permits_the_removal(tenant: Api) -> None:
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    stage.removed(meta, "x", reported=False)
    await stage.work()
    stage.virtual_cluster.annotations[names.BRAKE_RELEASED] = datetime.now(UTC).isoformat()
    await stage.work()
    assert sorted(tenant.objects) == ["a.y", "a.z", "b.y", "b.z"]


async def test_the_brake_is_released_when_the_super_clusters_are_back(tenant: Api) -> None:
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    found = meta.objects["x"]
    stage.removed(meta, "x", reported=False)
    await stage.work()
    meta.objects["x"] = found
    stage.leader.pool.observe(Change(None, found))
    assert await stage.work() is None
    assert not stage.leader.limiter.braked


async def test_few_nodes_of_many_are_deleted(tenant: Api) -> None:
    tenant.objects |= {f"{number}.y": virtual_node(f"{number}.y", "y") for number in range(10)}
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    stage.removed(meta, "x", reported=False)
    await stage.work()
    assert not [name for name in tenant.objects if name.endswith(".x")]


async def test_a_drained_super_cluster_that_is_missing_was_removed_by_its_operator(tenant: Api) -> None:
    meta = pool("x", "y", "z")
    stage = Stage(meta, tenant)
    drained = {"metadata": {"name": "x", "resourceVersion": "2"}, "spec": {"id": "x", "drain": True}}
    stage.leader.pool.observe(Change(meta.objects["x"], parse(json.dumps(drained).encode())))
    stage.removed(meta, "x", reported=False)
    await stage.work()
    assert not [name for name in tenant.objects if name.endswith(".x")]
