"""Published StorageClasses: the union over super clusters, and nothing of the tenant's own is touched."""

import asyncio
import json
from typing import Any

import pytest
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.specs import PublishedStorageClass
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import STORAGE_CLASSES
from vcsync.nsscheduler.storage_classes import difference, is_ours, publish, wanted
from vcsync.objects.envelope import Envelope, parse
from vcsync.scheduling.snapshot import Health, SuperView


def view(super_id: str, *classes: PublishedStorageClass, health: Health = Health.READY) -> SuperView:
    return SuperView(super_id, health, {}, storage_classes=classes)


def cls(name: str = "fast", **fields: Any) -> PublishedStorageClass:
    return PublishedStorageClass(name=name, **fields)


def envelope(body: dict[str, Any]) -> Envelope:
    return parse(json.dumps(body).encode())


def test_the_union_names_the_super_clusters_that_have_a_class() -> None:
    found = wanted([view("r2", cls(), cls("slow")), view("r1", cls(), health=Health.LOST), view("r3")])
    by = {name: body["metadata"]["annotations"][names.PUBLISHED_BY] for name, body in found.items()}
    assert by == {"fast": "r1,r2", "slow": "r2"}
    assert found["fast"]["provisioner"] == names.PROVISIONER
    assert found["fast"]["volumeBindingMode"] == "WaitForFirstConsumer"
    assert "parameters" not in found["fast"]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ({"reclaim_policy": "Retain"}, {"reclaim_policy": "Retain"}, ("Retain", False, None)),
        ({"reclaim_policy": "Retain"}, {}, ("Delete", False, None)),
        ({"allow_volume_expansion": True}, {"allow_volume_expansion": True}, ("Delete", True, None)),
        ({"allow_volume_expansion": True}, {}, ("Delete", False, None)),
        ({"default": True}, {}, ("Delete", False, "true")),
    ],
)
def test_the_cautious_value_counts_where_super_clusters_differ(
    one: dict[str, Any], other: dict[str, Any], shown: tuple[Any, ...]
) -> None:
    body = wanted([view("r1", cls(**one)), view("r2", cls(**other))])["fast"]
    default = body["metadata"]["annotations"].get("storageclass.kubernetes.io/is-default-class")
    assert (body["reclaimPolicy"], body["allowVolumeExpansion"], default) == shown


def test_only_what_may_change_is_patched() -> None:
    body = wanted([view("r1", cls(allow_volume_expansion=True))])["fast"]
    assert difference(envelope(body), body) == {}
    before = wanted([view("r1", cls()), view("r2", cls())])["fast"]
    assert difference(envelope(before), body) == {
        "metadata": {"annotations": {names.PUBLISHED_BY: "r1"}},
        "allowVolumeExpansion": True,
    }
    retaining = wanted([view("r1", cls(reclaim_policy="Retain"))])["fast"]
    assert difference(envelope(retaining), body) is None
    assert difference(envelope({**body, "parameters": {"a": "b"}}), body) is None


def test_the_default_class_is_the_tenants_choice() -> None:
    body = wanted([view("r1", cls(default=True))])["fast"]
    metadata = {**body["metadata"], "annotations": {names.PUBLISHED_BY: "r1"}}
    assert difference(envelope({**body, "metadata": metadata}), body) == {}


class Stage:
    """A tenant in memory, and the namespace scheduler's cache of its classes."""

    def __init__(self) -> None:
        self.tenant = MemoryCluster("tenant")
        self.cache = Reflector(self.tenant, STORAGE_CLASSES)  # type: ignore[arg-type]
        self.hidden: list[str] = []

    async def publish(self, *views: SuperView) -> None:
        self.cache = Reflector(
            self.tenant,  # type: ignore[arg-type]
            STORAGE_CLASSES,
            label_selector=f"{names.SUPER_PUBLIC}={names.TRUE}",
        )
        task = asyncio.create_task(self.cache.run())
        await self.cache.wait_synced()
        await publish(
            self.tenant,  # type: ignore[arg-type]
            self.cache,
            views,
            lambda found: self.hidden.append(found.name),
        )
        task.cancel()
        await asyncio.wait((task,))

    def classes(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.tenant.all(STORAGE_CLASSES)}


async def test_classes_come_change_and_go() -> None:
    stage = Stage()
    await stage.publish(view("r1", cls()))
    assert stage.classes()["fast"]["metadata"]["annotations"] == {names.PUBLISHED_BY: "r1"}
    await stage.publish(view("r1", cls()), view("r2", cls()))
    assert stage.classes()["fast"]["metadata"]["annotations"] == {names.PUBLISHED_BY: "r1,r2"}
    await stage.publish(view("r1", cls(reclaim_policy="Retain")))
    assert stage.classes()["fast"]["reclaimPolicy"] == "Retain"
    await stage.publish()
    assert set(stage.classes()) == {"fast"}, "an empty pool may be one that was not read"
    await stage.publish(view("r1"))
    assert stage.classes() == {}


async def test_classes_of_the_tenant_are_not_touched() -> None:
    """VirtualCluster deleted every class of a tenant that its super cluster lacked."""
    stage = Stage()
    stage.tenant.put(STORAGE_CLASSES, "own", provisioner="nfs.example.com")
    stage.tenant.put(STORAGE_CLASSES, "fast", provisioner="nfs.example.com")
    labels = {names.SUPER_PUBLIC: names.TRUE}
    stage.tenant.put(STORAGE_CLASSES, "forged", metadata={"labels": labels}, provisioner="nfs.example.com")
    await stage.publish(view("r1", cls()))
    assert {name: each["provisioner"] for name, each in stage.classes().items()} == dict.fromkeys(
        ("own", "fast", "forged"), "nfs.example.com"
    )
    assert stage.hidden == ["fast"]


async def test_a_class_that_is_no_longer_published_goes() -> None:
    """VirtualCluster kept classes in tenants whose label the operator had removed."""
    stage = Stage()
    await stage.publish(view("r1", cls(), cls("slow")))
    await stage.publish(view("r1", cls("slow")))
    assert set(stage.classes()) == {"slow"}


async def test_super_clusters_with_different_classes_do_not_take_them_from_each_other() -> None:
    """VirtualCluster's syncers each deleted the classes that only another super cluster had."""
    stage = Stage()
    pool = (view("r1", cls("one")), view("r2", cls("two")))
    await stage.publish(*pool)
    before = {name: each["metadata"]["uid"] for name, each in stage.classes().items()}
    await stage.publish(*pool)
    assert {name: each["metadata"]["uid"] for name, each in stage.classes().items()} == before
    assert set(before) == {"one", "two"}


def test_a_class_is_ours_by_label_and_provisioner() -> None:
    body = wanted([view("r1", cls())])["fast"]
    assert is_ours(envelope(body))
    assert not is_ours(envelope({**body, "provisioner": "nfs.example.com"}))
    assert not is_ours(envelope({**body, "metadata": {"name": "fast"}}))
