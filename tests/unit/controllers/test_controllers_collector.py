"""The garbage collector at an API server: it confirms before it deletes, and deletes only the version that it examined."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from vcsync.controllers.garbagecollector import custom_resources
from vcsync.controllers.garbagecollector.garbage_collector_controller import (
    LEFT_OUT,
    STEPS_PER_OBJECT,
    Collector,
    UnknownKind,
)
from vcsync.controllers.garbagecollector.graph import Uid
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.errors import Conflict, NotFound, Status
from vcsync.kube.resources import CONFIG_MAPS, Resource
from vcsync.objects.budget import PIECE_STEPS
from vcsync.objects.envelope import Envelope, OwnerReference, WatchEvent

OWNER = OwnerReference("v1", "ConfigMap", "owner", "uid-owner")


def config_map(name: str, *owners: OwnerReference, version: int = 5, **fields: Any) -> Envelope:
    return Envelope(name, "default", f"uid-{name}", str(version), owners=owners, tenant="acme", **fields)


class Server:
    """A control plane with ConfigMaps of one tenant. `behind`: objects that reads return before watches report them."""

    name = "server"

    def __init__(self, *objects: Envelope) -> None:
        self.objects = {each.name: each for each in objects}
        self.behind: dict[str, Envelope] = {}
        self.read: list[str] = []
        self.deleted: list[tuple[str, str | None, str | None, str | None]] = []
        self.patched: list[dict[str, Any]] = []
        self._news: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def below(self, _prefix: str) -> "Server":
        return self

    def across_tenants(self) -> "Server":
        return self

    def metadata_only(self) -> "Server":
        return self

    async def request(self, _verb: str, path: str, **_: Any) -> bytes:
        maps = {
            "resource": "configmaps",
            "responseKind": {"kind": "ConfigMap"},
            "scope": "Namespaced",
            "verbs": ["delete", "list", "watch"],
        }
        core = [{"metadata": {}, "versions": [{"version": "v1", "resources": [maps]}]}]
        return msgspec.json.encode({"items": core if path == "/api" else []})

    async def watch_batches(
        self, resource: Resource, *_: Any, **__: Any
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        mine = resource == CONFIG_MAPS
        end = Envelope("", resource_version="100", annotations={"k8s.io/initial-events-end": "true"})
        yield [
            *(WatchEvent("ADDED", each) for each in self.objects.values() if mine),
            WatchEvent("BOOKMARK", end),
        ]
        while True:
            yield [await (self._news.get() if mine else asyncio.Future())]

    def tell(self, kind: str, envelope: Envelope) -> None:
        """Change an object and report it to watches."""
        if kind == "DELETED":
            self.objects.pop(envelope.name, None)
        else:
            self.objects[envelope.name] = envelope
        self._news.put_nowait(WatchEvent(kind, envelope))  # type: ignore[arg-type]

    async def get(self, _resource: Resource, name: str, _namespace: str) -> Envelope:
        self.read.append(name)
        found = self.behind.get(name) or self.objects.get(name)
        if found is None:
            raise NotFound(Status(404))
        return found

    async def delete(
        self,
        _resource: Resource,
        name: str,
        _namespace: str,
        *,
        uid: str,
        resource_version: str,
        propagation: str,
    ) -> None:
        self.deleted.append((name, uid, resource_version, propagation))
        found = await self.get(_resource, name, _namespace)
        if (found.uid, found.resource_version) != (uid, resource_version):
            raise Conflict(Status(409))
        self.objects.pop(name, None)

    async def patch(self, _resource: Resource, name: str, patch: dict[str, Any], _namespace: str) -> None:
        self.patched.append(patch)
        found = await self.get(_resource, name, _namespace)
        if patch["metadata"]["resourceVersion"] != found.resource_version:
            raise Conflict(Status(409))


class Reporter:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def emit(self, *parts: Any, **_: Any) -> None:
        self.reasons.append(parts[4])


@asynccontextmanager
async def collecting(server: Server, reporter: Reporter | None = None) -> AsyncIterator[Collector]:
    collector = Collector(server, {}, reporter or Reporter())  # type: ignore[arg-type]
    async with running(collector):
        yield collector


@asynccontextmanager
async def running(collector: Collector) -> AsyncIterator[None]:
    task = asyncio.create_task(collector.run())
    try:
        await until(collector.synced)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not happened():
            await asyncio.sleep(0)


async def idle(collector: Collector) -> None:
    """Wait until the collector has no work, not even delayed work."""

    def done() -> bool:
        queue = collector.work.queue.statistics()
        return not queue.queued and not queue.in_process

    for _ in range(50):
        await asyncio.sleep(0)
    await until(done)


async def test_an_object_without_owner_is_deleted_in_exactly_the_examined_version() -> None:
    server = Server(config_map("a", OWNER))
    async with collecting(server) as collector:
        await until(lambda: "a" not in server.objects)
        (noted,) = collector.work.timeline.of("acme", ObjectName("configmaps", "default", "a"))
    assert server.deleted == [("a", "uid-a", "5", "Background")]
    assert server.read[0] == "owner"
    assert (noted.what, noted.controller, noted.version) == ("deleted", "garbage", "5")
    assert noted.reconcile
    collector.end_tenant("acme")
    assert len(collector.work.timeline) == 0


async def test_an_owner_that_no_watch_has_reported_yet_is_looked_up() -> None:
    server = Server(config_map("a", OWNER))
    server.behind["owner"] = config_map("owner")
    async with collecting(server) as collector:
        await idle(collector)
    assert server.read == ["owner"]
    assert server.deleted == []


async def test_many_dependents_of_a_deleted_owner_are_queued_in_turns() -> None:
    owner, count = config_map("owner"), 1_000
    server = Server(owner, *(config_map(f"d-{number}", OWNER) for number in range(count)))
    async with collecting(server) as collector:
        await idle(collector)
        assert not server.deleted
        added: list[int] = []
        add, rounds = collector._add, 0

        def noted(uid: Uid) -> None:
            added.append(rounds)
            add(uid)

        collector._add = noted  # type: ignore[method-assign]
        server.tell("DELETED", owner)
        while len(added) < count:
            await asyncio.sleep(0)
            rounds += 1
        await until(lambda: not server.objects)
    assert max(added.count(each) for each in set(added)) <= PIECE_STEPS // STEPS_PER_OBJECT


async def test_dependents_of_a_deleted_owner_are_deleted_after_one_lookup() -> None:
    owner = config_map("owner")
    server = Server(owner, *(config_map(each, OWNER) for each in "abc"))
    async with collecting(server) as collector:
        await idle(collector)
        assert server.read == []
        server.tell("DELETED", replace(owner, resource_version="101"))
        await until(lambda: not server.objects)
    assert 1 <= server.read.count("owner") <= 3
    assert sorted(name for name, *_ in server.deleted) == ["a", "b", "c"]


async def test_an_object_that_changed_meanwhile_is_deleted_in_its_new_version() -> None:
    server = Server(config_map("a", OWNER))
    server.behind["a"] = config_map("a", OWNER, version=7)
    async with collecting(server):
        await until(lambda: "a" not in server.objects)
    assert [version for _, _, version, _ in server.deleted] == ["5", "7"]


async def test_an_object_with_a_new_owner_is_not_deleted() -> None:
    server = Server(config_map("a", OWNER))
    other = replace(OWNER, name="other", uid="uid-other")
    server.behind["a"] = config_map("a", other, version=7)
    async with collecting(server) as collector:
        await until(lambda: bool(collector.work.last_errors))
    assert len(server.deleted) == 1
    assert "a" in server.objects


async def test_a_replaced_object_is_not_deleted() -> None:
    server = Server(config_map("a", OWNER))
    server.behind["a"] = replace(config_map("a", version=7), uid="uid-of-another")
    async with collecting(server) as collector:
        await until(lambda: bool(server.deleted))
        await idle(collector)
    assert len(server.deleted) == 1
    assert "a" in server.objects


async def test_a_finalizer_is_removed_from_the_current_version() -> None:
    marks: dict[str, Any] = {"finalizers": ("orphan",), "deletion_timestamp": "2026-01-01T00:00:00Z"}
    server = Server(config_map("a", **marks))
    server.behind["a"] = config_map("a", version=7, **{**marks, "finalizers": ("orphan", "x/y")})
    async with collecting(server) as collector:
        await until(lambda: len(server.patched) > 1)
        await idle(collector)
    metadata = {"uid": "uid-a", "resourceVersion": "7", "finalizers": ["x/y"]}
    assert server.patched[1:] == [{"metadata": metadata}]


async def test_an_owner_of_an_unknown_kind_is_an_error_and_nothing_is_deleted() -> None:
    server = Server(config_map("a", replace(OWNER, kind="Mystery")))
    async with collecting(server) as collector:
        await until(lambda: bool(collector.work.last_errors))
        [error] = collector.work.last_errors.values()
    assert error.message == "UnknownKind: no matches for kind 'Mystery' in version 'v1'"
    assert server.deleted == []


async def test_an_owner_in_another_namespace_is_reported_and_ignored() -> None:
    reporter = Reporter()
    server = Server(replace(config_map("owner"), namespace="elsewhere"), config_map("a", OWNER))
    server.get = Server(config_map("a", OWNER)).get  # type: ignore[method-assign]
    async with collecting(server, reporter):
        await until(lambda: bool(server.deleted))
    assert reporter.reasons[0] == "OwnerRefInvalidNamespace"
    assert server.deleted == [("a", "uid-a", "5", "Background")]


async def test_a_tenants_garbage_is_collected_only_while_it_is_served() -> None:
    served: set[str] = set()
    server = Server(config_map("a", OWNER))
    collector = Collector(server, {}, Reporter(), serves=served.__contains__)  # type: ignore[arg-type]
    async with running(collector):
        await idle(collector)
        assert server.read == []
        served.add("acme")
        collector.begin_tenant("acme")
        await until(lambda: bool(server.deleted))
        served.clear()
        collector.end_tenant("acme")
        server.tell("ADDED", config_map("b", OWNER, version=9))
        await idle(collector)
    assert [name for name, *_ in server.deleted] == ["a"]


def definition(plural: str, *, established: bool = True) -> Envelope:
    kind = plural.capitalize()
    return Envelope(
        f"{plural}.example.com",
        "",
        f"uid-{plural}",
        "5",
        tenant="acme",
        spec=msgspec.json.encode(
            {
                "group": "example.com",
                "names": {"plural": plural, "kind": kind},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": True, "storage": True}],
            }
        ),
        status=msgspec.json.encode({"conditions": [{"type": "Established", "status": str(established)}]}),
    )


async def test_a_definition_too_many_is_told_and_followed_once_another_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(custom_resources, "MOST_CUSTOM", 2)
    reporter = Reporter()
    async with collecting(Server(), reporter) as collector:
        for plural in ("apples", "pears", "plums", "cherries"):
            collector._defined(Change(None, definition(plural)))
        collector._defined(Change(definition("plums"), definition("plums")))
        assert reporter.reasons == [LEFT_OUT, LEFT_OUT], "once each"
        assert collector.status()["customResources"] == 2
        assert collector.status()["customResourcesLeftOut"] == {"acme": 2}

        def known(kind: str) -> bool:
            with suppress(UnknownKind):
                collector._kind("acme", OwnerReference("example.com/v1", kind, "x", "u"))
                return True
            return False

        assert [known(each) for each in ("Apples", "Plums", "Cherries")] == [True, False, False]
        collector._defined(Change(definition("apples"), None))
        assert [known(each) for each in ("Apples", "Plums", "Cherries")] == [False, True, False]
        collector._defined(Change(definition("cherries"), None))
        assert collector.left_out() == 0
        collector._defined(Change(definition("plums"), definition("plums", established=False)))
        assert not known("Plums")
        collector.end_tenant("acme")
        assert not known("Pears")
        assert collector.status()["customResources"] == 0
