"""The life of a virtual node: created with the first Pod, kept while Pods need it, and removed afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from engine_paper import PaperApi, PaperReflector
from test_engine_virtual_nodes import CONTEXT, NODE

from vcsync.api import names
from vcsync.kube.errors import Conflict, Status, Unauthorized
from vcsync.kube.resources import LEASES, NODES
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.syncer.kinds.node import readiness
from vcsync.syncer.nodes import LEASE_NAMESPACE, NameTaken, NodeNotReady, Pace, VirtualNodes

NAME = "n1.r1"
NOW = "2026-05-01T12:00:00Z"
LINGER = 60.0

InVirtualTime = Callable[[Coroutine[Any, Any, None]], None]


class ContainerRun:
    """A tenant that is shown node n1 of super cluster r1, where `pods` of its Pods stand and `bound` of them are bound."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.tenant = PaperApi("tenant")
        self.shown = PaperReflector()
        self.below: dict[str, Envelope] = {"n1": parse(encode(NODE))}
        self.pods = 0
        self.bound = False
        self.nodes = VirtualNodes(
            client=self.tenant,  # type: ignore[arg-type]
            tenant="acme",
            super_id="r1",
            reflector=self.shown,  # type: ignore[arg-type]
            super_node=self.below.get,
            pods_on=lambda node: self.pods if node == "n1" else 0,
            bound=self._bound,
            clock=clock,
        )

    async def _bound(self, node: str) -> bool:
        return self.bound and node == NAME

    @property
    def stands(self) -> bool:
        return self.tenant.has(NODES, NAME)

    def node(self) -> Envelope:
        found = self.shown.cache.get("", NAME)
        assert found is not None
        return found


@pytest.fixture
async def life() -> ContainerRun:
    return ContainerRun()


async def lived(then: Callable[[ContainerRun], Awaitable[None]]) -> None:
    """Let node n1 be shown and beat every ten seconds while something happens."""
    life = ContainerRun(asyncio.get_running_loop().time)
    await life.nodes.ensure("n1", CONTEXT)
    beating = asyncio.create_task(life.nodes.beat(lambda: Pace(10.0, LINGER)))
    await then(life)
    beating.cancel()
    await asyncio.wait((beating,))


def test_an_empty_node_is_removed_after_a_delay(in_virtual_time: InVirtualTime) -> None:
    async def wait(life: ContainerRun) -> None:
        await asyncio.sleep(LINGER - 1)
        assert life.stands, "the next Pod may come there at once"
        await asyncio.sleep(11)
        assert not life.stands
        assert life.nodes.shown() == []

    in_virtual_time(lived(wait))


@pytest.mark.parametrize("where", ["pods", "bound"])
def test_a_node_with_pods_is_kept(in_virtual_time: InVirtualTime, where: str) -> None:
    """Be they in the super cluster only, or in the tenant only."""

    async def wait(life: ContainerRun) -> None:
        setattr(life, where, 1)
        await asyncio.sleep(10 * LINGER)
        assert life.stands
        setattr(life, where, 0)
        await asyncio.sleep(LINGER + 11)
        assert not life.stands

    in_virtual_time(lived(wait))


def test_a_pod_restarts_the_delay(in_virtual_time: InVirtualTime) -> None:
    async def wait(life: ContainerRun) -> None:
        await asyncio.sleep(LINGER - 15)
        life.pods = 1
        await asyncio.sleep(11)
        life.pods = 0
        await asyncio.sleep(LINGER - 11)
        assert life.stands
        await asyncio.sleep(22)
        assert not life.stands

    in_virtual_time(lived(wait))


def test_a_pod_that_is_about_to_be_bound_restarts_the_delay(in_virtual_time: InVirtualTime) -> None:
    async def wait(life: ContainerRun) -> None:
        await asyncio.sleep(LINGER - 2)
        await life.nodes.ensure("n1", CONTEXT)
        await asyncio.sleep(LINGER - 1)
        assert life.stands
        await asyncio.sleep(11)
        assert not life.stands

    in_virtual_time(lived(wait))


def test_an_empty_node_that_left_the_super_cluster_is_removed_immediately(
    in_virtual_time: InVirtualTime,
) -> None:
    async def wait(life: ContainerRun) -> None:
        del life.below["n1"]
        await asyncio.sleep(11)
        assert not life.stands

    in_virtual_time(lived(wait))


def test_only_the_node_with_the_cached_uid_is_deleted(in_virtual_time: InVirtualTime) -> None:
    async def wait(life: ContainerRun) -> None:
        life.tenant.put(NODES, {"metadata": {"name": NAME, "uid": "of_another"}})
        await asyncio.sleep(LINGER + 11)
        assert life.stands

    in_virtual_time(lived(wait))


def test_a_node_that_is_being_deleted_is_created_again(in_virtual_time: InVirtualTime) -> None:
    async def wait(life: ContainerRun) -> None:
        first = life.node().uid
        asked = asyncio.Event()
        delete = life.tenant.delete

        async def slow_delete(*what: Any, **how: Any) -> Any:
            asked.set()
            await asyncio.sleep(5)
            return await delete(*what, **how)

        life.tenant.delete = slow_delete  # type: ignore[method-assign]
        await asked.wait()
        await life.nodes.ensure("n1", CONTEXT)
        assert life.stands
        assert life.node().uid != first

    in_virtual_time(lived(wait))


async def test_concurrent_requests_create_a_node_once(life: ContainerRun) -> None:
    await asyncio.gather(*(life.nodes.ensure("n1", CONTEXT) for _ in range(3)))
    assert [call for call in life.tenant.writes() if call[:2] == ("create", "nodes")] == [
        ("create", "nodes", "", NAME)
    ]
    assert life.nodes.shown() == ["n1"]
    assert life.nodes.shows("n1")
    assert not life.nodes.shows("n2")


async def test_an_unknown_node_gets_no_virtual_node(life: ContainerRun) -> None:
    with pytest.raises(NodeNotReady, match="node n2 of super cluster r1 is not known yet"):
        await life.nodes.ensure("n2", CONTEXT)
    assert life.tenant.writes() == []


@pytest.mark.parametrize("labels", [{}, {names.SUPER_CLUSTER_ID: "r2"}])
async def test_a_foreign_node_is_not_adopted(life: ContainerRun, labels: dict[str, str]) -> None:
    life.tenant.put(NODES, {"metadata": {"name": NAME, "labels": labels}})
    with pytest.raises(NameTaken):
        await life.nodes.ensure("n1", CONTEXT)
    assert life.nodes.shown() == []
    assert not life.tenant.has(LEASES, NAME, LEASE_NAMESPACE)


async def test_a_node_that_exists_already_is_used(life: ContainerRun) -> None:
    standing = life.tenant.put(NODES, {"metadata": {"name": NAME, "labels": {names.SUPER_CLUSTER_ID: "r1"}}})
    await life.nodes.ensure("n1", CONTEXT)
    assert life.node().uid == standing.uid


async def test_a_node_with_pods_is_created_again_after_the_tenant_deletes_it(life: ContainerRun) -> None:
    await life.nodes.refresh("n1", CONTEXT, NOW)
    assert not life.stands, "no Pod stands there"
    life.pods = 1
    await life.nodes.refresh("n1", CONTEXT, NOW)
    assert life.stands
    del life.below["n1"]
    node = life.node()
    await life.tenant.delete(NODES, NAME)
    life.shown.observe_gone("", NAME, node.uid)
    await life.nodes.refresh("n1", CONTEXT, NOW)
    assert not life.stands, "it has left the super cluster, too"


async def test_a_virtual_node_with_pods_shows_that_its_node_was_removed(life: ContainerRun) -> None:
    await life.nodes.ensure("n1", CONTEXT)
    del life.below["n1"]
    await life.nodes.refresh("n1", CONTEXT, NOW)
    assert readiness(life.node()) == "Unknown"
    before = life.tenant.writes()
    await life.nodes.refresh("n1", CONTEXT, NOW)
    assert life.tenant.writes() == before


async def test_only_differences_of_a_node_are_written(life: ContainerRun) -> None:
    await life.nodes.ensure("n1", CONTEXT)
    life.below["n1"] = parse(
        encode(
            {
                "metadata": {"name": "n1", "labels": {"kubernetes.io/arch": "arm64"}},
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
    )
    await life.nodes.refresh("n1", CONTEXT, NOW)
    assert readiness(life.node()) == "True"
    assert life.node().labels["kubernetes.io/arch"] == "arm64"
    assert b"unschedulable" in life.node().spec
    before = life.tenant.writes()
    await life.nodes.refresh("n1", CONTEXT, NOW)
    assert life.tenant.writes() == before


async def test_a_change_is_written_with_the_uid_of_the_node(life: ContainerRun) -> None:
    await life.nodes.ensure("n1", CONTEXT)
    life.tenant.put(NODES, {"metadata": {"name": NAME, "uid": "of_another"}})
    del life.below["n1"]
    with pytest.raises(Conflict):
        await life.nodes.refresh("n1", CONTEXT, NOW)


def test_a_node_whose_renewal_is_refused_does_not_end_the_beat(in_virtual_time: InVirtualTime) -> None:
    async def wait(life: ContainerRun) -> None:
        life.pods = 1
        life.tenant.failures["patch leases"] = Unauthorized(Status(401), endpoint="tenant")
        await asyncio.sleep(25)
        del life.tenant.failures["patch leases"]
        before = life.tenant.writes().count(("patch", "leases", LEASE_NAMESPACE, NAME))
        await asyncio.sleep(25)
        assert life.tenant.writes().count(("patch", "leases", LEASE_NAMESPACE, NAME)) > before

    in_virtual_time(lived(wait))
