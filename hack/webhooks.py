"""A webhook server on loopback, for tests: the path of a request selects the answer.

`with WebhookServer() as hooks: hooks.url + "/deny"`. Its certificate is valid for 127.0.0.1, localhost and the names
passed to it; `bundle` is its CA in the form of `caBundle`.
"""

import base64
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Object = dict[str, Any]
Reply = tuple[int, dict[str, str], bytes]

SLOW_SECONDS = 4.0
HUGE = 12 << 20


class Authority:
    """A certificate authority for the duration of a test."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook-authority")])
        self._certificate = self._signed(self._name, self._key, [], authority=True)

    @property
    def pem(self) -> bytes:
        """The CA certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, names: Sequence[str], *, days: int = 1) -> bytes:
        """Return the key and certificate of a server, PEM.

        Args:
            names: DNS names and IP addresses that the certificate is valid for.
            days: until it expires; 0: an expired one.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
        certificate = self._signed(subject, key, names, days=days)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private + certificate.public_bytes(serialization.Encoding.PEM)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        names: Sequence[str],
        *,
        days: int = 1,
        authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=days) - timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_name(each) for each in names]), False
            )
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


class WebhookServer:
    """Serves until its `with` block ends.

    Args:
        names: further names that its certificate is valid for.
        address: on which it listens.
        port: on which it listens; 0: a free one.
        days: until its certificate expires; 0: it is expired.

    Attributes:
        authority: the CA of its certificate.
        asked: (path, review) of every request, in order.
    """

    def __init__(
        self, names: Sequence[str] = (), *, address: str = "127.0.0.1", port: int = 0, days: int = 1
    ) -> None:
        self.authority = Authority()
        self.asked: list[tuple[str, Object]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.partition("?")[0]
                review = json.loads(body)
                server.asked.append((path, review))
                status, headers, answer = ANSWERS.get(path, _nothing)(review)
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    if value:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Log nothing: callers that disconnect are part of the tests."""

        self._server = Server((address, port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.write_bytes(self.authority.issue([address, "127.0.0.1", "localhost", *names], days=days))
            context.load_cert_chain(pair)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its URL without a path."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def bundle(self) -> str:
        """The CA certificate in base64, for `caBundle`."""
        return base64.b64encode(self.authority.pem).decode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _json(body: Any, status: int = 200) -> Reply:
    return status, {}, json.dumps(body).encode()


def _nothing(_: Object) -> Reply:
    return 404, {"Content-Type": "text/plain"}, b"no such webhook"


def _answer(review: Object, **response: Any) -> Reply:
    merged = {"uid": review["request"]["uid"], "allowed": True, **response}
    return _json({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": merged})


def _always(**response: Any) -> Callable[[Object], Reply]:
    return lambda review: _answer(review, **response)


def _plain(status: int, text: str, **headers: str) -> Callable[[Object], Reply]:
    return lambda _: (status, {"Content-Type": "text/plain", **headers}, text.encode())


def _patch(*operations: Object) -> Callable[[Object], Reply]:
    return _always(patchType="JSONPatch", patch=_packed(list(operations)))


def _packed(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def _set(review: Object, place: str, key: str, value: str) -> Reply:
    """Answer with a patch that sets a label or annotation."""
    existing = ((review["request"]["object"] or {}).get("metadata") or {}).get(place)
    operation = (
        {"op": "add", "path": f"/metadata/{place}/{key}", "value": value}
        if existing is not None
        else {"op": "add", "path": f"/metadata/{place}", "value": {key: value}}
    )
    return _answer(review, patchType="JSONPatch", patch=_packed([operation]))


def _count(review: Object) -> Reply:
    """Count in an annotation how often the webhook was called for this object."""
    annotations = review["request"]["object"]["metadata"].get("annotations") or {}
    return _set(review, "annotations", "count", str(int(annotations.get("count", "0")) + 1))


def _echoed(review: Object) -> Reply:
    """Refuse with the request as message."""
    request = {key: value for key, value in review["request"].items() if key not in ("uid", "userInfo")}
    message = json.dumps({"apiVersion": review["apiVersion"], **request}, sort_keys=True)
    return _answer(review, allowed=False, status={"message": message})


def _slow(review: Object) -> Reply:
    time.sleep(SLOW_SECONDS)
    return _answer(review)


def _converted(change: Callable[[Object, str], Object]) -> Callable[[Object], Reply]:
    def convert(review: Object) -> Reply:
        request = review["request"]
        wanted = request["desiredAPIVersion"]
        objects = [change({**each, "apiVersion": wanted}, wanted) for each in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return _json({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response})

    return convert


def _moved(obj: Object, wanted: str) -> Object:
    """Convert v1's `spec.hostPort` to `spec.host` and `spec.port` of all later versions, and back."""
    spec = dict(obj.get("spec") or {})
    if wanted.endswith("/v1"):
        if "host" in spec:
            spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port', '')}"
    elif "hostPort" in spec:
        spec["host"], _, spec["port"] = spec.pop("hostPort").partition(":")
    return {**obj, "spec": spec}


def _renamed(obj: Object, _: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "name": "other"}}


def _unlabelled(obj: Object, _: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {"a": "not a label value"}}}


def _refused_conversion(review: Object) -> Reply:
    response = {"uid": review["request"]["uid"], "result": {"status": "Failure", "message": "not today"}}
    return _json({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response})


ANSWERS: dict[str, Callable[[Object], Reply]] = {
    "/allow": _always(),
    "/deny": _always(allowed=False, status={"message": "you shall not pass"}),
    "/deny-silently": _always(allowed=False),
    "/deny-reason": _always(allowed=False, status={"reason": "Forbidden"}),
    "/deny-code": _always(allowed=False, status={"code": 403, "message": "no"}),
    "/deny-whole": _always(
        allowed=False,
        status={
            "code": 422,
            "reason": "Invalid",
            "message": "it is wrong",
            "details": {
                "name": "n",
                "kind": "k",
                "causes": [{"reason": "FieldValueInvalid", "message": "m", "field": "spec.f"}],
            },
        },
    ),
    "/deny-success": _always(allowed=False, status={"status": "Success", "code": 200}),
    "/deny-later": _always(
        allowed=False, status={"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}}
    ),
    "/warn": _always(warnings=["beware", 'of "this"', "beware"]),
    "/warn-deny": _always(allowed=False, warnings=["told you"], status={"message": "denied"}),
    "/tell": _echoed,
    "/label": lambda review: _set(review, "labels", "touched", "yes"),
    "/relabel": lambda review: _set(review, "labels", "touched", "again"),
    "/annotate": lambda review: _set(review, "annotations", "seen", "yes"),
    "/count": _count,
    "/data": _patch({"op": "add", "path": "/data", "value": {"made": "by webhook"}}),
    "/unknown": _patch({"op": "add", "path": "/bogus", "value": 1}),
    "/mistyped": _patch({"op": "add", "path": "/data", "value": {"a": 1}}),
    "/invalid": _patch({"op": "add", "path": "/data", "value": {"not a key": "x"}}),
    "/kind": _patch({"op": "replace", "path": "/kind", "value": "Secret"}),
    "/owners": _patch(
        {"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "m", "operation": "Nothing"}]}
    ),
    "/no-operations": _patch(),
    "/same": _patch({"op": "copy", "from": "/kind", "path": "/kind"}),
    "/test": _patch({"op": "test", "path": "/metadata/name", "value": "nobody"}),
    "/remove": _patch({"op": "remove", "path": "/nothing/there"}),
    "/replace": _patch({"op": "replace", "path": "/nothing/there", "value": 1}),
    "/operation": _patch({"op": "turn", "path": "/a"}),
    "/no-patch-type": _always(patch=_packed([])),
    "/no-patch": _always(patchType="JSONPatch"),
    "/merge-patch": _always(patch=_packed({"data": {}}), patchType="MergePatch"),
    "/no-json-patch": _always(patch=base64.b64encode(b"{nonsense").decode(), patchType="JSONPatch"),
    "/no-base64": _always(patch="%%%", patchType="JSONPatch"),
    "/wrong-uid": _always(uid="another"),
    "/no-response": lambda review: _json({"kind": review["kind"], "apiVersion": review["apiVersion"]}),
    "/no-kind": lambda review: _json({"response": {"uid": review["request"]["uid"], "allowed": True}}),
    "/other-version": lambda review: _json(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1beta1",
            "response": {"uid": review["request"]["uid"], "allowed": True},
        }
    ),
    "/other-kind": lambda _: _json(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m"}
    ),
    "/slow": _slow,
    "/500": _plain(500, "boom"),
    "/404": _plain(404, "gone"),
    "/403": _plain(403, "not you"),
    "/503": _plain(503, "later"),
    "/204": _plain(204, ""),
    "/status": lambda _: _json(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "a status", "code": 500}, 500
    ),
    "/text": _plain(200, "hello"),
    "/empty": _plain(200, ""),
    "/list": lambda _: _json([]),
    "/redirect": _plain(307, "", Location="/allow"),
    "/elsewhere": _plain(302, "", Location="https://169.254.169.254/"),
    "/huge": lambda _: (200, {}, b'{"a":"' + b"x" * HUGE + b'"}'),
    "/convert": _converted(_moved),
    "/convert-renamed": _converted(_renamed),
    "/convert-unlabelled": _converted(_unlabelled),
    "/convert-not": _refused_conversion,
}
