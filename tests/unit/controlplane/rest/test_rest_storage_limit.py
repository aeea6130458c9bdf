"""What a tenant may keep is bounded; deletions always go on."""

import msgspec
import pytest

from vcsync.controlplane.behaviour import Context, User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import storage_limit
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.space import builtin_kinds
from vcsync.controlplane.rest.storage_limit import StorageLimit
from vcsync.controlplane.store.interface import Change, Put
from vcsync.controlplane.store.sqlite import open_sqlite
from vcsync.controlplane.tenants.records import TenantRecord, encode, record_key

CONFIG_MAPS, CRDS = ("", "v1", "configmaps"), ("apiextensions.k8s.io", "v1", "customresourcedefinitions")


@pytest.fixture
async def store(tmp_path):
    store = await open_sqlite(tmp_path / "store.db")
    yield store
    await store.close()


def scope(kind=CONFIG_MAPS, tenant="a"):
    return Scope(tenant, builtin_kinds()[kind], Context(tenant, User("jane"), ""), "default", "name")


async def write(store, limit, key, size, *, before=None, kind=CONFIG_MAPS, tenant="a"):
    value = b"x" * size
    await limit.require(scope(kind, tenant), key, value, None if before is None else b"x" * before)
    await store.txn((), (Put(key, value),))


async def test_writes_go_on_until_the_bytes_are_used(store):
    limit = StorageLimit(store, max_bytes=1000)
    written = 0
    with pytest.raises(StatusError) as refused:  # noqa: PT012 - which write it is, is not the point
        for number in range(20):
            await write(store, limit, f"a/core/configmaps/default/{number:04}", 70)
            written += 1
    usage = await store.usage("a")
    assert (written, usage.bytes <= 1000, refused.value.code, refused.value.reason) == (
        10,
        True,
        403,
        "Forbidden",
    )
    assert refused.value.message == (
        'configmaps "name" is forbidden: the control plane\'s storage is full: 1000 of 1000 bytes are used; '
        "delete objects that are not needed, or ask the operator for more"
    )


async def test_writes_go_on_until_the_objects_are_there(store):
    limit = StorageLimit(store, max_objects=3)
    for number in range(3):
        await write(store, limit, f"a/core/configmaps/default/{number}", 10)
    with pytest.raises(StatusError, match="3 of 3 objects are used"):
        await write(store, limit, "a/core/configmaps/default/4", 10)
    await write(store, limit, "a/core/configmaps/default/1", 20, before=10)


async def test_what_makes_an_object_smaller_is_never_refused(store):
    limit = StorageLimit(store, max_bytes=100)
    key = "a/core/configmaps/default/1"
    await store.txn((), (Put(key, b"x" * 500),))
    await write(store, limit, key, 499, before=500)
    with pytest.raises(StatusError, match="storage is full"):
        await write(store, limit, key, 501, before=499)


async def test_one_tenant_does_not_use_up_what_others_have(store):
    limit = StorageLimit(store, max_objects=1)
    await write(store, limit, "a/core/configmaps/default/1", 10)
    await write(store, limit, "b/core/configmaps/default/1", 10, tenant="b")
    await write(store, limit, "system/core/configmaps/default/1", 10, tenant="system")
    await write(store, limit, "system/core/configmaps/default/2", 10, tenant="system")


async def test_there_may_be_no_limit(store):
    limit = StorageLimit(store, 0, 0)
    await write(store, limit, "a/core/configmaps/default/1", 10)


async def test_one_object_may_not_be_larger_than_etcd_takes(store):
    with pytest.raises(StatusError) as refused:
        await write(store, StorageLimit(store), "a/core/configmaps/default/1", 1536 * 1024)
    assert (refused.value.code, refused.value.message) == (500, "etcdserver: request is too large")


async def test_kinds_that_cost_more_than_storage_are_bounded_in_number(store, monkeypatch):
    monkeypatch.setattr(storage_limit, "HEEDED", {CRDS[::2]: (2, 1000)})
    limit = StorageLimit(store)
    prefix = "a/apiextensions.k8s.io/customresourcedefinitions/"
    await write(store, limit, f"{prefix}1", 100, kind=CRDS)
    await write(store, limit, f"{prefix}2", 100, kind=CRDS)
    with pytest.raises(StatusError, match="too many customresourcedefinitions: 2 of 2 objects are used"):
        await write(store, limit, f"{prefix}3", 100, kind=CRDS)
    with pytest.raises(StatusError, match="of 1000 bytes"):
        await write(store, limit, f"{prefix}2", 1000, before=100, kind=CRDS)


async def test_metrics_tell_each_tenant_of_itself_and_the_operator_of_everybody(store):
    limit = StorageLimit(store, 1000, 10)
    for tenant in ("a", "b"):
        await write(store, limit, f"{tenant}/core/configmaps/default/1", 73, tenant=tenant)
    own = await limit.text("a")
    assert b'apiserver_storage_size_bytes{storage_cluster_id="a"} 100' in own
    assert b'vcsync_storage_limit_bytes{tenant="a"} 1000' in own
    assert b'"b"' not in own
    assert b'vcsync_storage_objects{tenant="b"}' in await limit.text("system")


async def test_what_only_json_makes_large_is_taken_as_etcd_takes_it(store):
    value = b'{"metadata":{"name":"1"},"data":{"a":"%b"}}' % (rb"\u0001" * 500_000)
    await StorageLimit(store).require(scope(), "a/core/configmaps/default/1", value, None)
    with pytest.raises(StatusError):
        await StorageLimit(store).require(scope(), "a/core/configmaps/default/1", value * 4, None)


async def test_a_tenants_own_limits_hold_instead_as_soon_as_they_are_known(store):
    limit = StorageLimit(store, max_bytes=1000, max_objects=1)
    await write(store, limit, "a/core/configmaps/default/1", 100)
    with pytest.raises(StatusError, match="1 of 1 objects"):
        await write(store, limit, "a/core/configmaps/default/2", 100)
    record = TenantRecord("a", "uid", "2026-01-01T00:00:00Z", storage_bytes=300, storage_objects=0)
    for told in (record, msgspec.structs.replace(record, storage_bytes=200)):
        key = record_key("a")
        outcome = await store.txn((), (Put(key, encode(told)),))
        limit.changed([Change(outcome.revision, key, b"{}", None, 1)])
        if told is record:
            await write(store, limit, "a/core/configmaps/default/2", 50)
    with pytest.raises(StatusError, match="of 200 bytes"):
        await write(store, limit, "a/core/configmaps/default/3", 50)
    assert b'vcsync_storage_limit_bytes{tenant="a"} 200' in await limit.text("a")
    await write(store, limit, "b/core/configmaps/default/1", 500, tenant="b")
