"""The filter for aggregated APIs: requests for a group and version that an APIService assigns to a Service are forwarded.

The resource metrics API is one as well, with its server in this process.

Upstream's kube-aggregator sits in front of the other handlers in the same way. All other filters come before it, so that
authentication, authorization, limits and the audit log are those of this server.
"""

from vcsync.apiserver.aggregator.failures import not_available
from vcsync.apiserver.aggregator.forward import Forwarder
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.reply import Reply, Stream
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.apiserver.resourcemetrics.handler import ResourceMetrics

OPENAPI = "/openapi/v3"


async def aggregate(  # noqa: PLR0917 - what the filters have found out
    aggregator: Forwarder | None,
    metrics: ResourceMetrics | None,
    spaces: Spaces,
    incoming: Incoming,
    info: RequestInfo,
    query: Query,
    tenant: str,
    caller: Caller,
) -> Reply | Stream | None:
    """Answer a request if its group and version are served beside the kinds of this server; otherwise return None.

    Raises:
        StatusError: 503, the APIService is not available; or as from `Forwarder.forward` and `ResourceMetrics.answer`.
    """
    if metrics is not None and metrics.serves(tenant, info):
        return await metrics.answer(incoming, info, tenant, caller)
    version = _version(info)
    service = spaces.remote_api_service(tenant, *version) if version is not None else None
    if service is None:
        return None
    why = spaces.remote.refusal(service)
    if why and info.path.startswith(OPENAPI):
        return None
    if aggregator is None or why or not service.available:
        raise not_available(service, why or service.reason)
    if incoming.seat is not None:
        # Seats are for the work of this server. The connections to aggregated API servers are limited for each tenant.
        incoming.seat.leave()
    return await aggregator.forward(service, incoming, info, query, caller)


def _version(info: RequestInfo) -> tuple[str, str] | None:
    """Return group and version of a request for a resource, for discovery of its version, or for its OpenAPI document."""
    if info.resource_request:
        return (info.group, info.version) if info.prefix == "apis" else None
    if not info.path.startswith(("/apis/", f"{OPENAPI}/apis/")):
        return None
    match info.path.removeprefix(OPENAPI).strip("/").split("/"):
        case ["apis", group, version]:
            return group, version
    return None
