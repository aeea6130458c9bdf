"""The authorization filter: whether the caller may make the request.

Behaviour: apiserver's `endpoints/filters/authorization.go`.
"""

from dataclasses import replace

from vcsync.apiserver.authorization import syncers
from vcsync.apiserver.filters.identity import Identity
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo

UPGRADED = frozenset({"exec", "attach", "portforward"})
"""Subresources that WebSocket clients request by GET. They need the right to create as well, as with the feature gate
AuthorizePodWebsocketUpgradeCreatePermission."""


async def authorize(identity: Identity, incoming: Incoming, info: RequestInfo, caller: Caller) -> None:
    """Return if the caller may make the request.

    Raises:
        StatusError: 403.
    """
    for asked in syncers.required(caller, info):
        await identity.authorize(caller, asked, incoming.audit)
    if info.subresource in UPGRADED and info.verb == "get":
        await identity.authorize(caller, replace(info, verb="create"), incoming.audit)
