"""API servers that do not answer, and slow ones, which are told apart."""

import asyncio

import msgspec
import pytest
from door_kit import OK, ApiServer, Door

from vcsync.gateway import liveness, upstreams

BASE = "/tenants/umbrella/api/v1/namespaces/default/configmaps"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(liveness, "PROBE_SECONDS", 0.2)


def hangs(answers_version: bool):
    async def answer(request, reader, writer) -> None:
        if answers_version and request.line.startswith("GET /version "):
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            return
        await reader.read()

    return answer


@pytest.mark.parametrize(("method", "again"), [("GET", "1"), ("POST", None), ("DELETE", None)])
async def test_a_server_that_answers_nothing_is_given_up(
    door: Door, upstream: ApiServer, method: str, again: str | None
) -> None:
    upstream.answer = hangs(answers_version=False)
    status, headers, body = await door.request(f"{method} {BASE}", body=b"{}" if method == "POST" else b"")
    told = msgspec.json.decode(body)
    assert (status, told["reason"]) == (503, "ServiceUnavailable")
    assert told["message"] == "the API server of this control plane does not answer; try again"
    assert headers.get("retry-after") == again


async def test_a_slow_answer_is_waited_for(door: Door, upstream: ApiServer) -> None:
    released = asyncio.Event()

    async def answer(request, reader, writer) -> None:
        if request.line.startswith("GET /version "):
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            if len(upstream.received) > 3:
                released.set()
            return
        await released.wait()
        writer.write(OK)

    upstream.answer = answer
    assert (await door.request(f"GET {BASE}"))[0] == 200
    assert len(upstream.received) > 3


async def test_the_question_has_no_credential_and_is_shared(door: Door, upstream: ApiServer) -> None:
    upstream.answer = hangs(answers_version=False)
    answers = await asyncio.gather(*(door.request(f"GET {BASE}") for _ in range(5)))
    assert [status for status, _, _ in answers] == [503] * 5
    asked = [each for each in upstream.received if each.line == "GET /version HTTP/1.0"]
    assert 1 <= len(asked) < 5
    assert all(not each.header("authorization") for each in asked)


async def test_a_client_that_leaves_ends_its_request(door: Door, upstream: ApiServer) -> None:
    ended = asyncio.Event()

    async def answer(request, reader, writer) -> None:
        if request.line.startswith("GET /version "):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        await reader.read()
        ended.set()

    upstream.answer = answer
    _, writer = await door.connect()
    writer.write(f"GET {BASE} HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer alice-token\r\n\r\n".encode())
    while not upstream.received:
        await asyncio.sleep(0.01)
    writer.close()
    async with asyncio.timeout(20):
        await ended.wait()


async def test_a_server_that_makes_no_connection_is_given_up(
    door: Door, upstream: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel accepts the connection of a stopped process, and nobody answers the TLS handshake."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(serve, "127.0.0.1", 0)
    known = upstream.upstream
    address = f"https://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    await door.identity.lifecycle.set_upstream("umbrella", msgspec.structs.replace(known, server=address))
    status, _, body = await door.request(f"GET {BASE}")
    assert (status, b"does not answer" in body) == (503, True)
    silent.close()
    assert upstreams.CONNECT_SECONDS + 1 <= 5
