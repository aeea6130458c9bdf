"""Pods leave lost super clusters by eviction, in waves; those whose end nobody knows remain until a fence confirms it."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api.names import COPY_FINALIZER
from vcsync.api.refusals import RETURNED, WITHDRAWN, Said
from vcsync.api.specs import STAY, Failover
from vcsync.kube.errors import Conflict, Forbidden, NotFound, Status, TooManyRequests
from vcsync.podscheduler import evictions
from vcsync.podscheduler.accounting import Assign, Await, PodAccounting, Withdraw
from vcsync.podscheduler.evictions import EVICTED, FENCED, Evictions, PodRemover, Stand
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.revisits import Reason
from vcsync.podscheduler.stranded import confirmed, stranded
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.shares import Share
from vcsync.scheduling.snapshot import Health, SuperView

MOVE = Failover(policy="MoveAfter", after_seconds=60)
STATELESS = Failover(policy="MoveStateless", after_seconds=60)
ONE = {"shop": {"cpu": 100}}


def pod(name: str, *, on: str = "r2", cpu: int = 50, claims: tuple[str, ...] = (), **fields: Any) -> Pod:
    needs = PodNeeds(requests={"cpu": cpu}, node=f"n1.{on}", claims=claims)
    fields = {"deleting": False, "waiting_message": "", **fields}
    return Pod("shop", name, f"uid-{name}", "1", needs, on, on, **fields)


def unbound(name: str, **fields: Any) -> Pod:
    return replace(pod(name, **fields), needs=PodNeeds(requests={"cpu": 50}))


GIVEN_BACK = {"r2": Said(RETURNED)}


def names_of(pods: Iterable[Pod]) -> list[str]:
    return [each.name for each in pods]


@pytest.mark.parametrize(
    ("pods", "capacity", "expected"),
    [
        ([pod("a"), pod("b")], {}, ["a", "b"]),
        ([pod("a"), pod("b")], ONE, []),
        ([unbound("a", generated=True), unbound("db-0")], {}, ["a"]),
        ([unbound("a", generated=True, said=GIVEN_BACK), unbound("b", generated=True, on="r1")], {}, []),
        ([pod("a"), pod("b"), pod("c")], ONE, ["c"]),
        ([pod("a"), pod("b"), pod("z", claims=("data",))], ONE, ["b"]),
        ([pod("a"), pod("b", on="r1")], {}, ["a"]),
        ([pod("a", deleting=True), pod("b")], {}, ["b"]),
    ],
)
def test_pods_without_a_part_in_the_slices_that_are_left_are_stranded(pods, capacity, expected):
    assert names_of(stranded(pods, "r2", capacity)) == expected


def test_the_end_of_pods_that_are_being_deleted_is_confirmed():
    pods = [pod("a", deleting=True), pod("b"), pod("c", on="r1", deleting=True)]
    assert names_of(confirmed(pods, "r2")) == ["a"]


class Stage:
    """A pool whose super cluster r2 is lost, and one tenant."""

    def __init__(self) -> None:
        self.views: dict[str, SuperView] = {}
        self.held = False
        self.lasts = 60.0
        self.now = 0.0
        self.pods: list[Pod] = []
        self.policy = MOVE
        self.done: list[tuple[str, str]] = []
        self.refuse = False
        self.lifted = False
        self.capacity: dict[str, dict[str, int]] = {}
        self.room: list[Share] = []
        self.replaces = False
        self.fail: Exception | None = None
        self.calls = 0
        self.see()
        self.evictions = Evictions(
            self,  # type: ignore[arg-type]
            self.is_fenced,
            self.tenants,
            Random(7),
            lambda: self.now,
        )

    async def look(self) -> None:
        """Send one wave, and wait for its end."""
        async with asyncio.TaskGroup() as tasks:
            self.evictions.look(tasks.create_task)

    def see(self, health: Health = Health.LOST, **fields: Any) -> None:
        self.views = {"r2": SuperView("r2", health, {}, out_of_touch="no heartbeat", **fields)}

    def lost(self) -> dict[str, float]:
        return {each.id: self.lasts for each in self.views.values() if each.health is Health.LOST}

    async def is_fenced(self, _super_id: str) -> bool:
        return not self.lifted

    def tenants(self) -> dict[str, Stand]:
        return {
            "acme": Stand(
                self.policy,
                lambda: list(self.pods),
                lambda _: self.capacity,
                lambda *_: self.room,
                self,
                self.replaces,
            )
        }

    async def evict(self, found: Pod, _why: str) -> bool:
        return not self.refuse and self.did("evict", found)

    async def delete(self, found: Pod, _why: str) -> None:
        self.did("delete", found)

    async def confirm(self, found: Pod, _why: str) -> None:
        self.did("confirm", found)

    def did(self, what: str, found: Pod) -> bool:
        self.calls += 1
        if self.fail is not None:
            raise self.fail
        self.done.append((what, found.name))
        return True


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_the_first_wave_of_a_term_does_not_follow_the_last_one_of_another_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[tuple[float, int]] = []
    waves: list[object] = []

    async def sleep(seconds: float) -> None:
        waits.append((seconds, len(waves)))
        if len(waits) > 1:
            raise asyncio.CancelledError

    monkeypatch.setattr(evictions.asyncio, "sleep", sleep)
    monkeypatch.setattr(stage.evictions, "look", waves.append)
    with pytest.raises(asyncio.CancelledError):
        await stage.evictions.run()
    assert waits == [(evictions.LOOK_SECONDS, 0), (evictions.LOOK_SECONDS, 1)]


async def test_pods_are_evicted_in_waves(stage: Stage) -> None:
    stage.pods = [pod(f"p{number:02}") for number in range(25)]
    await stage.look()
    assert len(stage.done) == len(set(stage.done)) == 10
    assert {what for what, _ in stage.done} == {"evict"}
    assert stage.evictions.counts["evicted"] == 10


@pytest.mark.parametrize(
    ("policy", "lasts", "held", "health"),
    [
        (STAY, 1e9, False, Health.LOST),
        (MOVE, 59.0, False, Health.LOST),
        (MOVE, 1e9, True, Health.LOST),
        (MOVE, 1e9, False, Health.SUSPECT),
    ],
)
async def test_pods_stay(policy: Failover, lasts: float, held: bool, health: Health) -> None:
    stage = Stage()
    stage.pods, stage.policy, stage.lasts, stage.held = [pod("a")], policy, lasts, held
    stage.see(health)
    await stage.look()
    assert stage.done == []


async def test_pods_with_claims_stay_if_the_policy_says_so(stage: Stage) -> None:
    stage.pods, stage.policy = [pod("a", claims=("data",)), pod("b")], STATELESS
    await stage.look()
    assert stage.done == [("evict", "b")]


async def test_pods_without_claims_leave_slices_that_stay_for_others_if_there_is_room(stage: Stage) -> None:
    stage.pods, stage.policy = [pod("a"), pod("b"), pod("c", claims=("data",))], STATELESS
    stage.capacity, stage.room = {"shop": {"cpu": 1000}}, [Share("r1", {"cpu": 100}, {"cpu": 40})]
    await stage.look()
    assert stage.done == [("evict", "a")]


async def test_pods_with_a_part_in_the_slices_stay_if_all_may_move(stage: Stage) -> None:
    stage.pods, stage.capacity = [pod("a")], {"shop": {"cpu": 1000}}
    stage.room = [Share("r1", {"cpu": 100}, {})]
    await stage.look()
    assert stage.done == []


TAKEN_BACK = {"r2": Said(WITHDRAWN)}
LARGE = {"shop": {"cpu": 1000}}


def room_for_one() -> list[Share]:
    return [Share("r1", {"cpu": 100}, {"cpu": 40})]


@pytest.mark.parametrize(
    ("health", "capacity", "room", "expected"),
    [
        pytest.param(Health.LOST, LARGE, True, ["a", "left"], id="room elsewhere for one"),
        pytest.param(Health.LOST, LARGE, False, ["left"], id="no room elsewhere"),
        pytest.param(Health.LOST, {}, False, ["a", "b", "left"], id="all slices have left"),
        pytest.param(Health.SUSPECT, LARGE, True, ["left"], id="suspect"),
        pytest.param(Health.SUSPECT, {}, False, ["a", "b", "left"], id="suspect, and all slices have left"),
    ],
)
async def test_pods_that_may_have_started_are_replaced_at_once_if_the_policy_says_so(
    health: Health, capacity: dict[str, dict[str, int]], room: bool, expected: list[str]
) -> None:
    stage = Stage()
    stage.policy, stage.replaces, stage.capacity, stage.room = (
        STAY,
        True,
        capacity,
        room_for_one() if room else [],
    )
    with_claim = replace(unbound("c", generated=True), needs=PodNeeds(requests={"cpu": 50}, claims=("data",)))
    stage.pods = [
        unbound("a", generated=True),
        unbound("b", generated=True),
        with_claim,
        unbound("db-0"),
        unbound("left", generated=True, said=TAKEN_BACK),
        unbound("given-back", generated=True, said=GIVEN_BACK),
        unbound("ends", generated=True, deleting=True),
        pod("bound", generated=True),
    ]
    stage.see(health)
    await stage.look()
    assert sorted(stage.done) == [("evict", each) for each in expected]


@pytest.mark.parametrize(
    ("replaces", "held", "health", "fields"),
    [
        pytest.param(False, False, Health.LOST, {}, id="the default"),
        pytest.param(True, True, Health.LOST, {}, id="most of the pool has vanished"),
        pytest.param(True, False, Health.LOST, {"fenced": True}, id="a fence lets them move as they are"),
    ],
)
async def test_pods_that_may_have_started_wait_otherwise(
    replaces: bool, held: bool, health: Health, fields: dict[str, Any]
) -> None:
    stage = Stage()
    stage.policy, stage.replaces, stage.held = STAY, replaces, held
    stage.pods = [unbound("a", generated=True)]
    stage.see(health, **fields)
    await stage.look()
    assert stage.done == []


async def test_pods_that_stay_on_a_fenced_super_cluster_are_replaced_elsewhere(stage: Stage) -> None:
    stage.policy, stage.replaces, stage.capacity, stage.room = STAY, True, LARGE, room_for_one()
    stage.pods = [unbound("a", generated=True), unbound("left", generated=True, said=TAKEN_BACK)]
    stage.see(fenced=True)
    await stage.look()
    assert stage.done == [("evict", "a")]


async def test_pods_of_a_super_cluster_that_answers_are_not_replaced(stage: Stage) -> None:
    stage.replaces, stage.pods = True, [unbound("a", generated=True)]
    stage.views = {"r2": SuperView("r2", Health.RECOVERING, {})}
    await stage.look()
    assert stage.done == []


async def test_a_pod_that_leaves_by_both_policies_leaves_once(stage: Stage) -> None:
    stage.replaces, stage.pods = True, [unbound("a", generated=True), pod("b")]
    await stage.look()
    assert sorted(stage.done) == [("evict", "a"), ("evict", "b")]


@pytest.mark.parametrize(
    ("health", "fields", "expected"),
    [
        (Health.READY, {}, ["r1"]),
        (Health.SUSPECT, {}, []),
        (Health.READY, {"cordoned": True}, []),
        (Health.READY, {"draining": True}, []),
    ],
)
def test_there_is_room_only_where_pods_may_go(health: Health, fields: Any, expected: list[str]) -> None:
    accounting = PodAccounting()
    accounting.grant("shop", {"cpu": 100}, {"r1": 1, "r2": 1})
    views = {"r1": SuperView("r1", health, {}, **fields), "r2": SuperView("r2", Health.LOST, {})}
    assert [each.super_id for each in accounting.room_elsewhere("shop", "r2", views)] == expected
    waiting = Pod("shop", "w", "u", "1", PodNeeds(), "", "", deleting=False, waiting_message="")
    accounting.update(waiting)
    assert accounting.room_elsewhere("shop", "r2", views) == []


@pytest.mark.parametrize(
    ("health", "fields", "verdict"),
    [
        (Health.LOST, {}, Await),
        (Health.SUSPECT, {"out_of_touch": "no heartbeat"}, Await),
        (Health.RECOVERING, {}, Withdraw),
        (Health.READY, {}, Withdraw),
        (Health.LOST, {"fenced": True}, Assign),
    ],
)
@pytest.mark.parametrize("generated", [False, True])
def test_an_unbound_pod_stays_while_it_may_run_where_its_slices_have_left(
    health: Health, fields: Any, verdict: type, generated: bool
) -> None:
    accounting = PodAccounting()
    accounting.grant("shop", {"cpu": 100}, {"r1": 1})
    views = {"r1": SuperView("r1", Health.READY, {}), "r2": SuperView("r2", health, {}, **fields)}
    found = replace(pod("db-0"), needs=PodNeeds(requests={"cpu": 50}), generated=generated)
    accounting.update(found)
    assert isinstance(accounting.decide(found, views), verdict)
    assert found.key in accounting.concerned(Reason(supers=frozenset({"r2"})))


async def test_a_budget_is_honoured_until_its_time_is_over(stage: Stage) -> None:
    stage.pods, stage.refuse = [pod("a")], True
    stage.see(eviction_seconds=100)
    await stage.look()
    stage.now = 99.0
    await stage.look()
    assert stage.done == []
    stage.now = 100.0
    await stage.look()
    assert stage.done == [("delete", "a")]


async def test_a_new_loss_gives_budgets_their_time_again(stage: Stage) -> None:
    stage.pods, stage.refuse = [pod("a")], True
    stage.see(eviction_seconds=100)
    await stage.look()
    stage.see(Health.READY)
    await stage.look()
    stage.see(eviction_seconds=100)
    stage.now = 150.0
    await stage.look()
    assert stage.done == []


async def test_budgets_do_not_count_if_the_operator_says_so(stage: Stage) -> None:
    stage.pods, stage.refuse = [pod("a")], True
    stage.see(eviction_seconds=0)
    await stage.look()
    assert stage.done == [("delete", "a")]


async def test_only_a_fence_confirms_the_end_of_a_pod(stage: Stage) -> None:
    stage.pods, stage.policy = [pod("a", deleting=True), pod("b")], STAY
    await stage.look()
    assert stage.done == []
    stage.see(fenced=True)
    await stage.look()
    await stage.look()
    assert stage.done == [("confirm", "a")]


async def test_a_fence_that_was_lifted_meanwhile_confirms_nothing(stage: Stage) -> None:
    stage.pods, stage.policy, stage.lifted = [pod("a", deleting=True)], STAY, True
    stage.see(fenced=True)
    await stage.look()
    assert stage.done == []


async def test_a_fence_confirms_ends_also_while_most_of_the_pool_is_out_of_touch(stage: Stage) -> None:
    stage.pods, stage.held = [pod("a", deleting=True), pod("b")], True
    stage.see(fenced=True)
    await stage.look()
    assert stage.done == [("confirm", "a")]


async def test_a_tenant_that_refuses_is_left_alone_for_a_while(stage: Stage) -> None:
    stage.pods, stage.fail = [pod("a")], Forbidden(Status(403, message="old roles"))
    for _ in range(3):
        await stage.look()
    assert stage.calls == 1
    stage.fail, stage.now = None, 60.0
    await stage.look()
    assert stage.done == [("evict", "a")]


async def test_the_first_refusal_ends_a_tenants_part_of_the_wave(stage: Stage) -> None:
    stage.pods = [pod(f"p{number:02}") for number in range(10)]
    stage.fail = Forbidden(Status(403, message="old roles"))
    await stage.look()
    assert stage.calls == 1


async def test_a_tenant_that_does_not_answer_delays_no_other(stage: Stage) -> None:
    quick, answer = Stage(), asyncio.Event()
    stage.pods, quick.pods = [pod("slow")], [pod("quick")]

    async def evict(_found: Pod, _why: str) -> bool:
        return await answer.wait()

    stage.evict = evict  # type: ignore[method-assign]
    both = {**stage.tenants(), "umbrella": quick.tenants()["acme"]}
    stage.evictions = Evictions(
        stage,  # type: ignore[arg-type]
        stage.is_fenced,
        lambda: both,
        Random(7),
        lambda: 0.0,
    )
    async with asyncio.TaskGroup() as tasks:
        for name in ("quick", "later"):
            quick.pods = [pod(name)]
            stage.evictions.look(tasks.create_task)
            async with asyncio.timeout(10):
                while ("evict", name) not in quick.done or "umbrella" in stage.evictions._busy:
                    await asyncio.sleep(0)
        answer.set()
    assert stage.evictions.counts["evicted"] == 3


class Server:
    """A tenant's API that answers as it is told."""

    def __init__(self, answer: Exception | object | None = None) -> None:
        self.answer = answer
        self.sent: list[tuple[str, Any]] = []
        self.events: list[str] = []
        self.gone: list[str] = []

    def take(self, what: str, detail: Any) -> Any:
        self.sent.append((what, detail))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def create_raw(self, _resource: Any, body: Any, _namespace: str, **names: str) -> None:
        self.take(names["subresource"], body)

    async def delete(self, _resource: Any, _name: str, _namespace: str, **options: Any) -> Any:
        return self.take("delete", options)

    async def patch(self, _resource: Any, _name: str, patch: Any, _namespace: str, **options: str) -> None:
        self.sent.append((options.get("subresource", ""), patch))

    def emit(self, _subject: Any, _kind: str, reason: str, _message: str, *, now: float) -> None:
        assert now
        self.events.append(reason)

    def remover(self) -> PodRemover:
        return PodRemover(self, self, lambda *key: self.gone.append(key[2]))  # type: ignore[arg-type]


async def test_an_eviction_names_the_pod_by_its_uid() -> None:
    server = Server()
    assert await server.remover().evict(pod("a"), "r2 is lost")
    [(what, body)] = server.sent
    assert (what, body["kind"]) == ("eviction", "Eviction")
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-a"}}
    assert server.events == [EVICTED]


@pytest.mark.parametrize(
    ("error", "evicted", "gone"),
    [
        (NotFound(Status(404)), True, ["uid-a"]),
        (Conflict(Status(409)), True, []),
        (TooManyRequests(Status(429)), False, []),
    ],
)
async def test_an_eviction_that_is_refused_tells_the_tenant_nothing(
    error: Exception, evicted: bool, gone: list[str]
) -> None:
    server = Server(error)
    assert await server.remover().evict(pod("a"), "r2 is lost") is evicted
    assert (server.events, server.gone) == ([], gone)


async def test_a_deletion_after_the_time_of_budgets_keeps_the_grace_period() -> None:
    server = Server()
    await server.remover().delete(pod("a"), "r2 is lost")
    assert server.sent == [("delete", {"uid": "uid-a"})]
    assert server.events == [EVICTED]


async def test_a_confirmed_pod_is_removed_at_once() -> None:
    server = Server()
    await server.remover().confirm(pod("a", deleting=True), "fenced")
    assert server.sent == [("delete", {"uid": "uid-a", "grace_seconds": 0})]
    assert (server.events, server.gone) == ([FENCED], ["uid-a"])


async def test_a_confirmed_pod_that_was_bound_just_before_does_not_keep_its_name() -> None:
    server = Server()
    await server.remover().confirm(
        pod("a", deleting=True, finalizers=(COPY_FINALIZER, "x.io/held")), "fenced"
    )
    [(_, patch), (what, _)] = server.sent
    assert patch == {"metadata": {"uid": "uid-a", "resourceVersion": "1", "finalizers": ["x.io/held"]}}
    assert what == "delete"


async def test_a_confirmed_pod_that_finalizers_keep_is_marked_as_failed() -> None:
    server = Server(object())
    await server.remover().confirm(pod("a", deleting=True), "fenced")
    [_, (subresource, patch)] = server.sent
    assert subresource == "status"
    assert patch["metadata"] == {"uid": "uid-a"}
    assert patch["status"]["phase"] == "Failed"
    assert [each["type"] for each in patch["status"]["conditions"]] == ["DisruptionTarget"]
