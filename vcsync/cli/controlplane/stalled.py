"""Records whose work stalled the last process, so that a tenant is set aside which does it again."""

import structlog

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.assembly.identity import Identity
from vcsync.cli.command.stalls import tell_stalls
from vcsync.process.stall_report import Suspects

_log = structlog.get_logger(__name__)


async def record_stalls(identity: Identity) -> None:
    """Record in the store whose work made the last process end.

    Raises:
        StoreError: The store cannot be read or written.
    """

    async def record(tenant: str, found: Suspects) -> None:
        if not identity.tenants.admits(tenant):
            return
        try:
            changed = await identity.lifecycle.stalled(tenant, found.mark.kind, sure=found.sure)
        except StatusError as error:
            _log.warning("a stall cannot be recorded", tenant=tenant, error=str(error))
            return
        if changed.aside:
            _log.error("the tenant is set aside", tenant=tenant, why=changed.aside)

    await tell_stalls(record)
