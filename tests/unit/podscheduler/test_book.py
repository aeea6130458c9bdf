import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from vcsync.podscheduler.book import Assign, Book, Wait
from vcsync.podscheduler.pods import Pod
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.snapshot import Health, SuperView

SIZE = {"cpu": 100, "memory": 100}
VIEWS = {super_id: SuperView(super_id, Health.READY, {}) for super_id in ("r1", "r2", "r3")}
NS = "shop"
_uids = itertools.count()


def pod(
    name="p", cpu=50, *, label="", annotation=None, node="", gated=False, supers=None, deleting=False, uid=""
):
    needs = PodNeeds({"cpu": cpu} if cpu else {}, node, gated, supers)
    shown = label if annotation is None else annotation
    return Pod(NS, name, uid or f"uid-{name}", "1", needs, label, shown, deleting, "")


@pytest.fixture
def book():
    made = Book()
    made.grant(NS, SIZE, {"r1": 1, "r2": 1})
    return made


def seen(book, each):
    book.see(each)
    return each


def used(book, super_id):
    share = book.share(NS, super_id)
    return 0 if share is None else share.used.get("cpu", 0)


def test_decisions_count_before_they_are_written(book):
    placed = []
    for name in ("a", "b", "c", "d"):
        each = seen(book, pod(name))
        verdict = book.decide(each, VIEWS)
        book.assume(each, verdict.super_id)
        placed.append(verdict.super_id)
    assert placed == ["r1", "r2", "r1", "r2"]
    assert isinstance(book.decide(seen(book, pod("e")), VIEWS), Wait)


def test_pods_that_request_nothing_have_no_more_room_than_their_slices():
    book = Book()
    book.grant(NS, SIZE | {"pods": 2000}, {"r1": 1})
    idle = {"pods": 1000}
    for name in ("a", "b"):
        each = seen(book, replace(pod(name), needs=PodNeeds(idle)))
        assert isinstance(book.decide(each, VIEWS), Assign)
        book.assume(each, "r1")
    verdict = book.decide(seen(book, replace(pod("c"), needs=PodNeeds(idle))), VIEWS)
    assert isinstance(verdict, Wait)
    assert verdict.decision.reasons() == "r1: pods 1 asked, 0 of 2 free"


def test_a_decision_that_could_not_be_written_frees_its_share(book):
    each = seen(book, pod(cpu=100))
    book.assume(each, "r1")
    assert used(book, "r1") == 100
    assert book.settle(each.key)
    assert used(book, "r1") == 0


def test_late_news_of_the_unlabelled_pod_do_not_free_an_assumed_share(book):
    each = seen(book, pod(cpu=100))
    book.assume(each, "r1")
    book.see(pod(cpu=100))
    assert used(book, "r1") == 100
    book.see(pod(cpu=100, label="r1"))
    assert not book.settle(each.key)
    assert used(book, "r1") == 100


def test_an_assumption_does_not_outlive_its_pod(book):
    book.assume(seen(book, pod(cpu=100)), "r1")
    book.see(pod(cpu=100, uid="another"))
    assert used(book, "r1") == 0


@pytest.mark.parametrize(
    ("each", "verdict"),
    [
        pytest.param(pod(label="r2"), None, id="a choice of the tenant's that fits stands"),
        pytest.param(pod(label="r2", annotation=""), Assign("r2"), id="its annotation follows the label"),
        pytest.param(pod(label="r3"), "r1", id="no slices where the label says"),
        pytest.param(pod(label="nowhere"), "r1", id="no such super cluster"),
        pytest.param(pod(label="r2", cpu=101), None, id="too large everywhere: the quota there decides"),
        pytest.param(pod(label="r2", supers=("r1",)), "r1", id="label against node selector"),
        pytest.param(pod(supers=("r2",)), "r2", id="node selector"),
        pytest.param(pod(node="n.r2", label="r2"), None, id="bound"),
        pytest.param(pod(node="n.r2", label="r1"), Assign("r2"), id="bound, label tampered with"),
        pytest.param(pod(node="n.r2"), Assign("r2"), id="bound, label removed"),
        pytest.param(pod(node="n.r3", label="r1"), Assign("r3"), id="bound where the slices have left"),
        pytest.param(pod(node="n", label="r1"), None, id="bound to no virtual node"),
        pytest.param(pod(node="n.zz", label="r1"), None, id="bound to an unknown super cluster"),
        pytest.param(pod(gated=True), None, id="gated"),
        pytest.param(pod(node="n.r2", deleting=True), Assign("r2"), id="bound, label removed, being deleted"),
        pytest.param(pod(deleting=True), None, id="being deleted"),
        pytest.param(pod(deleting=True, label="r3"), None, id="being deleted with any label"),
    ],
)
def test_what_is_done_with_a_pod(book, each, verdict):
    found = book.decide(seen(book, each), VIEWS)
    if isinstance(verdict, str):
        assert isinstance(found, Assign)
        assert found.super_id == verdict
    else:
        assert found == verdict
    assert found is None or not book.settled(each, VIEWS)


def test_a_label_beyond_the_share_is_moved_where_there_is_room(book):
    seen(book, pod("a", 100, label="r2"))
    forged = seen(book, pod("b", 60, label="r2"))
    assert book.decide(forged, VIEWS).super_id == "r1"


def test_pods_count_where_they_are_bound_not_where_the_label_says(book):
    seen(book, pod(cpu=100, node="n.r2", label="r1"))
    assert (used(book, "r1"), used(book, "r2")) == (0, 100)


def test_gone_and_moved_pods_free_their_share(book):
    seen(book, pod("a", 100, label="r1"))
    assert book.see(pod("a", 100, label="r2"))
    assert (used(book, "r1"), used(book, "r2")) == (0, 100)
    assert book.gone((NS, "a"))
    assert used(book, "r2") == 0
    assert not book.gone((NS, "a"))


def test_pods_are_moved_off_shares_that_were_taken_away_unless_they_are_bound(book):
    waiting = seen(book, pod("a", label="r1"))
    bound = seen(book, pod("b", label="r1", node="n.r1"))
    assert book.grant(NS, SIZE, {"r2": 1})
    assert book.decide(waiting, VIEWS).super_id == "r2"
    assert book.decide(bound, VIEWS) is None
    book.grant(NS, {}, {})
    assert isinstance(book.decide(waiting, VIEWS), Wait)


def test_granting_the_same_again_is_no_change(book):
    assert not book.grant(NS, SIZE, {"r2": 1, "r1": 1, "r3": 0})


def test_those_who_wait_and_would_fit_are_tried_first_come_first_served(book):
    seen(book, pod("full-1", 100, label="r1"))
    seen(book, pod("full-2", 100, label="r2"))
    for name, cpu in (("large", 120), ("b", 60), ("a", 60), ("small", 30)):
        each = seen(book, pod(name, cpu))
        verdict = book.decide(each, VIEWS)
        book.wait(each, verdict.signature)
    assert list(book.worth_a_try(NS)) == []
    book.gone((NS, "full-1"))
    assert list(book.worth_a_try(NS)) == [(NS, "b"), (NS, "small")]
    assert book.waiting_count() == 4
    book.gone((NS, "b"))
    assert (NS, "b") not in book.waiting(NS)


def test_amounts_alone_are_not_worth_telling_again(book):
    each = seen(book, pod("a", 120))
    first = book.decide(each, VIEWS)
    seen(book, pod("b", 60, label="r1"))
    second = book.decide(each, VIEWS)
    assert first.decision.reasons() != second.decision.reasons()
    assert first.signature == second.signature
    closed = {**VIEWS, "r1": SuperView("r1", Health.LOST, {})}
    assert book.decide(each, closed).signature != first.signature


def test_nothing_is_kept_of_namespaces_without_pods_and_slices():
    book = Book()
    book.grant(NS, SIZE, {"r1": 1})
    each = seen(book, pod(label="r9"))
    book.wait(each, ())
    book.gone(each.key)
    book.grant(NS, {}, {})
    assert book.namespaces() == []
    assert not book._charges


class Books(RuleBasedStateMachine):
    """Whatever happens in whatever order, the sums are those of the Pods, and nobody is given too much."""

    names = st.sampled_from(["a", "b", "c", "d"])
    labels = st.sampled_from(["", "r1", "r2", "r3", "zz"])

    def __init__(self):
        super().__init__()
        self.book = Book()
        self.decided = {}
        self.granted = {}

    @rule(name=names, cpu=st.integers(0, 120), label=labels, node=st.sampled_from(["", "", "n.r1", "n.r3"]))
    def appears(self, name, cpu, label, node):
        if (NS, name) not in self.book.pods:
            self.book.see(pod(name, cpu, label=label, node=node, uid=f"uid-{next(_uids)}"))

    @rule(name=names, label=labels)
    def is_relabelled(self, name, label):
        old = self.book.pods.get((NS, name))
        if old is not None:
            self.book.see(Pod(NS, name, old.uid, "2", old.needs, label, label, False, ""))

    @rule(name=names)
    def goes(self, name):
        self.book.gone((NS, name))
        self.decided.pop(name, None)

    @rule(name=names)
    def is_decided(self, name):
        each = self.book.pods.get((NS, name))
        if each is None or name in self.decided:
            return
        verdict = self.book.decide(each, VIEWS)
        if isinstance(verdict, Assign):
            self.book.assume(each, verdict.super_id)
            self.decided[name] = (each, verdict.super_id)
            if verdict.decision is not None:
                share = self.book.share(NS, verdict.super_id)
                asked = each.needs.requests.get("cpu", 0)
                assert not asked or share.used["cpu"] <= share.capacity["cpu"]
        elif isinstance(verdict, Wait):
            self.book.wait(each, verdict.signature)

    @rule(name=names, succeeded=st.booleans())
    def is_written(self, name, succeeded):
        each, super_id = self.decided.pop(name, (None, ""))
        if each is None:
            return
        if succeeded and (NS, name) in self.book.pods:
            self.book.see(Pod(NS, name, each.uid, "3", each.needs, super_id, super_id, False, ""))
        self.book.settle((NS, name))

    @rule(granted=st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), st.integers(0, 3)))
    def slices_change(self, granted):
        self.book.grant(NS, SIZE, granted)

    @invariant()
    def sums_are_those_of_the_pods(self):
        expected = {}
        for each in self.book.pods.values():
            place = each.bound_to
            if not place and each.name in self.decided and self.decided[each.name][0].uid == each.uid:
                place = self.decided[each.name][1]
            place = place or each.label
            if place:
                cpu, number = expected.get(place, (0, 0))
                expected[place] = (cpu + each.needs.requests.get("cpu", 0), number + 1)
        for super_id in ("r1", "r2", "r3", "zz"):
            share = self.book.share(NS, super_id)
            found = (0, 0) if share is None else (share.used.get("cpu", 0), share.pods)
            assert found == expected.get(super_id, (0, 0))


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=30, stateful_step_count=25)
