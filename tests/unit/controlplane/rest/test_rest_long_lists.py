"""Long lists: the same answer as short ones give, made while it is sent, and others have their turn meanwhile."""

import gzip
import re

import aiohttp
import msgspec
import pytest

from vcsync.controlplane.rest import answers, reading
from vcsync.controlplane.store.interface import Compacted, Delete, Put

BASE = "/api/v1/namespaces/default/configmaps"
COUNT = 23
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
FORMS = ["application/json", TABLE, PARTIAL, "application/yaml", "application/vnd.kubernetes.protobuf"]


@pytest.fixture
async def filled(api, store, config_map):
    await api("POST", BASE, config_map("n00", odd="no"))
    fresh = (await store.get("a/core/configmaps/default/n00"))[0].value
    value = re.sub(rb'("creationTimestamp":)"[^"]*"', rb'\1"2020-01-01T00:00:00Z"', fresh)
    assert value != fresh, "ages that change between two lists of a test"
    names = [f"n{number:02}" for number in range(1, COUNT)]
    puts = [Put("a/core/configmaps/default/n00", value)]
    puts += [
        Put(
            f"a/core/configmaps/default/{name}",
            value.replace(b"n00", name.encode()).replace(b'"no"', b'"yes"' if at % 2 == 0 else b'"no"'),
        )
        for at, name in enumerate(names)
    ]
    await store.txn([], puts)
    return ["n00", *names]


@pytest.fixture
def short_pages(monkeypatch):
    monkeypatch.setattr(reading, "PAGE", 3)
    monkeypatch.setattr(reading, "WHOLE", 6)
    monkeypatch.setattr(answers, "AT_ONCE", 2)
    monkeypatch.setattr(answers, "CHEAP_AT_ONCE", 2)


async def told(plane, path, accept="application/json", encoding="identity") -> bytes:
    url = f"http://127.0.0.1:{plane.server.port}{path}"
    headers = {"Accept": accept, "Accept-Encoding": encoding}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(url, headers=headers) as answer,
    ):
        assert answer.status == 200
        return await answer.read()


@pytest.mark.parametrize("query", ["", "?labelSelector=odd%3Dyes", "?labelSelector=nowhere"])
@pytest.mark.parametrize("accept", FORMS)
async def test_a_long_list_is_the_same_in_pieces(plane, filled, request, accept, query):
    at_once = await told(plane, BASE + query, accept)
    request.getfixturevalue("short_pages")
    assert await told(plane, BASE + query, accept) == at_once


async def test_long_lists_are_compressed_piece_by_piece(plane, filled, short_pages):
    plain = await told(plane, BASE)
    assert gzip.decompress(await told(plane, BASE, encoding="gzip")) == plain
    assert [each["metadata"]["name"] for each in msgspec.json.decode(plain)["items"]] == filled


async def test_a_long_list_is_one_snapshot(api, store, filled, short_pages):
    answer, _ = await api._go("GET", BASE, None, {})
    pieces = [await anext(answer.rest)]
    await store.txn([], [Delete(f"a/core/configmaps/default/{filled[-1]}")])
    pieces += [each async for each in answer.rest]
    found = msgspec.json.decode(b"".join(pieces))
    assert [each["metadata"]["name"] for each in found["items"]] == filled


async def test_all_tenants_are_listed_in_pieces(api, plane, filled, short_pages, config_map):
    await api("POST", f"/tenants/b{BASE}", config_map("last"))
    found = msgspec.json.decode(await told(plane, "/tenants/all/api/v1/namespaces/default/configmaps"))
    names = [(each["metadata"]["tenant"], each["metadata"]["name"]) for each in found["items"]]
    assert names == [*(("a", name) for name in filled), ("b", "last")]


async def test_an_answer_that_cannot_be_ended_is_cut_off(plane, store, filled, short_pages, monkeypatch):
    real, calls = store.range, 0

    async def forgetful(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls > 4:
            raise Compacted(99)
        return await real(*arguments, **options)

    monkeypatch.setattr(store, "range", forgetful)
    with pytest.raises(aiohttp.ClientPayloadError):
        await told(plane, BASE)


async def test_an_initial_list_that_is_long_is_told_in_order(api, filled, short_pages):
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = await api.watch(f"{BASE}?watch=1&{query}", COUNT + 1)
    assert [each["object"]["metadata"].get("name") for each in events] == [*filled, None]


async def test_a_collection_that_is_long_is_deleted_whole(api, filled, short_pages):
    assert (await api("DELETE", BASE)).status == 200
    assert (await api("GET", BASE))["items"] == []
