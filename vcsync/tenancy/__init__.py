"""What every role needs to serve many tenants: who they are, and one supervised connection to each."""

from vcsync.tenancy.pool import Patience, Pool
from vcsync.tenancy.registry import TenantHandle, TenantRegistry, TenantState, TenantStatistics

__all__ = [
    "Patience",
    "Pool",
    "TenantHandle",
    "TenantRegistry",
    "TenantState",
    "TenantStatistics",
]
