"""Callers of other tenants that grants admit, and the index that follows the store."""

import asyncio

import msgspec
import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.grants import index as indexed
from vcsync.apiserver.grants.grant import grant_key, offer_key
from vcsync.apiserver.grants.index import GrantIndex, Pair, concerned
from vcsync.apiserver.request.caller import ANONYMOUS, UNAUTHENTICATED, Caller
from vcsync.apiserver.storage.interface import Batch, Change, Delete, Put, StoreUnavailable
from vcsync.apiserver.storage.sqlite import open_sqlite

NOW = 1_800_000_000.0
ALICE = Caller(User("alice", "7", ("devs", "system:authenticated"), {"k": ("v",)}), "acme")
GRANT, OFFER = grant_key("umbrella", "support"), offer_key("acme", "umbrella.support")
SPEC = {
    "tenant": "acme",
    "subjects": [{"kind": "User", "name": "alice"}],
    "roles": [{"kind": "ClusterRole", "name": "view"}],
    "namespaces": ["shop"],
}


class Tenants:
    """Tenants with their UIDs; `external`: those without an embedded control plane."""

    def __init__(self):
        self.uids, self.external = {"acme": "1", "umbrella": "2", "other": "3"}, set()

    def uid(self, tenant):
        return self.uids.get(tenant, "")

    def authorizes(self, tenant):
        return tenant in self.uids and tenant not in self.external

    def spaces(self):
        return sorted([*self.uids, "system"])


class World:
    def __init__(self, store):
        self.store, self.tenants, self.now = store, Tenants(), NOW
        self.index = self.new()

    def new(self, accepts=()):
        return GrantIndex(self.store, self.tenants, lambda: self.now, accepts)

    async def write(self, key, body):
        operation = Delete(key) if body is None else Put(key, msgspec.json.encode(body))
        outcome = await self.store.txn([], [operation])
        change = Change(outcome.revision, key, getattr(operation, "value", None), None, 0)
        self.index.changed(Batch([change], outcome.revision))
        return change

    async def grant(self, key=GRANT, uid="u", **spec):
        name = key.rpartition("/")[2]
        return await self.write(key, {"metadata": {"name": name, "uid": uid}, "spec": {**SPEC, **spec}})

    async def answer(self, accept="", reject=False, key=OFFER):
        return await self.write(
            key, {"metadata": {"name": "x"}, "spec": {"accept": accept, "reject": reject}}
        )

    def digest(self, tenant="umbrella", name="support"):
        return self.index.digest(self.index._grants[tenant][name])

    async def admitted(self, caller=ALICE, tenant="umbrella", index=None):
        found = await (index or self.index).guest(caller, tenant)
        return found if found.home else None

    def reason(self):
        return self.index.verdict(self.index._grants["umbrella"]["support"]).reason


@pytest.fixture
async def world(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    found = World(store)
    await found.index.load()
    yield found
    await store.close()


async def accepted(world, **spec):
    await world.grant(**spec)
    await world.answer(world.digest())


async def test_an_accepted_grant_makes_a_guest_without_anything_of_its_home(world):
    await accepted(world)
    guest = await world.admitted()
    assert guest.user == User(
        "tenant:acme:alice",
        extra={"tenancy.x-k8s.io/home-tenant": ("acme",), "tenancy.x-k8s.io/grants": ("support",)},
    )
    assert (guest.tenant, guest.home, guest.system, guest.impersonated) == ("umbrella", "acme", False, False)
    assert [each.name for each in guest.grants] == ["support"]


async def test_a_grant_admits_nobody_before_it_is_accepted(world):
    await world.grant()
    assert (await world.admitted(), world.reason()) == (None, "Pending")
    await world.answer("0" * 32)
    assert (await world.admitted(), world.reason()) == (None, "Pending")
    await world.answer(world.digest())
    assert await world.admitted()
    assert world.reason() == "Accepted"


async def test_the_offer_of_another_tenant_or_grant_accepts_nothing(world):
    await world.grant()
    await world.answer(world.digest(), key=offer_key("other", "umbrella.support"))
    await world.answer(world.digest(), key=offer_key("acme", "umbrella.other"))
    await world.answer(world.digest(), key=offer_key("acme", "other.support"))
    assert not await world.admitted()


@pytest.mark.parametrize(
    ("caller", "tenant"),
    [
        (Caller(User("bob"), "acme"), "umbrella"),
        (Caller(User("alice"), "other"), "umbrella"),
        (ALICE, "other"),
        (ALICE, "nobody"),
        (Caller(User("alice"), ""), "umbrella"),
        (Caller(User("alice"), "acme", system=True), "umbrella"),
        (Caller(User(ANONYMOUS, groups=(UNAUTHENTICATED,)), "acme"), "umbrella"),
        (Caller(User("alice", groups=(UNAUTHENTICATED,)), "acme"), "umbrella"),
    ],
)
async def test_others_are_not_admitted(world, caller, tenant):
    await accepted(world)
    assert await world.index.guest(caller, tenant) is caller


async def test_any_change_of_a_grant_needs_a_new_acceptance(world):
    await accepted(world)
    await world.grant(namespaces=["shop", "web"])
    assert (await world.admitted(), world.reason()) == (None, "Pending")
    await world.grant(namespaces=["shop"])
    assert await world.admitted()
    await world.grant(uid="new")
    assert not await world.admitted()


@pytest.mark.parametrize("tenant", ["acme", "umbrella"])
async def test_a_recreated_tenant_inherits_nothing(world, tenant):
    await accepted(world)
    world.tenants.uids[tenant] = "9"
    assert not await world.admitted()


@pytest.mark.parametrize("tenant", ["acme", "umbrella"])
async def test_neither_missing_nor_external_tenants_take_part(world, tenant):
    await accepted(world)
    world.tenants.external.add(tenant)
    assert (await world.admitted(), world.reason()) == (None, "Pending")
    world.tenants.external.clear()
    del world.tenants.uids[tenant]
    assert (await world.admitted(), world.reason()) == (None, "Pending")


async def test_a_grant_ends_when_it_expires_is_deleted_or_rejected(world):
    await accepted(world, expires="2027-01-15T08:00:01Z")
    assert world.index.next_end(NOW) == NOW + 1
    assert world.index.ended(NOW, NOW + 1) == [Pair("acme", "umbrella", "support")]
    assert world.index.ended(NOW + 1, NOW + 9) == world.index.ended(NOW - 9, NOW) == []
    assert await world.admitted()
    world.now += 1
    assert (await world.admitted(), world.reason(), world.index.next_end(NOW + 1)) == (None, "Expired", None)
    world.now -= 1
    await world.answer(world.digest(), reject=True)
    assert (await world.admitted(), world.reason()) == (None, "Rejected")
    await world.answer(world.digest())
    assert await world.admitted()
    await world.write(OFFER, None)
    assert not await world.admitted()
    await world.answer(world.digest())
    await world.write(GRANT, None)
    assert not await world.admitted()


async def test_the_operator_accepts_for_named_tenants_unless_the_home_rejects(world):
    await world.grant()
    index = world.new({("umbrella", "acme")})
    await index.load()
    assert (await world.admitted(index=index)).grants
    assert index.verdict(index._grants["umbrella"]["support"]) == (True, "OperatorPolicy")
    await world.answer(reject=True)
    await index.load()
    assert not await world.admitted(index=index)
    other = world.new({("acme", "umbrella"), ("umbrella", "other")})
    await other.load()
    assert not await world.admitted(index=other)


async def test_a_guest_has_all_grants_that_admit_it_in_the_order_of_their_names(world):
    for name in ("b", "a", "c"):
        await world.grant(grant_key("umbrella", name))
    for name in ("b", "a"):
        await world.answer(world.digest(name=name), key=offer_key("acme", f"umbrella.{name}"))
    guest = await world.admitted()
    assert [each.name for each in guest.grants] == ["a", "b"]


async def test_a_loaded_index_equals_one_that_followed_the_changes(world):
    await accepted(world)
    index = world.new()
    await index.load()
    assert (index._grants, index._offers) == (world.index._grants, world.index._offers)


async def test_changes_that_arrive_while_the_grants_are_read_are_applied_after_it(world):
    await accepted(world)
    index, deleted = world.new(), None
    original = world.store.range

    async def slow(prefix, **options):
        nonlocal deleted
        page = await original(prefix, **options)
        if prefix.startswith("umbrella/") and deleted is None:
            deleted = await world.write(GRANT, None)
            index.changed([deleted])
        return page

    world.store.range = slow
    try:
        await index.load()
    finally:
        del world.store.range
    assert deleted is not None
    assert index._grants == {}


async def test_old_changes_do_not_undo_newer_ones(world):
    old = await world.grant()
    await world.grant(namespaces=["web"])
    index = world.new()
    await index.load()
    index.changed([old])
    assert index._grants["umbrella"]["support"].spec.namespaces == ("web",)
    await world.write(GRANT, None)
    world.index.changed([old])


async def test_requests_wait_until_the_grants_have_been_read(world, monkeypatch):
    await accepted(world)
    index = world.new()
    waiting = asyncio.create_task(index.guest(ALICE, "umbrella"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await index.load()
    assert (await waiting).home == "acme"
    monkeypatch.setattr(indexed, "READY_SECONDS", 0.01)
    with pytest.raises(StoreUnavailable):
        await world.new().guest(ALICE, "umbrella")


async def test_objects_that_cannot_be_read_grant_and_accept_nothing(world):
    await accepted(world)
    await world.write(GRANT, {"metadata": {"name": "support"}, "spec": {"tenant": "acme"}})
    await world.write(OFFER, {"metadata": {"name": "x"}, "spec": {"accept": 7}})
    assert not await world.admitted()
    assert (world.index._grants, world.index._offers) == ({}, {})


async def test_grants_in_the_system_space_are_none(world):
    await world.grant("system/custom:tenancy.x-k8s.io/tenantgrants/x")
    assert world.index._grants == {}


async def test_pairs_are_those_of_grants_and_of_offers(world):
    await world.grant()
    await world.answer(key=offer_key("acme", "gone.x"))
    await world.answer(key=offer_key("acme", "nodot"))
    assert world.index.pairs() == [Pair("acme", "gone", "x"), Pair("acme", "umbrella", "support")]
    assert world.index.pairs("umbrella") == [Pair("acme", "umbrella", "support")]
    assert world.index.pairs("other") == []


def encoded(**spec):
    return msgspec.json.encode({"metadata": {"name": "support"}, "spec": {**SPEC, **spec}})


def answered(**spec):
    return msgspec.json.encode({"metadata": {"name": "x"}, "spec": spec, "status": {}})


@pytest.mark.parametrize(
    ("key", "value", "previous", "pairs"),
    [
        (GRANT, encoded(), None, [Pair("acme", "umbrella", "support")]),
        (GRANT, None, encoded(), [Pair("acme", "umbrella", "support")]),
        (
            GRANT,
            encoded(tenant="other"),
            encoded(),
            [Pair("other", "umbrella", "support"), Pair("acme", "umbrella", "support")],
        ),
        (GRANT, encoded(), encoded(), []),
        (GRANT, b"{}", encoded(), [Pair("acme", "umbrella", "support")]),
        (OFFER, None, b"{}", [Pair("acme", "umbrella", "support")]),
        (OFFER, answered(), None, [Pair("acme", "umbrella", "support")]),
        (OFFER, answered(reject=True), answered(), [Pair("acme", "umbrella", "support")]),
        (OFFER, answered(), answered(), []),
        ("acme/core/pods/a/b", b"{}", None, []),
        (offer_key("acme", "nodot"), b"{}", None, []),
    ],
)
def test_a_change_concerns_the_pairs_of_its_grant(key, value, previous, pairs):
    assert concerned(Change(1, key, value, previous, 0)) == pairs
