"""Decodes protobuf messages to the JSON objects of Go, by plans compiled from the table of types. Pure.

For invalid bytes, this module raises only ProtobufError. The depth is limited.
"""

import base64
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from vcsync.apimachinery.wire import gojson, types, values, zeros
from vcsync.apimachinery.wire.protobuf_wire import (
    ProtobufError,
    fixed,
    integer,
    sized_members,
    varint,
    varints,
)

MAX_DEPTH = 128
"""Most nested messages."""

MAX_ITEMS = 100_000
"""Most items of one list. Each takes two bytes in the message, and hundreds in memory."""

ENVELOPE = b"k8s\x00"

LISTED, KEYED, INLINED = 1, 2, 3

Read = Callable[[bytes, int, int, int], Any]
"""(data, start, end, depth) of a length-delimited member -> its value."""


class _Sized(NamedTuple):
    """A length-delimited member.

    Attributes:
        name: Name in JSON.
        read: Decodes the value; None: it is a text.
        mode: 0 for a single value, otherwise LISTED, KEYED or INLINED.
        keep: Whether an empty value is kept.
    """

    name: str
    read: Read | None
    mode: int
    keep: bool


class _Number(NamedTuple):
    """A member that is a varint or a double.

    Attributes:
        name: Name in JSON.
        bits: 1: boolean, 32 or 64: integer, 0: double.
        many: Whether it is a list.
        keep: Whether a zero is kept.
    """

    name: str
    bits: int
    many: bool
    keep: bool


class _Plan(NamedTuple):
    sized: dict[int, _Sized]
    numbers: dict[int, _Number]
    always: tuple[tuple[str, Callable[[], Any]], ...]


def read_message(name: str, data: bytes) -> dict[str, Any]:
    """Decode the message of a type.

    Raises:
        ProtobufError: The bytes are not such a message.
    """
    try:
        return _message(_plan(name), data, 0, len(data), 0)
    except IndexError:
        raise ProtobufError("unexpected EOF") from None
    except RecursionError:
        raise ProtobufError("message is nested too deep") from None
    except (values.BadValue, gojson.NotJSON, struct.error) as error:
        raise ProtobufError(str(error)) from None


def read_unknown(data: bytes, start: int) -> tuple[str, str, bytes]:
    """Decode an envelope (`runtime.Unknown`). `start` is the offset after its magic number.

    Returns:
        apiVersion, kind and the contained message.

    Raises:
        ProtobufError: The bytes are not an envelope.
    """
    try:
        parts = sized_members(data, start, len(data))
        about = sized_members(parts.get(10, b""), 0, len(parts.get(10, b"")))
    except IndexError:
        raise ProtobufError("unexpected EOF") from None
    api_version, kind = (str(about.get(tag, b""), "utf-8", "replace") for tag in (10, 18))
    return api_version, kind, parts.get(18, b"")


def _message(plan: _Plan, data: bytes, at: int, end: int, depth: int) -> dict[str, Any]:  # noqa: C901, PLR0912
    # One loop without calls: it runs for every field of every protobuf body.
    if depth > MAX_DEPTH:
        raise ProtobufError("message is nested too deep")
    result: dict[str, Any] = {}
    sized = plan.sized
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = varint(data, at - 1)
        wire = tag & 7
        if wire == 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = varint(data, at - 1)
            stop = at + size
            if stop > end:
                raise ProtobufError("unexpected EOF")
            found = sized.get(tag)
            if found is not None:
                name, read, mode, keep = found
                value = (
                    str(data[at:stop], "utf-8", "replace")
                    if read is None
                    else read(data, at, stop, depth + 1)
                )
                if mode:
                    _gather(result, name, mode, value)
                elif value or keep:
                    result[name] = value
            at = stop
        else:
            at = _scalar(plan.numbers.get(tag), tag & 7, data, at, end=end, result=result)
    if at != end:
        raise ProtobufError("unexpected EOF")
    for name, zero in plan.always:
        if name not in result:
            result[name] = zero()
    return result


def _gather(result: dict[str, Any], name: str, mode: int, value: Any) -> None:
    if mode == LISTED:
        items = result.setdefault(name, [])
        if len(items) >= MAX_ITEMS:
            raise ProtobufError("message has too many items")
        items.append(value)
    elif mode == KEYED:
        result.setdefault(name, {})[value[0]] = value[1]
    else:
        result.update(value)


def _scalar(
    found: _Number | None, wire: int, data: bytes, at: int, *, end: int, result: dict[str, Any]
) -> int:
    """Decode a member that is not length-delimited. Returns the offset of its end."""
    value: Any
    if wire == 0:
        raw, at = varint(data, at)
        value = integer(raw, found.bits) if found is not None else 0
    else:
        value, at = fixed(data, at, end, wire)
    if found is not None and (value or found.keep):
        if found.many:
            result.setdefault(found.name, []).append(value)
        else:
            result[found.name] = value
    return at


@cache
def _plan(name: str) -> _Plan:
    sized: dict[int, _Sized] = {}
    numbers: dict[int, _Number] = {}
    for field in types.message(name).fields:
        if field.name == "-" and not field.inline:
            continue
        keep = field.pointer or not field.omits
        if field.base in _BITS and not field.key:
            tag = field.number << 3 | (1 if field.base == "double" else 0)
            numbers[tag] = _Number(field.name, _BITS[field.base], field.many, keep)
            continue
        struct_like = field.base[0].islower() and "." in field.base
        sized[field.number << 3 | 2] = _Sized(
            name=field.name,
            read=_reader(field),
            mode=INLINED if field.inline else LISTED if field.many else KEYED if field.key else 0,
            keep=keep or (struct_like and not field.omits_struct),
        )
    return _Plan(sized, numbers, zeros.always(name))


_BITS = {"bool": 1, "int32": 32, "int64": 64, "double": 0}


def _reader(field: types.Field) -> Read | None:
    if not field.key:
        return _single(field.base)
    value = _single(field.base)

    def read(data: bytes, at: int, end: int, depth: int) -> tuple[str, Any]:
        key, start, stop = "", 0, 0
        while at < end:
            tag = data[at]
            if tag & 7 != 2:
                raise ProtobufError("a map has texts or messages")
            size, at = varint(data, at + 1)
            if at + size > end:
                raise ProtobufError("unexpected EOF")
            if tag == 10:
                key = str(data[at : at + size], "utf-8", "replace")
            elif tag == 18:
                start, stop = at, at + size
            at += size
        if value is None:
            return key, str(data[start:stop], "utf-8", "replace")
        return key, value(data, start, stop, depth)

    return read


def _single(base: str) -> Read | None:
    """Return the function that decodes a value of this type, or None if it is a text."""
    if base == "string":
        return None
    if base in _SPECIAL:
        return _SPECIAL[base]
    if types.message(base).bare:
        return _texts
    return lambda data, at, end, depth: _message(_plan(base), data, at, end, depth)


def _bytes(data: bytes, at: int, end: int, _depth: int) -> Any:
    return base64.b64encode(data[at:end]).decode()


def _texts(data: bytes, at: int, end: int, _depth: int) -> Any:
    result = []
    while at < end:
        tag, at = varint(data, at)
        size, at = varint(data, at)
        if tag != 10 or at + size > end:
            raise ProtobufError("unexpected EOF")
        result.append(str(data[at : at + size], "utf-8", "replace"))
        at += size
    return result


def _time(data: bytes, at: int, end: int, _depth: int) -> Any:
    return values.time_text(integer(varints(data, at, end).get(1, 0), 64)) if end > at else None


def _micro_time(data: bytes, at: int, end: int, _depth: int) -> Any:
    if end == at:
        return None
    found = varints(data, at, end)
    return values.micro_time_text(integer(found.get(1, 0), 64), integer(found.get(2, 0), 32))


def _duration(data: bytes, at: int, end: int, _depth: int) -> Any:
    return values.duration_text(integer(varints(data, at, end).get(1, 0), 64))


def _quantity(data: bytes, at: int, end: int, _depth: int) -> Any:
    return values.quantity(str(sized_members(data, at, end).get(10, b"0"), "utf-8", "replace") or "0")


def _int_or_string(data: bytes, at: int, end: int, _depth: int) -> Any:
    found = varints(data, at, end)
    if found.get(1, 0) == 1:
        return str(sized_members(data, at, end).get(26, b""), "utf-8", "replace")
    return integer(found.get(2, 0), 32)


def _json(data: bytes, at: int, end: int, depth: int) -> Any:
    """Decode raw JSON, or an object in its own envelope."""
    raw = sized_members(data, at, end).get(10, b"")
    if raw.startswith(ENVELOPE):
        return _enveloped(raw, depth)
    return gojson.loads(raw) if raw else None


def _enveloped(raw: bytes, depth: int) -> Any:
    api_version, kind, inner = read_unknown(raw, len(ENVELOPE))
    group, _, version = api_version.rpartition("/")
    found = types.find(group, version, kind)
    about = {"kind": kind, "apiVersion": api_version}
    return about if found is None else about | _message(_plan(found.name), inner, 0, len(inner), depth + 1)


_SCHEMA = "apiextensions/v1.JSONSchemaProps"


def _schema_or_bool(data: bytes, at: int, end: int, depth: int) -> Any:
    schema = sized_members(data, at, end).get(18)
    if schema is not None:
        return _message(_plan(_SCHEMA), schema, 0, len(schema), depth)
    return varints(data, at, end).get(1, 0) != 0


def _schema_or_list(data: bytes, at: int, end: int, depth: int) -> Any:
    return _either(_message(_SCHEMAS, data, at, end, depth))


def _schema_or_texts(data: bytes, at: int, end: int, depth: int) -> Any:
    return _either(_message(_TEXTS, data, at, end, depth))


def _either(found: dict[str, Any]) -> Any:
    return found["one"] if "one" in found else found.get("many", [])


def _read_schema(data: bytes, at: int, end: int, depth: int) -> Any:
    return _message(_plan(_SCHEMA), data, at, end, depth)


_ONE = _Sized("one", _read_schema, mode=0, keep=True)
_SCHEMAS = _Plan({10: _ONE, 18: _Sized("many", _read_schema, mode=LISTED, keep=True)}, {}, ())
_TEXTS = _Plan({10: _ONE, 18: _Sized("many", None, mode=LISTED, keep=True)}, {}, ())

_SPECIAL: dict[str, Read] = {
    "bytes": _bytes,
    "meta/v1.Time": _time,
    "meta/v1.MicroTime": _micro_time,
    "meta/v1.Duration": _duration,
    "meta/v1.FieldsV1": _json,
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "runtime.RawExtension": _json,
    "apiextensions/v1.JSON": _json,
    "apiextensions/v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions/v1.JSONSchemaPropsOrArray": _schema_or_list,
    "apiextensions/v1.JSONSchemaPropsOrStringArray": _schema_or_texts,
}
"""Types whose JSON is not an object of their fields."""
