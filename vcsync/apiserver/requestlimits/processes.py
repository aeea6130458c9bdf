"""The processes that serve the API of one store. They divide the limits of tenants among themselves.

Each process writes an entry of its own, with its report, and renews it. It learns of the others from the changes of the store.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import structlog

from vcsync.apiserver.requestlimits.reports import Reports, encode
from vcsync.apiserver.requestlimits.shares import Share
from vcsync.apiserver.storage.interface import Change, Delete, Put, Store, StoreError
from vcsync.apiserver.tenants.records import PREFIX

PROCESSES = f"{PREFIX}processes/"
"""Prefix of the keys of processes; a random name follows."""
LIFETIME_SECONDS = 60
"""Lifetime of an entry. Until then, nobody takes the share of a process that was killed."""
RENEWAL_SECONDS = 20.0
"""Time between two renewals of an entry."""
LEAVE_SECONDS = 5.0
"""Time for the removal of the entry at the end."""
_log = structlog.get_logger(__name__)


class Processes:
    """This process among those that serve the API.

    Args:
        store: Keeps the entries.
        on_share: Called with the share of this process when it changes.
        refused: Returns the content of the report of this process; see `reports`.
        reports: Learns the reports of all processes.
        own: Name of this process. Empty: a new, random one.
    """

    def __init__(
        self,
        store: Store,
        on_share: Callable[[Share], None],
        refused: Callable[[], Mapping[str, Sequence[str]]],
        reports: Reports,
        own: str = "",
    ) -> None:
        self._store = store
        self._on_share = on_share
        self._refused = refused
        self._reports = reports
        self._own = own or uuid.uuid4().hex
        self._known = {self._own}
        self._seen = 0
        self._share: Share | None = None

    async def join(self) -> None:
        """Write the entry of this process, and read those of the others. Call it before the first request.

        The others learn of the entry while this process reads theirs.

        Raises:
            StoreError: The store cannot be read or written.
        """
        await self._renew()
        await self.read()

    async def run(self) -> None:
        """Renew the entry until cancelled, then remove it, so that the others take the share at once."""
        try:
            while True:
                await asyncio.sleep(RENEWAL_SECONDS)
                try:
                    await self.join()
                except StoreError as error:
                    _log.warning("cannot renew the entry of this process", error=str(error))
        finally:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._store.txn((), (Delete(f"{PROCESSES}{self._own}"),))

    async def read(self) -> None:
        """Read all entries.

        Raises:
            StoreError: The store cannot be read.
        """
        while True:
            seen = self._seen
            page = await self._store.range(PROCESSES)
            if seen == self._seen:
                break
            # A change that arrived meanwhile may be newer than the page.
        for record in page.records:
            self._reports.learn(record.key.removeprefix(PROCESSES), record.value)
        self._set({record.key.removeprefix(PROCESSES) for record in page.records})

    def changed(self, changes: Iterable[Change]) -> None:
        """Learn of processes that begin and end. Other changes cost little."""
        for change in changes:
            if change.key.startswith(PROCESSES):
                self._seen += 1
                name = change.key.removeprefix(PROCESSES)
                if change.value is not None:
                    self._reports.learn(name, change.value)
                self._set(self._known - {name} if change.value is None else self._known | {name})

    async def _renew(self) -> None:
        entry = encode(self._refused())
        await self._store.txn((), (Put(f"{PROCESSES}{self._own}", entry, LIFETIME_SECONDS),))

    def _set(self, known: set[str]) -> None:
        self._known = known | {self._own}
        self._reports.keep(self._known)
        share = Share(sorted(self._known).index(self._own), len(self._known))
        if share != self._share:
            first, self._share = self._share is None, share
            self._on_share(share)
            if first and share.processes == 1:
                return
            _log.info("this process takes its share of the limits of tenants", processes=share.processes)
