"""Who may have what called. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vcsync.controlplane.egress.hosts import HostPattern
from vcsync.controlplane.egress.networks import Address, Networks
from vcsync.controlplane.egress.target import Target


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator allows; nothing, unless told.

    Attributes:
        hosts: which URLs may be called, wherever public or named networks have them.
        networks: where Services may be, and what else than public addresses URLs may mean.
        trusted: the destinations are the operator's own choice: all of them are called.
    """

    hosts: Sequence[HostPattern] = ()
    networks: Networks = field(default_factory=Networks)
    trusted: bool = False

    def permits(self, target: Target) -> bool:
        """Whether it may be looked up at all."""
        if self.trusted:
            return True
        if target.service is not None:
            return bool(self.networks.allowed)
        return any(each.matches(target.host, target.port, target.tenant) for each in self.hosts)

    def reachable(self, target: Target, address: Address) -> bool:
        """Whether an address that it was found to have may be connected to."""
        if self.trusted:
            return True
        if target.service is not None:
            return self.networks.named(address, target.tenant)
        return self.networks.permits(address, target.tenant)


NOTHING = Policy()
"""Of a server that calls nothing for its tenants: the default."""
TRUSTED = Policy(trusted=True)
"""For destinations that the operator chose: OIDC issuers, authentication webhooks."""
