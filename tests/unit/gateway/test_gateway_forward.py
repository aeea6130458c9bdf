"""Request that an API server receives from the door, and answer that the client receives."""

import asyncio
from contextlib import suppress

import msgspec
import pytest
from door_kit import CREDENTIAL, OK, SECONDS, ApiServer, Door

from vcsync.apiserver.tenants.records import Upstream

BASE = "/tenants/umbrella/api/v1/namespaces/default/configmaps"
JSON = ("Content-Type", "application/json")


async def test_a_request_is_forwarded_as_the_user_that_was_authenticated(
    door: Door, upstream: ApiServer
) -> None:
    status, headers, body = await door.request(f"GET {BASE}?limit=5", [("Accept", "application/json")])
    assert (status, body) == (200, b'{"kind":"X"}\n')
    (received,) = upstream.received
    assert received.line == "GET /api/v1/namespaces/default/configmaps?limit=5 HTTP/1.1"
    assert sorted(received.headers) == sorted(
        [
            ("host", f"127.0.0.1:{upstream.port}"),
            ("accept", "application/json"),
            ("authorization", f"Bearer {CREDENTIAL}"),
            ("impersonate-user", "alice"),
            ("impersonate-uid", "u-1"),
            ("impersonate-group", "dev"),
            ("audit-id", headers["audit-id"]),
        ]
    )


@pytest.mark.parametrize(
    "header",
    [
        ("Impersonate-Extra-Scopes", "all"),
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Forwarded-Host", "elsewhere"),
        ("X-Original-URL", "/api/v1/secrets"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("Cookie", "session=1"),
        ("Proxy-Authorization", "Basic eA=="),
        ("Connection", "close, Impersonate-User, Authorization"),
        ("TE", "trailers"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ("Impersonate_User", "admin"),
        ("Audit-Id-2", "x"),
    ],
)
async def test_nothing_is_smuggled_in_headers(
    door: Door, upstream: ApiServer, header: tuple[str, str]
) -> None:
    status, _, _ = await door.request(f"GET {BASE}", [header])
    if header[0] == "Impersonate-Extra-Scopes":
        assert (status, upstream.received) == (400, [])  # Without a user the headers are refused.
        return
    (received,) = upstream.received
    assert {name for name, _ in received.headers} == {
        "host",
        "authorization",
        "impersonate-user",
        "impersonate-uid",
        "impersonate-group",
        "audit-id",
    }
    assert received.header("authorization") == [f"Bearer {CREDENTIAL}"]
    assert received.header("impersonate-user") == ["alice"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("GET /tenants/umbrella/api/v1/namespaces/%252e%252e/secrets", 400),
        ("GET /tenants/umbrella/api/v1//secrets", 400),
        ("GET /tenants/umbrella/../acme/api/v1/secrets", 400),
        ("GET /tenants/umbrella/tenants/acme/api/v1/secrets", 400),
        ("GET /%74enants/umbrella/api/v1/secrets", 400),
        ("GET /tenants/umbrella/api/v1/secrets?watch=true;a=b", 400),
        ("GET /tenants/umbrella/api/v1/namespaces/a/..;/secrets", 400),
        ("CONNECT /tenants/umbrella/api/v1/secrets", 405),
        ("TRACE /tenants/umbrella/api/v1/secrets", 405),
        ("PROPFIND /tenants/umbrella/api/v1/secrets", 405),
        ("GET /tenants/acme/api/v1/secrets", 403),
        ("GET /tenants/all/api/v1/secrets", 403),
        ("GET /vcsync/v1/tenants", 403),
    ],
)
async def test_ambiguous_and_foreign_urls_reach_no_api_server(
    door: Door, upstream: ApiServer, line: str, code: int
) -> None:
    status, _, _ = await door.request(line)
    assert (status, upstream.received, upstream.reviews) == (code, [], [])


async def test_a_host_name_leads_to_its_tenant_as_a_path_does(door: Door, upstream: ApiServer) -> None:
    path = "/api/v1/namespaces/default/configmaps?limit=5"
    status, _, _ = await door.request(f"GET {path}", host="Umbrella.tenants.example.com:6443")
    assert (status, upstream.received[0].line) == (200, f"GET {path} HTTP/1.1")
    assert upstream.received[0].header("host") == [f"127.0.0.1:{upstream.port}"]
    assert (await door.request(f"GET /tenants/umbrella{path}", host="umbrella.tenants.example.com"))[0] == 200
    assert upstream.received[1].line == upstream.received[0].line


@pytest.mark.parametrize(
    ("host", "path", "token", "code"),
    [
        ("umbrella.tenants.example.com", "/api/v1/secrets", "ann-token", 403),
        ("umbrella.tenants.example.com", "/api/v1/secrets", "", 403),
        ("no-such-one.tenants.example.com", "/api/v1/secrets", "alice-token", 403),
        ("acme.tenants.example.com", "/api/v1/secrets", "alice-token", 403),
        ("acme.tenants.example.com", "/tenants/umbrella/api/v1/secrets", "alice-token", 400),
        ("umbrella.tenants.example.com", "/tenants/acme/api/v1/secrets", "alice-token", 400),
        ("umbrella.tenants.example.com", "/api/v1/tenants/all/secrets", "operator-token", 400),
        ("all.tenants.example.com", "/api/v1/secrets", "operator-token", 400),
        ("a.umbrella.tenants.example.com", "/api/v1/secrets", "alice-token", 400),
        ("umbrella.tenants.example.com", "//api/v1/secrets", "alice-token", 400),
        ("umbrella.tenants.example.com", "/api/v1/namespaces/a%252fb/secrets", "alice-token", 400),
    ],
)
async def test_no_host_name_leads_elsewhere(
    door: Door, upstream: ApiServer, host: str, path: str, token: str, code: int
) -> None:
    status, _, _ = await door.request(f"GET {path}", token=token, host=host)
    assert (status, upstream.received, upstream.reviews) == (code, [], [])


SMUGGLED = b"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\nImpersonate-User: admin\r\n\r\n"
START = b"POST /tenants/umbrella/api/v1/pods HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer alice-token\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"Content-Length: 0\r\nContent-Length: 72\r\n\r\n" + SMUGGLED,
        b"Content-Length: 5, 0\r\n\r\n" + SMUGGLED,
        b"Content-Length: +5\r\n\r\n" + SMUGGLED,
        b"Content-Length: 0x5\r\n\r\n" + SMUGGLED,
        b"Content-Length : 5\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding: chunked\r\n\r\n5;a=\n\r\nhello\r\n0\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + SMUGGLED,
        b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + SMUGGLED,
    ],
)
async def test_no_framing_makes_one_request_two(door: Door, upstream: ApiServer, rest: bytes) -> None:
    await door.raw(START + rest)
    for received in upstream.received:
        assert received.line == "POST /api/v1/pods HTTP/1.1"
        assert received.header("impersonate-user") == ["alice"]
        assert len(received.header("content-length") + received.header("transfer-encoding")) == 1


@pytest.mark.parametrize("size", [1, 100_000, 3_000_000])
async def test_bodies_arrive_whole_with_their_length(door: Door, upstream: ApiServer, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    status, _, _ = await door.request(f"POST {BASE}", [JSON], body[:size])
    (received,) = upstream.received
    assert (status, received.body == body[:size]) == (200, True)
    assert received.header("content-length") == [str(size)]
    assert received.header("content-type") == ["application/json"]


async def test_chunked_bodies_are_chunked_again_without_their_extensions(
    door: Door, upstream: ApiServer
) -> None:
    chunks = b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    told = await door.raw(START + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert told.startswith(b"HTTP/1.1 200 ")
    (received,) = upstream.received
    assert received.body == b"hello world"
    assert received.header("transfer-encoding") == ["chunked"]
    assert received.header("content-length") == []


async def test_trailers_are_not_headers(door: Door, upstream: ApiServer) -> None:
    chunks = b"5\r\nhello\r\n0\r\nImpersonate-User: admin\r\n\r\n"
    await door.raw(START + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    (received,) = upstream.received
    assert received.body == b"hello"
    assert received.header("impersonate-user") == ["alice"]


async def test_the_beginning_of_a_body_is_forwarded_before_its_end(door: Door, upstream: ApiServer) -> None:
    begun = asyncio.Event()
    whole: list[bytes] = []

    async def answer(_, reader, writer) -> None:
        whole.append(await reader.readexactly(5))
        begun.set()
        whole.append(await reader.readexactly(5))
        writer.write(OK)

    upstream.answer = answer
    reader, writer = await door.connect()
    writer.write(START + b"Content-Length: 10\r\nConnection: close\r\n\r\nfirst")
    async with asyncio.timeout(SECONDS):
        await begun.wait()
        writer.write(b"later")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
    assert whole == [b"first", b"later"]


async def test_a_body_that_is_cut_off_is_not_taken_for_a_whole_one(door: Door, upstream: ApiServer) -> None:
    begun = asyncio.Event()
    ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def answer(_, reader, writer) -> None:
        await reader.readuntil(b"first\r\n")
        begun.set()
        try:
            ended.set_result(await reader.read())
        except ConnectionError:
            ended.set_result(b"")

    upstream.answer = answer
    _reader, writer = await door.connect()
    writer.write(START + b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
    async with asyncio.timeout(SECONDS):
        await begun.wait()
        writer.transport.abort()
        assert not (await ended).endswith(b"0\r\n\r\n")


async def test_a_watch_passes_each_event_at_once_and_ends_with_its_client(
    door: Door, upstream: ApiServer
) -> None:
    following = asyncio.Event()
    gone = asyncio.Event()

    async def answer(_, reader, writer) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(b"6\r\nfirst\n\r\n")
        await following.wait()
        writer.write(b"6\r\nlater\n\r\n")
        await reader.read()
        gone.set()

    upstream.answer = answer
    reader, writer = await door.connect()
    writer.write(
        f"GET {BASE}?watch=true HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer alice-token\r\n\r\n".encode()
    )
    async with asyncio.timeout(SECONDS):
        head = await reader.readuntil(b"first\n")
        assert b"Content-Type: application/json\r\n" in head
        following.set()
        await reader.readuntil(b"later\n")
        writer.transport.abort()
        await gone.wait()


async def test_a_long_answer_is_not_held_in_memory(door: Door, upstream: ApiServer) -> None:
    """The API server is never ahead of the client by more than what sockets and a few buffers hold."""
    size, count, ahead = 2**20, 128, 48 * 2**20
    sent = 0

    async def answer(_, reader, writer) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (size * count))
        for _ in range(count):
            writer.write(bytes(size))
            await writer.drain()
            sent += size

    upstream.answer = answer
    reader, writer = await door.connect()
    writer.write(f"GET {BASE} HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer alice-token\r\n\r\n".encode())
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        for number in range(1, count // 2):
            await reader.readexactly(size)
            assert sent - number * size < ahead
    writer.transport.abort()


async def test_an_answer_that_is_cut_off_ends_without_its_last_chunk(door: Door, upstream: ApiServer) -> None:
    async def answer(_, reader, writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()

    upstream.answer = answer
    for query in ("", "?watch=true"):
        told = await door.raw(
            f"GET {BASE}{query} HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer alice-token\r\n\r\n".encode()
        )
        assert b"hello" in told
        assert not told.endswith(b"0\r\n\r\n")
    assert door.plane.server.chain is not None
    assert await defects(door) == 0


@pytest.mark.parametrize(
    ("framing", "length"),
    [
        (b"Content-Length: 5\r\n\r\nhello", "5"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "5"),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "0"),
        (b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000, None),
    ],
)
async def test_a_small_answer_that_has_arrived_whole_is_passed_on_in_one_piece(
    door: Door, upstream: ApiServer, framing: bytes, length: str | None
) -> None:
    async def answer(_, reader, writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + framing)
        await writer.drain()

    upstream.answer = answer
    for _ in range(2):  # the connection is given back
        status, headers, body = await door.request(f"GET {BASE}")
        assert status == 200
        assert headers.get("content-length") == length
        assert len(body) == int(length or 100_000)


async def defects(door: Door) -> float:
    registry = door.plane.server._metrics.registry
    return registry.get_sample_value("apiserver_defects_total") or 0.0


async def test_what_an_api_server_says_of_an_answer(door: Door, upstream: ApiServer) -> None:
    async def answer(_, reader, writer) -> None:
        writer.write(
            b"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nSet-Cookie: a=b\r\n"
            b'Server: nginx\r\nLocation: https://10.1.2.3/x\r\nWarning: 299 - "a"\r\nWarning: 299 - "b"\r\n'
            b"Content-Length: 4\r\n\r\nzips"
        )

    upstream.answer = answer
    status, headers, body = await door.request(f"GET {BASE}", [("Accept-Encoding", "gzip")])
    assert (status, body) == (409, b"zips")
    assert upstream.received[0].header("accept-encoding") == ["gzip"]
    assert headers["content-encoding"] == "gzip"
    assert headers["warning"] == '299 - "a", 299 - "b"'
    assert not {"set-cookie", "location"} & headers.keys()
    assert headers["server"] == "vcsync"


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body(door: Door, upstream: ApiServer, status: int) -> None:
    async def answer(_, reader, writer) -> None:
        writer.write(b"HTTP/1.1 %d X\r\nETag: e\r\n\r\n" % status)

    upstream.answer = answer
    assert (await door.request(f"GET {BASE}", [("If-None-Match", "e")]))[0] == status
    assert upstream.received[0].header("if-none-match") == ["e"]


async def test_connections_are_shared_by_all_users_of_a_tenant(door: Door, upstream: ApiServer) -> None:
    for token in ("alice-token", "admin-token", "alice-token"):
        assert (await door.request(f"GET {BASE}", token=token))[0] == 200
    assert (len(upstream.received), upstream.connections) == (3, 1)


@pytest.mark.parametrize("line", ["POST {}", "GET {}", "GET {}?watch=true"])
async def test_an_api_server_that_is_down_is_503_and_reveals_nothing(
    door: Door, upstream: ApiServer, line: str
) -> None:
    await upstream.stop()
    status, headers, body = await door.request(line.format(BASE), body=b"{}")
    told = msgspec.json.decode(body)
    assert (status, told["kind"], told["reason"]) == (503, "Status", "ServiceUnavailable")
    assert told["message"] == "the API server of this control plane cannot be reached; try again"
    assert headers["retry-after"] == "1"
    assert b"127.0.0.1" not in body
    assert str(upstream.port).encode() not in body


async def test_an_api_server_that_comes_back_is_reached_again(
    door: Door, upstream: ApiServer, tmp_path
) -> None:
    assert (await door.request(f"GET {BASE}"))[0] == 200
    await upstream.stop()
    assert (await door.request(f"GET {BASE}"))[0] == 503
    await upstream.start(tmp_path, upstream.port)
    assert (await door.request(f"GET {BASE}"))[0] == 200


async def test_a_server_with_another_certificate_gets_no_credential(
    door: Door, upstream: ApiServer, tmp_path
) -> None:
    other = ApiServer()
    await other.start(tmp_path)
    trusted = upstream.upstream
    await door.identity.lifecycle.set_upstream(
        "umbrella", Upstream(f"https://127.0.0.1:{other.port}", CREDENTIAL, trusted.authority)
    )
    status, _, body = await door.request(f"GET {BASE}")
    assert (status, other.received) == (503, [])
    assert b"does not have the expected certificate" in body
    await other.stop()


async def test_a_refused_gateway_is_not_the_clients_fault(door: Door, upstream: ApiServer) -> None:
    async def answer(_, reader, writer) -> None:
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    upstream.answer = answer
    status, _, body = await door.request(f"GET {BASE}")
    assert status == 503
    assert b"does not accept the gateway" in body


async def test_an_api_server_cannot_ask_for_credentials_as_a_proxy(door: Door, upstream: ApiServer) -> None:
    async def answer(_, reader, writer) -> None:
        writer.write(b"HTTP/1.1 407 X\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")

    upstream.answer = answer
    status, headers, _ = await door.request(f"GET {BASE}")
    assert (status, "proxy-authenticate" in headers) == (503, False)


async def test_a_new_credential_ends_what_the_old_one_opened(door: Door, upstream: ApiServer) -> None:
    async def answer(_, reader, writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n")
        await reader.read()

    upstream.answer = answer
    reader, writer = await door.connect()
    writer.write(
        f"GET {BASE}?watch=true HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer alice-token\r\n\r\n".encode()
    )
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"first\n")
        old = upstream.upstream
        await door.identity.lifecycle.set_upstream("umbrella", Upstream(old.server, "another", old.authority))
        with suppress(ConnectionError):
            assert not (await reader.read()).endswith(b"0\r\n\r\n")
    writer.close()
    upstream.answer = None
    assert (await door.request(f"GET {BASE}"))[0] == 200
    assert upstream.received[-1].header("authorization") == ["Bearer another"]


async def test_another_change_of_the_tenant_ends_nothing(door: Door, upstream: ApiServer) -> None:
    assert (await door.request(f"GET {BASE}"))[0] == 200
    await door.identity.lifecycle.limit_storage("umbrella", storage_bytes=5)
    assert (await door.request(f"GET {BASE}"))[0] == 200
    assert upstream.connections == 1


async def test_anonymous_requests_are_answered_as_for_a_tenant_that_does_not_exist(
    door: Door, upstream: ApiServer
) -> None:
    for path in ("/version", "/api", "/api/v1/secrets", "/healthz", "/readyz", "/"):
        there = await door.request(f"GET /tenants/umbrella{path}", token="")
        assert there[0] == (await door.request(f"GET /tenants/nosuch{path}", token=""))[0]
        assert there[2] == (await door.request(f"GET /tenants/nosuch{path}", token=""))[2]
    assert upstream.received == []


async def test_groups_of_kubernetes_own_are_refused(door: Door, upstream: ApiServer) -> None:
    status, _, body = await door.request(f"GET {BASE}", token="masters-token")
    assert (status, upstream.received) == (403, [])
    assert b'the group \\"system:nodes\\" is not available' in body


async def test_users_of_another_tenant_are_refused(door: Door, upstream: ApiServer) -> None:
    status, _, _ = await door.request(f"GET {BASE}", token="ann-token")
    assert (status, upstream.received) == (403, [])


class TestImpersonation:
    """kubectl --as: the API server decides whether the caller may, and then acts as the final user."""

    BOB = (("Impersonate-User", "bob"), ("Impersonate-Group", "ops"))

    async def test_an_allowed_user_is_impersonated_instead_of_the_caller(
        self, door: Door, upstream: ApiServer
    ) -> None:
        upstream.allowed = lambda spec: spec["resourceAttributes"]["verb"] == "impersonate"
        assert (await door.request(f"GET {BASE}", self.BOB))[0] == 200
        (received,) = upstream.received
        assert received.header("impersonate-user") == ["bob"]
        assert received.header("impersonate-group") == ["ops"]
        assert received.header("impersonate-uid") == []
        asked = [
            (spec["resourceAttributes"]["resource"], spec["resourceAttributes"]["name"])
            for spec in upstream.reviews
        ]
        assert asked == [("users", "bob"), ("groups", "ops")]
        for spec in upstream.reviews:
            assert (spec["user"], spec["uid"]) == ("alice", "u-1")
            assert spec["groups"] == ["dev", "system:authenticated"]

    @pytest.mark.parametrize("refused", ["users", "groups"])
    async def test_each_part_must_be_allowed(self, door: Door, upstream: ApiServer, refused: str) -> None:
        upstream.allowed = lambda spec: spec["resourceAttributes"]["resource"] != refused
        status, _, body = await door.request(f"GET {BASE}", self.BOB)
        assert (status, upstream.received) == (403, [])
        assert f'User \\"alice\\" cannot impersonate resource \\"{refused}\\"'.encode() in body

    @pytest.mark.parametrize(
        "group", ["system:masters", "system:nodes", "SYSTEM:masters", "system:serviceaccounts"]
    )
    async def test_not_even_an_administrator_becomes_a_member_of_kubernetes_own_groups(
        self, door: Door, upstream: ApiServer, group: str
    ) -> None:
        upstream.allowed = lambda _: True
        wanted = [("Impersonate-User", "bob"), ("Impersonate-Group", group)]
        status, _, _ = await door.request(f"GET {BASE}", wanted, token="admin-token")
        assert (status, upstream.received) == (403, [])

    async def test_administrators_group_needs_every_right(self, door: Door, upstream: ApiServer) -> None:
        upstream.allowed = lambda spec: spec["resourceAttributes"]["verb"] == "impersonate"
        wanted = [("Impersonate-User", "bob"), ("Impersonate-Group", "vcsync:tenant-admins")]
        assert (await door.request(f"GET {BASE}", wanted))[0] == 403
        upstream.allowed = lambda _: True
        assert (await door.request(f"GET {BASE}", wanted))[0] == 200

    async def test_a_service_account_gets_its_groups_from_the_api_server(
        self, door: Door, upstream: ApiServer
    ) -> None:
        upstream.allowed = lambda spec: spec["resourceAttributes"]["resource"] == "serviceaccounts"
        wanted = [("Impersonate-User", "system:serviceaccount:shop:web")]
        assert (await door.request(f"GET {BASE}", wanted))[0] == 200
        (received,) = upstream.received
        assert received.header("impersonate-user") == ["system:serviceaccount:shop:web"]
        assert received.header("impersonate-group") == []
        assert upstream.reviews[0]["resourceAttributes"]["namespace"] == "shop"

    async def test_anonymous_is_never_impersonated(self, door: Door, upstream: ApiServer) -> None:
        upstream.allowed = lambda _: True
        assert (await door.request(f"GET {BASE}", [("Impersonate-User", "system:anonymous")]))[0] == 403
        assert upstream.received == []

    async def test_an_api_server_that_cannot_be_asked_allows_nothing(
        self, door: Door, upstream: ApiServer
    ) -> None:
        await upstream.stop()
        assert (await door.request(f"GET {BASE}", self.BOB))[0] == 503

    async def test_the_operator_names_a_user_of_the_tenant(self, door: Door, upstream: ApiServer) -> None:
        status, _, body = await door.request(f"GET {BASE}", token="operator-token")
        assert (status, upstream.received) == (403, [])
        assert b"(--as)" in body
        assert (await door.request(f"GET {BASE}", self.BOB, token="operator-token"))[0] == 200
        assert upstream.received[0].header("impersonate-user") == ["bob"]
        assert upstream.reviews == []  # Its own RBAC has decided.


class TestUpgrades:
    """exec, attach and port-forward: connections that carry another protocol after the first request."""

    EXEC = "/tenants/umbrella/api/v1/namespaces/default/pods/p/exec?command=sh"
    WEBSOCKET = (
        ("Connection", "Upgrade, Impersonate-User"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", "k"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
        ("Cookie", "a=b"),
        ("X-Remote-User", "admin"),
    )

    def head(self, method: str, headers: object) -> bytes:
        lines = [f"{method} {self.EXEC} HTTP/1.1", "Host: d", "Authorization: Bearer alice-token"]
        lines += [f"{name}: {value}" for name, value in headers]  # type: ignore[attr-defined]
        return "\r\n".join([*lines, "", ""]).encode()

    @pytest.mark.parametrize(
        ("method", "headers", "protocol"),
        [
            ("GET", WEBSOCKET, "websocket"),
            ("POST", (("Connection", "upgrade"), ("Upgrade", "spdy/3.1"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
                      ("Content-Length", "0")), "SPDY/3.1"),
        ],
    )  # fmt: skip
    async def test_bytes_pass_both_ways(
        self, door: Door, upstream: ApiServer, method: str, headers: object, protocol: str
    ) -> None:
        async def answer(_, reader, writer) -> None:
            writer.write(
                f"HTTP/1.1 101 Switching\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\n\r\n".encode()
            )
            writer.write(b"hello")
            writer.write((await reader.readexactly(4)).upper())
            await reader.read()

        upstream.answer = answer
        reader, writer = await door.connect()
        writer.write(self.head(method, headers))
        async with asyncio.timeout(SECONDS):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert await reader.readexactly(5) == b"hello"
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"PING"
        writer.close()
        (received,) = upstream.received
        assert received.line == f"{method} /api/v1/namespaces/default/pods/p/exec?command=sh HTTP/1.1"
        assert received.header("connection") == ["Upgrade"]
        assert received.header("upgrade") == [protocol]
        assert received.header("impersonate-user") == ["alice"]
        assert received.header("authorization") == [f"Bearer {CREDENTIAL}"]
        assert not received.header("cookie") + received.header("x-remote-user")
        if method == "GET":
            assert received.header("sec-websocket-protocol") == ["v5.channel.k8s.io"]

    @pytest.mark.parametrize(
        "path", [f"{BASE}?watch=1", "/tenants/umbrella/api/v1/namespaces/default/pods/p/log?follow=true"]
    )
    async def test_watches_and_logs_are_read_from_websockets(
        self, door: Door, upstream: ApiServer, path: str
    ) -> None:
        async def answer(_, reader, writer) -> None:
            writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
            await reader.read()

        upstream.answer = answer
        reader, writer = await door.connect()
        headers = (*self.WEBSOCKET, ("Accept", "application/json"), ("Origin", "https://elsewhere.example"))
        writer.write(self.head("GET", headers).replace(self.EXEC.encode(), path.encode()))
        async with asyncio.timeout(SECONDS):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert await reader.readexactly(5) == b"hello"
        writer.close()
        (received,) = upstream.received
        assert received.header("upgrade") == ["websocket"]
        assert received.header("accept") == ["application/json"]
        assert received.header("impersonate-user") == ["alice"]
        assert received.header("sec-websocket-protocol") == ["v5.channel.k8s.io"], "the token stays here"
        assert received.header("origin")[0].startswith("http"), "kube-apiserver demands one of a watch"
        assert "elsewhere" not in received.header("origin")[0]

    async def test_other_upgrades_of_a_watch_are_not_sent_on(self, door: Door, upstream: ApiServer) -> None:
        """Java's client offers HTTP/2 with each request."""
        offered = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c")]
        assert (await door.request(f"GET {BASE}?watch=1", offered))[0] == 200
        assert upstream.received[0].header("upgrade") == []

    @pytest.mark.parametrize("protocol", ["h2c", "HTTP/2.0", "TLS/1.0", "websocket, h2c", "spdy/3"])
    async def test_other_protocols_are_refused(self, door: Door, upstream: ApiServer, protocol: str) -> None:
        told = await door.raw(self.head("GET", [("Connection", "Upgrade, close"), ("Upgrade", protocol)]))
        assert told.startswith(b"HTTP/1.1 400 ")
        assert upstream.received == []

    async def test_a_refusal_is_passed_on(self, door: Door, upstream: ApiServer) -> None:
        async def answer(_, reader, writer) -> None:
            writer.write(
                b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
            )
            await reader.read()

        upstream.answer = answer
        reader, writer = await door.connect()
        writer.write(self.head("GET", self.WEBSOCKET))
        async with asyncio.timeout(SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 403 ")
            assert await reader.readexactly(2) == b"{}"
        writer.close()

    async def test_a_server_that_is_down_is_503(self, door: Door, upstream: ApiServer) -> None:
        await upstream.stop()
        reader, writer = await door.connect()
        writer.write(self.head("GET", self.WEBSOCKET))
        async with asyncio.timeout(SECONDS):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
        writer.close()

    async def test_a_new_credential_ends_it(self, door: Door, upstream: ApiServer) -> None:
        async def answer(_, reader, writer) -> None:
            writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            await reader.read()

        upstream.answer = answer
        reader, writer = await door.connect()
        writer.write(self.head("GET", self.WEBSOCKET))
        async with asyncio.timeout(SECONDS):
            await reader.readuntil(b"\r\n\r\n")
            old = upstream.upstream
            await door.identity.lifecycle.set_upstream(
                "umbrella", Upstream(old.server, "another", old.authority)
            )
            assert await reader.read() == b""
        writer.close()
