"""Adapts `assembly.identity` to the protocols of the filters, the reviews and the operator's paths."""

from collections.abc import Mapping, Sequence
from typing import Any

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.authentication.token_requests import Check
from vcsync.apiserver.authorization.rights import Rights
from vcsync.apiserver.operator.api import Answer, Read
from vcsync.apiserver.request.audit_trail import Trail
from vcsync.apiserver.request.caller import Caller, refusal
from vcsync.apiserver.request.request_info import RequestInfo


class IdentityFilters(Rights):
    """Implements `filters.identity.Identity`, `handlers.subresources.Reviews` and `handlers.non_resource.Operator`.

    Args:
        identity: What the calls are passed on to.
    """

    def __init__(self, identity: Identity) -> None:
        super().__init__(identity.authorizer)
        self._identity = identity

    async def authenticate(
        self, certificate: bytes | None, authorization: str | None, tenant: str | None
    ) -> Caller:
        """Return the caller that the credentials belong to.

        Raises:
            StatusError: 401.
        """
        return await self._identity.authenticator.authenticate(certificate, authorization, tenant)

    def exists(self, tenant: str) -> bool:
        """Tell whether a tenant exists. A tenant that is being deleted still exists."""
        return self._identity.tenants.exists(tenant)

    def is_suspended(self, tenant: str) -> bool:
        """Tell whether a tenant is suspended, so that its users may only read."""
        return self._identity.tenants.is_suspended(tenant)

    def why_aside(self, tenant: str) -> str:
        """Return why a tenant is set aside, or an empty text if it is not."""
        return self._identity.tenants.why_aside(tenant)

    def aside(self) -> int:
        """Return the number of tenants that are set aside."""
        return self._identity.tenants.aside()

    def tenants(self) -> Sequence[str]:
        """Return all tenants in order, including those that are being created or deleted."""
        return self._identity.tenants.spaces()

    async def impersonate(
        self, caller: Caller, headers: Mapping[str, str], tenant: str, info: RequestInfo
    ) -> Caller:
        """Return the user that the caller acts as.

        Raises:
            StatusError: 403.
        """
        return await self._identity.authorizer.impersonate(caller, headers, tenant, info)

    async def authorize(self, caller: Caller, info: RequestInfo, audit: Trail) -> None:
        """Return if the caller may make the request. Records the decision in the audit trail.

        Raises:
            StatusError: 403.
        """
        decision = await self._identity.authorizer.decide(caller, info)
        request_log.decided(audit, allowed=decision.allowed, reason=decision.reason)
        if not decision.allowed:
            raise refusal(caller, info, decision.reason)

    async def create(self, caller: Any, tenant: str, plural: str, namespace: str, body: Object) -> Object:
        """Answer an access review, a TokenReview or a SelfSubjectReview."""
        return await self._identity.reviews.create(caller, tenant, plural, namespace, body)

    async def token_request(
        self, tenant: str, namespace: str, name: str, body: Object, check: Check
    ) -> Object:
        """Issue a token for a ServiceAccount.

        Args:
            tenant: The tenant.
            namespace: Namespace of the ServiceAccount.
            name: Name of the ServiceAccount.
            body: The TokenRequest.
            check: Called with the defaulted request before the token is signed; may refuse it.
        """
        return await self._identity.token_requests.create(tenant, namespace, name, body, check)

    async def openid(self, tenant: str, *, keys: bool) -> Object:
        """Return the OpenID configuration of a tenant's token issuer or, if `keys`, its public keys."""
        requests = self._identity.token_requests
        return await (requests.jwks(tenant) if keys else requests.openid_configuration(tenant))

    async def administer(
        self, caller: Caller, method: str, path: str, query: Mapping[str, Sequence[str]], read: Read
    ) -> Answer:
        """Answer a request for the operator's API. `read` reads the body; it is called only for authorized callers."""
        return await self._identity.admin.handle(caller, method, path, query, read)
