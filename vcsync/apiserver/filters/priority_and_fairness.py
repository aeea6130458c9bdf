"""The filter of API Priority and Fairness: a request waits here for its seat.

Behaviour: apiserver's `server/filters/priority-and-fairness.go`. The seats of a server are shared out among its
tenants first; see `flow.dispatcher`.
"""

from dataclasses import replace

from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.flow.dispatcher import SeatDispatcher
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import AUTHENTICATED, SYSTEM, UNAUTHENTICATED, Caller
from vcsync.apiserver.request.request_info import Query, RequestInfo

UNKNOWN_TENANT = ""
"""Tenant recorded for requests that name a tenant which does not exist."""
MAX_LIMIT_DIGITS = 19
"""Digits of a list's `limit` from which on it counts as no limit: it would not fit into 64 bits."""


async def wait_for_seat(  # noqa: PLR0917 - what the filters have found out
    gate: SeatDispatcher | None,
    identity: Identity,
    incoming: Incoming,
    tenant: str,
    caller: Caller,
    info: RequestInfo,
    query: Query,
) -> None:
    """Wait until the request may run. A system caller takes a seat of the system, whatever tenant it asks about.

    Raises:
        StatusError: 429.
    """
    if gate is None:
        return
    owner = SYSTEM if caller.system else tenant if identity.exists(tenant) else UNKNOWN_TENANT
    if not gate.known(owner):
        await gate.prepare(owner)
    width = 1
    if info.verb == "list" and not info.name:
        limit = (query.get("limit") or ("",))[0]
        key = (tenant, info.group, info.resource, info.namespace)
        width = gate.work_estimator.seats(
            key, int(limit) if limit.isdecimal() and len(limit) < MAX_LIMIT_DIGITS else 0
        )
    incoming.seat = seat = gate.enter(owner, _requester(caller), info, width)
    if UNAUTHENTICATED not in caller.user.groups:
        incoming.flow_headers = seat.flow.headers
    if seat.ready is not None:
        await seat.wait()
    if info.verb == "watch":
        seat.watch(caller)


def _requester(caller: Caller) -> Caller:
    """Return a caller as flow schemas see it. Guests have no groups, but their requests are those of authenticated users."""
    return replace(caller, user=replace(caller.user, groups=(AUTHENTICATED,))) if caller.home else caller
