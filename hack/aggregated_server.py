"""An aggregated API server, for tests: it serves Gadgets from memory, and says who called.

`with AggregatedServer(["web.shop.svc"]) as server: server.trust(pem)`. It believes the X-Remote-* headers of connections with a
certificate of the trusted authority. `server.behaviour` makes it misbehave.
"""

import base64
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from hack.webhooks import Authority

Object = dict[str, Any]

GROUP, VERSION = "parts.example.org", "v1"
CLIENT = "front-proxy-client"
ROOT = f"/apis/{GROUP}/{VERSION}"
VERBS = ["create", "delete", "deletecollection", "get", "list", "update", "patch", "watch"]
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {"name": "gadgets", "singularName": "gadget", "namespaced": True, "kind": "Gadget", "verbs": VERBS, "shortNames": ["gd"]},
        {"name": "callers", "singularName": "caller", "namespaced": False, "kind": "Caller", "verbs": ["get", "create"]},
    ],
}  # fmt: skip
SECONDS = 120.0
"""Longest time for which a hanging answer or a watch lasts."""


class AggregatedServer:
    """Serves until its `with` block ends.

    Args:
        names: names that its certificate is valid for, besides its address.
        address: on which it listens.
        port: on which it listens; 0: a free one.

    Attributes:
        authority: the CA of its certificate.
        behaviour: how it answers requests; a key of `BEHAVIOURS`, or nothing for good answers.
        at: what `behaviour` applies to: `resources`, `discovery` or `all`.
        requests: method, path and headers of all requests, in order.
        gadgets: the objects, by namespace and name.
    """

    def __init__(self, names: Sequence[str] = (), *, address: str = "127.0.0.1", port: int = 0) -> None:
        self.authority = Authority()
        self.behaviour, self.at = "", "resources"
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.gadgets: dict[tuple[str, str], Object] = {}
        self.version = 1
        self.changed = threading.Condition()
        self.ended = threading.Event()
        self._address = address
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.verify_mode = ssl.CERT_OPTIONAL
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.write_bytes(self.authority.issue([address, *names]))
            self._context.load_cert_chain(pair)
        self._start(port)

    def _start(self, port: int) -> None:
        server = self

        class Bound(_Handler):
            api = server

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Log nothing: callers that disconnect are part of the tests."""

        self.ended.clear()
        self._server = Server((self._address, port), Bound)
        self._server.socket = self._context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def trust(self, certificate: str) -> None:
        """Trust client certificates of an authority (PEM), from the next connection on."""
        self._context.load_verify_locations(cadata=certificate)

    @property
    def bundle(self) -> str:
        """The CA certificate in base64, for `caBundle`."""
        return base64.b64encode(self.authority.pem).decode()

    def misbehaves(self, path: str) -> str:
        """Return how to answer a path, or nothing for a good answer."""
        is_discovery = path == ROOT or path.startswith("/openapi")
        return self.behaviour if self.at in ("all", "discovery" if is_discovery else "resources") else ""

    def stop(self) -> None:
        """Stop listening, and end all answers."""
        self.ended.set()
        with self.changed:
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def restart(self) -> None:
        """Listen on the same port again."""
        self._start(self.port)
        self._thread.start()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.ended.is_set():
            self.stop()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: AggregatedServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
        """Say nothing."""

    def _handle(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        self.api.requests.append((self.command, self.path, dict(self.headers.items())))
        body = self._body()
        if self.api.ended.is_set():
            self.close_connection = True
            return
        misbehaviour = self.api.misbehaves(path)
        if misbehaviour:
            BEHAVIOURS[misbehaviour](self)
            return
        user = self._user()
        if not user:
            self.answer(401, {"kind": "Status", "status": "Failure", "message": "who are you?"})
            return
        self._good(path, query, user, body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the library's

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _user(self) -> str:
        certificate: Any = self.connection.getpeercert() or {}
        subject = {key: value for part in certificate.get("subject", ()) for key, value in part}
        return self.headers.get("X-Remote-User", "") if subject.get("commonName") == CLIENT else ""

    def _good(self, path: str, query: Mapping[str, list[str]], user: str, body: bytes) -> None:
        if path == ROOT:
            self.answer(200, RESOURCES)
        elif path == "/openapi/v3":
            document = {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=AB12"}
            self.answer(200, {"paths": {ROOT.removeprefix("/"): document}})
        elif path == f"/openapi/v3{ROOT}":
            self.answer(
                200, {"openapi": "3.0.0", "info": {"title": "parts", "version": VERSION}, "paths": {}}
            )
        elif path.startswith(f"{ROOT}/callers"):
            self.answer(200, self._caller(user, body))
        else:
            parts = path.removeprefix(f"{ROOT}/").split("/")
            namespace = parts[1] if parts[0] == "namespaces" else ""
            name = parts[3] if len(parts) > 3 else ""
            self._gadgets(namespace, name, query, user, body)

    def _caller(self, user: str, body: bytes) -> Object:
        """Return who calls, as the headers say."""
        extra = {
            name: value for name, value in self.headers.items() if name.lower().startswith("x-remote-extra-")
        }
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Caller",
            "metadata": {"name": "me"},
            "user": user,
            "uid": self.headers.get("X-Remote-Uid", ""),
            "groups": self.headers.get_all("X-Remote-Group") or [],
            "extra": extra,
            "path": self.path,
            "headers": sorted({name.lower() for name in self.headers}),
            "body": body.decode(),
        }

    def _gadgets(
        self, namespace: str, name: str, query: Mapping[str, list[str]], user: str, body: bytes
    ) -> None:
        api = self.api
        found = [each for key, each in sorted(api.gadgets.items()) if namespace in ("", key[0])]
        if self.command == "GET" and not name and query.get("watch"):
            self._watch(namespace, int(query.get("resourceVersion", ["0"])[0] or 0))
        elif self.command in ("GET", "HEAD") and not name:
            listed = {"resourceVersion": str(api.version)}
            self.answer(
                200,
                {
                    "apiVersion": f"{GROUP}/{VERSION}",
                    "kind": "GadgetList",
                    "metadata": listed,
                    "items": found,
                },
            )
        elif self.command == "POST":
            self.answer(201, self._store(namespace, json.loads(body), user))
        elif (namespace, name) not in api.gadgets and name:
            self.answer(404, _status(404, "NotFound", f'gadgets.{GROUP} "{name}" not found'))
        elif self.command == "DELETE":
            for key in [key for key in api.gadgets if key[0] == namespace and name in ("", key[1])]:
                with api.changed:
                    del api.gadgets[key]
                    api.version += 1
                    api.changed.notify_all()
            self.answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        elif self.command == "PUT":
            self.answer(200, self._store(namespace, json.loads(body), user))
        else:
            self.answer(200, api.gadgets[namespace, name])

    def _store(self, namespace: str, given: Object, user: str) -> Object:
        api = self.api
        with api.changed:
            api.version += 1
            metadata = {**given["metadata"], "namespace": namespace, "resourceVersion": str(api.version)}
            metadata["uid"] = f"uid-{metadata['name']}"
            metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
            metadata["annotations"] = {**(metadata.get("annotations") or {}), "by": user}
            made = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Gadget", **given, "metadata": metadata}
            api.gadgets[namespace, metadata["name"]] = made
            api.changed.notify_all()
        return made

    def _watch(self, namespace: str, after: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = time.monotonic() + SECONDS
        sent = after
        while not self.api.ended.is_set() and time.monotonic() < end:
            with self.api.changed:
                new = [
                    each
                    for key, each in self.api.gadgets.items()
                    if namespace in ("", key[0]) and int(each["metadata"]["resourceVersion"]) > sent
                ]
                if not new:
                    self.api.changed.wait(0.2)
            for each in new:
                sent = max(sent, int(each["metadata"]["resourceVersion"]))
                self._chunk(json.dumps({"type": "ADDED", "object": each}).encode() + b"\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, status: int, body: Any, **headers: str) -> None:
        """Answer with JSON."""
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _status(code: int, reason: str, message: str) -> Object:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code}  # fmt: skip


def _hang(handler: _Handler) -> None:
    handler.api.ended.wait(SECONDS)


def _endless_headers(handler: _Handler) -> None:
    handler.send_response(200)
    end = time.monotonic() + SECONDS
    while not handler.api.ended.is_set() and time.monotonic() < end:
        handler.wfile.write(b"X-More: and more\r\n" * 100)


def _endless_line(handler: _Handler) -> None:
    end = time.monotonic() + SECONDS
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.api.ended.is_set() and time.monotonic() < end:
        handler.wfile.write(b"a" * 4096)


def _endless_body(handler: _Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    end = time.monotonic() + SECONDS
    while not handler.api.ended.is_set() and time.monotonic() < end:
        handler.wfile.write(b"1000\r\n" + b" " * 4096 + b"\r\n")


def _cut_off(handler: _Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.close_connection = True


def _headers(handler: _Handler) -> None:
    handler.answer(
        200, {}, Set_Cookie="a=b", X_Remote_User="root", Location="https://192.0.2.7/", Etag='"1"',
        Access_Control_Allow_Origin="*", Audit_Id="theirs", Strict_Transport_Security="max-age=1",
    )  # fmt: skip


def _of_status(status: int, **headers: str) -> Callable[[_Handler], None]:
    return lambda handler: handler.answer(status, _status(status, "", f"status {status}"), **headers)


def _raw(text: bytes) -> Callable[[_Handler], None]:
    def answer(handler: _Handler) -> None:
        handler.wfile.write(text)
        handler.close_connection = True

    return answer


BEHAVIOURS: Mapping[str, Callable[[_Handler], None]] = {
    "hang": _hang,
    "endless headers": _endless_headers,
    "endless line": _endless_line,
    "endless body": _endless_body,
    "cut off": _cut_off,
    "headers": _headers,
    "garbage": _raw(b"SSH-2.0-OpenSSH_9\r\n\r\n"),
    "disconnect": _raw(b""),
    "switch": _raw(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    "redirect": _of_status(302, Location="https://192.0.2.7/apis"),
    "permanent redirect": _of_status(308, Location="/apis"),
    "401": _of_status(401),
    "403": _of_status(403),
    "407": _of_status(407),
    "500": _of_status(500),
    "503": _of_status(503, Retry_After="7"),
}
"""Ways to misbehave."""
