"""Large contents of a tenant's objects are not kept in memory: a digest of them says whether they have changed. Pure.

A tenant decides how many ConfigMaps and Secrets it has and how large they are; an external control plane sets no bound that
we know of. What is needed whole is read again when it is written.
"""

from __future__ import annotations

import hashlib

import msgspec

from vcsync.kube.envelope import Envelope

WHOLE_BYTES = 8192
"""So much of an object is kept as it is: most, and all that hold a certificate or a token, are compared without a request."""
_MARK = b"\x00"
"""No JSON begins with it: whoever takes a digest for content fails at once."""


def with_digest(envelope: Envelope) -> Envelope:
    """Return the object with a digest in place of its content, labels and annotations; a small one as it is."""
    texts = sum(
        len(key) + len(text) for part in (envelope.labels, envelope.annotations) for key, text in part.items()
    )
    if len(envelope.rest) + texts <= WHOLE_BYTES:
        return envelope
    return msgspec.structs.replace(
        envelope, spec=b"", status=b"", rest=_MARK + digest(envelope), labels={}, annotations={}
    )


def is_digest(envelope: Envelope) -> bool:
    """Whether an object has only a digest of its content."""
    return envelope.rest.startswith(_MARK)


def digest(envelope: Envelope) -> bytes:
    """A digest of all that decides on an object's copy; of one that has only a digest, that one."""
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
