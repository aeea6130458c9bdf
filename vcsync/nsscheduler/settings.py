"""What an operator can set for the namespace scheduler."""

from msgspec import Struct, field

from vcsync.scheduling.slices import DEFAULT_SLICE
from vcsync.tenancy.pool import Patience


class Settings(Struct, frozen=True):
    """Settings of the namespace scheduler.

    `policy`: `spread`, `pack` or `cheap`. `default_slice`: quantities of a slice where neither annotation nor
    VirtualCluster say otherwise. `brake_share`: no larger share of a tenant's placements goes at once, unless the
    tenant was seen to give them up. `workers`: namespaces in work at once, at most `per_tenant` of one tenant.
    """

    policy: str = "spread"
    default_slice: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_SLICE))
    brake_share: float = 0.3
    workers: int = 32
    per_tenant: int = 4
    patience: Patience = Patience()
