"""Authentication: finds the caller and the tenant that the credentials of a request belong to.

Behaviour: apiserver `pkg/authentication/request/union`: certificates come before tokens. Invalid credentials are refused
with 401; requests without credentials are anonymous.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import structlog

from vcsync.apimachinery.errors import unauthorized
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication import certificates, tokens
from vcsync.apiserver.authentication.bound_tokens import BoundObjects
from vcsync.apiserver.authentication.certificates import CREDENTIAL_ID, CertificateError, Certified
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.remembered import MAX_REMEMBERED, claims_bytes, user_bytes
from vcsync.apiserver.authentication.revocations import Revocations
from vcsync.apiserver.authentication.token_file import TokenFile
from vcsync.apiserver.authentication.tokens import Claims, TokenError, UnknownTokenError
from vcsync.apiserver.authorization.impersonation import account_groups, with_group
from vcsync.apiserver.authorization.policy import ACCOUNT_PREFIX
from vcsync.apiserver.request.caller import ANONYMOUS, AUTHENTICATED, SYSTEM, UNAUTHENTICATED, Caller
from vcsync.apiserver.tenants.registry import TenantRegistry
from vcsync.objects.recently_used import RecentlyUsed

INVALID = "invalid bearer token"
_SCHEME_AND_TOKEN = 2

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The user and audiences of a token."""

    user: User
    tenant: str
    audiences: tuple[str, ...]


class _Known(NamedTuple):
    """A verified certificate: the id of its authority, its content, and its caller."""

    authority: str
    certified: Certified
    caller: Caller


class TokenSource(Protocol):
    """A token authenticator for one form of bearer tokens."""

    async def identify(self, token: str) -> Identified | None:
        """Return the user of a token, or None if the token has another form.

        Raises:
            TokenError: The token is invalid.
        """
        ...


class ControlPlaneTokens(Protocol):
    """Authenticates tokens of external control planes; see `vcsync.gateway.account_tokens.AccountTokens`."""

    async def identify(self, token: str, tenant: str) -> User | None:
        """Return the user of a token that a tenant's own API server has issued, or None for other tokens."""
        ...


class Authenticator:
    """Authenticates requests.

    Attributes:
        control_planes: Authenticates tokens of external control planes. None: there are none.
    """

    def __init__(
        self,
        tenants: TenantRegistry,
        objects: BoundObjects,
        clock: Callable[[], float],
        token_file: TokenFile | None = None,
        *,
        revocations: Revocations | None = None,
        sources: Sequence[TokenSource] = (),
    ) -> None:
        """Create an authenticator.

        Args:
            tenants: All tenants with their keys.
            objects: Checks the objects that ServiceAccount tokens are bound to.
            clock: Returns seconds since the epoch.
            token_file: Static tokens.
            revocations: Revoked certificates.
            sources: Authenticators of other tokens, in order.
        """
        self._tenants = tenants
        self._objects = objects
        self._clock = clock
        self._token_file = token_file
        self._revocations = revocations
        self._sources = sources
        self.control_planes: ControlPlaneTokens | None = None
        self._certificates: RecentlyUsed[bytes, _Known] = RecentlyUsed(MAX_REMEMBERED)
        self._tokens: RecentlyUsed[bytes, tuple[str, str, Claims]] = RecentlyUsed(MAX_REMEMBERED)

    async def authenticate(
        self, certificate: bytes | None, authorization: str | None, tenant_in_url: str | None
    ) -> Caller:
        """Return the caller of a request.

        Args:
            certificate: Client certificate of the TLS handshake in DER form.
            authorization: Value of the Authorization header.
            tenant_in_url: Tenant of the URL, which becomes that of anonymous callers.

        Raises:
            StatusError: 401, a credential is invalid.
            StoreError: The store cannot be read.
        """
        refused: Exception | None = None
        if certificate:
            try:
                return await self._by_certificate(certificate)
            except CertificateError as error:
                refused = error
        token = bearer(authorization)
        if token:
            try:
                found = await self.by_token(token)
                return _caller(found.user, found.tenant)
            except UnknownTokenError as error:
                refused = error
                # A token of this server never gets here: a tenant may publish this server's keys as its own.
                if (own := await self._by_control_plane(token, tenant_in_url)) is not None:
                    return own
            except TokenError as error:
                refused = error
        if refused:
            _log.info("credential refused", reason=str(refused))
            raise unauthorized()
        return Caller(User(ANONYMOUS, groups=(UNAUTHENTICATED,)), tenant_in_url or "")

    async def _by_control_plane(self, token: str, tenant: str | None) -> Caller | None:
        """Return the caller of a token of the external control plane that the URL names, or None."""
        if self.control_planes is None or not tenant:
            return None
        user = await self.control_planes.identify(token, tenant)
        return None if user is None else replace(_caller(user, tenant), by_control_plane=True)

    async def _by_certificate(self, der: bytes) -> Caller:
        digest = hashlib.sha256(der).digest()
        known = self._certificates.get(digest)
        if known is None or self._tenants.by_authority(known.authority) != known.caller.tenant:
            known = await self._certified(der)
            self._certificates.put(digest, known, user_bytes(known.caller.user))
        found, caller = known.certified, known.caller
        if not found.not_before <= self._clock() <= found.not_after:
            raise CertificateError("the certificate is not valid now")
        if self._revocations is not None and self._revocations.revoked(caller.tenant, found):
            raise CertificateError("the certificate is revoked")
        return caller

    async def _certified(self, der: bytes) -> _Known:
        certificate = certificates.parse(der)
        identifier = certificates.authority_id(certificate)
        tenant = self._tenants.by_authority(identifier)
        credentials = await self._tenants.credentials(tenant) if tenant else None
        if tenant is None or credentials is None or credentials.authority is None:
            raise CertificateError("no tenant has that authority")
        found = certificates.certified(certificate, credentials.authority, masters=tenant == SYSTEM)
        return _Known(identifier, found, _caller(found.user, tenant))

    async def by_token(
        self, token: str, *, of: str | None = None, audiences: Sequence[str] = ()
    ) -> Authenticated:
        """Return the user of a bearer token.

        Args:
            token: The token.
            of: Tenant that the token must belong to. None: any.
            audiences: Audiences of which the token must have one. Empty: this server.

        Raises:
            TokenError: The token is invalid; UnknownTokenError, it is of no known form or issuer.
            StoreError: The store cannot be read.
        """
        known = self._token_file.get(token) if self._token_file else None
        if known:
            return await self._outside(Identified(known.user, known.tenant), of, audiences)
        signed = self._signed(token)
        if signed is None:
            return await self._by_source(token, of, audiences)
        identifier, tenant = signed
        if of not in (None, tenant):
            raise TokenError(INVALID)
        claims = await self._claims(token, identifier, tenant)
        tokens.check_time(claims, self._clock())
        own = await self.audiences(tenant)
        common = tokens.check_audience(claims, audiences or own, own)
        await self._objects.check(tenant, claims, token, self._clock())
        return Authenticated(account_user(claims), tenant, common)

    async def audiences(self, tenant: str) -> tuple[str, ...]:
        """Return the audiences of a tenant's API."""
        credentials = await self._tenants.credentials(tenant)
        signer = credentials.record.signer if credentials else None
        return (signer.issuer,) if signer else ()

    def _signed(self, token: str) -> tuple[str, str] | None:
        """Return the id and the tenant of the key that a ServiceAccount token names, or None for other tokens."""
        try:
            identifier = tokens.key_id(token)
        except TokenError:
            return None
        tenant = self._tenants.by_signer(identifier)
        return (identifier, tenant) if tenant else None

    async def _by_source(self, token: str, of: str | None, audiences: Sequence[str]) -> Authenticated:
        for source in self._sources:
            try:
                found = await source.identify(token)
            except TokenError as error:
                # The reason is for the operator only: clients must learn nothing about tenants, issuers and keys.
                _log.info("token refused", reason=str(error))
                raise TokenError(INVALID) from error
            if found is not None:
                return await self._outside(found, of, audiences)
        raise UnknownTokenError(INVALID)

    async def _outside(self, found: Identified, of: str | None, audiences: Sequence[str]) -> Authenticated:
        """Accept a user that was not authenticated by the keys of a tenant, if its tenant and audiences are right."""
        own = await self.audiences(found.tenant)
        meant = own if found.audiences is None else found.audiences
        common = tuple(each for each in audiences or own if each in meant)
        if of not in (None, found.tenant) or not self._tenants.admits(found.tenant) or not common:
            raise TokenError(INVALID)
        user = replace(found.user, groups=with_group(found.user.groups, AUTHENTICATED))
        return Authenticated(user, found.tenant, common)

    async def _claims(self, token: str, identifier: str, tenant: str) -> Claims:
        digest = hashlib.sha256(token.encode()).digest()
        known = self._tokens.get(digest)
        if known is not None and known[:2] == (identifier, tenant):
            return known[2]
        credentials = await self._tenants.credentials(tenant)
        signer = credentials.record.signer if credentials else None
        if (
            credentials is None
            or credentials.verification_key is None
            or signer is None
            or signer.id != identifier
        ):
            raise TokenError(INVALID)
        claims = tokens.verified(token, credentials.verification_key, signer.issuer)
        self._tokens.put(digest, (identifier, tenant, claims), claims_bytes(claims))
        return claims


def bearer(authorization: str | None) -> str:
    """Return the bearer token of an Authorization header, or an empty text."""
    parts = (authorization or "").strip().split(" ", _SCHEME_AND_TOKEN)
    return parts[1] if len(parts) >= _SCHEME_AND_TOKEN and parts[0].lower() == "bearer" else ""


def _caller(user: User, tenant: str) -> Caller:
    groups = user.groups if UNAUTHENTICATED in user.groups else with_group(user.groups, AUTHENTICATED)
    return Caller(replace(user, groups=groups), tenant, system=tenant == SYSTEM)


def account_user(claims: Claims) -> User:
    """Return the user of a ServiceAccount (apiserver `pkg/authentication/serviceaccount`)."""
    extra = {
        CREDENTIAL_ID: f"JTI={claims.id}" if claims.id else "",
        "authentication.kubernetes.io/pod-name": claims.pod.name if claims.pod else "",
        "authentication.kubernetes.io/pod-uid": claims.pod.uid if claims.pod else "",
        "authentication.kubernetes.io/node-name": claims.node.name if claims.node else "",
        "authentication.kubernetes.io/node-uid": claims.node.uid if claims.node else "",
    }
    return User(
        f"{ACCOUNT_PREFIX}{claims.namespace}:{claims.account.name}",
        claims.account.uid,
        (*account_groups(claims.namespace), AUTHENTICATED),
        {key: (value,) for key, value in extra.items() if value},
    )
