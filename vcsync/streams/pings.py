"""Recognizes pings of clients, which pass bytes without anybody using a connection. Pure.

kubectl sends one every five seconds: a ping of WebSockets (RFC 6455, 5.5.2), or a PING of SPDY/3.1 (2.6.5).
"""

_SPDY_PING = b"\x80\x03\x00\x06\x00\x00\x00\x04"
_SPDY_PING_BYTES = 12
_PING, _PONG = 0x89, 0x8A
"""First bytes of control frames that are not fragmented."""
_MASKED, _LENGTH, _LONGEST = 0x80, 0x7F, 125


def is_ping(piece: bytes) -> bool:
    """Tell whether a piece of a connection consists of whole pings.

    A piece that has only a part of one counts as data, so that no connection ends that is in use.
    """
    if not piece:
        return False
    at = 0
    while at < len(piece):
        size = _size(piece, at)
        if not size or at + size > len(piece):
            return False
        at += size
    return True


def _size(piece: bytes, at: int) -> int:
    """Return the bytes of the ping that begins at a position. 0: there is none."""
    if piece.startswith(_SPDY_PING, at):
        return _SPDY_PING_BYTES
    if piece[at] not in (_PING, _PONG) or at + 1 >= len(piece):
        return 0
    second = piece[at + 1]
    length = second & _LENGTH
    return 0 if length > _LONGEST else 2 + (4 if second & _MASKED else 0) + length
