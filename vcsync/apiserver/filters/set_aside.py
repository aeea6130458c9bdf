"""The filter for tenants that are set aside because their work stalled the server: only the operator reaches them.

Reads are refused like writes, since a read may be what stalled the server. Upstream has no such filter.
"""

from vcsync.apimachinery import errors
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.request.caller import UNAUTHENTICATED, Caller, refusal
from vcsync.apiserver.request.request_info import RequestInfo


def blamed_tenant(identity: Identity, caller: Caller, tenant: str) -> str:
    """Return the tenant to blame if a request stalls the server, or an empty text.

    Anybody can make up the name of a tenant, and anonymous callers could let any tenant be set aside.
    """
    return tenant if UNAUTHENTICATED not in caller.user.groups and identity.exists(tenant) else ""


def refuse_set_aside(identity: Identity, caller: Caller, info: RequestInfo, tenant: str) -> None:
    """Return unless a caller that is not the operator asks for something of a tenant that is set aside.

    The answer has no Retry-After, with which clients would wait and try again in silence. Anonymous callers do not learn that the
    tenant exists.

    Raises:
        StatusError: 503; 403 for anonymous callers.
    """
    if caller.system:
        return
    why = identity.why_aside(tenant)
    if why and UNAUTHENTICATED in caller.user.groups:
        if info.resource_request:
            raise refusal(caller, info)
    elif why:
        raise errors.unavailable(
            f"tenant {tenant} is set aside: {why}. Its Pods go on. The operator of this service removes the cause, and then runs "
            f"'vcsync tenant release {tenant}'"
        )
