"""Events for tenants: each is written once, in its newest state, and earlier ones after recent ones."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from engine_paper import PaperApi, refusal

from vcsync.kube.cache import Change
from vcsync.kube.errors import AlreadyExists, Gone, Status
from vcsync.kube.resources import EVENTS
from vcsync.objects.envelope import Envelope
from vcsync.syncer import tenant_events
from vcsync.syncer.kinds.event import TenantEvent
from vcsync.syncer.tenant_events import Destination, NotYet, TenantEvents


def super_event(name: str, ahead: timedelta = timedelta()) -> Envelope:
    body = {"lastTimestamp": (datetime.now(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return Envelope(name, "vcsync-1-acme-shop", f"uid-{name}", "5", rest=msgspec.json.encode(body))


class Tenant(PaperApi):
    """Notes how many writes are under way at once."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__("tenant")
        self.hangs = hangs
        self.under_way = 0
        self.most = 0

    async def create(self, *args: Any, **kwargs: Any) -> Envelope:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await (asyncio.Event().wait() if self.hangs else asyncio.sleep(0))
        try:
            return await super().create(*args, **kwargs)
        finally:
            self.under_way -= 1


class Desk:
    """The Events of a super cluster, handed in by hand, on their way to tenants: an Event of `bad-...` goes to another."""

    def __init__(self, *, repeated: bool = False) -> None:
        self.tenant, self.bad = Tenant(), Tenant(hangs=True)
        self.repeated = repeated
        self.not_yet: set[str] = set()
        self.events = TenantEvents(
            PaperApi("r1"),  # type: ignore[arg-type]
            owner=owner,
            translate=self._translate,
        )

    def _translate(self, event: Envelope) -> Destination:
        tenant = owner(event)
        if tenant in self.not_yet:
            raise NotYet
        translated = TenantEvent(
            "shop", event.name, {"metadata": {"name": event.name}}, {"count": 2}, self.repeated
        )
        return Destination(tenant, self.bad if tenant == "bad" else self.tenant, translated)  # type: ignore[arg-type]

    def arrive(self, *names: str, ahead: timedelta = timedelta()) -> None:
        for name in names:
            self.events._take(Change(None, super_event(name, ahead)))

    def synced(self) -> None:
        self.events.reflector._state.listed("5")

    async def tell(self, count: int) -> None:
        """Write until so many Events have been written or dropped."""
        writing = asyncio.create_task(self._write())
        try:
            async with asyncio.timeout(5):
                while self.events.written + self.events.dropped < count:
                    await asyncio.sleep(0)
        finally:
            writing.cancel()
            await asyncio.wait([writing])
        assert writing.cancelled(), "the writers ended by themselves"

    async def _write(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self.events.begin(tasks)
            await asyncio.Event().wait()


def owner(event: Envelope) -> str:
    return "bad" if event.name.startswith("bad") else "acme"


async def test_earlier_events_are_written_one_at_a_time() -> None:
    desk = Desk()
    desk.arrive(*(f"old-{number}" for number in range(20)))
    desk.synced()
    await desk.tell(20)
    assert desk.events.written == 20
    assert desk.tenant.most == 1


async def test_recent_events_do_not_wait_for_earlier_ones() -> None:
    desk = Desk()
    desk.arrive(*(f"old-{number}" for number in range(20)))
    desk.synced()
    desk.arrive("new")
    await desk.tell(3)
    assert desk.tenant.has(EVENTS, "new", "shop")


async def test_recent_events_are_copied_despite_wrong_clocks() -> None:
    desk = Desk()
    desk.arrive("stood", ahead=timedelta(minutes=-1))
    desk.arrive("old", ahead=timedelta(minutes=-3))
    desk.synced()
    desk.arrive("behind", ahead=timedelta(hours=-1))
    desk.arrive("ahead", ahead=timedelta(hours=1))
    await desk.tell(3)
    assert {
        name for name in ("stood", "old", "behind", "ahead") if desk.tenant.has(EVENTS, name, "shop")
    } == {
        "stood",
        "behind",
        "ahead",
    }


async def test_events_of_a_later_list_are_limited_by_age() -> None:
    desk = Desk()
    desk.synced()
    desk.events.reflector._state.failed(Gone(Status(410, "Expired", ""), endpoint="r1"), 0.0)
    desk.arrive("old", ahead=timedelta(minutes=-3))
    desk.arrive("stood")
    await desk.tell(1)
    assert not desk.tenant.has(EVENTS, "old", "shop")


async def test_a_newer_state_replaces_an_earlier_event() -> None:
    desk = Desk()
    desk.arrive("same")
    desk.synced()
    desk.arrive("same")
    await desk.tell(1)
    await asyncio.sleep(0)
    assert [call[0] for call in desk.tenant.calls] == ["create"]


async def test_an_event_copied_before_a_restart_needs_one_request() -> None:
    desk = Desk()
    desk.synced()
    desk.tenant.put(EVENTS, {"metadata": {"name": "copied"}}, "shop")
    desk.arrive("copied")
    await desk.tell(1)
    assert [call[0] for call in desk.tenant.calls] == ["create"]


@pytest.mark.parametrize(("stands", "calls"), [(True, ["patch"]), (False, ["patch", "create"])])
async def test_a_repeated_event_is_updated_or_created(stands: bool, calls: list[str]) -> None:
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


async def test_a_control_plane_that_hangs_does_not_delay_other_tenants_events() -> None:
    desk = Desk()
    desk.arrive(*(f"bad-old-{number}" for number in range(50)), "old")
    desk.synced()
    desk.arrive(*(f"bad-{number}" for number in range(50)), "new")
    await desk.tell(2)
    assert desk.tenant.has(EVENTS, "new", "shop")
    assert desk.tenant.has(EVENTS, "old", "shop")
    assert desk.bad.most <= tenant_events.WRITERS + 1


async def test_a_tenant_that_is_never_synced_does_not_delay_other_tenants_events() -> None:
    desk = Desk()
    desk.not_yet.add("bad")
    desk.synced()
    desk.arrive(*(f"bad-{number}" for number in range(50)), "new")
    async with asyncio.timeout(0.4):
        await desk.tell(1)
    assert desk.tenant.has(EVENTS, "new", "shop")


async def test_a_tenant_with_too_many_events_loses_only_its_own() -> None:
    desk = Desk()
    desk.synced()
    desk.arrive("new", *(f"bad-{number}" for number in range(tenant_events.BACKLOG + 10)))
    assert desk.events.dropped == 10
    await desk.tell(11)
    assert desk.tenant.has(EVENTS, "new", "shop")


async def test_the_queue_of_a_tenant_is_removed_when_its_events_are_written() -> None:
    desk = Desk()
    desk.arrive("old")
    desk.synced()
    desk.arrive("new")
    await desk.tell(2)
    assert desk.events._recent == desk.events._earlier == {}


async def test_a_closed_client_does_not_affect_other_tenants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    desk.synced()
    create = desk.tenant.create

    async def closed(*args: Any, **kwargs: Any) -> Envelope:
        if args[1]["metadata"]["name"] == "late":
            raise RuntimeError("acme: the client is closed")
        return await create(*args, **kwargs)

    monkeypatch.setattr(desk.tenant, "create", closed)
    desk.arrive("late", "other")
    await desk.tell(2)
    assert (desk.events.written, desk.events.dropped) == (1, 1)
