"""Records in the store whose work made a process end."""

import structlog

from vcsync.api.names import tenant_of_cluster_key
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.operator.lifecycle import Lifecycle
from vcsync.apiserver.tenants.registry import TenantRegistry
from vcsync.process.stall_report import Suspects

_log = structlog.get_logger(__name__)


async def record_stalls(found: Suspects, tenants: TenantRegistry, lifecycle: Lifecycle) -> None:
    """Record a stall of each tenant under suspicion, which may set it aside.

    Raises:
        StoreError: The store cannot be read or written.
    """
    for tenant in sorted(map(tenant_of_cluster_key, found.tenants)):
        if not tenants.admits(tenant):
            continue
        try:
            record = await lifecycle.stalled(tenant, found.mark.kind, sure=found.sure)
        except StatusError as error:
            _log.warning("a stall cannot be recorded", tenant=tenant, error=str(error))
            continue
        if record.aside:
            _log.error("the tenant is set aside", tenant=tenant, why=record.aside)
