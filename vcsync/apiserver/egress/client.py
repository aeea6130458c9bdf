"""Calls HTTPS servers within limits, only at addresses that the policy allows. Errors reveal nothing about networks.

A host name is resolved once. The policy checks the address, and the connection is made to that address, so that a
second response of a name server has no effect. Redirects are not followed, and proxies of the environment are not used.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address

import aiohttp
import structlog
from yarl import URL

from vcsync.apiserver.egress import tls
from vcsync.apiserver.egress.connections import Connections
from vcsync.apiserver.egress.failure import CallFailed, error_of_status
from vcsync.apiserver.egress.in_flight import Bounds, CallMemory, InFlight
from vcsync.apiserver.egress.networks import Address
from vcsync.apiserver.egress.policy import NOTHING, Policy
from vcsync.apiserver.egress.reachable import MAX_ADDRESSES, NO_CONNECTION, REFUSED, service_endpoints
from vcsync.apiserver.egress.services import Endpoint, Services
from vcsync.apiserver.egress.target import Target
from vcsync.apiserver.flow.write_limiter import release_current_slot

AGENT = "kube-apiserver-admission"
"""User-Agent of the calls."""
RESOLVERS = 8
"""Host names that are resolved at the same time."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> addresses. Raises OSError if there are none."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        target: Server and path.
        body: Returns the body when the call begins. None: the call is a GET.
        seconds: Time until the response must have been read.
        size: Upper bound of the size of the body in bytes.
        query: Percent-encoded query without the question mark.
        largest: Most bytes of the response.
        headers: Further headers.
    """

    target: Target
    body: Callable[[], bytes] | None
    seconds: float
    size: int = 0
    query: str = ""
    largest: int = 4 << 20
    headers: Mapping[str, str] | None = None

    @property
    def url(self) -> str:
        """URL of the call in messages."""
        return f"{self.target.url}?{self.query}" if self.query else self.target.url

    @property
    def verb(self) -> str:
        """HTTP method in messages, such as `Post`."""
        return "Get" if self.body is None else "Post"


class Client:
    """Makes the calls that its policy permits.

    Args:
        policy: Decides what may be called. The default permits nothing.
        services: Finds the endpoints of tenants' Services. None: Services are not called.
        bounds: Limits of concurrent calls.
        resolve: Resolves host names. None: with the resolver of the system.
        connections: Keeps connections for further calls.
    """

    def __init__(
        self,
        policy: Policy = NOTHING,
        services: Services | None = None,
        *,
        bounds: Bounds | None = None,
        resolve: Resolve | None = None,
        connections: Connections | None = None,
    ) -> None:
        self._policy = policy
        self._services = services
        self._bounds = bounds or Bounds()
        self._names = ThreadPoolExecutor(RESOLVERS, "egress-names") if resolve is None else None
        self._resolve = resolve or self._look_up
        self._connections = connections or Connections()
        self._in_flight = InFlight(self._bounds)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()
        if self._names is not None:
            self._names.shutdown(wait=False, cancel_futures=True)

    async def call(self, call: Call) -> bytes:
        """Return the body of a successful response.

        Raises:
            CallFailed: The call failed. The message is that of kube-apiserver's client.
        """
        if call.size > self._bounds.request:
            raise CallFailed(f"the request is larger than {self._bounds.request} bytes")
        release_current_slot()
        try:
            async with (
                asyncio.timeout(call.seconds),
                self._in_flight.turn(call.target.tenant, call.size) as memory,
            ):
                return await self._call(call, memory)
        except TimeoutError:
            raise self._failed(call, "context deadline exceeded") from None

    async def _call(self, call: Call, memory: CallMemory) -> bytes:
        endpoints = await self._endpoints(call)
        async with self._connections.session(call.target.tenant, call.target.bundle) as session:
            for position, endpoint in enumerate(endpoints, 1):
                try:
                    return await self._send(session, call, endpoint, memory)
                except aiohttp.ClientConnectorCertificateError as error:
                    raise self._failed(call, tls.fault(error.certificate_error, call.target.host)) from error
                except aiohttp.ClientConnectorSSLError as error:
                    raise self._failed(call, tls.fault(error.os_error, call.target.host)) from error
                except aiohttp.ClientConnectorError as error:
                    if position == len(endpoints):
                        raise self._failed(call, _connect_fault(call.target, endpoint, error)) from error
                except aiohttp.ServerDisconnectedError as error:
                    raise self._failed(call, "EOF") from error
                except (aiohttp.ClientError, OSError, ValueError) as error:
                    _log.debug("a call failed", tenant=call.target.tenant, error=str(error))
                    raise self._failed(call, "malformed HTTP response") from error
        raise AssertionError("unreachable")

    async def _endpoints(self, call: Call) -> list[Endpoint]:
        """Return the allowed endpoints of a call. Endpoints that do not exist and that are not allowed look the same.

        Raises:
            CallFailed: There is no allowed endpoint.
        """
        target, policy = call.target, self._policy
        if target.service is not None:
            try:
                return await service_endpoints(policy, self._services, target)
            except CallFailed as error:
                raise self._failed(call, str(error)) from error
        if not policy.permits(target):
            raise self._failed(call, REFUSED)
        endpoints = [Endpoint(each, target.port) for each in await self._addresses(target)]
        reachable = [each for each in endpoints if policy.reachable(target, each.address)]
        if not reachable:
            raise self._failed(call, REFUSED)
        return reachable[:MAX_ADDRESSES]

    async def _addresses(self, target: Target) -> list[Address]:
        try:
            return [ip_address(target.host)]
        except ValueError:
            pass
        try:
            return [ip_address(each) for each in await self._resolve(target.host, target.port)]
        except (OSError, UnicodeError, ValueError):
            return []

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        def resolve() -> list[str]:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(each[4][0]) for each in infos))

        return await asyncio.get_running_loop().run_in_executor(self._names, resolve)

    async def _send(
        self, session: aiohttp.ClientSession, call: Call, endpoint: Endpoint, memory: CallMemory
    ) -> bytes:
        target = call.target
        url = URL.build(
            scheme="https", host=str(endpoint.address), port=endpoint.port, path=target.path,
            query_string=call.query, encoded=True,
        )  # fmt: skip
        headers = {
            "Host": target.authority,
            "User-Agent": AGENT,
            "Accept": "application/json, */*",
            "Accept-Encoding": "identity",
            **({} if call.body is None else {"Content-Type": "application/json"}),
            **(call.headers or {}),
        }
        async with session.request(
            call.verb.upper(),
            url,
            data=None if call.body is None else call.body(),
            headers=headers,
            allow_redirects=False,
            server_hostname=target.host,
        ) as response:
            if response.status // 100 == 3:
                raise self._failed(call, "redirects are not followed")
            body = await self._read(response, call, memory)
            if not 200 <= response.status <= 206:
                raise error_of_status(response.status, response.headers.get("Content-Type", ""), body)
            if not body:
                content_type = response.headers.get("Content-Type", "application/json")
                raise CallFailed(
                    f"0-length response with status code: {response.status} and content type: {content_type}"
                )
            return body

    async def _read(self, response: aiohttp.ClientResponse, call: Call, memory: CallMemory) -> bytes:
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            memory.add_response(len(piece))
            if len(body) > call.largest:
                raise self._failed(call, f"the answer is larger than {call.largest} bytes")
        return bytes(body)

    @staticmethod
    def _failed(call: Call, why: str) -> CallFailed:
        return CallFailed(f"{call.verb} {json.dumps(call.url, ensure_ascii=False)}: {why}")


def _connect_fault(target: Target, endpoint: Endpoint, error: aiohttp.ClientConnectorError) -> str:
    """Return the message for a failed connection. For Services it has no reason, as tenants choose their addresses."""
    if target.service is not None:
        return NO_CONNECTION
    host = f"[{endpoint.address}]" if endpoint.address.version == 6 else str(endpoint.address)
    reason = (error.os_error.strerror or "") if isinstance(error.os_error, OSError) else ""
    refused = "connection refused" in reason.lower() or isinstance(error.os_error, ConnectionRefusedError)
    return (
        f"dial tcp {host}:{endpoint.port}: connect: {'connection refused' if refused else 'no route to host'}"
    )
