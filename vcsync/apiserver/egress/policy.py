"""Decides which servers may be called for which tenant. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vcsync.apiserver.egress.hosts import HostPattern
from vcsync.apiserver.egress.networks import Address, Networks
from vcsync.apiserver.egress.target import Target


@dataclass(frozen=True, slots=True)
class Policy:
    """Addresses that the operator allows to be called. The default allows none.

    Attributes:
        hosts: Hosts of URLs that may be called if their addresses are public or in `networks`.
        networks: Networks of Services, and networks beyond the public ones for URLs.
        trusted: Whether all destinations may be called, because the operator chooses them.
    """

    hosts: Sequence[HostPattern] = ()
    networks: Networks = field(default_factory=Networks)
    trusted: bool = False

    def permits(self, target: Target) -> bool:
        """Return whether the endpoints of a target may be looked up."""
        if self.trusted:
            return True
        if target.service is not None:
            return self.permits_services(target.tenant)
        return any(each.matches(target.host, target.port, target.tenant) for each in self.hosts)

    def permits_services(self, tenant: str) -> bool:
        """Return whether Services of a tenant may be called at all: there is a network in which it may."""
        return self.trusted or any(each.tenant in ("", tenant) for each in self.networks.allowed)

    def reachable(self, target: Target, address: Address) -> bool:
        """Return whether connections may be made to an address of a target."""
        if self.trusted:
            return True
        if target.service is not None:
            return self.networks.named(address, target.tenant)
        return self.networks.permits(address, target.tenant)


NOTHING = Policy()
"""Policy of a server that calls nothing for its tenants: the default."""
TRUSTED = Policy(trusted=True)
"""Policy for destinations that the operator chooses: OIDC issuers and authentication webhooks."""
