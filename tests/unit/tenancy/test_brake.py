"""How many deletions that nobody was seen to ask for pass, and what an operator's word does."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.tenancy.brake import RELEASE_SECONDS, WINDOW_SECONDS, Braked, Gate, released_at

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PODS = "pods in super cluster r1"


class Bench:
    """A gate, and what the caches say at the time."""

    def __init__(self, share: float = 0.3, small: int = 20) -> None:
        self.wanted, self.standing, self.seconds = 0, 0, 0.0
        self.release: dict[str, datetime] = {}
        self.counts = 0
        self.told = ""
        self.gate = Gate(
            share,
            small=small,
            released=self.release.get,
            clock=lambda: self.seconds,
            now=lambda: NOW + timedelta(seconds=self.seconds),
        )

    async def passes(self, item: object, tenant: str = "acme") -> bool:
        try:
            await self.gate.require(tenant, PODS, item, self._count)
        except Braked as braked:
            self.told = str(braked)
            return False
        return True

    async def _count(self) -> tuple[int, int]:
        self.counts += 1
        return self.wanted, self.standing


@pytest.mark.parametrize(
    ("wanted", "of", "passes"),
    [
        (20, 20, True),
        (21, 1000, True),
        (301, 1000, False),
        (300, 1000, True),
        (21, 21, False),
        (200, 200, False),
    ],
)
async def test_a_large_share_of_many_brakes_before_the_first_goes(wanted: int, of: int, passes: bool) -> None:
    bench = Bench()
    bench.wanted, bench.standing = wanted, of

    assert await bench.passes("first") is passes
    assert bool(bench.gate.braked) is not passes
    assert ("vcsync brake release acme" in bench.told) is not passes


async def test_one_by_one_no_more_go_within_the_window_than_at_once() -> None:
    bench = Bench()
    for number in range(200):
        bench.wanted, bench.standing = 1, 200 - number
        if not await bench.passes(number):
            break
        bench.seconds += 6.0  # so that what is wanted is counted anew each time
    assert 20 <= number < 80
    bench.seconds += 10 * WINDOW_SECONDS
    assert not await bench.passes("later"), "a brake does not let go by itself"


async def test_the_same_deletion_is_not_counted_twice() -> None:
    bench = Bench()
    bench.wanted, bench.standing = 1, 30
    for _ in range(100):
        assert await bench.passes("again and again")


async def test_tenants_do_not_brake_each_other() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes("web", "acme")
    bench.wanted = 1
    assert await bench.passes("web", "umbrella")


async def test_an_operators_word_releases_and_counts_for_a_while() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    bench.release["acme"] = NOW
    assert await bench.passes(1)
    assert not bench.gate.braked
    bench.seconds = RELEASE_SECONDS + 1
    assert not await bench.passes(2)


async def test_the_brake_lets_go_when_what_was_refused_is_wanted_no_more() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    assert not await bench.passes(2)
    bench.gate.unwanted("acme", PODS, 1)
    assert bench.gate.is_braked("acme", PODS)
    bench.gate.unwanted("acme", PODS, 2)
    assert not bench.gate.is_braked("acme", PODS)
    bench.wanted = 1
    assert await bench.passes(3)


async def test_with_a_share_of_one_everything_passes() -> None:
    bench = Bench(share=1.0)
    bench.wanted = bench.standing = 1000
    assert all([await bench.passes(number) for number in range(1000)])


async def test_what_is_wanted_is_counted_seldom() -> None:
    bench = Bench()
    bench.wanted, bench.standing = 19, 1000
    for number in range(19):
        assert await bench.passes(number)
    assert bench.counts == 1


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 300)), max_size=60), st.integers(21, 300))
async def test_however_they_come_no_more_than_the_share_goes_in_a_window(
    steps: list[tuple[int, float]], standing: int
) -> None:
    bench = Bench()
    bench.standing = standing
    gone: dict[int, float] = {}
    for item, pause in steps:
        bench.seconds += pause
        bench.wanted, bench.standing = 1, standing - len(gone)
        if await bench.passes(item):
            gone[item] = bench.seconds
        lately = [at for at in gone.values() if bench.seconds - at < WINDOW_SECONDS]
        assert len(lately) <= max(20, 0.3 * standing + 1)


@pytest.mark.parametrize("text", ["", None, "soon", "2026-01-01T00:00:00"])
def test_a_release_that_cannot_be_read_is_none(text: str | None) -> None:
    assert released_at(text) is None


def test_a_release_is_a_time() -> None:
    assert released_at("2026-01-01T00:00:00Z") == NOW
