"""The stored form of objects: made on writes, spliced on reads. Pure.

It is compact JSON without kind, apiVersion and metadata.resourceVersion, and begins with metadata. Where a webhook
converts, the version in which an object is kept is not always that of its definition: then its apiVersion is kept too.
"""

from typing import Any

import msgspec

from vcsync.controlplane.behaviour import Object

HEAD = b'{"metadata":{'
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Meta(msgspec.Struct):
    """What selection needs of metadata."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    deletionTimestamp: str | None = None  # noqa: N815 - as JSON spells it


class Envelope(msgspec.Struct):
    """An object of which only metadata is looked at."""

    metadata: Meta


_envelope = msgspec.json.Decoder(Envelope).decode


def pack(obj: Object, *, versioned: bool = False) -> bytes:
    """Return the stored form of an object in its storage version; `versioned`: with its apiVersion."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    version = {"apiVersion": obj["apiVersion"]} if versioned else {}
    return _encode({"metadata": metadata, **version, **rest})


def unpack(value: bytes, revision: int, kind: str, api_version: str) -> Object:
    """Return the object that a stored value is, of that apiVersion if the value does not tell its own."""
    found = _decode(value)
    metadata = found.pop("metadata")
    if revision:
        metadata = {"resourceVersion": str(revision), **metadata}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, **found}


def with_tenant(value: bytes, tenant: str) -> bytes:
    """Return a stored value whose metadata tells its tenant."""
    return b'{"metadata":{"tenant":"%b",' % tenant.encode() + value[len(HEAD) :]


def item(value: bytes, revision: int) -> bytes:
    """Return an object's JSON as it stands in a list of a built-in kind: without kind and apiVersion."""
    return b'{"metadata":{"resourceVersion":"%d",' % revision + value[len(HEAD) :]


def spliced(value: bytes, revision: int, kind: str, api_version: str) -> bytes:
    """Return an object's whole JSON; a `revision` of 0 is not told: it is not kept."""
    head = b'{"kind":"%b","apiVersion":"%b","metadata":{' % (kind.encode(), api_version.encode())
    version = b'"resourceVersion":"%d",' % revision if revision else b""
    return head + version + value[len(HEAD) :]


def labels(value: bytes) -> dict[str, str]:
    """Return a stored object's labels."""
    return _envelope(value).metadata.labels


def deleting(value: bytes) -> bool:
    """Whether a stored object is being deleted."""
    return bool(_envelope(value).metadata.deletionTimestamp)
