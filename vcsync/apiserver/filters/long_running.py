"""The filter for long-running requests: registers watches and streams, so that they end with their credentials."""

from vcsync.apiserver.audit import request_log
from vcsync.apiserver.filters.suspension import only_reads
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.registry.long_running import LongRunningRequests
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo


def track_long_running(
    requests: LongRunningRequests | None,
    incoming: Incoming,
    info: RequestInfo,
    caller: Caller,
    admitted: Caller,
) -> None:
    """Register a request if it is long-running and its connection can be aborted.

    Args:
        requests: Where it is registered. None: nowhere.
        incoming: The request.
        info: What the request is about.
        caller: The caller that the credentials belong to.
        admitted: The same caller, or the guest that it is in the tenant of the request.
    """
    if incoming.abort is not None and requests is not None and request_log.is_long_running(info):
        incoming.long_running = requests.register(
            caller,
            info.tenant,
            incoming.certificate,
            incoming.headers.get("Authorization"),
            incoming.abort,
            grants=admitted.grants,
            reads=only_reads(incoming.method, info),
        )
