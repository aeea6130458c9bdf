"""Answers of a hostile external API server: the door passes nothing odd on, keeps serving, and mixes no answers up."""

import gzip
from collections.abc import Iterator, Sequence

from hack.attacks.case import Case, Scene, wrong
from hack.attacks.judge import REFUSED
from hack.attacks.tables.forwarded import PLACE, outside

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
POISON = OK + b'Content-Length: 18\r\n\r\n{"message":"other"}'
BROKEN = frozenset({0, 502, 503, 504})
"""Codes of an answer that cannot be passed on; 0: it broke off."""
PASSED = REFUSED | BROKEN | {200, 204, 301, 302, 304}
HEADERS = frozenset(
    {"accept-ranges", "audit-id", "cache-control", "connection", "content-encoding", "content-length", "content-range",
     "content-type", "date", "etag", "last-modified", "retry-after", "server", "transfer-encoding", "vary", "warning",
     "x-content-type-options", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"}
)  # fmt: skip
"""Headers that an answer to a client may have."""
ANSWERS = {
    "two answers": OK + b"Content-Length: 2\r\n\r\n{}" + POISON,
    "an answer behind one without a body": b"HTTP/1.1 204 No Content\r\n\r\n" + POISON,
    "an answer behind 304": b"HTTP/1.1 304 Not Modified\r\n\r\n" + POISON,
    "a length and a coding": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + POISON,
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 99\r\n\r\n{}" + POISON,
    "a negative length": OK + b"Content-Length: -1\r\n\r\n{}",
    "a signed length": OK + b"Content-Length: +2\r\n\r\n{}",
    "a length of many digits": OK + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{}",
    "a length that is too long": OK + b"Content-Length: 99\r\n\r\n{}",
    "an unknown coding": OK + b"Transfer-Encoding: xchunked\r\n\r\n{}",
    "a chunk without a size": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk of a negative size": OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "a chunk of a huge size": OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    "chunks without an end": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    "trailers": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nSet-Cookie: a=b\r\n\r\n",
    "no HTTP": b"220 smtp.example.com ESMTP\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Type: appl",
    "line feeds only": b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
    "another version": b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a status of zero": b"HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\n{}",
    "an upgrade that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + POISON,
    "a hundred continuations": b"HTTP/1.1 100 Continue\r\n\r\n" * 100 + OK + b"Content-Length: 2\r\n\r\n{}",
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" * 10 + OK + b"Content-Length: 2\r\n\r\n{}",
    "a long header": OK + b"Warning: " + b"a" * 100_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    "many headers": OK + b"Vary: a\r\n" * 20_000 + b"Content-Length: 2\r\n\r\n{}",
    "NUL in a header": OK + b"Warning: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "a carriage return in a header": OK + b"Warning: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\n{}",
    "a folded header": OK + b"Warning: a\r\n Set-Cookie: b\r\nContent-Length: 2\r\n\r\n{}",
    "bytes that are no text": OK + b"Warning: \xff\xfe\r\nETag: \x80\r\nContent-Length: 2\r\n\r\n{}",
    "a type with a line feed": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\n{}",
    "cookies": OK + b"Set-Cookie: a=b; Domain=.example.com\r\nSet-Cookie2: c\r\nContent-Length: 2\r\n\r\n{}",
    "another place": b"HTTP/1.1 302 Found\r\nLocation: https://victim/\r\nContent-Length: 0\r\n\r\n",
    "another door": OK + b'Alt-Svc: h2="victim:443"\r\nRefresh: 0;url=//victim\r\nLink: <//victim>\r\nContent-Length: 2\r\n\r\n{}',
    "a page's powers": OK + b"Access-Control-Allow-Origin: *\r\nClear-Site-Data: *\r\nContent-Security-Policy: x\r\n"
    b"Strict-Transport-Security: max-age=0\r\nPublic-Key-Pins: x\r\nContent-Length: 2\r\n\r\n{}",
    "an audit id": OK + b"Audit-Id: forged\r\nContent-Length: 2\r\n\r\n{}",
    "credentials asked for": b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n",
    "a proxy's credentials asked for": b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n",
    "a body that grows": OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(b"0" * 2**24))
    + gzip.compress(b"0" * 2**24),
    "a coding that is none": OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
}  # fmt: skip
NAMED = {f"answer-{number}-": name for number, name in enumerate(ANSWERS)}


def cases() -> Sequence[Case]:
    """Have the server answer in each way, and then as it should."""
    return [_answered(word, name) for word, name in NAMED.items()]


def _answered(word: str, name: str) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        place = outside(scene)
        place.server.answers = {each: ANSWERS[NAMED[each]] for each in NAMED}
        for query in ("", "?watch=1"):
            answer = place.door.ask("GET", f"{place.path}/{word}{query}", seconds=20)
            yield from wrong(answer, PASSED)
            if other := {key for key, _ in answer.headers} - HEADERS:
                yield f"these headers reached the client: {sorted(other)}"
            if answer.header("audit-id") == "forged":
                yield "the server chose the audit id"
            if b'"other"' in answer.body:
                yield "an answer to no request reached the client"
            for number in range(3):
                later = place.door.ask("GET", f"{place.path}/later-{number}")
                if later.status != 200 or later.message != f"{PLACE}/later-{number}":
                    yield f"a later request got another's answer: {later.status} {later.message}"

    return Case(f"the answer: {name}", attack)
