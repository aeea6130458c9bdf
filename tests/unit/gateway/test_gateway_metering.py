"""Metering at the door, by real requests over HTTP."""

import asyncio

import msgspec
import pytest
from door_kit import SECONDS, ApiServer, Door, Received

from vcsync.apiserver.metering.counters import Amounts

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MAP = b'{"metadata":{"name":"one"},"data":{"k":"v"}}'
JSON = ("Content-Type", "application/json")


def amounts(door: Door, tenant: str) -> Amounts:
    return next((used for counters, used in door.meter.totals() if counters.tenant == tenant), Amounts())


async def settled(door: Door, tenant: str) -> Amounts:
    """Return the amounts once the server has finished all requests, which is after clients have their answers."""
    async with asyncio.timeout(SECONDS):
        while True:
            before = amounts(door, tenant)
            await asyncio.sleep(0.05)
            if amounts(door, tenant) == before:
                return before


async def test_requests_and_bodies_of_an_embedded_tenant_are_counted(door: Door) -> None:
    status, _, made = await door.request(f"POST {CONFIG_MAPS}", [JSON], MAP, token="boss-token")
    assert status == 201
    status, _, found = await door.request(f"GET {CONFIG_MAPS}/one", token="boss-token")
    assert status == 200
    status, _, missing = await door.request(f"GET {CONFIG_MAPS}/two", token="boss-token")
    assert status == 404
    expected = Amounts(2, 1, len(MAP), len(made) + len(found) + len(missing))
    assert await settled(door, "acme") == expected


async def test_requests_and_bodies_of_an_external_tenant_are_counted(door: Door, upstream: ApiServer) -> None:
    async def chunked(received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if length := received.header("content-length"):
            await reader.readexactly(int(length[0]))
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        writer.write(b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        await writer.drain()

    upstream.answer = chunked
    status, _, body = await door.request(f"PUT {CONFIG_MAPS}/one", [JSON], MAP)
    assert (status, body) == (200, b"abcdefg")
    status, _, body = await door.request(f"GET {CONFIG_MAPS}")
    assert (status, body) == (200, b"abcdefg")
    assert await settled(door, "umbrella") == Amounts(1, 1, len(MAP), 14)
    assert amounts(door, "acme") == Amounts()


async def test_long_answers_are_counted_as_they_are_sent(door: Door) -> None:
    for number in range(3):
        body = msgspec.json.encode({"metadata": {"name": f"big{number}"}, "data": {"k": "v" * 90_000}})
        await door.request(f"POST {CONFIG_MAPS}", [JSON], body, token="boss-token")
    before = await settled(door, "acme")
    _, headers, packed = await door.request(
        f"GET {CONFIG_MAPS}", [("Accept-Encoding", "gzip")], token="boss-token"
    )
    assert headers["content-encoding"] == "gzip"
    assert (await settled(door, "acme")).bytes_out - before.bytes_out == len(packed)
    before = await settled(door, "acme")
    _, _, plain = await door.request(f"GET {CONFIG_MAPS}", token="boss-token")
    assert len(plain) > 270_000
    assert (await settled(door, "acme")).bytes_out - before.bytes_out == len(plain)


async def test_a_watch_is_counted_while_it_is_open(door: Door) -> None:
    reader, writer = await door.connect()
    head = f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer boss-token\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    status, _, made = await door.request(f"POST {CONFIG_MAPS}", [JSON], MAP, token="boss-token")
    assert status == 201
    async with asyncio.timeout(SECONDS):
        event = b""
        while b'"one"' not in event:
            size = int(await reader.readline(), 16)
            event += await reader.readexactly(size)
            await reader.readexactly(2)
        while not amounts(door, "acme").watch_milliseconds:
            await asyncio.sleep(0.01)
        while amounts(door, "acme").bytes_out != len(event) + len(made):
            await asyncio.sleep(0.01)
    writer.close()
    used = [counters for counters, _ in door.meter.totals() if counters.tenant == "acme"]
    async with asyncio.timeout(SECONDS):
        while used[0].open_watches:
            await asyncio.sleep(0.01)
    closed = amounts(door, "acme").watch_milliseconds
    await asyncio.sleep(0.05)
    assert amounts(door, "acme").watch_milliseconds == closed > 0


@pytest.mark.parametrize("tenant", ["acme", "umbrella", "no-such"])
@pytest.mark.parametrize("token", ["", "wrong", "operator-token"])
async def test_only_the_tenants_own_users_run_up_its_bill(door: Door, tenant: str, token: str) -> None:
    for path in (CONFIG_MAPS, "/version"):
        await door.request(f"GET /tenants/{tenant}{path}", token=token)
    assert list(door.meter.totals()) == []


async def test_a_user_cannot_run_up_the_bill_of_another_tenant(door: Door) -> None:
    for line in (
        f"GET /tenants/umbrella{CONFIG_MAPS}",
        f"GET /tenants/acme/..%2fumbrella{CONFIG_MAPS}",
        f"GET {CONFIG_MAPS}?tenant=umbrella",
    ):
        await door.request(line, token="ann-token")
    await settled(door, "acme")
    assert {counters.tenant for counters, _ in door.meter.totals()} <= {"acme"}


async def test_a_refused_request_counts_for_its_tenant(door: Door) -> None:
    status, _, body = await door.request(f"GET {CONFIG_MAPS}", token="ann-token")
    assert status == 403
    assert await settled(door, "acme") == Amounts(1, 0, 0, len(body))


async def test_the_operator_sees_bounded_metrics_and_tenants_see_none_of_them(door: Door) -> None:
    await door.request(f"GET {CONFIG_MAPS}", token="boss-token")
    await settled(door, "acme")
    _, _, shown = await door.request("GET /metrics", token="operator-token")
    assert b'vcsync_tenant_reads_total{tenant="acme"} 1.0' in shown
    assert b'vcsync_tenant_reads_total{tenant="other"} 0.0' in shown
    _, _, shown = await door.request("GET /metrics", token="boss-token")
    assert b"vcsync_tenant_" not in shown


async def test_the_operators_api_shows_usage_to_the_operator_only(door: Door) -> None:
    await door.request(f"GET {CONFIG_MAPS}", token="boss-token")
    await door.request(f"PATCH {CONFIG_MAPS}/one", [JSON], b"{}")
    await settled(door, "umbrella")
    await door.meter.flush()
    usage = "/vcsync/v1/tenants/{}/usage"
    status, _, body = await door.request(f"GET {usage.format('acme')}", token="operator-token")
    assert status == 200
    # There are two hours if one begins during the test.
    hours = msgspec.json.decode(body)["items"]
    assert {each["tenant"] for each in hours} == {"acme"}
    assert sum(each["reads"] for each in hours) == 1
    assert hours[-1]["objects"] > 5
    _, _, body = await door.request(f"GET {usage.format('all')}", token="operator-token")
    items = msgspec.json.decode(body)["items"]
    used = [(each["tenant"], each["reads"], each["writes"]) for each in items]
    assert [each for each in used if any(each[1:])] == [("acme", 1, 0), ("umbrella", 0, 1)]
    for token in ("boss-token", "alice-token", ""):
        status, _, _ = await door.request(f"GET {usage.format('acme')}", token=token)
        assert status == 403
    _, _, body = await door.request(
        f"GET {usage.format('acme')}?from=2020-01-01&to=2020-02-01", token="operator-token"
    )
    assert msgspec.json.decode(body)["items"] == []
    for query in (
        "from=yesterday",
        "to=now",
        "from=2026-01-02&to=2026-01-01",
        "from=0001-01-01",
        "to=9999-12-31T23:30:00Z",
        "to=9999-12-31T23:30:00-23:00",
        "from=" + "9" * 5000,
    ):
        status, _, body = await door.request(f"GET {usage.format('acme')}?{query}", token="operator-token")
        assert (status, b"give a time" in body) == (400, True), body
