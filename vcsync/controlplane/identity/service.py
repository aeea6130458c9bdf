"""Identity as one thing: everything about callers and tenants that the REST server needs of this room."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from vcsync.controlplane.identity.authentication import Authenticator
from vcsync.controlplane.identity.authorizer import Authorizer
from vcsync.controlplane.identity.bound import BoundObjects
from vcsync.controlplane.identity.reviews import Reviews
from vcsync.controlplane.identity.token_file import TokenFile
from vcsync.controlplane.identity.token_requests import TokenRequests
from vcsync.controlplane.store.interface import Change, Store
from vcsync.controlplane.tenants.admin import Admin
from vcsync.controlplane.tenants.lifecycle import Endpoint, Lifecycle
from vcsync.controlplane.tenants.records import Authority
from vcsync.controlplane.tenants.registry import TenantRegistry


class Identity:
    """Who asks, whether they may, and which tenants there are.

    Attributes:
        authenticator: from credentials to callers.
        authorizer: whether callers may.
        reviews: access reviews, TokenReview, SelfSubjectReview.
        token_requests: TokenRequest and OpenID discovery.
        tenants: which there are.
        lifecycle: makes, deletes and rekeys them.
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
        token_file: TokenFile | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Put the parts together; `open` also fills them."""
        self.tenants = registry
        self.server = server
        self.authorizer = Authorizer(store, registry.exists)
        self.authenticator = Authenticator(registry, BoundObjects(store), clock, token_file)
        self.reviews = Reviews(self.authorizer, self.authenticator, clock)
        self.token_requests = TokenRequests(store, registry, clock)
        self.lifecycle = Lifecycle(store, registry, endpoint, clock, self.authorizer.forget)
        self.admin = Admin(
            registry=registry,
            lifecycle=self.lifecycle,
            authorizer=self.authorizer,
            server=server,
            clock=clock,
            url=endpoint.url,
        )

    @classmethod
    async def open(
        cls,
        store: Store,
        endpoint: Endpoint,
        *,
        token_file: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> "Identity":
        """Read all tenants; in an empty store, make the authority of the server and the operator's own space.

        Raises:
            StoreError: the store cannot be read or written.
            TokenFileError, OSError: the token file cannot be used.
        """
        tokens = TokenFile(token_file, clock) if token_file else None
        registry = TenantRegistry(store)
        await registry.load()
        server = await Lifecycle(store, registry, endpoint, clock, lambda _: None).ensure_server()
        identity = cls(store, registry, endpoint, server, token_file=tokens, clock=clock)
        await identity.lifecycle.ensure_system()
        return identity

    def changed(self, changes: Sequence[Change]) -> None:
        """Take note of changes of the store; to be called with all of them, in order."""
        self.tenants.changed(changes)
        self.authorizer.changed(changes)

    async def reload(self) -> None:
        """Take nothing for granted any more; to be called when changes may have been missed.

        Raises:
            StoreError: the store cannot be read.
        """
        self.authorizer.forget_all()
        await self.tenants.load()
