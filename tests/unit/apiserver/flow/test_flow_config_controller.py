"""FlowSchemas and PriorityLevelConfigurations are reconciled as by kube-apiserver."""

import msgspec
import pytest

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.flow import configuration
from vcsync.apiserver.flow.config_controller import ConfigController, restored, with_condition
from vcsync.apiserver.storage.interface import Delete, Put
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants import flow_defaults as flowcontrol
from vcsync.apiserver.tenants.records import TenantRecord, encode, record_key

NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
async def store(tmp_path):
    store = await open_sqlite(tmp_path / "store.db")
    yield store
    await store.close()


def key(plural, name):
    return object_key("a", configuration.GROUP, plural, "", name)


async def own(store, phase="Ready"):
    await store.txn((), (Put(record_key("a"), encode(TenantRecord("a", "uid", NOW, phase))),))


async def test_default_objects_are_restored(store):
    await own(store)
    controller = ConfigController(store, lambda: NOW)
    await controller.reconcile("a")
    schemas, levels = await configuration.read(store, "a")
    assert (len(schemas), len(levels)) == (len(flowcontrol.FLOWS), len(flowcontrol.LEVELS) + 1)
    await store.txn((), (Delete(key("flowschemas", "catch-all")),))
    await controller.reconcile("a")
    record, _ = await store.get(key("flowschemas", "catch-all"))
    assert record is not None


@pytest.mark.parametrize("phase", ["Deleting", None])
async def test_deleted_tenants_are_skipped(store, phase):
    if phase:
        await own(store, phase)
    await ConfigController(store, lambda: NOW).reconcile("a")
    assert await store.count("a/") == 0


async def test_the_dangling_condition_says_whether_the_level_exists(store):
    await own(store)
    spec = {"priorityLevelConfiguration": {"name": "mine"}}
    await store.txn(
        (), (Put(key("flowschemas", "s"), msgspec.json.encode({"metadata": {"name": "s"}, "spec": spec})),)
    )
    controller = ConfigController(store, lambda: NOW)
    await controller.reconcile("a")
    assert await condition(store) == ("True", "NotFound")
    level = {"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": {}}}
    await store.txn((), (Put(key("prioritylevelconfigurations", "mine"), msgspec.json.encode(level)),))
    await controller.reconcile("a")
    assert await condition(store) == ("False", "Found")


async def condition(store):
    record, _ = await store.get(key("flowschemas", "s"))
    found = msgspec.json.decode(record.value)["status"]["conditions"][0]
    return found["status"], found["reason"]


def wanted(name):
    return next(
        each
        for plural, each in flowcontrol.objects(NOW)
        if plural == "flowschemas" and each["metadata"]["name"] == name
    )


@pytest.mark.parametrize(
    ("name", "annotations", "generation", "kept"),
    [
        ("catch-all", {}, 2, False),
        ("catch-all", {"apf.kubernetes.io/autoupdate-spec": "false"}, 2, False),
        ("global-default", {"apf.kubernetes.io/autoupdate-spec": "false"}, 2, True),
        ("global-default", {"apf.kubernetes.io/autoupdate-spec": "true"}, 2, False),
        ("global-default", {}, 2, True),
        ("global-default", {}, 1, False),
    ],
)
def test_specs_that_tenants_may_change_are_not_restored(name, annotations, generation, kept):
    own = {**wanted(name)["spec"], "matchingPrecedence": 7777}
    metadata = {"name": name, "annotations": annotations, "generation": generation}
    found = restored({"metadata": metadata, "spec": own}, wanted(name))
    spec = own if found is None else found["spec"]
    assert (spec["matchingPrecedence"] == 7777) is kept


def test_correct_objects_are_not_written():
    for plural, each in flowcontrol.objects(NOW):
        assert restored(each, each) is None
        if plural == "flowschemas":
            assert with_condition(each, {each["spec"]["priorityLevelConfiguration"]["name"]}, "later") is None


async def test_schemas_beyond_the_size_limit_are_ignored(store):
    padding = ["x" * 1000] * 100
    for number in range(4):
        rule = {"subjects": [{"kind": "User", "user": {"name": each}} for each in padding]}
        value = {"metadata": {"name": f"s{number}"}, "spec": {"rules": [rule]}}
        await store.txn((), (Put(key("flowschemas", f"s{number}"), msgspec.json.encode(value)),))
    schemas, _ = await configuration.read(store, "a")
    assert [each.name for each in schemas] == ["s0", "s1"]
