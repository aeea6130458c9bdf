"""A syncer keeps the definitions that its super cluster publishes in the meta cluster, one object each, and writes no more."""

import json
from typing import Any

from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from vcsync.objects.envelope import parse
from vcsync.published.definitions import Chosen, restored
from vcsync.syncer.definitions import DefinitionStore

ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


class Stage:
    """A super cluster with definitions, and a meta cluster, in memory."""

    def __init__(self) -> None:
        self.meta, self.below = MemoryCluster("meta"), MemoryCluster("r1")
        self.writes: list[str] = []
        self.refusal: Exception | None = None
        self.meta.before = self._before
        self.store = self.new()
        self.version = 0

    def new(self) -> DefinitionStore:
        """Return the store of a new process."""
        return DefinitionStore(self.meta, self.below, "r1")  # type: ignore[arg-type]

    def _before(self, verb: str, plural: str, name: str) -> None:
        if self.refusal is not None:
            raise self.refusal
        if verb in ("create", "patch", "delete"):
            self.writes.append(verb)

    def have(self, plural: str, group: str = "example.com", **spec: Any) -> None:
        """Have the operator write a definition."""
        self.version += 1
        metadata = {
            "name": f"{plural}.{group}",
            "uid": plural,
            "resourceVersion": str(self.version),
            "labels": {names.SUPER_PUBLIC: names.TRUE},
        }
        body = {"metadata": metadata, "spec": {"group": group, **spec}, "status": ESTABLISHED}
        self.store.reflector.observe(parse(json.dumps(body).encode()))

    def stored(self) -> list[str]:
        """Return the names of the definitions that can be read from the meta cluster by what the store reports."""
        found = {
            each["metadata"]["annotations"][names.DEFINITION]: each for each in self.meta.all(CONFIG_MAPS)
        }
        read = []
        for each in self.store.published or ():
            envelope = parse(json.dumps(found.pop(each.digest)).encode())
            read.append(restored(envelope, Chosen(each.name, each.digest, "r1", "r1"))["metadata"]["name"])
        assert not found, "nothing else is kept"
        return read


async def test_definitions_are_kept_changed_and_removed() -> None:
    stage = Stage()
    assert await stage.store.step() is None
    assert (stage.store.published, stage.writes) == ((), [])
    stage.have("widgets")
    stage.have("gadgets")
    await stage.store.step()
    assert stage.stored() == ["gadgets.example.com", "widgets.example.com"]
    stage.have("widgets", scope="Cluster")
    await stage.store.step()
    assert stage.stored() == ["gadgets.example.com", "widgets.example.com"]
    stage.store.reflector.observe_gone("", "gadgets.example.com", "gadgets")
    await stage.store.step()
    assert stage.stored() == ["widgets.example.com"]
    assert stage.writes == ["create", "create", "patch", "delete"]


async def test_a_new_process_writes_only_what_has_changed() -> None:
    stage = Stage()
    stage.have("widgets")
    stage.have("gadgets")
    await stage.store.step()
    stage.writes.clear()
    stage.store = stage.new()
    stage.have("widgets")
    await stage.store.step()
    assert stage.stored() == ["widgets.example.com"]
    assert stage.writes == ["delete"]


async def test_others_keep_theirs() -> None:
    stage = Stage()
    labels = {names.DEFINITION_OF: "r2"}
    stage.meta.put(CONFIG_MAPS, "r2.x", names.DEFINITIONS_NAMESPACE, metadata={"labels": labels})
    stage.have("widgets")
    await stage.store.step()
    assert len(stage.meta.all(CONFIG_MAPS)) == 2


async def test_what_is_refused_is_told_and_not_kept() -> None:
    stage = Stage()
    stage.have("widgets", group=names.GROUP)
    await stage.store.step()
    assert (stage.stored(), stage.writes) == ([], [])
    assert list(stage.store.refused) == [f"widgets.{names.GROUP}"]


async def test_roles_of_an_earlier_version_matter_only_where_something_is_published() -> None:
    stage = Stage()
    stage.refusal = Forbidden(Status(403, message="no configmaps"))
    assert await stage.store.step() is None
    assert stage.store.trouble == ""
    stage.have("widgets")
    assert await stage.store.step() is not None
    assert "no configmaps" in stage.store.trouble
    assert stage.store.published == (), "what is not kept is not told"
    stage.refusal = None
    assert await stage.store.step() is None
    assert (stage.store.trouble, stage.stored()) == ("", ["widgets.example.com"])


def test_only_definitions_with_the_label_are_read() -> None:
    reflector = Stage().store.reflector
    assert reflector.resource == CUSTOM_RESOURCE_DEFINITIONS
    assert reflector.label_selector == f"{names.SUPER_PUBLIC}={names.TRUE}"
