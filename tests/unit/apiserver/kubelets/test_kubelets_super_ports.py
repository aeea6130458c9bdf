"""Requests for ports of Pods at super clusters: what is sent, and what of the answers passes."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
from api_server_kit import ApiServer, api_server

from vcsync.api import names
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets.super_clusters import SuperClusters, TenantPods
from vcsync.apiserver.kubelets.super_pods import StreamRequest
from vcsync.streams import super_request

KEY = "vcsync-abcdef-acme"
NAMESPACE = f"{KEY}-shop"
PLACE = f"/api/v1/namespaces/{NAMESPACE}/pods/p"
BELOW = f"/api/v1/namespaces/{NAMESPACE}/pods/p:80/proxy"
SHOWN = "/api/v1/namespaces/shop/pods/p:80/proxy"
PODS = TenantPods("acme", "cp-1", "shop")
CART = StreamRequest(
    "p", "u1", "node-0.r1", "proxy", "a=b", target="p:80", path="/cart", body=b"tea", shown=SHOWN
)
SENT = ("POST", "1.0", ("Content-Length: 3", "Host: door.example.com", "X-Mine: 1"))


class Pool:
    """A pool with tenant acme, whose namespace `shop` is on r1."""

    def __init__(self, kubeconfig: bytes) -> None:
        self._kubeconfig = kubeconfig

    async def key_of(self, *_: str) -> str:
        return KEY

    async def is_placed(self, *_: str) -> bool:
        return True

    async def kubeconfig(self, _: str) -> bytes:
        return self._kubeconfig

    async def close(self) -> None:
        pass


@pytest.fixture
async def r1() -> AsyncIterator[ApiServer]:
    async with api_server() as server:
        annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: "u1"}
        server.objects[PLACE] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "uid": "s", "annotations": annotations},
        }
        yield server


@pytest.fixture
async def clusters(r1: ApiServer) -> AsyncIterator[SuperClusters]:
    made = SuperClusters(cast("Any", Pool(r1.kubeconfig())))
    task = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    yield made
    task.cancel()
    await asyncio.wait((task,))


def raw(body: str, status: int = 200, content_type: str = "text/plain", **headers: str) -> bytes:
    lines = [f"HTTP/1.0 {status} X", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", body]).encode()


def status(code: int, message: str) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "message": message}
    return raw(json.dumps(body), code, "application/json")


async def asked(of: SuperClusters) -> tuple[int, str, dict[str, str]]:
    """Return status, body and headers of the answer."""
    async with of.opened(PODS, CART, SENT) as opened:
        body = b""
        while piece := await opened.piece(7):
            body += piece
        return opened.status, body.decode(), dict(opened.headers)


async def refused(of: SuperClusters) -> tuple[int, str]:
    with pytest.raises(StatusError) as caught:
        await asked(of)
    return caught.value.code, caught.value.message


async def test_a_request_goes_to_the_port_of_the_copy(clusters: SuperClusters, r1: ApiServer) -> None:
    r1.answers["cart"] = raw("hello", X_A="b")
    assert await asked(clusters) == (200, "hello", {"Content-Type": "text/plain", "X-A": "b"})
    assert r1.lines() == [
        f"GET {PLACE} HTTP/1.1",
        f"POST {BELOW.replace(':', '%3A')}/cart?a=b HTTP/1.0",
    ]
    head = r1.heads[1]
    assert "Authorization: Bearer secret-token\r\n" in head
    assert head.count("Host: ") == 1
    assert "Host: door.example.com\r\n" in head
    assert "X-Mine: 1\r\n" in head


async def test_links_and_redirects_lead_through_the_path_of_the_client(
    clusters: SuperClusters, r1: ApiServer
) -> None:
    page = f'<a href="{BELOW}/pay">pay</a><a href="help">help</a>'
    r1.answers["cart"] = raw(page, content_type="Text/HTML; charset=utf-8")
    _, body, _ = await asked(clusters)
    assert body == f'<a href="{SHOWN}/pay">pay</a><a href="help">help</a>'
    r1.answers["cart"] = raw("", 302, Location=f"{BELOW}/pay")
    code, _, headers = await asked(clusters)
    assert (code, headers["Location"]) == (302, f"{SHOWN}/pay")


async def test_other_contents_are_not_changed(clusters: SuperClusters, r1: ApiServer) -> None:
    r1.answers["cart"] = raw(BELOW, content_type="application/javascript")
    assert (await asked(clusters))[1] == BELOW


async def test_a_page_that_is_compressed_unasked_is_refused(clusters: SuperClusters, r1: ApiServer) -> None:
    r1.answers["cart"] = raw("...", content_type="text/html", Content_Encoding="gzip")
    code, message = await refused(clusters)
    assert code == 502
    assert "compresses" in message


@pytest.mark.parametrize("code", [400, 401, 403, 404, 418, 500, 503])
async def test_errors_of_a_program_are_passed_on(clusters: SuperClusters, r1: ApiServer, code: int) -> None:
    for answer, body in (
        (raw("no tea", code), "no tea"),
        (status(code, "no tea"), status(code, "no tea").decode().partition("\r\n\r\n")[2]),
    ):
        r1.answers["cart"] = answer
        assert (await asked(clusters))[:2] == (code, body)


@pytest.mark.parametrize(
    ("code", "message", "refusal"),
    [
        (
            503,
            "error trying to reach service: dial tcp 10.1.2.3:80: connect: connection refused",
            (503, "error trying to reach service: connect: connection refused"),
        ),
        (503, "error trying to reach service: EOF", (503, "error trying to reach service: EOF")),
        (
            503,
            "error trying to reach service: dial tcp 10.1.2.3:80: i/o timeout",
            (503, "error trying to reach service: i/o timeout"),
        ),
        (
            503,
            "error trying to reach service: tunnel 10.0.0.5 is away",
            (
                503,
                "error trying to reach service: super cluster r1 did not serve the request; ask its operator",
            ),
        ),
        (
            403,
            f'pods "p" is forbidden: User "vcsync-streams" cannot get resource "pods/proxy" in "{NAMESPACE}"',
            (
                503,
                "super cluster r1 does not permit logs, exec, attach and port-forward; ask its operator",
            ),
        ),
        (
            401,
            "Unauthorized",
            (
                503,
                "super cluster r1 does not permit logs, exec, attach and port-forward; ask its operator",
            ),
        ),
        (404, 'pods "p" not found', (404, 'pod "p" does not exist on its node')),
        (500, f"{NAMESPACE} is odd", (500, "super cluster r1 did not serve the request: status 500")),
    ],
)
async def test_refusals_of_the_super_cluster_tell_nothing_of_it(
    clusters: SuperClusters, r1: ApiServer, code: int, message: str, refusal: tuple[int, str]
) -> None:
    r1.answers["cart"] = status(code, message)
    assert await refused(clusters) == refusal


async def test_the_name_of_the_super_namespace_is_in_no_error(clusters: SuperClusters, r1: ApiServer) -> None:
    r1.answers["cart"] = raw(f"kind: Status\nmessage: {NAMESPACE}\n", 403, "application/yaml")
    code, message = await refused(clusters)
    assert (code, NAMESPACE in message) == (502, False)


async def test_a_long_error_of_a_program_is_passed_on_as_a_whole(
    clusters: SuperClusters, r1: ApiServer
) -> None:
    r1.answers["cart"] = raw("x" * 200_000, 500)
    assert len((await asked(clusters))[1]) == 200_000


@pytest.mark.parametrize("value", ["Ω", "x\udce9", "é"])
async def test_headers_with_any_bytes_are_sent_as_they_came(
    clusters: SuperClusters, r1: ApiServer, value: str
) -> None:
    r1.answers["cart"] = raw("hello")
    sent = ("POST", "1.0", ("Content-Length: 3", f"X-Mine: {value}"))
    async with clusters.opened(PODS, CART, sent) as opened:
        assert await opened.piece(100) == b"hello"
    assert f"X-Mine: {value}\r\n" in r1.heads[1]


async def test_a_program_that_does_not_answer_is_named(
    clusters: SuperClusters, r1: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(super_request, "PROGRAM_SECONDS", 0.05)
    r1.answers["cart"] = b"HTTP/1.1 "
    with pytest.raises(StatusError) as refusal:
        async with clusters.opened(PODS, replace(CART, body=b""), ("GET", "1.0", ())):
            pass
    assert (refusal.value.code, refusal.value.message) == (
        504,
        "the program in the Pod has not answered in time",
    )
