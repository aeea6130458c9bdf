"""The order of waiting Pods: by priority and time, without blocking small ones, and without starving large ones."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tenant_kit import NS, SIZE, Tenant

from vcsync.api.names import SUPER_CLUSTER
from vcsync.podscheduler.accounting import Assign, PodAccounting
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.turns import MOST_AHEAD, MOST_STEPS, PATIENCE_SECONDS, Room, serve
from vcsync.podscheduler.waiting import Waiting, Walk
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.shares import Share
from vcsync.scheduling.snapshot import Health, SuperView

_numbers = itertools.count()


def waiting(
    cpu: int = 50, *, priority: int = 0, seen_at: float = 0.0, supers: tuple[str, ...] | None = None
) -> Pod:
    name = f"p{next(_numbers)}"
    needs = PodNeeds({"cpu": cpu}, supers=supers)
    return Pod(NS, name, name, "1", needs, "", "", False, "", seen_at=seen_at, priority=priority)


def room(*free: int, now: float = 0.0) -> Room:
    """Return shares of 100 each with so much free."""
    shares = [Share(f"r{number}", {"cpu": 100}, {"cpu": 100 - each}) for number, each in enumerate(free, 1)]
    return Room(shares, lambda pod: lambda share: pod.needs.accepts(share.super_id), now)


class Line:
    """Pods that wait, in the order of their coming."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {each.name: each for each in pods}
        self.waiting = Waiting()
        for each in pods:
            self.waiting.put(each, ())

    def ranked(self) -> list[Pod]:
        return [self.pods[name] for name in self.waiting]

    def serve(self, free: Room, **options: object) -> tuple[list[str], object]:
        return serve(self.waiting, self.pods.get, free, **options)

    def give_way(self, pod: Pod, free: Room) -> dict[str, str]:
        """Return the shares that are not for a Pod, since others are ahead of it."""
        self.serve(free, before=self.waiting.place(pod))
        return free.refusals(pod)


def test_pods_are_ordered_by_priority_then_by_the_time_that_they_wait():
    first, high, last = waiting(), waiting(priority=10), waiting()
    line = Line(first, high, last)
    assert line.ranked() == [high, first, last]
    places = [line.waiting.place(each) for each in (high, first, last, waiting())]
    assert places == sorted(places)
    assert line.waiting.place(waiting(priority=10)) < line.waiting.place(first)


def test_a_small_pod_passes_a_large_one_that_fits_nowhere():
    assert Line(waiting(90)).give_way(waiting(20), room(50, now=PATIENCE_SECONDS - 1)) == {}


def test_a_pod_gives_way_to_one_ahead_that_fits():
    refused = Line(waiting(40)).give_way(waiting(20), room(50))
    assert refused == {"r1": "has room, which Pods get first that are ahead of it"}


def test_a_pod_does_not_give_way_to_itself_or_to_those_behind_it():
    one, other = waiting(20), waiting(40)
    line = Line(one, other)
    assert line.give_way(one, room(50)) == {}
    assert line.give_way(other, room(50)) != {}


def test_a_pod_that_has_waited_long_gets_the_next_room_where_it_lacks_least():
    large, small = waiting(90), waiting(20)
    refused = Line(large).give_way(small, room(30, 60, now=PATIENCE_SECONDS))
    assert refused == {"r2": f"keeps its room for Pod {large.name}, which is ahead of it"}


def test_a_pod_that_fits_into_no_slices_at_all_holds_nothing():
    assert Line(waiting(200)).give_way(waiting(20), room(50, now=PATIENCE_SECONDS)) == {}


def test_only_one_pod_holds_room():
    large = [waiting(90), waiting(80)]
    free = room(30, 60, now=PATIENCE_SECONDS)
    Line(*large).give_way(waiting(20), free)
    assert free.held == {"r2": large[0].name}


pods_of = st.lists(st.tuples(st.integers(1, 120), st.integers(0, 2)), max_size=12)


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=4), pods_of, st.sampled_from([0.0, PATIENCE_SECONDS])
)
def test_nobody_takes_the_room_of_a_pod_ahead(free, pods, now):
    """Without those behind it, each Pod gets the same."""
    order = Line(*(waiting(cpu, priority=priority) for cpu, priority in pods)).ranked()
    together = room(*free, now=now)
    taken = [together.take(each) for each in order]
    for number, each in enumerate(order):
        alone = room(*free, now=now)
        assert [alone.take(other) for other in order[: number + 1]][-1] == taken[number], each
    for super_id, left in ((f"r{number}", each) for number, each in enumerate(free, 1)):
        assert (
            sum(
                each.needs.requests["cpu"]
                for each, home in zip(order, taken, strict=True)
                if home == super_id
            )
            <= left
        )


# One look for equal Pods


@given(st.lists(st.integers(0, 100), min_size=1, max_size=3), pods_of, st.booleans())
def test_one_look_at_equal_pods_finds_those_that_a_look_at_each_finds(free, pods, patient):
    now = PATIENCE_SECONDS if patient else 0.0
    line = Line(*(waiting(20 * (cpu // 20 + 1), priority=priority) for cpu, priority in pods))
    each = room(*free, now=now)
    expected = [pod.name for pod in line.ranked() if each.take(pod)]
    assert line.serve(room(*free, now=now)) == (expected, None)


def test_equal_pods_without_room_take_one_look_and_those_with_room_one_each():
    many = Line(*(waiting(60) for _ in range(500)))
    full = room(50)
    many.serve(full)
    assert full.steps < 5
    free = room(100, 100)
    found, rest = many.serve(free)
    assert (len(found), rest) == (2, None)
    assert free.steps < 50


def test_a_look_ends_after_a_number_of_steps_and_goes_on_where_it_ended():
    """No two Pods are equal, so each is looked at once, in pieces of about the same size."""
    pods = [waiting(1000 + number) for number in range(5000)]
    line, pieces, after, looked = Line(*pods), 0, None, 0
    while True:
        free = room(50, 50, 50)
        found, after = line.serve(free, after=after)
        assert found == []
        assert free.steps <= MOST_STEPS + 100
        pieces, looked = pieces + 1, looked + free.steps
        if after is None:
            break
    assert looked == 4 * len(pods)
    assert pieces <= looked // MOST_STEPS + 1


def test_a_look_ends_when_every_share_is_full():
    share = Share("r1", {"pods": 1000}, {})
    pods = [replace(waiting(), needs=PodNeeds({"cpu": number, "pods": 1000})) for number in range(1, 3000)]
    free = Room([share], lambda _pod: lambda _share: True, 0.0)
    found, rest = Line(*pods).serve(free)
    assert (found, rest) == ([pods[0].name], None)
    assert free.steps < 20


def test_a_pod_with_many_names_and_claims_takes_more_steps():
    plain, free = waiting(), room(100)
    free.take(plain)
    for needs in (
        PodNeeds({"cpu": 1}, supers=tuple(f"s{number}" for number in range(20_000))),
        PodNeeds({"cpu": 1}, claims=tuple(f"c{number}" for number in range(300))),
    ):
        costly = room(100)
        costly.take(replace(plain, needs=needs))
        assert costly.steps > 100 * free.steps


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "pop", "change"]),
            st.integers(0, 12),
            st.integers(0, 3),
            st.integers(1, 3),
        ),
        max_size=60,
    )
)
def test_the_order_is_kept_however_pods_come_go_and_change(steps):
    line, order = Waiting(), []
    pods: dict[str, Pod] = {}
    for what, number, priority, cpu in steps:
        name = f"p{number}"
        pod = replace(waiting(cpu, priority=priority), name=name)
        if what == "put":
            line.put(pod, (what,))
            if name not in order:
                order.append(name)
            pods[name] = pod
        elif what == "pop":
            assert line.pop(name) == (name in order)
            order = [each for each in order if each != name]
        elif name in order:
            line.refile(pod)
            pods[name] = pod
        assert list(line) == sorted(order, key=lambda each: -pods[each].priority)
        assert (len(line), name in line) == (len(order), name in order)
        walk, found = Walk(line), []
        while (place := walk.next(took=True)) is not None:
            found.append(place[2])
        assert found == list(line)


# In the scheduler


@pytest.fixture
def tenant() -> Tenant:
    made = Tenant()
    made.pods.grant(NS, SIZE, {"r1": 1})
    made.pods.begin()
    return made


async def test_room_goes_to_the_highest_priority(tenant):
    tenant.create("runs", "100m")
    for name, priority in (("low", 0), ("high", 1000), ("middle", 10)):
        tenant.create(name, "100m", priority=priority)
    await tenant.settle()
    for name, successor in (("runs", "high"), ("high", "middle"), ("middle", "low")):
        tenant.delete(name)
        await tenant.settle()
        assert tenant.home(successor) == "r1"


async def test_a_new_pod_does_not_take_room_that_a_waiting_one_gets(tenant):
    tenant.create("runs", "100m")
    tenant.create("waits", "100m")
    await tenant.settle()
    tenant.delete("runs")
    tenant.create("new", "100m")  # it is urgent in the queue, and is decided first
    tenant.queue.sort(key=lambda item: item[0][1] != "new")
    await tenant.settle()
    assert (tenant.home("waits"), tenant.home("new")) == ("r1", "")


async def test_a_large_pod_is_passed_for_a_while_and_then_gets_its_room(tenant):
    tenant.create("a", "50m", labels={SUPER_CLUSTER: "r1"})
    tenant.create("large", "100m")
    tenant.create("b", "40m")
    await tenant.settle()
    assert (tenant.home("large"), tenant.home("b")) == ("", "r1")
    tenant.now = PATIENCE_SECONDS
    tenant.delete("b")
    tenant.create("c", "40m")
    await tenant.settle()
    assert tenant.home("c") == ""
    assert tenant.events[-1] == ("c", "r1: keeps its room for Pod large, which is ahead of it")
    tenant.delete("a")
    await tenant.settle()
    assert tenant.home("large") == "r1"
    tenant.delete("large")
    await tenant.settle()
    assert tenant.home("c") == "r1"


async def test_a_pod_that_gave_way_follows_as_soon_as_the_one_ahead_is_gone(tenant):
    tenant.create("large", "100m")
    tenant.create("runs", "60m", labels={SUPER_CLUSTER: "r1"})
    await tenant.settle()
    tenant.now = PATIENCE_SECONDS
    tenant.create("small", "40m")
    tenant.queue.clear()
    await tenant.pods.schedule((NS, "large"))
    await tenant.pods.schedule((NS, "small"))
    tenant.delete("large")
    await tenant.settle()
    assert tenant.home("small") == "r1"


def test_a_decision_looks_at_a_bounded_number_of_pods_and_no_further():
    """Each Pod has a higher priority than those before it, so the first in the order change with each of them."""
    accounting = PodAccounting()
    accounting.grant(NS, SIZE, {"r1": 1})
    for number in range(3 * MOST_AHEAD):
        pod = waiting(200 + number, priority=number)
        accounting.update(pod)
        accounting.wait(pod, ())
    looked = []
    find = accounting._find
    accounting._find = lambda namespace, name: looked.append(name) or find(namespace, name)
    new = waiting(50)
    accounting.update(new)
    verdict = accounting.decide(new, {"r1": SuperView("r1", Health.READY, {})})
    assert isinstance(verdict, Assign)
    assert len(looked) == MOST_AHEAD
