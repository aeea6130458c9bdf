"""Calls HTTPS servers: at an address that the policy has seen, within bounds, and without telling what it may not.

A name is resolved once; the address is checked and connected to as it is, so that no second answer of a name server
counts. Redirects are not followed, proxies of the environment not used.
"""

import asyncio
import json
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address

import aiohttp
import structlog
from yarl import URL

from vcsync.controlplane.egress import tls
from vcsync.controlplane.egress.connections import Connections
from vcsync.controlplane.egress.failure import CallFailed, of_status
from vcsync.controlplane.egress.in_flight import Bounds, Held, InFlight
from vcsync.controlplane.egress.networks import Address
from vcsync.controlplane.egress.policy import NOTHING, Policy
from vcsync.controlplane.egress.services import Endpoint, Services
from vcsync.controlplane.egress.target import Target
from vcsync.controlplane.flow.hands import put_down

AGENT = "kube-apiserver-admission"
"""What webhooks know the caller by."""
MOST_ADDRESSES = 4
"""Addresses of one name that are tried."""
RESOLVERS = 8
"""Names that are looked up at the same time."""
REFUSED = "the operator of this server does not allow it to be called"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> addresses; OSError if there are none."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        body: made when its turn has come; None: it is a GET.
        size: of the body, in bytes, or a little more.
        seconds: from now until the answer is here.
        query: percent-encoded, without the question mark.
        largest: bytes of an answer that are taken.
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
        """What is called, as messages tell it."""
        return f"{self.target.url}?{self.query}" if self.query else self.target.url

    @property
    def verb(self) -> str:
        """Its HTTP method, as messages tell it: `Post`."""
        return "Get" if self.body is None else "Post"


class Client:
    """Calls what its policy permits."""

    def __init__(
        self,
        policy: Policy = NOTHING,
        services: Services | None = None,
        *,
        bounds: Bounds | None = None,
        resolve: Resolve | None = None,
        connections: Connections | None = None,
    ) -> None:
        """Take the policy, and who finds tenants' Services; the default permits nothing."""
        self._policy = policy
        self._services = services
        self._bounds = bounds or Bounds()
        self._names = ThreadPoolExecutor(RESOLVERS, "egress-names") if resolve is None else None
        self._resolve = resolve or self._look_up
        self._connections = connections or Connections()
        self._in_flight = InFlight(self._bounds)

    async def close(self) -> None:
        """End all connections."""
        await self._connections.close()
        if self._names is not None:
            self._names.shutdown(wait=False, cancel_futures=True)

    async def call(self, call: Call) -> bytes:
        """Return the body of a good answer.

        Raises:
            CallFailed: there is none; its message is what a kube-apiserver's client would say.
        """
        if call.size > self._bounds.request:
            raise CallFailed(f"the request is larger than {self._bounds.request} bytes")
        put_down()
        try:
            async with (
                asyncio.timeout(call.seconds),
                self._in_flight.turn(call.target.tenant, call.size) as held,
            ):
                return await self._answer(call, held)
        except TimeoutError:
            raise self._failed(call, "context deadline exceeded") from None

    async def _answer(self, call: Call, held: Held) -> bytes:
        endpoints = await self._endpoints(call)
        async with self._connections.session(call.target.tenant, call.target.bundle) as session:
            for position, endpoint in enumerate(endpoints, 1):
                try:
                    return await self._ask(session, call, endpoint, held)
                except aiohttp.ClientConnectorCertificateError as error:
                    raise self._failed(call, _tls_fault(error.certificate_error, call.target.host)) from error
                except aiohttp.ClientConnectorSSLError as error:
                    raise self._failed(call, _tls_fault(error.os_error, call.target.host)) from error
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
        """Find where to connect; what is not there and what may not be called look the same.

        Raises:
            CallFailed: nowhere.
        """
        target, policy = call.target, self._policy
        if not policy.permits(target):
            raise self._failed(call, REFUSED)
        if target.service is not None:
            if self._services is None:
                raise self._failed(call, REFUSED)
            try:
                found = await self._services.endpoints(target)
            except CallFailed as error:
                raise self._failed(call, str(error)) from error
            random.shuffle(found)
        else:
            found = [Endpoint(each, target.port) for each in await self._addresses(target)]
        reachable = [each for each in found if policy.reachable(target, each.address)]
        if not reachable:
            raise self._failed(call, REFUSED)
        return reachable[:MOST_ADDRESSES]

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
        def ask() -> list[str]:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(each[4][0]) for each in found))

        return await asyncio.get_running_loop().run_in_executor(self._names, ask)

    async def _ask(self, session: aiohttp.ClientSession, call: Call, endpoint: Endpoint, held: Held) -> bytes:
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
        ) as answer:
            if answer.status // 100 == 3:
                raise self._failed(call, "redirects are not followed")
            body = await self._read(answer, call, held)
            if not 200 <= answer.status <= 206:
                raise of_status(answer.status, answer.headers.get("Content-Type", ""), body)
            if not body:
                told = answer.headers.get("Content-Type", "application/json")
                raise CallFailed(
                    f"0-length response with status code: {answer.status} and content type: {told}"
                )
            return body

    async def _read(self, answer: aiohttp.ClientResponse, call: Call, held: Held) -> bytes:
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            held.answer(len(piece))
            if len(body) > call.largest:
                raise self._failed(call, f"the answer is larger than {call.largest} bytes")
        return bytes(body)

    @staticmethod
    def _failed(call: Call, why: str) -> CallFailed:
        return CallFailed(f"{call.verb} {json.dumps(call.url, ensure_ascii=False)}: {why}")


def _tls_fault(error: Exception, host: str) -> str:
    return tls.fault(error, host) if isinstance(error, ssl.SSLError) else "tls: handshake failure"


def _connect_fault(target: Target, endpoint: Endpoint, error: aiohttp.ClientConnectorError) -> str:
    """Say that nobody could be connected to; of Services without why: their addresses are the tenant's to choose."""
    if target.service is not None:
        return "dial tcp: no connection to any endpoint"
    host = f"[{endpoint.address}]" if endpoint.address.version == 6 else str(endpoint.address)
    reason = (error.os_error.strerror or "") if isinstance(error.os_error, OSError) else ""
    refused = "connection refused" in reason.lower() or isinstance(error.os_error, ConnectionRefusedError)
    return (
        f"dial tcp {host}:{endpoint.port}: connect: {'connection refused' if refused else 'no route to host'}"
    )
