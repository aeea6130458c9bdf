"""Stored definitions, decoded without their schemas and columns, which may be a megabyte of JSON. Pure."""

from typing import Any

import msgspec

from vcsync.apimachinery.strategy import Object

_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_versions = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_decode = msgspec.json.Decoder().decode
UNREAD = frozenset({"schema", "additionalPrinterColumns"})
"""Fields of a version that stay raw JSON."""
COMPARED_BYTES = 64 * 1024
"""Bytes of a spec up to which specs of equal length are decoded to be compared: about a millisecond."""


class _Status(msgspec.Struct, rename="camel"):
    accepted_names: dict[str, Any] | None = None


class _Served(msgspec.Struct):
    """The fields of a definition that decide how its resource is served."""

    spec: msgspec.Raw
    status: _Status = msgspec.field(default_factory=_Status)


class _Names(msgspec.Struct):
    plural: str


class _Resource(msgspec.Struct):
    group: str
    names: _Names


_served = msgspec.json.Decoder(_Served).decode
_resource = msgspec.json.Decoder(_Resource).decode


def definition(value: bytes) -> Object:
    """Decode a stored definition. The schemas and columns of its versions stay raw JSON (`msgspec.Raw`)."""
    return _with(value, "spec", _spec)


def redefined(before: bytes | None, after: bytes | None) -> tuple[str, str] | None:
    """Return the group and plural of the resource that a write of its definition redefines, or None.

    Behaviour: `updateCustomResourceDefinition` of apiextensions-apiserver, which compares spec and accepted names. A large spec
    is also redefined if only the order of its fields changes; then watches begin again without need.

    Args:
        before: The stored definition before the write; None: there was none.
        after: The stored definition after it; None: it is deleted.
    """
    if before is None:
        return None
    old = _served(before)
    if after is not None:
        new = _served(after)
        # Equal specs are the same bytes, or as many in another order.
        same = old.spec == new.spec or (
            len(old.spec) == len(new.spec) <= COMPARED_BYTES and _decode(old.spec) == _decode(new.spec)
        )
        if same and old.status == new.status:
            return None
    resource = _resource(old.spec)
    return resource.group, resource.names.plural


def _spec(value: bytes) -> Object:
    return _with(value, "versions", lambda versions: [_version(each) for each in _versions(versions)])


def _version(parts: dict[str, msgspec.Raw]) -> Object:
    return {key: each if key in UNREAD else _decode(each) for key, each in parts.items()}


def _with(value: bytes, key: str, decode: Any) -> Object:
    return {name: decode(each) if name == key else _decode(each) for name, each in _parts(value).items()}
