"""Limits of the requests of a tenant, as its record has them and as they are in force. Pure."""

from typing import Annotated

import msgspec

BURST_SECONDS = 2
"""A burst without a limit of its own is as large as the requests, or bytes, of so many seconds."""

_Limit = Annotated[int, msgspec.Meta(ge=0, le=10**15)] | None


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Limits of a tenant or of a user. None: the default of the control plane; 0: no limit.

    Attributes:
        reads_per_second: Average number of reads per second: requests with the methods GET, HEAD and OPTIONS.
        read_burst: Number of reads that may come at once after a pause.
        writes_per_second: Average number of other requests per second.
        write_burst: Number of these requests that may come at once after a pause.
        concurrent_requests: Number of requests at the same time, except watches.
        watches: Number of open watches.
        bytes_per_second: Average number of bytes of bodies, in both directions together, per second.
    """

    reads_per_second: _Limit = None
    read_burst: _Limit = None
    writes_per_second: _Limit = None
    write_burst: _Limit = None
    concurrent_requests: _Limit = None
    watches: _Limit = None
    bytes_per_second: _Limit = None


class TenantLimits(RequestLimits, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Limits of a tenant as a whole.

    Attributes:
        user: Limits of each of its users.
    """

    user: RequestLimits | None = None


NO_LIMITS = RequestLimits()
NO_TENANT_LIMITS = TenantLimits()
FIELDS = RequestLimits.__struct_fields__
_NONE = dict.fromkeys(FIELDS, 0)
UNLIMITED = TenantLimits(**_NONE, user=RequestLimits(**_NONE))
"""Limits to which no default applies."""


def in_force(own: TenantLimits | None, defaults: TenantLimits) -> TenantLimits | None:
    """Return the limits in force, in which None means no limit, or None if there are none at all.

    Args:
        own: Limits of the tenant's record.
        defaults: Those of the control plane, for what the record does not set.
    """
    own = own or NO_TENANT_LIMITS
    user = _in_force(own.user or NO_LIMITS, defaults.user or NO_LIMITS)
    found = TenantLimits(**_in_force(own, defaults), user=RequestLimits(**user) if user else None)
    return None if found == NO_TENANT_LIMITS else found


def _in_force(own: RequestLimits, defaults: RequestLimits) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for field in FIELDS:
        value = getattr(own, field)
        value = getattr(defaults, field) if value is None else value
        if value:
            chosen[field] = value
    for rate, burst in (("reads_per_second", "read_burst"), ("writes_per_second", "write_burst")):
        if rate not in chosen:
            chosen.pop(burst, None)
        elif burst not in chosen:
            chosen[burst] = chosen[rate] * BURST_SECONDS
    return chosen
