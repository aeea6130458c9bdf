"""The counters of one tenant: requests, bytes, and the time of watches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.metering.counters import Amounts, Counters, is_metered
from vcsync.apiserver.request.caller import Caller


@pytest.mark.parametrize(
    ("method", "status", "counted"),
    [
        ("GET", 200, (1, 0)),
        ("HEAD", 404, (1, 0)),
        ("POST", 201, (0, 1)),
        ("PATCH", 403, (0, 1)),
        ("DELETE", 500, (0, 1)),
        ("GET", 429, (0, 0)),
        ("POST", 429, (0, 0)),
    ],
)
def test_a_request_counts_as_a_read_or_a_write_unless_it_was_throttled(method, status, counted):
    counters = Counters("acme", "u1")
    counters.request(method, status)
    assert counters.amounts(0)[:2] == counted


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=20), st.integers(0, 3 * 10**6)
)
def test_watch_time_is_the_sum_of_the_parts_of_the_watches_until_now(spans, now):
    counters = Counters("acme", "u1")
    moments = sorted([(start, 0) for start, _ in spans] + [(start + length, 1) for start, length in spans])
    for moment, closes in moments:
        if moment <= now:
            (counters.watch_closed if closes else counters.watch_opened)(moment)
    expected = sum(max(0, min(start + length, now) - start) for start, length in spans)
    assert counters.amounts(now).watch_milliseconds == expected


def test_amounts_add_and_subtract_field_by_field():
    one, more = Amounts(1, 2, 3, 4, 5), Amounts(10, 20, 30, 40, 50)
    assert one.plus(more) == Amounts(11, 22, 33, 44, 55)
    assert one.plus(more).minus(one) == more


@pytest.mark.parametrize(
    ("caller", "metered"),
    [
        (Caller(User("alice", groups=("system:authenticated",)), "acme"), True),
        (Caller(User("system:serviceaccount:a:b", groups=("system:serviceaccounts",)), "acme"), True),
        (Caller(User("admin", groups=("system:masters",)), "system", system=True), False),
        (Caller(User("system:anonymous", groups=("system:unauthenticated",)), "acme"), False),
    ],
)
def test_requests_of_the_operator_and_of_strangers_count_for_no_tenant(caller, metered):
    assert is_metered(caller) is metered
