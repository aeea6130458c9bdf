"""The filter for guests: callers of another tenant than the one that the URL names, whom grants admit. Upstream has none."""

from collections.abc import Awaitable, Callable

from vcsync.apiserver.filters.tenant import OPERATOR
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import ALL, RequestInfo

Guests = Callable[[Caller, str], Awaitable[Caller]]
"""Returns a caller as a guest of a tenant, or unchanged; see `grants.index.GrantIndex.guest`."""


async def admit_guest(guests: Guests | None, caller: Caller, info: RequestInfo) -> Caller:
    """Return the caller as a guest of the tenant that the URL names if grants admit it; otherwise unchanged.

    The operator's own paths and all tenants at once have no guests.

    Raises:
        StoreUnavailable: The grants cannot be read.
    """
    tenant = info.tenant
    if guests is None or not tenant or caller.system or tenant in (caller.tenant, ALL):
        return caller
    return caller if info.path.startswith(OPERATOR) else await guests(caller, tenant)
