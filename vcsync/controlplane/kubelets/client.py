"""Connections to kubelets: of spaces and in networks that the operator allows, both sides known by the space's CA.

Whoever can write Nodes in a space chooses what is called there: so nothing is, unless the operator names the space and
the network. Names are not looked up, redirects not followed, and a kubelet must show a certificate of the space's CA
for the address at which it is called.
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

from vcsync.controlplane import errors
from vcsync.controlplane.egress import tls
from vcsync.controlplane.egress.networks import Address, Networks
from vcsync.controlplane.identity.caller import MASTERS
from vcsync.controlplane.kubelets.location import NodePlace, Question, kubelet_of
from vcsync.controlplane.tenants import pki
from vcsync.controlplane.tenants.records import Authority
from vcsync.controlplane.tenants.registry import TenantRegistry

USER = "kube-apiserver-kubelet-client"
"""Who calls: the name that kubeadm gives it."""
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
MOST_STREAMS = 500
"""Logs, execs and their like of one space at the same time."""
LONGEST_HEAD = 32 * 1024
LONGEST_REFUSAL = 50_000
"""Bytes that are read of an answer that is no good one."""


@dataclass(slots=True)
class Opened:
    """A kubelet's answer so far: what follows the head comes from `reader`."""

    status: int
    headers: Sequence[tuple[str, str]]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def header(self, name: str) -> str:
        """Return a header; empty: there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    async def text(self) -> str:
        """Return the body of an answer that is no good one, as far as it is told."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                body = await self.reader.read(LONGEST_REFUSAL)
        except (OSError, TimeoutError):
            body = b""
        return body.decode(errors="replace").strip()


@dataclass(frozen=True, slots=True)
class _Known:
    authority: str
    until: float
    context: ssl.SSLContext


class Kubelets:
    """Calls kubelets."""

    def __init__(
        self, tenants: TenantRegistry, networks: Networks, clock: Callable[[], float] = time.time
    ) -> None:
        """Take who knows the spaces' authorities, and which spaces' kubelets may be called where."""
        self._tenants = tenants
        self._networks = networks
        self._clock = clock
        self._spaces = {each.tenant for each in networks.allowed if each.tenant}
        self._known: dict[str, _Known] = {}
        self._open: Counter[str] = Counter()

    def serves(self, tenant: str) -> bool:
        """Whether any kubelet of a space may be called."""
        return tenant in self._spaces

    @asynccontextmanager
    async def opened(
        self, tenant: str, node: NodePlace, question: Question, request: tuple[str, str, Sequence[str]]
    ) -> AsyncIterator[Opened]:
        """Ask a kubelet; its answer counts while the block runs.

        Args:
            tenant: the space.
            node: of the kubelet.
            question: what is asked.
            request: method, HTTP version and further header lines.

        Raises:
            StatusError: 429, too many are open; 503, it may not be called; 500, it cannot be.
        """
        if self._open[tenant] >= MOST_STREAMS:
            raise errors.too_many_requests("too many streams are open, please try again later", 1)
        found = kubelet_of(node, partial(self._allowed, tenant))
        if found is None:
            raise errors.unavailable(
                f"the operator of this server does not allow the kubelet of node {question.node} to be called"
            )
        self._open[tenant] += 1
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await self._dial(tenant, *found)
            writer.write(_head(question, found, request))
            status, headers = await _answer(reader)
            yield Opened(status, headers, reader, writer)
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
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(
                    host, port, ssl=context, server_hostname=host, limit=LONGEST_HEAD
                )
        except ssl.SSLError as error:
            raise errors.internal(f"error dialing backend: {tls.fault(error, host)}") from error
        except (OSError, TimeoutError) as error:
            why = "i/o timeout" if isinstance(error, TimeoutError) else "connect: connection refused"
            raise errors.internal(f"error dialing backend: dial tcp {shown}: {why}") from error

    async def _context(self, tenant: str) -> ssl.SSLContext:
        found = await self._tenants.credentials(tenant)
        authority = found.record.authority if found is not None else None
        if authority is None:
            raise errors.not_found("tenants", "", tenant)
        known, now = self._known.get(tenant), self._clock()
        if known is None or known.authority != authority.id or known.until < now:
            until = now + pki.CLIENT_LIFE.total_seconds() / 2
            known = _Known(authority.id, until, await asyncio.to_thread(_make_context, authority, now))
            self._known[tenant] = known
        return known.context


def _make_context(authority: Authority, now: float) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority.certificate)
    pair = pki.issue_client(authority, USER, (MASTERS,), now)
    with tempfile.TemporaryDirectory(prefix="vcsync-") as folder:  # Python's TLS reads keys from files only
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_text(pair.certificate + pair.key, encoding="ascii")
        context.load_cert_chain(path)
    return context


def _head(question: Question, at: tuple[Address, int], request: tuple[str, str, Sequence[str]]) -> bytes:
    method, version, further = request
    target = f"{question.path}?{question.query}" if question.query else question.path
    host = f"[{at[0]}]" if at[0].version == 6 else str(at[0])
    lines = [f"{method} {target} HTTP/{version}", f"Host: {host}:{at[1]}", "User-Agent: kube-apiserver"]
    return "\r\n".join([*lines, *further, "", ""]).encode("latin-1")


async def _answer(reader: asyncio.StreamReader) -> tuple[int, Sequence[tuple[str, str]]]:
    """Read the head of an answer.

    Raises:
        StatusError: 500, it does not come, or is none.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        status = first.removeprefix("HTTP/1.").split(" ", 2)[1]
        pairs = [line.partition(":")[::2] for line in lines]
        return int(status), [(key.strip(), value.strip()) for key, value in pairs]
    except (OSError, EOFError, ValueError, IndexError, TimeoutError, asyncio.LimitOverrunError) as error:
        raise errors.internal("error dialing backend: the kubelet gives no HTTP answer") from error
