"""Published definitions of a tenant follow the pool, no object of the tenant is lost, and what is its own is not touched."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from memory_cluster import MemoryCluster, endless_pages

from vcsync.api import names
from vcsync.api.specs import PublishedDefinition
from vcsync.kube.errors import Forbidden, KubeError, Status
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, Resource
from vcsync.nsscheduler.class_publisher import AGAIN_SECONDS, HIDDEN
from vcsync.nsscheduler.definition_publisher import KEPT, NOT_PUBLISHED, REFUSED_SECONDS, DefinitionPublisher
from vcsync.nsscheduler.definition_texts import DefinitionTexts
from vcsync.objects.envelope import parse
from vcsync.published import definitions
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES, TenantMemory

NAME = "widgets.example.com"
Spec = dict[str, Any]


def spec(*versions: str, **fields: Any) -> Spec:
    found = [
        {"name": each, "served": True, "storage": at == 0} for at, each in enumerate(versions or ("v1",))
    ]
    return {"group": "example.com", "names": {"plural": "widgets"}, "versions": found, **fields}


class Server(MemoryCluster):
    """Counts generations, as API servers do, and refuses writes of definitions while `refuses`."""

    refuses = ""

    def put(self, resource: Resource, name: str, namespace: str = "", **body: Any) -> None:
        old = self.found(resource, name, namespace)
        generation = old["metadata"].get("generation", 1) if old else 1
        changed = old is not None and old.get("spec") != body.get("spec")
        body["metadata"] = {**body.get("metadata", {}), "generation": generation + changed}
        if old is not None and "status" in old:
            body.setdefault("status", old["status"])
        super().put(resource, name, namespace, **body)


class Stage:
    """A tenant in memory, a meta cluster with texts, and the Events about definitions."""

    def __init__(self) -> None:
        self.tenant, self.meta = Server("tenant"), MemoryCluster("meta")
        self.events: list[tuple[str, str]] = []
        self.messages: list[str] = []
        self.now = 0.0
        self.again: float | None = None
        self.writes: list[str] = []
        self.refusal: Exception | None = None
        self.memory = TenantMemory(TENANT_MEMORY_BYTES, "namespace scheduler", "nothing is published")
        self.tenant.before = self._before

    def _before(self, verb: str, plural: str, name: str) -> None:
        if plural == CUSTOM_RESOURCE_DEFINITIONS.plural and verb in ("create", "patch", "delete"):
            self.writes.append(verb)
            if self.refusal is not None:
                raise self.refusal

    def emit(self, about: ObjectRef, *args: str, **options: Any) -> None:
        assert options["once"]
        self.events.append((args[1], about.name))
        self.messages.append(args[2])

    def view(self, super_id: str, found: Spec | None = None, *, kept: bool = True) -> SuperView:
        """Return the view of a super cluster that publishes a definition, and keep its text in the meta cluster."""
        if found is None:
            return SuperView(super_id, Health.READY, {})
        status = {"conditions": [{"type": "Established", "status": "True"}]}
        body = {"metadata": {"name": NAME}, "spec": found, "status": status}
        made = definitions.definition_of(parse(json.dumps(body).encode()))
        if kept:
            config_map = definitions.stored(super_id, made)
            name = config_map["metadata"]["name"]
            self.meta.put(CONFIG_MAPS, name, names.DEFINITIONS_NAMESPACE, **config_map)
        described = (PublishedDefinition(name=NAME, digest=made.digest),)
        return SuperView(super_id, Health.READY, {}, custom_resource_definitions=described)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[DefinitionPublisher]:
        """Run the publisher of one process of the namespace scheduler."""
        self.changed = asyncio.Event()
        self.publisher = DefinitionPublisher(
            "acme",
            self.tenant,  # type: ignore[arg-type]
            DefinitionTexts(self.meta),  # type: ignore[arg-type]
            events=self,  # type: ignore[arg-type]
            changed=self.changed.set,
            memory=self.memory,
            clock=lambda: self.now,
        )
        task = asyncio.create_task(self.publisher.run())
        try:
            yield self.publisher
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def publish(self, *views: SuperView) -> None:
        """Publish in a new process."""
        async with self.process():
            await self.go_on(*views)

    async def go_on(self, *views: SuperView) -> None:
        """Publish as often as the process would."""
        for _ in range(5):
            self.again = await self.publisher.publish(views)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self.changed.wait()
            self.changed.clear()

    def found(self) -> dict[str, Any]:
        found = self.tenant.found(CUSTOM_RESOURCE_DEFINITIONS, NAME)
        assert found is not None
        return found

    def versions(self) -> list[str]:
        return [each["name"] for each in self.found()["spec"]["versions"]]

    def by(self) -> str | None:
        """Return the super clusters that the definition names."""
        by: str | None = self.found()["metadata"].get("annotations", {}).get(names.PUBLISHED_BY)
        return by

    def own(self, found: Spec, **metadata: Any) -> None:
        """Have the tenant write a definition."""
        self.tenant.put(CUSTOM_RESOURCE_DEFINITIONS, NAME, metadata=metadata, spec=found)


async def test_a_definition_comes_and_follows_the_pool() -> None:
    stage = Stage()
    await stage.publish(stage.view("r1", spec()))
    assert (stage.by(), stage.versions()) == ("r1", ["v1"])
    await stage.publish(stage.view("r1", spec()), stage.view("r2", spec()))
    assert stage.by() == "r1,r2"
    await stage.publish(stage.view("r1", spec("v1", "v2")), stage.view("r2", spec()))
    assert (stage.by(), stage.versions()) == ("r1", ["v1", "v2"])
    assert stage.again is None
    assert stage.events == []


async def test_a_settled_definition_is_not_written_again() -> None:
    stage = Stage()
    async with stage.process():
        await stage.go_on(stage.view("r1", spec()))
        assert stage.writes == ["create"]
        await stage.go_on(stage.view("r1", spec()))
    await stage.publish(stage.view("r1", spec()))
    assert stage.writes == ["create"]


async def test_withdrawal_leaves_the_definition_to_the_tenant() -> None:
    stage = Stage()
    await stage.publish(stage.view("r1", spec()))
    await stage.publish()
    assert stage.by() == "r1", "an empty pool may be one that was not read"
    await stage.publish(stage.view("r1"))
    metadata = stage.found()["metadata"]
    assert stage.by() is None
    assert names.SUPER_PUBLIC not in metadata["labels"]
    uid = metadata["uid"]
    await stage.publish(stage.view("r1", spec("v1", "v2")))
    assert (stage.by(), stage.versions(), stage.found()["metadata"]["uid"]) == ("r1", ["v1", "v2"], uid)
    assert "delete" not in stage.writes


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {names.SUPER_PUBLIC: names.TRUE}},
        {
            "labels": {names.SUPER_PUBLIC: names.TRUE},
            "annotations": {names.PUBLISHED_BY: "r1", names.DEFINITION: "0123456789abcdef.2"},
        },
    ],
    ids=["plain", "labelled", "forged"],
)
async def test_the_tenants_own_definition_stays(metadata: dict[str, Any]) -> None:
    stage = Stage()
    stage.own(spec("v9"), **metadata)
    async with stage.process() as publisher:
        await stage.go_on(stage.view("r1", spec()))
        assert (stage.versions(), stage.writes) == (["v9"], [])
        assert stage.events == [(HIDDEN, NAME)]
        assert publisher.troubles == {NAME: "the tenant has a definition of its own"}
        assert stage.again == AGAIN_SECONDS
        stage.tenant.remove(CUSTOM_RESOURCE_DEFINITIONS, NAME)
        await stage.go_on(stage.view("r1", spec()))
        assert (stage.versions(), publisher.troubles) == (["v1"], {})
        assert stage.again != AGAIN_SECONDS
    await stage.publish(stage.view("r1"))
    assert stage.found()


async def test_forged_marks_of_the_tenants_own_definition_are_not_removed() -> None:
    stage = Stage()
    marks = {"labels": {names.SUPER_PUBLIC: names.TRUE}, "annotations": {names.PUBLISHED_BY: "r1"}}
    stage.own(spec("v9"), **marks)
    await stage.publish(stage.view("r1"))
    assert stage.writes == []


async def test_a_definition_that_the_tenant_changes_is_its_own_from_then_on() -> None:
    stage = Stage()
    async with stage.process():
        await stage.go_on(stage.view("r1", spec()))
        stage.own(spec("v1", "v2"), **stage.found()["metadata"])
        await stage.go_on(stage.view("r1", spec("v1", "v3")))
        assert stage.versions() == ["v1", "v2"]
        assert stage.events == [(HIDDEN, NAME)]


async def test_a_definition_that_the_tenant_deletes_or_unlabels_comes_back() -> None:
    stage = Stage()
    async with stage.process():
        await stage.go_on(stage.view("r1", spec()))
        metadata = {**stage.found()["metadata"], "labels": {}}
        stage.tenant.remove(CUSTOM_RESOURCE_DEFINITIONS, NAME)
        await stage.go_on(stage.view("r1", spec()))
        assert stage.by() == "r1"
        stage.tenant.remove(CUSTOM_RESOURCE_DEFINITIONS, NAME)
        stage.own(spec(), **{**metadata, "annotations": {**metadata["annotations"], names.PUBLISHED_BY: "x"}})
        await stage.go_on(stage.view("r1", spec()))
        assert stage.by() == "r1"
        assert stage.found()["metadata"]["labels"] == {names.SUPER_PUBLIC: names.TRUE}
    assert stage.events == []


async def test_a_version_in_which_objects_may_be_stored_is_not_dropped() -> None:
    stage = Stage()
    async with stage.process() as publisher:
        await stage.go_on(stage.view("r1", spec("v1alpha1")))
        stage.found()["status"] = {"storedVersions": ["v1alpha1"]}
        await stage.go_on(stage.view("r1", spec("v1")))
        assert stage.versions() == ["v1alpha1"]
        assert stage.events == [(KEPT, NAME)] * len(stage.events)
        assert "without version v1alpha1" in stage.messages[0]
        assert "v1alpha1" in publisher.troubles[NAME]
        assert stage.again is None, "only a change can help"
        await stage.go_on(stage.view("r1", spec("v1", "v1alpha1")))
        assert (stage.versions(), publisher.troubles) == (["v1", "v1alpha1"], {})


async def test_a_definition_that_is_kept_is_watched_until_the_tenant_has_dropped_the_version() -> None:
    stage = Stage()
    await stage.publish(stage.view("r1", spec("v1alpha1")))
    stage.found()["status"] = {"storedVersions": ["v1alpha1"]}
    await stage.publish(stage.view("r1"))
    async with stage.process():
        await stage.go_on(stage.view("r1", spec("v1")))
        assert (stage.versions(), stage.by(), stage.again) == (["v1alpha1"], None, None)
        metadata = stage.found()["metadata"]
        status = {"storedVersions": ["v1"]}
        stage.tenant.put(CUSTOM_RESOURCE_DEFINITIONS, NAME, **{**stage.found(), "status": status})
        assert metadata["labels"] == {names.SUPER_PUBLIC: names.TRUE}
        await asyncio.wait_for(stage.changed.wait(), 5)
        await stage.go_on(stage.view("r1", spec("v1")))
        assert (stage.versions(), stage.by()) == (["v1"], "r1")


async def test_a_refused_definition_is_reported_and_rarely_tried_again() -> None:
    stage = Stage()
    stage.refusal = Forbidden(Status(403, message="exceeded quota: definitions, limited: 3"))
    async with stage.process() as publisher:
        await stage.go_on(stage.view("r1", spec()))
        assert stage.events == [(NOT_PUBLISHED, NAME)]
        assert "exceeded quota" in stage.messages[0]
        assert "exceeded quota" in publisher.troubles[NAME]
        assert (stage.writes, stage.again) == (["create"], REFUSED_SECONDS)
        stage.refusal = None
        await stage.go_on(stage.view("r1", spec()))
        assert stage.writes == ["create"], "nothing tells that there is room"
        stage.now += REFUSED_SECONDS
        await stage.go_on(stage.view("r1", spec()))
        assert (stage.by(), publisher.troubles) == ("r1", {})


async def test_another_definition_is_tried_at_once_after_a_refusal() -> None:
    stage = Stage()
    stage.refusal = Forbidden(Status(403, message="no"))
    async with stage.process():
        await stage.go_on(stage.view("r1", spec()))
        stage.refusal = None
        await stage.go_on(stage.view("r1", spec("v1", "v2")))
        assert stage.by() == "r1"


async def test_a_text_that_is_not_there_yet_is_waited_for() -> None:
    stage = Stage()
    async with stage.process():
        await stage.go_on(stage.view("r1", spec(), kept=False))
        assert (stage.tenant.all(CUSTOM_RESOURCE_DEFINITIONS), stage.again) == ([], AGAIN_SECONDS)
        await stage.go_on(stage.view("r1", spec()))
        assert (stage.by(), stage.again) == ("r1", None)


async def test_nothing_is_watched_where_nothing_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    listed = []

    async def refuse(*_: Any, **__: Any) -> None:
        listed.append(1)
        raise Forbidden(Status(403, message="roles of an earlier version"))

    monkeypatch.setattr(stage.tenant, "list", refuse)
    async with stage.process() as publisher:
        await stage.go_on(stage.view("r1"))
        assert publisher._cache is None
    assert (listed, stage.again) == ([1], None)


async def test_a_list_of_definitions_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    monkeypatch.setattr(stage.tenant, "pages", endless_pages)
    async with stage.process():
        with pytest.raises(KubeError, match="more than 20 pages"):
            await stage.go_on(stage.view("r1"))


async def test_a_definition_that_is_equal_already_is_marked_with_its_generation() -> None:
    """The operator changes what tenants do not get, such as the approval: the spec stays, and so does its generation."""
    stage = Stage()
    async with stage.process():
        await stage.go_on(stage.view("r1", spec()))
        mark = stage.found()["metadata"]["annotations"][names.DEFINITION]
        stage.found()["metadata"]["annotations"][names.DEFINITION] = f"earlier.{mark.partition('.')[2]}"
    await stage.publish(stage.view("r1", spec()))
    assert stage.found()["metadata"]["annotations"][names.DEFINITION] == mark
    assert stage.by() == "r1"
