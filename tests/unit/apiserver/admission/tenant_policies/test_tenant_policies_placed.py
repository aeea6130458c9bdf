"""Objects that policies place: created, kept, protected and removed, and never taken for the tenant's own."""

import pytest

from vcsync.api.names import PLACED_BY
from vcsync.apiserver.assembly.placed_objects import RECORDS, PlacedObjects
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.storage.interface import Change, Delete
from vcsync.apiserver.tenants.records import TENANTS

NOW = "2026-01-01T00:00:00Z"
MAPS = "/api/v1/namespaces/n/configmaps"
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
MERGE = {"content_type": "application/merge-patch+json"}


@pytest.fixture
async def placing(plane):
    """A control plane whose callers are users of tenants, and the controller."""

    async def authenticate(certificate, authorization, tenant):
        found = await type(plane.rights).authenticate(plane.rights, certificate, authorization, tenant)
        return Caller(found.user, found.tenant, system=False)

    plane.rights.authenticate = authenticate
    controller = PlacedObjects(plane.store, plane.policies, lambda: NOW)
    for tenant in ("a", "b"):
        record = {"name": tenant, "uid": f"uid-{tenant}", "created": NOW}
        await plane.put(f"{TENANTS}{tenant}", record)
    plane.controller = controller
    return plane


async def settings(plane, path=MAPS):
    answer = await plane("GET", f"{path}/settings")
    return answer.body if answer.status == 200 else None


async def records(plane):
    return [each.key.removeprefix(RECORDS) for each in (await plane.store.range(RECORDS)).records]


async def test_an_object_is_created_repaired_changed_and_removed(placing):
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    assert await placing.controller.reconcile("a")
    made = await settings(placing)
    assert made["data"] == {"a": "1"}
    assert made["metadata"]["annotations"][PLACED_BY] == "p"
    assert made["metadata"]["managedFields"][0]["manager"] == "vcsync-tenant-policies"
    assert await settings(placing, "/tenants/b/api/v1/namespaces/n/configmaps") is None

    revision = await placing.store.revision()
    await placing.controller.reconcile("a")
    placing.controller._verified.clear()
    await placing.controller.reconcile("a")
    assert await placing.store.revision() == revision

    await placing.policy(placedObjects=[{"manifest": {**SETTINGS, "data": {"a": "2"}}}])
    await placing.controller.reconcile("a")
    assert (await settings(placing))["data"] == {"a": "2"}

    await placing.policy(placedObjects=[{"manifest": SETTINGS}], tenants={"names": ["b"]})
    await placing.controller.reconcile("a")
    assert await settings(placing) is None
    assert await records(placing) == []


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("PUT", f"{MAPS}/settings", {**SETTINGS, "data": {}}, {}),
        ("PATCH", f"{MAPS}/settings", {"data": {"a": "2"}}, MERGE),
        ("PATCH", f"{MAPS}/settings", {"metadata": {"annotations": None}}, MERGE),
        ("PATCH", f"{MAPS}/settings", {"metadata": {"ownerReferences": []}}, MERGE),
        ("PATCH", f"{MAPS}/settings?fieldManager=m&force=true", {**SETTINGS, "data": {"b": ""}},
         {"content_type": "application/apply-patch+yaml"}),
        ("DELETE", f"{MAPS}/settings", None, {}),
        ("DELETE", f"{MAPS}/settings?dryRun=All", None, {}),
        ("DELETE", MAPS, None, {}),
    ],
)  # fmt: skip
async def test_a_tenant_cannot_change_a_placed_object(placing, method, path, body, headers):
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    await placing.controller.reconcile("a")
    before = await settings(placing)
    answer = await placing(method, path, body, **headers)
    assert answer.status == 403, answer.body
    assert "TenantPolicy 'p' of the operator places this object" in answer["message"]
    assert await settings(placing) == before


async def test_a_tenant_cannot_be_there_first(placing):
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    assert (await placing("POST", MAPS, SETTINGS)).status == 403
    other = {**SETTINGS, "metadata": {"name": "other"}}
    assert (await placing("POST", MAPS, other)).status == 201


async def test_an_object_of_the_tenant_is_replaced_whole_and_stays_when_the_policy_goes(placing):
    own = {**SETTINGS, "data": {"a": "own", "b": "own"}}
    assert (await placing("POST", MAPS, own)).status == 201
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    await placing.controller.reconcile("a")
    assert (await settings(placing))["data"] == {"a": "1"}
    await placing.policy()
    await placing.controller.reconcile("a")
    assert (await settings(placing))["data"] == {"a": "1"}
    assert (await placing("DELETE", f"{MAPS}/settings")).status == 200


async def test_a_field_that_cannot_change_makes_a_new_object(placing):
    own = {**SETTINGS, "data": {"a": "own"}, "immutable": True}
    assert (await placing("POST", MAPS, own)).status == 201
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    assert await placing.controller.reconcile("a")
    assert (await settings(placing))["data"] == {"a": "1"}


async def test_a_later_object_of_the_name_is_the_tenants_own(placing):
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    await placing.controller.reconcile("a")
    # The object vanished together with its namespace, and the policy went before that was seen.
    await placing.store.txn([], [Delete("a/core/configmaps/n/settings")])
    await placing.policy()
    assert (await placing("POST", MAPS, {**SETTINGS, "data": {"own": ""}})).status == 201
    await placing.controller.reconcile("a")
    assert (await settings(placing))["data"] == {"own": ""}
    assert await records(placing) == []


async def test_objects_go_to_all_namespaces_or_to_named_ones_and_leave_with_them(placing):
    for name in ("kube-system", "later"):
        assert (await placing("POST", "/api/v1/namespaces", {"metadata": {"name": name}})).status == 201
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    await placing.controller.reconcile("a")
    assert await records(placing) == ["a/core/configmaps/later/settings", "a/core/configmaps/n/settings"]
    await placing.policy(placedObjects=[{"manifest": SETTINGS, "namespaces": ["kube-system", "absent"]}])
    await placing.controller.reconcile("a")
    assert await records(placing) == ["a/core/configmaps/kube-system/settings"]
    await placing.policy(placedObjects=[{"manifest": SETTINGS, "namespaces": ["later"]}])
    await placing.controller.reconcile("a")
    assert (await placing("DELETE", "/api/v1/namespaces/later")).status == 200
    # The namespace ends: its objects can be deleted, by whoever does it.
    assert (await placing("DELETE", "/api/v1/namespaces/later/configmaps/settings")).status == 200
    await placing.controller.reconcile("a")
    assert await records(placing) == []


async def test_a_copy_follows_its_source(placing):
    await placing.policy(
        placedObjects=[{"copyOf": {"kind": "Secret", "namespace": "vcsync", "name": "pull"}}]
    )
    assert not await placing.controller.reconcile("a")
    key, path = "system/core/secrets/vcsync/pull", "/api/v1/namespaces/n/secrets/pull"
    for value in ("MQ==", "Mg=="):
        await placing.put(key, {"metadata": {"name": "pull", "uid": "x"}, "type": "t", "data": {"k": value}})
        assert await placing.controller.reconcile("a")
        found = (await placing("GET", path)).body
        assert (found["data"], found["type"]) == ({"k": value}, "t")
        assert found["metadata"]["uid"] != "x"


async def test_cluster_scoped_objects_are_placed_once(placing):
    manifest = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "box"},
        "handler": "x",
    }
    await placing.policy(placedObjects=[{"manifest": manifest}])
    await placing.controller.reconcile("a")
    path = "/apis/node.k8s.io/v1/runtimeclasses/box"
    assert (await placing("GET", path))["handler"] == "x"
    assert (await placing("DELETE", path)).status == 403


async def test_nothing_is_placed_in_tenants_that_are_not_ready_or_external(placing):
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    upstream = {"server": "https://x", "token": "t"}
    for change in ({"phase": "Deleting"}, {"upstream": upstream}):
        await placing.put(f"{TENANTS}a", {"name": "a", "uid": "u", "created": NOW, **change})
        await placing.controller.reconcile("a")
        assert await settings(placing) is None


async def test_changes_wake_only_the_tenants_that_they_concern(placing):
    await placing.policy(placedObjects=[{"manifest": SETTINGS}])
    controller = placing.controller
    await controller._look_at_everything()
    assert sorted(controller._queue) == ["a", "b"]
    controller._queue.clear()
    await controller.reconcile("a")

    def woken(key):
        controller.changed([Change(9, key, b"{}", None, 9)])
        found = sorted(controller._queue)
        controller._queue.clear()
        return found

    assert woken("a/core/configmaps/n/settings") == ["a"]
    assert woken("a/core/configmaps/n/other") == []
    assert woken("b/core/namespaces/new") == ["b"]
    assert woken(f"{TENANTS}b") == ["b"]
