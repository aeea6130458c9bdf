"""From a definition in the store to what is served, and away again, for each tenant on its own."""

import asyncio
import copy

import msgspec
import pytest

from vcsync.api import served
from vcsync.apimachinery.crd import conditions
from vcsync.apimachinery.crd.definition import BEHAVIOUR, terminate
from vcsync.apimachinery.resources import collection_key, custom_group, object_key
from vcsync.apimachinery.strategy import Context, User
from vcsync.apiserver.apiextensions import definition_controller as establish
from vcsync.apiserver.apiextensions.api_services import ApiServices
from vcsync.apiserver.apiextensions.catalogue import Catalogue, is_definition
from vcsync.apiserver.apiextensions.definition_controller import DefinitionController, update_status
from vcsync.apiserver.storage.interface import Change, Outcome, Page, Put, Record

NOW = "2026-01-01T00:00:00Z"
CONTEXT = Context("t", User("admin"), NOW)


class Memory:
    """Keys and values with revisions, and whoever listens."""

    def __init__(self, *listeners):
        self.records = {}
        self.now = 0
        self.listeners = list(listeners)

    async def get(self, key, *, revision=0):
        return self.records.get(key), self.now

    async def range(self, prefix, *, after="", limit=0, revision=0, counted=True):
        found = [self.records[key] for key in sorted(self.records) if key.startswith(prefix) and key > after]
        return Page(found[: limit or None], self.now, more=bool(limit) and len(found) > limit)

    async def get_cached(self, key):
        return self.records.get(key)

    async def range_cached(self, prefix):
        return [record for key, record in sorted(self.records.items()) if key.startswith(prefix)]

    async def txn(self, compares, operations):
        for each in compares:
            record = self.records.get(each.key)
            if (record.revision if record else 0) != each.revision:
                return Outcome(self.now, ((each.key, record),))
        self.now += 1
        for each in operations:
            old = self.records.pop(each.key, None)
            value = each.value if isinstance(each, Put) else None
            if value is not None:
                self.records[each.key] = Record(each.key, value, old.created if old else self.now, self.now)
            for listener in self.listeners:
                listener(Change(self.now, each.key, value, old.value if old else None, self.now))
        return Outcome(self.now)

    def object(self, key):
        return msgspec.json.decode(self.records[key].value)


def definition(plural="foos", kind="Foo", group="example.com", **spec):
    made = {
        "metadata": {"name": f"{plural}.{group}", "generation": 1, "uid": "u"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "shortNames": ["fo"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": ".spec.size"}],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {"size": {"type": "string", "default": "m"}},
                                },
                                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            },
                        }
                    },
                }
            ],
            **spec,
        },
    }
    BEHAVIOUR.default(made)
    BEHAVIOUR.prepare_create(made, CONTEXT)
    assert BEHAVIOUR.validate(made) == []
    return made


def key_of(tenant, made):
    return object_key(
        tenant, "apiextensions.k8s.io", "customresourcedefinitions", "", made["metadata"]["name"]
    )


async def put(store, key, obj):
    await store.txn([], [Put(key, msgspec.json.encode(obj))])


async def settled(definitions):
    for _ in range(20):
        while definitions._queue:
            key = next(iter(definitions._queue))
            del definitions._queue[key]
            await definitions.reconcile(*key)


def controller(store, catalogue):
    return DefinitionController(store, ApiServices(store, catalogue, lambda: NOW), lambda: NOW)


@pytest.fixture
async def world():
    catalogue = Catalogue()
    store = Memory(catalogue.apply)
    definitions = controller(store, catalogue)
    store.listeners.append(definitions.observe)
    for tenant in ("t", "u"):
        await catalogue.load(tenant, store)
    return catalogue, store, definitions


async def test_a_definition_is_served_once_its_names_are_accepted(world):
    catalogue, store, definitions = world
    made = definition()
    await put(store, key_of("t", made), made)
    assert catalogue.find("t", "example.com", "v1", "foos") is None
    before = catalogue.generation("t")
    await settled(definitions)
    served = catalogue.find("t", "example.com", "v1", "foos")
    assert served.resource.short_names == ("fo",)
    assert served.resource.list_kind == "FooList"
    assert set(served.resource.subresources) == {"status"}
    assert served.direct
    assert catalogue.generation("t") > before
    assert catalogue.by_kind("t", "example.com", "v1", "Foo") is served
    assert catalogue.resources("u") == []


async def test_tenants_hold_different_definitions_of_one_name(world):
    catalogue, store, definitions = world
    await put(store, key_of("t", definition()), definition())
    await put(store, key_of("u", definition(kind="Bar")), definition(kind="Bar"))
    await settled(definitions)
    assert catalogue.find("t", "example.com", "v1", "foos").resource.kind == "Foo"
    assert catalogue.find("u", "example.com", "v1", "foos").resource.kind == "Bar"


async def test_names_that_are_taken_are_refused_until_they_are_free(world):
    catalogue, store, definitions = world
    first, second = definition(), definition(plural="bars", kind="Foo")
    await put(store, key_of("t", first), first)
    await settled(definitions)
    await put(store, key_of("t", second), second)
    await settled(definitions)
    stored = store.object(key_of("t", second))
    found = conditions.condition(stored, "NamesAccepted")
    assert (found["status"], found["reason"], found["message"]) == (
        "False",
        "ListKindConflict",
        '"FooList" is already in use',
    )
    assert conditions.condition(stored, "Established")["reason"] == "NotAccepted"
    gone = store.object(key_of("t", first))
    terminate(gone, NOW)
    await put(store, key_of("t", first), gone)
    await settled(definitions)
    assert conditions.is_true(store.object(key_of("t", second)), "Established")
    assert catalogue.find("t", "example.com", "v1", "bars") is not None


async def test_deleting_a_definition_deletes_its_objects_first(world):
    catalogue, store, definitions = world
    made = definition()
    key = key_of("t", made)
    await put(store, key, made)
    await settled(definitions)
    free = object_key("t", custom_group("example.com"), "foos", "ns", "free")
    held = object_key("t", custom_group("example.com"), "foos", "ns", "held")
    await put(store, free, {"metadata": {"name": "free"}})
    await put(store, held, {"metadata": {"name": "held", "finalizers": ["x/y"]}})
    stored = store.object(key)
    assert terminate(stored, NOW)
    assert not terminate(copy.deepcopy(stored), NOW)
    await put(store, key, stored)
    assert catalogue.find("t", "example.com", "v1", "foos").refusal.code == 403
    await settled(definitions)
    assert free not in store.records
    assert store.object(held)["metadata"]["deletionTimestamp"] == NOW
    assert conditions.condition(store.object(key), "Terminating")["reason"] == "InstanceDeletionInProgress"
    await store.txn([], [establish.Delete(held)])
    assert await definitions.reconcile("t", "foos.example.com")
    await settled(definitions)
    assert store.records == {}
    assert catalogue.find("t", "example.com", "v1", "foos") is None


async def test_objects_that_wait_for_their_finalizers_are_not_decoded(world):
    _, store, definitions = world
    prefix = collection_key("t", custom_group("example.com"), "foos")
    metadata = {"finalizers": ["x/y"], "deletionTimestamp": NOW, "name": "a"}
    value = msgspec.json.encode({"metadata": metadata, "spec": "x" * 20_000})
    spoilt = value[:-3] + b"\xff" + value[-2:]  # not decoded, it is no error
    for number in range(establish.PAGE):
        await store.txn([], [Put(f"{prefix}ns/{number:03}", spoilt)])
    rounds = []

    async def others():
        while True:
            rounds.append(len(rounds))
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert not await definitions._delete_objects(prefix)
    task.cancel()
    assert len(rounds) >= 4


async def test_a_marked_object_keeps_what_it_has(world):
    _, store, definitions = world
    key = object_key("t", custom_group("example.com"), "foos", "ns", "a")
    made = {
        "metadata": {"name": "a", "finalizers": ["x/y"], "annotations": {"b": "ä"}},
        "spec": {"c": [1.50, None]},
    }
    await put(store, key, made)
    assert not await definitions._delete_objects(collection_key("t", custom_group("example.com"), "foos"))
    marks = {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}
    assert list(store.object(key)) == ["metadata", "spec"]
    assert store.object(key) == {**made, "metadata": {**made["metadata"], **marks}}


async def test_work_left_over_from_before_a_restart_is_found(world):
    _, store, _ = world
    made = definition()
    await put(store, key_of("t", made), made)
    again = controller(store, Catalogue())
    await again.resume(["t", "u"])
    task = asyncio.create_task(again.run())
    for _ in range(100):
        await asyncio.sleep(0)
    task.cancel()
    assert conditions.is_true(store.object(key_of("t", made)), "Established")


async def test_a_tenant_loaded_late_sees_the_same(world):
    _, store, definitions = world
    made = definition()
    await put(store, key_of("t", made), made)
    await settled(definitions)
    late = Catalogue()
    assert not late.loaded("t")
    await late.load("t", store)
    assert [each.plural for each in late.resources("t")] == ["foos"]
    late.forget("t")
    assert late.resources("t") == []


async def test_objects_are_brought_to_the_version_of_the_request(world):
    catalogue, store, definitions = world
    made = definition()
    made["spec"]["versions"].append({**made["spec"]["versions"][0], "name": "v2", "storage": False})
    made["metadata"]["generation"] = 2
    await put(store, key_of("t", made), made)
    await settled(definitions)
    served = catalogue.find("t", "example.com", "v2", "foos")
    assert not served.direct
    (loaded,) = await served.load(
        [{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"old": 1}}]
    )
    assert loaded == {
        "apiVersion": "example.com/v2",
        "kind": "Foo",
        "metadata": {"name": "a"},
        "spec": {"size": "m"},
    }
    assert (await served.store(loaded))["apiVersion"] == "example.com/v1"
    assert served.behaviour.fields(loaded) == {"spec.size": "m"}


async def test_newer_versions_come_first(world):
    catalogue, store, definitions = world
    made = definition()
    first = made["spec"]["versions"][0]
    made["spec"]["versions"] += [
        {**first, "name": name, "storage": False} for name in ("v1beta1", "v2", "v2alpha1")
    ]
    await put(store, key_of("t", made), made)
    await settled(definitions)
    assert [each.version for each in catalogue.resources("t")] == ["v2", "v1", "v1beta1", "v2alpha1"]


def test_conditions_settle_once():
    made = definition()
    assert update_status(made, [], NOW)
    assert not update_status(made, [], "2027-01-01T00:00:00Z")


def test_definitions_in_groups_of_kubernetes_tell_their_approval():
    made = definition(group="x.io")
    made["spec"]["group"] = "x.k8s.io"
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, testing"}
    update_status(made, [], NOW)
    found = conditions.condition(made, "KubernetesAPIApprovalPolicyConformant")
    assert (found["status"], found["reason"]) == ("False", "UnapprovedAnnotation")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("t/apiextensions.k8s.io/customresourcedefinitions/foos.example.com", True),
        ("t/core/pods/ns/a", False),
        ("t/apiextensions.k8s.io/other/foos.example.com", False),
    ],
)
def test_keys_of_definitions_are_told_apart(key, expected):
    assert is_definition(key) is expected


@pytest.mark.parametrize("text", [b'{"spec":5}', b"{}", b'{"spec":{"versions":[{}]}}', b"no JSON"])
async def test_a_definition_that_cannot_be_read_is_not_served_and_keeps_no_other_from_it(text):
    store, catalogue = Memory(), Catalogue()
    made = definition()
    update_status(made, [], NOW)
    await put(store, key_of("t", made), made)
    await store.txn([], [Put(key_of("t", {"metadata": {"name": "poison.example.com"}}), text)])

    await catalogue.load("t", store)

    assert [each.plural for each in catalogue.resources("t")] == ["foos"]


def served_to(catalogue, tenant):
    return [each.plural for each in catalogue.resources(tenant)]


async def test_kinds_of_all_tenants_are_shared_and_those_of_the_pool_follow_the_tenant():
    pool = {"t", "u"}
    catalogue = Catalogue(
        shared=served.established(served.GRANTS),
        of_pool=served.established(served.NETWORKS),
        in_pool=pool.__contains__,
    )
    await catalogue.load("t", Memory(catalogue.apply))
    for tenant in ("t", "u"):
        assert served_to(catalogue, tenant) == ["networks", "tenantgrantoffers", "tenantgrants"]
    group, version = "tenancy.x-k8s.io", "v1alpha1"
    network = catalogue.find("t", group, version, "networks")
    assert network is catalogue.shared_kind("u", group, version, "networks")
    pool.clear()
    for tenant in ("t", "u"):
        assert served_to(catalogue, tenant) == ["tenantgrantoffers", "tenantgrants"]
    assert catalogue.find("t", group, version, "networks") is None
    pool.add("t")
    assert catalogue.find("t", group, version, "networks") is network
    assert served_to(catalogue, "system") == []
