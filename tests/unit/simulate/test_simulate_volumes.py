"""Storage of hollow clusters."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from memory_cluster import MemoryCluster, until

from vcsync.api import names
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from vcsync.objects.envelope import Envelope, parse
from vcsync.simulate.volumes import PROVISIONER, STORAGE_CLASS, Storage, is_over, volume

ASKED = {"volume.kubernetes.io/storage-provisioner": PROVISIONER}


def claim(annotations: dict[str, str] = ASKED, **spec: Any) -> Envelope:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": STORAGE_CLASS,
        **spec,
    }
    metadata = {"name": "data", "namespace": "shop", "uid": "u", "annotations": annotations}
    return parse(json.dumps({"metadata": metadata, "spec": wanted}).encode())


def test_a_claim_gets_a_volume_that_is_reserved_for_it() -> None:
    made = volume(claim())
    assert made is not None
    assert made["metadata"]["name"] == names.volume_name("u")
    assert made["spec"]["capacity"] == {"storage": "1Gi"}
    assert made["spec"]["claimRef"]["uid"] == "u"


def test_claims_with_a_volume_or_of_other_provisioners_get_none() -> None:
    assert volume(claim(volumeName="pvc-u")) is None
    assert volume(claim({})) is None


def test_a_volume_is_over_when_it_is_released() -> None:
    def found(phase: str, by: str = PROVISIONER) -> Envelope:
        metadata = {"name": "pvc-u", "annotations": {"pv.kubernetes.io/provisioned-by": by}}
        return parse(json.dumps({"metadata": metadata, "status": {"phase": phase}}).encode())

    assert [is_over(found(phase)) for phase in ("Available", "Bound", "Released")] == [False, False, True]
    assert not is_over(found("Released", "another"))


async def test_volumes_come_and_go_with_their_claims() -> None:
    cluster = MemoryCluster("r1")
    task = asyncio.create_task(Storage(cluster, lambda _: None).run())  # type: ignore[arg-type]
    await until(lambda: cluster.found(STORAGE_CLASSES, STORAGE_CLASS))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", metadata={"annotations": ASKED}, spec=spec)
    await until(lambda: cluster.all(PERSISTENT_VOLUMES))
    [made] = cluster.all(PERSISTENT_VOLUMES)
    cluster.put(PERSISTENT_VOLUMES, made["metadata"]["name"], **{**made, "status": {"phase": "Released"}})
    await until(lambda: not cluster.all(PERSISTENT_VOLUMES))
    task.cancel()
    await asyncio.wait((task,))


def user_of(*claims: str) -> Envelope:
    """Return a Pod that uses claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    body = {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"volumes": volumes}}
    return parse(json.dumps(body).encode())


@asynccontextmanager
async def storage_of(cluster: MemoryCluster, settled: Callable[[str], None]) -> AsyncIterator[Storage]:
    storage = Storage(cluster, settled)  # type: ignore[arg-type]
    task = asyncio.create_task(storage.run())
    await until(lambda: cluster.found(STORAGE_CLASSES, STORAGE_CLASS))
    await until(lambda: storage._claims.synced)
    yield storage
    task.cancel()
    await asyncio.wait((task,))


async def test_a_scheduled_pod_names_its_node_on_claims_without_a_volume() -> None:
    cluster = MemoryCluster("r1")
    for name, spec in (("waiting", {}), ("bound", {"volumeName": "pvc-u"})):
        cluster.put(PERSISTENT_VOLUME_CLAIMS, name, "shop", spec=spec)
    async with storage_of(cluster, lambda _: None) as storage:
        await storage.select_node(user_of("waiting", "bound", "absent"), "n1")
    annotations = {
        each["metadata"]["name"]: each["metadata"].get("annotations")
        for each in cluster.all(PERSISTENT_VOLUME_CLAIMS)
    }
    assert annotations["waiting"] == {"volume.kubernetes.io/selected-node": "n1"}
    assert not annotations["bound"]


@pytest.mark.parametrize(
    ("claims", "lacks"),
    [((), False), (("bound",), False), (("bound", "waiting"), True), (("absent",), False)],
)
async def test_a_pod_lacks_a_volume_until_all_its_claims_have_one(
    claims: tuple[str, ...], lacks: bool
) -> None:
    cluster = MemoryCluster("r1")
    for name, spec in (("waiting", {}), ("bound", {"volumeName": "pvc-u"})):
        cluster.put(PERSISTENT_VOLUME_CLAIMS, name, "shop", spec=spec)
    async with storage_of(cluster, lambda _: None) as storage:
        assert storage.lacks_volume(user_of(*claims)) is lacks


async def test_pods_of_a_namespace_are_tried_again_when_a_claim_is_bound_or_its_node_is_taken_back() -> None:
    """A provisioner that has failed for a node takes the node back, so that the scheduler chooses again."""
    cluster, settled = MemoryCluster("r1"), list[str]()
    cluster.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", spec={})
    async with storage_of(cluster, settled.append) as storage:
        await storage.select_node(user_of("data"), "n1")
        assert settled == []
        cluster.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", spec={})
        await until(lambda: settled == ["shop"])
        assert storage.lacks_volume(user_of("data"))
        cluster.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", spec={"volumeName": "pvc-u"})
        await until(lambda: settled == ["shop", "shop"])
        assert not storage.lacks_volume(user_of("data"))
