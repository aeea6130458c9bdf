"""The client certificates with which this server calls aggregated API servers: one for each tenant."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.tls import Identity
from vcsync.apiserver.operator.front_proxy import CLIENT
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority
from vcsync.apiserver.tenants.registry import TenantRegistry

MAX_CERTIFICATES = 1000
"""Tenants whose certificate is cached."""
NO_IDENTITY = "the certificate by which it trusts this control plane has not been made yet"


@dataclass(frozen=True, slots=True)
class _Cached:
    authority: str
    until: float
    pair: pki.Pair


class ClientCertificates:
    """Issues a certificate for each tenant when it is needed.

    Args:
        tenants: All tenants.
        clock: Returns seconds since the epoch.
    """

    def __init__(self, tenants: TenantRegistry, clock: Callable[[], float]) -> None:
        self._tenants = tenants
        self._clock = clock
        self._cached: OrderedDict[str, _Cached] = OrderedDict()

    async def identity(self, tenant: str, *, insecure: bool) -> Identity:
        """Return the identity for connections to aggregated API servers of a tenant.

        Args:
            tenant: The tenant.
            insecure: Whether the certificate of the server is not verified.

        Raises:
            CallFailed: The tenant has no authority for such certificates.
            StoreError: The store cannot be read.
        """
        credentials = await self._tenants.credentials(tenant)
        authority = credentials.record.front_proxy if credentials is not None else None
        if authority is None:
            raise CallFailed(NO_IDENTITY)
        cached = self._cached.get(tenant)
        if cached is None or cached.authority != authority.id or cached.until < self._clock():
            cached = await asyncio.to_thread(_issue, authority, self._clock())
            self._cached[tenant] = cached
            if len(self._cached) > MAX_CERTIFICATES:
                self._cached.popitem(last=False)
        pem = f"{cached.pair.certificate}{cached.pair.key}".encode()
        return Identity(f"{cached.authority}/{cached.until}", pem, insecure)


def _issue(authority: Authority, now: float) -> _Cached:
    pair = pki.issue_client(authority, CLIENT, (), now)
    return _Cached(authority.id, now + pki.CLIENT_LIFE.total_seconds() / 2, pair)
