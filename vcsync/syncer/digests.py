"""Digests that replace the content of large ConfigMaps and Secrets in a cache and show whether it has changed. Pure.

A tenant decides how many objects it has and how large they are, and an external control plane may set no limit. The whole
object is read again when its content is to be written.
"""

from __future__ import annotations

import hashlib

import msgspec

from vcsync.objects.envelope import Envelope

WHOLE_BYTES = 8192
"""Size in bytes up to which an object is cached with its content.

Most objects, and all that contain a certificate or a token, are smaller, so they are compared without a request.
"""
_MARK = b"\x00"
"""First byte of a digest. No JSON begins with it, so code that decodes a digest as content fails immediately."""


def with_digest(envelope: Envelope) -> Envelope:
    """Return the object with a digest in place of its content, labels and annotations. Small objects are unchanged."""
    texts = sum(
        len(key) + len(text) for part in (envelope.labels, envelope.annotations) for key, text in part.items()
    )
    if len(envelope.rest) + texts <= WHOLE_BYTES:
        return envelope
    return msgspec.structs.replace(
        envelope, spec=b"", status=b"", rest=_MARK + digest(envelope), labels={}, annotations={}
    )


def is_digest(envelope: Envelope) -> bool:
    """Return whether an object has only a digest of its content."""
    return envelope.rest.startswith(_MARK)


def digest(envelope: Envelope) -> bytes:
    """Return a digest of everything that the object's copy depends on, or the digest that the object has already."""
    if is_digest(envelope):
        return envelope.rest.removeprefix(_MARK)
    parts = (
        envelope.uid,
        envelope.deletion_timestamp or "",
        envelope.rest,
        envelope.labels,
        envelope.annotations,
        [(owner.kind, owner.name, owner.uid) for owner in envelope.owners],
    )
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).digest()
