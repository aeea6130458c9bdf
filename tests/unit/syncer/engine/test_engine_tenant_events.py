"""Events told again: each once, the newest first state kept, and what stood before a restart without haste."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from engine_paper import PaperApi, refusal

from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.resources import EVENTS
from vcsync.syncer import tenant_events
from vcsync.syncer.kinds.event import TenantEvent
from vcsync.syncer.tenant_events import Destination, TenantEvents


def super_event(name: str) -> Envelope:
    body = {"lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return Envelope(name, "vcsync-1-acme-shop", f"uid-{name}", "5", rest=msgspec.json.encode(body))


class Tenant(PaperApi):
    """Notes how many writes are under way at once."""

    def __init__(self) -> None:
        super().__init__("tenant")
        self.under_way = 0
        self.most = 0

    async def create(self, *args: Any, **kwargs: Any) -> Envelope:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        try:
            return await super().create(*args, **kwargs)
        finally:
            self.under_way -= 1


class Desk:
    """The Events of a super cluster, handed in by hand, on their way to one tenant."""

    def __init__(self, *, repeated: bool = False) -> None:
        self.tenant = Tenant()
        self.events = TenantEvents(
            PaperApi("r1"),  # type: ignore[arg-type]
            concerns=lambda _: True,
            translate=lambda event: Destination(
                "acme",
                self.tenant,  # type: ignore[arg-type]
                TenantEvent("shop", event.name, {"metadata": {"name": event.name}}, {"count": 2}, repeated),
            ),
        )

    def arrive(self, *names: str) -> None:
        for name in names:
            assert self.events._take(super_event(name)) is False, "Events are not cached"

    def synced(self) -> None:
        self.events.reflector._synced.set()

    async def tell(self, count: int) -> None:
        """Run the writers until so many Events have been written or dropped."""
        writers = [
            asyncio.create_task(self.events._write_all(inbox))
            for inbox in (*([self.events._news] * tenant_events.WRITERS), self.events._stood)
        ]
        try:
            async with asyncio.timeout(5):
                while self.events.written + self.events.dropped < count:
                    await asyncio.sleep(0)
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.wait(writers)


async def test_what_stood_before_the_watch_is_told_one_by_one() -> None:
    desk = Desk()
    desk.arrive(*(f"old-{number}" for number in range(20)))
    desk.synced()
    await desk.tell(20)
    assert desk.events.written == 20
    assert desk.tenant.most == 1


async def test_news_do_not_wait_behind_what_stood_before() -> None:
    desk = Desk()
    desk.arrive(*(f"old-{number}" for number in range(20)))
    desk.synced()
    desk.arrive("new")
    await desk.tell(3)
    assert desk.tenant.has(EVENTS, "new", "shop")


async def test_a_newer_state_of_an_event_that_stood_replaces_it() -> None:
    desk = Desk()
    desk.arrive("same")
    desk.synced()
    desk.arrive("same")
    await desk.tell(1)
    await asyncio.sleep(0)
    assert [call[0] for call in desk.tenant.calls] == ["create"]


async def test_an_event_told_before_a_restart_costs_one_request_and_is_left_alone() -> None:
    desk = Desk()
    desk.synced()
    desk.tenant.put(EVENTS, {"metadata": {"name": "told"}}, "shop")
    desk.arrive("told")
    await desk.tell(1)
    assert [call[0] for call in desk.tenant.calls] == ["create"]


@pytest.mark.parametrize(("stands", "calls"), [(True, ["patch"]), (False, ["patch", "create"])])
async def test_a_repeated_event_is_counted_up_or_made(stands: bool, calls: list[str]) -> None:
    desk = Desk(repeated=True)
    desk.synced()
    if stands:
        desk.tenant.put(EVENTS, {"metadata": {"name": "again"}}, "shop")
    desk.arrive("again")
    await desk.tell(1)
    assert [call[0] for call in desk.tenant.calls] == calls
    assert desk.events.written == 1


async def test_a_refused_event_is_dropped_and_counted() -> None:
    desk = Desk(repeated=True)
    desk.synced()
    desk.tenant.failures["patch events"] = refusal(AlreadyExists, "odd", "tenant", code=409)
    desk.arrive("odd")
    await desk.tell(1)
    assert (desk.events.written, desk.events.dropped) == (0, 1)
