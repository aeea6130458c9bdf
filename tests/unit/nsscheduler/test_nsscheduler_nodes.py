"""What a super cluster that was taken out of the pool leaves in tenants goes; a silent one's stays."""

import asyncio
import json
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, ListPage, parse
from vcsync.kube.errors import Conflict, Forbidden, NotFound, ServerError, Status, Unauthorized
from vcsync.kube.resources import NODES, Resource
from vcsync.nsscheduler import nodes
from vcsync.nsscheduler.leadership import REMAINS, Leadership
from vcsync.nsscheduler.nodes import clear_nodes
from vcsync.nsscheduler.settings import Settings


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


def pool(*ids: str) -> Api:
    return Api(SUPER_CLUSTERS, *map(super_cluster, ids))


async def test_the_virtual_nodes_of_a_removed_super_cluster_go(tenant: Api) -> None:
    assert await clear_nodes(tenant, pool("x", "z"), {"x", "z"}) == ["a.y", "b.y"]
    assert sorted(tenant.objects) == ["a.x", "a.z", "b.x", "b.z"]
    assert tenant.asked == ["list", "delete a.y uid of a.y", "delete b.y uid of b.y"]
    assert tenant.selector == "tenancy.x-k8s.io/virtualnode=true"


async def test_however_many_a_tenant_labels_few_are_taken_away_at_once(
    tenant: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "MOST_AT_ONCE", 3)
    looks = [await clear_nodes(tenant, pool("x"), {"x"}) for _ in range(3)]
    assert looks == [["a.y", "a.z", "b.y"], ["b.z"], []]


async def test_what_the_meta_cluster_still_has_stays_whatever_is_known_here(tenant: Api) -> None:
    assert await clear_nodes(tenant, pool("x", "y", "z"), set()) == []
    assert tenant.asked == ["list"]


async def test_the_meta_cluster_is_not_asked_if_nothing_is_unknown(tenant: Api) -> None:
    meta = pool()
    assert await clear_nodes(tenant, meta, {"x", "y", "z"}) == []
    assert not meta.asked


@pytest.mark.parametrize("error", [ServerError(Status(503)), NotFound(Status(404))])
async def test_while_the_meta_cluster_cannot_tell_nothing_goes(tenant: Api, error: Exception) -> None:
    """Not even if it knows the kind no longer."""
    meta = pool()
    meta.error = error
    with pytest.raises(type(error)):
        await clear_nodes(tenant, meta, {"x"})
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
async def test_what_is_no_virtual_node_of_ours_or_goes_already_is_left(node: Envelope) -> None:
    tenant = Api(NODES, node)
    assert await clear_nodes(tenant, pool(), set()) == []
    assert tenant.asked == ["list"]


@pytest.mark.parametrize("error", [NotFound(Status(404)), Conflict(Status(409))])
async def test_a_node_that_is_gone_or_another_by_now_holds_up_nothing(error: Exception) -> None:
    class Behind(Api):
        async def delete(self, resource: Resource, name: str, *_: Any, **__: Any) -> None:
            if name == "a.y":
                raise error
            await super().delete(resource, name)

    tenant = Behind(NODES, virtual_node("a.y", "y"), virtual_node("b.y", "y"))
    assert await clear_nodes(tenant, pool(), set()) == ["b.y"]


# While the scheduler leads


class Stage:
    """A scheduler that leads, with one tenant."""

    def __init__(self, meta: Api, tenant: Api) -> None:
        self.refused = 0
        self.leader = Leadership(meta, Settings())
        handle = SimpleNamespace(key="acme", client=tenant, refused=self._refused)
        self.leader.tenants["acme"] = SimpleNamespace(handle=handle)  # type: ignore[assignment]
        for found in meta.objects.values():
            self.leader.pool.observe(Change(None, found))

    def _refused(self) -> None:
        self.refused += 1

    def waits(self) -> bool:
        return self.leader.work.queue.depth("acme") > 0

    async def work(self) -> float | None:
        return await self.leader._handle("acme", REMAINS)

    def removed(self, meta: Api, super_id: str) -> None:
        self.leader.pool.observe(Change(meta.objects.pop(super_id), None))


async def test_a_removal_is_noticed_and_carried_out_in_every_tenant(tenant: Api) -> None:
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


async def test_one_that_is_only_lost_or_cordoned_changes_nothing(tenant: Api) -> None:
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


async def test_it_looks_again_until_nothing_is_left(tenant: Api) -> None:
    """A syncer that still runs may have made one anew."""
    stage = Stage(pool("x", "y"), tenant)
    again = await stage.work()
    assert again is not None
    assert again > 0
    assert await stage.work() is None


async def test_a_tenant_that_grants_it_not_is_left_as_it_is(tenant: Api) -> None:
    tenant.error = Forbidden(Status(403))
    assert await Stage(pool(), tenant).work() is None


async def test_credentials_that_are_refused_are_read_again(tenant: Api) -> None:
    tenant.error = Unauthorized(Status(401), endpoint="acme")
    stage = Stage(pool(), tenant)
    with pytest.raises(Unauthorized):
        await stage.work()
    assert stage.refused == 1
