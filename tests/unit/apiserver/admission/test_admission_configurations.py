import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from vcsync.apiserver.admission.framework.configurations import GROUP, Configurations
from vcsync.apiserver.storage.interface import Change, Record

POLICIES = "validatingadmissionpolicies"


def key(name, tenant="a", plural=POLICIES, group=GROUP):
    return f"{tenant}/{group}/{plural}/{name}"


def value(name):
    return msgspec.json.encode({"metadata": {"name": name}})


class Store:
    """Holds records; `reading` is awaited within each range."""

    def __init__(self, *records):
        self.records = records
        self.ranges = 0
        self.reading = lambda: asyncio.sleep(0)

    async def range(self, prefix):
        self.ranges += 1
        found = [each for each in self.records if each.key.startswith(prefix)]
        await self.reading()
        return SimpleNamespace(records=found)


def record(name, revision, tenant="a"):
    return Record(key(name, tenant), value(name), revision, revision)


def change(name, revision, tenant="a", *, gone=False):
    return Change(revision, key(name, tenant), None if gone else value(name), None, revision)


def names(configuration):
    return [(revision, each["metadata"]["name"]) for revision, each in configuration.of(POLICIES)]


async def test_configurations_are_read_once_and_follow_changes():
    store = Store(record("b", 3), record("a", 2), record("c", 1, tenant="other"))
    known = Configurations(store)
    assert known.known("a") is None
    assert names(await known.load("a")) == [(2, "a"), (3, "b")]
    known.changed([change("c", 4), change("a", 5, gone=True), change("x", 6, tenant="other")])
    assert names(known.known("a")) == [(3, "b"), (4, "c")]
    assert store.ranges == 1


@pytest.mark.parametrize("key", ["a/core/pods/n/x", f"a/{GROUP}", f"a/{GROUP}/x/y/z", "a/other/x"])
async def test_changes_of_other_objects_are_ignored(key):
    known = Configurations(Store())
    await known.load("a")
    known.changed([Change(9, key, b"{}", None, 9)])
    assert not known.known("a").objects


@pytest.mark.parametrize(
    ("meanwhile", "found"),
    [
        (change("a", 7), [(7, "a")]),
        (change("a", 7, gone=True), []),
        (change("b", 7), [(2, "a"), (7, "b")]),
    ],
)
async def test_changes_during_a_read_are_not_lost(meanwhile, found):
    store = Store(record("a", 2))
    known = Configurations(store)

    async def reading():
        known.changed([meanwhile])

    store.reading = reading
    assert names(await known.load("a")) == found
    assert names(known.known("a")) == found


async def test_a_read_during_which_changes_were_missed_is_not_cached():
    store = Store(record("a", 2))
    known = Configurations(store)

    async def reading():
        known.forget()

    store.reading = reading
    assert names(await known.load("a")) == [(2, "a")]
    assert known.known("a") is None


async def test_derived_values_are_computed_again_after_a_change():
    known = Configurations(Store(record("a", 2)))
    found = await known.load("a")
    assert found.make("count", lambda each: [len(each.of(POLICIES))]) is found.make("count", lambda _: None)
    known.changed([change("b", 3)])
    assert found.make("count", lambda each: [len(each.of(POLICIES))]) == [2]


async def test_asynchronously_derived_values_are_computed_once_and_again_after_a_change():
    known = Configurations(Store(record("a", 2)))
    found = await known.load("a")
    go, made = asyncio.Event(), []

    async def make(each):
        made.append(len(each.of(POLICIES)))
        await go.wait()
        return [made[-1]]

    tasks = [asyncio.create_task(found.make_async("count", make)) for _ in range(3)]
    await asyncio.sleep(0)
    known.changed([change("b", 3)])
    go.set()
    assert await asyncio.gather(*tasks) == [[1], [2], [2]]
    assert made == [1, 2]


async def test_the_number_of_cached_tenants_is_bounded():
    known = Configurations(Store(), capacity=2)
    for tenant in "abc":
        await known.load(tenant)
    assert [known.known(each) is None for each in "abc"] == [True, False, False]
