"""The outermost filter: answers refused requests with a Status. The servers in `serving` catch unexpected errors."""

from collections.abc import Callable

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.filters.store_health import StoreHealth
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.handlers.refusals import refusal
from vcsync.apiserver.request.reply import Reply
from vcsync.apiserver.storage.interface import StoreFull, StoreUnavailable


class Refusals:
    """Turns errors into answers.

    Args:
        encode: Encodes a Status.
        store_health: Is told of errors of the store, and words their answers. None: they are unexpected errors.
    """

    def __init__(
        self, encode: Callable[[StatusError, Representation], bytes], store_health: StoreHealth | None = None
    ) -> None:
        self._encode = encode
        self._store_health = store_health

    def answer(self, incoming: Incoming, error: StatusError | StoreFull | StoreUnavailable) -> Reply:
        """Return the answer to a request that met an error, and record the error in the audit trail.

        Raises:
            StoreFull, StoreUnavailable: The error itself, if there is no `store_health`.
        """
        if not isinstance(error, StatusError):
            if self._store_health is None:
                raise error
            error = self._store_health.refusal(error)
        request_log.failed(incoming.audit, error)
        return self.encoded(error, incoming.headers.get("Accept", ""))

    def encoded(self, error: StatusError, accept: str) -> Reply:
        """Return an error's Status in a representation that the client accepts."""
        return refusal(error, accept, self._encode)
