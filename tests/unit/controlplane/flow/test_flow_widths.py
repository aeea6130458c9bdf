"""Lists take seats by their size; whoever waits gets in, however wide."""

import pytest

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.flow.gate import Bounds, Gate
from vcsync.controlplane.flow.widths import BYTES_PER_SEAT, Widths
from vcsync.controlplane.identity.caller import Attributes, Caller

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
def test_a_list_takes_seats_by_what_it_reads(size, limit, seats):
    widths = Widths()
    assert widths.of(KEY, limit) == 1
    widths.told(KEY, 100, size, whole=True)
    assert widths.of(KEY, limit) == seats
    assert widths.of(("b", *KEY[1:]), limit) == 1


def test_a_list_that_read_less_than_all_is_no_news_unless_it_is_more():
    widths = Widths()
    widths.told(KEY, 50, 5 * BYTES_PER_SEAT, whole=False)
    widths.told(KEY, 10, BYTES_PER_SEAT, whole=False)
    assert widths.of(KEY, 0) == 5
    widths.told(KEY, 10, BYTES_PER_SEAT, whole=True)
    assert widths.of(KEY, 0) == 1
    assert not widths._known


async def nothing(_):
    return (), ()


async def gate(seats):
    made = Gate(Bounds(seats=seats, wait_seconds=0.01), nothing)
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


async def test_a_wide_request_gets_in_narrower_where_few_seats_are_left():
    made = await gate(100)
    made.used = 94
    assert made.enter("a", ALICE, LIST, 10).width == 1
