"""The Pod scheduler keeps the Pods of a Service where they reach each other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.api.names import KEEP_TOGETHER
from vcsync.api.refusals import RETURNED, SLICES_LEFT, Said
from vcsync.kube.cache import Cache
from vcsync.objects.envelope import Envelope, parse
from vcsync.podscheduler import together
from vcsync.podscheduler.accounting import Assign, PodAccounting, Wait
from vcsync.podscheduler.pods import Pod, read, slim
from vcsync.podscheduler.tenant import TenantPods
from vcsync.podscheduler.together import MOST_LABELS, MOST_SERVICES, KeptServices, slim_service
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.snapshot import Health, SuperView

NS = "shop"
VIEWS = {each: SuperView(each, Health.READY, {}) for each in ("r1", "r2")}


def service(name: str = "web", value: str = "true", version: int = 1, **spec: Any) -> Envelope:
    metadata = {
        "name": name, "namespace": NS, "uid": name, "resourceVersion": str(version),
        "labels": {KEEP_TOGETHER: value, "app": "x"},
    }  # fmt: skip
    spec = {"selector": {"app": "web"}} | spec
    return parse(json.dumps({"metadata": metadata, "spec": spec}).encode())


class World:
    """The Services and Pods of one namespace with slices on two super clusters."""

    def __init__(self, slices: int = 1) -> None:
        self.services = KeptServices()
        self.cache = Cache()
        self.book = PodAccounting(services=self.services)
        self.book.grant(NS, {"cpu": 100}, {"r1": slices, "r2": slices})

    def change(self, found: Envelope) -> tuple[bool, str]:
        change = self.cache.observe(slim_service(found))
        assert change is not None
        return self.services.observe(change)

    def remove(self, name: str = "web") -> tuple[bool, str]:
        found = self.cache.get(NS, name)
        assert found is not None
        return self.services.observe(self.cache.forget(found))

    def pod(self, name: str, label: str = "", cpu: int = 50, *services: str) -> Pod:
        found = Pod(
            NS, name, name, "1", PodNeeds({"cpu": cpu}), label, label, deleting=False, waiting_message="",
            services=services or ("web",),
        )  # fmt: skip
        self.book.update(found)
        return found

    def place(self, pod: Pod) -> str:
        verdict = self.book.decide(pod, VIEWS)
        if isinstance(verdict, Assign):
            self.book.assume(pod, verdict.super_id)
            return verdict.super_id
        assert isinstance(verdict, Wait)
        self.book.wait(pod, verdict.signature)
        return ""


def test_the_first_pod_decides_and_the_others_follow_before_anything_is_written() -> None:
    world = World(slices=2)
    assert [world.place(world.pod(name)) for name in "abcde"] == ["r1"] * 4 + [""]


def test_a_waiting_pod_does_not_take_the_turn_of_one_that_may_go_elsewhere() -> None:
    world = World()
    for name in "ab":
        world.place(world.pod(name))
    blocker = world.pod("blocker", "r2", 100, "db")
    assert world.place(world.pod("c")) == ""
    assert world.place(world.pod("free", "", 50, "db")) == ""
    world.book.remove(blocker.key)
    assert world.book.fitting(NS, VIEWS) == [(NS, "free")]


def test_a_service_without_pods_may_go_anywhere_again() -> None:
    world = World()
    placed = [world.pod(name, "r1") for name in "ab"]
    late = world.pod("c")
    assert world.place(late) == ""
    for each in placed:
        assert world.book.remove(each.key), "others are looked at again"
    world.book.grant(NS, {"cpu": 100}, {"r2": 1})
    assert world.place(late) == "r2"


def test_a_pod_is_not_kept_by_itself() -> None:
    world = World()
    world.book.grant(NS, {"cpu": 200}, {"r2": 1})
    alone = world.pod("a", "r1", 150)
    alone.said = {"r1": Said(RETURNED, 0, SLICES_LEFT)}
    world.book.update(alone)
    world.book.grant(NS, {"cpu": 100}, {"r1": 1, "r2": 2})
    assert world.place(alone) == "r2"


def test_pods_of_two_services_go_where_both_let_them() -> None:
    world = World()
    world.pod("a", "r1", 10, "web")
    world.pod("b", "r2", 10, "db")
    assert world.place(world.pod("both", "", 10, "web", "db")) == ""
    assert world.place(world.pod("c", "", 10, "db", "new")) == "r2"
    assert world.place(world.pod("d", "", 10, "new")) == "r2"


def test_pods_get_their_services_when_they_are_read_and_when_a_service_changes() -> None:
    world = World()
    metadata = {"name": "p", "namespace": NS, "uid": "p", "resourceVersion": "3", "labels": {"app": "web"}}
    listed = parse(json.dumps({"metadata": metadata, "spec": {"containers": []}}).encode())

    def select() -> tuple[str, ...]:
        return world.services.selecting(NS, listed.labels)

    assert select() == ()
    assert world.change(service()) == (True, "")
    assert select() == ("web",)
    assert read(slim(listed, select()), 0.0).services == ("web",)
    assert world.change(service(version=2)) == (False, "")
    assert world.change(service(version=3, selector={"app": "db"})) == (True, "")
    assert select() == ()
    assert world.change(service(version=4, value="false")) == (True, "")
    assert world.remove() == (False, "")


def test_pods_that_wait_are_tried_again_when_a_service_lets_them_go() -> None:
    queued: list[tuple[str, str]] = []
    services = KeptServices()
    pods = TenantPods(
        None,  # type: ignore[arg-type] # nothing is written
        lambda: VIEWS,
        lambda item, _urgent: queued.append(item),
        lambda _item, _delay: None,
        services=services,
    )
    found = Pod(
        NS, "p", "p", "7", PodNeeds({"cpu": 1}), "", "", deleting=False, waiting_message="", services=("web",)
    )
    pods.accounting.update(found)
    pods.accounting.wait(found, ("Share",))
    pods.begin()
    queued.clear()
    metadata = {"name": "p", "namespace": NS, "uid": "p", "labels": {"app": "web"}}
    for version, expected in (("6", []), ("7", [(NS, "p")])):
        metadata["resourceVersion"] = version
        pods.regroup(NS, [parse(json.dumps({"metadata": metadata}).encode())])
        assert queued == expected, "an older list changes nothing"
    assert found.services == ()


def test_a_promise_counts_for_the_next_pod_and_is_given_back() -> None:
    services = KeptServices()
    pods = TenantPods(
        None,  # type: ignore[arg-type] # nothing is written
        lambda: VIEWS,
        lambda _item, _urgent: None,
        lambda _item, _delay: None,
        services=services,
    )
    pods.grant(NS, {"cpu": 100}, {"r1": 2, "r2": 2})
    pods.begin()
    change = Cache().observe(slim_service(service()))
    assert change is not None
    services.observe(change)
    promises = [pods.promise(NS, name, PodNeeds({"cpu": 50}), {"app": "web"}) for name in "abcd"]
    assert [each and each.super_id for each in promises] == ["r1"] * 4
    for each in promises:
        assert each is not None
        each.give_back()
    [kept] = services.kept(NS, ("web",), VIEWS, VIEWS)
    assert kept.super_ids == ()


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (service(value="yes"), "'yes' is not valid; write \"true\" or remove the label"),
        (service(value=""), "'' is not valid; write \"true\" or remove the label"),
        (service(selector=None), "the Service selects no Pods; give it a selector or remove the label"),
        (service(type="ExternalName"), "the Service selects no Pods; give it a selector or remove the label"),
    ],
)  # fmt: skip
def test_a_service_that_cannot_keep_its_pods_says_why(found: Envelope, problem: str) -> None:
    assert World().change(found) == (False, f"label {KEEP_TOGETHER}: {problem}")


def test_the_number_of_services_of_a_namespace_is_bounded() -> None:
    world = World()
    for number in range(MOST_SERVICES):
        assert world.change(service(f"web-{number:03}"))[0]
    changed, problem = world.change(service("web-999"))
    assert (changed, f"only {MOST_SERVICES} Services" in problem) == (False, True)
    assert len(world.services.selecting(NS, {"app": "web"})) == MOST_SERVICES


def test_a_selector_of_many_labels_is_not_compared_with_pods() -> None:
    world = World()
    selector = {f"label-{number}": "x" for number in range(MOST_LABELS + 1)}
    changed, problem = world.change(service(selector=selector))
    assert (changed, f"more than {MOST_LABELS} labels" in problem) == (False, True)
    assert world.services.selecting(NS, selector) == ()


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, "web", "db"]))))
def test_the_first_services_by_name_are_followed_whatever_their_order(
    changes: list[tuple[int, str | None]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "MOST_SERVICES", 3)
        world = World()
        standing: dict[str, str] = {}
        for version, (number, app) in enumerate(changes, 1):
            name = f"web-{number}"
            if app is None and name not in standing:
                continue
            before = dict(sorted(standing.items())[:3])
            if app is None:
                changed, _ = world.remove(name)
                del standing[name]
            else:
                changed, _ = world.change(service(name, version=version, selector={"app": app}))
                standing[name] = app
            followed = dict(sorted(standing.items())[:3])
            assert changed == (followed != before)
            for each in ("web", "db"):
                wanted = tuple(key for key, value in followed.items() if value == each)
                assert world.services.selecting(NS, {"app": each}) == wanted


names = st.sampled_from(["a", "b", "c", "d"])
places = st.sampled_from(["", "r1", "r2"])
members = st.sets(st.sampled_from(["s", "t"])).map(lambda found: tuple(sorted(found)))


@given(st.lists(st.tuples(names, places, members)))
def test_counts_are_those_of_the_pods_as_last_noted(notes: list[tuple[str, str, tuple[str, ...]]]) -> None:
    services = KeptServices()
    for name, place, of in notes:
        services.note((NS, name), place, of)
    last = {name: (place, of) for name, place, of in notes}
    fresh = KeptServices()
    for name, (place, of) in last.items():
        fresh.note((NS, name), place, of)
    for views in (VIEWS, {each: replace(view, network_id="lab") for each, view in VIEWS.items()}):
        for kept in services.kept(NS, ("s", "t"), VIEWS, views):
            assert bool(kept.super_ids) == any(place and kept.service in of for place, of in last.values())
        assert [*services.kept(NS, ("s", "t"), VIEWS, views)] == [*fresh.kept(NS, ("s", "t"), VIEWS, views)]
