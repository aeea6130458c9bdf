"""The limit on deletions without an observed request, and the effect of an operator's release."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.tenancy.brake import (
    NEVER,
    RECOUNT_SECONDS,
    RELEASE_SECONDS,
    WINDOW_SECONDS,
    Braked,
    DeletionLimiter,
    Releases,
    released_at,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PODS = "pods in super cluster r1"


class Bench:
    """A limiter, and the numbers of objects in the caches."""

    def __init__(self, share: float = 0.3, small: int = 20) -> None:
        self.wanted, self.standing, self.seconds = 0, 0, 0.0
        self.step = timedelta()
        self.release: dict[str, datetime | None] = {}
        self.counts = 0
        self.message = ""
        self.releases = Releases(clock=lambda: self.seconds, now=self._now)
        self._share, self._small = share, small
        self.begin()

    def begin(self) -> None:
        """Build a limiter as a new term does, without the state of the term before."""
        self.limiter = DeletionLimiter(
            self._share,
            small=self._small,
            released=lambda tenant: self.release.get(tenant, NEVER),
            releases=self.releases,
            clock=lambda: self.seconds,
            now=self._now,
        )

    def _now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds) + self.step

    async def passes(self, item: object, tenant: str = "acme") -> bool:
        try:
            await self.limiter.require(tenant, PODS, item, self._count)
        except Braked as braked:
            self.message = str(braked)
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
async def test_a_large_share_of_many_objects_brakes_before_the_first_deletion(
    wanted: int, of: int, passes: bool
) -> None:
    bench = Bench()
    bench.wanted, bench.standing = wanted, of

    assert await bench.passes("first") is passes
    assert bool(bench.limiter.braked) is not passes
    assert ("vcsync brake release acme" in bench.message) is not passes


async def test_single_deletions_within_the_window_are_limited_like_simultaneous_ones() -> None:
    bench = Bench()
    for number in range(200):
        bench.wanted, bench.standing = 1, 200 - number
        if not await bench.passes(number):
            break
        bench.seconds += 6.0  # so that the wanted deletions are counted again each time
    assert 20 <= number < 80
    for _ in range(20):
        bench.seconds += WINDOW_SECONDS / 2
        assert not await bench.passes(number), "a brake does not let go of what is still to be deleted"


async def test_a_brake_ends_when_nobody_asks_for_what_it_has_refused() -> None:
    """The objects may have gone in a way that nobody notes."""
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes("gone")
    bench.wanted = 1
    bench.seconds += WINDOW_SECONDS - 1
    assert not await bench.passes("later")
    bench.seconds += RECOUNT_SECONDS
    bench.limiter.unwanted("acme", PODS, "later")
    assert not bench.limiter.braked
    assert await bench.passes("another")


async def test_what_is_asked_for_again_after_a_while_is_counted_again() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes("web")
    bench.seconds += 2 * WINDOW_SECONDS
    assert not await bench.passes("web")
    assert bench.limiter.braked


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


async def test_an_operators_release_is_valid_for_a_limited_time() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    bench.release["acme"] = NOW
    assert await bench.passes(1)
    assert not bench.limiter.braked
    bench.seconds = RELEASE_SECONDS + 1
    assert not await bench.passes(2)


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(hours=-1)])
async def test_a_release_while_deletions_wait_is_valid_despite_wrong_clocks(step: timedelta) -> None:
    bench = Bench()
    bench.step = step
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    bench.release["acme"] = NOW
    assert await bench.passes(1)
    bench.seconds = RELEASE_SECONDS + 1
    assert not await bench.passes(2)
    bench.release["acme"] = NOW + timedelta(seconds=bench.seconds)
    assert await bench.passes(2), "a second word counts as the first"


@pytest.mark.parametrize("before", [None, NOW])
async def test_an_old_release_that_is_read_late_or_restored_from_a_backup_is_not_valid(
    before: datetime | None,
) -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    bench.seconds = RELEASE_SECONDS + 1
    bench.release["acme"] = before
    assert not await bench.passes(1)
    bench.release["acme"] = NOW - timedelta(days=1)
    assert not await bench.passes(1)


async def test_an_expired_release_is_not_valid_again_when_the_clock_is_set_back() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    bench.release["acme"] = NOW
    assert await bench.passes(1)
    bench.seconds = RELEASE_SECONDS + 3600
    bench.step = -timedelta(seconds=bench.seconds)
    assert not await bench.passes(2)


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(hours=-1)])
async def test_a_release_keeps_its_remaining_time_in_a_later_term(step: timedelta) -> None:
    bench = Bench()
    bench.step = step
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    bench.release["acme"] = NOW
    assert await bench.passes(1)
    bench.begin()
    bench.seconds = RELEASE_SECONDS - 1
    assert await bench.passes(2)
    bench.begin()
    bench.seconds = RELEASE_SECONDS + 1
    assert not await bench.passes(3)


async def test_a_release_between_two_terms_is_valid_from_the_first_check() -> None:
    bench = Bench()
    bench.step = timedelta(hours=1)
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    bench.begin()
    bench.release["acme"] = NOW
    assert await bench.passes(1)


async def test_an_expired_release_is_not_valid_in_a_later_term_whose_clock_is_set_back() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    bench.release["acme"] = NOW
    assert await bench.passes(1)
    bench.begin()
    bench.seconds = RELEASE_SECONDS + 3600
    bench.step = -timedelta(seconds=bench.seconds)
    assert not await bench.passes(2)


async def test_a_release_that_expired_under_another_leader_is_not_valid() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    bench.release["acme"] = NOW + timedelta(hours=1)
    bench.begin()
    bench.seconds = timedelta(hours=10).total_seconds()
    assert not await bench.passes(1)


async def test_the_brake_is_released_when_the_refused_deletions_are_no_longer_wanted() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes(1)
    assert not await bench.passes(2)
    bench.limiter.unwanted("acme", PODS, 1)
    assert bench.limiter.is_braked("acme", PODS)
    bench.limiter.unwanted("acme", PODS, 2)
    assert not bench.limiter.is_braked("acme", PODS)
    bench.wanted = 1
    assert await bench.passes(3)


async def test_with_a_share_of_one_everything_passes() -> None:
    bench = Bench(share=1.0)
    bench.wanted = bench.standing = 1000
    assert all([await bench.passes(number) for number in range(1000)])


async def test_a_count_of_wanted_deletions_is_reused() -> None:
    bench = Bench()
    bench.wanted, bench.standing = 19, 1000
    for number in range(19):
        assert await bench.passes(number)
    assert bench.counts == 1


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 300)), max_size=60), st.integers(21, 300))
async def test_in_any_order_no_more_than_the_share_is_deleted_within_the_window(
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
def test_a_release_that_cannot_be_parsed_is_ignored(text: str | None) -> None:
    assert released_at(text) == NEVER


def test_a_release_is_a_time() -> None:
    assert released_at("2026-01-01T00:00:00Z") == NOW


async def test_a_brake_has_its_tenant_its_numbers_and_the_remedy() -> None:
    bench = Bench()
    bench.wanted, bench.standing, bench.seconds = 150, 200, 60.0
    assert not await bench.passes("web")
    [brake] = bench.limiter.braked.values()
    assert (brake.since, brake.tenant, brake.what) == (NOW + timedelta(minutes=1), "acme", PODS)
    assert (brake.wanted, brake.of) == (150, 200)
    assert brake.text() == f"150 of 200 {PODS}, first web"
    assert brake.remedy.endswith("release them with 'vcsync brake release acme'")
    assert bench.message == f"150 of 200 {PODS} would be deleted without an observed request: {brake.remedy}"


async def test_a_brake_for_all_tenants_is_released_for_all() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes("namespace", "")
    assert bench.message.endswith(
        "check that the meta cluster is complete; if the deletions are right, release them with "
        "'vcsync brake release --all'"
    )


async def test_single_deletions_are_counted_with_earlier_ones() -> None:
    bench = Bench(small=3)
    bench.wanted, bench.standing = 1, 10
    for number in range(3):
        assert await bench.passes(number)
    assert not await bench.passes("fourth")
    [brake] = bench.limiter.braked.values()
    assert (brake.wanted, brake.of) == (4, 13)


async def test_the_brake_is_released_when_no_object_of_its_kind_is_to_be_deleted() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes("web", "acme")
    assert not await bench.passes("web", "umbrella")
    bench.limiter.settled("acme", "other objects")
    assert bench.limiter.is_braked("acme", PODS)
    bench.limiter.settled("acme", PODS)
    assert not bench.limiter.is_braked("acme", PODS)
    assert bench.limiter.is_braked("umbrella", PODS)


async def test_the_state_of_a_tenant_is_forgotten_with_it() -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes("web", "acme")
    assert not await bench.passes("web", "umbrella")
    bench.limiter.forget("acme")
    assert [tenant for tenant, _ in bench.limiter.braked] == ["umbrella"]
    bench.wanted = 1
    assert await bench.passes("web", "acme")


async def test_a_kind_of_objects_may_have_its_own_limit() -> None:
    bench = Bench(small=20)
    bench.wanted = bench.standing = 10

    async def count() -> tuple[int, int]:
        return 10, 10

    with pytest.raises(Braked):
        await bench.limiter.require("acme", "Namespaces", "n", count, small=5)
    await bench.limiter.require("acme", "ConfigMaps", "c", count)


@pytest.mark.parametrize("option", ["--all", "--super-cluster r1"])
async def test_a_brake_without_tenant_names_the_option_that_releases_it(option: str) -> None:
    async def count() -> tuple[int, int]:
        return 200, 200

    limiter = DeletionLimiter(
        0.3, released=lambda _: None, releases=Releases(), clock=lambda: 0.0, release_others=option
    )
    with pytest.raises(Braked, match=f"'vcsync brake release {option}'"):
        await limiter.require("", "namespaces", 1, count)


async def test_a_caller_may_set_the_number_of_deletions_that_pass() -> None:
    async def count() -> tuple[int, int]:
        return 1, 2

    limiter = DeletionLimiter(0.3, released=lambda _: None, releases=Releases(), clock=lambda: 0.0)
    await limiter.require("acme", "pods", 1, count)
    with pytest.raises(Braked):
        await limiter.require("acme", "tenants", 1, count, small=0)
    limiter.settled("acme", "pods")
    assert limiter.is_braked("acme", "tenants")
    limiter.settled("acme", "tenants")
    assert not limiter.braked


@pytest.mark.parametrize(
    ("item", "first"), [("web", "web"), (("acme", "shop"), "acme/shop"), (("pods", "", "web"), "pods/web")]
)
async def test_a_brake_names_the_first_object_that_waits(item: object, first: str) -> None:
    bench = Bench()
    bench.wanted = bench.standing = 200
    assert not await bench.passes(item)
    assert not await bench.passes("later")
    assert [brake.first for brake in bench.limiter.braked.values()] == [first]
