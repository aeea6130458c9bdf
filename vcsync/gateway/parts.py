"""The parts of the gateway, connected with each other."""

import asyncio
from collections.abc import Callable

from vcsync.apiserver.authentication.authenticator import Authenticator
from vcsync.apiserver.tenants.registry import TenantRegistry
from vcsync.gateway.account_tokens import AccountTokens
from vcsync.gateway.forward import Forwarder
from vcsync.gateway.upstreams import Upstreams


class Gateway:
    """The gateway of a control plane.

    Args:
        tenants: All tenants.
        authenticator: Gets the authenticator of tokens of external control planes.
        now: Returns seconds since the epoch.
        monotonic: Returns seconds that only grow.

    Attributes:
        upstreams: Connections to external API servers.
        forwarder: Forwards requests.
    """

    def __init__(
        self,
        tenants: TenantRegistry,
        authenticator: Authenticator,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.upstreams = Upstreams(tenants)
        self.forwarder = Forwarder(self.upstreams)
        self._account_tokens = AccountTokens(self.forwarder.serves, self.forwarder.key_set, now, monotonic)
        self.upstreams.on_drop = self._account_tokens.forget
        authenticator.control_planes = self._account_tokens

    async def run(self) -> None:
        """Read keys and close outdated connections until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.upstreams.run())
            tasks.create_task(self._account_tokens.run())
