"""The answers to requests whose aggregated API server does not serve them. They contain no addresses. Pure."""

from vcsync.apimachinery.errors import StatusError, unavailable
from vcsync.apiserver.discovery.remote_api_services import RemoteApiService


def not_available(service: RemoteApiService, why: str, retry_after: int | None = None) -> StatusError:
    """Return the answer to a request for an APIService that is not available: 503.

    Args:
        service: The APIService.
        why: The reason.
        retry_after: Seconds after which the client may try again. None: not soon.
    """
    return unavailable(f"APIService {service.name} is not available: {why}", retry_after)


def too_late(service: RemoteApiService) -> StatusError:
    """Return the answer to a request whose answer did not begin in time: 504."""
    return StatusError(504, "Timeout", f"APIService {service.name}: the server did not answer in time")


def redirected(service: RemoteApiService) -> StatusError:
    """Return the answer to a request that the server redirects: 502, as upstream."""
    return StatusError(502, "", f"APIService {service.name}: the server redirects, which is not followed")


def not_upgraded(service: RemoteApiService) -> StatusError:
    """Return the answer to a request that upgrades its connection: 501."""
    return StatusError(501, "NotImplemented", f"APIService {service.name}: connections are not upgraded")
