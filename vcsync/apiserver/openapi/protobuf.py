"""Encodes OpenAPI 2 as protobuf (`application/com.github.proto-openapi.spec.v2.v1.0+protobuf`). Pure.

kubectl and client-go read the document in this form. The messages are those of gnostic's `openapiv2/OpenAPIv2.proto`.
Each message is a table of its members, with the number and encoding of their fields. Extensions and values of any type
are YAML texts.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from vcsync.objects.text_cache import cache_short_texts

CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

Write = Callable[[Any], bytes]
_Field = tuple[int, Callable[[int, Any], bytes]]
"""Number of a field, and the function that encodes it with its tag."""


def encode(document: Mapping[str, Any]) -> bytes:
    """Encode an OpenAPI 2 document. Members that the messages do not have are omitted.

    Args:
        document: The document as decoded JSON.
    """
    return _DOCUMENT(document)


def _varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _sized(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, value: Any) -> bytes:
    return _sized(number, str(value).encode()) if value else b""


def _texts(number: int, values: Any) -> bytes:
    return b"".join(_sized(number, str(each).encode()) for each in values)


def _flag(number: int, value: Any) -> bytes:
    return _varint(number << 3) + b"\x01" if value is True else b""


def _integer(number: int, value: Any) -> bytes:
    return _varint(number << 3) + _varint(int(value)) if value else b""


def _double(number: int, value: Any) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _one(write: Write) -> Callable[[int, Any], bytes]:
    return lambda number, value: _sized(number, write(value))


def _each(write: Write) -> Callable[[int, Any], bytes]:
    return lambda number, values: b"".join(_sized(number, write(each)) for each in values)


def _named(write: Write) -> Callable[[int, Any], bytes]:
    """Return a function that encodes an object as repeated pairs of name and value."""

    def written(number: int, members: Any) -> bytes:
        pairs = (_text(1, name) + _sized(2, write(value)) for name, value in members.items())
        return b"".join(_sized(number, each) for each in pairs)

    return written


def _any(value: Any) -> bytes:
    return _text(2, _yaml(json.dumps(value)))


@cache_short_texts(1024, 4096)
def _yaml(text: str) -> str:
    written: str = yaml.dump(
        json.loads(text), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31
    )
    return written.removesuffix("...\n")


class _Dumper(yaml.SafeDumper):
    """Puts strings that look like another type into double quotes, as Go's YAML does."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        kind = "tag:yaml.org,2002:str"
        resolve: Callable[..., str] = self.resolve
        plain = data.startswith(("&", "*", "!")) or resolve(yaml.ScalarNode, data, (True, False)) == kind
        return self.represent_scalar(kind, data, style=None if plain else '"')


_Dumper.add_representer(str, _Dumper.represent_str)


def _message(fields: Mapping[str, _Field], extensions: int = 0) -> Write:
    """Return a function that encodes a message.

    Args:
        fields: Member -> field.
        extensions: Number of the field for members that begin with `x-`. 0: the message has none.
    """
    ordered = sorted(fields.items(), key=lambda each: each[1][0])
    named = _named(_any)

    def written(value: Any) -> bytes:
        parts = [write(number, value[name]) for name, (number, write) in ordered if name in value]
        if extensions:
            parts.append(
                named(extensions, {name: each for name, each in value.items() if name.startswith("x-")})
            )
        return b"".join(parts)

    return written


def _wrapped(number: int, write: Write) -> Write:
    """Return a function that encodes a message with a single field, which is another message."""
    return lambda value: _sized(number, write(value))


def _additional(value: Any) -> bytes:
    return _flag(2, value) if isinstance(value, bool) else _sized(1, _schema(value))


def _type(value: Any) -> bytes:
    return _texts(1, [value] if isinstance(value, str) else value)


def _items(value: Any) -> bytes:
    return _each(_schema)(1, value if isinstance(value, list) else [value])


def _schema(value: Any) -> bytes:
    return _SCHEMA(value)


def _parameter(value: Any) -> bytes:
    where = value.get("in")
    if where == "body":
        return _sized(1, _BODY(value))
    number, write = _PLACES[where]
    return _sized(2, _sized(number, write(value)))


def _parameter_or_reference(value: Any) -> bytes:
    if "$ref" in value:
        return _sized(2, _text(1, value["$ref"]))
    return _sized(1, _parameter(value))


_EXTERNAL = _message({"description": (1, _text), "url": (2, _text)}, 3)

_LIMITS: tuple[tuple[str, Callable[[int, Any], bytes]], ...] = (
    ("default", _one(_any)),
    ("maximum", _double),
    ("exclusiveMaximum", _flag),
    ("minimum", _double),
    ("exclusiveMinimum", _flag),
    ("maxLength", _integer),
    ("minLength", _integer),
    ("pattern", _text),
    ("maxItems", _integer),
    ("minItems", _integer),
    ("uniqueItems", _flag),
    ("enum", _each(_any)),
    ("multipleOf", _double),
)


def _limits(first: int) -> dict[str, _Field]:
    """Return the fields of the limits of a simple value. Their numbers are consecutive in every message."""
    return {name: (first + at, write) for at, (name, write) in enumerate(_LIMITS)}


def _simple_items(value: Any) -> bytes:
    return _ITEMS(value)


def _simple(first: int) -> dict[str, _Field]:
    """Return the fields of a simple value: type, format, items and limits."""
    return {
        "type": (first, _text),
        "format": (first + 1, _text),
        "items": (first + 2, _one(_simple_items)),
        "collectionFormat": (first + 3, _text),
        **_limits(first + 4),
    }


_ITEMS = _message(_simple(1), 18)
_PLACE: dict[str, _Field] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
}
_EMPTY_ALLOWED: dict[str, _Field] = {"allowEmptyValue": (5, _flag)}
_PLACES: Mapping[str, tuple[int, Write]] = {
    "header": (1, _message({**_PLACE, **_simple(5)}, 22)),
    "formData": (2, _message({**_PLACE, **_EMPTY_ALLOWED, **_simple(6)}, 23)),
    "query": (3, _message({**_PLACE, **_EMPTY_ALLOWED, **_simple(6)}, 23)),
    "path": (4, _message({**_PLACE, **_simple(5)}, 22)),
}

_SCHEMA = _message(
    {
        "$ref": (1, _text),
        "format": (2, _text),
        "title": (3, _text),
        "description": (4, _text),
        "default": (5, _one(_any)),
        "multipleOf": (6, _double),
        "maximum": (7, _double),
        "exclusiveMaximum": (8, _flag),
        "minimum": (9, _double),
        "exclusiveMinimum": (10, _flag),
        "maxLength": (11, _integer),
        "minLength": (12, _integer),
        "pattern": (13, _text),
        "maxItems": (14, _integer),
        "minItems": (15, _integer),
        "uniqueItems": (16, _flag),
        "maxProperties": (17, _integer),
        "minProperties": (18, _integer),
        "required": (19, _texts),
        "enum": (20, _each(_any)),
        "additionalProperties": (21, _one(_additional)),
        "type": (22, _one(_type)),
        "items": (23, _one(_items)),
        "allOf": (24, _each(_schema)),
        "properties": (25, _one(lambda value: _named(_schema)(1, value))),
        "discriminator": (26, _text),
        "readOnly": (27, _flag),
        "externalDocs": (29, _one(_EXTERNAL)),
        "example": (30, _one(_any)),
    },
    31,
)

_BODY = _message(
    {
        "description": (1, _text),
        "name": (2, _text),
        "in": (3, _text),
        "required": (4, _flag),
        "schema": (5, _one(_schema)),
    },
    6,
)
_RESPONSE = _message({"description": (1, _text), "schema": (2, _one(_wrapped(1, _schema)))}, 5)
_OPERATION = _message(
    {
        "tags": (1, _texts),
        "summary": (2, _text),
        "description": (3, _text),
        "operationId": (5, _text),
        "produces": (6, _texts),
        "consumes": (7, _texts),
        "parameters": (8, _each(_parameter_or_reference)),
        "responses": (9, _one(lambda value: _named(_wrapped(1, _RESPONSE))(1, value))),
        "schemes": (10, _texts),
        "deprecated": (11, _flag),
    },
    13,
)
_PATH = _message(
    {
        **{
            method: (number, _one(_OPERATION))
            for number, method in enumerate(("get", "put", "post", "delete", "options", "head", "patch"), 2)
        },
        "parameters": (9, _each(_parameter_or_reference)),
    },
    10,
)
_INFO = _message({"title": (1, _text), "version": (2, _text), "description": (3, _text)}, 7)
_API_KEY = _message({"type": (1, _text), "name": (2, _text), "in": (3, _text), "description": (4, _text)}, 5)
_DOCUMENT = _message(
    {
        "swagger": (1, _text),
        "info": (2, _one(_INFO)),
        "paths": (8, _one(lambda value: _named(_PATH)(2, value))),
        "definitions": (9, _one(lambda value: _named(_schema)(1, value))),
        "parameters": (10, _one(lambda value: _named(_parameter)(1, value))),
        "security": (12, _each(lambda value: _named(lambda names: _texts(1, names))(1, value))),
        "securityDefinitions": (13, _one(lambda value: _named(_wrapped(2, _API_KEY))(1, value))),
    },
    16,
)
