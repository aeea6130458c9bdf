"""The operator's settings of the namespace scheduler."""

from msgspec import Struct, field

from vcsync.api.specs import STAY, FailBack, Failover
from vcsync.scheduling.rebalance import DEFAULT_BUDGET
from vcsync.scheduling.slices import DEFAULT_SLICE
from vcsync.tenancy.failure import Patience
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES


class Settings(Struct, frozen=True):
    """Settings of the namespace scheduler.

    Attributes:
        policy: `spread`, `pack` or `cheap`.
        default_slice: quantities of a slice, unless an annotation or the VirtualCluster sets others.
        brake_share: the largest share of a tenant's placements that is removed within ten minutes without an observed
            request.
        workers: number of namespaces that are reconciled concurrently.
        per_tenant: number of namespaces of one tenant that are reconciled concurrently.
        patience: limits of silence after which a super cluster is suspect or lost.
        failover: policy for lost super clusters of tenants that have none.
        fail_back: policy for the way back to them of tenants that have none.
        move_budget: most slices that a scheduled rebalance moves, and that go back at a time.
        rebalance_seconds: seconds between two rebalances; None for none.
        memory_per_tenant: bytes that the objects of one tenant may take in the caches.
    """

    policy: str = "spread"
    default_slice: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_SLICE))
    brake_share: float = 0.3
    workers: int = 32
    per_tenant: int = 4
    patience: Patience = Patience()
    failover: Failover = STAY
    fail_back: FailBack = "Never"
    move_budget: int = DEFAULT_BUDGET
    rebalance_seconds: float | None = None
    memory_per_tenant: int = TENANT_MEMORY_BYTES
