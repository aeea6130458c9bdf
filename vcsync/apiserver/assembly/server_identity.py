"""Interface of the server to the parts that authenticate callers and know tenants."""

from collections.abc import Sequence
from typing import Protocol

from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.handlers.non_resource import Operator
from vcsync.apiserver.handlers.subresources import Reviews


class ServerIdentity(Identity, Reviews, Operator, Protocol):
    """Everything that the server needs to know about callers and tenants; see `identity_filters.IdentityFilters`."""

    def tenants(self) -> Sequence[str]:
        """Return all tenants, in order."""
        ...

    def aside(self) -> int:
        """Return the number of tenants that are set aside."""
        ...
