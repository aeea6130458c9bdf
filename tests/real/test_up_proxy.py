"""The subresource `proxy`: programs in Pods on a super cluster, reached through the API of an embedded tenant.

The super cluster r1 is a kube-apiserver. Its Pod has the address of this machine, on which the program listens.
"""

import json
import threading
from collections.abc import Iterator
from http.client import HTTPMessage, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubelet_kit import POD
from streams_kit import Pool, User, streams_pool

from tests.real.waiting import eventually
from vcsync.apiserver.operator.folder import own_address

NAMESPACE = "/api/v1/namespaces/default"
SERVICE = "web"


class Program(BaseHTTPRequestHandler):
    """Answers with a page that has links, with what it receives, or with an error."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        path = self.path.partition("?")[0]
        if path == "/":
            self._send(200, b'<a href="/cart">cart</a>', "text/html")
        elif path == "/redirect":
            self._send(302, b"", "text/plain", Location="/cart")
        elif path == "/ws":
            self.wfile.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            )
            self.wfile.write(self.rfile.read(5).upper())
            self.close_connection = True
        elif path == "/teapot":
            self._send(418, b"no tea", "text/plain", Set_Cookie="a=b")
        else:
            seen = {
                "method": self.command,
                "path": self.path,
                "headers": dict(self.headers),
                "body": self.rfile.read(length).decode(),
            }
            self._send(200, json.dumps(seen).encode(), "application/json")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815 - of the base class

    def _send(self, status: int, body: bytes, content_type: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run the program."""
    server = ThreadingHTTPServer((own_address(), 0), Program)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Pool]:
    """Run the system; acme's Pod leads to the program, and so does its Service."""
    with streams_pool(tmp_path_factory) as found:
        pods = json.loads(found.r1.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        address = own_address()
        moved = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
        for each in pods:
            where = ("-n", each["metadata"]["namespace"], each["metadata"]["name"])
            found.r1.kubectl("patch", "pod", *where, "--subresource=status", "--type=merge", "-p", moved)
        found.acme.kubectl("label", "pod", POD, "app=web")
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": port}]},
        }
        found.acme.kubectl("create", "-f", "-", stdin=json.dumps(service))
        eventually(lambda: address in found.acme.kubectl("get", "endpoints", SERVICE, "-o", "yaml"))
        yield found


@pytest.fixture
def base(pool: Pool, port: int, request: pytest.FixtureRequest) -> str:
    """The path of the Pod's port, or of the Service."""
    return (
        f"{NAMESPACE}/pods/{POD}:{port}/proxy"
        if request.param == "pod"
        else f"{NAMESPACE}/services/{SERVICE}:http/proxy"
    )


both = pytest.mark.parametrize("base", ["pod", "service"], indirect=True)


def prefix(user: User) -> str:
    return urlsplit(user.server).path


def ask(user: User, method: str, target: str, *lines: str, body: str = "") -> tuple[int, HTTPMessage, str]:
    """Return status, headers and body of the answer to a request."""
    head = [f"{method} {prefix(user)}{target} HTTP/1.1", "Host: door.example.com", *lines, "", body]
    with user.connection() as connection:
        connection.sendall("\r\n".join(head).encode("latin-1"))
        with HTTPResponse(connection, method=method) as response:
            response.begin()
            return response.status, response.headers, response.read().decode()


@pytest.mark.timeout(600)
@both
def test_kubectl_reaches_a_program(pool: Pool, base: str) -> None:
    seen = json.loads(pool.acme.kubectl("get", "--raw", f"{base}/a/b?c=d"))
    assert (seen["method"], seen["path"]) == ("GET", "/a/b?c=d")
    made = json.loads(pool.acme.kubectl("create", "--raw", f"{base}/orders", "-f", "-", stdin='{"tea": 1}'))
    assert (made["method"], made["path"], made["body"]) == ("POST", "/orders", '{"tea": 1}')
    assert "the server responded with the status code 418" in pool.acme.refused(
        "get", "--raw", f"{base}/teapot"
    )


@both
def test_a_page_leads_through_the_api_of_the_tenant(pool: Pool, base: str) -> None:
    status, _, page = ask(pool.acme, "GET", f"{base}/")
    assert (status, f'href="{prefix(pool.acme)}{base}/cart"' in page) == (200, True), page
    status, headers, _ = ask(pool.acme, "GET", f"{base}/redirect")
    assert (status, headers["Location"]) == (302, f"{prefix(pool.acme)}{base}/cart")
    status, headers, _ = ask(pool.acme, "GET", base)
    assert (status, headers["Location"]) == (301, f"{prefix(pool.acme)}{base}/")


@both
def test_every_method_reaches_the_program(pool: Pool, base: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        _, _, found = ask(pool.acme, method, f"{base}/x", "Content-Length: 3", body="tea")
        assert (f'"method": "{method}"' in found, '"body": "tea"' in found) == (True, True), found
    status, _, found = ask(pool.acme, "HEAD", f"{base}/x")
    assert (status, found) == (200, "")
    assert ask(pool.acme, "OPTIONS", f"{base}/x")[0] in {403, 405}


def test_a_program_learns_no_credentials_and_nothing_of_the_super_cluster(pool: Pool, port: int) -> None:
    secret = ("Cookie: a=secret", "X-Remote-User: secret", "Impersonate-Extra-A: secret", "X-Mine: 1")
    status, _, found = ask(
        pool.acme,
        "GET",
        f"{NAMESPACE}/pods/{POD}:{port}/proxy/x",
        "Accept: text/html",
        *secret[:2],
        secret[3],
    )
    assert (status, '"X-Mine": "1"' in found, "secret" in found) == (200, True, False), found
    assert '"Host": "door.example.com"' in found
    assert '"Authorization"' not in found
    assert str(urlsplit(pool.r1.url).port) not in found
    _, headers, _ = ask(pool.acme, "GET", f"{NAMESPACE}/pods/{POD}:{port}/proxy/teapot")
    assert "Set-Cookie" not in headers


@both
def test_a_websocket_reaches_a_program(pool: Pool, base: str) -> None:
    lines = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    target = f"GET {prefix(pool.acme)}{base}/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    answer = pool.acme.ask(target + "\r\n".join(lines) + "\r\n\r\nhello")
    assert answer.startswith("HTTP/1.1 101 "), answer


# ---- Refusals and attacks ----------------------------------------------------------------------------------------------


def test_a_port_without_a_program_is_named_without_an_address(pool: Pool) -> None:
    refusal = pool.acme.refused("get", "--raw", f"{NAMESPACE}/pods/{POD}:1/proxy/")
    assert "error trying to reach service: connect: connection refused" in refusal
    assert own_address() not in refusal


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("pods/{pod}:{port}/proxy/../../../secrets", 400),
        ("pods/{pod}:{port}/proxy/%2e%2e/%2e%2e/secrets", 400),
        ("pods/{pod}:{port}/proxy/..%2f..%2fsecrets", 400),
        ("pods/{pod}:{port}%2fproxy/", 400),
        ("pods/{pod}%3a{port}%3fx/proxy/", 400),
        ("pods/{pod}%3a{port}%40example.com/proxy/", 400),
        ("pods/https:{pod}:{port}:1/proxy/", 400),
        ("pods/ftp:{pod}:{port}/proxy/", 400),
        ("pods/other:{port}/proxy/", 404),
        ("services/{pod}:81/proxy/", 503),
        ("services/none:80/proxy/", 404),
    ],
)
def test_odd_targets_are_refused(pool: Pool, port: int, target: str, status: int) -> None:
    found, _, body = ask(pool.acme, "GET", f"{NAMESPACE}/{target.format(pod=POD, port=port)}")
    assert found == status, body
    assert "vcsync" not in body


@pytest.mark.parametrize(
    "path", ["/%0d%0aX-Remote-User:%20admin", "/a%20HTTP/1.1%0d%0aHost:%20x", "/?a=b%0d%0aX-A:%20b"]
)
def test_a_path_is_no_head_of_another_request(pool: Pool, port: int, path: str) -> None:
    _, _, found = ask(pool.acme, "GET", f"{NAMESPACE}/pods/{POD}:{port}/proxy/x{path}")
    assert "X-Remote-User" not in json.loads(found)["headers"]
    assert "X-A" not in json.loads(found)["headers"]


def test_services_lead_to_own_pods_only(pool: Pool, port: int) -> None:
    """Endpoints are written by tenants: what they name must be a Pod of the tenant that has this address."""
    address = own_address()
    for name, reference in (
        ("plain", None),
        ("forged", {"kind": "Pod", "namespace": "default", "name": "none"}),
        ("foreign", {"kind": "Pod", "namespace": "kube-system", "name": POD}),
    ):
        target = {"ip": address, **({"targetRef": reference} if reference else {})}
        endpoints = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": name},
            "subsets": [{"addresses": [target], "ports": [{"port": port}]}],
        }
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"ports": [{"port": 80}]},
        }
        for each in (service, endpoints):
            pool.umbrella.kubectl("create", "-f", "-", stdin=json.dumps(each))
        refusal = pool.umbrella.refused("get", "--raw", f"{NAMESPACE}/services/{name}:80/proxy/")
        assert "no endpoints available for service" in refusal


def test_a_user_needs_the_permission(pool: Pool, port: int) -> None:
    refusal = pool.acme.refused("get", "--raw", f"{NAMESPACE}/pods/{POD}:{port}/proxy/", "--as", "bob")
    assert 'cannot get resource "pods/proxy"' in refusal


def test_nodes_are_not_reached(pool: Pool) -> None:
    node = pool.acme.kubectl("get", "pod", POD, "-o", "jsonpath={.spec.nodeName}")
    assert "nodes/proxy" in pool.acme.refused("get", "--raw", f"/api/v1/nodes/{node}/proxy/pods")
