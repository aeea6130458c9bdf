"""Two syncers of one network exchange endpoints; no tenant's control plane takes part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memory_cluster import MemoryCluster, until

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.kube.cache import Change
from vcsync.kube.errors import Forbidden, ServerError, Status
from vcsync.kube.resources import CONFIG_MAPS, ENDPOINT_SLICES, NAMESPACES, SERVICES
from vcsync.syncer import endpoint_exchange as exchange
from vcsync.syncer import shared_slices as slices
from vcsync.syncer.kinds.endpointslice import MANAGED_BY, SERVICE_NAME
from vcsync.syncer.service import Syncer, SyncerSettings
from vcsync.tenancy.health import Patience

KEY = "root-acme"
PLACE = names.super_namespace(KEY, "shop")


class World:
    """Super clusters r1 and r2 of one network; namespace `shop` of tenant acme has slices on both."""

    def __init__(self) -> None:
        self.meta = MemoryCluster("meta")
        self.supers = {super_id: MemoryCluster(super_id) for super_id in ("r1", "r2")}
        for super_id, cluster in self.supers.items():
            self.member(super_id)
            cluster.put(
                CONFIG_MAPS,
                names.SUPER_CLUSTER_INFO,
                names.SUPER_CLUSTER_INFO_NAMESPACE,
                data={names.SUPER_CLUSTER_INFO_KEY: super_id},
            )
            cluster.put(NAMESPACES, PLACE, metadata=self._copied())
            self.service(super_id)
        self.place({"r1": 1, "r2": 1})

    def member(self, super_id: str, network: str = "frankfurt", *, silent_seconds: float = 0.0) -> None:
        beat = (datetime.now(UTC) - timedelta(seconds=silent_seconds)).isoformat()
        spec = {"id": super_id, "networkId": network}
        status: dict[str, Any] = {"heartbeatTime": beat}
        if silent_seconds:  # as an earlier scheduler has seen
            status["failure"] = {"state": "Suspect", "since": beat, "outOfTouchTime": beat}
        self.meta.put(SUPER_CLUSTERS, super_id, spec=spec, status=status)

    def place(self, placements: dict[str, int]) -> None:
        size = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        self.meta.put(
            NAMESPACE_PLACEMENTS,
            "shop",
            KEY,
            metadata={"finalizers": [names.drain_finalizer(each) for each in self.supers]},
            spec={
                "virtualCluster": {"name": "acme", "namespace": "vcsync", "uid": "uid-acme"},
                "tenant": KEY,
                "namespace": "shop",
                "namespaceUID": "uid-shop",
                "quota": {"cpu": "1"},
                "sliceSize": size,
                "slices": 1,
            },
            status={"placements": placements, "sliceSize": size},
        )

    def _copied(self) -> dict[str, Any]:
        return {
            "labels": {names.CONTROLLED: names.TRUE},
            "annotations": {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: "uid-web"},
        }

    def service(self, super_id: str, **spec: Any) -> None:
        spec = {"selector": {"app": "web"}, **spec}
        self.supers[super_id].put(SERVICES, "web", PLACE, metadata=self._copied(), spec=spec)

    def pods(
        self, super_id: str, *addresses: str, name: str = "web-1", managed_by: str = "", family: str = "IPv4"
    ) -> None:
        """Have the controller of a super cluster write the slice of a Service."""
        labels = {
            names.CONTROLLED: names.TRUE,
            SERVICE_NAME: "web",
            MANAGED_BY: managed_by or slices.CONTROLLER,
        }
        conditions = {"ready": True, "serving": True, "terminating": False}
        self.supers[super_id].put(
            ENDPOINT_SLICES,
            name,
            PLACE,
            metadata={"labels": labels},
            addressType=family,
            endpoints=[
                {"addresses": [each], "conditions": conditions, "nodeName": "n1"} for each in addresses
            ],
            ports=[{"port": 80}],
        )

    def remote(self, super_id: str) -> dict[str, list[str]]:
        """Return the addresses of other super clusters that a super cluster has, by slice."""
        found = self.supers[super_id].all(ENDPOINT_SLICES)
        return {
            each["metadata"]["name"]: [one["addresses"][0] for one in each["endpoints"]]
            for each in found
            if each["metadata"]["labels"][MANAGED_BY] == names.REMOTE_ENDPOINTS
        }

    def shared(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.meta.all(ENDPOINT_SLICES)}

    @asynccontextmanager
    async def running(self, *super_ids: str, patience: Patience | None = None) -> AsyncIterator[list[Syncer]]:
        syncers = [
            Syncer(
                meta=self.meta,  # type: ignore[arg-type]
                super_client=self.supers[each],  # type: ignore[arg-type]
                super_id=each,
                settings=SyncerSettings(identity="me", patience=patience or Patience()),
            )
            for each in super_ids or self.supers
        ]
        tasks = [asyncio.create_task(each.run()) for each in syncers]
        try:
            yield syncers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks), [task.exception() for task in tasks]


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(exchange, "WRITE_SECONDS", 0.01)
    return World()


async def test_pods_are_reached_from_the_other_super_cluster_and_follow_its_slice(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1") == {"web-1.r2": ["10.2.0.5"]})
        assert world.remote("r2") == {}, "its own Pods have the slices of its own controller"
        world.pods("r2", "10.2.0.5", "10.2.0.6")
        await until(lambda: world.remote("r1") == {"web-1.r2": ["10.2.0.5", "10.2.0.6"]})
        world.pods("r2")
        await until(lambda: world.remote("r1") == {} and world.shared() == set())


async def test_each_address_family_has_a_slice_of_its_own(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    world.pods("r2", "fd00:2::5", name="web-6", family="IPv6")
    async with world.running():
        await until(lambda: len(world.remote("r1")) == 2)
        types = {
            each["endpoints"][0]["addresses"][0]: each["addressType"]
            for each in world.supers["r1"].all(ENDPOINT_SLICES)
        }
        assert types == {"10.2.0.5": "IPv4", "fd00:2::5": "IPv6"}


async def test_a_settled_network_makes_no_write(world: World) -> None:
    world.pods("r1", "10.1.0.5")
    world.pods("r2", "10.2.0.5")
    async with world.running() as syncers:
        await until(lambda: world.remote("r1") and world.remote("r2"))
        wrote: list[tuple[str, str]] = []
        for cluster in (world.meta, *world.supers.values()):
            cluster.after = lambda verb, plural, _: wrote.append((verb, plural))
        for syncer in syncers:
            syncer._exchange._enqueue_all()
        world.supers["r1"].put(
            SERVICES, "last", PLACE, metadata=world._copied(), spec={"selector": {"a": "b"}}
        )
        await asyncio.sleep(0.1)
        assert [each for each in wrote if each[1] == "endpointslices"] == []


@pytest.mark.parametrize("writer", [names.GROUP, "endpointslicemirroring-controller.k8s.io", "hand"])
async def test_only_what_the_controller_of_a_super_cluster_wrote_is_shared(world: World, writer: str) -> None:
    world.pods("r2", "192.0.2.66", name="forged", managed_by=writer)
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
        assert world.shared() == {f"web-1.{PLACE}.r2"}


async def test_a_namespace_on_one_super_cluster_shares_nothing(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
        world.place({"r2": 1})
        await until(lambda: world.shared() == set())
        await until(lambda: world.remote("r1") == {})


async def test_without_a_network_nothing_is_shared_and_an_earlier_one_is_left(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
        world.member("r2", "")
        await until(lambda: world.shared() == set() and world.remote("r1") == {})
        world.member("r2", "paris")
        world.member("r1", "paris")
        await until(lambda: world.remote("r1") == {"web-1.r2": ["10.2.0.5"]})


async def test_what_was_left_while_no_syncer_ran_is_removed(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
    world.member("r1", "")
    world.member("r2", "")
    async with world.running():
        await until(lambda: world.shared() == set() and world.remote("r1") == {})


async def test_the_endpoints_of_a_lost_super_cluster_are_withdrawn_and_return_with_it(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
    world.member("r2", silent_seconds=1000)
    async with world.running("r1"):
        await until(lambda: world.remote("r1") == {})
        assert world.shared(), "its own syncer withdraws them, if it is only late"
        world.member("r2")
        await until(lambda: world.remote("r1") == {"web-1.r2": ["10.2.0.5"]})


async def test_a_removed_super_cluster_has_no_endpoints_elsewhere(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
    async with world.running("r1"):
        world.meta.remove(SUPER_CLUSTERS, "r2")
        await until(lambda: world.remote("r1") == {})


async def test_a_syncer_whose_super_cluster_is_removed_withdraws_what_it_shared(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
        world.meta.remove(SUPER_CLUSTERS, "r2")
        await until(lambda: world.shared() == set() and world.remote("r1") == {})
        world.pods("r2", "10.2.0.6")
        await asyncio.sleep(0.05)
        assert world.shared() == set()


async def test_a_syncer_whose_super_cluster_is_missing_from_a_list_goes_on(world: World) -> None:
    world.pods("r1", "10.1.0.5")
    world.pods("r2", "10.2.0.5")
    async with world.running() as [_, r2]:
        await until(lambda: world.remote("r1") and world.remote("r2"))
        pool = r2._super_clusters
        [missing] = [each for each in pool.reflector.cache.items() if each.name == "r2"]
        pool.observe(Change(missing, None, reported=False))
        world.pods("r2", "10.2.0.6")
        await until(lambda: world.remote("r1") == {"web-1.r2": ["10.2.0.6"]})
        assert world.remote("r2")


async def test_a_service_without_selector_gets_no_endpoints_of_others(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
        world.service("r1", selector=None)
        await until(lambda: world.remote("r1") == {})
        world.service("r1")
        await until(lambda: world.remote("r1") == {"web-1.r2": ["10.2.0.5"]})


async def test_a_change_in_the_super_cluster_is_repaired(world: World) -> None:
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))
        world.supers["r1"].remove(ENDPOINT_SLICES, "web-1.r2", PLACE)
        await until(lambda: world.remote("r1") == {"web-1.r2": ["10.2.0.5"]})


async def test_a_namespace_shares_a_bounded_number_of_slices(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "MOST_SLICES", 2)
    for number in range(4):
        world.pods("r2", f"10.2.0.{number}", name=f"web-{number}")
    async with world.running():
        await until(lambda: set(world.remote("r1")) == {"web-0.r2", "web-1.r2"})


async def test_a_failure_is_tried_again(world: World) -> None:
    failures = iter(range(2))

    def fail(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("create", "endpointslices") and next(failures, None) is not None:
            raise ServerError(Status(500, "InternalError", "no"), endpoint="meta")

    world.meta.before = fail
    world.pods("r2", "10.2.0.5")
    async with world.running():
        await until(lambda: world.remote("r1"))


async def test_a_syncer_with_roles_of_an_earlier_version_works_without_network(world: World) -> None:
    def refuse(_: str, plural: str, __: str) -> None:
        if plural == "endpointslices":
            raise Forbidden(Status(403, "Forbidden", "no"), endpoint="meta")

    world.meta.before = refuse
    world.member("r1", "")
    async with world.running("r1") as [syncer]:
        await until(lambda: syncer.ready()[0])
        assert syncer.status()["sharedEndpoints"] == {
            "network": None,
            "connected": False,
            "neighbours": [],
            "sharedSlices": 0,
        }
