"""Selection of the requests to which the limit of concurrent writes in a namespace applies. Pure."""

from vcsync.apiserver.request.request_info import RequestInfo

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
UNLIMITED_WRITES = frozenset({"leases", "events"})
"""Resources exempt from the limit: Lease renewals are time-critical, and Events are cheap."""
STREAMED = frozenset({"exec", "attach", "portforward", "proxy"})
"""Subresources that are requested by writing verbs but write nothing."""


def is_limited(info: RequestInfo) -> bool:
    """Tell whether a request is a write that the limit applies to; see `flow.write_limiter`."""
    return (
        info.verb in WRITES
        and bool(info.namespace)
        and info.resource not in UNLIMITED_WRITES
        and info.subresource not in STREAMED
    )
