"""Rows of usage: hours, keys and sums."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.metering.counters import Amounts
from vcsync.apiserver.metering.rows import (
    HOUR_SECONDS,
    Row,
    RowKey,
    Used,
    added,
    by_hour,
    decode,
    encode,
    hour_of,
    hour_seconds,
    hour_text,
    parse_key,
    row_key,
)

SECONDS = st.integers(0, 4 * 10**9)
NUMBERS = st.integers(0, 2**50)
ROWS = st.builds(Row, *[NUMBERS] * 7)


@given(SECONDS, SECONDS)
def test_texts_of_hours_sort_like_the_hours_and_lead_back_to_them(one, other):
    assert (hour_text(one) < hour_text(other)) == (hour_of(one) < hour_of(other))
    assert hour_seconds(hour_text(one)) == hour_of(one)


@pytest.mark.parametrize(
    ("second", "hour"), [(0, "1970-01-01T00"), (3599, "1970-01-01T00"), (3600, "1970-01-01T01")]
)
def test_an_hour_begins_with_its_first_second(second, hour):
    assert hour_text(second) == hour
    assert hour_of(second) % HOUR_SECONDS == 0


def test_a_key_leads_back_to_its_tenant_and_hour():
    key = RowKey("acme", "2026-11-25T05", "4f1c-uid")
    assert row_key(key, "p1") == "~vcsync/usage/acme/2026-11-25T05/4f1c-uid/p1"
    assert parse_key(row_key(key, "p1")) == key


@given(ROWS)
def test_a_row_is_stored_as_it_is(row):
    assert decode(encode(row)) == row


@given(st.lists(ROWS), st.randoms())
def test_the_sum_of_rows_does_not_depend_on_their_order(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert added(rows) == added(shuffled)


def test_requests_of_processes_add_up_but_storage_is_the_same_for_all():
    one, other = Row(1, 2, 3, 4, 5, 60, 700), Row(10, 20, 30, 40, 50, 6, 7000)
    assert added([one, other]) == Row(11, 22, 33, 44, 55, 60, 7000)


@given(st.lists(st.builds(Amounts, *[NUMBERS] * 5)))
def test_a_row_is_the_sum_of_the_amounts_that_were_added_to_it(amounts):
    total = Row()
    for each in amounts:
        total = total.plus(each)
    assert total.reads == sum(each.reads for each in amounts)
    assert total.watch_milliseconds == sum(each.watch_milliseconds for each in amounts)


def test_rows_of_the_same_tenant_and_hour_become_one():
    first, second, later = (
        RowKey("acme", "2026-11-25T05", "u1"),
        RowKey("acme", "2026-11-25T05", "u2"),
        RowKey("acme", "2026-11-25T06", "u2"),
    )
    rows = [Used(key, Row(reads=1)) for key in (first, first, second, later, later, later)]
    assert list(by_hour(rows)) == [
        Used(first, Row(reads=2)),
        Used(second, Row(reads=1)),
        Used(later, Row(reads=3)),
    ]
