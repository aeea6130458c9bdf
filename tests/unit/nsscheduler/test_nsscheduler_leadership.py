"""A term as leader: the items that changes enqueue, and the amounts that count during writes."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterStatus
from vcsync.kube.cache import Cache, Change
from vcsync.kube.errors import Forbidden, NotFound, Status, Unauthorized, Unreachable
from vcsync.kube.resources import Resource
from vcsync.nsscheduler import leadership
from vcsync.nsscheduler.leadership import Leadership
from vcsync.nsscheduler.settings import Settings
from vcsync.objects.envelope import Envelope
from vcsync.scheduling.ledger import Entry
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.brake import Braked
from vcsync.tenancy.proof import WrongControlPlane

from .fakes import ROOT, Server, Tenant, changed

ONE_SLICE = {"cpu": "2", "memory": "4Gi"}


class MetaClient(Server):
    """A meta cluster that can lose the answer to a write, or the write itself, and cannot be read then."""

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
            control_plane=tenant.control_plane(),
        )
        self.term._owner_exists = self._everybody_stands  # type: ignore[method-assign]

    async def _everybody_stands(self, _placement: object) -> bool:
        return True

    async def look(self, namespace: str) -> None:
        await self.term._reconcile(ROOT, namespace)

    def placed(self, namespace: str) -> dict[str, int]:
        found: dict[str, int] = self.meta.objects[namespace].get("status", {}).get("placements", {})
        return found


async def test_a_slice_whose_write_was_not_answered_is_not_distributed_again() -> None:
    stage = Stage("first", "second")
    stage.meta.lost = "answer"
    with pytest.raises(Unreachable):
        await stage.look("first")
    stage.meta.lost = ""
    await stage.look("second")
    assert (stage.placed("first"), stage.placed("second")) == ({"r1": 1}, {})
    await stage.look("first")
    assert stage.term.ledger.get((ROOT, "first")).placements == {"r1": 1}  # type: ignore[union-attr]


async def test_a_slice_that_was_not_written_is_free_when_the_ledger_has_been_read() -> None:
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


async def test_slices_of_a_deleted_entry_are_free() -> None:
    stage = Stage("first", "second")
    stage.meta.lost = "answer"
    with pytest.raises(Unreachable):
        await stage.look("first")
    stage.meta.lost = ""
    del stage.meta.objects["first"]
    stage.term.placements.observe_gone(ROOT, "first", "uid-first")
    await stage.look("second")
    assert stage.placed("second") == {"r1": 1}


@pytest.mark.parametrize(
    ("name", "seconds", "has_event"),
    [
        ("new", 0, True),
        ("new", 30, True),
        ("new", 90, False),
        ("default", 0, False),
        ("kube-public", 0, False),
        ("vcsync-system", 0, False),
    ],
)
async def test_a_namespace_created_shortly_before_the_term_gets_an_event(
    name: str, seconds: int, has_event: bool
) -> None:
    stage = Stage()
    made = datetime.now(UTC) - timedelta(seconds=seconds)
    tenant, cache = Tenant(), Cache()
    tenant.put(name, {"metadata": {"creationTimestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ")}})
    found = tenant.read(name)
    assert found is not None
    cache.observe(found)
    session: Any = stage.term.tenants[ROOT]
    session.namespaces, session.hards, session.control_plane = (
        SimpleNamespace(cache=cache),
        lambda _namespace: (),
        tenant.control_plane(),
    )
    await stage.look(name)
    assert [event[1] for event in tenant.events] == (["NoQuota"] if has_event else [])


async def test_all_namespaces_are_enqueued_when_the_pods_of_a_slice_change() -> None:
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


async def test_waiting_namespaces_are_enqueued_once_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(leadership.time, "monotonic", lambda: now)
    term = Leadership(SimpleNamespace(name="meta"), Settings())  # type: ignore[arg-type]
    delays: list[float] = []
    woken: set[tuple[str, str]] = set()

    def add_after(tenant: str, namespace: str, delay: float) -> None:
        woken.add((tenant, namespace))
        delays.append(delay)

    term.work = SimpleNamespace(add_after=add_after)  # type: ignore[assignment]
    term.waiting["acme", "shop"] = None
    due: set[float] = set()
    for _ in range(100):
        term._wake_waiting()
        due.add(round(now + delays[-1], 6))
        now += 0.05
    assert woken == {("acme", "shop")}
    assert max(delays) <= 1.0
    assert len(due) <= 6, "no more often than once a second, in five"


CPU = from_quantities({"cpu": "1"})


@pytest.mark.parametrize(
    ("before", "after", "gave"),
    [
        pytest.param(None, Entry(CPU, {"r1": 1}), False, id="it is new"),
        pytest.param(Entry(CPU, {"r1": 1}), Entry(CPU, {"r1": 1}), False, id="the same"),
        pytest.param(Entry(CPU, {"r1": 1}), None, True, id="it is gone"),
        pytest.param(Entry(CPU, {"r1": 1}), Entry(CPU, {"r1": 2}), False, id="it holds more"),
        pytest.param(Entry(CPU, {"r1": 2}), Entry(CPU, {"r1": 1}), True, id="it holds less"),
        pytest.param(Entry(CPU, {"r1": 1}), Entry(CPU, {"r2": 1}), True, id="it moved"),
        pytest.param(Entry(CPU, {"r1": 1}), Entry({"cpu": 1500}, {"r1": 1}), True, id="other slices"),
        pytest.param(
            Entry(CPU, {"r1": 1}, {"r1": CPU}), Entry(CPU, {"r1": 1}), True, id="what it gave up was cleared"
        ),
        pytest.param(
            Entry(CPU, {"r1": 2}), Entry(CPU, {"r1": 1}, {"r1": CPU}), False, id="it is yet to be cleared"
        ),
        pytest.param(
            Entry(CPU, {"r1": 1}, {"r1": CPU}),
            Entry(CPU, {"r1": 2}),
            False,
            id="it took back what it gave up",
        ),
    ],
)
def test_waiting_namespaces_are_enqueued_when_amounts_are_freed(
    before: Entry | None, after: Entry | None, gave: bool
) -> None:
    assert leadership._frees_amounts(before, after) is gave


class Queue:
    """Takes the place of the work queue, and remembers what was added."""

    def __init__(self) -> None:
        self.added: list[tuple[str, str]] = []
        self.timeline = SimpleNamespace(add=lambda *_, **_others: None)

    def add(self, tenant: str, namespace: str) -> None:
        self.added.append((tenant, namespace))

    def add_after(self, tenant: str, namespace: str, _delay: float) -> None:
        self.added.append((tenant, namespace))


def test_namespaces_with_slices_on_a_drained_super_cluster_are_enqueued() -> None:
    stage = Stage()
    queue: Any = Queue()
    stage.term.work = queue
    stage.term.ledger.put((ROOT, "there"), Entry(CPU, {"r1": 1}))
    stage.term.ledger.put((ROOT, "elsewhere"), Entry(CPU, {"r2": 1}))
    stage.term._pool_changed()
    assert queue.added == []
    views = stage.term.pool.views
    views["r1"] = SuperView("r1", Health.READY, from_quantities(ONE_SLICE), draining=True)
    stage.term._pool_changed()
    assert queue.added == [(ROOT, "there")]


async def test_an_unreadable_entry_keeps_its_amounts() -> None:
    stage = Stage("first", "second")
    await stage.look("first")
    held = stage.term.ledger.get((ROOT, "first"))
    assert held is not None
    broken = stage.meta.objects["first"] | {"status": {"placements": 3}}
    stage.meta.put("first", broken)
    found = stage.meta.read("first")
    assert found is not None
    stage.term.placements.observe(found)
    assert stage.term.ledger.get((ROOT, "first")) == held
    await stage.look("second")
    assert stage.placed("second") == {}


@pytest.mark.parametrize("error", [Braked("too many"), WrongControlPlane("it is another one")])
async def test_a_placement_that_waits_for_an_operator_has_a_condition_and_is_retried(
    error: Exception,
) -> None:
    stage = Stage("first", "second")
    await stage.look("first")
    session: Any = stage.term.tenants[ROOT]

    async def refuse(_facts: object, what: str) -> None:
        assert what == "quota"
        raise error

    control_plane = session.control_plane
    session.hards, session.control_plane = (lambda _namespace: ()), changed(control_plane, withdraw=refuse)
    assert await stage.term._reconcile(ROOT, "first") == leadership._BRAKED_SECONDS
    assert stage.placed("first") == {"r1": 1}
    [condition] = [
        each
        for each in stage.meta.objects["first"]["status"]["conditions"]
        if each["type"] == leadership.BRAKED
    ]
    assert (condition["status"], condition["message"]) == ("True", str(error))
    plan = stage.term.outcomes[ROOT, "first"]
    assert (plan.reason, plan.message) == (leadership.BRAKED, str(error))
    assert stage.term.decisions[leadership.BRAKED] == 1
    session.hards = lambda _namespace: (ONE_SLICE,)
    await stage.look("second")
    assert stage.placed("second") == {}, "what waits is held"


async def test_the_message_of_the_brake_has_a_limited_length() -> None:
    stage = Stage("first")
    await stage.look("first")
    session: Any = stage.term.tenants[ROOT]

    async def refuse(*_: object) -> None:
        raise Braked("x" * 10_000)

    session.hards, session.control_plane = (
        (lambda _namespace: ()),
        changed(session.control_plane, withdraw=refuse),
    )
    await stage.look("first")
    messages = [each["message"] for each in stage.meta.objects["first"]["status"]["conditions"]]
    assert max(map(len, messages)) == leadership._LONGEST_MESSAGE


@pytest.mark.parametrize(("endpoint", "refused"), [("tenant", 1), ("meta", 0)])
async def test_credentials_that_the_tenant_refuses_are_read_again(endpoint: str, refused: int) -> None:
    stage = Stage("first")
    session: Any = stage.term.tenants[ROOT]
    calls: list[str] = []
    session.handle.refused = lambda: calls.append("refused")

    async def patch_namespace(*_: object) -> None:
        raise Unauthorized(Status(401), endpoint=endpoint)

    session.control_plane = changed(session.control_plane, patch_namespace=patch_namespace)
    with pytest.raises(Unauthorized):
        await stage.look("first")
    assert len(calls) == refused


async def test_an_entry_may_be_gone_after_a_write_without_an_answer() -> None:
    stage = Stage("first", "second")
    await stage.look("first")
    found = stage.meta.read("first")
    assert found is not None
    del stage.meta.objects["first"]
    stage.term._unanswered.add((ROOT, "first"))
    await stage.term._read_unanswered(ROOT, "first")
    assert stage.term.placements.cache.get(ROOT, "first") is None
    assert stage.term.ledger.get((ROOT, "first")) is None
    assert stage.term._unanswered == set()
    await stage.look("second")
    assert stage.placed("second") == {"r1": 1}


async def test_the_state_of_a_deleted_namespace_is_removed() -> None:
    stage = Stage("first")
    await stage.look("first")
    assert (ROOT, "first") in stage.term.outcomes
    assert (ROOT, "first") in stage.term._last_events
    session: Any = stage.term.tenants[ROOT]
    session.namespaces.cache.forget(session.namespaces.cache.get("", "first"))
    await stage.look("first")
    assert (ROOT, "first") not in stage.term.outcomes
    assert (ROOT, "first") not in stage.term._last_events


async def test_changes_of_state_are_counted_and_reported_once() -> None:
    stage = Stage("first", "second")
    session: Any = stage.term.tenants[ROOT]
    events: list[str] = []
    session.control_plane = changed(
        session.control_plane, emit=lambda _namespace, _kind, reason, _message: events.append(reason)
    )
    for _ in range(2):
        await stage.look("first")
        await stage.look("second")
    assert stage.term.decisions == {"Scheduled": 1, "FailedScheduling": 1}
    assert events == ["Scheduled", "FailedScheduling"]
    assert list(stage.term.waiting) == [(ROOT, "second")]
    stage.term.pool.views["r1"] = SuperView(
        "r1", Health.READY, from_quantities({"cpu": "8", "memory": "16Gi"})
    )
    await stage.look("second")
    assert stage.term.decisions == {"Scheduled": 2, "FailedScheduling": 1}
    assert events == ["Scheduled", "FailedScheduling", "Scheduled"]
    assert list(stage.term.waiting) == []


async def test_items_of_a_tenant_that_is_not_connected_are_skipped() -> None:
    stage = Stage()
    assert await stage.term._handle("root-nobody", leadership.REMAINS) is None
    assert await stage.term._handle("root-nobody", "shop") is None
    assert (stage.term.outcomes, stage.meta.objects) == ({}, {})


# Orders about a tenant that is not connected


def owner_of(spec: dict[str, Any], version: str, uid: str = "u") -> Envelope:
    status = b'{"clusterNamespace":"%s"}' % ROOT.encode()
    return Envelope("vc", "vcsync", uid, version, spec=json.dumps(spec).encode(), status=status)


class Away(Stage):
    """The tenant has a slice on r1, and then ends its session."""

    async def begin(self) -> None:
        await self.look("first")
        assert self.placed("first") == {"r1": 1}
        self.session = self.term.tenants.pop(ROOT)
        self.owner = owner_of({}, "1")
        self.term._virtual_cluster_changed(Change(None, self.owner))
        self.queue = Queue()
        self.term.work = self.queue  # type: ignore[assignment]

    def order(self, **spec: Any) -> None:
        before, self.owner = self.owner, owner_of(spec, f"{self.owner.resource_version}1")
        self.term._virtual_cluster_changed(Change(before, self.owner))


async def test_a_tenant_that_is_not_connected_is_suspended_and_drained() -> None:
    stage = Away("first")
    await stage.begin()
    one = from_quantities(ONE_SLICE)
    stage.term.pool.views |= {
        "r1": SuperView("r1", Health.READY, one, draining=True),
        "r2": SuperView("r2", Health.READY, one),
    }
    stage.term.drains.look()
    assert stage.queue.added == [(ROOT, "first")]
    await stage.look("first")
    assert stage.placed("first") == {"r2": 1}
    stage.queue.added.clear()
    stage.order(suspended=True)
    assert stage.queue.added == [(ROOT, "first")]
    await stage.look("first")
    assert stage.placed("first") == {}
    assert stage.meta.objects["first"]["status"]["conditions"][0]["reason"] == "Suspended"


async def test_the_cap_of_a_tenant_that_is_not_connected_can_be_lowered() -> None:
    stage = Away("first")
    await stage.begin()
    stage.order(quota={"cpu": "1"})
    await stage.look("first")
    assert stage.placed("first") == {}
    stage.order(quota={"cpu": "9"})
    await stage.look("first")
    assert stage.placed("first") == {}, "nothing is added without the tenant"
    stage.term.tenants[ROOT] = stage.session
    await stage.look("first")
    assert stage.placed("first") == {"r1": 1}


async def test_at_the_beginning_of_a_term_sessions_get_time_to_connect(monkeypatch: Any) -> None:
    stage = Away("first")
    await stage.begin()
    monkeypatch.setattr(leadership.time, "monotonic", lambda: 100.0)
    stage.term._sessions_due = 107.0
    stage.order(quota={"cpu": "1"})
    assert await stage.term._reconcile(ROOT, "first") == 7.0
    assert stage.placed("first") == {"r1": 1}
    stage.order(suspended=True)
    await stage.look("first")
    assert stage.placed("first") == {}, "whatever the tenant says, it gets nothing"


async def test_orders_of_another_virtual_cluster_with_the_same_key_do_not_count() -> None:
    stage = Away("first")
    await stage.begin()
    stage.term._virtual_cluster_changed(Change(None, owner_of({"suspended": True}, "9", "other")))
    await stage.look("first")
    stage.term._virtual_cluster_changed(Change(owner_of({}, "9", "other"), None))
    assert stage.placed("first") == {"r1": 1}
    assert stage.term._failover_of(ROOT) is not None
    stage.term._virtual_cluster_changed(Change(stage.owner, None))
    assert stage.term._failover_of(ROOT) is None
    await stage.look("first")
    assert stage.placed("first") == {"r1": 1}


async def test_slices_of_a_tenant_that_is_not_connected_leave_a_lost_super_cluster() -> None:
    """The claims of Pods are known only while the tenant answers."""
    stage = Away("first")
    await stage.begin()
    stage.order(failover={"policy": "MoveAfter", "afterSeconds": 0})
    failover = stage.term._failover_of(ROOT)
    assert failover is not None
    assert failover.policy == "MoveAfter"
    with pytest.raises(Unreachable):
        await stage.term._stateful_slices((ROOT, "first"), "r1")


async def test_a_mirror_that_the_tenant_refuses_holds_up_no_wave() -> None:
    stage = Stage("first")
    await stage.look("first")
    session: Any = stage.term.tenants[ROOT]
    decided: list[tuple[str, str]] = []
    stage.term.transfers.note_decided = lambda key, *_: decided.append(key)  # type: ignore[method-assign]

    async def refuse(*_: object) -> None:
        raise Forbidden(Status(403, message="a policy of the tenant"))

    session.control_plane = changed(session.control_plane, patch_namespace=refuse)
    stage.term.pool.views["r2"] = stage.term.pool.views.pop("r1")
    stage.term._super_cluster_is_gone = lambda _id: asyncio.sleep(0, True)  # type: ignore[method-assign, assignment]
    stage.term._may_lose = lambda *_: asyncio.sleep(0, True)  # type: ignore[method-assign, assignment]
    with pytest.raises(Forbidden):
        await stage.look("first")
    assert stage.placed("first") == {"r2": 1}
    assert decided == [(ROOT, "first")]


@pytest.mark.parametrize("uid", ["", "u-1"])
async def test_the_control_plane_of_a_tenant_is_known_while_it_is_connected(uid: str) -> None:
    stage = Stage()
    session: Any = stage.term.tenants[ROOT]
    session.handle.control_plane_uid = uid
    assert stage.term._control_plane_uid(ROOT) == uid
    assert stage.term._control_plane_uid("root-nobody") == ""


def test_a_release_is_read_from_the_tenant_that_it_concerns() -> None:
    stage = Stage()
    session: Any = stage.term.tenants[ROOT]
    session.handle.virtual_cluster = replace(
        session.handle.virtual_cluster, annotations={names.BRAKE_RELEASED: "2026-01-01T00:00:00+00:00"}
    )
    assert stage.term._released(ROOT) == datetime(2026, 1, 1, tzinfo=UTC)
    assert stage.term._released("root-nobody") is None
    stage.term.absence.released = datetime(2026, 2, 2, tzinfo=UTC)
    assert stage.term._released("") == datetime(2026, 2, 2, tzinfo=UTC)


def test_a_virtual_cluster_that_was_never_a_tenant_is_ignored() -> None:
    stage = Stage()
    queue: Any = Queue()
    stage.term.work = queue
    broken = Envelope("odd", "vcsync", "u", "1", spec=b'{"weight":"much"}')
    stage.term._virtual_cluster_changed(Change(broken, None))
    assert queue.added == []
    assert leadership._key_of(broken) == ""


@pytest.mark.parametrize(("deleting", "looked"), [(False, False), (True, True), (None, True)])
def test_all_items_of_a_deleted_virtual_cluster_are_enqueued(deleting: bool | None, looked: bool) -> None:
    stage = Stage("first")
    queue: Any = Queue()
    stage.term.work = queue
    status = b'{"clusterNamespace":"%s"}' % ROOT.encode()
    before = Envelope("vc", "vcsync", "u", "1", status=status)
    ended = "2026-01-01T00:00:00Z" if deleting else None
    after = replace(before, resource_version="2", deletion_timestamp=ended)
    stage.term._virtual_cluster_changed(Change(before, None if deleting is None else after))
    assert queue.added == ([(ROOT, "first"), (ROOT, "")] if looked else [])
