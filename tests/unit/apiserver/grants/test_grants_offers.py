"""The controller that shows grants to their home tenants, and the answers in their statuses."""

import asyncio

import msgspec
import pytest

from vcsync.api import served
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.assembly import grant_offers
from vcsync.apiserver.assembly.grant_offers import GrantOffers
from vcsync.apiserver.grants.grant import grant_key, offer_key
from vcsync.apiserver.grants.index import GrantIndex, Pair
from vcsync.apiserver.storage.interface import Batch, Change, Delete, Put
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants.records import TenantRecord, encode, record_key
from vcsync.apiserver.tenants.registry import TenantRegistry

NOW = 1_800_000_000.0
PAIR = Pair("acme", "umbrella", "support")
GRANT, OFFER = grant_key("umbrella", "support"), offer_key("acme", "umbrella.support")
SPEC = {
    "tenant": "acme",
    "subjects": [{"kind": "User", "name": "alice"}],
    "roles": [{"kind": "ClusterRole", "name": "view"}],
    "namespaces": ["shop"],
}


class Registry(TenantRegistry):
    """Tenants without keys. `away`: tenants that do not exist."""

    def __init__(self, store):
        super().__init__(store)
        self.away = set()

    def uid(self, tenant):
        return "" if tenant in self.away else f"uid-of-{tenant}"

    def authorizes(self, tenant):
        return tenant not in self.away

    def spaces(self):
        return ["acme", "umbrella"]


class World:
    def __init__(self, store):
        self.store, self.tenants, self.now = store, Registry(store), NOW
        self.index = GrantIndex(store, self.tenants, lambda: self.now)
        self.offers = GrantOffers(store, self.index, Catalogue(shared=served.established(served.GRANTS)))

    async def write(self, key, body):
        operation = Delete(key) if body is None else Put(key, msgspec.json.encode(body))
        before = await self.store.get(key)
        outcome = await self.store.txn([], [operation])
        previous = before[0].value if before[0] else None
        change = Change(outcome.revision, key, getattr(operation, "value", None), previous, 0)
        self.index.changed(Batch([change], outcome.revision))
        self.offers.changed([change])

    async def grant(self, name="support", generation=1, **spec):
        metadata = {"name": name, "uid": "u", "generation": generation}
        await self.write(grant_key("umbrella", name), {"metadata": metadata, "spec": {**SPEC, **spec}})

    async def answer(self, **spec):
        found = await self.read(OFFER)
        await self.write(OFFER, {**found, "spec": {"accept": "", "reject": False, **spec}})

    async def read(self, key):
        record, _ = await self.store.get(key)
        return None if record is None else msgspec.json.decode(record.value)

    async def condition(self, key):
        return (await self.read(key))["status"]["conditions"][0]


@pytest.fixture
async def world(tmp_path):
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    for tenant in ("acme", "umbrella"):
        record = TenantRecord(tenant, f"uid-of-{tenant}", "2026-01-01T00:00:00Z", "Ready")
        await store.txn((), (Put(record_key(tenant), encode(record)),))
    found = World(store)
    await found.index.load()
    yield found
    await store.close()


async def test_a_grant_is_offered_to_its_home_tenant(world):
    await world.grant(expires="2027-02-01T00:00:00Z")
    await world.offers.reconcile(PAIR)
    offer = await world.read(OFFER)
    condition = offer["status"].pop("conditions")[0]
    assert offer["spec"] == {"accept": "", "reject": False}
    assert offer["status"] == {
        "tenant": "umbrella",
        "grant": "support",
        "digest": world.index.digest(world.index._grants["umbrella"]["support"]),
        **{key: SPEC[key] for key in ("subjects", "roles", "namespaces")},
        "expires": "2027-02-01T00:00:00Z",
    }
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == (
        "False",
        "Pending",
        1,
    )
    assert await world.condition(GRANT) == condition


async def test_a_settled_pair_is_not_written_again(world):
    await world.grant()
    await world.offers.reconcile(PAIR)
    before = await world.store.revision()
    await world.offers.reconcile(PAIR)
    assert await world.store.revision() == before


async def test_both_tenants_see_the_answer(world):
    await world.grant()
    await world.offers.reconcile(PAIR)
    for answer, status, reason in (
        ({"accept": (await world.read(OFFER))["status"]["digest"]}, "True", "Accepted"),
        ({"reject": True}, "False", "Rejected"),
        ({}, "False", "Pending"),
    ):
        await world.answer(**answer)
        await world.offers.reconcile(PAIR)
        for key in (GRANT, OFFER):
            found = await world.condition(key)
            assert (found["status"], found["reason"]) == (status, reason)


async def test_a_changed_grant_shows_in_its_offer(world):
    await world.grant()
    await world.offers.reconcile(PAIR)
    digest = (await world.read(OFFER))["status"]["digest"]
    await world.grant(generation=2, namespaces=[], clusterWide=True)
    await world.offers.reconcile(PAIR)
    status = (await world.read(OFFER))["status"]
    assert status["digest"] != digest
    assert "namespaces" not in status
    assert status["clusterWide"] is True
    assert (await world.condition(GRANT))["observedGeneration"] == 2


async def test_a_missing_home_tenant_looks_like_one_that_does_not_answer(world):
    await world.grant()
    world.tenants.away.add("acme")
    await world.offers.reconcile(PAIR)
    assert await world.read(OFFER) is None
    missing = (await world.read(GRANT))["status"]
    world.tenants.away.clear()
    await world.offers.reconcile(PAIR)
    assert await world.read(OFFER)
    assert (await world.read(GRANT))["status"] == missing


async def test_nothing_is_written_into_a_tenant_that_is_being_deleted(world):
    await world.grant()
    await world.store.txn((), (Delete(record_key("acme")),))
    await world.offers._step(PAIR)
    assert await world.read(OFFER) is None


@pytest.mark.parametrize("end", ["deleted", "other home", "invalid"])
async def test_the_offer_of_a_grant_that_is_gone_is_deleted(world, end):
    await world.grant()
    await world.offers.reconcile(PAIR)
    if end == "deleted":
        await world.write(GRANT, None)
    elif end == "other home":
        await world.grant(tenant="other")
    else:
        await world.grant(namespaces=[])
    await world.offers.reconcile(PAIR)
    assert await world.read(OFFER) is None


async def test_a_deleted_offer_is_made_again_without_an_answer(world):
    await world.grant()
    await world.offers.reconcile(PAIR)
    await world.answer(accept=(await world.read(OFFER))["status"]["digest"])
    await world.write(OFFER, None)
    await world.offers.reconcile(PAIR)
    assert (await world.read(OFFER))["spec"] == {"accept": "", "reject": False}
    assert (await world.condition(GRANT))["reason"] == "Pending"


async def test_a_tenant_is_shown_a_limited_number_of_offers(world, monkeypatch):
    monkeypatch.setattr(grant_offers, "MAX_OFFERS_OF_TENANT", 2)
    for name in ("a", "b", "c"):
        await world.grant(name)
        await world.offers.reconcile(Pair("acme", "umbrella", name))
    assert await world.read(offer_key("acme", "umbrella.b"))
    assert await world.read(offer_key("acme", "umbrella.c")) is None
    monkeypatch.setattr(grant_offers, "MAX_OFFERS_OF_TENANT", 9)
    monkeypatch.setattr(grant_offers, "MAX_OFFERS", 2)
    await world.offers.reconcile(Pair("acme", "umbrella", "c"))
    assert await world.read(offer_key("acme", "umbrella.c")) is None


async def test_malformed_conditions_are_replaced(world):
    await world.grant()
    await world.offers.reconcile(PAIR)
    found = await world.read(OFFER)
    await world.write(OFFER, {**found, "status": {"conditions": [{"type": "Accepted"}], "digest": "0"}})
    await world.offers.reconcile(PAIR)
    assert (await world.condition(OFFER))["reason"] == "Pending"


async def test_a_running_controller_follows_changes_and_the_clock(world):
    task = asyncio.create_task(world.offers.run())
    try:
        await world.grant(expires="2027-01-15T08:00:01Z")
        async with asyncio.timeout(30):
            while await world.read(OFFER) is None or not (await world.read(GRANT)).get("status"):
                await asyncio.sleep(0.01)
            world.now += 2
            while (await world.condition(GRANT))["reason"] != "Expired":
                world.offers._wake.set()
                await asyncio.sleep(0.01)
            await world.write(GRANT, None)
            while await world.read(OFFER) is not None:
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
