import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from vcsync.api.refusals import (
    NO_ROOM,
    REFUSED,
    RETURNED,
    SLICES_LEFT,
    UNSCHEDULABLE,
    WITHDRAWN,
    Said,
)
from vcsync.podscheduler.accounting import Assign, Await, PodAccounting, Wait, Withdraw
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.revisits import Reason
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
def accounting():
    made = PodAccounting()
    made.grant(NS, SIZE, {"r1": 1, "r2": 1})
    return made


def seen(accounting, each):
    accounting.update(each)
    return each


def used(accounting, super_id):
    share = accounting.share(NS, super_id)
    return 0 if share is None else share.used.get("cpu", 0)


def test_decisions_count_before_they_are_written(accounting):
    placed = []
    for name in ("a", "b", "c", "d"):
        each = seen(accounting, pod(name))
        verdict = accounting.decide(each, VIEWS)
        accounting.assume(each, verdict.super_id)
        placed.append(verdict.super_id)
    assert placed == ["r1", "r2", "r1", "r2"]
    assert isinstance(accounting.decide(seen(accounting, pod("e")), VIEWS), Wait)


def test_slices_limit_the_number_of_pods_without_requests():
    accounting = PodAccounting()
    accounting.grant(NS, SIZE | {"pods": 2000}, {"r1": 1})
    idle = {"pods": 1000}
    for name in ("a", "b"):
        each = seen(accounting, replace(pod(name), needs=PodNeeds(idle)))
        assert isinstance(accounting.decide(each, VIEWS), Assign)
        accounting.assume(each, "r1")
    verdict = accounting.decide(seen(accounting, replace(pod("c"), needs=PodNeeds(idle))), VIEWS)
    assert isinstance(verdict, Wait)
    assert verdict.decision.reasons() == "r1: pods 1 asked, 0 of 2 free"


def test_a_decision_that_could_not_be_written_frees_its_share(accounting):
    each = seen(accounting, pod(cpu=100))
    accounting.assume(each, "r1")
    assert used(accounting, "r1") == 100
    assert accounting.settle(each.key)
    assert used(accounting, "r1") == 0


def test_an_outdated_event_without_label_does_not_free_an_assumed_share(accounting):
    each = seen(accounting, pod(cpu=100))
    accounting.assume(each, "r1")
    accounting.update(pod(cpu=100))
    assert used(accounting, "r1") == 100
    accounting.update(pod(cpu=100, label="r1"))
    assert not accounting.settle(each.key)
    assert used(accounting, "r1") == 100


def test_a_pod_with_another_uid_frees_an_assumed_share(accounting):
    accounting.assume(seen(accounting, pod(cpu=100)), "r1")
    accounting.update(pod(cpu=100, uid="another"))
    assert used(accounting, "r1") == 0


@pytest.mark.parametrize(
    ("each", "verdict"),
    [
        pytest.param(pod(label="r2"), None, id="a choice of the tenant's that fits stands"),
        pytest.param(pod(label="r2", annotation=""), Assign("r2"), id="its annotation follows the label"),
        pytest.param(pod(label="r3"), "r3 -> r1", id="no slices where the label says"),
        pytest.param(pod(label="nowhere"), "r1", id="no such super cluster"),
        pytest.param(pod(label="r2", cpu=101), None, id="too large everywhere: the quota there decides"),
        pytest.param(pod(label="r2", supers=("r1",)), "r2 -> r1", id="label against node selector"),
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
def test_decisions_on_a_pod(accounting, each, verdict):
    found = accounting.decide(seen(accounting, each), VIEWS)
    if isinstance(verdict, str):
        old, _, new = verdict.rpartition(" -> ")
        assert isinstance(found, Withdraw if old else Assign)
        assert found.super_id == new
    else:
        assert found == verdict
    assert found is None or not accounting.settled(each, VIEWS)


def test_a_label_of_the_tenants_that_exceeds_its_share_is_taken_back_from_there(accounting):
    seen(accounting, pod("a", 100, label="r2"))
    forged = seen(accounting, pod("b", 60, label="r2", annotation=""))
    verdict = accounting.decide(forged, VIEWS)
    assert isinstance(verdict, Withdraw), "the syncer of r2 follows the label, too"
    assert (verdict.super_id, verdict.reason) == ("r1", NO_ROOM)
    seen(accounting, pod("c", 100, label="r1"))
    assert accounting.decide(forged, VIEWS).super_id == "r2", "the quota there decides"


def test_a_pod_that_was_placed_stays_though_its_share_is_exceeded(accounting):
    """It may run already. Otherwise the quota there refuses its copy, and its syncer says so."""
    seen(accounting, pod("a", 100, label="r2"))
    assert accounting.settled(seen(accounting, pod("b", 60, label="r2")), VIEWS)


LOST = SuperView("r1", Health.LOST, {}, out_of_touch="no heartbeat since noon")


def locked(state="", reason=""):
    said = {"r1": Said(state, 0, reason)} if state else {}
    return replace(pod(label="r1"), said=said)


@pytest.mark.parametrize(
    ("state", "reason"), [("", SLICES_LEFT), (REFUSED, UNSCHEDULABLE), (WITHDRAWN, None)]
)
def test_a_pod_whose_slices_have_left_is_taken_back_and_not_moved(state, reason):
    accounting = PodAccounting()
    accounting.grant(NS, SIZE, {"r1": 2})
    each = seen(accounting, locked(state, UNSCHEDULABLE if state else ""))
    accounting.grant(NS, SIZE, {"r2": 2})
    verdict = accounting.decide(each, VIEWS)
    if reason is None:
        assert verdict is None, "r1 has to give it back first"
    else:
        assert isinstance(verdict, Withdraw)
        assert (verdict.super_id, verdict.reason) == ("r2", reason)
    returned = seen(accounting, locked(RETURNED, SLICES_LEFT))
    assert accounting.decide(returned, VIEWS).super_id == "r2"


@pytest.mark.parametrize(
    ("views", "holds"),
    [
        pytest.param({each: VIEWS[each] for each in ("r2", "r3")}, True, id="not registered"),
        pytest.param(VIEWS | {"r1": replace(LOST, fenced=True)}, True, id="fenced"),
        pytest.param(VIEWS, False, id="the ledger says that nothing of the namespace is there"),
        pytest.param(VIEWS | {"r1": LOST}, False, id="the same while it is lost"),
    ],
)
@pytest.mark.parametrize("state", ["", REFUSED, WITHDRAWN])
def test_a_pod_moves_at_once_from_where_it_cannot_be(views, holds, state):
    accounting = PodAccounting(holds=lambda _namespace, _super_id: holds)
    accounting.grant(NS, SIZE, {"r1": 2})
    each = seen(accounting, locked(state))
    accounting.grant(NS, SIZE, {"r2": 2})
    verdict = accounting.decide(each, views)
    assert isinstance(verdict, Assign)
    assert verdict.super_id == "r2"


@pytest.mark.parametrize("state", ["", REFUSED, WITHDRAWN])
@pytest.mark.parametrize("left", [{"r2": 2}, {"r1": 1, "r2": 1}], ids=["all slices left", "some slices left"])
@pytest.mark.parametrize(
    "view",
    [LOST, replace(LOST, health=Health.SUSPECT), replace(LOST, out_of_touch="")],
    ids=["lost", "suspect", "lost without a reason"],
)
def test_a_pod_waits_for_a_super_cluster_that_nobody_hears_from(state, left, view):
    accounting = PodAccounting()
    accounting.grant(NS, SIZE, {"r1": 2})
    each = seen(accounting, locked(state))
    seen(accounting, pod("bound", 150, label="r1", node="n.r1"))
    accounting.grant(NS, SIZE, left)
    views = VIEWS | {"r1": view}
    verdict = accounting.decide(each, views)
    if not state and "r1" in left:
        assert verdict is None, "its slices are still there"
        return
    assert isinstance(verdict, Await)
    assert verdict.reason.startswith("super cluster r1 may still run this Pod, and nobody hears from it: ")
    assert verdict.reason.endswith("the Pod stays there until r1 answers again or its operator fences it")
    assert accounting.wait_for_super(each, verdict.reason)
    assert not accounting.wait_for_super(each, verdict.reason), "it is reported once"
    assert each.key in accounting.concerned(Reason(supers=frozenset({"r1"})), NS), "its return is looked at"


def test_a_pod_that_returns_to_a_healthy_super_cluster_is_not_moved_by_its_health_alone():
    accounting = PodAccounting()
    each = seen(accounting, locked())
    accounting.grant(NS, SIZE, {"r2": 2})
    for health in (Health.RECOVERING, Health.READY):
        verdict = accounting.decide(each, VIEWS | {"r1": replace(LOST, health=health, out_of_touch="")})
        assert isinstance(verdict, Withdraw)


def test_bound_pods_count_on_their_node_and_not_on_their_label(accounting):
    seen(accounting, pod(cpu=100, node="n.r2", label="r1"))
    assert (used(accounting, "r1"), used(accounting, "r2")) == (0, 100)


def test_removed_and_moved_pods_free_their_share(accounting):
    seen(accounting, pod("a", 100, label="r1"))
    assert accounting.update(pod("a", 100, label="r2"))
    assert (used(accounting, "r1"), used(accounting, "r2")) == (0, 100)
    assert accounting.remove((NS, "a"))
    assert used(accounting, "r2") == 0
    assert not accounting.remove((NS, "a"))


def test_only_bound_pods_stay_on_a_share_that_was_removed(accounting):
    waiting = seen(accounting, pod("a", label="r1"))
    bound = seen(accounting, pod("b", label="r1", node="n.r1"))
    assert accounting.grant(NS, SIZE, {"r2": 1})
    assert accounting.decide(waiting, VIEWS).super_id == "r2"
    assert accounting.decide(bound, VIEWS) is None
    accounting.grant(NS, {}, {})
    verdict = accounting.decide(waiting, VIEWS)
    assert isinstance(verdict, Withdraw)
    assert verdict.super_id == "", "there is no room anywhere"


def test_granting_the_same_again_is_no_change(accounting):
    assert not accounting.grant(NS, SIZE, {"r2": 1, "r1": 1, "r3": 0})


def test_the_longest_waiting_pods_that_fit_are_tried_first(accounting):
    seen(accounting, pod("full-1", 100, label="r1"))
    seen(accounting, pod("full-2", 100, label="r2"))
    for name, cpu in (("large", 120), ("b", 60), ("a", 60), ("small", 30)):
        each = seen(accounting, pod(name, cpu))
        verdict = accounting.decide(each, VIEWS)
        accounting.wait(each, verdict.signature)
    assert list(accounting.fitting(NS, VIEWS)) == []
    accounting.remove((NS, "full-1"))
    assert list(accounting.fitting(NS, VIEWS)) == [(NS, "b"), (NS, "small")]
    assert accounting.waiting_count() == 4
    accounting.remove((NS, "b"))
    assert (NS, "b") not in accounting.waiting(NS)


def test_other_amounts_alone_are_not_reported_again(accounting):
    each = seen(accounting, pod("a", 120))
    first = accounting.decide(each, VIEWS)
    seen(accounting, pod("b", 60, label="r1"))
    second = accounting.decide(each, VIEWS)
    assert first.decision.reasons() != second.decision.reasons()
    assert first.signature == second.signature
    closed = {**VIEWS, "r1": SuperView("r1", Health.LOST, {})}
    assert accounting.decide(each, closed).signature != first.signature


def test_namespaces_without_pods_and_slices_are_removed():
    accounting = PodAccounting()
    accounting.grant(NS, SIZE, {"r1": 1})
    each = seen(accounting, pod(label="r9"))
    accounting.wait(each, ())
    accounting.remove(each.key)
    accounting.grant(NS, {}, {})
    assert accounting.namespaces() == []
    assert not accounting._charges


def test_an_unknown_namespace_has_no_waiting_pods_and_no_share():
    accounting = PodAccounting()
    assert (list(accounting.fitting(NS, VIEWS)), accounting.waiting(NS), accounting.reported(pod())) == (
        [],
        [],
        None,
    )
    assert accounting.share(NS, "r1") is None
    assert accounting.namespaces() == []


def test_a_waiting_pod_that_is_gone_is_skipped(accounting):
    for name, cpu in (("large", 150), ("small", 50)):
        accounting.wait(seen(accounting, pod(name, cpu)), ())
    accounting.pods.pop((NS, "large"))
    assert list(accounting.fitting(NS, VIEWS)) == [(NS, "small")]


def test_fitting_pods_share_the_free_amounts_and_charge_nothing(accounting):
    for name in ("a", "b", "c"):
        accounting.wait(seen(accounting, pod(name, 100)), ())
    assert list(accounting.fitting(NS, VIEWS)) == [(NS, "a"), (NS, "b")]
    assert list(accounting.fitting(NS, VIEWS)) == [(NS, "a"), (NS, "b")]
    assert (used(accounting, "r1"), used(accounting, "r2")) == (0, 0)


@pytest.mark.parametrize(("cpu", "stands"), [(60, True), (100, True), (101, False)])
def test_a_pod_that_counts_elsewhere_keeps_its_label_if_it_fits_there(accounting, cpu, stands):
    each = seen(accounting, pod(cpu=cpu))
    accounting.assume(each, "r2")
    relabelled = seen(accounting, pod(cpu=cpu, label="r1", annotation="r2"))
    assert used(accounting, "r2") == cpu
    verdict = accounting.decide(relabelled, VIEWS)
    assert (isinstance(verdict, Assign) and verdict.decision is None) is stands


def test_a_pod_is_not_counted_twice_when_it_is_checked(accounting):
    each = seen(accounting, pod(cpu=100, label="r1"))
    assert accounting.settled(each, VIEWS)


def test_an_overused_resource_moves_only_pods_that_request_it(accounting):
    accounting.grant(NS, SIZE, {"r1": 1, "r2": 2})
    heavy = seen(accounting, pod("heavy", 150, label="r1", annotation=""))
    light = seen(accounting, pod("light", 0, label="r1", annotation=""))
    assert isinstance(accounting.decide(heavy, VIEWS), Withdraw)
    assert accounting.decide(light, VIEWS) == Assign("r1")


@pytest.mark.parametrize(
    "later",
    [
        pytest.param({"uid": "another"}, id="a namesake"),
        pytest.param({"deleting": True}, id="being deleted"),
        pytest.param({"node": "n.r1"}, id="bound"),
        pytest.param({"gated": True}, id="gated"),
    ],
)
def test_pods_that_need_no_decision_any_more_do_not_wait(accounting, later):
    accounting.wait(seen(accounting, pod()), ("reason",))
    assert accounting.reported(pod()) == ("reason",)
    accounting.update(pod(**later))
    assert (accounting.waiting(NS), accounting.reported(pod())) == ([], None)


@pytest.mark.parametrize(("uid", "since"), [("", 1.0), ("another", 9.0)])
def test_updates_keep_the_time_at_which_a_pod_was_first_seen(accounting, uid, since):
    seen(accounting, replace(pod(), seen_at=1.0))
    seen(accounting, replace(pod(uid=uid), seen_at=9.0))
    assert accounting.pods[NS, "p"].seen_at == since


def test_a_removed_share_is_kept_until_its_last_pod_is_gone(accounting):
    seen(accounting, pod("a", label="r1"))
    seen(accounting, pod("b", label="r1"))
    accounting.grant(NS, SIZE, {"r2": 1})
    share = accounting.share(NS, "r1")
    assert (share.capacity, share.used["cpu"], share.pods) == ({}, 100, 2)
    assert not accounting.remove((NS, "a")), "no Pod can use the freed part"
    assert used(accounting, "r1") == 50
    accounting.remove((NS, "b"))
    assert accounting.share(NS, "r1") is None


def test_slices_of_another_size_or_number_change_the_capacity_of_a_share(accounting):
    assert accounting.grant(NS, SIZE, {"r1": 2, "r2": 1})
    assert accounting.share(NS, "r1").capacity == {"cpu": 200, "memory": 200}
    assert accounting.grant(NS, {"cpu": 30}, {"r1": 2, "r2": 1})
    assert accounting.share(NS, "r1").capacity == {"cpu": 60}
    assert accounting.share(NS, "r2").capacity == {"cpu": 30}


class AccountingMachine(RuleBasedStateMachine):
    """In any order of events the sums are those of the Pods, and no share is exceeded."""

    names = st.sampled_from(["a", "b", "c", "d"])
    labels = st.sampled_from(["", "r1", "r2", "r3", "zz"])

    def __init__(self):
        super().__init__()
        self.accounting = PodAccounting()
        self.decided = {}
        self.granted = {}

    @rule(name=names, cpu=st.integers(0, 120), label=labels, node=st.sampled_from(["", "", "n.r1", "n.r3"]))
    def appears(self, name, cpu, label, node):
        if (NS, name) not in self.accounting.pods:
            self.accounting.update(pod(name, cpu, label=label, node=node, uid=f"uid-{next(_uids)}"))

    @rule(name=names, label=labels)
    def is_relabelled(self, name, label):
        old = self.accounting.pods.get((NS, name))
        if old is not None:
            self.accounting.update(Pod(NS, name, old.uid, "2", old.needs, label, label, False, ""))

    @rule(name=names)
    def goes(self, name):
        self.accounting.remove((NS, name))
        self.decided.pop(name, None)

    @rule(name=names)
    def is_decided(self, name):
        each = self.accounting.pods.get((NS, name))
        if each is None or name in self.decided:
            return
        verdict = self.accounting.decide(each, VIEWS)
        if isinstance(verdict, Assign):
            self.accounting.assume(each, verdict.super_id)
            self.decided[name] = (each, verdict.super_id)
            if verdict.decision is not None:
                share = self.accounting.share(NS, verdict.super_id)
                asked = each.needs.requests.get("cpu", 0)
                assert not asked or share.used["cpu"] <= share.capacity["cpu"]
        elif isinstance(verdict, Wait):
            self.accounting.wait(each, verdict.signature)

    @rule(name=names, succeeded=st.booleans())
    def is_written(self, name, succeeded):
        each, super_id = self.decided.pop(name, (None, ""))
        if each is None:
            return
        if succeeded and (NS, name) in self.accounting.pods:
            self.accounting.update(Pod(NS, name, each.uid, "3", each.needs, super_id, super_id, False, ""))
        self.accounting.settle((NS, name))

    @rule(granted=st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), st.integers(0, 3)))
    def slices_change(self, granted):
        self.accounting.grant(NS, SIZE, granted)

    @invariant()
    def sums_are_those_of_the_pods(self):
        expected = {}
        for each in self.accounting.pods.values():
            place = each.bound_to
            if not place and each.name in self.decided and self.decided[each.name][0].uid == each.uid:
                place = self.decided[each.name][1]
            place = place or each.label
            if place:
                cpu, number = expected.get(place, (0, 0))
                expected[place] = (cpu + each.needs.requests.get("cpu", 0), number + 1)
        for super_id in ("r1", "r2", "r3", "zz"):
            share = self.accounting.share(NS, super_id)
            found = (0, 0) if share is None else (share.used.get("cpu", 0), share.pods)
            assert found == expected.get(super_id, (0, 0))


TestAccounting = AccountingMachine.TestCase
TestAccounting.settings = settings(max_examples=30, stateful_step_count=25)
