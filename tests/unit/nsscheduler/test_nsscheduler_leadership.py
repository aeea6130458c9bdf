"""What a term as leader makes of news: who is looked at when, and what counts while it is being written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterStatus
from vcsync.kube.cache import Cache
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import NotFound, Status, Unreachable
from vcsync.kube.resources import Resource
from vcsync.nsscheduler import leadership
from vcsync.nsscheduler.leadership import Leadership
from vcsync.nsscheduler.settings import Settings
from vcsync.scheduling.ledger import Entry
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import Health, SuperView

from .fakes import ROOT, Server, Tenant

ONE_SLICE = {"cpu": "2", "memory": "4Gi"}


class MetaClient(Server):
    """A meta cluster that loses the answer to a write when told to, or the write itself, and cannot be read then."""

    name = "meta"

    def __init__(self) -> None:
        super().__init__()
        self.lost = ""

    async def create(self, _resource: Resource, body: dict[str, Any], _namespace: str) -> Envelope:
        self.put(body["metadata"]["name"], body)
        found = self.read(body["metadata"]["name"])
        assert found is not None
        return found

    async def patch(  # type: ignore[override]
        self, _resource: Resource, name: str, patch: dict[str, Any], _namespace: str, *, subresource: str
    ) -> Envelope:
        if self.lost != "write":
            answer = super().patch(name, patch, status=subresource == "status")
        if self.lost:
            raise Unreachable("cut", endpoint=self.name)
        return answer

    async def get(self, _resource: Resource, name: str, _namespace: str) -> Envelope:
        if self.lost:
            raise Unreachable("cut", endpoint=self.name)
        found = self.read(name)
        if found is None:
            raise NotFound(Status(404))
        return found


class Stage:
    """A term with one connected tenant, whose namespaces want a slice each, and a pool that has one."""

    def __init__(self, *namespaces: str) -> None:
        self.meta = MetaClient()
        self.term = Leadership(self.meta, Settings())  # type: ignore[arg-type]
        self.term.pool.views["r1"] = SuperView("r1", Health.READY, from_quantities(ONE_SLICE))
        tenant, cache = Tenant(), Cache()
        for name in namespaces:
            tenant.put(name, {})
            found = tenant.read(name)
            assert found is not None
            cache.observe(found)
        owner = VirtualCluster(
            name="vc", namespace="vcsync", uid="u", status=VirtualClusterStatus(cluster_namespace=ROOT)
        )
        self.term.tenants[ROOT] = SimpleNamespace(  # type: ignore[assignment]
            handle=SimpleNamespace(virtual_cluster=owner, client=SimpleNamespace(name="tenant")),
            namespaces=SimpleNamespace(cache=cache),
            withdrawal=SimpleNamespace(settled=lambda _: None),
            hards=lambda _namespace: (ONE_SLICE,),
            door=tenant.door(),
        )
        self.term._owner_is_gone = self._nobody_is_gone  # type: ignore[method-assign]

    async def _nobody_is_gone(self, _placement: object) -> bool:
        return False

    async def look(self, namespace: str) -> None:
        await self.term._look_at(ROOT, namespace)

    def placed(self, namespace: str) -> dict[str, int]:
        found: dict[str, int] = self.meta.objects[namespace].get("status", {}).get("placements", {})
        return found


async def test_a_slice_whose_writing_was_never_answered_is_not_given_away() -> None:
    stage = Stage("first", "second")
    stage.meta.lost = "answer"
    with pytest.raises(Unreachable):
        await stage.look("first")
    stage.meta.lost = ""
    await stage.look("second")
    assert (stage.placed("first"), stage.placed("second")) == ({"r1": 1}, {})
    await stage.look("first")
    assert stage.term.ledger.get((ROOT, "first")).placements == {"r1": 1}  # type: ignore[union-attr]


async def test_a_slice_that_was_never_written_is_free_as_soon_as_that_is_known() -> None:
    stage = Stage("first", "second")
    stage.meta.lost = "write"
    with pytest.raises(Unreachable):
        await stage.look("first")
    with pytest.raises(Unreachable):
        await stage.look("first")
    stage.meta.lost = ""
    session = stage.term.tenants.pop(ROOT)  # its tenant cannot be reached at present
    await stage.look("first")
    stage.term.tenants[ROOT] = session
    await stage.look("second")
    assert stage.placed("second") == {"r1": 1}


async def test_what_was_lost_with_its_entry_is_free() -> None:
    stage = Stage("first", "second")
    stage.meta.lost = "answer"
    with pytest.raises(Unreachable):
        await stage.look("first")
    stage.meta.lost = ""
    del stage.meta.objects["first"]
    stage.term.placements.observe_gone(ROOT, "first", "uid-first")
    await stage.look("second")
    assert stage.placed("second") == {"r1": 1}


@pytest.mark.parametrize(("seconds", "told"), [(0, True), (30, True), (90, False)])
async def test_a_namespace_made_while_perhaps_nobody_led_hears_that_it_needs_a_quota(
    seconds: int, told: bool
) -> None:
    stage = Stage()
    made = datetime.now(UTC) - timedelta(seconds=seconds)
    tenant, cache = Tenant(), Cache()
    tenant.put("new", {"metadata": {"creationTimestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ")}})
    found = tenant.read("new")
    assert found is not None
    cache.observe(found)
    session: Any = stage.term.tenants[ROOT]
    session.namespaces, session.hards, session.door = (
        SimpleNamespace(cache=cache),
        lambda _namespace: (),
        tenant.door(),
    )
    await stage.look("new")
    assert [event[1] for event in tenant.events] == (["NoQuota"] if told else [])


async def test_everyone_is_looked_at_when_slices_are_to_have_other_pods_and_not_for_a_node_more() -> None:
    stage = Stage("first", "second")
    looked: list[str] = []
    stage.term.work = SimpleNamespace(add=lambda _tenant, namespace: looked.append(namespace))  # type: ignore[assignment]
    for pods, expected in (("100", 2), ("110", 0), ("200", 2), ("200", 0)):
        capacity = from_quantities({"cpu": "20", "memory": "40Gi", "pods": pods})
        stage.term.pool.views["r1"] = SuperView("r1", Health.READY, capacity)
        looked.clear()
        stage.term._pool_changed()
        assert len(looked) == expected, pods
    stage.term.pool.views["r1"] = SuperView("r1", Health.SUSPECT, {})  # none of its nodes is ready
    looked.clear()
    stage.term._pool_changed()
    assert looked == []


async def test_whoever_waits_is_looked_at_within_a_second_however_often_the_pool_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(leadership.time, "monotonic", lambda: now)
    term = Leadership(SimpleNamespace(name="meta"), Settings())  # type: ignore[arg-type]
    delays: list[float] = []
    term.work = SimpleNamespace(add_after=lambda _tenant, _namespace, delay: delays.append(delay))  # type: ignore[assignment]
    term.waiting["acme", "shop"] = None
    due: set[float] = set()
    for _ in range(100):
        term._wake_waiting()
        due.add(round(now + delays[-1], 6))
        now += 0.05
    assert max(delays) <= 1.0
    assert len(due) <= 6, "no more often than once a second, in five"


def test_whoever_waits_hears_of_what_was_cleared() -> None:
    size = from_quantities({"cpu": "1"})
    before = Entry(size, {"r1": 1}, {"r1": size})
    assert leadership._gave_back(before, Entry(size, {"r1": 1}))
    assert not leadership._gave_back(Entry(size, {"r1": 2}), before), "nothing is free yet"
    assert not leadership._gave_back(before, Entry(size, {"r1": 2}))
