"""Interfaces of the filters to authentication and authorization."""

from collections.abc import Mapping
from typing import Protocol

from vcsync.apiserver.request.audit_trail import Trail
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo


class Identity(Protocol):
    """Authenticates and authorizes callers; see `assembly.identity_filters.IdentityFilters`."""

    async def authenticate(
        self, certificate: bytes | None, authorization: str | None, tenant: str | None
    ) -> Caller:
        """Return the caller that the credentials belong to.

        Raises:
            StatusError: 401.
        """
        ...

    def exists(self, tenant: str) -> bool:
        """Tell whether a tenant exists."""
        ...

    def is_suspended(self, tenant: str) -> bool:
        """Tell whether a tenant is suspended."""
        ...

    def why_aside(self, tenant: str) -> str:
        """Return why a tenant is set aside, or an empty text if it is not."""
        ...

    async def impersonate(
        self, caller: Caller, headers: Mapping[str, str], tenant: str, info: RequestInfo
    ) -> Caller:
        """Return the user that the caller acts as.

        Raises:
            StatusError: 403.
        """
        ...

    async def authorize(self, caller: Caller, info: RequestInfo, audit: Trail) -> None:
        """Return if the caller may make the request. Records the decision in the audit trail.

        Raises:
            StatusError: 403.
        """
        ...
