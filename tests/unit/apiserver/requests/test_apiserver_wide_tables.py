"""Tables whose rows take long: one Table of an event serves all watches, and other tasks run between rows."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest

from vcsync.apimachinery.crd.columns import columns
from vcsync.apimachinery.tenant_marks import TenantMark
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apimachinery.wire.tables import BEYOND_BUDGET
from vcsync.apiserver.handlers import responses
from vcsync.apiserver.handlers.responses import ResponseEncoder
from vcsync.apiserver.handlers.watch_encoder import WatchEncoder
from vcsync.apiserver.registry.reading import Listed
from vcsync.apiserver.storage.interface import Change, Record
from vcsync.apiserver.watch.cacher import Event
from vcsync.apiserver.watch.watcher import WatchEvent

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = "a/x.example.com/bombs/default/one"
TABLE = Representation("json", target="Table")
LONG = {"additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": ".l[?(@.x)]"}]}
VALUE = msgspec.json.encode({"metadata": {"name": "one"}, "l": [0] * 20_000})


def kind(version=LONG):
    name = "x.example.com/v1"
    resource = SimpleNamespace(
        custom=True,
        kind="Bomb",
        storage_group="x.example.com",
        api_version=name,
        storage_api_version=name,
    )
    return SimpleNamespace(resource=resource, columns=columns(version), direct=True)


@pytest.fixture
def clock():
    return [NOW]


@pytest.fixture
def rows(monkeypatch):
    """The objects of which rows have been made."""
    made = []
    table = responses.tables.custom_table

    def counted(shown, objects, **how):
        made.extend(each["metadata"]["name"] for each in objects)
        return table(shown, objects, **how)

    monkeypatch.setattr(responses.tables, "custom_table", counted)
    return made


def changed():
    event = Event(Change(7, KEY, VALUE, None, 7), "a")
    return WatchEvent("ADDED", VALUE, 7, "a", KEY, event)


async def test_all_watches_share_the_table_of_an_event(rows, clock):
    encoder = ResponseEncoder(lambda: clock[0])
    watches = [WatchEncoder(encoder, kind(), TABLE, {}, TenantMark.NONE) for _ in range(30)]
    event = changed()
    first = await asyncio.gather(*(each.event(event) for each in watches))
    assert len(set(first)) == 1
    assert msgspec.json.decode(first[0])["object"]["rows"][0]["cells"] == ["one", BEYOND_BUDGET]
    assert rows == ["one"]
    second = await asyncio.gather(*(each.event(event) for each in watches))
    assert msgspec.json.decode(second[0])["object"]["columnDefinitions"] is None
    assert rows == ["one"] * 2


@pytest.mark.parametrize(
    ("version", "query", "later"),
    [({}, {}, NOW), (LONG, {"includeObject": ("Object",)}, NOW), (LONG, {}, NOW.replace(second=6))],
)
async def test_a_table_with_other_columns_objects_or_ages_is_made_anew(rows, clock, version, query, later):
    encoder, event = ResponseEncoder(lambda: clock[0]), changed()
    one = await WatchEncoder(encoder, kind(), TABLE, {}, TenantMark.NONE).event(event)
    clock[0] = later
    other = await WatchEncoder(encoder, kind(version), TABLE, query, TenantMark.NONE).event(event)
    assert len(rows) == 2
    assert (one == other) == (later != NOW)


async def test_watches_of_different_forms_take_turns(rows, clock):
    encoder, event = ResponseEncoder(lambda: clock[0]), changed()
    forms = [({}, "v1"), ({}, "v1beta1"), ({"includeObject": ("None",)}, "v1")]
    watches = [
        WatchEncoder(encoder, kind(), Representation("json", target="Table", version=version), query, mark)
        for query, version in forms
        for mark in (TenantMark.NONE, TenantMark.FIELD)
    ]
    seen = []

    async def other():
        while len(rows) < len(watches):
            seen.append(len(rows))
            await asyncio.sleep(0)

    await asyncio.gather(other(), *(each.event(event) for each in watches))
    assert max(b - a for a, b in pairwise(seen)) == 1


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_other_tasks_run_between_the_long_rows_of_a_list(rows, clock, form):
    records = [Record(f"{KEY}{at}", VALUE, 1, at + 1) for at in range(10)]
    seen = []

    async def other():
        while len(rows) < len(records):
            seen.append(len(rows))
            await asyncio.sleep(0)

    found, _ = (
        await asyncio.gather(
            ResponseEncoder(lambda: NOW).encode_list(
                kind(), Listed(records, 9), Representation(form, target="Table"), {}
            ),
            other(),
        )
    )[0]
    assert max(b - a for a, b in pairwise(seen)) == 1
    assert b"".join(found).count(BEYOND_BUDGET.encode()) == len(records)
