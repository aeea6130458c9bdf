"""Tenants come, go and get new keys."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.apiserver.identity.conftest import Clock
from vcsync.api.networks import NetworkSpec
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.storage.interface import Change, Delete, Outcome, Put, StoreUnavailable
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite
from vcsync.apiserver.tenants import records

ENDPOINT = Endpoint("https://cp.example:6443", "192.0.2.1", 6443)


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    found = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield found
    await found.close()


@pytest.fixture
async def identity(store: SqliteStore) -> Identity:
    return await Identity.open(store, ENDPOINT, clock=Clock())


async def objects(store: SqliteStore, tenant: str) -> dict[str, dict[str, Any]]:
    page = await store.range(f"{tenant}/")
    return {
        record.key.removeprefix(f"{tenant}/"): msgspec.json.decode(record.value) for record in page.records
    }


async def until_gone(identity: Identity, tenant: str) -> None:
    """Let deletions go on until a tenant is forgotten."""
    running = asyncio.create_task(identity.deletion.run())
    async with asyncio.timeout(60):
        while tenant in identity.tenants.deleting():
            await asyncio.sleep(0)
    running.cancel()


async def test_a_tenant_begins_with_what_a_fresh_server_has(identity: Identity, store: SqliteStore) -> None:
    await identity.lifecycle.create("acme")
    found = await objects(store, "acme")
    counted: dict[str, int] = {}
    for key in found:
        plural = key.split("/")[1]
        counted[plural] = counted.get(plural, 0) + 1
    assert counted == {
        "apiservices": 21,
        "clusterrolebindings": 51,
        "clusterroles": 69,
        "configmaps": 2,
        "endpoints": 1,
        "endpointslices": 1,
        "flowschemas": 11,
        "ipaddresses": 1,
        "namespaces": 4,
        "priorityclasses": 2,
        "prioritylevelconfigurations": 8,
        "rolebindings": 7,
        "roles": 7,
        "servicecidrs": 1,
        "services": 1,
    }
    assert found["core/endpoints/default/kubernetes"]["subsets"] == [
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "https", "protocol": "TCP", "port": 6443}]}
    ]
    authority, _ = await store.get(records.record_key("acme"))
    assert authority is not None
    config = found["core/configmaps/kube-system/extension-apiserver-authentication"]
    assert config["data"]["client-ca-file"] == records.decode(authority.value).authority.certificate  # type: ignore[union-attr]


async def test_a_tenant_begins_with_the_network_that_it_is_made_with(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme", network=NetworkSpec(type="VPC", vpc_id="v-1"))
    found = (await objects(store, "acme"))["custom:tenancy.x-k8s.io/networks/default"]
    assert found["spec"] == {"type": "VPC", "vpcID": "v-1"}
    assert (found["metadata"]["name"], found["metadata"]["generation"]) == ("default", 1)
    assert len(found["metadata"]["uid"]) == 36


async def test_every_object_is_in_stored_form_and_has_a_uid_of_its_own(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme")
    await identity.lifecycle.create("umbrella")
    seen = set()
    for tenant in ("acme", "umbrella"):
        for record in (await store.range(f"{tenant}/")).records:
            assert record.value.startswith(b'{"metadata":{"name":')
            assert b"@" not in record.value
            body = msgspec.json.decode(record.value)
            assert not {"kind", "apiVersion"} & body.keys()
            assert body["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"
            seen.add(body["metadata"]["uid"])
    assert len(seen) == 2 * 187


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *((name, 422) for name in ("all", "system", "Acme", "", "a" * 64, "~vcsync", "a/b", "a.b")),
        ("acme", 409),
    ],
)
async def test_names_that_cannot_be_given(identity: Identity, name: str, code: int) -> None:
    await identity.lifecycle.create("acme")
    with pytest.raises(StatusError) as caught:
        await identity.lifecycle.create(name)
    assert caught.value.code == code


async def test_of_many_who_create_one_tenant_one_succeeds(identity: Identity, store: SqliteStore) -> None:
    answers = await asyncio.gather(
        *(identity.lifecycle.create("acme") for _ in range(5)), return_exceptions=True
    )
    errors = [each for each in answers if isinstance(each, StatusError)]
    made = [each for each in answers if not isinstance(each, BaseException)]
    assert (len(made), {error.code for error in errors}) == (1, {409})
    stored, _ = await store.get(records.record_key("acme"))
    assert stored is not None
    assert records.decode(stored.value) == made[0]
    assert len(await objects(store, "acme")) == 187


async def test_a_deleted_tenant_leaves_nothing(identity: Identity, store: SqliteStore) -> None:
    before = await store.count("")
    await identity.lifecycle.create("acme")
    for start in range(0, 300, 100):
        await store.txn(
            [], [Put(f"acme/core/configmaps/default/c{start + n}", b'{"metadata":{}}') for n in range(100)]
        )
    await identity.deletion.delete("acme")
    assert await store.count("acme/") == 0
    assert await store.count("") == before
    assert not identity.tenants.exists("acme")
    with pytest.raises(StatusError) as caught:
        await identity.deletion.delete("acme")
    assert (caught.value.code, caught.value.message) == (404, 'tenants "acme" not found')


async def held(store: SqliteStore, tenant: str) -> str:
    """Put an object with a foreign finalizer into a tenant; return its key."""
    key = f"{tenant}/core/configmaps/default/held"
    body = {"metadata": {"name": "held", "finalizers": ["example.com/keep"]}}
    await store.txn([], [Put(key, msgspec.json.encode(body))])
    return key


async def test_a_tenant_with_grace_loses_its_credentials_at_once_and_its_objects_when_they_are_let_go(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme")
    key = await held(store, "acme")
    record = await identity.deletion.delete("acme", 600)
    assert (record.phase, record.deadline) == ("Draining", "2027-01-15T08:10:00Z")
    assert identity.tenants.exists("acme")
    assert not identity.tenants.admits("acme")
    assert await identity.tenants.credentials("acme") is None
    running = asyncio.create_task(identity.deletion.run())
    async with asyncio.timeout(60):
        while (await identity.deletion.status("acme"))[1].objects != 1:
            await asyncio.sleep(0)
    stands = [key for key in await objects(store, "acme") if not key.startswith("core/namespaces/")]
    assert stands == ["core/configmaps/default/held"]
    running.cancel()
    await store.txn([], [Delete(key)])
    await until_gone(identity, "acme")
    assert not identity.tenants.exists("acme")
    assert await store.count("") == await store.count("system/") + await store.count("~vcsync/")
    await identity.lifecycle.create("acme")


async def test_finalizers_are_overruled_at_the_deadline(store: SqliteStore) -> None:
    clock = Clock()
    identity = await Identity.open(store, ENDPOINT, clock=clock)
    await identity.lifecycle.create("acme")
    await held(store, "acme")
    await identity.deletion.delete("acme", 600)
    clock.now += 601
    await until_gone(identity, "acme")
    assert await store.count("acme/") == 0


async def test_an_operator_can_force_a_deletion_that_waits(identity: Identity, store: SqliteStore) -> None:
    await identity.lifecycle.create("acme")
    await held(store, "acme")
    await identity.deletion.delete("acme", 600)
    await identity.deletion.delete("acme")
    assert await store.count("acme/") == 0
    assert identity.tenants.deleting() == []


async def test_two_deletions_at_the_same_time_both_succeed(identity: Identity, store: SqliteStore) -> None:
    """`vcsync tenant delete` and the tenant controller delete a control plane together."""
    await identity.lifecycle.create("acme")
    await asyncio.gather(*(identity.deletion.delete("acme", 600) for _ in range(3)))
    assert identity.tenants.deleting() == ["acme"]
    await until_gone(identity, "acme")
    assert await store.count("acme/") == 0


async def test_a_drain_goes_on_after_a_restart(identity: Identity, store: SqliteStore) -> None:
    await identity.lifecycle.create("acme")
    await identity.deletion.delete("acme", 600)
    again = await Identity.open(store, ENDPOINT, clock=Clock())
    assert again.tenants.deleting() == ["acme"]
    await until_gone(again, "acme")
    assert await store.count("acme/") == 0


async def test_a_defect_with_one_tenant_does_not_keep_others_from_going(
    identity: Identity, store: SqliteStore
) -> None:
    for name in ("acme", "umbrella"):
        await identity.lifecycle.create(name)
    await store.txn([], [Put("acme/core/configmaps/default/broken", b"no JSON")])
    for name in ("acme", "umbrella"):
        await identity.deletion.delete(name, 600)
    await until_gone(identity, "umbrella")
    assert identity.tenants.deleting() == ["acme"]
    await identity.deletion.delete("acme")
    assert await store.count("acme/") == 0


async def test_our_controllers_leave_a_tenant_alone_that_is_leaving(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme")
    await identity.deletion.delete("acme", 600)
    told, _ = await store.get("system/core/configmaps/kube-system/acme.controllers")
    assert told is not None


async def test_neighbours_with_similar_names_stay(identity: Identity, store: SqliteStore) -> None:
    for name in ("acme", "acme-2", "acm"):
        await identity.lifecycle.create(name)
    await identity.deletion.delete("acme")
    assert [await store.count(f"{name}/") for name in ("acme-2", "acm")] == [187, 187]


class Failing:
    """A store whose transactions fail from the n-th on."""

    def __init__(self, store: SqliteStore, after: int) -> None:
        self._store, self._left = store, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def txn(self, compares: Sequence[Any], operations: Sequence[Any]) -> Outcome:
        self._left -= 1
        if self._left < 0:
            raise StoreUnavailable("gone")
        return await self._store.txn(compares, operations)


async def test_a_deletion_that_was_cut_off_goes_on_at_the_next_start(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme")
    failing = await Identity.open(Failing(store, 2), ENDPOINT, clock=Clock())  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await failing.deletion.delete("acme")
    assert await store.count("acme/") > 0
    again = await Identity.open(store, ENDPOINT, clock=Clock())
    assert not again.tenants.exists("acme")
    with pytest.raises(StatusError) as caught:
        await again.lifecycle.create("acme")
    assert caught.value.code == 409
    await until_gone(again, "acme")
    assert await store.count("acme/") == 0
    await again.lifecycle.create("acme")


async def test_a_tenant_that_is_being_made_has_its_place_among_all_before_it_may_be_used(
    store: SqliteStore,
) -> None:
    await Identity.open(store, ENDPOINT, clock=Clock())
    after = await store.revision()
    identity = await Identity.open(store, ENDPOINT, clock=Clock())
    half = await Identity.open(Failing(store, 1), ENDPOINT, clock=Clock())  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await half.lifecycle.create("acme")
    assert await store.count("acme/") > 0
    identity.changed(await changes(store, after))
    assert not identity.tenants.exists("acme")
    assert identity.tenants.names() == ["system"]
    assert identity.tenants.spaces() == ["acme", "system"]


async def test_a_creation_that_was_cut_off_can_be_repeated(store: SqliteStore) -> None:
    await Identity.open(store, ENDPOINT, clock=Clock())
    failing = await Identity.open(Failing(store, 1), ENDPOINT, clock=Clock())  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await failing.lifecycle.create("acme")
    again = await Identity.open(store, ENDPOINT, clock=Clock())
    assert not again.tenants.exists("acme")
    await again.lifecycle.create("acme")
    assert len(await objects(store, "acme")) == 187


async def test_what_a_tenant_of_that_name_left_behind_is_no_part_of_the_next(
    identity: Identity, store: SqliteStore
) -> None:
    await store.txn([], [Put("acme/core/secrets/default/old", b'{"metadata":{}}')])
    await identity.lifecycle.create("acme")
    assert "core/secrets/default/old" not in await objects(store, "acme")


async def test_the_operators_space_stays_as_it_is(identity: Identity) -> None:
    for change in (identity.deletion.delete, identity.lifecycle.rotate):
        with pytest.raises(StatusError) as caught:
            await change("system")
        assert caught.value.code == 403


async def test_rotation_tells_extension_servers_of_the_new_authority(
    identity: Identity, store: SqliteStore
) -> None:
    old = await identity.lifecycle.create("acme")
    new = await identity.lifecycle.rotate("acme")
    assert (old.uid, old.created) == (new.uid, new.created)
    assert old.authority != new.authority
    assert old.signer != new.signer
    config = (await objects(store, "acme"))["core/configmaps/kube-system/extension-apiserver-authentication"]
    assert new.authority is not None
    assert config["data"]["client-ca-file"] == new.authority.certificate


async def test_the_server_keeps_its_authority_over_restarts(identity: Identity, store: SqliteStore) -> None:
    again = await Identity.open(store, ENDPOINT, clock=Clock())
    assert again.server == identity.server
    assert again.tenants.names() == ["system"]


# ---- two processes on one store ---------------------------------------------------------


async def changes(store: SqliteStore, after: int) -> list[Change]:
    async for batch in store.watch("", after, progress=0.01):
        if batch.revision >= await store.revision():
            return [*batch]
    return []


async def test_another_process_learns_of_tenants(identity: Identity, store: SqliteStore) -> None:
    other = await Identity.open(store, ENDPOINT, clock=Clock())
    after = await store.revision()
    await identity.lifecycle.create("acme")
    other.changed(await changes(store, after))
    assert other.tenants.exists("acme")
    after = await store.revision()
    await identity.deletion.delete("acme")
    other.changed(await changes(store, after))
    assert not other.tenants.exists("acme")


async def test_late_news_of_ones_own_writes_change_nothing(identity: Identity, store: SqliteStore) -> None:
    after = await store.revision()
    await identity.lifecycle.create("acme")
    news = [change for change in await changes(store, after) if change.key.startswith(records.TENANTS)]
    first, second = news
    identity.changed([first])
    assert identity.tenants.exists("acme")
    identity.changed([second])
    after = await store.revision()
    await identity.deletion.delete("acme")
    identity.changed([second])
    assert not identity.tenants.exists("acme")
    identity.changed(await changes(store, after))
    assert not identity.tenants.exists("acme")


async def test_missed_changes_are_caught_up_with(identity: Identity, store: SqliteStore) -> None:
    await identity.lifecycle.create("old")
    other = await Identity.open(store, ENDPOINT, clock=Clock())
    await identity.deletion.delete("old")
    await identity.lifecycle.create("new")
    assert other.tenants.names() == ["old", "system"]
    await other.reload()
    assert other.tenants.names() == ["new", "system"]


MARK = "system/core/configmaps/kube-system/acme.controllers"


async def test_what_brings_its_own_controllers_is_told_in_the_operators_space(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme", "external")
    await identity.lifecycle.create("umbrella")
    assert [identity.tenants.has_external_controllers(name) for name in ("acme", "umbrella")] == [True, False]
    stored, _ = await store.get(MARK)
    assert stored is not None
    body = msgspec.json.decode(stored.value)
    assert body["metadata"]["labels"] == {"tenancy.x-k8s.io/external-controllers": "acme"}
    await identity.lifecycle.rotate("acme")
    assert identity.tenants.has_external_controllers("acme")
    await identity.deletion.delete("acme")
    assert not identity.tenants.has_external_controllers("acme")
    assert await store.get(MARK) == (None, await store.revision())


async def test_controllers_change_hands(identity: Identity, store: SqliteStore) -> None:
    other = await Identity.open(store, ENDPOINT, clock=Clock())
    made = await identity.lifecycle.create("acme")
    after = await store.revision()
    changed = await identity.lifecycle.set_controllers("acme", "external")
    assert changed == msgspec.structs.replace(made, controllers="external")
    assert (await store.get(MARK))[0] is not None
    other.changed(await changes(store, after))
    assert other.tenants.has_external_controllers("acme")
    again = await Identity.open(store, ENDPOINT, clock=Clock())
    assert again.tenants.has_external_controllers("acme")
    assert await identity.lifecycle.set_controllers("acme", "vcsync") == made
    assert not identity.tenants.has_external_controllers("acme")
    assert (await store.get(MARK))[0] is None
    with pytest.raises(StatusError) as caught:
        await identity.lifecycle.set_controllers("no-such", "external")
    assert caught.value.code == 404


async def test_a_space_keeps_its_nodes_whatever_becomes_of_its_controllers_and_keys(
    identity: Identity, store: SqliteStore
) -> None:
    async def told() -> dict[str, str] | None:
        found, _ = await store.get("system/core/configmaps/kube-system/east.controllers")
        return msgspec.json.decode(found.value)["data"] if found else None

    await identity.lifecycle.create("east", nodes="own")
    assert await told() == {"controllers": "vcsync", "nodes": "own"}
    await identity.lifecycle.set_controllers("east", "external")
    assert (await identity.lifecycle.rotate("east")).nodes == "own"
    changed = await identity.lifecycle.set_controllers("east", "vcsync")
    assert (changed.controllers, changed.nodes) == ("vcsync", "own")
    assert await told() == {"controllers": "vcsync", "nodes": "own"}
    await identity.deletion.delete("east", 0)
    assert await told() is None


async def test_a_suspended_tenant_is_known_to_all_processes_and_keeps_its_credentials(
    identity: Identity, store: SqliteStore
) -> None:
    await identity.lifecycle.create("acme")
    other = await Identity.open(store, ENDPOINT, clock=Clock())
    assert not other.tenants.is_suspended("acme")
    await identity.lifecycle.suspend("acme", suspended=True)
    found, _ = await store.get(records.record_key("acme"))
    assert found is not None
    other.tenants.changed(
        [Change(found.revision, records.record_key("acme"), found.value, None, found.revision)]
    )
    for each in (identity, other, await Identity.open(store, ENDPOINT, clock=Clock())):
        assert each.tenants.is_suspended("acme")
        assert each.tenants.admits("acme")
    await identity.lifecycle.rotate("acme")
    assert identity.tenants.is_suspended("acme")
    await identity.lifecycle.suspend("acme", suspended=False)
    assert not identity.tenants.is_suspended("acme")


async def test_only_tenants_are_suspended(identity: Identity) -> None:
    await identity.lifecycle.create("r1", nodes="own")
    for name in ("system", "r1", "nobody"):
        with pytest.raises(StatusError):
            await identity.lifecycle.suspend(name, suspended=True)
