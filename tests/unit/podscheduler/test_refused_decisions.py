"""Decisions that super clusters refuse: taken back, tried elsewhere, remembered, and never doubled."""

import itertools
import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace
from tenant_kit import NS, SIZE, Tenant

from vcsync.api.names import REFUSAL_PREFIX, SUPER_CLUSTER
from vcsync.api.refusals import (
    ADMISSION,
    NOTHING,
    QUOTA,
    REFUSED,
    RETURNED,
    UNSCHEDULABLE,
    WITHDRAWN,
    Said,
    refusal_annotation,
    said_by,
    said_by_all,
)
from vcsync.objects.merge_patch import merge_patch
from vcsync.podscheduler.refusals import FIRST_BACKOFF_SECONDS, FORGOTTEN_SECONDS, backoff
from vcsync.scheduling.snapshot import Health, SuperView

WHOLE = "100m"
"""Request of a Pod that fills a slice."""


class Refusing(Tenant):
    """A tenant's Pods, and the part of syncers that refuses them and gives them back."""

    def said(self, name: str, super_id: str) -> Said:
        return said_by(self.objects[name]["metadata"].get("annotations", {}), super_id)

    def say(self, name: str, super_id: str, said: Said) -> None:
        patch = {"metadata": {"annotations": refusal_annotation(super_id, said)}}
        self.store(name, merge_patch(self.objects[name], patch))

    def refuse(self, name: str, reason: str = UNSCHEDULABLE) -> None:
        home = self.home(name)
        self.say(name, home, replace(self.said(name, home), state=REFUSED, reason=reason))

    def give_back(self, name: str) -> None:
        """Act as the syncer of a Pod that is withdrawn, once its copy is gone."""
        home = self.home(name)
        said = self.said(name, home)
        assert said.state == WITHDRAWN
        self.say(name, home, replace(said, state=RETURNED, returns=said.returns + said.refuses))

    async def leave(self, name: str) -> str:
        """Have a Pod that is withdrawn given back, and return where it is then."""
        self.give_back(name)
        await self.settle()
        return self.home(name)

    async def move(self, name: str) -> str:
        """Have a Pod refused where it is, and return where it is then."""
        self.refuse(name)
        await self.settle()
        self.give_back(name)
        await self.settle()
        return self.home(name)


@pytest.fixture
def tenant() -> Refusing:
    made = Refusing()
    made.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    made.pods.begin()
    return made


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (UNSCHEDULABLE, "none of its nodes can run the Pod"),
        (QUOTA, "its slices there are still in use"),
        (ADMISSION, "it does not admit the Pod"),
    ],
)
async def test_a_refused_pod_is_withdrawn_and_placed_elsewhere_when_it_was_given_back(tenant, reason, words):
    tenant.create("p")
    await tenant.settle()
    tenant.refuse("p", reason)
    await tenant.settle()
    assert (tenant.home("p"), tenant.said("p", "r1").state) == ("r1", WITHDRAWN)
    assert tenant.events == [
        (
            "p",
            f"super cluster r1 refused the Pod: {words}; it is placed again once r1 has confirmed that it does not run there",
        )
    ]
    writes = len(tenant.patches)
    await tenant.pass_time()
    assert len(tenant.patches) == writes, "it waits for the super cluster"
    tenant.give_back("p")
    await tenant.settle()
    assert tenant.home("p") == "r2"
    assert tenant.said("p", "r1") == Said(RETURNED, 1, reason)
    assert len(tenant.patches) == writes + 1


async def test_a_pod_that_can_be_nowhere_else_stays_and_says_so_once(tenant):
    tenant.create("other", WHOLE, labels={SUPER_CLUSTER: "r2"})
    tenant.create("p", WHOLE)
    await tenant.settle()
    writes = len(tenant.patches)
    tenant.refuse("p")
    await tenant.settle()
    tenant.store("p", tenant.objects["p"])
    await tenant.settle()
    assert (tenant.home("p"), tenant.said("p", "r1").state) == ("r1", REFUSED)
    assert len(tenant.patches) == writes
    [(_, told)] = tenant.events
    assert told == (
        "super cluster r1 refuses the Pod: none of its nodes can run the Pod; it waits there, since it can be "
        "nowhere else: r2: cpu 100m asked, 0 of 100m free"
    )
    tenant.delete("other")
    await tenant.settle()
    assert tenant.said("p", "r1").state == WITHDRAWN


async def test_a_pod_that_exceeds_its_share_waits_for_room_elsewhere_once_it_is_refused(tenant):
    """Slices have shrunk, or its promise had ended when it was seen."""
    tenant.pods.grant(NS, SIZE, {"r1": 2, "r2": 1})
    for name, super_id in (("stays", "r1"), ("p", "r1"), ("other", "r2")):
        tenant.create(name, WHOLE, labels={SUPER_CLUSTER: super_id})
    await tenant.settle()
    tenant.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    tenant.refuse("p", QUOTA)
    await tenant.settle()
    assert (tenant.home("p"), tenant.said("p", "r1").state) == ("r1", REFUSED)
    assert "it waits there, since it can be nowhere else" in tenant.events[-1][1]
    tenant.delete("other")
    await tenant.settle()
    assert (tenant.home("p"), tenant.said("p", "r1").state) == ("r1", WITHDRAWN), "r1 may have a copy"
    tenant.give_back("p")
    await tenant.settle()
    assert (tenant.home("p"), tenant.home("stays")) == ("r2", "r1")


async def test_room_elsewhere_is_held_for_a_pod_that_is_withdrawn(tenant):
    tenant.create("p", WHOLE)
    await tenant.settle()
    tenant.refuse("p")
    await tenant.settle()
    tenant.create("late", WHOLE)
    await tenant.settle()
    assert tenant.home("late") == ""
    tenant.give_back("p")
    await tenant.settle()
    assert (tenant.home("p"), tenant.home("late")) == ("r2", "r1")


async def test_of_many_refused_pods_only_those_are_withdrawn_that_fit_elsewhere(tenant):
    tenant.pods.grant(NS, SIZE, {"r1": 5, "r2": 1})
    for number in range(5):
        tenant.create(f"p{number}", WHOLE, labels={SUPER_CLUSTER: "r1"})
    await tenant.settle()
    for number in range(5):
        tenant.refuse(f"p{number}")
    await tenant.settle()
    states = [tenant.said(f"p{number}", "r1").state for number in range(5)]
    assert states == [WITHDRAWN, *[REFUSED] * 4]


async def test_the_held_room_is_free_again_when_the_pod_is_bound_after_all(tenant):
    tenant.create("p", WHOLE)
    await tenant.settle()
    tenant.refuse("p")
    await tenant.settle()
    tenant.objects["p"]["spec"]["nodeName"] = "node.r1"
    tenant.store("p", tenant.objects["p"])
    tenant.create("late", WHOLE)
    await tenant.settle()
    assert (tenant.home("p"), tenant.home("late")) == ("r1", "r2")


@pytest.mark.parametrize("state", [REFUSED, WITHDRAWN, RETURNED])
async def test_a_bound_pod_is_never_moved_whatever_its_annotations_say(tenant, state):
    tenant.create("p", labels={SUPER_CLUSTER: "r1"}, nodeName="node.r1")
    await tenant.settle()
    tenant.say("p", "r1", Said(state, 3))
    await tenant.settle()
    await tenant.pass_time()
    assert tenant.home("p") == "r1"
    assert tenant.events == []


async def test_a_refusal_is_remembered_until_something_changes_there_and_the_backoff_is_over(tenant):
    tenant.create("p", WHOLE)
    await tenant.settle()
    assert await tenant.move("p") == "r2"
    tenant.refuse("p")
    await tenant.settle()
    assert tenant.said("p", "r2").state == REFUSED, "r1 has refused it, too"
    assert "r1: refused the Pod: none of its nodes can run the Pod" in tenant.events[-1][1]
    tenant.pods.capacity_changed("r1")
    [(key, due)] = [each for each in tenant.later if each[1] < FORGOTTEN_SECONDS]
    assert (key, due) == ((NS, "p"), backoff(0))
    await tenant.settle()
    assert tenant.said("p", "r2").state == REFUSED
    tenant.now = due
    tenant.add(key, False)
    await tenant.settle()
    tenant.give_back("p")
    await tenant.settle()
    assert tenant.home("p") == "r1"
    assert tenant.said("p", "r1") == Said("", 1, UNSCHEDULABLE), "the super cluster makes a copy again"


async def test_the_backoff_begins_with_the_refusal_and_not_with_the_pod(tenant):
    tenant.create("p", WHOLE)
    await tenant.settle()
    tenant.now = 10_000.0
    await tenant.move("p")
    tenant.refuse("p")
    await tenant.settle()
    tenant.later.clear()
    tenant.pods.capacity_changed("r1")
    assert [due for _, due in tenant.later] == [10_000.0 + FIRST_BACKOFF_SECONDS]


async def test_a_refusal_is_forgotten_after_a_long_time(tenant):
    tenant.create("p", WHOLE)
    await tenant.settle()
    await tenant.move("p")
    tenant.refuse("p")
    await tenant.settle()
    assert {due for _, due in tenant.later} == {FORGOTTEN_SECONDS}
    await tenant.pass_time()
    assert tenant.said("p", "r2").state == WITHDRAWN


async def test_room_that_is_freed_where_the_pod_was_refused_is_a_change(tenant):
    tenant.create("small", "10m", labels={SUPER_CLUSTER: "r1"}, nodeName="node.r1")
    tenant.create("p", "90m", labels={SUPER_CLUSTER: "r1"})
    await tenant.settle()
    assert await tenant.move("p") == "r2"
    tenant.refuse("p")
    await tenant.settle()
    tenant.now = FIRST_BACKOFF_SECONDS
    tenant.delete("small")
    await tenant.settle()
    assert tenant.said("p", "r2").state == WITHDRAWN


def test_the_backoff_doubles_up_to_a_limit():
    waits = [backoff(returns) for returns in range(12)]
    assert waits[:3] == [FIRST_BACKOFF_SECONDS, 2 * FIRST_BACKOFF_SECONDS, 4 * FIRST_BACKOFF_SECONDS]
    assert waits == sorted(waits)
    assert backoff(10**9) == FORGOTTEN_SECONDS


async def test_a_pod_returns_if_its_room_elsewhere_is_gone_meanwhile(tenant):
    tenant.create("p", WHOLE)
    await tenant.settle()
    tenant.refuse("p")
    await tenant.settle()
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    tenant.give_back("p")
    await tenant.settle()
    assert tenant.home("p") == "r1"
    assert tenant.said("p", "r1") == Said("", 1, UNSCHEDULABLE)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"state": "gone"}', '{"returns": "many"}', '{"state": 1}', "null"]
)
def test_a_malformed_annotation_says_nothing(text):
    assert said_by({REFUSAL_PREFIX + "r1": text}, "r1") == NOTHING


def test_absurd_numbers_are_bounded_and_only_super_clusters_of_the_pool_are_heard():
    text = json.dumps({"state": RETURNED, "returns": 10**12, "reason": "x" * 10_000})
    many = {REFUSAL_PREFIX + f"super-{number}": text for number in range(1000)}
    found = said_by_all(many, {"super-1", "super-999", "super-1000"})
    assert found == dict.fromkeys(("super-1", "super-999"), Said(RETURNED, 1000))


async def test_a_pod_that_many_super_clusters_refuse_does_not_go_round(tenant):
    """Each of forty gives the Pod back once; none is tried again until its time is over."""
    pool = [f"s{number:02}" for number in range(40)]
    tenant.views = {super_id: SuperView(super_id, Health.READY, {}) for super_id in pool}
    tenant.pods.grant(NS, SIZE, dict.fromkeys(pool, 1))
    tenant.create("p")
    await tenant.settle()
    tried = [tenant.home("p"), *[await tenant.move("p") for _ in pool[1:]]]
    assert sorted(tried) == pool


async def test_statements_about_super_clusters_without_slices_are_not_remembered(tenant):
    tenant.create("p")
    await tenant.settle()
    for number in range(10):
        tenant.say("p", f"none-{number}", Said(RETURNED, 1))
    assert len(tenant.pods.accounting.refusals) == 0
    tenant.pods.grant(NS, SIZE, {"r1": 1, "none-1": 1})
    assert set(tenant.pods.accounting.refusals.holding((NS, "p"), 0.0)) == {"none-1"}


async def test_a_forged_statement_moves_only_the_pod_itself_and_only_within_its_slices(tenant):
    tenant.create("other", WHOLE)
    tenant.create("p", WHOLE)
    await tenant.settle()
    for super_id in ("r1", "r2", "r3"):
        tenant.say("p", super_id, Said(RETURNED, 5, QUOTA))
    await tenant.settle()
    assert (tenant.home("other"), tenant.home("p")) == ("r1", "r2")


# Wakeups


async def test_a_super_cluster_without_slices_of_the_namespace_wakes_no_pod():
    tenant = Refusing()
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    tenant.pods.begin()
    for number in range(200):
        tenant.create(f"w{number:03}", "200m")
    for _ in range(5):
        await tenant.settle()
    tenant.pods.pool_changed(frozenset({"r2"}))
    tenant.pods.capacity_changed("r2")
    tenant.look()
    assert tenant.queue == []
    tenant.pods.pool_changed(frozenset({"r1"}))
    tenant.look()
    assert len(tenant.queue) == 200


async def test_freed_room_wakes_only_as_many_waiting_pods_as_fit():
    tenant = Refusing()
    tenant.pods.grant(NS, SIZE, {"r1": 3})
    tenant.pods.begin()
    for number in range(60):
        tenant.create(f"w{number:02}", WHOLE)
    await tenant.settle()
    woken = []
    wake = tenant.add
    tenant.pods._add = lambda item, urgent: (woken.append(item), wake(item, urgent))
    tenant.delete("w00")
    await tenant.settle()
    # The namespace once, the Pod that fits, and once more for the answer to its patch.
    assert woken.count((NS, "")) == 1
    assert {name for _, name in woken} - {""} == {"w03"}


async def test_a_change_of_nodes_wakes_only_the_pods_that_were_refused_there(tenant):
    for number in range(50):
        tenant.create(f"w{number:02}", "200m")
    tenant.create("p", WHOLE)
    for _ in range(3):
        await tenant.settle()
    await tenant.move("p")
    tenant.refuse("p")
    await tenant.settle()
    tenant.later.clear()
    tenant.pods.capacity_changed("r1")
    assert (tenant.queue, [key for key, _ in tenant.later]) == ([], [(NS, "p")])
    tenant.pods.capacity_changed("r1")
    assert len(tenant.later) == 1, "another change does not wake it again"


# All orders of events


class Moves(RuleBasedStateMachine):
    """Pods of one namespace, their scheduler, and super clusters that have copies, refuse, run, bind and remove them at any time.

    Slices come and go, and super clusters are out of touch: then they run what they have, and their syncers hear and say nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tenant = Refusing()
        self.slices = {"r1": 1, "r2": 2, "r3": 1}
        self.most = dict(self.slices)
        self.tenant.views["r3"] = replace(self.tenant.views["r1"], id="r3")
        self.tenant.held = {"r1", "r2", "r3"}
        self.tenant.pods.grant(NS, SIZE, self.slices)
        self.tenant.pods.begin()
        # UID of a Pod -> super cluster with a copy -> whether it has a node
        self.copies: dict[str, dict[str, bool]] = {}
        self.names: dict[str, str] = {}  # UID -> name
        self.numbers = itertools.count()

    def work(self) -> None:
        """Work the scheduler's queue off. Nothing in it waits for anything."""
        coroutine = self.tenant.settle()
        with pytest.raises(StopIteration):
            coroutine.send(None)

    def pending(self) -> list[str]:
        return [name for name, found in self.tenant.objects.items() if "nodeName" not in found["spec"]]

    def in_touch(self, super_id: str) -> bool:
        view = self.tenant.views[super_id]
        return not (view.out_of_touch or view.fenced)

    def reached(self) -> list[str]:
        """Return the Pods without a node whose syncer hears of them."""
        return [name for name in self.pending() if (home := self.tenant.home(name)) and self.in_touch(home)]

    def uid(self, name: str) -> str:
        return self.tenant.objects[name]["metadata"]["uid"]

    def copies_of(self, name: str) -> dict[str, bool]:
        return self.copies.setdefault(self.uid(name), {})

    def ending(self, name: str) -> bool:
        return "deletionTimestamp" in self.tenant.objects[name]["metadata"]

    def names_at(self, super_id: str) -> set[str]:
        """Return the names that copies have on a super cluster."""
        return {self.names[uid] for uid, found in self.copies.items() if super_id in found}

    @rule(cpu=st.sampled_from(["20m", "50m", "100m", "300m"]), generated=st.booleans())
    def create(self, cpu: str, generated: bool) -> None:
        if len(self.tenant.objects) >= 12:
            return
        taken = self.tenant.objects
        fixed = next(name for number in itertools.count() if (name := f"set-{number}") not in taken)
        name = f"p{next(self.numbers)}-bcdfg" if generated else fixed
        self.tenant.create(name, cpu, generated=generated)
        self.names[self.uid(name)] = name
        self.work()

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        """The syncer of the Pod's super cluster acts once, as `pod_return` does, or `pod_name`."""
        names = self.reached()
        if not names:
            return
        name = data.draw(st.sampled_from(names))
        home = self.tenant.home(name)
        said, copies = self.tenant.said(name, home), self.copies_of(name)
        if self.ending(name):
            if home in copies:
                del copies[home]  # its grace period is over
            else:
                self.tenant.delete(name)
        elif said.state == WITHDRAWN:
            if not copies.get(home):
                copies.pop(home, None)
                self.tenant.give_back(name)
        elif said.state != RETURNED and name not in self.names_at(home) and self.slices.get(home):
            copies[home] = False
        self.work()

    @rule(super_id=st.sampled_from(["r1", "r2", "r3"]))
    def end_orphans(self, super_id: str) -> None:
        """A syncer ends the copies of Pods that are gone in the tenant."""
        there = {self.uid(name) for name in self.tenant.objects}
        for uid in self.copies if self.in_touch(super_id) else ():
            if uid not in there:
                self.copies[uid].pop(super_id, None)

    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        """A super cluster's own scheduler finds a node for a copy. Nobody has to hear of it."""
        waiting = [
            (uid, home) for uid, found in self.copies.items() for home, runs in found.items() if not runs
        ]
        if waiting:
            uid, home = data.draw(st.sampled_from(waiting))
            self.copies[uid][home] = True

    @rule(data=st.data(), reason=st.sampled_from([QUOTA, ADMISSION, UNSCHEDULABLE]))
    def refuse(self, data: st.DataObject, reason: str) -> None:
        names = [name for name in self.reached() if not self.ending(name)]
        if names:
            name = data.draw(st.sampled_from(names))
            home = self.tenant.home(name)
            if not self.tenant.said(name, home).state and not self.copies_of(name).get(home):
                self.tenant.refuse(name, reason)
                self.work()

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        names = [
            name
            for name in self.reached()
            if self.copies_of(name).get(self.tenant.home(name)) and not self.ending(name)
        ]
        if names:
            name = data.draw(st.sampled_from(names))
            found = self.tenant.objects[name]
            found["spec"]["nodeName"] = f"node.{self.tenant.home(name)}"
            found["metadata"].pop("finalizers", None)
            self.tenant.store(name, found)
            self.work()

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """A user deletes a Pod. Its copy ends later, and another Pod may get its name at once if the API server lets it."""
        if self.tenant.objects:
            self.tenant.end(data.draw(st.sampled_from(sorted(self.tenant.objects))))
            self.work()

    @rule(data=st.data(), goal=st.sampled_from(["r1", "r2", "r3"]))
    def exchange(self, data: st.DataObject, goal: str) -> None:
        """A StatefulSet's Pod has a copy and is deleted, the slices move, and its controller makes another one if it can."""
        fixed = [name for name in self.reached() if name.startswith("set-") and self.copies_of(name)]
        if not fixed:
            return
        name = data.draw(st.sampled_from(fixed))
        self.tenant.end(name)
        self.distribute({"r1": 0, "r2": 0, "r3": 0, goal: 2})
        if name not in self.tenant.objects:
            self.tenant.create(name, "20m")
            self.names[self.uid(name)] = name
            self.work()

    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        """A syncer ends a Pod with a node that is being deleted."""
        ending = [
            name
            for name, found in self.tenant.objects.items()
            if self.ending(name) and "nodeName" in found["spec"] and self.in_touch(self.tenant.home(name))
        ]
        if ending:
            name = data.draw(st.sampled_from(ending))
            self.copies.pop(self.uid(name), None)
            self.tenant.delete(name)
            self.work()

    @rule(super_id=st.sampled_from(["r1", "r2", "r3"]), fenced=st.booleans())
    def fence(self, super_id: str, fenced: bool) -> None:
        """An operator says that nothing runs on a super cluster. Pods with a node there that are being deleted end."""
        view = self.tenant.views[super_id]
        if fenced and self.in_touch(super_id):
            return
        self.tenant.views[super_id] = replace(view, fenced=fenced)
        if fenced:
            for found in self.copies.values():
                found.pop(super_id, None)
            for name, found in list(self.tenant.objects.items()):
                if self.ending(name) and found["spec"].get("nodeName") == f"node.{super_id}":
                    self.tenant.delete(name)
        self.tenant.pods.pool_changed(frozenset({super_id}))
        self.work()

    @rule(super_id=st.sampled_from(["r1", "r2", "r3"]))
    def change(self, super_id: str) -> None:
        self.tenant.pods.capacity_changed(super_id)
        self.work()

    @rule(slices=st.fixed_dictionaries({each: st.integers(0, 2) for each in ("r1", "r2", "r3")}))
    def distribute(self, slices: dict[str, int]) -> None:
        """The namespace scheduler moves slices: for a drain, a rebalance, a fail-back, another quota."""
        self.slices = {super_id: number for super_id, number in slices.items() if number}
        self.most = {super_id: max(self.most[super_id], number) for super_id, number in slices.items()}
        self.tenant.held |= self.slices.keys()
        self.tenant.pods.grant(NS, SIZE, self.slices)
        self.work()

    @rule(super_id=st.sampled_from(["r1", "r2", "r3"]))
    def drain(self, super_id: str) -> None:
        """A syncer ends the copies of a namespace without slices, and releases its finalizer."""
        if super_id in self.slices or not self.in_touch(super_id):
            return
        uids = {self.uid(name): name for name in self.tenant.objects}
        for uid, found in self.copies.items():
            if found.pop(super_id, False) and uid in uids:
                self.tenant.delete(uids[uid])
        self.tenant.held.discard(super_id)
        self.tenant.pods.released(NS)
        self.work()

    @rule(super_id=st.sampled_from(["r1", "r2", "r3"]), health=st.sampled_from([*Health]))
    def judge(self, super_id: str, health: Health) -> None:
        view = self.tenant.views[super_id]
        away = health in (Health.SUSPECT, Health.LOST)
        self.tenant.views[super_id] = replace(view, health=health, out_of_touch="since noon" if away else "")
        self.tenant.pods.pool_changed(frozenset({super_id}))
        self.work()

    @rule()
    def restart(self) -> None:
        """Another leader of the scheduler begins."""
        self.tenant.restart()
        self.tenant.pods.grant(NS, SIZE, self.slices)
        self.tenant.pods.begin()
        self.work()

    @rule(seconds=st.sampled_from([1.0, 60.0, 600.0, 3600.0]))
    def wait(self, seconds: float) -> None:
        self.tenant.now += seconds
        due = [each for each in self.tenant.later if each[1] <= self.tenant.now]
        self.tenant.later = [each for each in self.tenant.later if each[1] > self.tenant.now]
        for key, _ in due:
            self.tenant.add(key, False)
        self.work()

    @invariant()
    def no_pod_has_two_copies(self) -> None:
        assert all(len(found) <= 1 for found in self.copies.values()), self.copies

    @invariant()
    def no_name_has_two_copies(self) -> None:
        held = [self.names[uid] for uid, found in self.copies.items() for _ in found]
        assert len(held) == len(set(held)), self.copies

    @invariant()
    def a_pod_ends_unless_its_super_cluster_may_run_it(self) -> None:
        for name in self.pending():
            if self.ending(name):
                home, told = (
                    self.tenant.home(name),
                    [text for about, text in self.tenant.events if about == name],
                )
                assert self.tenant.holds(NS, home)
                assert not self.tenant.views[home].fenced
                assert self.in_touch(home) or any("keeps its name until" in text for text in told)

    @invariant()
    def no_share_holds_more_than_its_slices(self) -> None:
        used = dict.fromkeys(self.most, 0)
        for name, found in self.tenant.objects.items():
            home = self.tenant.home(name)
            if home:
                used[home] += int(found["spec"]["containers"][0]["resources"]["requests"]["cpu"][:-1])
        assert all(used[super_id] <= 100 * slices for super_id, slices in self.most.items())

    @invariant()
    def every_refusal_ends_in_another_try_or_a_stated_wait(self) -> None:
        accounting = self.tenant.pods.accounting
        for name in self.pending():
            if self.ending(name):
                continue
            home = self.tenant.home(name)
            said = self.tenant.said(name, home) if home else NOTHING
            waits = (NS, name) in accounting.waiting(NS)
            assert said.state != RETURNED or waits, "the scheduler decides again at once"
            told = [text for about, text in self.tenant.events if about == name]
            if said.state == REFUSED and self.in_touch(home):
                assert (NS, name) in accounting.standing(NS)
                assert any("refuse" in text for text in told)
            elif waits or not home or self.in_touch(home):
                continue
            elif said.state or home not in self.slices:
                assert any(f"super cluster {home} may still run" in text for text in told)

    @invariant()
    def nothing_is_held_for_pods_that_do_not_move(self) -> None:
        accounting = self.tenant.pods.accounting
        leaving = {
            (NS, name)
            for name in self.pending()
            if (home := self.tenant.home(name)) and self.tenant.said(name, home).state == WITHDRAWN
        }
        assert set(accounting._held) <= leaving
        shares = [accounting.share(NS, super_id) for super_id in self.most]
        placed = sum(bool(self.tenant.home(name)) for name in self.tenant.objects)
        assert sum(share.pods for share in shares if share is not None) == placed + len(accounting._held)


TestMoves = Moves.TestCase
TestMoves.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
