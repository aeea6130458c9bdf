"""Malformed HTTP requests, as a hostile client writes them to the socket."""

from random import Random

from hack.fuzz.request import Request

PATHS = (
    b"/api/v1/../v1/pods", b"/api/v1/%2e%2e/pods", b"//api//v1//pods", b"/api/v1/pods/", b"/api/v1/namespaces/a%2fb/pods",
    b"/api/v1/namespaces/a/../b/pods", b"/api/v1/\x00", b"/api/v1/%00", b"/%", b"/%zz", b"/\xff\xfe", b"*", b"", b"api", b"?", b"/?", b"/#a",
    b"http://other/api", b"https://x:y@h/api", b"/tenants/", b"/tenants//api", b"/tenants/witness/api/v1/secrets",
    b"/tenants/fuzz/../witness/api/v1/secrets", b"/tenants/fuzz/%2e%2e/witness/api/v1/secrets", b"/tenants/fuzz%2f..%2fwitness/api/v1/secrets",
    b"/tenants/fuzz/tenants/witness/api/v1/secrets", b"/tenants/all/api/v1/secrets", b"/tenants/*/api/v1/secrets", b"/tenants/WITNESS/api",
    b"/api/v1/tenants/witness/namespaces", b"/vcsync/v1/tenants", b"/vcsync/v1/tenants/witness", b"/metrics", b"/readyz/..", b"/openapi/v3/../..",
    b"/api/v1/namespaces/" + b"a" * 9000 + b"/pods", b"/" + b"a/" * 5000, b"/api/v1/pods?" + b"&" * 9000, b"/api/v1/pods?limit=1" + b"0" * 5000,
    b"/api/v1/namespaces/default/pods/../../../../../tenants/witness/api/v1/secrets", b"/livez", b"/version", b"/apis/..;/x",
)  # fmt: skip
METHODS = (
    b"GET",
    b"POST",
    b"PUT",
    b"HEAD",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"get",
    b"G\x00T",
    b"PROPFIND",
    b"",
    b"A" * 9000,
)
HEADERS = (
    b"A: " + b"a" * 20000, b"\r\n".join(b"A%d: b" % at for at in range(200)), b"A" * 17000 + b": b", b"NoColon", b": empty", b" folded: x",
    b"A : space", b"A: \x00", b"A: \xff\xfe", b"Authorization: Bearer x", b"Authorization: Bearer " + b"x" * 9000, b"Authorization: Basic =",
    b"Impersonate-User: system:admin", b"Impersonate-Group: system:masters", b"Impersonate-Extra-%zz: a", b"X-Remote-User: admin",
    b"X-Forwarded-For: 1", b"Upgrade: websocket\r\nConnection: Upgrade", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    b"Connection: close", b"Connection: x, , y", b"Expect: 100-continue", b"Expect: other", b"Host: a\r\nHost: b", b"Host:", b"Range: bytes=0-1",
    b"Accept: " + b"application/json;q=0.1," * 300, b"Accept: a/b/c;;;q=x", b"Accept-Encoding: gzip;q=0", b"Content-Encoding: gzip",
    b"Cookie: " + b"a=b; " * 1000, b"If-None-Match: \"x", b"Sec-WebSocket-Key: x", b"Transfer-Encoding: identity", b"Content-Type: ;;=",
)  # fmt: skip
BODY = b'{"metadata":{"name":"raw"}}'
LENGTHS = (
    b"Content-Length: 3\r\nContent-Length: 27", b"Content-Length: 27\r\nContent-Length: 27", b"Content-Length: 27, 27", b"Content-Length: -1",
    b"Content-Length: +27", b"Content-Length: 0x1b", b"Content-Length: 1e1", b"Content-Length:", b"Content-Length: " + b"9" * 40,
    b"Content-Length: 27\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding : chunked",
)  # fmt: skip
CHUNKS = (
    b"1b\r\n" + BODY + b"\r\n0\r\n\r\n", b"zz\r\n" + BODY, b"-1\r\n", b"ffffffffffffffff\r\nx", b"1b;a=b\r\n" + BODY + b"\r\n0\r\nX: y\r\n\r\n",
    b"1B\n" + BODY + b"\n0\n\n", b"0\r\n\r\nGET /tenants/witness/api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n", b"1\r\n{\r\n" * 3000 + b"0\r\n\r\n",
)  # fmt: skip
POST = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: fuzz\r\n"


def request(number: int, random: Random) -> Request:
    """Return a malformed request."""
    match random.randrange(8):
        case 0 | 1:
            data = b"GET " + random.choice(PATHS) + b" HTTP/1.1\r\nHost: fuzz\r\n\r\n"
        case 2:
            data = random.choice(METHODS) + b" " + random.choice(PATHS) + b" HTTP/1.1\r\nHost: fuzz\r\n\r\n"
        case 3:
            data = b"GET /api/v1/namespaces HTTP/1.1\r\nHost: fuzz\r\n" + random.choice(HEADERS) + b"\r\n\r\n"
        case 4:
            data = (
                POST
                + random.choice(LENGTHS)
                + b"\r\n\r\n"
                + random.choice((BODY, b"0\r\n\r\n" + BODY, BODY * 9))
            )
        case 5:
            data = POST + b"Transfer-Encoding: chunked\r\n\r\n" + random.choice(CHUNKS)
        case 6:
            data = _flipped(POST + b"Content-Length: 27\r\n\r\n" + BODY, random)
        case _:
            return _slow(number, random)
    return Request(number, (data,), data.split(b" ", 1)[0].decode("latin-1"), lenient=True)


def _flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randrange(1, 6)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _slow(number: int, random: Random) -> Request:
    """Return a request whose body is sent in pieces; the pieces are few and short, to limit the duration of a run."""
    if random.random() < 0.9:
        head = random.choice(
            (
                b"GET / HTTP/0.9\r\n\r\n",
                b"GET / HTTP/2.0\r\n\r\n",
                b"GET /\r\n\r\n",
                b"\x16\x03\x01",
                b"\r\n" * 99,
            )
        )
        return Request(number, (head,), lenient=True)
    whole = POST + b"Content-Length: 27\r\n\r\n" + BODY
    return Request(
        number, tuple(whole[at : at + 20] for at in range(0, len(whole), 20)), "POST", 0.05, lenient=True
    )
