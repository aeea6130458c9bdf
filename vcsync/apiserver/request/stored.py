"""The stored form of objects, which writes encode and reads splice into responses. Pure.

It is compact JSON that starts with metadata, without kind, apiVersion and metadata.resourceVersion. Objects of kinds with a
conversion webhook include their apiVersion, because it may differ from the storage version of the definition.
"""

from typing import Any

import msgspec

from vcsync.apimachinery import numbers
from vcsync.apimachinery.strategy import Object

HEAD = b'{"metadata":{'
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=numbers.number).decode


class Meta(msgspec.Struct):
    """The metadata that selectors need."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    deletionTimestamp: str | None = None  # noqa: N815 - as JSON spells it


class Envelope(msgspec.Struct):
    """An object of which only the metadata is decoded."""

    metadata: Meta


class _Ending(msgspec.Struct):
    """The metadata that decide how an object ends."""

    finalizers: list[msgspec.Raw] | None = None
    deletionTimestamp: str | None = None  # noqa: N815 - as JSON spells it


class _Ended(msgspec.Struct):
    metadata: _Ending


_envelope = msgspec.json.Decoder(Envelope).decode
_ended = msgspec.json.Decoder(_Ended).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def pack(obj: Object, *, versioned: bool = False) -> bytes:
    """Return the stored form of an object in its storage version. `versioned`: include the apiVersion."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    version = {"apiVersion": obj["apiVersion"]} if versioned else {}
    return _encode({"metadata": metadata, **version, **rest})


def same(one: bytes, other: bytes) -> bool:
    """Return whether two stored forms have the same content, whatever the order of its members.

    apiserver's encoder has one order, so that its `GuaranteedUpdate` compares bytes.
    """
    return one == other or (len(one) == len(other) and bool(_decode(one) == _decode(other)))


def unpack(value: bytes, revision: int, kind: str, api_version: str) -> Object:
    """Decode a stored object. `api_version` applies to values that do not include theirs."""
    found = _decode(value)
    metadata = found.pop("metadata")
    if revision:
        metadata = {"resourceVersion": str(revision), **metadata}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, **found}


def item(value: bytes, revision: int) -> bytes:
    """Return the JSON of an object in a list of a built-in kind: without kind and apiVersion.

    A `revision` of 0 is omitted: the object is not stored.
    """
    return b'{"metadata":{"resourceVersion":"%d",' % revision + value[len(HEAD) :] if revision else value


def spliced(value: bytes, revision: int, kind: str, api_version: str) -> bytes:
    """Return the complete JSON of an object. A `revision` of 0 is omitted: the object is not stored."""
    head = b'{"kind":"%b","apiVersion":"%b","metadata":{' % (kind.encode(), api_version.encode())
    version = b'"resourceVersion":"%d",' % revision if revision else b""
    return head + version + value[len(HEAD) :]


def labels(value: bytes) -> dict[str, str]:
    """Return a stored object's labels."""
    return _envelope(value).metadata.labels


def deleting(value: bytes) -> bool:
    """Tell whether a stored object is being deleted."""
    return bool(_envelope(value).metadata.deletionTimestamp)


def ending(value: bytes) -> tuple[bool, bool]:
    """Return whether a stored object has finalizers, and whether it is being deleted."""
    metadata = _ended(value).metadata
    return bool(metadata.finalizers), bool(metadata.deletionTimestamp)


def marked(value: bytes, now: str) -> bytes:
    """Return a stored object that is being deleted since `now`, without a grace period. Its fields are not decoded."""
    members = _members(value)
    marks = {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    return _encode({**members, "metadata": {**_members(members["metadata"]), **marks}})
