"""Aggregated APIs over HTTP: bodies that arrive in pieces, watches, clients that leave, and the end of the server."""

import asyncio
import contextlib
import json

import aiohttp
import pytest

from hack.aggregated_server import ROOT

GADGETS = f"{ROOT}/namespaces/shop/gadgets"


@pytest.fixture
async def client(plane):
    base = f"http://127.0.0.1:{plane.plane.server.port}"
    async with aiohttp.ClientSession(base) as session:
        yield session


def path(rest):
    return f"/tenants/acme{rest}"


async def test_a_body_in_pieces_arrives_whole(plane, client):
    await plane.register()

    async def pieces():
        for _ in range(50):
            yield b"x" * 4096

    async with client.post(path(f"{ROOT}/callers"), data=pieces()) as answer:
        assert answer.status == 200
        assert (await answer.json())["body"] == "x" * 4096 * 50


async def test_a_large_list_is_streamed(plane, client):
    await plane.register()
    for number in range(40):
        plane.server.gadgets["shop", f"g{number}"] = {
            "metadata": {"name": f"g{number}"},
            "data": "y" * 10_000,
        }
    async with client.get(path(GADGETS)) as answer:
        found = await answer.json()
    assert len(found["items"]) == 40
    assert answer.headers["Content-Type"] == "application/json"


async def test_a_watch_follows_and_its_end_gives_everything_back(plane, client):
    await plane.register()
    async with client.get(path(f"{GADGETS}?watch=true")) as watch:
        await plane("POST", GADGETS, {"metadata": {"name": "a"}})
        async with asyncio.timeout(20):
            event = json.loads(await watch.content.readline())
        assert event["object"]["metadata"]["name"] == "a"
        assert plane.chain._aggregator._open["acme"] == 1
    async with asyncio.timeout(20):
        while plane.chain._aggregator._open:
            await plane(
                "POST", GADGETS, {"metadata": {"name": "b"}}
            )  # the server notices a lost client when it writes
            await asyncio.sleep(0.02)


async def test_a_watch_is_read_from_a_websocket_and_its_end_gives_everything_back(plane, client):
    await plane.register()
    async with client.ws_connect(path(f"{GADGETS}?watch=true")) as watch:
        await plane("POST", GADGETS, {"metadata": {"name": "a"}})
        async with asyncio.timeout(20):
            message = await watch.receive()
        assert message.type is aiohttp.WSMsgType.TEXT
        assert json.loads(message.data)["object"]["metadata"]["name"] == "a"
        assert plane.chain._aggregator._open["acme"] == 1
    async with asyncio.timeout(20):
        while plane.chain._aggregator._open:
            await asyncio.sleep(0.02)


async def test_the_server_ends_with_an_open_watch(plane, client):
    await plane.register()
    async with client.get(path(f"{GADGETS}?watch=true")) as watch:
        async with asyncio.timeout(40):
            await plane.plane.stop()
        with contextlib.suppress(aiohttp.ClientError):
            async with asyncio.timeout(20):
                while await watch.content.readline():
                    pass
