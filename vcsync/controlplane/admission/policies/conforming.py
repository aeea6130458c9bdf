"""What a mutation made of an object, brought into the form of its kind, with defaults."""

from vcsync.controlplane import errors
from vcsync.controlplane.admission.request import kind_of
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.schema.findings import DecodeError
from vcsync.controlplane.wire import decode


def conformed(kind: Kind, subresource: str, made: Object) -> Object:
    """Return an object as its kind serves it.

    Args:
        kind: of the resource.
        subresource: of the request; what is written there may be of another kind.
        made: what a mutation made.

    Raises:
        StatusError: it is no such object.
    """
    told = kind_of(kind.resource, subresource)
    own = told["kind"] == kind.resource.kind and told["group"] == kind.resource.group
    if own and kind.resource.custom:
        try:
            kind.decode(made)
        except DecodeError as why:
            raise errors.internal(str(why)) from None
        return made
    found, unknown = decode.conform(told["group"], told["version"], told["kind"], made)
    if unknown:
        raise errors.internal(f"strict decoding error: {', '.join(unknown)}")
    return kind.served(kind.working(found)) if own else found
