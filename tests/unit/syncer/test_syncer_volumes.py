"""The syncer as a whole with claims: their way down, their volumes' way up, restarts, and published classes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from memory_cluster import until
from test_syncer_whole import KEY, PLACE, Stage

from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.kube.errors import ServerError, Status
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)

UID = "uid-of-claim"
VOLUME = names.volume_name(UID)


class Shop(Stage):
    """A stage whose super cluster publishes class `fast`."""

    def __init__(self) -> None:
        super().__init__()
        self.publish("fast")

    def publish(self, name: str) -> None:
        metadata = {"labels": {names.SUPER_PUBLIC: names.TRUE}}
        self.below.put(STORAGE_CLASSES, name, metadata=metadata, provisioner="csi.example.com")

    def claim(self, label: str = "r1", **fields: Any) -> None:
        metadata = {"uid": UID, "labels": {names.SUPER_CLUSTER: label} if label else {}}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            **fields,
        }
        self.tenant.put(
            PERSISTENT_VOLUME_CLAIMS,
            "data",
            "shop",
            metadata=metadata,
            spec=spec,
            status={"phase": "Pending"},
        )

    def copy(self) -> dict[str, Any] | None:
        return self.here(PERSISTENT_VOLUME_CLAIMS, "data")

    def volume(self) -> dict[str, Any] | None:
        return self.tenant.found(PERSISTENT_VOLUMES, VOLUME)

    def provision(self, size: str = "1Gi") -> None:
        found = self.copy()
        assert found is not None
        status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}}
        self.below.put(PERSISTENT_VOLUME_CLAIMS, "data", PLACE, **{**found, "status": status})

    def bind(self) -> None:
        """Act as the tenant's binder."""
        claim, volume = self.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop"), self.volume()
        assert claim is not None
        assert volume is not None
        status = {"phase": "Bound", "capacity": volume["spec"]["capacity"]}
        spec = {**claim["spec"], "volumeName": VOLUME}
        self.tenant.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", **{**claim, "spec": spec, "status": status})
        self.tenant.put(PERSISTENT_VOLUMES, VOLUME, **{**volume, "status": {"phase": "Bound"}})


async def test_a_claim_goes_down_its_volume_comes_up_and_both_end() -> None:
    stage = Shop()
    stage.claim()
    stage.pod("db", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    async with stage.running():
        await until(stage.copy)
        await until(lambda: stage.here(PODS, "db"))
        assert stage.volume() is None
        stage.provision()
        volume = await until(stage.volume)
        assert volume["metadata"]["labels"] == {names.SUPER_CLUSTER_ID: "r1"}
        stage.bind()
        stage.tenant.remove(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
        await until(lambda: stage.copy() is None)
        assert stage.volume() is not None
        stage.tenant.put(PERSISTENT_VOLUMES, VOLUME, **{**volume, "status": {"phase": "Released"}})
        await until(lambda: stage.volume() is None)


async def test_a_syncer_that_ended_at_any_line_is_followed_by_one_that_continues() -> None:
    stage = Shop()
    stage.claim()
    async with stage.running():
        await until(stage.copy)
    stage.provision()
    async with stage.running():
        await until(stage.volume)
    stage.bind()
    uid = (stage.copy() or {})["metadata"]["uid"]
    async with stage.running() as syncer:
        await until(lambda: syncer.status()["superCluster"] == "r1" and syncer.ready()[0])
    assert (stage.copy() or {})["metadata"]["uid"] == uid
    stage.tenant.remove(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
    released = {**(stage.volume() or {}), "status": {"phase": "Released"}}
    stage.tenant.put(PERSISTENT_VOLUMES, VOLUME, **released)
    async with stage.running():
        await until(lambda: stage.copy() is None and stage.volume() is None)


async def test_a_claim_waits_for_its_class_and_begins_when_it_is_published() -> None:
    stage = Shop()
    stage.claim(storageClassName="slow")
    async with stage.running() as syncer:
        await until(lambda: "StorageClass slow" in str(list(syncer.status()["tenants"])))
        assert stage.copy() is None
        stage.publish("slow")
        await until(stage.copy)


async def test_the_published_classes_are_in_the_status_of_the_super_cluster() -> None:
    stage = Shop()
    stage.below.put(STORAGE_CLASSES, "private", provisioner="csi.example.com")

    def classes() -> list[str]:
        found = stage.meta.found(SUPER_CLUSTERS, "r1") or {}
        return [each["name"] for each in found["status"].get("storageClasses", ())]

    async with stage.running():
        await until(lambda: classes() == ["fast"])


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_lost_placement_keeps_volumes_until_the_tenant_deletes_the_claim(deleted: bool) -> None:
    """Without a ResourceQuota the namespace even loses its entry in the ledger."""
    stage = Shop()
    stage.claim()
    async with stage.running() as syncer:
        await until(stage.copy)
        stage.provision()
        await until(stage.volume)
        stage.bind()
        if deleted:
            stage.grant({}, deletionTimestamp="2026-05-01T12:00:00Z")
        else:
            stage.grant({"r2": 1})
        await until(lambda: "data would be lost" in str(syncer.status()["drains"]))
        assert stage.copy() is not None
        stage.tenant.remove(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
        await until(lambda: stage.copy() is None)
    async with stage.running():
        await until(lambda: stage.here(NAMESPACES, names.super_namespace(KEY, "shop"), "") is None)


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_tenant_that_is_not_connected_keeps_its_data_while_it_is_registered(leaves: bool) -> None:
    stage = Shop()
    stage.claim()
    async with stage.running():
        await until(stage.copy)
    stage.provision()
    stage.tenant.before = refused
    if leaves:
        stage.meta.remove(VIRTUAL_CLUSTERS, "acme", "vcsync")
    stage.grant({"r2": 1})
    async with stage.running() as syncer:
        if leaves:
            await until(lambda: stage.here(NAMESPACES, PLACE, "") is None)
        else:
            await until(lambda: "data would be lost" in str(syncer.status()["drains"]))
            assert stage.here(NAMESPACES, PLACE, "") is not None


async def test_a_deleted_namespace_takes_its_volumes_with_it() -> None:
    stage = Shop()
    stage.claim()
    async with stage.running():
        await until(stage.copy)
        stage.provision()
        await until(stage.volume)
        stage.tenant.remove(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
        stage.tenant.remove(NAMESPACES, "shop")
        stage.grant({}, deletionTimestamp="2026-05-01T12:00:00Z")
        await until(lambda: stage.here(NAMESPACES, PLACE, "") is None)


def refused(_verb: str, _plural: str, _name: str) -> None:
    raise ServerError(Status(500, "InternalError", "no"), endpoint="tenant")


def test_claims_do_not_wait_longer_than_their_volumes_take_to_be_read(in_virtual_time: Any) -> None:
    """Volumes are not among the caches that a session waits for."""

    async def main() -> None:
        stage = Shop()
        stage.claim()
        slow = [ServerError(Status(500, "InternalError", "no"), endpoint="tenant")] * 2

        def before(verb: str, plural: str, _: str) -> None:
            if (verb, plural) == ("list", "persistentvolumes") and slow:
                raise slow.pop()

        stage.tenant.before = before
        async with stage.running():
            await asyncio.sleep(30)
            assert stage.copy() is not None

    in_virtual_time(main())
