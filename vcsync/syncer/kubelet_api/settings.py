"""The operator's settings of the kubelet API, and the port of each tenant. Pure."""

import zlib
from collections.abc import Collection, Iterator

from msgspec import Struct

from vcsync.streams.limits import StreamLimits


class KubeletSettings(Struct, frozen=True, kw_only=True):
    """Addresses, ports and certificate of the kubelet API of virtual nodes."""

    address: str
    """IP address at which they reach this process. Virtual nodes have it as their InternalIP."""
    listen: str = ""
    """Address to listen on; empty: `address`."""
    ports: tuple[int, int]
    """First and last port. Each tenant has one of its own."""
    identity: bytes = b""
    """Serving certificate with its chain, and its key, as PEM; empty: a self-signed one."""
    limits: StreamLimits = StreamLimits()
    """Limits after which exec, attach and port-forward end."""

    def __repr__(self) -> str:
        return f"KubeletSettings({self.address!r}, {self.ports})"


class Endpoint(Struct, frozen=True):
    """Address and port of the kubelet API of one tenant's virtual nodes."""

    address: str
    port: int


def candidates(tenant: str, ports: tuple[int, int], taken: Collection[int]) -> Iterator[int]:
    """Yield the ports that a tenant may have, the preferred one first, which is the same in every process.

    Args:
        tenant: Cluster key.
        ports: First and last port.
        taken: Ports of other tenants.
    """
    first, last = ports
    count = last - first + 1
    start = zlib.crc32(tenant.encode()) % count
    for offset in range(count):
        port = first + (start + offset) % count
        if port not in taken:
            yield port
