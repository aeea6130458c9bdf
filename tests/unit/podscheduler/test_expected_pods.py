"""Promises to Pods that another process creates: nobody tells what becomes of them, so they end at first sight or by time."""

from dataclasses import dataclass

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from test_promises import NS, ROOM, SUPERS, Server, cpu_of, home, late_at, nothing_is_kept

from vcsync.api.names import SUPER_CLUSTER
from vcsync.podscheduler import accounting, tenant
from vcsync.podscheduler.promises import PROMISED_SECONDS, Promise, birth_of
from vcsync.scheduling.pods import PodNeeds


def ask(server: Server, name: str, cpu: int = 50, prefix: str = "", owner: str = "") -> Promise | None:
    """Ask as a review does: requests count the Pod itself, too."""
    needs = PodNeeds({"cpu": cpu, "pods": 1000})
    birth = birth_of(NS, name, prefix, [owner] if owner else [], needs.requests)
    return server.pods.promise(NS, name, needs, birth=birth)


def write(server: Server, name: str, super_id: str, cpu: int = 50, prefix: str = "", owner: str = "") -> None:
    server.create(name, cpu, super_id, uid=f"uid-{name}-{server.version}")
    metadata = server.objects[name]["metadata"]
    if prefix:
        metadata["generateName"] = prefix
    if owner:
        metadata["ownerReferences"] = [{"uid": owner}]
    server.events[-1] = ("MODIFIED", server.envelope(name))


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_promise_ends_when_its_pod_is_seen(server):
    promise = ask(server, "p")
    write(server, "p", promise.super_id)
    server.deliver_all()
    assert (len(server.pods.promises), server.used("r1")) == (0, 50)
    assert [(each.name, each.revision) for each in server.written] == [("p", server.version)]


def test_a_promise_to_a_generated_name_ends_with_the_first_such_pod(server):
    promises = [ask(server, "", 10, "web-", "rs") for _ in range(3)]
    write(server, "web-1", promises[0].super_id, 10, "web-", "rs")
    server.deliver_all()
    assert len(server.pods.promises) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"name": "q"},
        {"cpu": 20},
        {"super_id": "r2"},
        {"super_id": ""},
        {"owner": "another"},
    ],
)
def test_another_pod_does_not_end_a_promise(server, other):
    assert ask(server, "p", 10, owner="rs").super_id == "r1"
    write(server, **{"name": "p", "cpu": 10, "super_id": "r1", "owner": "rs", **other})
    server.deliver_all()
    assert len(server.pods.promises) == 1


def test_a_pod_that_is_seen_again_ends_no_second_promise(server):
    for _ in range(2):
        ask(server, "", 10, "web-")
    write(server, "web-1", "r1", 10, "web-")
    server.deliver_all()
    server.store("web-1", server.objects["web-1"])
    server.deliver_all()
    assert len(server.pods.promises) == 1


def test_room_for_a_pod_that_is_never_written_is_free_after_a_time(server):
    ask(server, "p", ROOM)
    server.wait(PROMISED_SECONDS)
    server.work()
    assert (len(server.pods.promises), server.used("r1")) == (0, 0)


def test_room_is_free_no_later_when_promises_follow_one_another(server):
    ask(server, "p", ROOM)
    server.wait(PROMISED_SECONDS / 2)
    ask(server, "q", ROOM)
    server.wait(PROMISED_SECONDS / 2)
    server.work()
    assert [server.used(each) for each in SUPERS] == [0, ROOM]
    server.wait(PROMISED_SECONDS / 2)
    server.work()
    assert [server.used(each) for each in SUPERS] == [0, 0]


def test_only_one_pod_of_a_name_is_expected(server):
    assert ask(server, "p") is not None
    assert ask(server, "p") is None
    write(server, "p", "r1")
    server.deliver_all()
    assert ask(server, "p") is None, "the API server refuses it"
    server.delete("p")
    server.deliver_all()
    assert ask(server, "p") is not None


def test_a_namespace_without_slices_is_left_alone(server):
    needs = PodNeeds({"cpu": 1})
    birth = birth_of("empty", "p", "", [], needs.requests)
    assert server.pods.promise("empty", "p", needs, birth=birth) is None


def test_a_flood_holds_a_limited_number_of_promises(server, monkeypatch):
    monkeypatch.setattr(tenant, "MOST_EXPECTED", 5)
    found = [ask(server, f"p{number}", 60) for number in range(50)]
    assert [bool(each and each.super_id) for each in found].count(True) == len(SUPERS)
    assert len(server.pods.promises) == 5
    assert all(server.used(each) <= ROOM for each in SUPERS)


def test_a_pod_that_is_told_to_wait_keeps_its_turn_until_it_is_seen(server):
    assert ask(server, "large", 150).super_id == ""
    assert ask(server, "small", 10).super_id == ""
    for name, cpu in (("large", 150), ("small", 10)):
        write(server, name, "", cpu)
    server.deliver_all()
    assert len(server.pods.promises) == 0
    assert ask(server, "next", 10).super_id == "", "it may not overtake Pods that wait"


@pytest.mark.parametrize(
    ("undecided", "cpu", "placed"),
    [([10], 50, True), ([10, 20, 20], 50, True), ([10, 20, 30], 50, False), ([60], 50, False), ([150], 10, False)],
)  # fmt: skip
def test_a_pod_that_leaves_room_for_all_before_it_does_not_wait_for_them(server, undecided, cpu, placed):
    for number, each in enumerate(undecided):
        server.create(f"before-{number}", each)
    server.deliver_all()
    assert bool(ask(server, "p", cpu).super_id) is placed
    server.work()
    if max(undecided) <= ROOM:
        assert all(home(server.objects[f"before-{number}"]) for number in range(len(undecided)))


def test_a_pod_that_was_not_asked_about_does_not_delay_those_that_follow(server):
    server.create("missed", 10)
    server.deliver_all()
    found = [ask(server, f"p{number}", 10) for number in range(2 * ROOM // 10)]
    left = [bool(each.super_id) for each in found].count(False)
    assert left == len(SUPERS), "the one that was missed may go to each of them"
    server.work()
    assert home(server.objects["missed"])


def test_pods_that_were_told_to_wait_keep_room_but_delay_nobody_else(server):
    server.create("large", 60)
    server.deliver_all()
    assert ask(server, "told", 50).super_id == "", "no super cluster has room for both"
    assert ask(server, "next", 10).super_id == "", "nor for all three"
    server.work()
    [free] = {*SUPERS} - {home(server.objects["large"])}
    assert ask(server, "last", 40).super_id == free, "it has room for these two besides"
    for name, cpu in (("told", 50), ("next", 10)):
        write(server, name, "", cpu)
    server.deliver_all()
    server.work()
    assert home(server.objects["told"])
    assert home(server.objects["next"])


@pytest.mark.parametrize(
    ("more", "name"),
    [({"claims": ("data",)}, "claims"), ({"devices": ("gpu",)}, "devices")],
)
def test_a_new_pod_waits_for_those_whose_decision_depends_on_more_than_room(server, more, name):
    assert server.ask(name, **more).super_id == ""
    assert ask(server, "p", 1).super_id == ""


def test_a_new_pod_waits_for_a_crowd_of_undecided_ones(server, monkeypatch):
    monkeypatch.setattr(accounting, "MOST_UNDECIDED", 2)
    for number in range(3):
        server.create(f"before-{number}", 1)
    server.deliver_all()
    assert ask(server, "p", 1).super_id == ""


def test_a_pod_with_a_label_of_its_own_is_decided_before_new_ones(server):
    write(server, "forged", "nowhere", 1)
    server.deliver_all()
    assert ask(server, "p", 1).super_id == ""
    server.work()
    assert home(server.objects["forged"]) in SUPERS
    assert ask(server, "q", 1).super_id


@dataclass
class Answer:
    """An answer to a review, and the Pod of it.

    Attributes:
        name: the Pod's name; empty if it is generated.
        cpu: what it requests.
        super_id: the super cluster of the answer; empty if it is to wait.
        until: when the promise ends by itself.
        uid: of the Pod; empty before it is written.
    """

    name: str
    cpu: int
    super_id: str
    until: float
    uid: str = ""


class ExpectedPods(RuleBasedStateMachine):
    """Reviews whose Pods are written, refused, changed or forged, with events, restarts and time in any order.

    A Pod is late if the promise to it ends before it is seen, or if it was never promised anything in this form. As in
    `PromisesMachine`, a share is exceeded by no more than its late Pods request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.open: list[Answer] = []  # their Pods are not written yet
        self.written: list[Answer] = []
        self.late: dict[str, str] = {}  # UID -> super cluster
        self.number = 0

    def create(self, name: str, super_id: str, cpu: int, prefix: str) -> str:
        """Store a Pod, and return its UID."""
        write(self.server, name, super_id, cpu, prefix)
        uid: str = self.server.objects[name]["metadata"]["uid"]
        return uid

    @rule(
        name=st.sampled_from(["a", "b", "c", ""]),
        cpu=st.sampled_from([10, 40, 60, 100, 150]),
        dry=st.booleans(),
    )
    def review(self, name, cpu, dry):
        if dry:
            return  # a dry run does not reach the promises
        prefix = "" if name else "web-"
        promise = ask(self.server, name, cpu, prefix)
        if promise is not None:
            assert self.server.now < promise.until
        super_id = promise.super_id if promise else ""
        self.open.append(Answer(name, cpu, super_id, self.server.now + PROMISED_SECONDS))

    @precondition(lambda self: self.open)
    @rule(position=st.integers(0, 99), outcome=st.sampled_from(["written", "refused", "changed"]))
    def control_plane_goes_on(self, position, outcome):
        answer = self.open.pop(position % len(self.open))
        if outcome == "refused" or answer.name in self.server.objects:
            return
        self.number += 1
        name, prefix = answer.name or f"web-{self.number}", "" if answer.name else "web-"
        if outcome == "changed":  # by another webhook
            self.late[self.create(name, answer.super_id, answer.cpu + 5, prefix)] = answer.super_id
            return
        answer.uid = self.create(name, answer.super_id, answer.cpu, prefix)
        self.written.append(answer)
        self.note_late()

    @rule(super_id=st.sampled_from(["", *SUPERS, "nowhere"]), cpu=st.sampled_from([10, 60]))
    def forge(self, super_id, cpu):
        self.number += 1
        self.late[self.create(f"web-{self.number}", super_id, cpu, "web-")] = super_id

    @precondition(lambda self: self.server.objects)
    @rule(position=st.integers(0, 99))
    def delete(self, position):
        self.server.delete(list(self.server.objects)[position % len(self.server.objects)])

    @precondition(lambda self: self.server.events)
    @rule(number=st.integers(1, 3))
    def see(self, number):
        for _ in range(min(number, len(self.server.events))):
            self.server.deliver()

    @rule(seconds=st.sampled_from([0.5, PROMISED_SECONDS / 2, PROMISED_SECONDS]))
    def wait(self, seconds):
        self.server.wait(seconds)
        self.note_late()

    def note_late(self) -> None:
        """Note the Pods that are not seen by the end of their promises."""
        for each in self.written:
            if each.until <= self.server.now and each.uid not in self.server.seen:
                self.late[each.uid] = each.super_id

    @rule()
    def schedule(self):
        self.server.work()

    @rule()
    def restart_the_watch(self):
        """The events are lost, and a list shows what there is."""
        self.server.events.clear()
        for pod in list(self.server.cache.items()):
            if self.server.objects.get(pod.name, {}).get("metadata", {}).get("uid") != pod.uid:
                self.server.gone(pod.namespace, pod.name, pod.uid)
        for name in list(self.server.objects):
            self.server.observe(name)

    @rule(sure=st.integers(0, 5))
    def restart_the_term(self, sure):
        if not sure:
            self.server.pods.promises.close()
            self.server.begin()
            for each in self.open:
                each.until = self.server.now

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
    def a_share_is_exceeded_by_late_pods_only(self):
        for super_id in SUPERS:
            assert self.server.used(super_id) <= ROOM + late_at(self.server, self.late, super_id)

    @invariant()
    def nothing_is_promised_beyond_the_slices(self):
        for super_id in SUPERS:
            promised = sum(
                each.requests["cpu"]
                for each in self.server.pods.promises.standing.get(NS, ())
                if each.super_id == super_id
            )
            assert promised <= ROOM

    def teardown(self) -> None:
        """Let everything come to rest: the book equals what stands, and nobody waits for free room."""
        for _ in range(4):
            self.server.deliver_all()
            self.server.wait(PROMISED_SECONDS)
            self.server.work()
        assert nothing_is_kept(self.server)
        self.a_share_is_exceeded_by_late_pods_only()  # the quota there refuses late Pods
        for super_id in SUPERS:
            assert self.server.used(super_id) == self.server.standing(super_id)
            free = ROOM - self.server.used(super_id)
            assert all(cpu_of(each) > free for each in self.server.objects.values() if not home(each))
        assert all(
            SUPER_CLUSTER not in each["metadata"]["labels"] or home(each) in SUPERS
            for each in self.server.objects.values()
        )


TestExpectedPods = ExpectedPods.TestCase
TestExpectedPods.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, phases=[Phase.generate]
)
