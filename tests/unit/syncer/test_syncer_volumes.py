"""The syncer as a whole with claims: their way down, their volumes' way up, restarts, and published classes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from memory_cluster import until
from test_syncer_whole import KEY, PLACE, Stage

from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.kube.errors import NotFound, ServerError, Status
from vcsync.kube.resources import (
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
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


class Failing(Shop):
    """A stage whose provisioner fails, and whose class is given up at once."""

    def fail(self) -> None:
        found = self.copy()
        assert found is not None
        about = {key: found["metadata"][key] for key in ("name", "namespace", "uid")}
        self.below.put(
            EVENTS,
            f"data.{about['uid']}",
            PLACE,
            involvedObject={"apiVersion": "v1", "kind": "PersistentVolumeClaim", **about},
            type="Warning",
            reason="ProvisioningFailed",
            message="/srv/disks has no space left",
        )

    def publish(self, name: str) -> None:
        metadata = {
            "labels": {names.SUPER_PUBLIC: names.TRUE},
            "annotations": {names.PROVISIONING_SECONDS: "0"},
        }
        self.below.put(STORAGE_CLASSES, name, metadata=metadata, provisioner="csi.example.com")

    def metadata(self) -> dict[str, Any]:
        found = self.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
        assert found is not None
        return found["metadata"]

    def is_given_back(self) -> bool:
        return names.SUPER_CLUSTER not in self.metadata()["labels"]


async def test_a_claim_that_cannot_be_provisioned_is_given_back() -> None:
    stage = Failing()
    stage.claim()
    async with stage.running() as syncer:
        await until(stage.copy)
        stage.fail()
        await until(stage.is_given_back)
        assert stage.copy() is None
        assert stage.metadata()["annotations"] == {
            f"{names.PROVISIONING_PREFIX}r1": '{"returns":1,"reason":"ProvisioningFailed"}'
        }
        await until(lambda: "GivenBack" in str(stage.tenant.all(EVENTS)))
        assert "/srv/disks" not in str(stage.tenant.all(EVENTS))
        assert not syncer.status()["drift"]["repairs"]


@pytest.mark.parametrize("step", range(6))
async def test_a_claim_is_given_back_though_the_syncer_ends_at_any_write(step: int) -> None:
    stage = Failing()
    stage.claim()
    writes = 0

    def before(verb: str, plural: str, _: str) -> None:
        nonlocal writes
        if plural == "persistentvolumeclaims" and verb in {"create", "patch", "delete", "get"}:
            writes += 1
            if writes == step:
                raise ServerError(Status(500, "InternalError", "cut"), endpoint="tenant")

    stage.tenant.before = stage.below.before = before

    def fails_again() -> bool:
        if stage.copy() is not None:
            stage.fail()
        return stage.is_given_back()

    async with stage.running():
        await until(lambda: fails_again() or writes >= step > 0)
    async with stage.running():
        await until(fails_again)
        assert stage.copy() is None


async def test_a_volume_that_comes_while_the_claim_is_given_back_is_kept() -> None:
    stage = Failing()
    stage.claim()

    def before(verb: str, plural: str, _: str) -> None:
        found = stage.copy()
        if (verb, plural) == ("delete", "persistentvolumeclaims") and found is not None:
            stage.below.before = lambda *_: None
            stage.provision()

    stage.below.before = before
    async with stage.running():
        await until(stage.copy)
        stage.fail()
        await until(stage.volume)
        stage.bind()
        await until(lambda: stage.below.before is not before)
    assert stage.copy() is not None
    assert not stage.is_given_back()


async def test_a_copy_that_is_still_used_keeps_the_claim() -> None:
    stage = Failing()
    stage.claim()
    async with stage.running():
        found = await until(stage.copy)
        found["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
        stage.below.put(PERSISTENT_VOLUME_CLAIMS, "data", PLACE, **found)
        stage.fail()
        await until(lambda: (stage.copy() or {})["metadata"].get("deletionTimestamp"))
        assert not stage.is_given_back()
        stage.below.remove(PERSISTENT_VOLUME_CLAIMS, "data", PLACE)
        await until(stage.is_given_back)


async def test_a_claim_without_volume_leaves_as_soon_as_its_class_is_no_longer_published() -> None:
    stage = Failing()
    stage.claim()
    async with stage.running():
        await until(stage.copy)
        stage.below.remove(STORAGE_CLASSES, "fast")
        await until(stage.is_given_back)
        assert stage.copy() is None
        assert not stage.metadata().get("annotations")


async def test_a_clone_waits_for_the_copy_of_its_source() -> None:
    stage = Shop()
    stage.publish("fast")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
        "dataSource": {"kind": "PersistentVolumeClaim", "name": "data"},
    }
    metadata = {"uid": "uid-of-clone", "labels": {names.SUPER_CLUSTER: "r1"}}
    stage.tenant.put(PERSISTENT_VOLUME_CLAIMS, "clone", "shop", metadata=metadata, spec=spec)
    async with stage.running() as syncer:
        await until(lambda: "of which it is a clone" in str(list(syncer.status()["tenants"])))
        assert stage.here(PERSISTENT_VOLUME_CLAIMS, "clone") is None
        stage.claim()
        found = await until(lambda: stage.here(PERSISTENT_VOLUME_CLAIMS, "clone"))
        assert found["spec"]["dataSource"] == spec["dataSource"]
        below = stage.copy()
        assert below is not None
        assert found["metadata"]["annotations"][names.SOURCE_UID] == below["metadata"]["uid"]


async def test_a_claim_whose_name_the_operator_uses_is_reported_and_can_be_placed_elsewhere() -> None:
    stage = Shop()
    async with stage.running():
        await until(lambda: stage.here(NAMESPACES, PLACE, ""))
        stage.below.put(PERSISTENT_VOLUME_CLAIMS, "data", PLACE, spec={}, status={"phase": "Bound"})
        stage.claim()
        await until(lambda: "NameTaken" in str(stage.tenant.all(EVENTS)))
        found = stage.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
        assert found is not None
        found["metadata"]["labels"] = {names.SUPER_CLUSTER: "r2"}
        stage.tenant.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", **found)

        def released() -> bool:
            now = stage.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop") or {"metadata": {}}
            return not now["metadata"].get("annotations")

        await until(released)
    assert stage.copy() is not None


class Snapshots(Shop):
    """A stage whose super cluster publishes snapshot class `nightly`, with a snapshot of a bound claim."""

    def snapshot(self) -> None:
        self.below.put(
            VOLUME_SNAPSHOT_CLASSES,
            "nightly",
            metadata={"labels": {names.SUPER_PUBLIC: names.TRUE}},
            driver="csi.example.com",
        )
        spec = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "nightly"}
        self.tenant.put(VOLUME_SNAPSHOTS, "monday", "shop", metadata={"uid": "uid-of-snapshot"}, spec=spec)

    def take(self) -> None:
        """Act as the super cluster's snapshotter."""
        status = {"boundVolumeSnapshotContentName": "content", "readyToUse": True}
        self.below.put(VOLUME_SNAPSHOTS, "monday", PLACE, **{**(self.taken() or {}), "status": status})

    def taken(self) -> dict[str, Any] | None:
        return self.here(VOLUME_SNAPSHOTS, "monday")


async def test_a_lost_placement_keeps_snapshots_until_the_tenant_deletes_them() -> None:
    stage = Snapshots()
    stage.claim()
    async with stage.running() as syncer:
        await until(stage.copy)
        stage.provision()
        await until(stage.volume)
        stage.bind()
        stage.snapshot()
        await until(stage.taken)
        stage.take()
        stage.tenant.remove(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
        await until(lambda: stage.copy() is None)
        stage.grant({"r2": 1})
        await until(lambda: "lost: snapshots monday" in str(syncer.status()["drains"]))
        assert stage.taken() is not None
        stage.tenant.remove(VOLUME_SNAPSHOTS, "monday", "shop")
        await until(lambda: stage.taken() is None)
        await until(lambda: stage.here(NAMESPACES, names.super_namespace(KEY, "shop"), "") is None)


@pytest.mark.parametrize("side", ["below", "tenant"])
async def test_a_snapshot_is_taken_when_both_sides_serve_the_kind(side: str) -> None:
    stage = Snapshots()
    stage.claim()
    server = stage.below if side == "below" else stage.tenant
    lacks = True

    def before(_verb: str, plural: str, _name: str) -> None:
        if lacks and plural.startswith("volumesnapshot"):
            raise NotFound(Status(404, message="the server could not find the requested resource"))

    server.before = before
    async with stage.running():
        await until(stage.copy)
        stage.provision()
        await until(stage.volume)
        stage.bind()
        stage.snapshot()
        if side == "below":
            await until(lambda: "NotSynced" in str(stage.tenant.all(EVENTS)))
        assert stage.taken() is None
        lacks = False
        await until(stage.taken)
