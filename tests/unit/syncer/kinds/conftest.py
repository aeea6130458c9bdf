"""Fixtures for the kinds."""

import pytest
from kinds_bench import Bench


@pytest.fixture
def bench() -> Bench:
    """A tenant with namespace `shop` placed on super cluster r1."""
    bench = Bench()
    bench.place("shop")
    return bench
