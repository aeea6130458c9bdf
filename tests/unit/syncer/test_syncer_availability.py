"""Which Pods may leave a super cluster without their controllers missing them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.syncer.availability import Demand, Member, reason_to_stay, tolerated_of

READY = st.lists(st.booleans(), max_size=12)


def members_of(ready: list[bool]) -> list[Member]:
    return [Member(f"pod-{number}", each) for number, each in enumerate(ready)]


def leave_in_order(members: list[Member], there: int, demand: Demand) -> list[str]:
    """Ask for the first `there` Pods, one after the other; return those that left."""
    left: list[str] = []
    for each in members[:there]:
        if not reason_to_stay(each.name, members, demand, left):
            left.append(each.name)
    return left


@given(READY, st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_one_step_leaves_the_controller_its_ready_pods(
    ready: list[bool], there: int, replicas: int, tolerated: int
) -> None:
    demand, members = Demand("Deployment web", replicas, tolerated), members_of(ready)
    left = leave_in_order(members, there, demand)
    after = sum(each.ready for each in members if each.name not in left)
    assert after >= min(sum(ready), replicas - max(1, tolerated))
    unready = [each.name for each in members[:there] if not each.ready]
    assert set(unready) <= set(left), "nothing is missing without them"


@given(st.integers(1, 12), st.data())
def test_every_pod_leaves_in_the_end_if_each_is_replaced(replicas: int, data: st.DataObject) -> None:
    """However slowly replacements become ready, the controller never misses more Pods than it tolerates."""
    demand = Demand("Deployment web", replicas, data.draw(st.integers(0, replicas)))
    here = {f"old-{number}" for number in range(data.draw(st.integers(0, replicas)))}
    elsewhere = {f"new-{number}": True for number in range(replicas - len(here))}
    for _ in range(3 * replicas + 3):
        members = [Member(each, ready=True) for each in sorted(here)]
        members += [Member(name, ready) for name, ready in elsewhere.items()]
        here -= set(leave_in_order(members, len(here), demand))
        assert len(here) + sum(elsewhere.values()) >= demand.least
        starting = [name for name, ready in elsewhere.items() if not ready]
        for name in starting[: data.draw(st.integers(1, 3))]:
            elsewhere[name] = True
        for _ in range(replicas - len(here) - len(elsewhere)):
            elsewhere[f"new-{len(elsewhere)}"] = False
    assert not here


@given(st.integers(0, 12), st.integers(0, 12))
def test_a_whole_controller_always_lets_one_pod_leave(replicas: int, tolerated: int) -> None:
    members = members_of([True] * replicas)
    left = leave_in_order(members, replicas, Demand("Deployment web", replicas, tolerated))
    assert len(left) == min(replicas, max(1, tolerated))


def test_the_reason_names_the_pod_that_waits() -> None:
    members = [Member("a", ready=True), Member("b", ready=False, waits="r2: cpu 1 asked, 0 free")]
    assert reason_to_stay("a", members, Demand("Deployment web", 2), ()) == (
        "Deployment web has 1 of 2 Pods ready; Pod b waits: r2: cpu 1 asked, 0 free"
    )


@pytest.mark.parametrize(
    ("text", "replicas", "tolerated"),
    [
        (2, 5, 2),
        ("25%", 10, 2),
        ("25%", 3, 0),
        ("100%", 7, 7),
        (None, 4, 0),
        ("9" * 5000 + "%", 4, 0),
        ("a third", 4, 0),
    ],
)
def test_max_unavailable_is_rounded_down(text: int | str | None, replicas: int, tolerated: int) -> None:
    assert tolerated_of(text, replicas) == tolerated
