"""Token buckets, shares of processes, and limits in force."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcsync.apiserver.requestlimits.shares import Share
from vcsync.apiserver.requestlimits.token_bucket import TokenBucket
from vcsync.apiserver.tenants.request_limits import RequestLimits, TenantLimits, in_force

RATES = st.floats(0.01, 8)
CAPACITIES = st.floats(1, 12)
PAUSES = st.lists(st.floats(0, 3), min_size=1, max_size=12)


@given(RATES, CAPACITIES, PAUSES)
def test_no_more_pass_than_the_burst_and_the_rate_allow(rate, capacity, pauses):
    bucket, now, passed = TokenBucket(rate, capacity, 0.0), 0.0, []
    for pause in pauses:
        now += pause
        while not bucket.wait(now):
            bucket.take(now)
            passed.append(now)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            allowed = capacity + (passed[last] - start) * rate
            assert last - first + 1 <= allowed + 1e-6 * (1 + allowed)


@given(RATES, CAPACITIES, PAUSES)
@example(1.0, 1.9999999999999982, [0.0])
def test_the_wait_is_honest_and_no_longer_than_necessary(rate, capacity, pauses):
    bucket, now = TokenBucket(rate, capacity, 0.0), 0.0
    for pause in pauses:
        now += pause
        while not (seconds := bucket.wait(now)):
            bucket.take(now)
        assert bucket.wait(now + seconds * 0.99) > 0 or seconds * rate < 1e-6
        now += seconds * (1 + 1e-9) + 1e-9
        assert bucket.wait(now) < 1e-6 / rate


def test_a_debt_is_paid_at_the_rate():
    bucket = TokenBucket(10, 20, 0.0)
    bucket.take(0.0, 120)
    assert bucket.wait(0.0, 0.0) == 10
    assert bucket.wait(4.0, 0.0) == 6
    assert bucket.wait(10.0, 0.0) == 0
    assert not bucket.is_full(11.9)
    assert bucket.is_full(12.0)


@given(st.lists(st.tuples(RATES, CAPACITIES, st.floats(0, 3)), min_size=1, max_size=20))
def test_another_configuration_gives_no_tokens(changes):
    bucket, now = TokenBucket(5, 10, 0.0), 0.0
    bucket.take(now, 10)
    most, old = 0.0, 5.0
    for rate, capacity, pause in changes:
        now += pause
        most += pause * old
        bucket.configure(rate, capacity, now)
        old = rate
        assert bucket.wait(now, most + 1e-6 * (1 + most)) >= 0
        assert bucket.wait(now, min(capacity, most) + 1e-3) > 0 or most == 0


def test_the_clock_may_stand_still_or_be_read_out_of_order():
    bucket = TokenBucket(1, 1, 5.0)
    bucket.take(5.0)
    assert bucket.wait(4.0) == 1
    assert bucket.wait(5.5) == 0.5


@given(st.integers(1, 10**6), st.integers(1, 20))
def test_the_shares_of_all_processes_add_up_to_the_limit(limit, processes):
    shares = [Share(rank, processes) for rank in range(processes)]
    assert math.isclose(sum(each.rate(limit) for each in shares), limit)
    counts = [each.count(limit) for each in shares]
    assert sum(counts) == max(limit, processes)
    assert max(counts) - min(counts) <= 1
    assert min(counts) >= 1


@pytest.mark.parametrize(
    ("own", "defaults", "expected"),
    [
        (None, TenantLimits(), None),
        (TenantLimits(watches=0), TenantLimits(), None),
        (TenantLimits(read_burst=5), TenantLimits(), None),
        (None, TenantLimits(watches=5), TenantLimits(watches=5)),
        (TenantLimits(watches=3), TenantLimits(watches=5), TenantLimits(watches=3)),
        (TenantLimits(watches=0), TenantLimits(watches=5), None),
        (TenantLimits(reads_per_second=3), TenantLimits(), TenantLimits(reads_per_second=3, read_burst=6)),
        (
            TenantLimits(writes_per_second=3, write_burst=1),
            TenantLimits(),
            TenantLimits(writes_per_second=3, write_burst=1),
        ),
        (
            TenantLimits(user=RequestLimits(watches=1)),
            TenantLimits(watches=7, user=RequestLimits(watches=2, concurrent_requests=4)),
            TenantLimits(watches=7, user=RequestLimits(watches=1, concurrent_requests=4)),
        ),
    ],
)
def test_the_limits_in_force_are_those_of_the_record_then_the_defaults(own, defaults, expected):
    assert in_force(own, defaults) == expected
