"""Long-running requests end when the credentials of their caller become invalid, and only then."""

import asyncio
import dataclasses

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.registry.long_running import LongRunningRequests, bound_object_keys
from vcsync.apiserver.request.caller import Caller, Granted, guest
from vcsync.apiserver.storage.interface import Change, StoreUnavailable

ALICE = Caller(User("alice"), "a")
POD = {"authentication.kubernetes.io/pod-name": ("p",), "authentication.kubernetes.io/node-name": ("n",)}
BOT = Caller(User("system:serviceaccount:ns:bot", extra=POD), "a")
OPERATOR = Caller(User("root"), "system", system=True)


class World:
    """Long-running requests, the callers that are refused, and the requests that were aborted."""

    def __init__(self):
        self.refused, self.tenants, self.aborted, self.suspended = set(), {"a", "b"}, [], set()
        self.aside = set()
        self.broken = 0
        self.requests = LongRunningRequests(
            self.authenticate,
            self.tenants.__contains__,
            suspended=self.suspended.__contains__,
            aside=lambda tenant: "a reason" if tenant in self.aside else "",
        )
        self.asked = []

    async def authenticate(self, certificate, authorization, tenant):
        self.asked.append(authorization)
        if self.broken:
            self.broken -= 1
            raise StoreUnavailable("not now")
        caller = {"alice": ALICE, "bot": BOT, "root": OPERATOR}[authorization]
        if caller.user.name in self.refused:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return caller

    def open(self, caller, name, tenant=None, *, reads=True):
        return self.requests.register(
            caller, tenant, None, name, lambda: self.aborted.append(name), reads=reads
        )

    def change(self, key, value=None):
        self.requests.changed([Change(2, key, value, b"{}", 1)])

    async def until(self, done):
        async with asyncio.timeout(30):
            while not done():
                await asyncio.sleep(0.01)


@pytest.fixture
async def world():
    found = World()
    task = asyncio.create_task(found.requests.run())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "key",
    ["~vcsync/revoked/a/serial/12", "~vcsync/revoked/a/user/alice", "~vcsync/tenants/a"],
)
async def test_a_revoked_certificate_or_a_deleted_tenant_ends_its_requests(world, key):
    world.open(ALICE, "alice")
    world.open(OPERATOR, "root", "b")
    world.refused.add("alice")
    world.change(key)
    await world.until(lambda: world.aborted)
    assert (world.aborted, world.asked) == (["alice"], ["alice"])


async def test_a_tenant_that_is_set_aside_loses_its_watches_but_not_those_of_the_operator(world):
    world.open(ALICE, "alice")
    world.open(OPERATOR, "root", "a")
    world.aside.add("a")
    world.change("~vcsync/tenants/a", b"{}")
    await world.until(lambda: world.aborted and len(world.asked) == 2)
    assert world.aborted == ["alice"]


async def test_a_suspended_tenant_keeps_its_watches_and_loses_its_terminals(world):
    world.open(ALICE, "alice")
    world.open(BOT, "bot", reads=False)
    world.open(OPERATOR, "root", "a", reads=False)
    world.open(BOT, "bot", "b", reads=False)
    world.suspended.add("a")
    world.change("~vcsync/tenants/a", b"{}")
    await world.until(lambda: len(world.asked) == 4)
    assert world.aborted == ["bot"]


@pytest.mark.parametrize("key", ["a/core/serviceaccounts/ns/bot", "a/core/pods/ns/p", "a/core/nodes/n"])
async def test_requests_end_when_an_object_that_their_token_is_bound_to_changes(world, key):
    assert key in bound_object_keys(BOT)
    world.open(BOT, "bot")
    world.refused.add(BOT.user.name)
    world.change(key)
    await world.until(lambda: world.aborted == ["bot"])


async def test_a_request_continues_while_its_credentials_are_valid(world):
    world.open(BOT, "bot")
    world.change("a/core/pods/ns/p", b"{}")
    await world.until(lambda: world.asked)
    assert world.aborted == []


async def test_changes_that_concern_other_requests_cost_nothing(world):
    world.open(BOT, "bot")
    for key in ("a/core/pods/ns/other", "~vcsync/revoked/b/serial/1", "~vcsync/tenants/b"):
        world.change(key)
    world.open(ALICE, "alice")
    world.change("~vcsync/tenants/a")
    await world.until(lambda: "alice" in world.asked)
    assert sorted(world.asked) == ["alice", "bot"]


async def test_the_operators_watch_of_a_tenant_ends_with_the_tenant(world):
    world.open(OPERATOR, "root", "b")
    world.open(OPERATOR, "root", "all")
    world.tenants.remove("b")
    world.change("~vcsync/tenants/b")
    await world.until(lambda: world.aborted == ["root"])


async def test_an_ended_request_is_forgotten(world):
    world.open(BOT, "bot").end()
    assert not world.requests._by_key


async def test_requests_are_checked_again_after_the_store_failed(world):
    world.open(ALICE, "alice")
    world.refused.add("alice")
    world.broken = 1
    world.change("~vcsync/tenants/a")
    await world.until(lambda: world.aborted == ["alice"])


async def test_every_request_is_checked_when_changes_were_missed(world):
    world.open(ALICE, "alice")
    world.open(BOT, "bot")
    world.refused.add("alice")
    world.requests.missed()
    await world.until(lambda: len(world.asked) == 2)
    await world.until(lambda: world.aborted == ["alice"])


async def test_a_request_is_authenticated_again_with_all_of_its_credentials():
    attempts = []

    async def authenticate(*credentials):
        attempts.append(credentials)
        return ALICE

    requests = LongRunningRequests(authenticate, lambda _: True)
    request = requests.register(ALICE, "b", b"certificate", "Bearer token", lambda: None)
    assert await requests._is_valid(request)
    assert attempts == [(b"certificate", "Bearer token", "b")]


GRANT = Granted("g", "digest", (("ClusterRole", "view"),), ("shop",))
TWO = Granted("h", "digest", (("ClusterRole", "edit"),), ("shop",))


class Guests:
    """The grants that admit alice to tenant b, and a clock."""

    def __init__(self, world, *grants):
        self.grants, self.now, self.asked = grants, 1000.0, 0
        world.requests = LongRunningRequests(
            world.authenticate, world.tenants.__contains__, self.guest, lambda: self.now
        )

    async def guest(self, caller, tenant):
        self.asked += 1
        return guest(caller, tenant, self.grants) if self.grants else caller


@pytest.fixture
async def guests():
    world = World()
    found = Guests(world, GRANT, TWO)
    task = asyncio.create_task(world.requests.run())
    yield world, found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def open_guest(world, *grants):
    return world.requests.register(
        ALICE, "b", None, "alice", lambda: world.aborted.append("alice"), grants=grants
    )


KEYS = (
    "b/custom:tenancy.x-k8s.io/tenantgrants/g",
    "a/custom:tenancy.x-k8s.io/tenantgrantoffers/b.g",
    "~vcsync/tenants/a",
    "~vcsync/tenants/b",
    "~vcsync/revoked/a/user/alice",
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("left", [(), (TWO,), (dataclasses.replace(GRANT, digest="other"), TWO)])
async def test_the_request_of_a_guest_ends_with_any_of_its_grants(guests, key, left):
    world, found = guests
    open_guest(world, GRANT)
    found.grants = left
    world.change(key)
    await world.until(lambda: world.aborted)


@pytest.mark.parametrize("key", KEYS)
async def test_the_request_of_a_guest_continues_while_its_grants_hold(guests, key):
    world, found = guests
    open_guest(world, GRANT)
    found.grants = (GRANT,)
    world.change(key, b"{}")
    await world.until(lambda: found.asked)
    assert world.aborted == []


async def test_other_grants_do_not_concern_the_request_of_a_guest(guests):
    world, found = guests
    open_guest(world, GRANT)
    for key in (
        "b/custom:tenancy.x-k8s.io/tenantgrants/h",
        "a/custom:tenancy.x-k8s.io/tenantgrantoffers/b.h",
    ):
        world.change(key)
    open_guest(world, TWO)
    world.change("b/custom:tenancy.x-k8s.io/tenantgrants/h")
    await world.until(lambda: found.asked)
    assert found.asked == 1


async def test_the_request_of_a_guest_ends_when_a_grant_expires(guests):
    world, found = guests
    ending = dataclasses.replace(GRANT, expires=1000.3)
    found.grants = (ending,)
    open_guest(world, ending)
    await world.until(lambda: found.asked)
    assert world.aborted == []
    found.grants = ()
    await world.until(lambda: world.aborted == ["alice"])


async def test_the_timer_of_an_ended_request_is_cancelled(guests):
    world, _ = guests
    request = open_guest(world, dataclasses.replace(GRANT, expires=5000.0))
    request.end()
    assert request.timer.cancelled()
    assert not world.requests._by_key


async def test_a_guest_is_never_taken_for_a_caller_without_grants(world):
    open_guest(world, GRANT)
    world.change("~vcsync/tenants/b")
    await world.until(lambda: world.aborted == ["alice"])
