"""PartialObjectMetadata out of stored bytes, of which only the place of metadata is looked for. Pure.

Stored bytes are compact JSON that begins with metadata and has no kind, apiVersion and resourceVersion.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vcsync.controlplane.errors import StatusError, not_acceptable
from vcsync.controlplane.wire import encode, protobuf

GROUP = "meta.k8s.io"
KIND = "PartialObjectMetadata"
LIST_KIND = "PartialObjectMetadataList"


class _Envelope(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_envelope = msgspec.json.Decoder(_Envelope).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def partial_object(value: bytes, revision: int, *, version: str = "v1") -> bytes:
    """Return the JSON of a stored object's metadata as an object of its own.

    Args:
        value: as stored.
        revision: becomes its resourceVersion.
        version: of `meta.k8s.io`.
    """
    kept = bytes(_envelope(value).metadata)[1:]
    comma = b"," if kept != b"}" else b""
    head = (
        b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%b","metadata":{"resourceVersion":"%d"%b'
    )
    return head % (version.encode(), revision, comma) + kept + b"}"


def partial_message(value: bytes, revision: int) -> bytes:
    """Return the bare protobuf message of a stored object's metadata as an object of its own."""
    metadata = {**_decode(_envelope(value).metadata), "resourceVersion": str(revision)}
    return protobuf.message(GROUP, "v1", KIND, {"metadata": metadata})


def partial_list(items: Iterable[bytes], metadata: Mapping[str, Any], *, version: str = "v1") -> bytes:
    """Join what `partial_object` returned to a list; none is null, as in the real server's answer."""
    joined = b",".join(items)
    head = encode.list_head(LIST_KIND, f"{GROUP}/{version}") + msgspec.json.encode(metadata)
    return head + (b',"items":[%b]}' % joined if joined else b',"items":null}')


def no_list(internal_kind: str) -> StatusError:
    """Refuse to make one partial object of a list; `internal_kind`: `core.PodList`."""
    return not_acceptable(f"you requested {KIND}, but the requested object is a list (*{internal_kind})")


def no_object(internal_kind: str) -> StatusError:
    """Refuse to make a partial list of one object; `internal_kind`: `core.Pod`."""
    return not_acceptable(
        f"you requested {LIST_KIND}, but the requested object is not a list (*{internal_kind})"
    )
