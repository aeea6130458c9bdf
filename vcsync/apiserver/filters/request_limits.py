"""The filter of request limits: lets a request of a tenant through, or refuses it with 429. Upstream has no such filter."""

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.metering.counters import READS
from vcsync.apiserver.request.caller import UNAUTHENTICATED, Caller
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.apiserver.requestlimits.account import Kind
from vcsync.apiserver.requestlimits.limiter import Limiter

_KINDS = {(read, watch): Kind(read, watch) for read in (False, True) for watch in (False, True)}


def limit(
    limiter: Limiter | None, incoming: Incoming, info: RequestInfo, tenant: str, caller: Caller
) -> None:
    """Apply the limits to a request of an authenticated caller. The caller is the one before impersonation.

    Raises:
        StatusError: 429.
    """
    if limiter is not None and not incoming.local and UNAUTHENTICATED not in caller.user.groups:
        _enter(limiter, incoming, info, tenant, caller)


def limit_anonymous(  # noqa: PLR0917 - what the filters have found out
    limiter: Limiter | None,
    identity: Identity,
    incoming: Incoming,
    info: RequestInfo,
    tenant: str,
    caller: Caller,
) -> None:
    """Apply the limits to a request of an anonymous caller, once it is authorized.

    Earlier, a 429 would tell anybody whether a tenant exists. Impersonated callers have passed `limit`. Other paths than
    those of resources are open to everybody, and tell nothing about the tenant.

    Raises:
        StatusError: 429.
    """
    if (
        limiter is not None
        and UNAUTHENTICATED in caller.user.groups
        and not caller.impersonated
        and info.resource_request
        and identity.exists(tenant)
    ):
        _enter(limiter, incoming, info, tenant, caller)


def _enter(limiter: Limiter, incoming: Incoming, info: RequestInfo, tenant: str, caller: Caller) -> None:
    kind = _KINDS[incoming.method in READS, info.verb == "watch"]
    try:
        incoming.passage = limiter.enter(tenant, caller, kind)
    except StatusError as refusal:
        incoming.retry_after = refusal.retry_after or 0
        raise
