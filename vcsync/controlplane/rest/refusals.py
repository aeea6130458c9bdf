"""How refusals are answered: with their Status, in a form that the client takes. Pure."""

from collections.abc import Callable

from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest.reply import Reply, text
from vcsync.controlplane.wire import negotiation
from vcsync.controlplane.wire.negotiation import Representation


def refusal(error: StatusError, accept: str, encode: Callable[[StatusError, Representation], bytes]) -> Reply:
    """Answer with an error's Status.

    Args:
        error: the refusal.
        accept: what the client takes, as its header tells it.
        encode: makes bytes of it.
    """
    if error.plain:
        return text(error.code, error.message)
    try:
        how = negotiation.accepted(accept, transforms=False)
    except StatusError:
        how = Representation("json")
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after is not None else {}
    if error.code == 401:
        headers["WWW-Authenticate"] = 'Basic realm="kubernetes-master"'
    return Reply(error.code, [encode(error, how)], how.content_type, headers)
