"""Stored definitions, decoded without their schemas, which may be a megabyte of JSON. Pure."""

from typing import Any

import msgspec

from vcsync.apimachinery.strategy import Object

_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_versions = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_decode = msgspec.json.Decoder().decode


def definition(value: bytes) -> Object:
    """Decode a stored definition. The schemas of its versions stay raw JSON (`msgspec.Raw`)."""
    return _with(value, "spec", _spec)


def _spec(value: bytes) -> Object:
    return _with(value, "versions", lambda versions: [_version(each) for each in _versions(versions)])


def _version(parts: dict[str, msgspec.Raw]) -> Object:
    return {key: each if key == "schema" else _decode(each) for key, each in parts.items()}


def _with(value: bytes, key: str, decode: Any) -> Object:
    return {name: decode(each) if name == key else _decode(each) for name, each in _parts(value).items()}
