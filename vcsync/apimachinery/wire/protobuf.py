"""The protobuf encoding of built-in kinds: envelopes, lists and watch frames around table-driven messages. Pure.

See https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding.
"""

from typing import Any

from vcsync.apimachinery.wire import types
from vcsync.apimachinery.wire.protobuf_decode import read_message, read_unknown
from vcsync.apimachinery.wire.protobuf_encode import length, member, write_message
from vcsync.apimachinery.wire.protobuf_wire import ProtobufError

__all__ = [
    "ProtobufError",
    "decode",
    "encode",
    "envelope",
    "message",
    "supports",
    "watch_frame",
]

MAGIC = b"k8s\x00"
_NO_ENCODING = b"\x1a\x00\x22\x00"
"""The empty contentEncoding and contentType of `runtime.Unknown`, which Go writes."""

Object = dict[str, Any]


def supports(group: str, version: str, kind: str) -> bool:
    """Return whether a kind has a protobuf encoding."""
    return types.find(group, version, kind) is not None


def encode(obj: Object) -> bytes:
    """Encode an object with its envelope, which contains kind and apiVersion.

    Raises:
        ProtobufError: The kind is not built in, or a value does not fit its field.
    """
    api_version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    group, _, version = api_version.rpartition("/")
    return envelope(api_version, kind, message(group, version, kind, obj))


def message(group: str, version: str, kind: str, obj: Object) -> bytes:
    """Encode the message of an object, which is the content of an envelope or an item of a list.

    Raises:
        ProtobufError: The kind is not built in, or a value does not fit its field.
    """
    found = types.find(group, version, kind)
    if found is None:
        raise ProtobufError(f"{kind} in {group}/{version} has no protobuf form")
    return write_message(found.name, obj)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return the message of an object in its envelope."""
    about = member(b"\x0a", api_version.encode()) + member(b"\x12", kind.encode())
    return b"".join((MAGIC, member(b"\x0a", about), b"\x12", length(len(raw)), raw, _NO_ENCODING))


def list_item(raw: bytes) -> bytes:
    """Return the message of an object as an item of a list."""
    return b"".join((b"\x12", length(len(raw)), raw))


def list_frame(
    api_version: str,
    kind: str,
    revision: int,
    size: int,
    *,
    continuation: str = "",
    remaining: int | None = None,
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the items of a list.

    Args:
        api_version: `apiVersion` of the list.
        kind: Kind of the list, such as `PodList`.
        revision: resourceVersion of the list; 0: none.
        size: Total bytes of the results of `list_item`.
        continuation: metadata.continue.
        remaining: metadata.remainingItemCount.
    """
    meta = [
        b"\x0a\x00",
        member(b"\x12", str(revision or "").encode()),
        member(b"\x1a", continuation.encode()),
    ]
    if remaining is not None:
        meta.append(b"\x20" + length(remaining))
    about = member(b"\x0a", api_version.encode()) + member(b"\x12", kind.encode())
    metadata = member(b"\x0a", b"".join(meta))
    head = (MAGIC, member(b"\x0a", about), b"\x12", length(len(metadata) + size), metadata)
    return b"".join(head), _NO_ENCODING


def watch_frame(change: str, obj: bytes) -> bytes:
    """Encode one event of a watch.

    Args:
        change: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
        obj: The object in its envelope.
    """
    event = member(b"\x0a", change.encode()) + member(b"\x12", member(b"\x0a", obj))
    return len(event).to_bytes(4, "big") + event


def decode(
    data: bytes, group: str = "", version: str = "", kind: str = "", *, find: types.Find = types.find
) -> Object:
    """Decode an object in its envelope. Unknown fields are dropped; zero values are those of Go's JSON.

    Args:
        data: The bytes.
        group: Group, if the envelope has no apiVersion.
        version: Version, if the envelope has no apiVersion.
        kind: Kind, if the envelope has none.
        find: Scheme in which the kind is looked up.

    Raises:
        ProtobufError: The bytes are not an object in its envelope.
    """
    if not data:
        raise ProtobufError("empty data")
    if not data.startswith(MAGIC):
        expected = " ".join(str(each) for each in MAGIC)
        raise ProtobufError(
            f"provided data does not appear to be a protobuf message, expected prefix [{expected}]"
        )
    if len(data) == len(MAGIC):
        raise ProtobufError("empty body")
    api_version, own_kind, raw = read_unknown(data, len(MAGIC))
    if api_version.count("/") > 1:
        raise ProtobufError(f"unexpected GroupVersion string: {api_version}")
    if api_version:
        group, _, version = api_version.rpartition("/")
    kind = own_kind or kind
    found = find(group, version, kind)
    api_version = f"{group}/{version}" if group else version
    if found is None:
        return {"kind": kind, "apiVersion": api_version}
    try:
        return {"kind": kind, "apiVersion": api_version} | read_message(found.name, raw)
    except ProtobufError as error:
        error.claimed = (group, version, kind)
        raise
