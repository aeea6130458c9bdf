"""Connects to kubelets of the tenants and networks that the operator allows, with certificates of the tenant's CA.

A user who can write Nodes chooses the addresses that are called, so no kubelet is called unless the operator names the
tenant and the network. Host names are not resolved and redirects are not followed. A kubelet must present a certificate
of the tenant's CA for the address at which it is called.
"""

import asyncio
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vcsync.apimachinery import errors
from vcsync.apiserver.egress import tls
from vcsync.apiserver.egress.networks import Address, Networks
from vcsync.apiserver.kubelets.location import KubeletRequest, NodePlace, kubelet_of
from vcsync.apiserver.request.caller import MASTERS
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority
from vcsync.apiserver.tenants.registry import TenantRegistry
from vcsync.streams.connection import open_connection
from vcsync.streams.raw_response import MAX_HEAD_BYTES, RawResponse, read_head

USER = "kube-apiserver-kubelet-client"
"""User name in the client certificate: the one that kubeadm uses."""
CONNECT_SECONDS = 10.0
"""Timeout of connecting, TLS included."""
MAX_STREAMS = 1000
"""Most concurrent connections to the kubelets of one tenant."""


@dataclass(frozen=True, slots=True)
class _CachedContext:
    """The TLS context of a tenant, with the id of its CA and the Unix time at which it is replaced."""

    authority: str
    until: float
    context: ssl.SSLContext


class Kubelets:
    """Calls kubelets.

    Args:
        tenants: Knows the CA of each tenant.
        networks: Networks of kubelets that the operator allows, by tenant.
        clock: Returns Unix seconds.
    """

    def __init__(
        self, tenants: TenantRegistry, networks: Networks, clock: Callable[[], float] = time.time
    ) -> None:
        self._tenants = tenants
        self._networks = networks
        self._clock = clock
        self._served = {each.tenant for each in networks.allowed if each.tenant}
        self._contexts: dict[str, _CachedContext] = {}
        self._open: Counter[str] = Counter()

    def serves(self, tenant: str) -> bool:
        """Return whether the operator allows calls to any kubelet of a tenant."""
        return tenant in self._served

    @asynccontextmanager
    async def opened(
        self, tenant: str, node: NodePlace, target: KubeletRequest, request: tuple[str, str, Sequence[str]]
    ) -> AsyncIterator[RawResponse]:
        """Send a request to a kubelet. The connection is closed when the block ends.

        Args:
            tenant: The tenant.
            node: Node of the kubelet.
            target: Path and query of the request.
            request: Method, HTTP version and further header lines.

        Raises:
            StatusError: 429 if too many connections are open, 503 if the operator does not allow the call, 500 if the
                kubelet does not respond.
        """
        if self._open[tenant] >= MAX_STREAMS:
            raise errors.too_many_requests("too many streams are open, please try again later", 1)
        address = kubelet_of(node, partial(self._allowed, tenant))
        if address is None:
            raise errors.unavailable(
                f"the operator of this server does not allow the kubelet of node {target.node} to be called"
            )
        self._open[tenant] += 1
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await self._dial(tenant, *address)
            writer.write(_head(target, address, request))
            status, headers = await _read_head(reader)
            yield RawResponse(status, headers, reader, writer)
        finally:
            self._open[tenant] -= 1
            if not self._open[tenant]:
                del self._open[tenant]
            if writer is not None:
                writer.transport.abort()

    def _allowed(self, tenant: str, address: Address) -> bool:
        return self.serves(tenant) and self._networks.named(address, tenant)

    async def _dial(
        self, tenant: str, address: Address, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = await self._context(tenant)
        host = str(address)
        endpoint = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await open_connection(
                    host, port, tls=context, server_hostname=host, limit=MAX_HEAD_BYTES
                )
        except ssl.SSLError as error:
            raise errors.internal(f"error dialing backend: {tls.fault(error, host)}") from error
        except (OSError, TimeoutError) as error:
            why = "i/o timeout" if isinstance(error, TimeoutError) else "connect: connection refused"
            raise errors.internal(f"error dialing backend: dial tcp {endpoint}: {why}") from error

    async def _context(self, tenant: str) -> ssl.SSLContext:
        credentials = await self._tenants.credentials(tenant)
        authority = credentials.record.authority if credentials is not None else None
        if authority is None:
            raise errors.not_found("tenants", "", tenant)
        cached, now = self._contexts.get(tenant), self._clock()
        if cached is None or cached.authority != authority.id or cached.until < now:
            until = now + pki.CLIENT_LIFE.total_seconds() / 2
            context = await asyncio.to_thread(_make_context, authority, now)
            cached = self._contexts[tenant] = _CachedContext(authority.id, until, context)
        return cached.context


def _make_context(authority: Authority, now: float) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority.certificate)
    pair = pki.issue_client(authority, USER, (MASTERS,), now)
    # Python's TLS reads private keys only from files.
    with tempfile.TemporaryDirectory(prefix="vcsync-") as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_text(pair.certificate + pair.key, encoding="ascii")
        context.load_cert_chain(path)
    return context


def _head(
    target: KubeletRequest, address: tuple[Address, int], request: tuple[str, str, Sequence[str]]
) -> bytes:
    method, version, headers = request
    url = f"{target.path}?{target.query}" if target.query else target.path
    ip, port = address
    host = f"[{ip}]" if ip.version == 6 else str(ip)
    lines = [f"{method} {url} HTTP/{version}", f"Host: {host}:{port}", "User-Agent: kube-apiserver"]
    return "\r\n".join([*lines, *headers, "", ""]).encode("utf-8", "surrogateescape")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, Sequence[tuple[str, str]]]:
    """Return status code and headers of a response.

    Raises:
        StatusError: 500 if there is no valid head within `RESPONSE_SECONDS`.
    """
    try:
        return await read_head(reader)
    except (OSError, TimeoutError) as error:
        raise errors.internal("error dialing backend: the kubelet gives no HTTP answer") from error
