"""Answers refused requests with a Status, in a representation that the client accepts. Pure."""

from collections.abc import Callable

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.wire import negotiation
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.request.reply import Reply, text


def refusal(error: StatusError, accept: str, encode: Callable[[StatusError, Representation], bytes]) -> Reply:
    """Return the answer to a refused request.

    Args:
        error: The refusal.
        accept: Accept header of the request. If nothing in it is known, the answer is JSON.
        encode: Encodes the error's Status.
    """
    if error.plain:
        return text(error.code, error.message)
    try:
        representation = negotiation.accepted(accept, transforms=False)
    except StatusError:
        representation = Representation("json")
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after is not None else {}
    if error.code == 401:
        headers["WWW-Authenticate"] = 'Basic realm="kubernetes-master"'
    return Reply(error.code, [encode(error, representation)], representation.content_type, headers)
