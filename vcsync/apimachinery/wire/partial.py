"""Makes PartialObjectMetadata of stored bytes without decoding more than the position of metadata. Pure.

Stored bytes are compact JSON that begins with metadata, and has no kind, apiVersion and resourceVersion.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vcsync.apimachinery.errors import StatusError, not_acceptable
from vcsync.apimachinery.wire import encode, protobuf

GROUP = "meta.k8s.io"
KIND = "PartialObjectMetadata"
LIST_KIND = "PartialObjectMetadataList"


class _Envelope(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_envelope = msgspec.json.Decoder(_Envelope).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def partial_object(value: bytes, revision: int, *, version: str = "v1") -> bytes:
    """Return the JSON of the PartialObjectMetadata of a stored object.

    Args:
        value: The object in stored form.
        revision: Its resourceVersion; 0: it is not stored and has none.
        version: Version of `meta.k8s.io`.
    """
    kept = bytes(_envelope(value).metadata)[1:]
    head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%b","metadata":{' % version.encode()
    if revision:
        comma = b"," if kept != b"}" else b""
        head += b'"resourceVersion":"%d"%b' % (revision, comma)
    return head + kept + b"}"


def partial_message(value: bytes, revision: int) -> bytes:
    """Return the protobuf message, without envelope, of the PartialObjectMetadata of a stored object."""
    metadata = {**_decode(_envelope(value).metadata), "resourceVersion": str(revision)}
    return protobuf.message(GROUP, "v1", KIND, {"metadata": metadata})


def partial_list(items: Iterable[bytes], metadata: Mapping[str, Any], *, version: str = "v1") -> bytes:
    """Join results of `partial_object` into a list. Without items, `items` is null, as in kube-apiserver."""
    joined = b",".join(items)
    head = encode.list_head(LIST_KIND, f"{GROUP}/{version}") + msgspec.json.encode(metadata)
    return head + (b',"items":[%b]}' % joined if joined else b',"items":null}')


def no_list(internal_kind: str) -> StatusError:
    """Return the 406 for a partial object of a list. `internal_kind` is, for example, `core.PodList`."""
    return not_acceptable(f"you requested {KIND}, but the requested object is a list (*{internal_kind})")


def no_object(internal_kind: str) -> StatusError:
    """Return the 406 for a partial list of one object. `internal_kind` is, for example, `core.Pod`."""
    return not_acceptable(
        f"you requested {LIST_KIND}, but the requested object is not a list (*{internal_kind})"
    )
