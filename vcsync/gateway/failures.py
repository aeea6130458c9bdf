"""The answers to requests whose API server does not serve them. They reveal no address and no name of the operator's. Pure."""

import ssl

import aiohttp

from vcsync.apimachinery.errors import StatusError, unavailable

RETRY_SECONDS = 1
"""Retry-After of a request that did not reach its API server."""
UNREACHED = frozenset({503, 504})
"""Status codes of requests that an API server did not serve."""
NO_DECISION = "the API server of this control plane does not tell the gateway whom users may impersonate"
NO_KEYS = (
    "the API server of this control plane does not tell the gateway which keys sign ServiceAccount tokens"
)
NO_LONGER = "this control plane is no longer reached through this server"


def unreachable(error: BaseException) -> StatusError:
    """Return the answer for an error of the connection to an API server: 503, or 504 after a timeout."""
    if isinstance(error, ssl.SSLError | ssl.CertificateError | aiohttp.ClientConnectorCertificateError):
        return unavailable(
            "the API server of this control plane does not have the expected certificate; its operator must correct that",
            RETRY_SECONDS,
        )
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return StatusError(504, "Timeout", "the API server of this control plane did not answer in time")
    return unavailable("the API server of this control plane cannot be reached; try again", RETRY_SECONDS)


def unresponsive(*, again: bool) -> StatusError:
    """Return the answer if the API server answers nothing at all: 503.

    Args:
        again: Whether clients may repeat the request by themselves. A write may have been done.
    """
    return unavailable(
        "the API server of this control plane does not answer; try again", RETRY_SECONDS if again else None
    )


def credential_refused() -> StatusError:
    """Return the answer if the API server refuses the gateway: a 401 would blame the credentials of the client."""
    return unavailable(
        "the API server of this control plane does not accept the gateway; its operator must renew its credential",
        RETRY_SECONDS,
    )
