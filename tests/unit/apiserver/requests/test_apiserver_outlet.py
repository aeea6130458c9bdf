"""Events that a watch writes past its stream are immediate, in order, and never repeated."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest

BASE = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


class Client:
    """Reads a stream and takes what comes past it, as long as `room` says so."""

    def __init__(self, answer, room):
        self.answer = answer
        self.room = room
        self.events = []
        self.straight = 0
        self.woken = 0
        self._more = asyncio.Event()
        answer.outlet.write = self._write

    def _write(self, piece):
        if not self.room():
            return False
        self.straight += 1
        self._take(piece)
        return True

    def _take(self, piece):
        self.events += [msgspec.json.decode(line) for line in piece.splitlines()]
        self._more.set()

    async def read(self):
        async for piece in self.answer.pieces:
            self.woken += 1
            self._take(piece)

    async def names(self, count):
        async with asyncio.timeout(20):
            while len(self.events) < count:
                self._more.clear()
                await self._more.wait()
        return [each["object"]["metadata"]["name"] for each in self.events]


@asynccontextmanager
async def watching(api, path, room=lambda: True):
    """A watch of which somebody reads."""
    answer, _ = await api._go("GET", path, None, {})
    client = Client(answer, room)
    reading = asyncio.create_task(client.read())
    await asyncio.sleep(0)
    try:
        yield client
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await answer.pieces.aclose()


async def version(api) -> str:
    return (await api("GET", BASE))["metadata.resourceVersion"]


async def test_events_do_not_wake_streams_that_have_room(api, config_map):
    async with watching(api, f"{BASE}?watch=1&resourceVersion={await version(api)}") as client:
        for name in "abc":
            await api("POST", BASE, config_map(name))
        assert await client.names(3) == ["a", "b", "c"]
        assert (client.straight > 0, client.woken) == (True, 0)


@pytest.mark.parametrize("every", [1, 2, 3])
async def test_events_without_room_are_delivered_by_the_stream_in_order(api, config_map, every):
    asked = iter(range(1000))
    names = [f"n{number:02}" for number in range(20)]
    start = await version(api)
    async with watching(
        api, f"{BASE}?watch=1&resourceVersion={start}", lambda: next(asked) % every > 0
    ) as client:
        for name in names:
            await api("POST", BASE, config_map(name))
        assert await client.names(20) == names
        assert client.woken


async def test_events_from_before_the_start_are_not_repeated(api, config_map):
    await api("POST", BASE, config_map("a"))
    async with watching(
        api, f"{BASE}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    ) as one:
        assert await one.names(1) == ["a"]
        await api("POST", BASE, config_map("b"))
        assert await one.names(2) == ["a", "b"]


async def test_only_selected_events_bypass_the_stream(api, config_map):
    start = await version(api)
    async with watching(api, f"{BASE}?watch=1&resourceVersion={start}&labelSelector=x%3D1") as client:
        await api("POST", BASE, config_map("other"))
        await api("POST", BASE, config_map("wanted", x="1"))
        assert await client.names(1) == ["wanted"]
        assert client.woken == 0


async def test_fields_that_are_not_cached_are_read_by_the_stream(api):
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    path = f"{PODS}?watch=1&resourceVersion={await version(api)}&fieldSelector=spec.nodeName%3Dn"
    async with watching(api, path) as client:
        assert (await api("POST", PODS, pod)).status == 201
        assert await client.names(1) == ["p"]


async def test_a_slow_client_misses_no_events(plane, api, config_map):
    """More than fits into the buffers of a connection waits for it, and what comes then waits behind it."""
    start = await version(api)
    url = f"http://127.0.0.1:{plane.server.port}{BASE}?watch=1&resourceVersion={start}"
    async with aiohttp.ClientSession(read_bufsize=4096) as session, session.get(url) as response:
        names = [f"n{number:03}" for number in range(100)]
        for name in names:
            body = config_map(name)
            body["data"] = {"k": "x" * 200_000}
            await api("POST", BASE, body)
        pieces, lines = [], 0
        async with asyncio.timeout(60):
            while lines < len(names):
                pieces.append(await response.content.readany())
                lines += pieces[-1].count(b"\n")
    seen = b"".join(pieces)
    received = [msgspec.json.decode(line)["object"]["metadata"]["name"] for line in seen.splitlines()]
    assert received == names
