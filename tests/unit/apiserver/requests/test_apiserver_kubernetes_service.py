"""The controller of the Service `kubernetes`, its Endpoints and its EndpointSlice."""

import asyncio

import msgspec
import pytest

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.assembly import kubernetes_service
from vcsync.apiserver.assembly.api_servers import ApiServers
from vcsync.apiserver.assembly.kubernetes_service import KubernetesService
from vcsync.apiserver.operator.defaults import default_puts
from vcsync.apiserver.storage.interface import Change, Delete, Put
from vcsync.apiserver.tenants.records import TenantRecord, encode, record_key

NOW = "2026-01-01T00:00:00Z"
OWN = ("192.0.2.1", 6443)
SERVICE, ENDPOINTS, SLICE, ADDRESS = KEYS = tuple(
    object_key("a", group, plural, namespace, name)
    for group, plural, namespace, name in (
        ("", "services", "default", "kubernetes"),
        ("", "endpoints", "default", "kubernetes"),
        ("discovery.k8s.io", "endpointslices", "default", "kubernetes"),
        ("networking.k8s.io", "ipaddresses", "", "10.0.0.1"),
    )
)


async def own(store, phase="Ready"):
    await store.txn((), (Put(record_key("a"), encode(TenantRecord("a", "uid", NOW, phase))),))


@pytest.fixture
async def tenant(store):
    """A store with a new tenant."""
    await own(store)
    for put in default_puts("a", now=NOW, address=OWN[0], port=OWN[1], authority="x"):
        await store.txn((), (put,))
    return store


def keeper(store, server=OWN):
    return KubernetesService(store, server, lambda: ["a"], lambda: NOW)


async def read(store, key):
    record, _ = await store.get(key)
    return None if record is None else msgspec.json.decode(record.value)


async def changed(store, key, **parts):
    found = await read(store, key)
    found["metadata"].update(parts.pop("metadata", {}))
    await store.txn((), (Put(key, msgspec.json.encode({**found, **parts})),))


async def test_the_objects_of_a_new_tenant_are_not_written(tenant):
    before = await tenant.revision()
    assert not await keeper(tenant).reconcile("a")
    assert await tenant.revision() == before


@pytest.mark.parametrize("gone", [(SERVICE, ADDRESS), (ENDPOINTS,), (SLICE,), KEYS])
async def test_deleted_objects_are_restored(tenant, gone):
    before = [await read(tenant, key) for key in KEYS]
    await tenant.txn((), [Delete(key) for key in gone])
    service = keeper(tenant)
    assert await service.reconcile("a")
    for key, was in zip(KEYS, before, strict=True):
        now = await read(tenant, key)
        assert {**now, "metadata": None} == {**was, "metadata": None}
        assert now["metadata"].get("labels") == was["metadata"].get("labels")
    assert not await service.reconcile("a")


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (ENDPOINTS, {"subsets": []}),
        (ENDPOINTS, {"subsets": [{"addresses": [{"ip": "192.0.2.66"}], "ports": [{"port": 6443}]}]}),
        (ENDPOINTS, {"metadata": {"labels": {}}}),
        (SLICE, {"endpoints": []}),
        (SLICE, {"metadata": {"labels": {"kubernetes.io/service-name": "other"}}}),
        (SLICE, {"addressType": "IPv6", "endpoints": [{"addresses": ["2001:db8::1"]}]}),
    ],
)
async def test_changed_objects_are_restored(tenant, key, parts):
    was = await read(tenant, key)
    await changed(tenant, key, **parts)
    service = keeper(tenant)
    assert await service.reconcile("a")
    now = await read(tenant, key)
    assert now["metadata"]["labels"] == was["metadata"]["labels"]
    assert {**now, "metadata": None} == {**was, "metadata": None}
    assert not await service.reconcile("a")


async def test_tenants_may_change_the_service(tenant):
    await changed(tenant, SERVICE, metadata={"labels": {"mine": "1"}})
    assert not await keeper(tenant).reconcile("a")


@pytest.mark.parametrize("phase", ["Creating", "Draining", "Deleting", None])
async def test_tenants_that_are_not_ready_are_skipped(store, phase):
    if phase:
        await own(store, phase)
    assert not await keeper(store).reconcile("a")
    assert await store.count("a/") == 0


async def test_endpoints_name_every_server(tenant):
    one, other = keeper(tenant), keeper(tenant, ("192.0.2.2", 7443))
    await ApiServers(tenant, OWN).renew()
    await ApiServers(tenant, ("192.0.2.2", 7443)).renew()
    assert await other.reconcile("a")
    before = await tenant.revision()
    assert not await one.reconcile("a")
    assert not await other.reconcile("a")
    assert await tenant.revision() == before
    subset = (await read(tenant, ENDPOINTS))["subsets"][0]
    assert [each["ip"] for each in subset["addresses"]] == ["192.0.2.1", "192.0.2.2"]
    assert subset["ports"] == [{"name": "https", "port": 6443, "protocol": "TCP"}]


async def test_concurrent_controllers_write_once(tenant):
    keys = (SERVICE, ADDRESS, ENDPOINTS, SLICE)
    await tenant.txn((), [Delete(key) for key in keys])
    before = await tenant.revision()
    await asyncio.gather(*(keeper(tenant).reconcile("a") for _ in range(3)))
    assert await tenant.revision() == before + 3
    assert None not in [await read(tenant, key) for key in keys]


async def test_a_taken_address_does_not_stop_the_other_objects(tenant):
    await tenant.txn((), [Delete(key) for key in (SERVICE, ENDPOINTS, SLICE)])
    service = keeper(tenant)
    assert await service._step("a")
    assert await read(tenant, SERVICE) is None
    assert None not in [await read(tenant, key) for key in (ENDPOINTS, SLICE)]
    await tenant.txn((), [Delete(ADDRESS)])
    assert await service._step("a")
    assert await read(tenant, SERVICE) is not None


async def test_changes_are_reconciled_and_then_backed_off(tenant, monkeypatch):
    monkeypatch.setattr(kubernetes_service, "SETTLE_SECONDS", 0)
    service = keeper(tenant)
    looked = asyncio.Queue()

    async def step(name):
        looked.put_nowait(name)
        return True

    monkeypatch.setattr(service, "_step", step)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(service.run())
        assert await looked.get() == "a"  # at the start
        service.changed([Change(9, "b/core/configmaps/default/other", None, b"{}", 1)])
        service.changed([Change(9, key.replace("a/", "b/", 1), None, b"{}", 1) for key in KEYS])
        assert await looked.get() == "b"
        service.changed([Change(9, SERVICE, None, b"{}", 1)])
        service.changed([Change(9, SERVICE.replace("a/", "c/", 1), None, b"{}", 1)])
        assert await looked.get() == "c"
        assert looked.empty()
        running.cancel()
