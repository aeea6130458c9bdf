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
from vcsync.api.refusals import QUOTA, REFUSED, WITHDRAWN, Said, refusal_annotation, said_by
from vcsync.kube.cache import Cache, Change
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
        self.seen: set[str] = set()
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
        self.report(self.cache.observe(self.envelope(name)))

    def deliver(self, position: int = 0) -> None:
        kind, envelope = self.events.pop(position)
        act = self.cache.observe_deleted if kind == "DELETED" else self.cache.observe
        self.report(act(envelope))

    def report(self, change: Change | None) -> None:
        """Tell the scheduler of a change of its cache."""
        if change is not None:
            self.seen |= {each.uid for each in (change.old, change.new) if each is not None}
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

    async def may_run(self, _namespace: str, super_id: str) -> bool:
        return super_id in self.views

    def gone(self, namespace: str, name: str, uid: str) -> None:
        self.report(self.cache.observe_gone(namespace, name, uid))

    def emit(self, pod: Pod, message: str) -> None:
        """Ignore the Event."""


def home(body: dict[str, Any]) -> str:
    found: str = body["metadata"]["labels"].get(SUPER_CLUSTER, "")
    return found


def nothing_is_kept(server: Server) -> bool:
    """Return whether no promise stands, and nothing is left of former ones."""
    promises = server.pods.promises
    return not (
        len(promises) or promises.expecting() or promises._by_uid or promises._turns or promises._named
    )


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


def write_late(server: Server, name: str) -> None:
    """Write a Pod of the size of a share, and let its promise end before the Pod is seen, since nobody is told."""
    promise = server.promised(name, ROOM)
    assert promise.writing(f"uid-{name}")
    server.create(name, ROOM, promise.super_id)
    server.wait(PROMISED_SECONDS)
    server.work()
    assert server.used(promise.super_id) == 0


def settle(server: Server) -> list[int]:
    """Let the scheduler see everything and decide. Return what counts on each super cluster, which is what stands there."""
    server.deliver_all()
    server.work()
    found = [server.used(each) for each in SUPERS]
    assert found == [server.standing(each) for each in SUPERS]
    return found


def test_a_pod_that_is_seen_after_the_end_of_its_promise_counts_where_it_is(server):
    write_late(server, "late")
    version = server.version
    assert settle(server) == [ROOM, 0]
    assert server.version == version, "there is nothing to write"


def test_a_pod_that_is_late_stays_though_its_room_is_taken_until_it_is_refused_there(server):
    write_late(server, "late")
    write(server, server.promised("next", ROOM))
    assert settle(server) == [2 * ROOM, 0], "it may run there; the quota of r1 refuses one of them"
    body = server.objects["next"]
    body["metadata"]["annotations"] |= refusal_annotation("r1", Said(REFUSED, reason=QUOTA))
    server.store("next", body)
    server.deliver_all()
    server.work()
    assert said_by(server.objects["next"]["metadata"]["annotations"], "r1").state == WITHDRAWN
    assert [server.used(each) for each in SUPERS] == [2 * ROOM, ROOM], "the room on r2 is held for it"


def test_a_pod_that_is_late_stays_if_there_is_no_room_and_nobody_else_gets_any(server):
    write_late(server, "late")
    for each in ("next", "last"):
        write(server, server.promised(each, ROOM))
    assert settle(server) == [2 * ROOM, ROOM], "the quota of r1 refuses a copy"
    assert server.promised("more", 10).super_id == ""
    server.delete("next")
    assert settle(server) == [ROOM, ROOM]
    assert server.promised("more", 10).super_id == ""


def test_a_pod_that_is_late_and_refused_by_the_quota_goes_where_room_is_free_later(server):
    write_late(server, "late")
    for each in ("next", "last"):
        write(server, server.promised(each, ROOM))
    settle(server)
    body = server.objects["late"]
    body["metadata"]["annotations"] |= refusal_annotation("r1", Said(REFUSED, reason=QUOTA))
    server.store("late", body)
    settle(server)
    server.delete("last")
    server.deliver_all()
    server.work()
    said = said_by(server.objects["late"]["metadata"]["annotations"], "r1")
    assert said.state == WITHDRAWN
    assert [server.used(each) for each in SUPERS] == [2 * ROOM, ROOM], "the room on r2 is held for it"


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
    """One request to create a Pod, and what the rules of promises say about its promise.

    Attributes:
        name: the Pod's name.
        cpu: what it requests.
        promise: the answer of the scheduler.
        until: when the promise ends by itself.
        uid: under which the Pod is being written; empty before that.
        super_id: the label with which it is written.
        revision: at which it was written; 0 before that.
        told: whether the scheduler was told so.
        ended: whether the promise was given back, or its time or term is over.
    """

    name: str
    cpu: int
    promise: Promise
    until: float
    uid: str = ""
    super_id: str = ""
    revision: int = 0
    told: bool = False
    ended: bool = False


def late_at(server: Server, late: dict[str, str], super_id: str) -> int:
    """Return what the Pods request that came late to a super cluster, and that the scheduler has seen there."""
    return sum(
        each.needs.requests["cpu"]
        for each in server.pods.accounting.pods.values()
        if each.label == super_id == late.get(each.uid)
    )


class PromisesMachine(RuleBasedStateMachine):
    """Creations that end in every way, in any order with events, restarts and time; compared with what is stored.

    A promise has an end, whatever becomes of its Pod: otherwise a lost answer would hold room forever. So a Pod may be written,
    or seen, after the end of its promise. It is late then. Its room may have been given to others meanwhile, and it counts
    from the moment at which it is seen. Pods that a tenant labels itself are late, too. What holds at any time:

    * A share is exceeded by no more than its late Pods request.
    * What stands and is not late counts. What counts stands, or is promised for a time that is not over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.open: list[Creation] = []  # requests without an answer
        self.made: list[Creation] = []
        self.late: dict[str, str] = {}  # UID -> super cluster
        self.term = 0
        self.uids = itertools.count()

    def seen(self, creation: Creation) -> bool:
        return creation.uid in self.server.seen

    def end(self, creation: Creation) -> None:
        """Note that a promise has ended before its Pod is seen."""
        creation.ended = True
        if creation.uid and creation.super_id and not self.seen(creation):
            self.late[creation.uid] = creation.super_id

    def standing(self) -> list[Creation]:
        """Return the creations whose promises stand, and those with Pods that may have been deleted unseen."""
        return [each for each in self.made if not each.ended and not self.seen(each)]

    @rule(name=st.sampled_from("abcdef"), cpu=st.sampled_from([10, 40, 60, 100, 150]))
    def ask(self, name, cpu):
        promise = self.server.promised(name, cpu)
        creation = Creation(name, cpu, promise, self.server.now + PROMISED_SECONDS)
        self.open.append(creation)
        self.made.append(creation)

    @rule(name=st.sampled_from("abcdef"), cpu=st.sampled_from([10, 40, 60, 100]), answer=ANSWERS)
    def ask_and_write(self, name, cpu, answer):
        self.ask(name, cpu)
        self.open.insert(0, self.open.pop())
        self.write(0, "written", answer)

    @precondition(lambda self: any(not each.revision for each in self.open))
    @rule(number=st.integers(0, 99))
    def begin_to_write(self, number):
        self.prepare(self.unwritten(number))

    def unwritten(self, number: int) -> Creation:
        found = [each for each in self.open if not each.revision]
        return found[number % len(found)]

    def prepare(self, creation: Creation) -> None:
        self.late.pop(creation.uid, None)  # nothing was written under the former UID
        creation.uid = f"uid-{next(self.uids)}"
        holds = creation.promise.writing(creation.uid)
        assert holds == (not creation.ended and self.server.now < creation.until)
        creation.super_id = creation.promise.super_id if holds else ""
        creation.ended = not holds
        creation.until = self.server.now + PROMISED_SECONDS

    @precondition(lambda self: any(not each.revision for each in self.open))
    @rule(number=st.integers(0, 99), outcome=st.sampled_from(["written", "failed"]), answer=ANSWERS)
    def write(self, number, outcome, answer):
        creation = self.unwritten(number)
        if not creation.uid:
            self.prepare(creation)
        stored = outcome == "written" and creation.name not in self.server.objects
        if stored:
            creation.revision = self.server.create(
                creation.name, creation.cpu, creation.super_id, creation.uid
            )
        if answer == "never" or not stored:
            self.open.remove(creation)
        if answer != "never" and not stored:
            self.give_back(creation)
        elif answer == "now":
            self.tell(creation)

    def give_back(self, creation: Creation) -> None:
        creation.promise.give_back()
        creation.ended = True

    def tell(self, creation: Creation) -> None:
        if creation in self.open:
            self.open.remove(creation)
        creation.promise.written(creation.revision)
        creation.told = True
        if not creation.ended:
            creation.until = self.server.now + WRITTEN_SECONDS

    @precondition(lambda self: any(each.revision for each in self.open))
    @rule()
    def answer(self):
        self.tell(next(each for each in self.open if each.revision))

    @precondition(lambda self: any(not each.revision for each in self.open))
    @rule(number=st.integers(0, 99))
    def refuse(self, number):
        creation = self.unwritten(number)
        self.open.remove(creation)
        self.give_back(creation)

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
            uid = f"uid-{next(self.uids)}"
            self.late[uid] = label
            self.server.create(name, 30, label, uid)

    @rule(seconds=st.sampled_from([1.0, PROMISED_SECONDS, WRITTEN_SECONDS]))
    def wait(self, seconds):
        self.server.wait(seconds)

    @rule()
    def schedule(self):
        self.server.work()
        for each in self.standing():
            if each.until <= self.server.now:
                self.end(each)
        assert self.promised(sure=True) <= len(self.server.pods.promises) <= self.promised(sure=False)

    def promised(self, *, sure: bool) -> int:
        """Return how many promises stand: those that certainly do, or those that may."""
        return sum(not (sure and self.may_be_gone(each)) for each in self.standing())

    def may_be_gone(self, creation: Creation) -> bool:
        """Return whether the Pod was deleted before it was seen, so that its promise ends at the next opportunity."""
        return creation.told and creation.revision <= self.server.seen_until()

    @precondition(lambda self: self.term < 2)
    @rule(sure=st.integers(0, 3))
    def restart(self, sure):
        if sure:
            return
        self.term += 1
        self.server.pods.promises.close()
        self.server.begin()
        for each in self.made:
            self.end(each)

    @invariant()
    def a_share_is_exceeded_by_late_pods_only(self):
        for super_id in SUPERS:
            assert self.server.used(super_id) <= ROOM + late_at(self.server, self.late, super_id)

    @invariant()
    def the_book_holds_the_pods_that_were_seen_and_the_promises_that_stand(self):
        for super_id in SUPERS:
            seen = sum(
                each.needs.requests["cpu"]
                for each in self.server.pods.accounting.pods.values()
                if each.label == super_id
            )
            there = [each for each in self.standing() if each.promise.super_id == super_id]
            sure = sum(each.cpu for each in there if not self.may_be_gone(each))
            assert seen + sure <= self.server.used(super_id) <= seen + sum(each.cpu for each in there)

    @invariant()
    def what_stands_and_is_not_late_counts(self):
        known = {each.uid for each in self.server.pods.accounting.pods.values()}
        for super_id in SUPERS:
            late = sum(
                cpu_of(each)
                for each in self.server.objects.values()
                if each["metadata"]["uid"] not in known
                and home(each) == super_id == self.late.get(each["metadata"]["uid"])
            )
            assert self.server.used(super_id) >= self.server.standing(super_id) - late

    def teardown(self) -> None:
        """Let everything come to rest: the book equals what stands, and nobody waits for free room."""
        for each in list(self.open):
            if each.revision:
                self.tell(each)
            else:
                self.give_back(each)
        for _ in range(3):
            self.server.deliver_all()
            self.server.wait(WRITTEN_SECONDS)
            self.schedule()
        assert nothing_is_kept(self.server)
        for super_id in SUPERS:
            assert self.server.used(super_id) == self.server.standing(super_id)
            free = ROOM - self.server.used(super_id)
            waiting = [cpu_of(each) for each in self.server.objects.values() if not home(each)]
            # Room may be held for a Pod that has waited for long.
            assert any(free < cpu <= ROOM for cpu in waiting) or all(cpu > free for cpu in waiting)
        self.a_share_is_exceeded_by_late_pods_only()


TestPromises = PromisesMachine.TestCase
TestPromises.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
