"""The impersonation filter: the user that the caller acts as.

Behaviour: apiserver's `endpoints/filters/impersonation`.
"""

from vcsync.apiserver.audit import request_log
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo


async def impersonate(
    identity: Identity, incoming: Incoming, info: RequestInfo, caller: Caller, tenant: str
) -> Caller:
    """Return the user that the caller acts as, and record that user in the audit trail.

    Raises:
        StatusError: 403.
    """
    caller = await identity.impersonate(caller, incoming.headers, tenant, info)
    request_log.impersonated(incoming, caller)
    return caller
