"""The storage of a tenant is limited; deletions are always allowed."""

from dataclasses import replace

import msgspec
import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import Context, User
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.registry import storage_limit
from vcsync.apiserver.registry.storage_limit import StorageLimit
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Change, Put
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants.quota_records import QuotaRecord, encode_quota, quota_key
from vcsync.apiserver.tenants.records import TenantRecord, encode, record_key

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


async def test_writes_are_allowed_up_to_the_limit_of_bytes(store):
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


async def test_writes_are_allowed_up_to_the_limit_of_objects(store):
    limit = StorageLimit(store, max_objects=3)
    for number in range(3):
        await write(store, limit, f"a/core/configmaps/default/{number}", 10)
    with pytest.raises(StatusError, match="3 of 3 objects are used"):
        await write(store, limit, "a/core/configmaps/default/4", 10)
    await write(store, limit, "a/core/configmaps/default/1", 20, before=10)


async def test_writes_that_make_an_object_smaller_are_always_allowed(store):
    limit = StorageLimit(store, max_bytes=100)
    key = "a/core/configmaps/default/1"
    await store.txn((), (Put(key, b"x" * 500),))
    await write(store, limit, key, 499, before=500)
    with pytest.raises(StatusError, match="storage is full"):
        await write(store, limit, key, 501, before=499)


async def test_one_tenant_does_not_use_up_the_storage_of_others(store):
    limit = StorageLimit(store, max_objects=1)
    await write(store, limit, "a/core/configmaps/default/1", 10)
    await write(store, limit, "b/core/configmaps/default/1", 10, tenant="b")
    await write(store, limit, "system/core/configmaps/default/1", 10, tenant="system")
    await write(store, limit, "system/core/configmaps/default/2", 10, tenant="system")


async def test_zero_means_unlimited(store):
    limit = StorageLimit(store, 0, 0)
    await write(store, limit, "a/core/configmaps/default/1", 10)


async def test_the_size_of_one_object_is_limited_as_by_etcd(store):
    with pytest.raises(StatusError) as refused:
        await write(store, StorageLimit(store), "a/core/configmaps/default/1", 1536 * 1024)
    assert (refused.value.code, refused.value.message) == (500, "etcdserver: request is too large")


async def test_expensive_kinds_are_limited_in_number(store, monkeypatch):
    monkeypatch.setattr(storage_limit, "KIND_LIMITS", {CRDS[::2]: (2, 1000)})
    limit = StorageLimit(store)
    prefix = "a/apiextensions.k8s.io/customresourcedefinitions/"
    await write(store, limit, f"{prefix}1", 100, kind=CRDS)
    await write(store, limit, f"{prefix}2", 100, kind=CRDS)
    with pytest.raises(StatusError, match="too many customresourcedefinitions: 2 of 2 objects are used"):
        await write(store, limit, f"{prefix}3", 100, kind=CRDS)
    with pytest.raises(StatusError, match="of 1000 bytes"):
        await write(store, limit, f"{prefix}2", 1000, before=100, kind=CRDS)


@pytest.mark.parametrize("plural", ["limitranges", "resourcequotas"])
async def test_what_is_evaluated_with_each_write_of_a_namespace_is_limited_there(store, plural):
    limit, kind = StorageLimit(store), ("", "v1", plural)
    most, size = storage_limit.NAMESPACE_LIMITS["", plural]
    for number in range(most):
        await write(store, limit, f"a/core/{plural}/default/{number:03}", 100, kind=kind)
    with pytest.raises(StatusError) as refused:
        await write(store, limit, f"a/core/{plural}/default/one-more", 100, kind=kind)
    assert (refused.value.code, refused.value.message) == (
        403,
        (
            f'{plural} "name" is forbidden: there are too many {plural} in the namespace: {most} of {most} objects are used; '
            "delete some, or put their contents into fewer"
        ),
    )
    with pytest.raises(StatusError, match=f"of {size} bytes"):
        await write(store, limit, f"a/core/{plural}/default/000", size, before=100, kind=kind)
    await write(store, limit, f"a/core/{plural}/default/000", 200, before=100, kind=kind)
    await StorageLimit(store).require(
        replace(scope(kind), namespace="other"), f"a/core/{plural}/other/1", b"x", None
    )


async def test_metrics_show_a_tenant_itself_and_the_operator_all_tenants(store):
    limit = StorageLimit(store, 1000, 10)
    for tenant in ("a", "b"):
        await write(store, limit, f"{tenant}/core/configmaps/default/1", 73, tenant=tenant)
    own = await limit.text("a")
    assert b'apiserver_storage_size_bytes{storage_cluster_id="a"} 100' in own
    assert b'vcsync_storage_limit_bytes{tenant="a"} 1000' in own
    assert b'"b"' not in own
    assert b'vcsync_storage_objects{tenant="b"}' in await limit.text("system")


async def test_escapes_of_json_do_not_count_against_the_size_of_an_object(store):
    value = b'{"metadata":{"name":"1"},"data":{"a":"%b"}}' % (rb"\u0001" * 500_000)
    await StorageLimit(store).require(scope(), "a/core/configmaps/default/1", value, None)
    with pytest.raises(StatusError):
        await StorageLimit(store).require(scope(), "a/core/configmaps/default/1", value * 4, None)


async def test_the_bytes_of_a_tenants_quota_limit_its_storage_further(store):
    limit = StorageLimit(store, max_bytes=1000)
    await write(store, limit, "a/core/configmaps/default/1", 100)
    key = quota_key("a")
    for hard, most in (({"bytes": "200"}, 200), ({"bytes": "0"}, 1), ({"bytes": "1Gi"}, 1000), ({}, 1000)):
        record, _ = await store.get(key)
        value = encode_quota(QuotaRecord(hard, {}, {}))
        outcome = await store.txn((), (Put(key, value),))
        limit.changed([Change(outcome.revision, key, value, None if record is None else record.value, 1)])
        with pytest.raises(StatusError, match=f"of {most} bytes"):
            await write(store, limit, "a/core/configmaps/default/2", 950)
    unlimited = StorageLimit(store, 0)
    await store.txn((), (Put(key, encode_quota(QuotaRecord({"bytes": "200"}, {}, {}))),))
    with pytest.raises(StatusError, match="of 200 bytes"):
        await write(store, unlimited, "a/core/configmaps/default/2", 950)


async def test_charges_do_not_make_the_storage_be_counted_again(store):
    limit = StorageLimit(store, max_bytes=1000)
    await write(store, limit, "a/core/configmaps/default/1", 100)
    before, after = (
        encode_quota(QuotaRecord({"bytes": "9", "pods": "9"}, {"pods": used}, {})) for used in "12"
    )
    limit.changed([Change(9, quota_key("a"), after, before, 1)])
    await write(store, limit, "a/core/configmaps/default/2", 100)


async def test_the_limits_in_a_tenants_record_apply_immediately(store):
    limit = StorageLimit(store, max_bytes=1000, max_objects=1)
    await write(store, limit, "a/core/configmaps/default/1", 100)
    with pytest.raises(StatusError, match="1 of 1 objects"):
        await write(store, limit, "a/core/configmaps/default/2", 100)
    record = TenantRecord("a", "uid", "2026-01-01T00:00:00Z", storage_bytes=300, storage_objects=0)
    for tenant_record in (record, msgspec.structs.replace(record, storage_bytes=200)):
        key = record_key("a")
        outcome = await store.txn((), (Put(key, encode(tenant_record)),))
        limit.changed([Change(outcome.revision, key, b"{}", None, 1)])
        if tenant_record is record:
            await write(store, limit, "a/core/configmaps/default/2", 50)
    with pytest.raises(StatusError, match="of 200 bytes"):
        await write(store, limit, "a/core/configmaps/default/3", 50)
    assert b'vcsync_storage_limit_bytes{tenant="a"} 200' in await limit.text("a")
    await write(store, limit, "b/core/configmaps/default/1", 500, tenant="b")
