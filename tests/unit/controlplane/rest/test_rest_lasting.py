"""Whatever lasts ends when its caller counts no more, and only then."""

import asyncio

import pytest

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.rest.lasting import Lasting, hanging_on
from vcsync.controlplane.store.interface import Change, StoreUnavailable

ALICE = Caller(User("alice"), "a")
POD = {"authentication.kubernetes.io/pod-name": ("p",), "authentication.kubernetes.io/node-name": ("n",)}
BOT = Caller(User("system:serviceaccount:ns:bot", extra=POD), "a")
OPERATOR = Caller(User("root"), "system", system=True)


class World:
    """Who counts, and what was cut."""

    def __init__(self):
        self.refused, self.tenants, self.cut = set(), {"a", "b"}, []
        self.broken = 0
        self.lasting = Lasting(self.authenticate, self.tenants.__contains__)
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

    def open(self, caller, name, tenant=None):
        return self.lasting.begin(caller, tenant, None, name, lambda: self.cut.append(name))

    def change(self, key, value=None):
        self.lasting.changed([Change(2, key, value, b"{}", 1)])

    async def until(self, done):
        async with asyncio.timeout(30):
            while not done():
                await asyncio.sleep(0.01)


@pytest.fixture
async def world():
    found = World()
    task = asyncio.create_task(found.lasting.run())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "key",
    ["~vcsync/revoked/a/serial/12", "~vcsync/revoked/a/user/alice", "~vcsync/tenants/a"],
)
async def test_a_revoked_certificate_or_a_deleted_tenant_ends_what_its_user_has_open(world, key):
    world.open(ALICE, "alice")
    world.open(OPERATOR, "root", "b")
    world.refused.add("alice")
    world.change(key)
    await world.until(lambda: world.cut)
    assert (world.cut, world.asked) == (["alice"], ["alice"])


@pytest.mark.parametrize("key", ["a/core/serviceaccounts/ns/bot", "a/core/pods/ns/p", "a/core/nodes/n"])
async def test_a_token_ends_with_what_it_hangs_on(world, key):
    assert key in hanging_on(BOT)
    world.open(BOT, "bot")
    world.refused.add(BOT.user.name)
    world.change(key)
    await world.until(lambda: world.cut == ["bot"])


async def test_who_still_counts_goes_on(world):
    world.open(BOT, "bot")
    world.change("a/core/pods/ns/p", b"{}")
    await world.until(lambda: world.asked)
    assert world.cut == []


async def test_what_is_about_others_is_not_looked_at(world):
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
    await world.until(lambda: world.cut == ["root"])


async def test_what_is_over_is_kept_no_more(world):
    world.open(BOT, "bot").end()
    assert not world.lasting._by_key


async def test_a_store_that_does_not_answer_is_asked_again(world):
    world.open(ALICE, "alice")
    world.refused.add("alice")
    world.broken = 1
    world.change("~vcsync/tenants/a")
    await world.until(lambda: world.cut == ["alice"])


async def test_everything_is_looked_at_when_changes_were_missed(world):
    world.open(ALICE, "alice")
    world.open(BOT, "bot")
    world.refused.add("alice")
    world.lasting.missed()
    await world.until(lambda: len(world.asked) == 2)
    await world.until(lambda: world.cut == ["alice"])
