import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.fairqueue import Backoff


def test_the_delay_doubles_with_every_failure_up_to_the_cap():
    backoff = Backoff(base=1.0, cap=10.0, jitter=0.0)
    assert [backoff.delay("t", "item", n) for n in range(1, 7)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@given(st.text(), st.text(), st.integers(1, 10**9))
def test_jitter_only_shortens_and_is_the_same_each_time(group, item, failures):
    backoff = Backoff(base=0.5, cap=60.0, jitter=0.25)
    full = Backoff(base=0.5, cap=60.0, jitter=0.0).delay(group, item, failures)
    delay = backoff.delay(group, item, failures)
    assert 0.75 * full <= delay <= full
    assert delay == backoff.delay(group, item, failures)


def test_items_that_failed_together_are_retried_at_different_times():
    backoff = Backoff(base=100.0, cap=100.0, jitter=0.5)
    delays = [backoff.delay("t", f"pod-{n}", 1) for n in range(100)]
    assert len({round(delay) for delay in delays}) > 25
    assert max(delays) - min(delays) > 40


def test_the_jitter_does_not_depend_on_the_hash_seed_of_the_process():
    assert Backoff(base=1.0, jitter=1.0).delay("tenant", ("ns", "pod"), 1) == pytest.approx(0.550479463301599)


def test_text_that_is_not_unicode_has_a_delay_too():
    delay = Backoff(base=1.0, jitter=0.5).delay("\ud800", "\udfff", 1)
    assert 0.5 <= delay <= 1.0


@pytest.mark.parametrize(
    "settings", [{"base": 0.01}, {"base": 2.0, "cap": 2.0}, {"jitter": 0}, {"jitter": 1}]
)
def test_the_ends_of_the_ranges_are_allowed(settings):
    assert Backoff(**settings).delay("t", "item", 1) >= 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", 0.0),
        ("base", -1.0),
        ("base", math.nan),
        ("base", math.inf),
        ("cap", 0.01),
        ("cap", math.inf),
        ("cap", math.nan),
        ("jitter", -0.1),
        ("jitter", 1.1),
        ("jitter", math.nan),
    ],
)
def test_invalid_settings_are_refused_by_field_name(field, value):
    with pytest.raises(ValueError, match=field):
        Backoff(**{field: value})
