"""Delay of refusals for connections whose client does not wait itself."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.serving.retry_delay import MOST_SECONDS, RetryDelay


@pytest.mark.parametrize(
    ("requests", "delays"),
    [
        ([(100.0, 1)], [0.0]),
        ([(100.0, 1), (101.0, 1), (102.5, 1)], [0.0, 0.0, 0.0]),
        ([(100.0, 1), (100.25, 1)], [0.0, 0.75]),
        ([(100.0, 1), (100.0, 1), (101.0, 1)], [0.0, 1.0, 1.0]),
        ([(100.0, 30), (100.0, 30)], [0.0, MOST_SECONDS]),
    ],
    ids=["the first", "of a client that waits", "too early", "again and again", "a long time"],
)
def test_a_refusal_waits_until_the_last_retry_after_is_over(
    requests: list[tuple[float, int]], delays: list[float]
) -> None:
    delay = RetryDelay()
    assert [delay.next(retry_after, now) for now, retry_after in requests] == delays


@given(pauses=st.lists(st.floats(0, 5), min_size=2, max_size=30))
def test_a_connection_gets_at_most_one_refusal_in_the_time_of_a_retry_after(pauses: list[float]) -> None:
    delay, now, sent = RetryDelay(), 0.0, []
    for pause in pauses:
        now += pause
        now += delay.next(1, now)
        sent.append(now)
    assert all(later - earlier >= 1 - 1e-9 for earlier, later in pairwise(sent))
