"""The parts that every role needs to serve many tenants: their registry, and one supervised connection to each."""

from vcsync.tenancy.failure import Patience
from vcsync.tenancy.pool import Pool
from vcsync.tenancy.registry import TenantHandle, TenantRegistry, TenantState, TenantStatistics

__all__ = [
    "Patience",
    "Pool",
    "TenantHandle",
    "TenantRegistry",
    "TenantState",
    "TenantStatistics",
]
