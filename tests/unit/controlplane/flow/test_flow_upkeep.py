"""Flow schemas and priority levels are kept as kube-apiserver keeps them."""

import msgspec
import pytest

from vcsync.controlplane.flow import configuration
from vcsync.controlplane.flow.upkeep import Upkeep, restored, with_condition
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.store.interface import Delete, Put
from vcsync.controlplane.store.sqlite import open_sqlite
from vcsync.controlplane.tenants import flowcontrol
from vcsync.controlplane.tenants.records import TenantRecord, encode, record_key

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


async def test_what_every_api_server_has_comes_back(store):
    await own(store)
    upkeep = Upkeep(store, lambda: NOW)
    await upkeep.look("a")
    schemas, levels = await configuration.read(store, "a")
    assert (len(schemas), len(levels)) == (len(flowcontrol.FLOWS), len(flowcontrol.LEVELS) + 1)
    await store.txn((), (Delete(key("flowschemas", "catch-all")),))
    await upkeep.look("a")
    record, _ = await store.get(key("flowschemas", "catch-all"))
    assert record is not None


@pytest.mark.parametrize("phase", ["Deleting", None])
async def test_nothing_is_made_for_a_tenant_that_goes_or_is_not_there(store, phase):
    if phase:
        await own(store, phase)
    await Upkeep(store, lambda: NOW).look("a")
    assert await store.count("a/") == 0


async def test_a_schema_tells_whether_its_level_exists(store):
    await own(store)
    spec = {"priorityLevelConfiguration": {"name": "mine"}}
    await store.txn(
        (), (Put(key("flowschemas", "s"), msgspec.json.encode({"metadata": {"name": "s"}, "spec": spec})),)
    )
    upkeep = Upkeep(store, lambda: NOW)
    await upkeep.look("a")
    assert await condition(store) == ("True", "NotFound")
    level = {"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": {}}}
    await store.txn((), (Put(key("prioritylevelconfigurations", "mine"), msgspec.json.encode(level)),))
    await upkeep.look("a")
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
def test_specs_are_restored_unless_they_are_the_tenants_to_change(name, annotations, generation, kept):
    own = {**wanted(name)["spec"], "matchingPrecedence": 7777}
    metadata = {"name": name, "annotations": annotations, "generation": generation}
    found = restored({"metadata": metadata, "spec": own}, wanted(name))
    spec = own if found is None else found["spec"]
    assert (spec["matchingPrecedence"] == 7777) is kept


def test_what_is_as_it_should_be_is_left_alone():
    for plural, each in flowcontrol.objects(NOW):
        assert restored(each, each) is None
        if plural == "flowschemas":
            assert with_condition(each, {each["spec"]["priorityLevelConfiguration"]["name"]}, "later") is None


async def test_schemas_beyond_what_is_heeded_cost_nothing(store):
    padding = ["x" * 1000] * 100
    for number in range(4):
        rule = {"subjects": [{"kind": "User", "user": {"name": each}} for each in padding]}
        value = {"metadata": {"name": f"s{number}"}, "spec": {"rules": [rule]}}
        await store.txn((), (Put(key("flowschemas", f"s{number}"), msgspec.json.encode(value)),))
    schemas, _ = await configuration.read(store, "a")
    assert [each.name for each in schemas] == ["s0", "s1"]
