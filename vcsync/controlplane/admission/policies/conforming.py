"""What a mutation may make of an object: the schema into which it is merged, and whether it is still such an object."""

from vcsync.controlplane import errors
from vcsync.controlplane.admission.request import kind_of
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.schema import builtin
from vcsync.controlplane.schema.node import Schema
from vcsync.controlplane.wire import decode


def _is_part(kind: Kind, subresource: str) -> bool:
    """Tell whether what is written at a subresource is of another kind."""
    told, own = kind_of(kind.resource, subresource), kind.resource
    return (told["group"], told["kind"]) != (own.group, own.kind)


def schema_of(kind: Kind, subresource: str) -> Schema | None:
    """Return the schema of what is written; None: it is not known."""
    if not _is_part(kind, subresource):
        return kind.schema
    told = kind_of(kind.resource, subresource)
    return builtin.schema(told["group"], told["version"], told["kind"])


def check(kind: Kind, subresource: str, made: Object) -> None:
    """Make sure that a mutation left an object of its kind, without unknown fields.

    Raises:
        StatusError: 500, it is none.
    """
    if kind.resource.custom and not _is_part(kind, subresource):
        return
    told = kind_of(kind.resource, subresource)
    try:
        _, unknown = decode.conform(told["group"], told["version"], told["kind"], made)
    except StatusError as why:
        _, _, detail = why.message.partition(" cannot be handled as a ")
        raise errors.internal(detail.partition(": ")[2] or why.message) from None
    if unknown:
        raise errors.internal(f"strict decoding error: {', '.join(unknown)}")
