"""Marks that name the tenant of an object in responses that cover several tenants. Pure.

Arktos has the field `metadata.tenant`. Typed clients of Kubernetes drop fields that they do not know, so that responses to
other clients have an annotation. Neither is stored, and writes ignore both.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

FIELD = "tenant"
"""Field of metadata that names the tenant."""
ANNOTATION = "tenancy.x-k8s.io/tenant"
"""Annotation that names the tenant."""

_HEAD = b'{"metadata":{'
_START = b'{"metadata":'
_NULL = msgspec.Raw(b"null")


class TenantMark(Enum):
    """Names of tenants on the objects in a response."""

    NONE = "none"
    """They do not: the response is about one tenant."""
    FIELD = "field"
    """By the field of metadata, as in Arktos."""
    ANNOTATION = "annotation"
    """By the annotation."""

    @property
    def shown(self) -> bool:
        """Whether the response covers several tenants."""
        return self is not TenantMark.NONE


def tenant_of(metadata: Mapping[str, Any]) -> str:
    """Return the tenant that the metadata of an object names, or an empty text."""
    return str(metadata.get(FIELD) or (metadata.get("annotations") or {}).get(ANNOTATION) or "")


class _Object(msgspec.Struct):
    metadata: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_object = msgspec.json.Decoder(_Object).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_annotations = msgspec.json.Decoder(dict[str, Any] | None).decode


def with_tenant(value: bytes, tenant: str, mark: TenantMark) -> bytes:
    """Return an object that names its tenant in its metadata.

    Args:
        value: JSON of the object in its stored form, which begins with the metadata and has no white space.
        tenant: Name of the tenant.
        mark: How to name it; not `NONE`.

    Returns:
        JSON of the same form. A value that the object itself had in that place is replaced: nothing that a tenant writes
        is truth about whose an object is.
    """
    name = tenant.encode()
    if mark is TenantMark.FIELD:
        return b'{"metadata":{"tenant":"%b",' % name + value[len(_HEAD) :]
    # Only the decoder knows where the object's own annotations are: tenants can write similar text before them.
    metadata = _object(value).metadata
    members = _members(metadata)
    annotations = _annotations(members.get("annotations", _NULL)) or {}
    members["annotations"] = msgspec.Raw(_encode({**annotations, ANNOTATION: tenant}))
    return _START + _encode(members) + value[len(_START) + len(bytes(metadata)) :]


def remove(metadata: dict[str, Any]) -> None:
    """Remove the field and the annotation from the metadata of an object that is written, in place.

    The metadata may be malformed: it is validated later.
    """
    metadata.pop(FIELD, None)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and ANNOTATION in annotations:
        kept = {key: value for key, value in annotations.items() if key != ANNOTATION}
        if kept:
            metadata["annotations"] = kept
        else:
            del metadata["annotations"]
