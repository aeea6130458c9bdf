"""The filter for external tenants: their requests are forwarded, and their own API servers authorize them."""

from collections.abc import Mapping
from typing import Protocol

from vcsync.apimachinery.errors import unauthorized
from vcsync.apiserver.handlers.exchange import Embedded, Incoming
from vcsync.apiserver.request.caller import UNAUTHENTICATED, Caller
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import Query, RequestInfo


class ExternalControlPlanes(Protocol):
    """Forwards requests; see `vcsync.gateway.forward.Forwarder`."""

    def serves(self, tenant: str) -> bool:
        """Tell whether the requests of a tenant are forwarded."""
        ...

    async def impersonate(self, caller: Caller, headers: Mapping[str, str], tenant: str) -> Caller:
        """Return the user that a caller of the tenant acts as, as its API server allows.

        Raises:
            StatusError: 403, it does not; 503 or 504, it cannot be asked.
        """
        ...

    async def forward(
        self, incoming: Incoming, info: RequestInfo, query: Query, tenant: str, caller: Caller
    ) -> Reply | Stream:
        """Forward a request as a user of the tenant, and return the answer.

        Raises:
            StatusError: 400 or 403, the request cannot be forwarded; 503 or 504, the API server does not answer.
        """
        ...

    async def all_tenants(
        self, incoming: Incoming, info: RequestInfo, query: Query, warnings: list[str], embedded: Embedded
    ) -> Reply | Stream:
        """Answer a list or watch over embedded and external control planes.

        Args:
            incoming: The request.
            info: What the request is about.
            query: Its query.
            warnings: Texts of Warning headers, to which those about the external control planes are added.
            embedded: Answers the part of the embedded control planes.

        Raises:
            StatusError: 400, 406 or 410, the request cannot be answered; 503, a control plane cannot be read.
        """
        ...


def goes_beyond(info: RequestInfo) -> bool:
    """Tell whether a request is a list or watch that includes external control planes."""
    return bool(info.beyond) and info.verb in ("list", "watch") and not info.core_tenants


def is_forwarded(external: ExternalControlPlanes | None, tenant: str, caller: Caller) -> bool:
    """Tell whether a request is forwarded.

    Those of unauthenticated callers are not. They are answered as for a tenant that does not exist, so that they neither
    reach an external API server nor reveal that there is one.

    Raises:
        StatusError: 401, the control plane whose token authenticated the caller is not the tenant's any more.
    """
    forwarded = external is not None and external.serves(tenant) and UNAUTHENTICATED not in caller.user.groups
    if caller.by_control_plane and not forwarded:
        raise unauthorized()
    return forwarded
