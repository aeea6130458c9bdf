"""Lists take seats by their size; a wide request never waits forever."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.flow.dispatcher import Bounds, SeatDispatcher
from vcsync.apiserver.flow.work_estimator import BYTES_PER_SEAT, WorkEstimator
from vcsync.apiserver.request.caller import Attributes, Caller

KEY = ("a", "", "pods", "n")
ALICE = Caller(User("alice"), "a")
LIST = Attributes("list", resource="pods")


@pytest.mark.parametrize(
    ("size", "limit", "seats"),
    [
        (0, 0, 1),
        (BYTES_PER_SEAT, 0, 1),
        (BYTES_PER_SEAT + 1, 0, 2),
        (5 * BYTES_PER_SEAT, 0, 5),
        (5 * BYTES_PER_SEAT, 20, 1),
        (5 * BYTES_PER_SEAT, 60, 3),
        (5 * BYTES_PER_SEAT, 1000, 5),
        (10**12, 0, 10),
    ],
)
def test_the_seats_of_a_list_depend_on_its_size(size, limit, seats):
    estimator = WorkEstimator()
    assert estimator.seats(KEY, limit) == 1
    estimator.record(KEY, 100, size, whole=True)
    assert estimator.seats(KEY, limit) == seats
    assert estimator.seats(("b", *KEY[1:]), limit) == 1


def test_a_partial_list_is_recorded_only_if_it_is_larger():
    estimator = WorkEstimator()
    estimator.record(KEY, 50, 5 * BYTES_PER_SEAT, whole=False)
    estimator.record(KEY, 10, BYTES_PER_SEAT, whole=False)
    assert estimator.seats(KEY, 0) == 5
    estimator.record(KEY, 10, BYTES_PER_SEAT, whole=True)
    assert estimator.seats(KEY, 0) == 1
    assert not estimator._known


async def nothing(_):
    return (), ()


async def gate(seats):
    made = SeatDispatcher(Bounds(seats=seats, wait_seconds=0.01), nothing)
    for tenant in ("a", "b"):
        await made.prepare(tenant)
        level = made.spaces[tenant].levels["catch-all"]
        level.nominal, level.upper = seats, seats
    return made


async def test_wide_requests_fill_the_seats_sooner_and_give_all_of_them_back():
    made = await gate(80)
    entered = [made.enter("a", ALICE, LIST, 10) for _ in range(4)]
    assert [each.taken for each in entered] == [True] * 4
    assert (made.used, made.spaces["a"].in_use) == (40, 40)
    with pytest.raises(StatusError):
        made.enter("a", ALICE, LIST, 1)
    assert made.enter("b", Caller(User("bob"), "b"), LIST, 10).width == 10
    for each in entered:
        each.end()
    assert (made.used, made.spaces["a"].in_use) == (10, 0)


async def test_a_level_is_never_filled_by_one_request():
    made = await gate(20)
    assert made.enter("a", ALICE, LIST, 10).width == 3  # 15 % of its seats


async def test_a_wide_request_takes_fewer_seats_when_few_are_free():
    made = await gate(100)
    made.used = 94
    assert made.enter("a", ALICE, LIST, 10).width == 1
