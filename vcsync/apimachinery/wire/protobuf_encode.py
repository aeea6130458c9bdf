"""Encodes JSON objects as protobuf messages, by plans compiled from the table of types. Pure."""

import base64
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import msgspec

from vcsync.apimachinery.wire import types, values
from vcsync.apimachinery.wire.protobuf_wire import ProtobufError

Write = Callable[[Any], bytes]
"""Value of a member -> its bytes, with tag and length."""

_SMALL = tuple(bytes([each]) for each in range(128))
_MASK = (1 << 64) - 1


class _Plan(NamedTuple):
    members: dict[str, Write]
    inlined: tuple[tuple[bytes, str], ...]
    """Tags and types of messages whose members are inline in the JSON of this one."""


def write_message(name: str, obj: dict[str, Any]) -> bytes:
    """Encode the message of a type. Unknown fields are omitted; null means absence.

    Raises:
        ProtobufError: A value does not fit its field.
    """
    try:
        return _message(_plan(name), obj)
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ProtobufError(f"an object does not fit {name}: {error}") from None


def length(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 128:
        return _SMALL[value]
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)


def member(tag: bytes, data: bytes) -> bytes:
    """Encode a length-delimited member."""
    return tag + length(len(data)) + data


def _message(plan: _Plan, obj: dict[str, Any]) -> bytes:
    parts = []
    known = plan.members.get
    for key, value in obj.items():
        if value is not None:
            write = known(key)
            if write is not None:
                parts.append(write(value))
    for tag, inner in plan.inlined:
        parts.append(member(tag, _message(_plan(inner), obj)))
    return b"".join(parts)


@cache
def _plan(name: str) -> _Plan:
    members: dict[str, Write] = {}
    inlined = []
    for field in types.message(name).fields:
        if field.inline:
            inlined.append((_tag(field.number, 2), field.base))
        elif field.name != "-":
            members[field.name] = _writer(field)
    return _Plan(members, tuple(inlined))


def _tag(number: int, wire: int) -> bytes:
    return length(number << 3 | wire)


@cache
def _heads(number: int) -> tuple[bytes, ...]:
    """Return the encoded tag and length for every length below 128."""
    return tuple([_tag(number, 2) + each for each in _SMALL])


def _writer(field: types.Field) -> Write:
    if field.key:
        return _map(field)
    single = _single(field.number, field.base)
    if not field.many:
        return single
    return lambda value: b"".join([single(each) for each in value])


def _map(field: types.Field) -> Write:
    tag = _tag(field.number, 2)
    write_key, write_value = _text(1), _single(2, field.base)

    def write(value: Any) -> bytes:
        return b"".join([member(tag, write_key(key) + write_value(each)) for key, each in value.items()])

    return write


def _single(number: int, base: str) -> Write:
    if base in _SCALARS:
        return _SCALARS[base](number)
    tag = _tag(number, 2)
    content = _CONTENTS.get(base)
    if content is None and types.message(base).bare:
        item = _text(1)
        content = lambda value: b"".join([item(each) for each in value])  # noqa: E731
    if content is not None:
        body = content
        return lambda value: member(tag, body(value))

    heads = _heads(number)

    def write(value: Any) -> bytes:
        data = _message(_plan(base), value)
        size = len(data)
        return heads[size] + data if size < 128 else tag + length(size) + data

    return write


def _text(number: int) -> Write:
    tag, heads = _tag(number, 2), _heads(number)

    def write(value: Any) -> bytes:
        data: bytes = value.encode()
        size = len(data)
        return heads[size] + data if size < 128 else tag + length(size) + data

    return write


def _integer(number: int) -> Write:
    tag = _tag(number, 0)
    return lambda value: tag + length(value & _MASK)


def _boolean(number: int) -> Write:
    no, yes = _tag(number, 0) + b"\x00", _tag(number, 0) + b"\x01"
    return lambda value: yes if value else no


def _double(number: int) -> Write:
    tag = _tag(number, 1)
    return lambda value: tag + struct.pack("<d", value)


def _bytes(number: int) -> Write:
    tag = _tag(number, 2)
    return lambda value: member(tag, base64.b64decode(value, validate=True))


_SCALARS: dict[str, Callable[[int], Write]] = {
    "string": _text,
    "bool": _boolean,
    "int32": _integer,
    "int64": _integer,
    "double": _double,
    "bytes": _bytes,
}


def _time(value: Any) -> bytes:
    if value is None:
        return b""
    seconds = values.whole_seconds(value) if len(value) == 20 else None
    if seconds is None:
        seconds, _ = values.seconds_of(value)
    return b"\x08" + length(seconds & _MASK) + b"\x10\x00"


def _micro_time(value: Any) -> bytes:
    if value is None:
        return b""
    seconds, nanos = values.seconds_of(value)
    return b"\x08" + length(seconds & _MASK) + b"\x10" + length(nanos // 1000 * 1000)


def _duration(value: Any) -> bytes:
    return b"\x08" + length(values.duration_of(value) & _MASK)


def _quantity(value: Any) -> bytes:
    return member(b"\x0a", str(value).encode())


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + member(b"\x1a", value.encode())
    return b"\x08\x00\x10" + length(value & _MASK) + b"\x1a\x00"


def _raw(value: Any) -> bytes:
    return b"" if value is None else member(b"\x0a", msgspec.json.encode(value))


_SCHEMA = "apiextensions/v1.JSONSchemaProps"


def _schema(value: Any) -> bytes:
    return _message(_plan(_SCHEMA), value)


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    return b"\x08\x01" + member(b"\x12", _schema(value))


def _schema_or_list(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join([member(b"\x12", _schema(each)) for each in value])
    return member(b"\x0a", _schema(value))


def _schema_or_texts(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join([member(b"\x12", each.encode()) for each in value])
    return member(b"\x0a", _schema(value))


_CONTENTS: dict[str, Write] = {
    "meta/v1.Time": _time,
    "meta/v1.MicroTime": _micro_time,
    "meta/v1.Duration": _duration,
    "meta/v1.FieldsV1": _raw,
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "runtime.RawExtension": _raw,
    "apiextensions/v1.JSON": _raw,
    "apiextensions/v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions/v1.JSONSchemaPropsOrArray": _schema_or_list,
    "apiextensions/v1.JSONSchemaPropsOrStringArray": _schema_or_texts,
}
"""Types whose JSON is not an object of their fields: value -> body of their message."""
