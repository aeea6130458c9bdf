"""Connects the parts that know callers and tenants: authentication, authorization, reviews and the operator's API."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcsync.apiserver.authentication.authenticator import Authenticator, TokenSource
from vcsync.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from vcsync.apiserver.authentication.bound_tokens import BoundObjects
from vcsync.apiserver.authentication.jwt_tokens import IssuedTokens
from vcsync.apiserver.authentication.revocations import Revocations
from vcsync.apiserver.authentication.token_file import TokenFile
from vcsync.apiserver.authentication.token_requests import TokenRequests
from vcsync.apiserver.authentication.webhook_tokens import CACHE_SECONDS, TENANT_EXTRA, ReviewedTokens, sender
from vcsync.apiserver.authorization.authorizer import Authorizer
from vcsync.apiserver.operator.api import OperatorApi
from vcsync.apiserver.operator.context import OperatorContext
from vcsync.apiserver.operator.front_proxy import FrontProxies
from vcsync.apiserver.operator.lifecycle import Endpoint, Lifecycle, ensure_server
from vcsync.apiserver.operator.signer import Issuer
from vcsync.apiserver.operator.storage_layout import migrate
from vcsync.apiserver.operator.tenant_deletion import TenantDeletion
from vcsync.apiserver.requestlimits.reports import Reports
from vcsync.apiserver.reviews.reviews import Reviews
from vcsync.apiserver.storage.interface import Change, Store
from vcsync.apiserver.tenants.records import Authority
from vcsync.apiserver.tenants.registry import TenantRegistry
from vcsync.apiserver.tenants.request_limits import NO_TENANT_LIMITS, TenantLimits


@dataclass(frozen=True, slots=True)
class Authentication:
    """The optional authenticators, beside client certificates and ServiceAccount tokens. All are off by default.

    Attributes:
        token_file: File of static tokens.
        config: File with an AuthenticationConfiguration, which names issuers of JSON web tokens.
        webhook: Kubeconfig that names the authentication webhook.
        webhook_cache_seconds: Time for which answers of the webhook are cached.
        webhook_tenant_extra: Key of a user's extra in which the webhook names the tenant.
        bootstrap_tokens: Whether tenants' bootstrap tokens are accepted.
    """

    token_file: Path | None = None
    config: Path | None = None
    webhook: Path | None = None
    webhook_cache_seconds: float = CACHE_SECONDS
    webhook_tenant_extra: str = TENANT_EXTRA
    bootstrap_tokens: bool = False


_PLAIN = Authentication()


class Identity:
    """Authenticates and authorizes callers, and manages tenants.

    Attributes:
        authenticator: Returns the caller that credentials belong to.
        authorizer: Decides whether callers may do what they request.
        reviews: Answers access reviews, TokenReviews and SelfSubjectReviews.
        token_requests: Answers TokenRequests and OpenID discovery.
        tenants: All tenants.
        revocations: Revoked client certificates.
        lifecycle: Creates and rekeys tenants.
        deletion: Deletes tenants.
        front_proxies: Authorities by which aggregated API servers trust this server.
        admin: The operator's HTTP API.
        server: The certificate authority that signs serving certificates.
        endpoint: Where clients reach the API.
        default_limits: Limits of requests of tenants that set none.
        reports: What the processes report about each other.
    """

    def __init__(
        self,
        store: Store,
        registry: TenantRegistry,
        endpoint: Endpoint,
        server: Authority,
        *,
        authentication: Authentication = _PLAIN,
        default_limits: TenantLimits = NO_TENANT_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Connect the parts without reading the store; see `open`.

        Raises:
            TokenFileError, ConfigError, OSError: A file of `authentication` cannot be used.
        """
        self.tenants = registry
        self.server = server
        self.endpoint = endpoint
        self.default_limits = default_limits
        self.reports = Reports()
        self.authorizer = Authorizer(store, registry.authorizes, registry.has_only_virtual_nodes)
        self.revocations = Revocations(store)
        self._bootstrap = BootstrapTokens(store, registry.names, clock)
        self.authenticator = Authenticator(
            registry,
            BoundObjects(store),
            clock,
            TokenFile(authentication.token_file, clock) if authentication.token_file else None,
            revocations=self.revocations,
            sources=self._sources(authentication, clock),
        )
        self.reviews = Reviews(self.authorizer, self.authenticator, clock)
        self.token_requests = TokenRequests(store, registry, clock)
        context = OperatorContext(store, registry, clock, self.authorizer.forget, self.revocations.forget)
        self.lifecycle, self.deletion = Lifecycle(context, endpoint), TenantDeletion(context)
        self.front_proxies = FrontProxies(context)
        self.admin = OperatorApi(
            store=store,
            registry=registry,
            lifecycle=self.lifecycle,
            deletion=self.deletion,
            revocations=self.revocations,
            issuer=Issuer(store, registry, self.revocations, clock),
            authorizer=self.authorizer,
            server=server,
            clock=clock,
            endpoint=endpoint,
            default_limits=default_limits,
            reports=self.reports,
        )

    def _sources(self, wanted: Authentication, clock: Callable[[], float]) -> list[TokenSource]:
        """Return the optional token authenticators, in kube-apiserver's order."""
        admits = self.tenants.admits
        found: list[TokenSource] = []
        if wanted.bootstrap_tokens:
            found.append(self._bootstrap)
        if wanted.config:
            found.append(IssuedTokens(wanted.config, admits, clock))
        if wanted.webhook:
            webhook = ReviewedTokens(
                sender(wanted.webhook),
                admits,
                clock,
                tenant_extra=wanted.webhook_tenant_extra,
                cache_seconds=wanted.webhook_cache_seconds,
            )
            found.append(webhook)
        return found

    @classmethod
    async def open(
        cls,
        store: Store,
        endpoint: Endpoint,
        *,
        authentication: Authentication = _PLAIN,
        default_limits: TenantLimits = NO_TENANT_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> "Identity":
        """Read all tenants. In an empty store, create the certificate authority of the server and the system space.

        Raises:
            StoreError: The store cannot be read or written.
            TokenFileError, ConfigError, CredentialsError, OSError: A file of `authentication` cannot be used.
        """
        registry = TenantRegistry(store)
        await registry.load()
        await migrate(store, registry.spaces())
        server = await ensure_server(store, clock)
        identity = cls(
            store,
            registry,
            endpoint,
            server,
            authentication=authentication,
            default_limits=default_limits,
            clock=clock,
        )
        await identity.revocations.load()
        await identity.lifecycle.ensure_system()
        return identity

    def changed(self, changes: Sequence[Change]) -> None:
        """Apply changes of the store. Call it with every change, in order."""
        self.tenants.changed(changes)
        self.revocations.changed(changes)
        self._bootstrap.changed(changes)
        self.authorizer.changed(changes)

    def forget(self, tenant: str) -> None:
        """Drop what is cached of a tenant's roles and tokens; it is read again when it is needed."""
        self.authorizer.forget(tenant)
        self._bootstrap.forget_all()

    async def reload(self) -> None:
        """Drop the caches and read all tenants again, because changes may have been missed.

        Raises:
            StoreError: The store cannot be read.
        """
        self.authorizer.forget_all()
        self._bootstrap.forget_all()
        await self.revocations.load()
        await self.tenants.load()
