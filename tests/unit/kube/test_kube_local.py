"""Calls of an API server in the same process: registration, handshakes and requests."""

import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kube_standin import kubeconfig

from vcsync.apiserver.tenants import pki
from vcsync.kube import local
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection, Credentials
from vcsync.kube.errors import ApiError, Forbidden, NotFound, TooManyRequests, Unauthorized, Unreachable
from vcsync.kube.local import Answer, LocalClient, serving
from vcsync.kube.resources import CONFIG_MAPS

URL = "https://cp.example:6443"
NOW = time.time()
AUTHORITY, OTHER = pki.new_authority("acme", NOW), pki.new_authority("umbrella", NOW)


def loaded(context: ssl.SSLContext, pair: Any, folder: Path) -> ssl.SSLContext:
    path = folder / f"{id(pair)}.pem"
    path.write_text(pair.certificate + pair.key)
    context.load_cert_chain(path)
    return context


@pytest.fixture
def serving_tls(tmp_path: Path) -> ssl.SSLContext:
    """Return the TLS context of a server that authenticates clients by certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=AUTHORITY.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    return loaded(context, pki.issue_serving(AUTHORITY, ["cp.example"], NOW), tmp_path)


def asking_tls(folder: Path | None = None, trusted: Any = AUTHORITY) -> ssl.SSLContext:
    """Return the TLS context of a client, with a certificate if a folder is given."""
    context = ssl.create_default_context(cadata=trusted.certificate)
    return loaded(context, pki.issue_client(AUTHORITY, "alice", (), NOW), folder) if folder else context


class Server:
    """A server that returns the given answers, and keeps the requests."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str, Mapping[str, str], bytes | None, bytes | None]] = []

    async def answer(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        certificate: bytes | None,
    ) -> Answer:
        self.asked.append((method, target, dict(headers), body, certificate))
        return self.answers.pop(0) if self.answers else Answer(200)


def credentials(tls: ssl.SSLContext | None, url: str = URL, **more: Any) -> Credentials:
    return Credentials(url=url, tls=tls, headers={}, **more)


# ---- who is found ------------------------------------------------------------------------


def test_a_server_is_reached_by_host_and_port_while_it_serves(serving_tls: ssl.SSLContext) -> None:
    local_client, asking = LocalClient(), credentials(asking_tls())
    assert not local_client.reaches(asking)
    with serving("https://CP.example:6443/tenants/acme", Server(serving_tls)):
        assert local_client.reaches(asking)
        assert local_client.reaches(credentials(asking_tls(), f"{URL}/tenants/umbrella"))
        assert not local_client.reaches(credentials(asking_tls(), "https://cp.example:6444"))
        assert not local_client.reaches(credentials(asking_tls(), URL, proxy="http://proxy:3128"))
        assert not local_client.reaches(credentials(None, URL)), "it speaks TLS"
        assert local_client.reaches(asking)
    assert not local_client.reaches(asking)


def test_the_end_of_a_server_does_not_unregister_its_successor() -> None:
    local_client, asking = LocalClient(), credentials(None, "http://cp:80")
    first, second = Server(), Server()
    before = serving("http://cp:80", first)
    before.__enter__()
    with serving("http://cp:80", second):
        before.__exit__(None, None, None)
        assert local_client.reaches(asking)
    assert not local_client.reaches(asking)


async def test_sending_without_a_server_raises() -> None:
    with pytest.raises(RuntimeError, match=r"are not for a server of this process$"):
        await LocalClient().send("GET", "/api", {}, None)


async def test_requests_have_the_path_of_the_url_as_prefix() -> None:
    server = Server()
    with serving("http://cp:80", server):
        local_client = LocalClient()
        assert local_client.reaches(credentials(None, "http://cp:80/tenants/acme"))
        await local_client.send("PUT", "/api/v1/x?y=z", {"a": "b"}, b"body")
    assert server.asked == [("PUT", "/tenants/acme/api/v1/x?y=z", {"a": "b"}, b"body", None)]


# ---- who is trusted ----------------------------------------------------------------------


async def test_the_handshake_is_repeated_at_intervals(
    serving_tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, hands = [1000.0], []
    handshake = local.handshake

    def counted(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> bytes | None:
        hands.append(name)
        return handshake(client, server, name)

    monkeypatch.setattr(local, "handshake", counted)
    monkeypatch.setattr(local.time, "monotonic", lambda: now[0])
    server, local_client = Server(serving_tls), LocalClient()
    asking = credentials(asking_tls(tmp_path))
    with serving(URL, server):
        for later in (0.0, local.HANDSHAKE_SECONDS - 1, 1.0, 0.0):
            now[0] += later
            assert local_client.reaches(asking)
            await local_client.send("GET", "/api", {}, None)
        assert hands == ["cp.example"] * 2
        other = credentials(asking_tls())
        assert local_client.reaches(other)
        await local_client.send("GET", "/api", {}, None)
    assert len(hands) == 3, "other credentials are another handshake"
    shown = {certificate for *_, certificate in server.asked[:4]}
    assert None not in shown
    assert len(shown) == 1
    assert server.asked[4][4] is None


async def test_another_server_with_the_same_url_needs_another_handshake(
    serving_tls: ssl.SSLContext, tmp_path: Path
) -> None:
    local_client, asking = LocalClient(), credentials(asking_tls(tmp_path))
    with serving(URL, Server(serving_tls)):
        assert local_client.reaches(asking)
        await local_client.send("GET", "/api", {}, None)
    strange = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    loaded(strange, pki.issue_serving(OTHER, ["cp.example"], NOW), tmp_path)
    with serving(URL, Server(strange)):
        assert local_client.reaches(asking)
        with pytest.raises(ssl.SSLCertVerificationError):
            await local_client.send("GET", "/api", {}, None)


@pytest.mark.parametrize(
    ("trusted", "name"), [(OTHER, "cp.example"), (AUTHORITY, "elsewhere.example")], ids=["who", "name"]
)
def test_an_untrusted_server_gets_no_request(serving_tls: ssl.SSLContext, trusted: Any, name: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        local.handshake(asking_tls(trusted=trusted), serving_tls, name)


async def test_the_server_name_can_differ_from_the_address(serving_tls: ssl.SSLContext) -> None:
    server, local_client = Server(serving_tls), LocalClient()
    with serving("https://10.0.0.1:6443", server):
        assert local_client.reaches(
            credentials(asking_tls(), "https://10.0.0.1:6443", server_name="cp.example")
        )
        await local_client.send("GET", "/api", {}, None)
    assert len(server.asked) == 1


def test_a_handshake_that_does_not_end_is_an_error(
    serving_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_MOST_ROUND_TRIPS", 1)
    with pytest.raises(ssl.SSLError, match="the handshake does not end"):
        local.handshake(asking_tls(), serving_tls, "cp.example")


# ---- what the client makes of answers ----------------------------------------------------


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    with serving("http://cp:80", found):
        yield found


def client() -> Client:
    connection = Connection.from_kubeconfig_bytes(kubeconfig("http://cp:80", token="t0ken"))
    return Client(connection, name="cp")


def refusal(code: int, reason: str, **headers: str) -> Answer:
    body = f'{{"kind":"Status","code":{code},"reason":"{reason}","message":"no"}}'
    return Answer(code, headers, body.encode())


async def test_requests_have_user_agent_and_accept_headers(server: Server) -> None:
    server.answers = [Answer(200, body=b'{"kind":"ConfigMap","metadata":{"name":"one"}}')]
    async with client() as asking:
        assert (await asking.get(CONFIG_MAPS, "one", "a")).name == "one"
    ((method, target, headers, body, _),) = server.asked
    assert (method, target, body) == ("GET", "/api/v1/namespaces/a/configmaps/one", None)
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Accept"] == "application/json"
    assert headers["User-Agent"].startswith("vcsync")


async def test_local_calls_are_retried_after_retry_after(server: Server) -> None:
    server.answers = [
        refusal(429, "TooManyRequests", **{"Retry-After": "0"}),
        Answer(200, body=b'{"kind":"ConfigMap","metadata":{"name":"one"}}'),
    ]
    async with client() as asking:
        assert (await asking.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "a")).name == "one"
    assert len(server.asked) == 2
    server.answers = [refusal(429, "TooManyRequests", **{"Retry-After": "77"})]
    async with client() as asking:
        with pytest.raises(TooManyRequests) as caught:
            await asking.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "a")
    assert caught.value.retry_after == 77


async def test_a_local_response_with_multiple_choices_is_an_error(server: Server) -> None:
    server.answers = [refusal(300, "MultipleChoices")]
    async with client() as asking:
        with pytest.raises(ApiError):
            await asking.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "a")


async def test_local_responses_are_counted_like_those_of_connections(
    server: Server,
) -> None:
    server.answers = [
        Answer(200, body=b'{"kind":"ConfigMap","metadata":{"name":"one"}}'),
        refusal(404, "NotFound"),
        Answer(200, source=Cut()),
    ]
    async with client() as asking:
        await asking.get(CONFIG_MAPS, "one", "a")
        with pytest.raises(NotFound):
            await asking.get(CONFIG_MAPS, "one", "a")
        batches = asking.watch_batches(CONFIG_MAPS, "a", resource_version="7")
        await anext(batches)
        assert asking.statistics().watches == 1
        await batches.aclose()
        statistics = asking.statistics()
    assert statistics.requests == {("GET", "2xx"): 1, ("GET", "4xx"): 1, ("WATCH", "2xx"): 1}
    assert statistics.watches == 0


async def test_a_refused_local_watch_raises_the_error(server: Server) -> None:
    server.answers = [refusal(403, "Forbidden")]
    async with client() as asking:
        with pytest.raises(Forbidden):
            await anext(aiter(asking.watch_batches(CONFIG_MAPS, "a", resource_version="7")))
    server.answers = [refusal(429, "TooManyRequests", **{"Retry-After": "7"})]
    async with client() as asking:
        with pytest.raises(TooManyRequests) as caught:
            await anext(aiter(asking.watch_batches(CONFIG_MAPS, "a", resource_version="7")))
    assert caught.value.retry_after == 7


async def test_a_finally_unauthorized_watch_is_reported(server: Server) -> None:
    server.answers = [refusal(401, "Unauthorized")] * 2
    callbacks: list[int] = []
    async with client() as asking:
        asking.on_unauthorized(lambda: callbacks.append(1))
        with pytest.raises(Unauthorized):
            await anext(aiter(asking.watch_batches(CONFIG_MAPS, "a", resource_version="7")))
    assert (callbacks, len(server.asked)) == ([1], 1)


class Cut:
    """A stream that is interrupted after some bytes."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.closed = 0

    async def read(self) -> bytes:
        if not self.pieces:
            raise ConnectionResetError("cut")
        return self.pieces.pop(0)

    async def close(self) -> None:
        self.closed += 1


async def test_a_call_reads_a_local_stream_to_its_end(server: Server) -> None:
    source = Cut(b"one\n", b"two\n", b"")
    server.answers = [Answer(200, source=source)]
    async with client() as asking:
        assert await asking.request("GET", "/api/v1/namespaces/a/pods/p/log") == b"one\ntwo\n"
    assert source.closed == 1


async def test_a_call_whose_local_stream_is_cut_fails(server: Server) -> None:
    source = Cut(b"one\n")
    server.answers = [Answer(200, source=source)]
    async with client() as asking:
        with pytest.raises(Unreachable):
            await asking.request("POST", "/api/v1/namespaces/a/pods/p/exec", body=b"")
    assert source.closed == 1


async def test_a_local_watch_reads_its_stream_until_it_is_interrupted(server: Server) -> None:
    event = b'{"type":"ADDED","object":{"metadata":{"name":"one","resourceVersion":"7"}}}\n'
    source = Cut(event[:20], event[20:])
    server.answers = [Answer(200, source=source)]
    got = []

    async def read(asking: Client) -> None:
        async for batch in asking.watch_batches(CONFIG_MAPS, "a", resource_version="7"):
            got.extend(event.object.name for event in batch)

    async with client() as asking:
        with pytest.raises(Unreachable):
            await read(asking)
    assert got == ["one"]
    assert source.closed
    assert "watch=" in server.asked[0][1]
