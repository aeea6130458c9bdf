"""Registers the processes that serve the API of a store. Each renews its entry, which expires otherwise.

Behaviour: the leases of kubernetes' `pkg/controlplane/reconcilers/lease.go`.
"""

import asyncio
from collections.abc import Set as AbstractSet

import structlog

from vcsync.apiserver.storage.interface import Change, Put, Store, StoreError
from vcsync.apiserver.tenants.api_endpoints import Server
from vcsync.apiserver.tenants.records import PREFIX

SERVERS = f"{PREFIX}servers/"
"""Prefix of the keys of processes; `<address>:<port>` follows."""
LIFETIME_SECONDS = 60
"""Lifetime of an entry. It is longer than a restart, so that a restart changes no tenant's Endpoints."""
RENEWAL_SECONDS = 20.0
"""Time between two renewals of an entry."""
_log = structlog.get_logger(__name__)


class ApiServers:
    """The processes that serve the API, including this one.

    Args:
        store: Keeps the entries.
        own: Address and port at which Pods reach this process.
    """

    def __init__(self, store: Store, own: Server) -> None:
        self._store = store
        self._own = own

    async def run(self) -> None:
        """Renew the entry of this process until cancelled."""
        while True:
            try:
                await self.renew()
            except StoreError as error:
                _log.warning("cannot renew the entry of this API server", error=str(error))
            await asyncio.sleep(RENEWAL_SECONDS)

    async def renew(self) -> None:
        """Write the entry of this process.

        Raises:
            StoreError: The store cannot be written.
        """
        address, port = self._own
        await self._store.txn((), (Put(f"{SERVERS}{address}:{port}", b"{}", LIFETIME_SECONDS),))

    async def known(self) -> AbstractSet[Server]:
        """Return all processes that serve the API. This one is always among them.

        Raises:
            StoreError: The store cannot be read.
        """
        page = await self._store.range(SERVERS)
        return {self._own, *(_server(record.key) for record in page.records)}


def adds_or_removes_server(change: Change) -> bool:
    """Tell whether a change adds or removes the entry of a process."""
    return change.key.startswith(SERVERS) and (change.value is None or change.previous is None)


def _server(key: str) -> Server:
    address, _, port = key.removeprefix(SERVERS).rpartition(":")
    return address, int(port)
