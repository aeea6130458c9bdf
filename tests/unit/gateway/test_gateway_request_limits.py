"""Limits of requests at the door, by real requests over HTTP."""

import asyncio
from contextlib import suppress

import msgspec
import pytest
from door_kit import SECONDS, ApiServer, Door, Received

from vcsync.apiserver.serving.retry_delay import RetryDelay
from vcsync.apiserver.tenants.request_limits import RequestLimits, TenantLimits

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
EXEC = "/api/v1/namespaces/default/pods/p/exec?command=sh"
OK, REFUSED = 200, 429


@pytest.fixture(autouse=True)
def _no_time_passes(door: Door) -> None:
    limiter = door.plane.server.chain._limiter
    assert limiter is not None
    limiter._clock = lambda: 1.0


async def limit(door: Door, tenant: str, **limits: object) -> None:
    await door.identity.lifecycle.limit_requests(tenant, limits=TenantLimits(**limits))  # type: ignore[arg-type]


async def statuses(
    door: Door, count: int, line: str = f"GET {CONFIG_MAPS}", token: str = "boss-token"
) -> list[int]:
    return [(await door.request(line, token=token))[0] for _ in range(count)]


async def passes(door: Door, line: str = f"GET {CONFIG_MAPS}", token: str = "boss-token") -> None:
    """Wait until a request passes."""
    async with asyncio.timeout(SECONDS):
        while (await door.request(line, token=token))[0] == REFUSED:
            await asyncio.sleep(0.05)


async def opened(door: Door, line: str, token: str, *headers: str) -> tuple[int, asyncio.StreamWriter]:
    """Send a request, and return the status with the connection, which stays open."""
    reader, writer = await door.connect()
    lines = [f"{line} HTTP/1.1", "Host: door", f"Authorization: Bearer {token}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1]), writer


async def test_refusals_are_delayed_by_the_retry_after_of_their_own_connection(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed: list[tuple[RetryDelay, float]] = []

    def record(connection: RetryDelay, retry_after: float, _: float) -> float:
        delayed.append((connection, retry_after))
        return 0.0

    monkeypatch.setattr(RetryDelay, "next", record)
    await limit(door, "acme", reads_per_second=1, read_burst=1)
    request = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer boss-token\r\n"
    answer = await door.raw((f"{request}\r\n" * 2 + f"{request}Connection: close\r\n\r\n").encode())
    assert [int(each[:3]) for each in answer.decode().split("HTTP/1.1 ")[1:]] == [OK, REFUSED, REFUSED]
    assert await statuses(door, 1) == [REFUSED]
    (first, seconds), second, other = delayed
    assert (seconds, second, other[1]) == (1, (first, 1), 1)
    assert other[0] is not first


async def test_a_client_that_leaves_while_its_refusal_is_delayed_is_counted(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed = asyncio.Event()

    def forever(*_: object) -> float:
        delayed.set()
        return 3600.0

    monkeypatch.setattr(RetryDelay, "next", forever)
    await limit(door, "acme", reads_per_second=1, read_burst=1)
    _, writer = await door.connect()
    request = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer boss-token\r\n\r\n"
    writer.write(request.encode() * 2)
    async with asyncio.timeout(SECONDS):
        await delayed.wait()
    writer.close()
    counted = door.plane.server._metrics.requests.labels("list", str(REFUSED))
    assert counted._value.get() == 1


@pytest.mark.parametrize(("tenant", "token"), [("acme", "boss-token"), ("umbrella", "alice-token")])
async def test_embedded_and_external_tenants_are_limited(door: Door, tenant: str, token: str) -> None:
    await limit(door, tenant, reads_per_second=1, read_burst=3, writes_per_second=1, write_burst=1)
    assert await statuses(door, 5, token=token) == [OK] * 3 + [REFUSED] * 2
    _, headers, body = await door.request(f"GET {CONFIG_MAPS}", token=token)
    told = msgspec.json.decode(body)
    assert f'tenant "{tenant}" has reached its limit of 1 reads per second' in told["message"]
    assert (headers["retry-after"], told["details"]["retryAfterSeconds"]) == ("1", 1)
    other = "alice-token" if tenant == "acme" else "boss-token"
    assert await statuses(door, 10, token=other) == [OK] * 10


async def test_a_refused_request_does_not_reach_the_external_api_server(
    door: Door, upstream: ApiServer
) -> None:
    await limit(door, "umbrella", reads_per_second=1, read_burst=1)
    assert await statuses(door, 4, token="alice-token") == [OK] + [REFUSED] * 3
    # Neither does the review that impersonation needs.
    await door.request(f"GET {CONFIG_MAPS}", [("Impersonate-User", "bob")])
    assert (len(upstream.received), len(upstream.reviews)) == (1, 0)


async def test_system_callers_pass_whatever_the_limit_is(door: Door) -> None:
    await limit(door, "acme", reads_per_second=1, read_burst=1, concurrent_requests=1)
    line = f"GET /tenants/acme{CONFIG_MAPS}"
    assert await statuses(door, 20, line, "operator-token") == [OK] * 20


async def test_a_limit_takes_effect_and_ends_without_a_restart(door: Door) -> None:
    assert await statuses(door, 10) == [OK] * 10
    await limit(door, "acme", reads_per_second=1, read_burst=1)
    assert await statuses(door, 3) == [OK] + [REFUSED] * 2
    await door.identity.lifecycle.limit_requests("acme", limits=None)
    assert await statuses(door, 10) == [OK] * 10


async def test_the_user_of_the_credentials_counts_whoever_is_impersonated(door: Door) -> None:
    await limit(door, "acme", user=RequestLimits(reads_per_second=1, read_burst=2))
    found = [
        (
            await door.request(
                f"GET {CONFIG_MAPS}", [("Impersonate-User", f"user-{number}")], token="boss-token"
            )
        )[0]
        for number in range(6)
    ]
    assert found.count(REFUSED) == 4
    assert (await door.request("GET /api", token="ann-token"))[0] == OK


async def test_anonymous_requests_use_up_nothing_and_reveal_nothing(door: Door) -> None:
    await limit(door, "acme", reads_per_second=1, read_burst=1)
    for path in (CONFIG_MAPS, "/version"):
        answers = {
            (tenant, (await door.request(f"GET /tenants/{tenant}{path}", token=""))[0])
            for tenant in ("acme", "no-such")
            for _ in range(5)
        }
        assert len({status for _, status in answers}) == 1
    assert (await door.request(f"GET {CONFIG_MAPS}", token="boss-token"))[0] == OK


async def test_upgraded_connections_count_as_concurrent_requests_until_they_end(
    door: Door, upstream: ApiServer
) -> None:
    async def tunnel(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: x\r\n\r\n"
        )
        await writer.drain()
        await reader.read()

    await limit(door, "umbrella", concurrent_requests=2)
    upstream.answer = tunnel
    upgrade = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: eA==",
    )
    tunnels = [await opened(door, f"GET {EXEC}", "alice-token", *upgrade) for _ in range(2)]
    assert [status for status, _ in tunnels] == [101, 101]
    upstream.answer = None
    status, _, body = await door.request(f"GET {CONFIG_MAPS}")
    assert (status, b"2 concurrent requests" in body) == (REFUSED, True)
    for _, writer in tunnels:
        writer.close()
    await passes(door, token="alice-token")


async def test_watches_count_until_they_end_and_open_ones_stay(door: Door) -> None:
    await limit(door, "acme", watches=2, concurrent_requests=5)
    line = f"GET {CONFIG_MAPS}?watch=1"
    watches = [await opened(door, line, "boss-token") for _ in range(3)]
    assert [status for status, _ in watches] == [OK, OK, REFUSED]
    assert await statuses(door, 5) == [OK] * 5
    watches[0][1].close()
    async with asyncio.timeout(SECONDS):
        while (again := await opened(door, line, "boss-token"))[0] == REFUSED:
            again[1].close()
            await asyncio.sleep(0.05)
    for _, writer in (*watches, again):
        writer.close()


async def test_large_answers_are_paid_for_by_later_requests(door: Door) -> None:
    body = msgspec.json.encode({"metadata": {"name": "large"}, "data": {"k": "v" * 200_000}})
    json = [("Content-Type", "application/json")]
    assert (await door.request(f"POST {CONFIG_MAPS}", json, body, token="boss-token"))[0] == 201
    await limit(door, "acme", bytes_per_second=100)
    assert (await door.request(f"GET {CONFIG_MAPS}/large", token="boss-token"))[0] == OK
    status, headers, told = await door.request(f"GET {CONFIG_MAPS}", token="boss-token")
    assert (status, b"100 bytes per second" in told) == (REFUSED, True)
    assert int(headers["retry-after"]) > 1000


async def test_a_stream_of_an_external_tenant_is_slowed_down(door: Door, upstream: ApiServer) -> None:
    async def chatter(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            await writer.drain()

    upstream.answer = chatter
    await limit(door, "umbrella", bytes_per_second=1000)
    reader, writer = await door.connect()
    line = "GET /api/v1/namespaces/default/pods/p/log?follow=true HTTP/1.1"
    writer.write(f"{line}\r\nHost: door\r\nAuthorization: Bearer alice-token\r\n\r\n".encode())
    got = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            while True:
                got += len(await reader.read(2**16))
    assert 0 < got < 200_000
    writer.close()


async def test_the_weight_of_a_tenant_is_that_of_its_seats(door: Door) -> None:
    gate = door.plane.server.chain._gate
    assert gate is not None
    assert await statuses(door, 1) == [OK]
    assert gate.spaces["acme"].weight == 1
    await door.identity.lifecycle.limit_requests("acme", weight=4)
    async with asyncio.timeout(SECONDS):
        while gate.spaces["acme"].weight != 4:
            assert await statuses(door, 1) == [OK]
            await asyncio.sleep(0.05)


async def test_a_request_without_limits_has_no_passage(door: Door) -> None:
    assert await statuses(door, 3) == [OK] * 3
    limiter = door.plane.server.chain._limiter
    assert limiter is not None
    assert not limiter._states
