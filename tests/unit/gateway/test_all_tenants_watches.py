"""Watches over embedded and external control planes, one of which falls behind, vanishes or lies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from all_tenants_kit import OPENED, PATH, Maps, listed, readable, watch
from door_kit import ApiServer, Door

INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
BOOKMARKS = "allowWatchBookmarks=true"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcsync.gateway.all_tenants.followers.FIRST_RETRY", 0.02)
    monkeypatch.setattr("vcsync.gateway.all_tenants.followers.LAST_RETRY", 0.05)
    monkeypatch.setattr("vcsync.gateway.all_tenants.followers.LOST_SECONDS", 0.2)
    monkeypatch.setattr("vcsync.gateway.all_tenants.watching.CHECK_SECONDS", 0.05)


@pytest.fixture
async def maps(door: Door, upstream: ApiServer) -> AsyncIterator[Maps]:
    """The ConfigMaps a and b of umbrella, and c of acme."""
    found = Maps()
    found.put("a")
    found.put("b")
    upstream.answer = found.answer
    await readable(door, "umbrella", upstream)
    await post(door, "/api/v1/namespaces", "shop")
    await post(door, PATH, "c")
    yield found
    while OPENED:
        writer = OPENED.pop()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    await asyncio.sleep(0.2)  # the fake server notices


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Maps]]:
    server, found = ApiServer(), Maps()
    found.put("d")
    server.answer = found.answer
    (tmp_path / "other").mkdir()
    await server.start(tmp_path / "other")
    yield server, found
    await server.stop()


async def post(door: Door, path: str, name: str) -> None:
    body = msgspec.json.encode({"metadata": {"name": name}})
    line, headers = f"POST /tenants/acme{path}", [("Content-Type", "application/json")]
    assert (await door.request(line, headers, body, "boss-token"))[0] == 201


async def version(door: Door) -> str:
    _, answer, _ = await listed(door)
    found: str = answer["metadata"]["resourceVersion"]
    return found


async def test_events_of_all_parts_come_in_one_stream_with_their_own_versions(door: Door, maps: Maps) -> None:
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={await version(door)}")
    maps.put("a")
    event = await stream.event()
    assert (event["type"], event["object"]["kind"]) == ("MODIFIED", "ConfigMap")
    assert event["object"]["metadata"]["resourceVersion"] == "103"
    reached = (await stream.bookmark())["resourceVersion"]
    await post(door, PATH, "e")
    assert await stream.told(1) == [("ADDED", "acme", "e")]
    maps.delete("b")
    again = await watch(door, f"{BOOKMARKS}&resourceVersion={reached}")
    assert sorted(await again.told(2)) == [("ADDED", "acme", "e"), ("DELETED", "umbrella", "b")]


async def test_the_events_of_all_parts_are_messages_of_one_websocket(door: Door, maps: Maps) -> None:
    reader, writer = await door.connect()
    OPENED.append(writer)
    lines = [
        f"GET /tenants/all+external{PATH}?watch=1&resourceVersion={await version(door)} HTTP/1.1",
        "Host: door",
        "Authorization: Bearer operator-token",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(20):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        found = set()
        for change in (lambda: post(door, PATH, "e"), lambda: maps.put("a")):
            if (waits := change()) is not None:
                await waits
            head = await reader.readexactly(2)
            size = int.from_bytes(await reader.readexactly(2), "big") if head[1] == 126 else head[1]
            event = msgspec.json.decode(await reader.readexactly(size))
            found.add((head[0], event["type"], event["object"]["metadata"]["name"]))
    assert found == {(0x81, "ADDED", "e"), (0x81, "MODIFIED", "a")}


async def test_without_bookmarks_each_event_can_be_continued_from(door: Door, maps: Maps) -> None:
    stream = await watch(door, f"resourceVersion={await version(door)}")
    maps.put("x")
    maps.put("y")
    reached = (await stream.event())["object"]["metadata"]["resourceVersion"]
    again = await watch(door, f"resourceVersion={reached}")
    assert await again.told(1) == [("ADDED", "umbrella", "y")]
    own = await watch(door, "resourceVersion=103")
    assert await own.error() == 410


async def test_all_that_is_there_comes_first(door: Door, maps: Maps) -> None:
    stream = await watch(door, INITIAL)
    assert await stream.told(3) == [
        ("ADDED", "acme", "c"),
        ("ADDED", "umbrella", "a"),
        ("ADDED", "umbrella", "b"),
    ]
    assert (await stream.bookmark())["annotations"] == {"k8s.io/initial-events-end": "true"}
    maps.put("new")
    assert await stream.told(1) == [("ADDED", "umbrella", "new")]


@pytest.mark.parametrize("begun", ["by itself", "by a list", "by pages", "by another watch"])
async def test_a_control_plane_that_fell_behind_is_listed_again_alone(
    door: Door, maps: Maps, begun: str
) -> None:
    maps.put("replaced")
    query = INITIAL
    if begun == "by a list":
        query = f"{BOOKMARKS}&resourceVersion={await version(door)}"
    elif begun == "by pages":
        more = ""
        for _ in range(4):
            _, answer, _ = await listed(door, f"limit=1{more}")
            more = f"&continue={answer['metadata'].get('continue')}"
        query = f"{BOOKMARKS}&resourceVersion={answer['metadata']['resourceVersion']}"
    elif begun == "by another watch":
        first = await watch(door, INITIAL)
        await first.told(4)
        query = f"{BOOKMARKS}&resourceVersion={(await first.bookmark())['resourceVersion']}"
        first.writer.transport.abort()
        await asyncio.sleep(0.3)
    stream = await watch(door, query)
    if begun == "by itself":
        await stream.told(4)
    else:
        maps.put("mark")
        await stream.told(1)
    maps.refuse = lambda target: 500
    maps.cut()
    maps.put("b")
    maps.delete("a")
    maps.delete("replaced")
    maps.put("replaced")
    maps.put("new")
    maps.forget()
    maps.refuse = lambda _: None
    found = await stream.told(5)
    assert sorted(found) == [
        ("ADDED", "umbrella", "new"),
        ("ADDED", "umbrella", "replaced"),
        ("DELETED", "umbrella", "a"),
        ("DELETED", "umbrella", "replaced"),
        ("MODIFIED", "umbrella", "b"),
    ]
    await post(door, PATH, "e")
    assert await stream.told(1) == [("ADDED", "acme", "e")]
    maps.put("after")
    assert await stream.told(1) == [("ADDED", "umbrella", "after")]


async def test_without_memory_the_client_must_list_everything_again(
    door: Door, maps: Maps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.gateway.all_tenants.known_objects.Budget.take", lambda *_: False)
    start = await version(door)
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
    maps.delete("a")
    maps.forget()
    assert await stream.error() == 410
    again = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
    assert await again.error() == 410


async def test_a_lost_control_plane_costs_the_others_nothing_and_is_named(door: Door, maps: Maps) -> None:
    stream = await watch(door, INITIAL)
    await stream.told(3)
    maps.refuse = lambda _: 500
    maps.cut()
    maps.put("unseen")
    await post(door, PATH, "e")
    assert await stream.told(1) == [("ADDED", "acme", "e")]
    while not (annotations := (await stream.bookmark()).get("annotations")):
        pass
    assert annotations == {"tenancy.x-k8s.io/unreachable": "umbrella"}
    maps.refuse = lambda _: None
    assert await stream.told(1) == [("ADDED", "umbrella", "unseen")]
    while (await stream.bookmark()).get("annotations"):
        pass


async def test_a_watch_begins_without_what_is_lost_if_it_continues(door: Door, maps: Maps) -> None:
    start = await version(door)
    maps.refuse = lambda _: 500
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
    await post(door, PATH, "e")
    assert await stream.told(1) == [("ADDED", "acme", "e")]
    refused = await watch(door, INITIAL)
    assert await refused.error() == 503
    partly = await watch(door, INITIAL, "all+reachable")
    assert await partly.told(2) == [("ADDED", "acme", "c"), ("ADDED", "acme", "e")]
    maps.refuse = lambda _: None
    assert await partly.told(2) == [("ADDED", "umbrella", "a"), ("ADDED", "umbrella", "b")]


async def test_control_planes_come_and_go(door: Door, maps: Maps, other: tuple[ApiServer, Maps]) -> None:
    stream = await watch(door, INITIAL)
    await stream.told(3)
    await readable(door, "initech", other[0])
    assert await stream.told(1) == [("ADDED", "initech", "d")]
    await readable(door, "umbrella", other[0], "pods")
    assert sorted(await stream.told(2)) == [("DELETED", "umbrella", "a"), ("DELETED", "umbrella", "b")]
    reached = (await stream.bookmark())["resourceVersion"]
    again = await watch(door, f"{BOOKMARKS}&resourceVersion={reached}")
    other[1].put("f")
    assert await again.told(1) == [("ADDED", "initech", "f")]


async def test_what_is_gone_and_not_remembered_ends_the_watch(
    door: Door, maps: Maps, other: tuple[ApiServer, Maps], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.gateway.all_tenants.known_objects.Budget.take", lambda *_: False)
    start = await version(door)
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
    await post(door, PATH, "e")
    await stream.told(1)
    await readable(door, "umbrella", other[0])
    assert await stream.error() == 410
    again = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
    assert await again.error() == 410


async def test_a_resource_comes_and_goes(door: Door, maps: Maps) -> None:
    maps.refuse = lambda _: 404
    stream = await watch(door, INITIAL)
    assert await stream.told(1) == [("ADDED", "acme", "c")]
    maps.refuse = lambda _: None
    assert await stream.told(2) == [("ADDED", "umbrella", "a"), ("ADDED", "umbrella", "b")]
    maps.refuse = lambda _: 404
    maps.cut()
    assert sorted(await stream.told(2)) == [("DELETED", "umbrella", "a"), ("DELETED", "umbrella", "b")]


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"{}",
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"x"}}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"999","name":5}}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"999","name":"n"},"data":{"k":5}}}',
        b'{"type":"ODD","object":{"metadata":{"resourceVersion":"999"}}}',
        b'{"type":"ERROR","object":{"code":500}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"999","name":"\xff"}}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"999","name":"n"},"data":' + b"[" * 5000,
        b"x" * 5000,
    ],
)
async def test_what_is_no_event_harms_nobody(
    door: Door, maps: Maps, upstream: ApiServer, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.gateway.all_tenants.sources.LINE_BYTES", 4000)
    start = await version(door)
    right = maps.answer

    async def lie(request, reader, writer):  # type: ignore[no-untyped-def]
        if "watch=1" in request.line:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + line + b"\n")
            await writer.drain()
            return
        await right(request, reader, writer)

    upstream.answer = lie
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
    await post(door, PATH, "e")
    assert await stream.told(1) == [("ADDED", "acme", "e")]
    upstream.answer = right
    maps.put("after")
    assert await stream.told(1) == [("ADDED", "umbrella", "after")]


async def test_a_flood_of_one_control_plane_leaves_room_for_others(door: Door, maps: Maps) -> None:
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={await version(door)}")
    for number in range(2000):
        maps.put("a", annotations={"n": str(number)})
    await post(door, PATH, "e")
    before = 0
    while (await stream.told(1))[0][1] != "acme":
        before += 1
    assert before < 2000


async def test_streams_are_limited_and_counted_to_their_end(
    door: Door, maps: Maps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.gateway.all_tenants.handler.MAX_STREAMS", 1)
    start = await version(door)
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
    await post(door, PATH, "e")
    await stream.told(1)
    assert await (await watch(door, f"{BOOKMARKS}&resourceVersion={start}")).error() == 429
    stream.writer.transport.abort()
    for _ in range(100):
        await asyncio.sleep(0.05)
        again = await watch(door, f"{BOOKMARKS}&resourceVersion={start}")
        event = await again.event()
        if event["type"] == "ADDED":
            return
    raise AssertionError("an ended watch still counts")


async def test_a_watch_ends_in_time(door: Door, maps: Maps) -> None:
    stream = await watch(door, f"{BOOKMARKS}&resourceVersion={await version(door)}&timeoutSeconds=1")
    await stream.bookmark()
    with pytest.raises(AssertionError, match="END"):
        await stream.told(1)
