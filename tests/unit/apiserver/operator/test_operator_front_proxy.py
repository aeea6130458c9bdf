"""The authority of a tenant's front proxy: made once, told to aggregated API servers, renewed and forgotten with the tenant."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from cryptography import x509

from tests.unit.apiserver.identity.conftest import Clock
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.aggregator.client_certificates import ClientCertificates
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.operator.front_proxy import config_key
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.storage.interface import Delete, Outcome, Put
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite
from vcsync.apiserver.tenants import pki, records

ENDPOINT = Endpoint("https://cp.example:6443", "192.0.2.1", 6443)


@pytest.fixture
async def store(tmp_path: Any) -> Any:
    found = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield found
    await found.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def identity(store: SqliteStore, clock: Clock) -> Identity:
    found = await Identity.open(store, ENDPOINT, clock=clock)
    await found.lifecycle.create("acme")
    return found


async def record(store: SqliteStore, tenant: str = "acme") -> records.TenantRecord:
    found, _ = await store.get(records.record_key(tenant))
    assert found is not None
    return records.decode(found.value)


async def config(store: SqliteStore) -> dict[str, str]:
    found, _ = await store.get(config_key("acme"))
    assert found is not None
    data: dict[str, str] = msgspec.json.decode(found.value)["data"]
    return data


async def test_the_config_map_says_what_kube_apiserver_says(identity: Identity, store: SqliteStore) -> None:
    assert set(await config(store)) == {"client-ca-file"}
    authority = await identity.front_proxies.ensure("acme")
    made = await record(store)
    assert made.front_proxy == authority is not None
    assert made.authority is not None
    assert await config(store) == {
        "client-ca-file": made.authority.certificate,
        "requestheader-client-ca-file": authority.certificate,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }


async def test_it_is_made_once_and_then_nothing_is_written(identity: Identity, store: SqliteStore) -> None:
    first = await identity.front_proxies.ensure("acme")
    revision = await store.revision()
    assert await identity.front_proxies.ensure("acme") == first
    assert await store.revision() == revision


async def test_two_processes_end_with_one_authority(identity: Identity, store: SqliteStore) -> None:
    other = await Identity.open(store, ENDPOINT, clock=Clock())
    found = await asyncio.gather(*(each.front_proxies.ensure("acme") for each in (identity, other, identity)))
    assert found == [(await record(store)).front_proxy] * 3


async def test_the_authority_is_not_that_of_the_users(identity: Identity, store: SqliteStore) -> None:
    authority = await identity.front_proxies.ensure("acme")
    assert authority is not None
    assert identity.tenants.by_authority(authority.id) is None
    made = await record(store)
    assert made.authority is not None
    assert made.authority.key != authority.key


@pytest.mark.parametrize("broken", [None, {}, {"client-ca-file": "mine", "more": "kept"}])
async def test_a_broken_config_map_is_repaired(identity: Identity, store: SqliteStore, broken: Any) -> None:
    await identity.front_proxies.ensure("acme")
    wanted = await config(store)
    key = config_key("acme")
    write: Put | Delete = Delete(key)
    if broken is not None:
        write = Put(key, json.dumps({"metadata": {"name": "x"}, "data": broken or None}).encode())
    await store.txn([], [write])
    await identity.front_proxies.ensure("acme")
    assert await config(store) == {**({"more": "kept"} if broken else {}), **wanted}


async def test_rotation_renews_it_only_if_there_is_one(identity: Identity, store: SqliteStore) -> None:
    assert (await identity.lifecycle.rotate("acme")).front_proxy is None
    before = await identity.front_proxies.ensure("acme")
    after = (await identity.lifecycle.rotate("acme")).front_proxy
    assert after is not None
    assert after != before
    assert (await config(store))["requestheader-client-ca-file"] == after.certificate


async def test_other_changes_keep_it_and_deletion_drops_it(identity: Identity, store: SqliteStore) -> None:
    authority = await identity.front_proxies.ensure("acme")
    await identity.lifecycle.suspend("acme", suspended=True)
    assert (await record(store)).front_proxy == authority
    await identity.deletion.delete("acme", grace=60)
    assert (await record(store)).front_proxy is None
    assert await identity.front_proxies.ensure("acme") is None
    await identity.deletion.delete("acme")
    assert await identity.front_proxies.ensure("acme") is None


async def test_it_gives_up_when_other_writes_always_come_first(
    identity: Identity, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> Outcome:
        return Outcome(1, (("key", None),))

    monkeypatch.setattr(store, "txn", refused)
    with pytest.raises(StatusError) as caught:
        await identity.front_proxies.ensure("acme")
    assert caught.value.code == 409


def test_old_records_stay_readable_and_new_ones_small() -> None:
    old = b'{"name":"acme","uid":"u","created":"2026-01-01T00:00:00Z"}'
    assert records.decode(old).front_proxy is None
    assert b"front" not in records.encode(records.decode(old))


def test_no_key_is_shown() -> None:
    authority = pki.new_authority("a", 1_800_000_000)
    signer = pki.new_signer("https://issuer")
    shown = repr(
        records.TenantRecord("acme", "u", "t", authority=authority, signer=signer, front_proxy=authority)
    )
    assert "PRIVATE KEY" not in shown


async def test_the_client_certificate_is_from_that_authority(identity: Identity, clock: Clock) -> None:
    certificates = ClientCertificates(identity.tenants, clock)
    with pytest.raises(CallFailed):
        await certificates.identity("acme", insecure=False)
    with pytest.raises(CallFailed):
        await certificates.identity("nobody", insecure=False)
    authority = await identity.front_proxies.ensure("acme")
    found = await certificates.identity("acme", insecure=True)
    certificate = x509.load_pem_x509_certificate(found.pem)
    assert authority is not None
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
    assert certificate.subject.rfc4514_string() == "CN=front-proxy-client"
    assert found.insecure
    assert "PRIVATE KEY" not in repr(found)
    assert (await certificates.identity("acme", insecure=False)).id == found.id


async def test_the_client_certificate_is_renewed_in_time_and_with_its_authority(
    identity: Identity, clock: Clock
) -> None:
    certificates = ClientCertificates(identity.tenants, clock)
    await identity.front_proxies.ensure("acme")
    first = await certificates.identity("acme", insecure=False)
    clock.now += pki.CLIENT_LIFE.total_seconds() * 0.6
    second = await certificates.identity("acme", insecure=False)
    assert first.pem != second.pem
    await identity.lifecycle.rotate("acme")
    third = await certificates.identity("acme", insecure=False)
    assert third.pem != second.pem
