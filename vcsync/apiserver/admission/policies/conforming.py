"""Checks that a mutation leaves a valid object of its kind, and finds the schema by which it is merged."""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode
from vcsync.apiserver.admission.framework.request import kind_of
from vcsync.apiserver.request.resource import Kind


def _has_own_kind(kind: Kind, subresource: str) -> bool:
    """Return whether the body of a subresource has a kind of its own."""
    body, resource = kind_of(kind.resource, subresource), kind.resource
    return (body["group"], body["kind"]) != (resource.group, resource.kind)


def schema_of(kind: Kind, subresource: str) -> Schema | None:
    """Return the schema of the body, or None if it is not known."""
    if not _has_own_kind(kind, subresource):
        return kind.schema
    body = kind_of(kind.resource, subresource)
    return builtin.schema(body["group"], body["version"], body["kind"])


def check(kind: Kind, subresource: str, made: Object) -> None:
    """Check that a mutation left a valid object of its kind, without unknown fields.

    Raises:
        StatusError: 500, the object is invalid.
    """
    if kind.resource.custom and not _has_own_kind(kind, subresource):
        return
    body = kind_of(kind.resource, subresource)
    try:
        _, unknown = decode.conform(body["group"], body["version"], body["kind"], made)
    except StatusError as why:
        _, _, detail = why.message.partition(" cannot be handled as a ")
        raise errors.internal(detail.partition(": ")[2] or why.message) from None
    if unknown:
        raise errors.internal(f"strict decoding error: {', '.join(unknown)}")
