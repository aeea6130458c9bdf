"""Identity as the way of a request sees it, and its rules on writes."""

from collections.abc import Mapping, Sequence
from typing import Any

from vcsync.controlplane.audit.trail import Trail
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.identity.caller import Caller, refusal
from vcsync.controlplane.identity.service import Identity
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.requestinfo import RequestInfo
from vcsync.controlplane.rest.rights import Rights
from vcsync.controlplane.tenants.admin import Answer, Read


class Guard(Rights):
    """Who is who, and may do what."""

    def __init__(self, identity: Identity) -> None:
        """Take the room of identity."""
        super().__init__(identity.authorizer)
        self._identity = identity

    async def authenticate(
        self, certificate: bytes | None, authorization: str | None, tenant: str | None
    ) -> Caller:
        """Find out who asks.

        Raises:
            StatusError: 401.
        """
        return await self._identity.authenticator.authenticate(certificate, authorization, tenant)

    def exists(self, tenant: str) -> bool:
        """Whether there is such a tenant, though it may be leaving."""
        return self._identity.tenants.exists(tenant)

    def tenants(self) -> Sequence[str]:
        """Return all tenants that have objects, in order, those included that are being made or deleted."""
        return self._identity.tenants.places()

    async def impersonate(
        self, caller: Caller, headers: Mapping[str, str], tenant: str, info: RequestInfo
    ) -> Caller:
        """Return whom the caller acts as.

        Raises:
            StatusError: 403.
        """
        return await self._identity.authorizer.impersonate(caller, headers, tenant, info)

    async def authorize(self, caller: Caller, info: RequestInfo, audit: Trail) -> None:
        """Return if it may; the audit log is told why.

        Raises:
            StatusError: 403.
        """
        decision = await self._identity.authorizer.decide(caller, info)
        auditing.decided(audit, allowed=decision.allowed, reason=decision.reason)
        if not decision.allowed:
            raise refusal(caller, info, decision.reason)

    async def create(self, caller: Any, tenant: str, plural: str, namespace: str, body: Object) -> Object:
        """Answer a review."""
        return await self._identity.reviews.create(caller, tenant, plural, namespace, body)

    async def token_request(self, tenant: str, namespace: str, name: str, body: Object) -> Object:
        """Make a token of a ServiceAccount."""
        return await self._identity.token_requests.create(tenant, namespace, name, body)

    async def openid(self, tenant: str, *, keys: bool) -> Object:
        """Return the discovery document of the issuer of tokens, or its keys."""
        requests = self._identity.token_requests
        return await (requests.jwks(tenant) if keys else requests.openid_configuration(tenant))

    async def administer(
        self, caller: Caller, method: str, path: str, query: Mapping[str, Sequence[str]], read: Read
    ) -> Answer:
        """Answer the operator; `read` is called once the caller is known to be one who may."""
        return await self._identity.admin.handle(caller, method, path, query, read)
