"""Many LimitRanges and ResourceQuotas in one namespace: each write stays short, and other tasks run in between."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission import limits
from vcsync.apiserver.admission import quotas as quotas_room
from vcsync.apiserver.admission.framework import decoded as decoding
from vcsync.apiserver.admission.framework.decoded import Decoded, decoded
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.storage.interface import Put, Record

PIECE = 2000
"""Steps of a budget after which other tasks run."""


def pod(containers):
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    spec = {"containers": [{"name": f"c{at}", "resources": resources} for at in range(containers)]}
    return {"metadata": {"name": "p"}, "spec": spec}


def record(name, value, revision=1):
    return Record(f"a/core/x/n/{name}", msgspec.json.encode(value), 1, revision)


@pytest.fixture
def compared(monkeypatch):
    """The names of the bounds that have been compared."""
    seen = []
    checks = {
        field: lambda kind, name, *rest, check=check: (seen.append(name), check(kind, name, *rest))[1]
        for field, check in limits._CHECKS.items()
    }
    monkeypatch.setattr(limits, "_CHECKS", checks)
    return seen


async def beside(work, seen):
    """Run work, and return the most that was seen between two turns of another task."""
    task, sizes = asyncio.ensure_future(work), [0]
    while not task.done():
        sizes.append(len(seen))
        await asyncio.sleep(0)
    await task
    return max(b - a for a, b in pairwise(sizes))


async def test_other_tasks_run_while_many_limitranges_are_compared(admit, things, compared):
    for at in range(1000):
        things.add(
            "", "limitranges", f"l{at}", "n", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}}]}
        )
    most = await beside(admit(limits.limit_bounds, pod(10)), compared)
    assert len(compared) == 10_000
    assert most <= PIECE / limits.COMPARISON_STEPS + 1


@pytest.mark.parametrize("field", ["max", "default"])
@pytest.mark.parametrize("plugin", [limits.limit_bounds, limits.limit_defaults])
async def test_a_pod_with_too_many_comparisons_is_refused(admit, things, compared, field, plugin):
    bounds = {f"x.example.com/{at}": "1" for at in range(2000)}
    bounds |= {"cpu": "2"}
    things.add("", "limitranges", "l", "n", spec={"limits": [{"type": "Container", field: bounds}]})
    given = pod(60)
    for each in given["spec"]["containers"]:
        each["resources"] = {"requests": bounds, "limits": bounds}
    if (field == "max") != (plugin is limits.limit_bounds):
        await admit(plugin, given)
        return
    with pytest.raises(StatusError, match="use fewer LimitRanges or fewer containers") as refused:
        await admit(plugin, given)
    assert refused.value.code == 403
    assert len(compared) <= limits.MAX_COMPARISONS + 1


async def test_a_hundred_limitranges_of_usual_size_concern_many_containers(admit, things):
    usual = {
        "type": "Container",
        **{key: {"cpu": "1"} for key in ("min", "max", "default", "defaultRequest")},
    }
    for at in range(100):
        things.add("", "limitranges", f"l{at}", "n", spec={"limits": [usual]})
    await admit(limits.limit_defaults, pod(100))
    await admit(limits.limit_bounds, pod(100))


def test_an_object_is_decoded_once_for_each_change():
    known = Decoded()
    first = known.get(record("one", {"a": 1}))
    assert known.get(record("one", {"a": 1}, revision=2)) is first
    assert known.get(record("one", {"a": 2})) == {"a": 2}
    assert known.get(record("two", {"a": 1})) is not first
    assert known.size == len(b'{"a":2}{"a":1}')


def test_decoded_objects_take_a_limited_memory():
    known = Decoded(1000)
    for at in range(100):
        known.get(record(f"n{at}", {"text": "x" * 80}))
        known.get(record("often", {"a": 1}))
        assert known.size <= 1000
    assert known.get(record("often", {"a": 1})) is known.get(record("often", {"a": 1}))
    large = record("large", {"text": "x" * decoding.MAX_OBJECT})
    assert Decoded(decoding.MAX_OBJECT * 2).get(large) == {"text": "x" * decoding.MAX_OBJECT}
    kept = Decoded(decoding.MAX_OBJECT * 2)
    kept.get(large)
    assert kept.size == 0


@pytest.mark.parametrize(("number", "size"), [(5000, 10), (20, 200_000)])
async def test_other_tasks_run_while_many_objects_are_decoded(monkeypatch, number, size):
    seen = []
    plain = decoding._decoded.get
    monkeypatch.setattr(
        decoding._decoded, "get", lambda each: (seen.append(each.key), plain(each))[1], raising=False
    )
    records = [record(f"n{at}", {"text": "x" * size}) for at in range(number)]
    most = await beside(decoded(records), seen)
    assert len(seen) == number
    assert most <= 1 + PIECE / (decoding.OBJECT_STEPS + size // decoding.BYTES_PER_STEP)


async def test_other_tasks_run_while_many_quotas_are_charged(monkeypatch):
    quotas = [
        record(
            f"q{at}",
            {"metadata": {"name": f"q{at}"}, "status": {"hard": {"pods": "9"}, "used": {"pods": "1"}}},
        )
        for at in range(1000)
    ]

    async def stored(prefix):
        return quotas

    seen = []
    plain = quotas_room.charges

    def charges(*given):
        for each in plain(*given):
            seen.append(each)
            yield each

    monkeypatch.setattr(quotas_room, "charges", charges)
    resource = SimpleNamespace(storage_group="", plural="pods")
    scope = SimpleNamespace(
        tenant="a",
        namespace="n",
        subresource="",
        exists=False,
        kind=SimpleNamespace(resource=resource),
        name="p",
    )
    claims = quotas_room.QuotaClaims(SimpleNamespace(range_cached=stored))
    most = await beside(claims(scope, pod(1), None, dry_run=True), seen)
    assert [each is not None for each in seen] == [True] * 1000
    assert most <= PIECE / quotas_room.QUOTA_STEPS + 1


async def test_objects_that_are_read_one_after_the_other_are_the_same(store):
    names = [f"p{at:02}" for at in range(45)]
    value = msgspec.json.encode
    await store.txn((), [Put(f"a/core/pods/n/{name}", value({"metadata": {"name": name}})) for name in names])
    lookup = Lookup(store)
    found = [each async for each in lookup.each("a", "", "pods", "n")]
    assert found == await lookup.all("a", "", "pods", "n")
    assert [each["metadata"]["name"] for each in found] == names
    assert [each async for each in lookup.each("a", "", "pods", "none")] == []
