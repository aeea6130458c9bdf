"""The primitives of the protobuf encoding: varints, fixed-width numbers, members by tag. Pure."""

import math
import struct

from vcsync.apimachinery import numbers


class ProtobufError(ValueError):
    """Bytes are not a valid message, or an object does not fit its message.

    Attributes:
        claimed: Group, version and kind of the object, as far as they are known.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.claimed = ("", "", "")


def integer(raw: int, bits: int) -> int | bool:
    """Return the value of a varint in a field with this number of bits. One bit is a boolean."""
    if bits == 1:
        return raw != 0
    if bits == 32:
        raw &= 0xFFFFFFFF
        return raw - (1 << 32) if raw >> 31 else raw
    return raw - (1 << 64) if raw >> 63 else raw


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint. Returns its value and the offset of its end.

    Raises:
        IndexError: The data end within it.
    """
    value = shift = 0
    while True:
        each = data[at]
        at += 1
        value |= (each & 127) << shift
        if each < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise ProtobufError("proto: integer overflow")


def fixed(data: bytes, at: int, end: int, wire: int) -> tuple[float, int]:
    """Read a double, or skip four bytes, which no known field has. Returns the value and the offset of its end."""
    width = {1: 8, 5: 4}.get(wire)
    if width is None:
        raise ProtobufError(f"proto: illegal wireType {wire}")
    if at + width > end:
        raise ProtobufError("unexpected EOF")
    value = struct.unpack_from("<d", data, at)[0] if width == 8 else 0.0
    if not math.isfinite(value):
        raise ProtobufError("json: unsupported value")
    return numbers.whole(value), at + width


def sized_members(data: bytes, at: int, end: int) -> dict[int, bytes]:
    """Return the length-delimited members of a message, by tag. The last one of several counts."""
    result = {}
    while at < end:
        tag, at = varint(data, at)
        if tag & 7 == 2:
            size, at = varint(data, at)
            if at + size > end:
                raise ProtobufError("unexpected EOF")
            result[tag] = data[at : at + size]
            at += size
        elif tag & 7 == 0:
            _, at = varint(data, at)
        else:
            _, at = fixed(data, at, end, tag & 7)
    if at != end:
        raise ProtobufError("unexpected EOF")
    return result


def varints(data: bytes, at: int, end: int) -> dict[int, int]:
    """Return the varints of a message, by field number."""
    result = {}
    while at < end:
        tag, at = varint(data, at)
        if tag & 7 == 2:
            size, at = varint(data, at)
            at += size
        elif tag & 7 == 0:
            result[tag >> 3], at = varint(data, at)
        else:
            _, at = fixed(data, at, end, tag & 7)
    if at != end:
        raise ProtobufError("unexpected EOF")
    return result
