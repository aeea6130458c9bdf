"""Published classes of a tenant follow the pool, and nothing of the tenant's own is touched."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from memory_cluster import MemoryCluster, endless_pages

from vcsync.api import names
from vcsync.api.specs import PublishedStorageClass
from vcsync.kube.errors import Forbidden, KubeError, NotFound, Status
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import STORAGE_CLASSES
from vcsync.nsscheduler import class_publisher
from vcsync.nsscheduler.class_publisher import AGAIN_SECONDS, HIDDEN, ClassPublisher
from vcsync.published.storage_class import KIND
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.memory import OVERHEAD_BYTES, TENANT_MEMORY_BYTES, TenantMemory
from vcsync.tenancy.registry import TenantTooLarge


def view(super_id: str, *classes: PublishedStorageClass) -> SuperView:
    return SuperView(super_id, Health.READY, {}, storage_classes=classes)


def cls(name: str = "fast", **fields: Any) -> PublishedStorageClass:
    return PublishedStorageClass(name=name, **fields)


class Recorder:
    """Takes Events."""

    def __init__(self) -> None:
        self.about: list[str] = []

    def emit(self, about: ObjectRef, *args: str, **options: Any) -> None:
        assert args[1] == HIDDEN
        self.about.append(about.name)


class Stage:
    """A tenant in memory, to which StorageClasses are published."""

    def __init__(self) -> None:
        self.tenant = MemoryCluster("tenant")
        self.events = Recorder()
        self.publisher: ClassPublisher | None = None
        self.again: float | None = None
        self.memory = TenantMemory(TENANT_MEMORY_BYTES, "namespace scheduler", "nothing is published")

    @asynccontextmanager
    async def process(self) -> AsyncIterator[None]:
        """Run the publisher of one process of the namespace scheduler."""
        changed = asyncio.Event()
        self.publisher = ClassPublisher(
            "acme",
            self.tenant,  # type: ignore[arg-type]
            KIND,
            events=self.events,  # type: ignore[arg-type]
            changed=changed.set,
            memory=self.memory,
        )
        self.changed = changed
        task = asyncio.create_task(self.publisher.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def publish(self, *views: SuperView) -> None:
        """Publish in a new process."""
        async with self.process():
            await self.go_on(*views)

    async def go_on(self, *views: SuperView) -> None:
        """Publish as often as the process would."""
        assert self.publisher is not None
        for _ in range(4):
            self.again = await self.publisher.publish(views)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self.changed.wait()
            self.changed.clear()

    @property
    def hidden(self) -> list[str]:
        return self.events.about

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


async def test_a_hidden_class_is_published_once_the_tenant_has_deleted_its_own() -> None:
    stage = Stage()
    stage.tenant.put(STORAGE_CLASSES, "fast", provisioner="nfs.example.com")
    async with stage.process():
        await stage.go_on(view("r1", cls()))
        assert (stage.again, stage.hidden) == (AGAIN_SECONDS, ["fast"])
        stage.tenant.remove(STORAGE_CLASSES, "fast")
        await stage.go_on(view("r1", cls()))
    assert stage.classes()["fast"]["provisioner"] == names.PROVISIONER
    assert stage.again is None
    assert stage.hidden == ["fast"]


async def test_nothing_is_watched_where_nothing_is_published() -> None:
    stage = Stage()
    async with stage.process():
        await stage.go_on(view("r1"))
        assert stage.publisher is not None
        assert stage.publisher._cache is None
        await stage.go_on(view("r1", cls()))
        assert set(stage.classes()) == {"fast"}


async def test_classes_that_an_earlier_process_left_go() -> None:
    stage = Stage()
    await stage.publish(view("r1", cls()))
    await stage.publish(view("r1"))
    assert stage.classes() == {}


async def test_what_the_tenant_deletes_or_changes_comes_back() -> None:
    stage = Stage()
    async with stage.process():
        await stage.go_on(view("r1", cls()))
        stage.tenant.remove(STORAGE_CLASSES, "fast")
        await stage.go_on(view("r1", cls()))
        assert set(stage.classes()) == {"fast"}
        found = stage.classes()["fast"]
        stage.tenant.put(STORAGE_CLASSES, "fast", **{**found, "allowVolumeExpansion": True})
        await stage.go_on(view("r1", cls()))
        assert not stage.classes()["fast"]["allowVolumeExpansion"]


@pytest.mark.parametrize(
    "error",
    [Forbidden(Status(403, message="no")), NotFound(Status(404, message="no"))],
    ids=["roles", "kind"],
)
async def test_a_tenant_without_permissions_or_the_kind_is_tried_again_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    stage = Stage()

    async def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(stage.tenant, "create", refuse)
    monkeypatch.setattr(stage.tenant, "list", refuse)
    async with stage.process():
        await stage.go_on(view("r1"))
        assert (stage.again, capsys.readouterr().out) == (None, ""), "nothing is published"
    monkeypatch.undo()
    monkeypatch.setattr(stage.tenant, "create", refuse)
    async with stage.process():
        await stage.go_on(view("r1", cls()))
        assert stage.again == AGAIN_SECONDS
        output = capsys.readouterr()
        assert (output.out + output.err).count("classes cannot be published") == 1


@pytest.mark.parametrize("lacks", ["list", "create"])
async def test_a_tenant_that_lacks_the_kind_gets_its_classes_when_it_has_it(
    monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """VolumeSnapshotClasses come with a CustomResourceDefinition, which a tenant may install or remove at any time."""
    stage = Stage()

    async def missing(*_: Any, **__: Any) -> None:
        raise NotFound(Status(404, message="the server could not find the requested resource"))

    monkeypatch.setattr(class_publisher, "OPTIONAL_BACKOFF", (0.01, 0.01))
    async with stage.process():
        with monkeypatch.context() as without:
            without.setattr(stage.tenant, lacks, missing)
            await stage.go_on(view("r1"))
            assert stage.again is None, "nothing is published"
            await stage.go_on(view("r1", cls()))
            assert stage.classes() == {}
        await stage.go_on(view("r1", cls()))
        assert set(stage.classes()) == {"fast"}


async def test_a_list_of_classes_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    monkeypatch.setattr(stage.tenant, "pages", endless_pages)
    async with stage.process():
        with pytest.raises(KubeError, match="more than 20 pages"):
            await stage.go_on(view("r1"))


async def test_classes_count_as_memory_of_the_tenant() -> None:
    stage = Stage()
    stage.memory = TenantMemory(4 * OVERHEAD_BYTES, "namespace scheduler", "nothing is published")
    async with stage.process():
        await stage.go_on(view("r1", *(cls(f"class-{number}") for number in range(5))))
        with pytest.raises(TenantTooLarge):
            await stage.memory.exceeded()
