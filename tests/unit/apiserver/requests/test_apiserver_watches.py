"""Watches: first event, later events and end."""

import asyncio

import pytest

from vcsync.apimachinery.wire import encode
from vcsync.apiserver.storage.interface import Put

BASE = "/api/v1/namespaces/default/configmaps"
LISTED = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def changes(events):
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def version(api) -> str:
    return (await api("GET", BASE))["metadata.resourceVersion"]


async def test_changes_are_delivered_in_order(api, config_map):
    start = await version(api)
    await api("POST", BASE, config_map("a"))
    await api("PUT", f"{BASE}/a", {"metadata": {"name": "a"}, "data": {"k": "w"}})
    await api("DELETE", f"{BASE}/a")
    events = await api.watch(f"{BASE}?watch=1&resourceVersion={start}", 3)
    assert changes(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[2]["object"]["data"] == {"k": "w"}


async def test_a_watch_without_a_version_begins_with_the_current_objects(api, config_map):
    await api("POST", BASE, config_map("a"))
    stream = await api.stream(f"{BASE}?watch=1")
    first = await anext(stream)
    await api("POST", BASE, config_map("b"))
    second = await asyncio.wait_for(anext(stream), 10)
    await stream.aclose()
    assert changes([first, second]) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_streamed_list_ends_with_a_bookmark(api, config_map):
    for name in "abc":
        await api("POST", BASE, config_map(name))
    events = await api.watch(f"{BASE}?watch=1&{LISTED}", 4)
    assert changes(events) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("BOOKMARK", "")]
    mark = events[3]["object"]
    assert mark["kind"] == "ConfigMap"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["metadata"]["resourceVersion"] == await version(api)


async def test_an_object_enters_and_leaves_a_selection(api, config_map):
    start = await version(api)
    await api("POST", BASE, config_map("a", x="1"))
    merge = {"Content_Type": "application/merge-patch+json"}
    await api("PATCH", f"{BASE}/a", {"metadata": {"labels": {"x": "2"}}}, **merge)
    await api("PATCH", f"{BASE}/a", {"data": {"k": "w"}}, **merge)
    await api("PATCH", f"{BASE}/a", {"metadata": {"labels": {"x": "1"}}}, **merge)
    await api("DELETE", f"{BASE}/a")
    events = await api.watch(f"{BASE}?watch=1&resourceVersion={start}&labelSelector=x%3D2", 3)
    assert changes(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[2]["object"]["metadata"]["labels"] == {"x": "2"}
    assert int(events[2]["object"]["metadata"]["resourceVersion"]) > int(
        events[1]["object"]["metadata"]["resourceVersion"]
    )


async def test_pods_are_watched_by_their_node(api):
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    start = await version(api)
    made = await api("POST", "/api/v1/namespaces/default/pods", pod)
    assert made.status == 201, made.body
    bound = await api(
        "POST",
        "/api/v1/namespaces/default/pods/p/binding",
        {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}},
    )
    assert bound.status == 201, bound.body
    events = await api.watch(
        f"/api/v1/pods?watch=1&resourceVersion={start}&fieldSelector=spec.nodeName%3Dn", 1
    )
    assert changes(events) == [("ADDED", "p")]


async def test_one_watch_covers_all_tenants(api, config_map):
    start = await version(api)
    stream = await api.stream(f"/api/v1/tenants/all/configmaps?watch=1&resourceVersion={start}")
    await api("POST", f"/tenants/b{BASE}", config_map("b"))
    await api("POST", BASE, config_map("a"))
    events = [await asyncio.wait_for(anext(stream), 10) for _ in range(2)]
    await stream.aclose()
    assert [event["object"]["metadata"]["tenant"] for event in events] == ["b", "a"]


async def test_a_tenant_sees_its_own_changes_only(api, config_map):
    start = await version(api)
    await api("POST", f"/tenants/b{BASE}", config_map("b"))
    await api("POST", BASE, config_map("a"))
    assert changes(await api.watch(f"{BASE}?watch=1&resourceVersion={start}", 1)) == [("ADDED", "a")]


async def test_a_namespace_is_not_mistaken_for_one_with_a_longer_name(api, config_map):
    await api("POST", "/api/v1/namespaces", {"metadata": {"name": "default-2"}})
    start = await version(api)
    await api("POST", "/api/v1/namespaces/default-2/configmaps", config_map("x"))
    await api("POST", BASE, config_map("a"))
    assert changes(await api.watch(f"{BASE}?watch=1&resourceVersion={start}", 1)) == [("ADDED", "a")]


async def test_a_watch_from_compacted_history_is_expired(api, store, config_map):
    await api("POST", BASE, config_map("a"))
    api.control_plane._cacher._oldest_revision = await store.revision()
    await store.compact(await store.revision())
    events = await api.watch(f"{BASE}?watch=1&resourceVersion=1", 1)
    assert events[0]["type"] == "ERROR"
    assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")


async def test_history_beyond_the_cache_is_read_from_the_store(api, config_map):
    start = await version(api)
    for name in "abc":
        await api("POST", BASE, config_map(name))
    await api.watch(f"{BASE}?watch=1&resourceVersion={start}", 3)
    cacher = api.control_plane._cacher
    cacher._recent.clear()
    cacher._oldest_revision = cacher.position
    events = await api.watch(f"{BASE}?watch=1&resourceVersion={start}", 3)
    assert changes(events) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_a_slow_watch_is_ended(api, config_map, monkeypatch):
    monkeypatch.setattr("vcsync.apiserver.watch.cacher.MAX_WAITING", 3)
    stream = await api.stream(f"{BASE}?watch=1&resourceVersion={await version(api)}")
    await api("POST", BASE, config_map("a"))
    assert (await asyncio.wait_for(anext(stream), 10))["type"] == "ADDED"
    for number in range(8):
        await api("POST", BASE, config_map(f"c{number}"))
    await api.watch(f"{BASE}?watch=1", 9)
    async with asyncio.timeout(10):
        rest = [event async for event in stream]
    assert len(rest) < 8


async def test_an_event_is_encoded_once_for_all_watches(api, config_map, monkeypatch):
    calls = []
    original = encode.watch_event
    monkeypatch.setattr(encode, "watch_event", lambda change, obj: calls.append(1) or original(change, obj))
    start = await version(api)
    streams = [await api.stream(f"{BASE}?watch=1&resourceVersion={start}") for _ in range(5)]
    waiting = [asyncio.create_task(anext(stream)) for stream in streams]
    await asyncio.sleep(0)
    await api("POST", BASE, config_map("a"))
    assert {changes([await asyncio.wait_for(task, 10)])[0] for task in waiting} == {("ADDED", "a")}
    for stream in streams:
        await stream.aclose()
    assert len(calls) == 1


async def test_watches_end_when_the_server_stops(plane, api):
    stream = await api.stream(f"{BASE}?watch=1&resourceVersion={await version(api)}")
    waiting = asyncio.create_task(anext(stream, None))
    await asyncio.sleep(0)
    plane._cacher.close()
    assert await asyncio.wait_for(waiting, 10) is None


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("watch=1&resourceVersion=x", 400),
        ("watch=1&resourceVersion=-1", 400),
        ("watch=1&continue=x", 422),
        ("watch=1&sendInitialEvents=true", 422),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422),
        ("watch=1&timeoutSeconds=x", 400),
    ],
)
async def test_invalid_watches_are_refused(api, query, status):
    assert (await api("GET", f"{BASE}?{query}")).status == status


async def test_keys_that_are_not_objects_do_not_disturb_watches(api, store, config_map):
    start = await version(api)
    await store.txn((), (Put("~own", b"{}"), Put("a/~claims", b"{}"), Put("~own/x/y/z", b"{}")))
    await api("POST", BASE, config_map("a"))
    assert changes(await api.watch(f"{BASE}?watch=1&resourceVersion={start}", 1)) == [("ADDED", "a")]
    assert changes(await api.watch(f"/api/v1/tenants/all/configmaps?watch=1&resourceVersion={start}", 1)) == [
        ("ADDED", "a")
    ]


async def test_a_watch_of_tables_with_a_wrong_includeobject_is_refused(api):
    answer = await api(
        "GET",
        "/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=1&includeObject=x",
        Accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    assert answer.status == 400


@pytest.mark.parametrize(("field", "status"), [("one", 200), ("two", 400)])
async def test_a_watch_of_one_object_selects_that_object(api, config_map, field, status):
    await api("POST", BASE, config_map("one"))
    path = f"/api/v1/watch/namespaces/default/configmaps/one?fieldSelector=metadata.name={field}"
    if status == 400:
        found = await api("GET", path)
        assert (found.status, found.body["message"]) == (
            400,
            "fieldSelector metadata.name doesn't match requested name",
        )
    else:
        (event,) = await api.watch(path, 1)
        assert event["object"]["metadata"]["name"] == "one"
