"""Tells whose work stalled the last process."""

from collections.abc import Awaitable, Callable

import structlog

from vcsync.api.names import tenant_of_cluster_key
from vcsync.process import loop, stall_report
from vcsync.process.stall_report import Suspects

_log = structlog.get_logger(__name__)

Record = Callable[[str, Suspects], Awaitable[None]]
"""Records a stall of a tenant."""


async def tell_stalls(record: Record) -> None:
    """Log whose work made the last process end, and call `record` with each tenant under suspicion."""
    report = loop.taken_report()
    if not report:
        return
    found = stall_report.suspects(report)
    tenants = sorted({tenant_of_cluster_key(each) for each in found.tenants if each})
    _log.error(
        "the last process ended because its event loop stood",
        tenants=tenants,
        work=found.mark.kind,
        sure=found.sure,
        report=report,
    )
    for tenant in tenants:
        await record(tenant, found)
