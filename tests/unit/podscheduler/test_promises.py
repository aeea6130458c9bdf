"""Room that is promised to Pods at their creation: what is promised, when it ends, and that the book stays right."""

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vcsync.api.names import SUPER_CLUSTER
from vcsync.kube.cache import Cache
from vcsync.kube.errors import Conflict, NotFound, Status
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch
from vcsync.podscheduler.pods import Pod, slim
from vcsync.podscheduler.promises import PROMISED_SECONDS, WRITTEN_SECONDS, Promise
from vcsync.podscheduler.tenant import TenantPods
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.snapshot import Health, SuperView

NS = "shop"
SUPERS = ("r1", "r2")
ROOM = 100
ANSWERS = st.sampled_from(["now", "later", "never"])
"""When a request learns what became of its write."""


class Server:
    """A tenant's control plane in memory, with events that the scheduler has not seen yet, and the scheduler."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[str, Envelope]] = []
        self.version = 0
        self.now = 0.0
        self.queue: dict[tuple[str, str], None] = {}
        self.later: dict[tuple[str, str], float] = {}
        self.suspended = False
        self.views = {each: SuperView(each, Health.READY, {}) for each in SUPERS}
        self.written: list[Promise] = []
        self.begin()

    def begin(self) -> None:
        """Begin a term of the scheduler: it reads all Pods."""
        self.cache = Cache()
        self.queue.clear()
        self.later.clear()
        self.pods = TenantPods(
            self,
            lambda: self.views,
            lambda item, _urgent: self.queue.setdefault(item),
            lambda item, delay: self.later.setdefault(item, self.now + delay),
            lambda: self.now,
            suspended=lambda: self.suspended,
            version=self.seen_until,
            on_written=self.written.append,
        )
        self.events.clear()
        for name in self.objects:
            self.observe(name)
        self.pods.grant(NS, {"cpu": ROOM}, dict.fromkeys(SUPERS, 1))
        self.pods.begin()

    def ask(self, name: str, cpu: int = 50, **needs: Any) -> Promise | None:
        return self.pods.promise(NS, name, PodNeeds({"cpu": cpu}, **needs))

    def promised(self, name: str, cpu: int = 50) -> Promise:
        promise = self.ask(name, cpu)
        assert promise is not None
        return promise

    def create(self, name: str, cpu: int = 50, super_id: str = "", uid: str = "") -> int:
        """Store a Pod, and return its revision. The scheduler does not see it yet."""
        marks = {SUPER_CLUSTER: super_id} if super_id else {}
        metadata = {
            "name": name,
            "namespace": NS,
            "uid": uid or f"uid-{name}",
            "labels": marks,
            "annotations": marks,
        }
        container = {"name": "c", "resources": {"requests": {"cpu": f"{cpu}m"}}}
        self.store(name, {"metadata": metadata, "spec": {"containers": [container]}})
        return self.version

    def store(self, name: str, body: dict[str, Any]) -> None:
        self.version += 1
        self.objects[name] = body
        body["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(("MODIFIED", self.envelope(name)))

    def delete(self, name: str) -> None:
        self.version += 1
        body = self.objects[name]
        body["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(("DELETED", self.envelope(name)))
        del self.objects[name]

    def envelope(self, name: str) -> Envelope:
        return slim(parse(json.dumps(self.objects[name]).encode()))

    def observe(self, name: str) -> None:
        change = self.cache.observe(self.envelope(name))
        if change is not None:
            self.pods.observe(change)

    def deliver(self, position: int = 0) -> None:
        kind, envelope = self.events.pop(position)
        act = self.cache.observe_deleted if kind == "DELETED" else self.cache.observe
        change = act(envelope)
        if change is not None:
            self.pods.observe(change)

    def deliver_all(self) -> None:
        while self.events:
            self.deliver()

    def seen_until(self) -> int:
        return min((each.version for _, each in self.events), default=self.version + 1) - 1

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for item, due in list(self.later.items()):
            if due <= self.now:
                del self.later[item]
                self.queue.setdefault(item)

    def work(self) -> None:
        for _ in range(1000):
            if not self.queue:
                return
            key = next(iter(self.queue))
            del self.queue[key]
            if not key[1]:
                self.pods.wake(key[0])
                continue
            step = self.pods.schedule(key)
            try:
                step.send(None)
            except (StopIteration, Conflict):
                continue
            raise AssertionError("nothing here waits")
        raise AssertionError("it does not settle")

    def used(self, super_id: str) -> int:
        share = self.pods.accounting.share(NS, super_id)
        return 0 if share is None else share.used.get("cpu", 0)

    def standing(self, super_id: str) -> int:
        return sum(cpu_of(each) for each in self.objects.values() if home(each) == super_id)

    # Writes of the scheduler

    async def patch(self, _namespace: str, name: str, patch: dict[str, Any]) -> None:
        if name not in self.objects:
            raise NotFound(Status(404))
        if patch["metadata"]["resourceVersion"] != self.objects[name]["metadata"]["resourceVersion"]:
            raise Conflict(Status(409))
        self.store(name, merge_patch(self.objects[name], patch))
        self.observe(name)

    async def patch_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        raise AssertionError(f"no claim is expected, {claim.name} was patched: {change}")

    async def patch_status(self, _namespace: str, name: str, patch: dict[str, Any]) -> None:
        if name not in self.objects:
            raise NotFound(Status(404))
        self.store(name, self.objects[name] | {"status": patch["status"]})
        self.observe(name)

    def gone(self, namespace: str, name: str, uid: str) -> None:
        change = self.cache.observe_gone(namespace, name, uid)
        if change is not None:
            self.pods.observe(change)

    def emit(self, pod: Pod, message: str) -> None:
        """Ignore the Event."""


def home(body: dict[str, Any]) -> str:
    found: str = body["metadata"]["labels"].get(SUPER_CLUSTER, "")
    return found


def cpu_of(body: dict[str, Any]) -> int:
    return int(body["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


@pytest.fixture
def server() -> Server:
    return Server()


def write(server: Server, promise: Promise) -> None:
    """Write the promised Pod as admission does."""
    assert promise.writing(f"uid-{promise.name}")
    promise.written(server.create(promise.name, promise.requests["cpu"], promise.super_id))


def test_a_promised_pod_needs_no_write_of_the_scheduler(server):
    write(server, server.promised("p"))
    version = server.version
    server.deliver_all()
    server.work()
    assert (server.version, home(server.objects["p"])) == (version, "r1")
    assert [server.used(each) for each in SUPERS] == [50, 0]


def test_promises_count_from_the_decision_on(server):
    assert [server.promised(name).super_id for name in "abcde"] == ["r1", "r2", "r1", "r2", ""]


def test_what_is_given_back_is_free_once(server):
    promise = server.promised("p", 100)
    promise.give_back()
    promise.give_back()
    assert server.used("r1") == 0
    assert not promise.writing("uid-p")


def test_room_that_is_given_back_wakes_the_pods_that_wait_for_it(server):
    promises = [server.promised(name, 100) for name in "ab"]
    server.create("waits", 100)
    server.deliver_all()
    server.wait(PROMISED_SECONDS / 2)
    server.work()
    assert home(server.objects["waits"]) == ""
    promises[1].give_back()
    server.work()
    assert home(server.objects["waits"]) == "r2"


def test_a_promise_that_is_never_confirmed_expires(server):
    promise = server.promised("p", 100)
    server.wait(PROMISED_SECONDS)
    server.work()
    assert server.used("r1") == 0
    assert not promise.writing("uid-p"), "the Pod is stored without a super cluster"


def test_a_promise_whose_time_is_over_is_not_written(server):
    promise = server.promised("p", 100)
    server.now += PROMISED_SECONDS
    assert not promise.writing("uid-p")
    assert server.used("r1") == 0
    promise.written(server.create("p", 100))
    assert server.written == [], "the Pod is placed later, by a decision of its own"


def test_a_promise_holds_for_its_write_as_long_again(server):
    promise = server.promised("p", 100)
    server.wait(PROMISED_SECONDS - 1)
    assert promise.writing("uid-p")
    server.wait(PROMISED_SECONDS - 1)
    server.work()
    assert server.used("r1") == 100


def test_a_written_pod_counts_until_it_is_seen_however_late(server):
    write(server, server.promised("p", 100))
    server.wait(PROMISED_SECONDS * 3)
    server.work()
    assert server.used("r1") == 100
    server.deliver_all()
    assert (server.used("r1"), len(server.pods.promises)) == (100, 0)


def test_a_pod_that_was_deleted_before_it_was_seen_frees_its_room(server):
    write(server, server.promised("p", 100))
    server.delete("p")
    server.events.clear()
    server.wait(PROMISED_SECONDS)
    server.work()
    assert server.used("r1") == 0


def test_an_event_before_the_answer_of_the_store_counts_once(server):
    promise = server.promised("p", 100)
    assert promise.writing("uid-p")
    revision = server.create("p", 100, promise.super_id)
    server.deliver_all()
    promise.written(revision)
    assert (server.used("r1"), len(server.pods.promises)) == (100, 0)
    assert server.written == [promise]


def test_a_pod_without_room_keeps_its_turn(server):
    large = server.promised("large", 150)
    assert large.super_id == ""
    assert server.promised("small", 10).super_id == ""
    large.give_back()
    server.wait(PROMISED_SECONDS)
    server.work()
    assert server.promised("later", 10).super_id == "r1"


@pytest.mark.parametrize("seen", [False, True])
def test_a_new_pod_does_not_overtake_pods_that_wait(server, seen):
    server.create("large", 150)
    server.deliver_all()
    if seen:
        server.wait(60)
        server.work()
    assert server.promised("small", 10).super_id == ""


def test_pods_of_another_namespace_do_not_wait_for_each_other(server):
    server.create("large", 150)
    server.deliver_all()
    server.pods.grant("other", {"cpu": ROOM}, {"r1": 1})
    promise = server.pods.promise("other", "p", PodNeeds({"cpu": 50}))
    assert promise is not None
    assert promise.super_id == "r1"


def test_a_flood_of_one_tenant_takes_no_room_and_no_turn_of_another(server):
    other = Server()
    other.create("waits", 60)
    other.deliver_all()
    flood = [server.promised(f"p{number}", 10) for number in range(50)]
    assert sum(bool(each.super_id) for each in flood) == 2 * ROOM // 10, "its own slices are full"
    other.work()
    assert home(other.objects["waits"]) == "r1"
    assert [other.promised(name, 40).super_id for name in "abc"] == ["r2", "r2", "r1"]


@pytest.mark.parametrize("needs", [{"node": "n.r1"}, {"gated": True}])
def test_pods_that_are_not_to_be_scheduled_get_no_promise(server, needs):
    assert server.ask("p", **needs) is None


def test_pods_with_claims_wait_for_the_decision_on_their_claims(server):
    promise = server.ask("p", claims=("data",))
    assert promise is not None
    assert promise.super_id == ""


def test_nothing_is_promised_to_a_suspended_tenant(server):
    server.suspended = True
    assert server.ask("p") is None


def test_nothing_is_promised_in_a_namespace_without_slices(server):
    promise = server.pods.promise("empty", "p", PodNeeds({"cpu": 1}))
    assert promise is not None
    assert promise.super_id == ""
    promise.give_back()
    assert "empty" not in server.pods.accounting.namespaces()


def test_a_pod_gets_the_super_cluster_that_its_node_selector_asks_for(server):
    promise = server.ask("p", supers=("r2",))
    assert promise is not None
    assert promise.super_id == "r2"


def test_promises_end_with_the_term(server):
    promise = server.promised("p")
    server.pods.promises.close()
    assert not promise.writing("uid-p")
    assert server.ask("q") is None
    promise.written(1)
    promise.give_back()
    assert (server.used("r1"), len(server.pods.promises)) == (0, 0)


@dataclass
class Creation:
    """One request to create a Pod. `uid`: under which it is being written; `revision`: at which it was."""

    name: str
    cpu: int
    promise: Promise
    uid: str = ""
    super_id: str = ""
    revision: int = 0


class PromisesMachine(RuleBasedStateMachine):
    """Creations that end in every way, in any order with events, restarts and time; compared with what is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.creations: list[Creation] = []
        self.term = 0
        self.uids = itertools.count()
        self.untold: set[str] = set()  # UIDs of Pods that were written and whose promises nobody was told of
        self.certain = True  # whether no Pod was written after its promise had ended

    @rule(name=st.sampled_from("abcdef"), cpu=st.sampled_from([10, 40, 60, 100, 150]))
    def ask(self, name, cpu):
        self.creations.append(Creation(name, cpu, self.server.promised(name, cpu)))

    @rule(name=st.sampled_from("abcdef"), cpu=st.sampled_from([10, 40, 60, 100]), answer=ANSWERS)
    def ask_and_write(self, name, cpu, answer):
        self.ask(name, cpu)
        self.creations.insert(0, self.creations.pop())
        self.write(0, "written", answer)

    @precondition(lambda self: any(not each.revision for each in self.creations))
    @rule(number=st.integers(0, 99))
    def begin_to_write(self, number):
        self.prepare(self.unwritten(number))

    def unwritten(self, number: int) -> Creation:
        found = [each for each in self.creations if not each.revision]
        return found[number % len(found)]

    def prepare(self, creation: Creation) -> None:
        creation.uid = f"uid-{next(self.uids)}"
        holds = creation.promise.writing(creation.uid)
        creation.super_id = creation.promise.super_id if holds else ""

    @precondition(lambda self: any(not each.revision for each in self.creations))
    @rule(number=st.integers(0, 99), outcome=st.sampled_from(["written", "failed"]), answer=ANSWERS)
    def write(self, number, outcome, answer):
        creation = self.unwritten(number)
        if not creation.uid:
            self.prepare(creation)
        stored = outcome == "written" and creation.name not in self.server.objects
        if stored:
            if creation.super_id and creation.promise not in self.server.pods.promises.standing.get(NS, ()):
                self.certain = False
            creation.revision = self.server.create(
                creation.name, creation.cpu, creation.super_id, creation.uid
            )
        if answer == "never" and stored:
            self.untold.add(creation.uid)
        if answer == "never" or not stored or answer == "now":
            self.creations.remove(creation)
        if answer != "never" and not stored:
            creation.promise.give_back()
        elif answer == "now":
            creation.promise.written(creation.revision)

    @precondition(lambda self: any(each.revision for each in self.creations))
    @rule()
    def answer(self):
        creation = next(each for each in self.creations if each.revision)
        self.creations.remove(creation)
        creation.promise.written(creation.revision)

    @precondition(lambda self: any(not each.revision for each in self.creations))
    @rule(number=st.integers(0, 99))
    def refuse(self, number):
        creation = self.unwritten(number)
        self.creations.remove(creation)
        creation.promise.give_back()

    @precondition(lambda self: self.server.events)
    @rule(data=st.data())
    def see(self, data):
        self.server.deliver(data.draw(st.integers(0, len(self.server.events) - 1)))

    @precondition(lambda self: self.server.objects)
    @rule(data=st.data())
    def delete(self, data):
        self.server.delete(data.draw(st.sampled_from(sorted(self.server.objects))))

    @rule(name=st.sampled_from("gh"), label=st.sampled_from(["", "r1", "nowhere"]))
    def create_otherwise(self, name, label):
        if name not in self.server.objects:
            self.certain = False  # a tenant's own label counts when it is seen
            self.server.create(name, 30, label, f"uid-{next(self.uids)}")

    @rule(seconds=st.sampled_from([1.0, PROMISED_SECONDS]))
    def wait(self, seconds):
        for each in self.creations:
            if each.uid and each.super_id and not each.revision:
                self.certain = False  # the promise may end while the store is asked
        if any(each.uid in self.untold for _, each in self.server.events):
            self.certain = False  # the promise may end before the Pod is seen
        self.server.wait(seconds)

    @rule()
    def schedule(self):
        self.server.work()

    @precondition(lambda self: self.term < 2)
    @rule(sure=st.integers(0, 3))
    def restart(self, sure):
        if sure:
            return
        for each in self.creations:
            if each.uid and each.super_id and not each.revision:
                self.certain = False
        self.term += 1
        self.server.pods.promises.close()
        self.server.begin()

    @invariant()
    def nothing_is_promised_twice(self):
        if self.certain:
            assert all(self.server.used(each) <= ROOM for each in SUPERS)

    @invariant()
    def the_book_holds_its_pods_and_its_promises(self):
        pods = self.server.pods
        for super_id in SUPERS:
            seen = sum(
                each.needs.requests["cpu"] for each in pods.accounting.pods.values() if each.label == super_id
            )
            promised = sum(
                each.requests["cpu"]
                for each in pods.promises.standing.get(NS, ())
                if each.super_id == super_id
            )
            assert self.server.used(super_id) == seen + promised

    @invariant()
    def what_stands_counts(self):
        if self.certain:
            gone = {each.uid for kind, each in self.server.events if kind == "DELETED"}
            assert not gone & {each["metadata"]["uid"] for each in self.server.objects.values()}
            for super_id in SUPERS:
                assert self.server.used(super_id) >= self.server.standing(super_id)

    def teardown(self) -> None:
        """Let everything come to rest: the book equals what stands, and nobody waits for free room."""
        for each in self.creations:
            if each.revision:
                each.promise.written(each.revision)
            else:
                each.promise.give_back()
        for _ in range(3):
            self.server.deliver_all()
            self.server.wait(WRITTEN_SECONDS)
            self.server.work()
        assert len(self.server.pods.promises) == 0
        for super_id in SUPERS:
            assert self.server.used(super_id) == self.server.standing(super_id)
            assert self.server.used(super_id) <= ROOM or not self.certain
            free = ROOM - self.server.used(super_id)
            waiting = [cpu_of(each) for each in self.server.objects.values() if not home(each)]
            # Room may be held for a Pod that has waited for long.
            assert any(free < cpu <= ROOM for cpu in waiting) or all(cpu > free for cpu in waiting)


TestPromises = PromisesMachine.TestCase
TestPromises.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
