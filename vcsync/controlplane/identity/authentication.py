"""Authentication: from the credentials of a request to its caller. The credential alone says of which tenant it is.

Behaviour: apiserver `pkg/authentication/request/union`: a certificate goes before a token; whoever shows something
that does not count is refused (401), whoever shows nothing is anonymous.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import structlog

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import unauthorized
from vcsync.controlplane.identity import certificates, tokens
from vcsync.controlplane.identity.bound import BoundObjects
from vcsync.controlplane.identity.caller import ANONYMOUS, AUTHENTICATED, SYSTEM, UNAUTHENTICATED, Caller
from vcsync.controlplane.identity.certificates import CREDENTIAL_ID, CertificateError, Certified
from vcsync.controlplane.identity.impersonation import account_groups, with_group
from vcsync.controlplane.identity.outside import Identified
from vcsync.controlplane.identity.policy import ACCOUNT_PREFIX
from vcsync.controlplane.identity.remembered import Remembered
from vcsync.controlplane.identity.revocations import Revocations
from vcsync.controlplane.identity.token_file import TokenFile
from vcsync.controlplane.identity.tokens import Claims, TokenError
from vcsync.controlplane.tenants.registry import TenantRegistry

MAX_REMEMBERED = 4096
"""Certificates, and tokens, whose signatures are not verified again."""
INVALID = "invalid bearer token"
_SCHEME_AND_TOKEN = 2

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Whom a token identifies, and for which audiences."""

    user: User
    tenant: str
    audiences: tuple[str, ...]


class _Known(NamedTuple):
    """A certificate that was verified: the authority's id, what it says, and whom it makes of who shows it."""

    authority: str
    certified: Certified
    caller: Caller


class TokenSource(Protocol):
    """Knows callers by bearer tokens of one form."""

    async def identify(self, token: str) -> Identified | None:
        """Return whom a token identifies; None: it is not for this source to say; raises TokenError: nobody."""
        ...


class Authenticator:
    """Finds out who asks."""

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
        """Take the tenants, what tells whether objects still exist, the time, static tokens and what else counts.

        `revocations`: of certificates. `sources`: who is asked, in order, about tokens that are no ServiceAccount's.
        """
        self._tenants = tenants
        self._objects = objects
        self._clock = clock
        self._token_file = token_file
        self._revocations = revocations
        self._sources = sources
        self._certificates: Remembered[bytes, _Known] = Remembered(MAX_REMEMBERED)
        self._tokens: Remembered[bytes, tuple[str, str, Claims]] = Remembered(MAX_REMEMBERED)

    async def authenticate(
        self, certificate: bytes | None, authorization: str | None, tenant_in_url: str | None
    ) -> Caller:
        """Return who asks.

        Args:
            certificate: what the client showed in the TLS handshake, as DER.
            authorization: the header of that name.
            tenant_in_url: of anonymous callers only, whose rights in that tenant are asked for.

        Raises:
            StatusError: 401, a credential is shown that does not count.
            StoreError: the store cannot be read.
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
            except TokenError as error:
                refused = error
        if refused:
            _log.info("credential refused", reason=str(refused))
            raise unauthorized()
        return Caller(User(ANONYMOUS, groups=(UNAUTHENTICATED,)), tenant_in_url or "")

    async def _by_certificate(self, der: bytes) -> Caller:
        digest = hashlib.sha256(der).digest()
        known = self._certificates.get(digest)
        if known is None or self._tenants.of_authority(known.authority) != known.caller.tenant:
            known = await self._certified(der)
            self._certificates.put(digest, known)
        found, caller = known.certified, known.caller
        if not found.not_before <= self._clock() <= found.not_after:
            raise CertificateError("the certificate is not valid now")
        if self._revocations is not None and self._revocations.revoked(caller.tenant, found):
            raise CertificateError("the certificate is revoked")
        return caller

    async def _certified(self, der: bytes) -> _Known:
        certificate = certificates.parse(der)
        identifier = certificates.authority_id(certificate)
        tenant = self._tenants.of_authority(identifier)
        credentials = await self._tenants.credentials(tenant) if tenant else None
        if tenant is None or credentials is None or credentials.authority is None:
            raise CertificateError("no tenant has that authority")
        found = certificates.certified(certificate, credentials.authority, masters=tenant == SYSTEM)
        return _Known(identifier, found, _caller(found.user, tenant))

    async def by_token(
        self, token: str, *, of: str | None = None, audiences: Sequence[str] = ()
    ) -> Authenticated:
        """Return whom a bearer token identifies.

        Args:
            token: what follows `Bearer`.
            of: the tenant that it must be of; None: any.
            audiences: what it must be meant for; none: this server.

        Raises:
            TokenError: nobody.
            StoreError: the store cannot be read.
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
        return Authenticated(_account_user(claims), tenant, common)

    async def audiences(self, tenant: str) -> tuple[str, ...]:
        """Return the audiences of a tenant's API."""
        credentials = await self._tenants.credentials(tenant)
        signer = credentials.record.signer if credentials else None
        return (signer.issuer,) if signer else ()

    def _signed(self, token: str) -> tuple[str, str] | None:
        """Return the key that a ServiceAccount token names, and whose it is; None: it is no such token."""
        try:
            identifier = tokens.key_id(token)
        except TokenError:
            return None
        tenant = self._tenants.of_signer(identifier)
        return (identifier, tenant) if tenant else None

    async def _by_source(self, token: str, of: str | None, audiences: Sequence[str]) -> Authenticated:
        for source in self._sources:
            try:
                found = await source.identify(token)
            except TokenError as error:
                # Why is for the operator: who tries tokens learns nothing of tenants, issuers and keys.
                _log.info("token refused", reason=str(error))
                raise TokenError(INVALID) from error
            if found is not None:
                return await self._outside(found, of, audiences)
        raise TokenError(INVALID)

    async def _outside(self, found: Identified, of: str | None, audiences: Sequence[str]) -> Authenticated:
        """Take a caller whom something else than a tenant's own keys identifies."""
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
        self._tokens.put(digest, (identifier, tenant, claims))
        return claims


def bearer(authorization: str | None) -> str:
    """Return the token of an Authorization header; empty: there is none, or it is of another scheme."""
    parts = (authorization or "").strip().split(" ", _SCHEME_AND_TOKEN)
    return parts[1] if len(parts) >= _SCHEME_AND_TOKEN and parts[0].lower() == "bearer" else ""


def _caller(user: User, tenant: str) -> Caller:
    groups = user.groups if UNAUTHENTICATED in user.groups else with_group(user.groups, AUTHENTICATED)
    return Caller(replace(user, groups=groups), tenant, system=tenant == SYSTEM)


def _account_user(claims: Claims) -> User:
    """Return the user that a ServiceAccount is (apiserver `pkg/authentication/serviceaccount`)."""
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
