"""The limiter: whose limits count, what a refusal says, changes, and what hostile tenants try."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.request.caller import Caller, guest
from vcsync.apiserver.requestlimits.account import Account, Kind
from vcsync.apiserver.requestlimits.limiter import Limiter
from vcsync.apiserver.requestlimits.refusal_counts import NEWS_SECONDS, OTHER, RefusalCounts
from vcsync.apiserver.requestlimits.shares import WHOLE, Share
from vcsync.apiserver.requestlimits.users import MAX_USERS, SWEEP_SECONDS, Users
from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.tenants.records import TENANTS
from vcsync.apiserver.tenants.request_limits import NO_TENANT_LIMITS, RequestLimits, TenantLimits

READ, WRITE, WATCH = Kind(True, False), Kind(False, False), Kind(True, True)
SYNCER = "system:serviceaccount:vcsync-system:vcsync-syncer"


def user(name="alice", *groups, **about):
    return Caller(User(name, groups=groups or ("system:authenticated",)), "acme", **about)


class House:
    """A limiter, a clock, and the limits of records."""

    def __init__(self, **limits):
        self.now = 100.0
        self.records = {"acme": TenantLimits(**limits)}
        self.limiter = self.make()

    def make(self, defaults=NO_TENANT_LIMITS):
        return Limiter(self.records.get, defaults, lambda: self.now)

    def passes(self, kind=READ, caller=None, tenant="acme"):
        try:
            return self.limiter.enter(tenant, caller or user(), kind)
        except StatusError as error:
            return error

    def count(self, kind=READ, caller=None, tries=1000):
        """Return how many requests pass before one is refused."""
        for number in range(tries):
            if isinstance(passed := self.passes(kind, caller), StatusError):
                return number
            if passed is not None and not kind.watch:
                passed.end()
        return tries


def test_without_limits_nothing_is_counted():
    house = House()
    assert house.passes() is None
    assert house.passes(tenant="unknown") is None
    assert not house.limiter._states.keys() - {"acme"}


def test_reads_and_writes_count_separately_and_come_back_with_time():
    house = House(reads_per_second=2, read_burst=5, writes_per_second=1, write_burst=3)
    assert (house.count(READ), house.count(WRITE)) == (5, 3)
    house.now += 3
    assert (house.count(READ), house.count(WRITE)) == (5, 3)
    house.now += 1
    assert (house.count(READ), house.count(WRITE)) == (2, 1)


@pytest.mark.parametrize(
    ("limits", "kind", "before", "message", "seconds"),
    [
        (
            {"reads_per_second": 1, "read_burst": 1},
            READ,
            1,
            'tenant "acme" has reached its limit of 1 reads per second (limits.readsPerSecond); try again in 1 s',
            1,
        ),
        (
            {"user": RequestLimits(writes_per_second=1, write_burst=1)},
            WRITE,
            1,
            (
                'user "alice" has reached the limit of 1 writes per second of each user of tenant "acme" '
                "(limits.user.writesPerSecond); try again in 1 s"
            ),
            1,
        ),
        (
            {"watches": 2},
            WATCH,
            2,
            'tenant "acme" has reached its limit of 2 open watches (limits.watches); try again in 1 s',
            1,
        ),
        (
            {"user": RequestLimits(concurrent_requests=1)},
            READ,
            1,
            (
                'user "alice" has reached the limit of 1 concurrent requests of each user of tenant "acme" '
                "(limits.user.concurrentRequests); try again in 1 s"
            ),
            1,
        ),
    ],
)
def test_a_refusal_names_the_limit_and_whose_it_is(limits, kind, before, message, seconds):
    house = House(**limits)
    for _ in range(before):
        house.passes(kind)
    refused = house.passes(kind)
    assert (refused.code, refused.message) == (429, message)
    assert refused.retry_after == seconds


@given(st.integers(1, 50), st.integers(1, 100), st.integers(1, 5))
def test_after_the_time_of_a_refusal_the_request_passes(rate, burst, processes):
    house = House(reads_per_second=rate, read_burst=burst)
    house.limiter.set_share(Share(0, processes))
    assert house.count() == max(1, burst // processes)
    house.now += house.passes().retry_after
    assert not isinstance(house.passes(), StatusError)


def test_a_refused_request_takes_nothing_from_anybody():
    house = House(reads_per_second=5, read_burst=5, user=RequestLimits(reads_per_second=1, read_burst=2))
    assert house.count(tries=50) == 2
    assert house.count(caller=user("bob")) == 2
    assert house.count(caller=user("carol")) == 1


def test_concurrent_requests_and_watches_count_until_they_end():
    house = House(concurrent_requests=2, watches=1)
    first, second = house.passes(), house.passes(WRITE)
    watch = house.passes(WATCH)
    assert isinstance(house.passes(), StatusError)
    assert isinstance(house.passes(WATCH), StatusError)
    first.end()
    first.end()
    third = house.passes()
    assert isinstance(house.passes(), StatusError)
    for each in (second, third, watch):
        each.end()
    assert not isinstance(house.passes(WATCH), StatusError)


def test_bytes_are_paid_afterwards_and_streams_wait():
    house = House(bytes_per_second=1000)
    passage = house.passes()
    passage.spend(7000)
    assert passage.debt == 5
    refused = house.passes()
    assert "1000 bytes per second" in refused.message
    assert refused.retry_after == 5
    house.now += 5
    assert passage.debt == 0
    assert not isinstance(house.passes(), StatusError)


async def test_a_stream_goes_on_as_soon_as_its_bytes_are_within_the_limit(monkeypatch):
    house, slept = House(bytes_per_second=1000), []

    async def sleep(seconds):
        slept.append(seconds)
        house.now += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    passage = house.passes()
    passage.spend(4500)
    await passage.pace()
    assert sum(slept) == 2.5
    assert max(slept) == 1


def test_system_callers_are_never_limited():
    house = House(reads_per_second=1, read_burst=1, concurrent_requests=1)
    admin = Caller(User("admin", groups=("system:masters",)), "system", system=True)
    assert all(house.passes(caller=admin) is None for _ in range(20))
    assert house.count() == 1


def test_roles_have_an_allowance_of_their_own_which_is_no_way_around_the_limit():
    house = House(reads_per_second=1, read_burst=1, watches=1)
    assert house.count() == 1
    role = user(SYNCER)
    assert house.count(caller=role) == 400
    assert house.count(WATCH, caller=role) == 0
    house.now += 10
    assert house.count(WATCH, caller=role) == 400
    assert "vcsync's own accounts" in house.passes(caller=role).message
    assert house.count(caller=user(SYNCER + "x")) == 1


def test_roles_get_as_much_as_the_tenant_if_that_is_more():
    house = House(writes_per_second=500, write_burst=900)
    assert house.count(WRITE, user(SYNCER)) == 900


def test_a_guest_counts_as_a_user_of_the_tenant_that_it_visits():
    house = House(reads_per_second=1, read_burst=5, user=RequestLimits(reads_per_second=1, read_burst=3))
    for name in ("alice", SYNCER):
        stranger = guest(Caller(User(name, groups=("system:authenticated",)), "beta"), "acme", ())
        house.now += 10
        assert house.count(caller=stranger) == 3
        assert house.count() == 2


def test_anonymous_callers_use_up_nothing_of_the_tenant():
    house = House(reads_per_second=1, read_burst=3)
    stranger = user("system:anonymous", "system:unauthenticated")
    assert house.count(caller=stranger) == 3
    assert "anonymous callers" in house.passes(caller=stranger).message
    assert house.count() == 3


def test_one_user_does_not_starve_the_others():
    house = House(reads_per_second=10, read_burst=20, user=RequestLimits(reads_per_second=2, read_burst=4))
    assert house.count(caller=user("greedy")) == 4
    assert house.count(caller=user("modest")) == 4


def test_invented_names_evade_no_limit_of_the_tenant_and_use_bounded_memory():
    house = House(reads_per_second=10, read_burst=1000, user=RequestLimits(reads_per_second=1, read_burst=1))
    passed = 0
    for number in range(5000):
        answer = house.passes(caller=user(f"system:serviceaccount:x:{number}"))
        if not isinstance(answer, StatusError):
            answer.end()
            passed += 1
    assert passed == MAX_USERS + 1
    users = house.limiter._states["acme"]._users
    assert users is not None
    assert len(users) == MAX_USERS
    house.now += 10
    assert not isinstance(house.passes(caller=user("latecomer")), StatusError)
    assert len(users) == 1


def test_busy_users_are_not_forgotten():
    users = Users(RequestLimits(concurrent_requests=1), WHOLE, most=2)
    busy, idle = users.account("busy", 10.0), users.account("idle", 10.0)
    busy.begin(READ, 10.0)
    third = users.account("third", 10.0)
    assert users.account("busy", 10.0) is busy
    assert users.account("fourth", 10.5) is not third
    assert idle is not users.account("idle", 10.0 + SWEEP_SECONDS / 2)


def test_all_users_beyond_the_most_share_an_account():
    users = Users(RequestLimits(concurrent_requests=1), WHOLE, most=1)
    users.account("busy", 10.0).begin(READ, 10.0)
    assert users.account("b", 10.0) is users.account("c", 10.0)
    users.configure(RequestLimits(concurrent_requests=2), WHOLE, 10.0)
    assert users.account("busy", 10.0).refusal(READ, 10.0) is None


def test_changed_limits_apply_at_once_and_what_runs_stays():
    house = House(watches=3)
    watches = [house.passes(WATCH) for _ in range(3)]
    house.records["acme"] = TenantLimits(watches=1, reads_per_second=1, read_burst=1)
    assert isinstance(house.passes(WATCH), StatusError)
    for each in watches[:2]:
        each.end()
    assert isinstance(house.passes(WATCH), StatusError)
    watches[2].end()
    assert not isinstance(house.passes(WATCH), StatusError)
    del house.records["acme"]
    assert house.passes(WATCH) is None


def test_users_are_limited_from_the_moment_their_limit_is_set():
    house = House(reads_per_second=100)
    assert house.count(tries=20) == 20
    house.records["acme"] = TenantLimits(user=RequestLimits(reads_per_second=1, read_burst=2))
    assert house.count() == 2
    house.records["acme"] = TenantLimits(user=RequestLimits(reads_per_second=1, read_burst=4))
    assert house.count() == 0
    house.records["acme"] = TenantLimits(reads_per_second=100)
    assert house.count(tries=20) == 20


def test_defaults_apply_where_the_record_sets_nothing():
    house = House(watches=5)
    house.limiter = house.make(TenantLimits(reads_per_second=1, read_burst=3))
    assert house.count() == 3
    assert not isinstance(house.passes(tenant="other"), StatusError)
    house.records["acme"] = TenantLimits(reads_per_second=0)
    assert house.count(tries=50) == 50


def test_each_process_lets_its_share_through():
    houses = [House(reads_per_second=10, read_burst=20, watches=5) for _ in range(3)]
    for rank, house in enumerate(houses):
        house.limiter.set_share(Share(rank, 3))
    assert sum(house.count() for house in houses) <= 20
    assert sum(house.count(WATCH) for house in houses) == 0
    for house in houses:
        house.now += 10
    assert [house.count(WATCH) for house in houses] == [2, 2, 1]


def test_a_deleted_tenant_is_forgotten():
    house = House(watches=1)
    house.passes(WATCH)
    house.limiter.changed([Change(7, f"{TENANTS}acme", None, b"{}", 1)])
    assert not house.limiter._states
    house.passes(WATCH)
    house.limiter.keep(["acme"])
    assert house.limiter._states
    house.limiter.keep([])
    assert not house.limiter._states


def test_an_account_is_idle_only_in_the_state_of_a_new_one():
    account = Account(RequestLimits(reads_per_second=1, read_burst=1), WHOLE, 0.0)
    assert account.is_idle(0.0)
    account.begin(READ, 0.0)
    assert not account.is_idle(5.0)
    account.end(READ)
    assert account.is_idle(5.0)
    account.begin(READ, 5.0)
    account.end(READ)
    assert not account.is_idle(5.5)


def test_the_first_refusal_of_its_kind_is_news_for_a_while():
    counts = RefusalCounts(most=1)
    assert counts.add("a", "tenant", "watches", 1.0)
    assert not counts.add("a", "tenant", "watches", NEWS_SECONDS)
    assert counts.add("a", "user", "watches", 2.0)
    assert counts.add("b", "tenant", "watches", 2.0)
    assert not counts.add("c", "tenant", "watches", 2.0)
    assert counts.recently(2.0) == {"a": ["tenant/watches", "user/watches"], OTHER: ["tenant/watches"]}
    assert counts.recently(2.0 + NEWS_SECONDS) == {"a": ["tenant/watches"]}
    assert counts.add("a", "tenant", "watches", 1.0 + NEWS_SECONDS)


def test_refused_requests_are_counted_with_bounded_cardinality():
    counts = RefusalCounts(most=2)
    for tenant in ("a", "b", "c", "d", "a"):
        counts.add(tenant, "tenant", "watches", 1.0)
    registry = CollectorRegistry()
    registry.register(counts)
    text = generate_latest(registry).decode()
    line = 'vcsync_tenant_refused_requests_total{{holder="tenant",limit="watches",tenant="{}"}} {}'
    for tenant, count in (("a", 2.0), ("b", 1.0), (OTHER, 2.0)):
        assert line.format(tenant, count) in text
    assert text.count("vcsync_tenant_refused_requests_total{") == 3
