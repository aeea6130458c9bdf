"""Identity as one thing: everything about callers and tenants that the REST server needs of this room."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcsync.controlplane.identity.authentication import Authenticator, TokenSource
from vcsync.controlplane.identity.authorizer import Authorizer
from vcsync.controlplane.identity.bootstrap_tokens import BootstrapTokens
from vcsync.controlplane.identity.bound import BoundObjects
from vcsync.controlplane.identity.jwt_tokens import IssuedTokens
from vcsync.controlplane.identity.reviews import Reviews
from vcsync.controlplane.identity.revocations import Revocations
from vcsync.controlplane.identity.token_file import TokenFile
from vcsync.controlplane.identity.token_requests import TokenRequests
from vcsync.controlplane.identity.webhook_tokens import CACHE_SECONDS, TENANT_EXTRA, ReviewedTokens, sender
from vcsync.controlplane.store.interface import Change, Store
from vcsync.controlplane.tenants.admin import Admin
from vcsync.controlplane.tenants.departing import Departures
from vcsync.controlplane.tenants.issuing import Issuer
from vcsync.controlplane.tenants.layout import bring_up_to_date
from vcsync.controlplane.tenants.lifecycle import Endpoint, Lifecycle, ensure_server
from vcsync.controlplane.tenants.means import Means
from vcsync.controlplane.tenants.records import Authority
from vcsync.controlplane.tenants.registry import TenantRegistry


@dataclass(frozen=True, slots=True)
class Authentication:
    """What beside certificates and ServiceAccount tokens proves who somebody is; nothing unless asked for.

    Attributes:
        token_file: static tokens.
        config: an AuthenticationConfiguration: issuers of JSON web tokens.
        webhook: a kubeconfig that names the authentication webhook.
        webhook_cache_seconds: how long its answers count.
        webhook_tenant_extra: the key of a user's extra in which it names the tenant.
        bootstrap_tokens: whether tenants' bootstrap tokens count.
    """

    token_file: Path | None = None
    config: Path | None = None
    webhook: Path | None = None
    webhook_cache_seconds: float = CACHE_SECONDS
    webhook_tenant_extra: str = TENANT_EXTRA
    bootstrap_tokens: bool = False


_PLAIN = Authentication()


class Identity:
    """Who asks, whether they may, and which tenants there are.

    Attributes:
        authenticator: from credentials to callers.
        authorizer: whether callers may.
        reviews: access reviews, TokenReview, SelfSubjectReview.
        token_requests: TokenRequest and OpenID discovery.
        tenants: which there are.
        revocations: client certificates that do not count any more.
        lifecycle: makes and rekeys tenants.
        departures: deletes them.
        admin: the operator's HTTP API.
        server: the authority that signs serving certificates.
    """

    def __init__(
        self,
        store: Store,
        registry: TenantRegistry,
        endpoint: Endpoint,
        server: Authority,
        *,
        authentication: Authentication = _PLAIN,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Put the parts together; `open` also fills them.

        Raises:
            TokenFileError, ConfigError, OSError: a file of `authentication` cannot be used.
        """
        self.tenants = registry
        self.server = server
        self.authorizer = Authorizer(store, registry.admits)
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
        means = Means(store, registry, clock, self.authorizer.forget, self.revocations.forget)
        self.lifecycle, self.departures = Lifecycle(means, endpoint), Departures(means)
        self.admin = Admin(
            registry=registry,
            lifecycle=self.lifecycle,
            departures=self.departures,
            revocations=self.revocations,
            issuer=Issuer(store, registry, self.revocations, clock),
            authorizer=self.authorizer,
            server=server,
            clock=clock,
            url=endpoint.url,
        )

    def _sources(self, wanted: Authentication, clock: Callable[[], float]) -> list[TokenSource]:
        """Return who is asked about tokens, in kube-apiserver's order."""
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
        clock: Callable[[], float] = time.time,
    ) -> "Identity":
        """Read all tenants; in an empty store, make the authority of the server and the operator's own space.

        Raises:
            StoreError: the store cannot be read or written.
            TokenFileError, ConfigError, CredentialsError, OSError: a file of `authentication` cannot be used.
        """
        registry = TenantRegistry(store)
        await registry.load()
        await bring_up_to_date(store, registry.places())
        server = await ensure_server(store, clock)
        identity = cls(store, registry, endpoint, server, authentication=authentication, clock=clock)
        await identity.revocations.load()
        await identity.lifecycle.ensure_system()
        return identity

    def changed(self, changes: Sequence[Change]) -> None:
        """Take note of changes of the store; to be called with all of them, in order."""
        self.tenants.changed(changes)
        self.revocations.changed(changes)
        self._bootstrap.changed(changes)
        self.authorizer.changed(changes)

    def forget(self, tenant: str) -> None:
        """Read anew what is known of a tenant's rights and tokens when somebody next asks."""
        self.authorizer.forget(tenant)
        self._bootstrap.forget_all()

    async def reload(self) -> None:
        """Take nothing for granted any more; to be called when changes may have been missed.

        Raises:
            StoreError: the store cannot be read.
        """
        self.authorizer.forget_all()
        self._bootstrap.forget_all()
        await self.revocations.load()
        await self.tenants.load()
