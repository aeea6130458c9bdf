"""Requests to aggregated API servers, at the endpoints of their Services that the operator allows.

Connections go to the address that the policy has checked. TLS verifies the name of the Service, and presents the client
certificate of the tenant's front proxy. Messages contain no addresses.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import structlog
from multidict import CIMultiDict
from yarl import URL

from vcsync.apiserver.aggregator.client_certificates import ClientCertificates
from vcsync.apiserver.aggregator.endpoints import Endpoints
from vcsync.apiserver.discovery.remote_api_services import RemoteApiService
from vcsync.apiserver.egress import tls
from vcsync.apiserver.egress.connections import Connections
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.reachable import NO_CONNECTION
from vcsync.apiserver.egress.services import Endpoint
from vcsync.apiserver.egress.target import Target, target_of
from vcsync.gateway.bodies import RequestBody
from vcsync.gateway.headers import Pairs

MALFORMED = "malformed HTTP response"
CONNECT_SECONDS = 5.0
"""Time for TCP and TLS of one connection."""
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
_OWN_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to an aggregated API server.

    Attributes:
        method: Its method.
        target: Its path and query.
        headers: Its headers.
        body: Its body, or None.
    """

    method: str
    target: str
    headers: Pairs
    body: RequestBody | None = None


class Servers:
    """Sends requests to aggregated API servers.

    Args:
        endpoints: Finds the endpoints of Services that may be called.
        certificates: Issues client certificates.
        connections: Keeps connections for further requests.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        certificates: ClientCertificates,
        connections: Connections,
    ) -> None:
        self._endpoints = endpoints
        self._certificates = certificates
        self._connections = connections

    async def endpoints(self, service: RemoteApiService) -> list[Endpoint]:
        """Return the endpoints of a Service that may be called.

        Raises:
            CallFailed: There is none. The message says why.
            StoreError: The store cannot be read.
        """
        return await self._endpoints.of(service.destination, _target(service))

    async def send(
        self,
        stack: AsyncExitStack,
        service: RemoteApiService,
        request: Request,
        endpoints: list[Endpoint],
    ) -> aiohttp.ClientResponse:
        """Send a request to the first endpoint that can be connected to, and return the answer, whose body follows.

        Args:
            stack: Gives the connection back. An answer that has not been released before is closed.
            service: The APIService.
            request: The request.
            endpoints: Endpoints that `endpoints` returned.

        Raises:
            CallFailed: There is no answer. The message says why.
            StoreError: The store cannot be read.
        """
        target = _target(service)
        identity = await self._certificates.identity(service.tenant, insecure=service.destination.insecure)
        session = await stack.enter_async_context(
            self._connections.session(service.tenant, target.bundle, identity)
        )
        for endpoint in endpoints:
            try:
                response = await session.request(
                    request.method,
                    _url(endpoint, request.target),
                    headers=CIMultiDict([("Host", target.authority), *request.headers]),
                    data=request.body,
                    allow_redirects=False,
                    server_hostname=target.host,
                    skip_auto_headers=_OWN_HEADERS,
                    timeout=_TIMEOUT,
                )
            except aiohttp.ClientConnectorCertificateError as error:
                raise CallFailed(tls.fault(error.certificate_error, target.host)) from error
            except aiohttp.ClientConnectorSSLError as error:
                raise CallFailed(tls.fault(error.os_error, target.host)) from error
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                _log.debug(
                    "no connection to an aggregated API server", tenant=service.tenant, error=str(error)
                )
            except aiohttp.ServerDisconnectedError as error:
                raise CallFailed("EOF") from error
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise CallFailed(MALFORMED) from error
            else:
                stack.callback(response.close)
                return response
        raise CallFailed(NO_CONNECTION)


def url_of(service: RemoteApiService, path: str) -> str:
    """Return the URL of a path of an aggregated API server, for messages."""
    return f"https://{_target(service).authority}{path}"


def _target(service: RemoteApiService) -> Target:
    """Return the target of requests for an APIService.

    Raises:
        CallFailed: The caBundle is invalid.
    """
    reference = service.destination.service
    config = {
        "service": {"namespace": reference.namespace, "name": reference.name, "port": reference.port},
        "caBundle": service.destination.ca_bundle,
    }
    return target_of(service.tenant, config)


def _url(endpoint: Endpoint, target: str) -> URL:
    host = f"[{endpoint.address}]" if endpoint.address.version == 6 else str(endpoint.address)
    return URL(f"https://{host}:{endpoint.port}{target}", encoded=True)
