"""The fault proxy in front of a small aiohttp server."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientError, ClientPayloadError, ClientSession, TCPConnector, web
from aiohttp.test_utils import TestServer

from hack.testbed import faults
from hack.testbed.faultproxy import NO_ANSWER, FaultProxy
from hack.testbed.processes import free_ports

LIMIT = 10
EVENT = {"type": "ADDED", "object": {"metadata": {"name": "pod-with-a-name"}}}


class Upstream:
    """Answers like a minimal Kubernetes API; watches send the events of the test."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.watchers = 0
        self.bodies: list[bytes] = []
        app = web.Application(client_max_size=1 << 24)
        app.router.add_get("/api/v1/pods", self.list_or_watch)
        app.router.add_post("/api/v1/pods", self.create)
        app.router.add_delete("/api/v1/pods", self.delete)
        app.router.add_get("/exec", self.websocket)
        self.server = TestServer(app)

    async def list_or_watch(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"items": ["x" * 1000]})
        response = web.StreamResponse()
        await response.prepare(request)
        self.watchers += 1
        try:
            while True:
                await response.write(await self.events.get())
        finally:
            self.watchers -= 1

    async def create(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        return web.json_response({"kind": "Pod"}, status=201)

    async def delete(self, _: web.Request) -> web.Response:
        return web.Response(status=204)

    async def websocket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data.upper())
        return socket

    def send(self, event: object = EVENT) -> None:
        self.events.put_nowait(json.dumps(event).encode() + b"\n")


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    await upstream.server.start_server()
    yield upstream
    await upstream.server.close()


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncIterator[FaultProxy]:
    async with FaultProxy.http("127.0.0.1", upstream.server.port or 0) as proxy:
        yield proxy


@pytest.fixture
async def tcp(upstream: Upstream) -> AsyncIterator[FaultProxy]:
    async with FaultProxy.tcp("127.0.0.1", upstream.server.port or 0) as proxy:
        yield proxy


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    async with asyncio.timeout(LIMIT), ClientSession(connector=TCPConnector()) as session:
        yield session


PODS = "/api/v1/pods"
WATCH = "/api/v1/pods?watch=1&resourceVersion=0"


async def test_requests_pass_and_are_counted(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    for _ in range(2):
        async with client.get(proxy.url + PODS) as answer:
            assert (await answer.json())["items"] == ["x" * 1000]
    async with client.post(proxy.url + PODS, data=b"y" * 300_000) as answer:
        assert answer.status == 201
    async with client.delete(proxy.url + PODS) as answer:
        assert answer.status == 204
    assert upstream.bodies == [b"y" * 300_000]
    assert proxy.seen == {("GET", PODS, 200): 2, ("POST", PODS, 201): 1, ("DELETE", PODS, 204): 1}
    assert proxy.count(method="GET") == 2
    assert proxy.count("/api/.*") == 4
    assert proxy.connections == 1


async def test_chunked_request_bodies_pass(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async with client.post(proxy.url + PODS, data=pieces(), expect100=True) as answer:
        assert answer.status == 201
    assert upstream.bodies == [b"onetwo"]


async def test_watch_events_pass_as_they_come(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    async with client.get(proxy.url + WATCH) as watch:
        for _ in range(3):
            upstream.send()
            assert json.loads(await watch.content.readline()) == EVENT


async def test_upgraded_connections_pass_both_ways(proxy: FaultProxy, client: ClientSession) -> None:
    async with client.ws_connect(proxy.url + "/exec") as socket:
        await socket.send_str("ls")
        assert await socket.receive_str() == "LS"


async def test_closing_a_watch_closes_the_connection_to_the_server(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    async with client.get(proxy.url + WATCH):
        assert upstream.watchers == 1
    while upstream.watchers or proxy.connections:
        await asyncio.sleep(0)


async def test_the_proxy_answers_instead_of_the_server_a_number_of_times(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    proxy.inject(faults.too_many_requests(retry_after=7), times=2)
    statuses = []
    for _ in range(3):
        async with client.post(proxy.url + PODS, data=b"body") as answer:
            statuses.append(answer.status)
            if answer.status == 429:
                assert answer.headers["Retry-After"] == "7"
                assert (await answer.json())["details"] == {"retryAfterSeconds": 7}
    assert statuses == [429, 429, 201]
    assert len(upstream.bodies) == 1


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        (faults.unavailable(), 503, "ServiceUnavailable"),
        (faults.expired(), 410, "Expired"),
        (faults.too_many_requests(), 429, "TooManyRequests"),
    ],
)
async def test_answers_are_statuses(
    proxy: FaultProxy, client: ClientSession, fault: faults.Answer, status: int, reason: str
) -> None:
    with proxy.fault(fault):
        async with client.get(proxy.url + PODS) as answer:
            body = await answer.json()
    assert (answer.status, body["code"], body["reason"], body["kind"]) == (status, status, reason, "Status")
    async with client.get(proxy.url + PODS) as answer:
        assert answer.status == 200


async def test_an_expired_watch_gets_an_error_event(proxy: FaultProxy, client: ClientSession) -> None:
    with proxy.fault(faults.expired(as_event=True), faults.watches):
        async with client.get(proxy.url + WATCH) as answer:
            event = json.loads(await answer.content.readline())
            assert (answer.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)
            assert await answer.content.read() == b""


@pytest.mark.parametrize(
    ("condition", "hit"),
    [
        (faults.next_pages, {"GET ?continue=abc"}),
        (faults.writes, {"POST "}),
        (faults.reads, {"GET ?continue=abc", "GET ?limit=5"}),
        (faults.on("/api/v1/p.*", "POST"), {"POST "}),
        (faults.both(faults.reads, faults.on(".*/pods")), {"GET ?continue=abc", "GET ?limit=5"}),
        (faults.on("/api"), set()),
    ],
)
async def test_faults_apply_only_to_matching_requests(
    proxy: FaultProxy, client: ClientSession, condition: faults.When, hit: set[str]
) -> None:
    proxy.inject(faults.unavailable(), condition)
    refused = set()
    for request in ("GET ?continue=abc", "GET ?limit=5", "POST "):
        method, query = request.split(" ")
        async with client.request(method, proxy.url + PODS + query) as answer:
            if answer.status == 503:
                refused.add(request)
    assert refused == hit


async def test_a_truncated_answer_ends_in_the_middle(proxy: FaultProxy, client: ClientSession) -> None:
    with proxy.fault(faults.Truncate(after_bytes=10)):
        async with client.get(proxy.url + PODS) as answer:
            with pytest.raises(ClientPayloadError):
                await answer.read()
            assert answer.content.total_bytes == 10


@pytest.mark.parametrize("graceful", [True, False])
async def test_a_truncated_watch_ends_in_the_middle_of_a_line(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream, graceful: bool
) -> None:
    proxy.inject(faults.Truncate(after_lines=2, graceful=graceful), faults.watches, times=1)
    for _ in range(3):
        upstream.send()
    line = json.dumps(EVENT).encode()
    async with client.get(proxy.url + WATCH) as watch:
        assert [await watch.content.readline() for _ in range(2)] == [line + b"\n"] * 2
        rest = b""
        try:
            while piece := await watch.content.readany():
                rest += piece
            ended_gracefully = True
        except ClientPayloadError:
            ended_gracefully = False
        assert rest == line[: len(line) // 2]
        assert ended_gracefully is graceful
    async with client.get(proxy.url + WATCH) as watch:  # once only
        upstream.send()
        assert await watch.content.readline() == line + b"\n"


async def test_a_cut_resets_open_connections_and_new_ones_work(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    async with client.get(proxy.url + WATCH) as watch:
        proxy.cut()
        with pytest.raises((ClientError, ConnectionResetError)):
            await watch.content.readline()
    async with client.get(proxy.url + PODS) as answer:
        assert answer.status == 200


async def test_a_request_that_is_cut_gets_no_answer_and_never_reaches_the_server(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    proxy.inject(faults.Cut(), faults.writes, times=1)
    with pytest.raises((ClientError, ConnectionResetError)):
        await client.post(proxy.url + PODS, data=b"lost")
    async with client.post(proxy.url + PODS, data=b"arrives"):
        pass
    assert upstream.bodies == [b"arrives"]
    assert proxy.count(status=NO_ANSWER) == 1


async def test_a_stalled_watch_stays_open_and_continues_when_the_stall_is_lifted(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    async with client.get(proxy.url + WATCH) as watch:
        stall = proxy.inject(faults.Stall(), faults.watches)
        upstream.send()
        line = asyncio.create_task(watch.content.readline())
        async with client.get(proxy.url + PODS) as answer:  # others are not stalled
            await answer.read()
        assert not line.done()
        proxy.lift(stall)
        assert json.loads(await line) == EVENT


async def test_a_stalled_request_is_answered_after_the_stall(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    proxy.inject(faults.Stall())
    request = asyncio.create_task(client.post(proxy.url + PODS, data=b"body"))
    while not proxy.requests:
        await asyncio.sleep(0)
    assert not upstream.bodies
    proxy.lift()
    assert (await request).status == 201


async def test_a_stalled_request_ends_when_its_client_disconnects(
    proxy: FaultProxy, client: ClientSession
) -> None:
    proxy.inject(faults.Stall())
    request = asyncio.create_task(client.get(proxy.url + PODS))
    while not proxy.requests:
        await asyncio.sleep(0)
    request.cancel()
    while proxy.connections:
        await asyncio.sleep(0)


async def test_a_slow_answer_is_complete(proxy: FaultProxy, client: ClientSession) -> None:
    proxy.inject(faults.Slow(latency=0.001, bytes_per_second=50_000))
    async with client.get(proxy.url + PODS) as answer:
        assert (await answer.json())["items"] == ["x" * 1000]


async def test_refused_connections_are_refused_until_accepted_again(
    proxy: FaultProxy, client: ClientSession
) -> None:
    proxy.refuse()
    with pytest.raises(ClientError):
        await client.get(proxy.url + PODS)
    await proxy.accept()
    async with client.get(proxy.url + PODS) as answer:
        assert answer.status == 200


async def test_waits_until_requests_were_answered(proxy: FaultProxy, client: ClientSession) -> None:
    waiting = asyncio.create_task(proxy.until_seen(2, path=PODS, status=200))
    for _ in range(2):
        assert not waiting.done()
        async with client.get(proxy.url + PODS) as answer:
            await answer.read()
    await waiting


async def test_an_idle_connection_ends_with_the_servers(
    proxy: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    async with client.get(proxy.url + PODS) as answer:
        await answer.read()
    await upstream.server.close()
    while proxy.connections:
        await asyncio.sleep(0)


async def test_tcp_passes_stalls_truncates_and_cuts(
    tcp: FaultProxy, client: ClientSession, upstream: Upstream
) -> None:
    async with client.get(tcp.url + WATCH) as watch:
        upstream.send()
        assert json.loads(await watch.content.readline()) == EVENT
        stall = tcp.inject(faults.Stall())
        upstream.send()
        line = asyncio.create_task(watch.content.readline())
        while upstream.events.qsize():
            await asyncio.sleep(0)
        assert not line.done()
        tcp.lift(stall)
        assert json.loads(await line) == EVENT
        with tcp.fault(faults.Slow(bytes_per_second=10_000)):
            upstream.send()
            assert json.loads(await watch.content.readline()) == EVENT
        tcp.cut()
        with pytest.raises((ClientError, ConnectionResetError)):
            await watch.content.readline()
    with tcp.fault(faults.Truncate(after_bytes=1)), pytest.raises(ClientError):
        await client.get(tcp.url + PODS)
    assert not tcp.requests


async def test_tcp_refuses_faults_that_need_requests(tcp: FaultProxy) -> None:
    with pytest.raises(ValueError, match="TCP proxy"):
        tcp.inject(faults.unavailable())
    with pytest.raises(ValueError, match="TCP proxy"):
        tcp.inject(faults.Stall(), faults.watches)


async def test_a_server_that_is_down_looks_like_a_reset(client: ClientSession) -> None:
    async with FaultProxy.http("127.0.0.1", free_ports(1)[0]) as proxy:
        with pytest.raises(ClientError):
            await client.get(proxy.url + PODS)


def test_truncation_needs_one_measure() -> None:
    with pytest.raises(ValueError, match="either"):
        faults.Truncate()
    with pytest.raises(ValueError, match="either"):
        faults.Truncate(after_bytes=1, after_lines=1)
