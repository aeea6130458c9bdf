"""Long lists equal short ones, are sent while they are read, and yield to other tasks."""

import gzip
import re

import aiohttp
import msgspec
import pytest

from vcsync.apiserver.handlers import responses
from vcsync.apiserver.registry import reading
from vcsync.apiserver.storage.interface import Compacted, Delete, Put

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
    monkeypatch.setattr(reading, "WHOLE_OBJECTS", 6)
    monkeypatch.setattr(responses, "BATCH", 2)
    monkeypatch.setattr(responses, "DIRECT_BATCH", 2)


async def read_list(plane, path, accept="application/json", encoding="identity") -> bytes:
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
async def test_a_list_in_pieces_equals_the_whole_list(plane, filled, request, accept, query):
    at_once = await read_list(plane, BASE + query, accept)
    request.getfixturevalue("short_pages")
    assert await read_list(plane, BASE + query, accept) == at_once


async def test_long_lists_are_compressed_piece_by_piece(plane, filled, short_pages):
    plain = await read_list(plane, BASE)
    assert gzip.decompress(await read_list(plane, BASE, encoding="gzip")) == plain
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
    found = msgspec.json.decode(await read_list(plane, "/api/v1/tenants/all/namespaces/default/configmaps"))
    names = [(each["metadata"]["tenant"], each["metadata"]["name"]) for each in found["items"]]
    assert names == [*(("a", name) for name in filled), ("b", "last")]


async def test_a_list_that_cannot_be_completed_is_aborted(plane, store, filled, short_pages, monkeypatch):
    real, calls = store.range, 0

    async def forgetful(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls > 4:
            raise Compacted(99)
        return await real(*arguments, **options)

    monkeypatch.setattr(store, "range", forgetful)
    with pytest.raises(aiohttp.ClientPayloadError):
        await read_list(plane, BASE)


async def test_a_long_initial_list_of_a_watch_is_in_order(api, filled, short_pages):
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = await api.watch(f"{BASE}?watch=1&{query}", COUNT + 1)
    assert [each["object"]["metadata"].get("name") for each in events] == [*filled, None]


async def test_a_long_collection_is_deleted_completely(api, filled, short_pages):
    assert (await api("DELETE", BASE)).status == 200
    assert (await api("GET", BASE))["items"] == []
