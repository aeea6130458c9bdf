"""The subresource `proxy` of Pods and Services: which Pod is asked for what, and what the client receives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from multidict import CIMultiDict

from vcsync.apimachinery.errors import StatusError, not_found
from vcsync.apiserver.handlers.proxy import PodProxy
from vcsync.apiserver.kubelets.pool import NotInPool
from vcsync.apiserver.kubelets.super_clusters import TenantPods
from vcsync.apiserver.kubelets.super_pods import StreamRequest
from vcsync.apiserver.request.reply import Reply, Stream, Tunnel
from vcsync.streams.raw_response import RawResponse

BASE = "/api/v1/namespaces/shop"
OBJECTS: dict[tuple[str, str], Any] = {
    ("namespaces", "kube-system"): {"metadata": {"uid": "cp-1"}},
    ("pods", "web-0"): {
        "metadata": {"uid": "u1"},
        "spec": {"nodeName": "n.r1"},
        "status": {"podIPs": [{"ip": "10.0.0.1"}]},
    },
    ("pods", "new"): {"metadata": {"uid": "u2"}, "spec": {}},
    ("services", "web"): {"spec": {"ports": [{"name": "http", "port": 80}]}},
    ("endpoints", "web"): {
        "subsets": [
            {
                "addresses": [
                    {"ip": "10.0.0.8", "targetRef": {"kind": "Pod", "namespace": "shop", "name": "gone"}},
                    {"ip": "10.0.0.9", "targetRef": {"kind": "Pod", "namespace": "shop", "name": "web-0"}},
                    {"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "namespace": "shop", "name": "web-0"}},
                ],
                "ports": [{"name": "http", "port": 8080}],
            }
        ]
    },
    ("services", "empty"): {"spec": {"ports": [{"port": 80}]}},
    ("endpoints", "empty"): {},
}


@dataclass
class Scope:
    name: str
    kind: Any
    caller: Any
    tenant: str = "acme"
    namespace: str = "shop"
    subresource: str = "proxy"


class Spaces:
    def kind(self, _tenant: str, _group: str, _version: str, plural: str) -> Any:
        return SimpleNamespace(resource=SimpleNamespace(plural=plural))


async def get(scope: Scope) -> Any:
    found = OBJECTS.get((scope.kind.resource.plural, scope.name))
    if found is None:
        raise not_found(scope.kind.resource.plural, "", scope.name)
    return SimpleNamespace(value=msgspec.json.encode(found))


@dataclass
class Pool:
    """A pool that always returns the same answer, and records requests."""

    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=lambda: [("Content-Type", "text/plain")])
    body: bytes = b"hello"
    member: bool = True
    asked: Any = None
    open: int = 0

    @asynccontextmanager
    async def opened(
        self, pods: TenantPods, asked: StreamRequest, request: Any
    ) -> AsyncIterator[RawResponse]:
        if not self.member:
            raise NotInPool(pods.tenant)
        self.asked, self.open = (pods, asked, request), self.open + 1
        reader = asyncio.StreamReader()
        reader.feed_data(self.body)
        reader.feed_eof()
        writer: Any = SimpleNamespace(write=lambda _: None)
        try:
            yield RawResponse(self.status, self.headers, reader, writer)
        finally:
            self.open -= 1


async def answer(
    pool: Pool | None,
    url: str,
    method: str = "GET",
    *,
    headers: Any = (),
    caller: Any = SimpleNamespace(system=False, home=""),  # noqa: B008 - immutable here
    prefix: str = "",
    seat: Any = None,
) -> Any:
    path, _, query = url.partition("?")
    plural, name, *_ = path.removeprefix(f"{BASE}/").split("/")

    async def body() -> bytes:
        return b"tea"

    given: Any = (SimpleNamespace(get=get), Spaces(), pool)
    incoming: Any = SimpleNamespace(
        method=method, path=prefix + path, query=query, headers=CIMultiDict(headers), seat=seat
    )
    request: Any = SimpleNamespace(
        info=SimpleNamespace(resource=plural, name=name, subresource="proxy"),
        scope=Scope(name, Spaces().kind("", "", "", plural), caller),
        body=body,
    )
    return await PodProxy(*given).answer(incoming, request)


async def received(reply: Any) -> bytes:
    pieces = reply.pieces if isinstance(reply, Stream) else reply.rest
    body = b"".join([piece async for piece in pieces])
    await pieces.aclose()
    return body


async def test_a_request_goes_to_the_pod() -> None:
    pool = Pool()
    reply = await answer(pool, f"{BASE}/pods/https:web-0:443/proxy/a/b?c=d", headers={"Accept": "text/html"})
    assert await received(reply) == b"hello"
    pods, asked, request = pool.asked
    assert pods == TenantPods("acme", "cp-1", "shop")
    assert asked == StreamRequest(
        "web-0",
        "u1",
        "n.r1",
        "proxy",
        "c=d",
        target="https:web-0:443",
        path="/a/b",
        shown=f"{BASE}/pods/https:web-0:443/proxy",
    )
    assert request == ("GET", "1.0", ["Accept: text/html"])
    assert pool.open == 0


@pytest.mark.parametrize("name", ["web:80", "web:http", "http:web:80"])
async def test_a_request_for_a_service_goes_to_one_of_its_pods(name: str) -> None:
    pool = Pool()
    await received(await answer(pool, f"{BASE}/services/{name}/proxy/a"))
    asked = pool.asked[1]
    scheme = "http:" if name.startswith("http:") else ""
    assert (asked.pod, asked.target) == ("web-0", f"{scheme}web-0:8080")
    assert asked.shown == f"{BASE}/services/{name}/proxy"


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("services/web:81/proxy/", 503, 'no service port 81 found for service "web"'),
        ("services/web:other/proxy/", 503, 'no endpoints available for service "web:other"'),
        ("services/empty:80/proxy/", 503, 'no endpoints available for service "empty"'),
        ("services/none/proxy/", 404, 'services "none" not found'),
        ("services/none:80/proxy/", 404, 'services "none" not found'),
        ("services/a:b:c/proxy/", 400, 'invalid service request "a:b:c"'),
        ("pods/none/proxy/", 404, 'pods "none" not found'),
        ("pods/a:b:c:d/proxy/", 400, 'invalid pod request "a:b:c:d"'),
        ("pods/new/proxy/", 400, "address not allowed"),
    ],
)
async def test_nothing_is_asked_if_no_pod_can_answer(path: str, code: int, message: str) -> None:
    pool = Pool()
    with pytest.raises(StatusError) as refusal:
        await answer(pool, f"{BASE}/{path}")
    assert (refusal.value.code, refusal.value.message) == (code, message)
    assert pool.asked is None


@pytest.mark.parametrize("pool", [None, Pool(member=False)])
async def test_tenants_outside_of_the_pool_are_told_so(pool: Pool | None) -> None:
    with pytest.raises(StatusError) as refusal:
        await answer(pool, f"{BASE}/pods/web-0/proxy/")
    assert refusal.value.code == 501


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_path_without_a_slash_is_redirected(method: str) -> None:
    reply = await answer(Pool(), f"{BASE}/pods/web-0/proxy?a=b", method, prefix="/tenants/acme")
    assert (reply.status, reply.headers["Location"]) == (301, f"/tenants/acme{BASE}/pods/web-0/proxy/?a=b")


async def test_the_body_of_a_request_is_sent() -> None:
    pool = Pool()
    await received(await answer(pool, f"{BASE}/pods/web-0/proxy", "POST", headers={"Content-Length": "9"}))
    assert pool.asked[1].body == b"tea"
    assert pool.asked[2] == ("POST", "1.0", ["Content-Length: 3"])


async def test_the_path_of_the_tenant_stays_in_links() -> None:
    pool = Pool()
    await received(await answer(pool, f"{BASE}/pods/web-0/proxy/a/", prefix="/tenants/acme"))
    assert (pool.asked[1].path, pool.asked[1].shown) == ("/a/", f"/tenants/acme{BASE}/pods/web-0/proxy")


@pytest.mark.parametrize("path", ["/", "/a", "/a/", "//a", "/proxy/", "/pods/web-0/proxy/x"])
async def test_slashes_of_the_path_stay(path: str) -> None:
    pool = Pool()
    await received(await answer(pool, f"{BASE}/pods/web-0/proxy{path}"))
    assert (pool.asked[1].path, pool.asked[1].shown) == (path, f"{BASE}/pods/web-0/proxy")


async def test_characters_of_the_path_are_encoded_again() -> None:
    pool = Pool()
    await received(await answer(pool, f"{BASE}/pods/web-0/proxy/%c3%a4%20b%25"))
    assert pool.asked[1].path == "/%C3%A4%20b%25"


@pytest.mark.parametrize("status", [201, 404, 500])
async def test_answers_with_another_status_are_passed_on(status: int) -> None:
    headers = [("Content-Type", "a/b"), ("Location", "/x"), ("Set-Cookie", "s")]
    pool = Pool(status, headers)
    reply = await answer(pool, f"{BASE}/pods/web-0/proxy/", "PUT")
    assert isinstance(reply, Reply)
    assert (reply.status, reply.content_type, dict(reply.headers)) == (status, "a/b", {"Location": "/x"})
    assert await received(reply) == b"hello"


async def test_head_has_no_body() -> None:
    pool = Pool(body=b"")
    reply = await answer(pool, f"{BASE}/pods/web-0/proxy/", "HEAD")
    assert (reply.status, list(reply.body), reply.rest, pool.open) == (200, [], None, 0)


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT"])
async def test_other_methods_are_refused(method: str) -> None:
    with pytest.raises(StatusError) as refusal:
        await answer(Pool(), f"{BASE}/pods/web-0/proxy/", method)
    assert refusal.value.code == 405


async def test_a_websocket_is_connected() -> None:
    pool = Pool(101, [("Upgrade", "websocket"), ("Server", "x")])
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "k", "Cookie": "secret"}
    reply = await answer(pool, f"{BASE}/pods/web-0/proxy/", headers=headers)
    assert isinstance(reply, Tunnel)
    method, version, lines = pool.asked[2]
    assert (method, version) == ("GET", "1.1")
    assert sorted(lines) == ["Connection: Upgrade", "Sec-WebSocket-Key: k", "Upgrade: websocket"]
    await reply.pieces.aclose()  # type: ignore[attr-defined]
    assert pool.open == 0


async def test_a_websocket_that_the_program_refuses_is_answered() -> None:
    pool = Pool(404)
    reply = await answer(
        pool, f"{BASE}/pods/web-0/proxy/", headers={"Connection": "Upgrade", "Upgrade": "websocket"}
    )
    assert reply.status == 404
    assert await received(reply) == b"hello"


@pytest.mark.parametrize(
    ("system", "home", "confined"), [(False, "", False), (True, "", True), (False, "umbrella", True)]
)
async def test_pages_for_callers_of_other_tenants_are_confined(
    system: bool, home: str, confined: bool
) -> None:
    pool = Pool(headers=[("Content-Security-Policy", "none")])
    reply = await answer(pool, f"{BASE}/pods/web-0/proxy/", caller=SimpleNamespace(system=system, home=home))
    assert reply.headers["Content-Security-Policy"].startswith("sandbox" if confined else "none")
    await received(reply)


async def test_an_answer_that_is_cut_off_is_no_whole_answer() -> None:
    reply = await answer(Pool(headers=[("Content-Length", "9")]), f"{BASE}/pods/web-0/proxy/")
    with pytest.raises(ConnectionAbortedError):
        await received(reply)


async def test_a_request_has_no_seat_while_the_program_works() -> None:
    left: list[bool] = []
    seat = SimpleNamespace(leave=lambda: left.append(True))
    await received(await answer(Pool(), f"{BASE}/pods/web-0/proxy/", seat=seat))
    assert left


UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [{"Content-Length": "39"}, {"Transfer-Encoding": "chunked"}])
async def test_an_upgrade_has_no_body(method: str, body: dict[str, str]) -> None:
    """A super cluster that does not upgrade would read it as the next request on the connection of the control plane."""
    pool = Pool()
    with pytest.raises(StatusError, match="must not have a body: leave out the body") as refusal:
        await answer(pool, f"{BASE}/pods/web-0/proxy/", method, headers=UPGRADE | body)
    assert (refusal.value.code, pool.asked) == (400, None)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [{}, {"Content-Length": "0"}])
async def test_an_upgrade_says_that_it_has_no_body(method: str, body: dict[str, str]) -> None:
    pool = Pool(101, [("Upgrade", "websocket")])
    reply = await answer(pool, f"{BASE}/pods/web-0/proxy/", method, headers=UPGRADE | body)
    await reply.pieces.aclose()
    assert pool.asked[1].body == b""
    assert [line for line in pool.asked[2][2] if "Content-Length" in line] == ["Content-Length: 0"]


async def test_an_upgrade_that_is_answered_otherwise_fails() -> None:
    """As in kube-apiserver: after such an answer nobody knows what the connection is."""
    pool = Pool(200)
    with pytest.raises(StatusError, match="invalid upgrade response: status code 200") as refusal:
        await answer(pool, f"{BASE}/pods/web-0/proxy/", headers=UPGRADE)
    assert (refusal.value.code, pool.open) == (500, 0)


async def test_chunks_of_a_refused_upgrade_are_not_taken_for_its_body() -> None:
    pool = Pool(403, [("Transfer-Encoding", "chunked")], b"5\r\nhello\r\n0\r\n\r\n")
    reply = await answer(pool, f"{BASE}/pods/web-0/proxy/", headers=UPGRADE)
    assert (reply.status, list(reply.body), reply.rest, pool.open) == (403, [], None, 0)


@pytest.mark.parametrize("headers", [{}, UPGRADE])
async def test_an_answer_ends_at_its_length(headers: dict[str, str]) -> None:
    status = 404 if headers else 200
    pool = Pool(status, [("Content-Length", "5")], b"helloHTTP/1.1 200 OK\r\n\r\n")
    assert await received(await answer(pool, f"{BASE}/pods/web-0/proxy/", headers=headers)) == b"hello"


async def test_a_length_without_meaning_is_ignored() -> None:
    pool = Pool(headers=[("Content-Length", "1" * 5_000)])
    assert await received(await answer(pool, f"{BASE}/pods/web-0/proxy/")) == b"hello"
