"""Tenants that bring their own controllers are not reconciled while they are marked."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from vcsync.api.names import EXTERNAL_CONTROLLERS
from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import NOTHING, Controller, Plan, View, Watch
from vcsync.controllers.manager.term import Term
from vcsync.kube.resources import CONFIG_MAPS, SECRETS, Resource
from vcsync.objects.envelope import Envelope, WatchEvent


class Server:
    """A control plane that has Secrets, and in the operator's space the marks of tenants with their own controllers."""

    name = "server"

    def __init__(self, secrets: Sequence[Envelope], marks: Sequence[Envelope]) -> None:
        self.first = {SECRETS: list(secrets), CONFIG_MAPS: list(marks)}
        self.news: dict[Resource, asyncio.Queue[WatchEvent]] = {each: asyncio.Queue() for each in self.first}
        self.marks_may_be_read = asyncio.Event()

    def below(self, _prefix: str) -> "Server":
        return self

    def across_tenants(self) -> "Server":
        return self

    def metadata_only(self) -> "Server":
        return self

    async def request(self, *_: Any, **__: Any) -> bytes:
        return msgspec.json.encode({"items": []})

    async def watch_batches(
        self, resource: Resource, *_: Any, **__: Any
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        if resource == CONFIG_MAPS:
            await self.marks_may_be_read.wait()
        end = Envelope("", resource_version="100", annotations={"k8s.io/initial-events-end": "true"})
        first = self.first.get(resource, [])
        yield [*(WatchEvent("ADDED", each) for each in first), WatchEvent("BOOKMARK", end)]
        while True:
            yield [await (self.news[resource].get() if resource in self.news else asyncio.Future())]

    def tell(self, resource: Resource, kind: str, envelope: Envelope) -> None:
        self.news[resource].put_nowait(WatchEvent(kind, envelope))  # type: ignore[arg-type]


def secret(tenant: str, name: str, version: int = 5) -> Envelope:
    return Envelope(name, "default", f"{tenant}-{name}", str(version), tenant=tenant)


def mark(tenant: str, version: int = 6) -> Envelope:
    labels = {EXTERNAL_CONTROLLERS: tenant}
    return Envelope(f"{tenant}.controllers", "kube-system", f"mark-{tenant}", str(version), labels=labels)


@asynccontextmanager
async def working(server: Server) -> AsyncIterator[tuple[Term, list[tuple[str, str]]]]:
    seen: list[tuple[str, str]] = []

    def plan(_look: View, key: Key) -> Plan:
        seen.append((key.tenant, key.name))
        return NOTHING

    term = Term(server, [Controller("looker", (Watch(SECRETS, own),), plan)])  # type: ignore[arg-type]
    task = asyncio.create_task(term.run())
    try:
        yield term, seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not happened():
            await asyncio.sleep(0)


async def test_nothing_is_reconciled_before_external_tenants_are_known() -> None:
    server = Server([secret("acme", "a"), secret("umbrella", "b")], [mark("acme")])
    async with working(server) as (term, seen):
        for _ in range(50):
            await asyncio.sleep(0)
        assert seen == []
        server.marks_may_be_read.set()
        await until(lambda: ("umbrella", "b") in seen)
        assert term.status()["externalControllers"] == ["acme"]
    assert seen == [("umbrella", "b")]


async def test_controllers_stop_and_start_with_the_mark() -> None:
    server = Server([secret("acme", "a")], [])
    server.marks_may_be_read.set()
    async with working(server) as (term, seen):
        await until(lambda: seen == [("acme", "a")])
        server.tell(CONFIG_MAPS, "ADDED", mark("acme", 101))
        await until(lambda: term.externals.names() == ["acme"])
        server.tell(SECRETS, "ADDED", secret("acme", "b", 102))
        server.tell(SECRETS, "ADDED", secret("umbrella", "c", 103))
        await until(lambda: ("umbrella", "c") in seen)
        assert ("acme", "b") not in seen
        server.tell(CONFIG_MAPS, "DELETED", mark("acme", 104))
        await until(lambda: ("acme", "b") in seen)
    assert sorted(seen) == [("acme", "a"), ("acme", "a"), ("acme", "b"), ("umbrella", "c")]


async def test_queued_work_is_dropped_when_the_mark_appears() -> None:
    server = Server([secret("acme", "a")], [])
    server.marks_may_be_read.set()
    async with working(server) as (term, seen):
        await until(lambda: bool(seen))
        term.engine.wake("looker", Key("acme", "default", "later"), 3600)
        server.tell(CONFIG_MAPS, "ADDED", mark("acme", 101))
        await until(lambda: term.externals.names() == ["acme"])
        assert term.engine.work.queue.statistics().delayed == 0
