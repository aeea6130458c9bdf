"""The order of waiting Pods: by priority and time, without blocking small ones, and without starving large ones."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tenant_kit import NS, SIZE, Tenant

from vcsync.api.names import SUPER_CLUSTER
from vcsync.podscheduler.accounting import PodAccounting
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.turns import MOST_AHEAD, PATIENCE_SECONDS, Room, ahead_of, give_way, ranked
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.shares import Share

_numbers = itertools.count()


def waiting(cpu: int = 50, *, priority: int = 0, seen_at: float = 0.0) -> Pod:
    name = f"p{next(_numbers)}"
    needs = PodNeeds({"cpu": cpu})
    return Pod(NS, name, name, "1", needs, "", "", False, "", seen_at=seen_at, priority=priority)


def room(*free: int, now: float = 0.0) -> Room:
    """Return shares of 100 each with so much free."""
    shares = [Share(f"r{number}", {"cpu": 100}, {"cpu": 100 - each}) for number, each in enumerate(free, 1)]
    return Room(shares, lambda _pod, _share: True, now)


def test_pods_are_ordered_by_priority_then_by_the_time_that_they_wait():
    first, high, last = waiting(), waiting(priority=10), waiting()
    assert ranked([first, high, last]) == [high, first, last]
    assert ahead_of(last, [first, high, last]) == [high, first]
    assert ahead_of(first, [first, high, last]) == [high]
    assert ahead_of(high, [first, high, last]) == []
    new = waiting()
    assert ahead_of(new, [first, high, last]) == [high, first, last]


def test_a_small_pod_passes_a_large_one_that_fits_nowhere():
    small, large = waiting(20), waiting(90)
    assert give_way(small, [large], room(50, now=PATIENCE_SECONDS - 1)) == {}


def test_a_pod_gives_way_to_one_ahead_that_fits():
    small, ahead = waiting(20), waiting(40)
    assert give_way(small, [ahead], room(50)) == {"r1": "has room, which Pods get first that are ahead of it"}


def test_a_pod_that_has_waited_long_gets_the_next_room_where_it_lacks_least():
    large, small = waiting(90), waiting(20)
    refused = give_way(small, [large], room(30, 60, now=PATIENCE_SECONDS))
    assert refused == {"r2": f"keeps its room for Pod {large.name}, which is ahead of it"}


def test_a_pod_that_fits_into_no_slices_at_all_holds_nothing():
    assert give_way(waiting(20), [waiting(200)], room(50, now=PATIENCE_SECONDS)) == {}


def test_only_one_pod_holds_room():
    large = [waiting(90), waiting(80)]
    free = room(30, 60, now=PATIENCE_SECONDS)
    give_way(waiting(20), large, free)
    assert free.held == {"r2": large[0].name}


def test_a_bounded_number_of_pods_is_compared():
    many = [waiting() for _ in range(3 * MOST_AHEAD)]
    urgent = waiting(priority=5)
    assert ahead_of(waiting(), [*many, urgent]) == [urgent, *many[: MOST_AHEAD - 1]]


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 120), st.integers(0, 2)), max_size=12),
    st.sampled_from([0.0, PATIENCE_SECONDS]),
)
def test_nobody_takes_the_room_of_a_pod_ahead(free, pods, now):
    """Without those behind it, each Pod gets the same."""
    order = ranked([waiting(cpu, priority=priority) for cpu, priority in pods])
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


@given(
    st.lists(
        st.tuples(st.sampled_from(["wait", "place", "remove"]), st.integers(0, 150), st.integers(0, 3)),
        max_size=300,
    )
)
def test_the_first_waiting_pods_are_remembered_right(steps):
    """However Pods begin and stop to wait, the remembered ones are the beginning of the whole order."""
    accounting = PodAccounting()
    accounting.grant(NS, SIZE, {"r1": 1})
    for what, number, priority in steps:
        name = f"p{number}"
        if what == "wait" and (NS, name) not in accounting.pods:
            pod = replace(waiting(200, priority=priority), name=name, uid=name)
            accounting.update(pod)
            accounting.wait(pod, ())
        elif what == "place" and (pod := accounting.pods.get((NS, name))) is not None:
            accounting.assume(pod, "r1")
        elif what == "remove":
            accounting.remove((NS, name))
        if number % 5 == 0:
            space = accounting._space(NS)
            whole = ranked(accounting._waiting_pods(space, NS))
            found = accounting._first_waiting(space, NS)
            assert found == whole[: len(found)]
            assert len(found) >= min(len(whole), MOST_AHEAD // 2)
