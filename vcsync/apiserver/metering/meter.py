"""The meter of one process: gives requests the counters of their tenant, and writes what they count into the store."""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import structlog

from vcsync.apiserver.metering.counters import UNMETERED, Amounts, Counters, is_metered, milliseconds
from vcsync.apiserver.metering.rows import (
    HOUR_SECONDS,
    USAGE,
    Row,
    RowKey,
    encode,
    hour_of,
    hour_text,
    row_key,
)
from vcsync.apiserver.request.caller import SYSTEM, Caller
from vcsync.apiserver.storage.interface import Put, Store, StoreError

FLUSH_SECONDS = 5.0
"""Time between two writes of what was counted. A process that is killed loses what it counted since the last one."""

ROWS_OF_WRITE = 100
"""Most rows of one transaction."""

_log = structlog.get_logger(__name__)


class Tenants(Protocol):
    """The tenants; see `tenants.registry.TenantRegistry`."""

    def uid(self, tenant: str) -> str:
        """Return the UID of a tenant that is served, or an empty text."""
        ...

    def names(self) -> Sequence[str]:
        """Return the names of all tenants."""
        ...


class Meter:
    """Counts the requests of each tenant, and samples its storage.

    Args:
        store: The store, which keeps the rows.
        tenants: The tenants.
        clock: Returns seconds since the epoch.
        monotonic: Returns milliseconds of a clock that never goes back.
        process: Identifies the process among all that ever write rows. Empty: a new, random one.
    """

    def __init__(
        self,
        store: Store,
        tenants: Tenants,
        clock: Callable[[], float],
        monotonic: Callable[[], int] = milliseconds,
        process: str = "",
    ) -> None:
        self._store = store
        self._tenants = tenants
        self._clock = clock
        self._process = process or uuid.uuid4().hex[:16]
        self._counters: dict[str, Counters] = {}
        self._seen: dict[str, Amounts] = {}
        self._rows: dict[RowKey, Row] = {}
        self._unwritten: set[RowKey] = set()
        self._hour = hour_of(clock())
        self._sampled_hour = 0
        self._failing = False
        self.monotonic = monotonic

    def counters(self, tenant: str, caller: Caller) -> Counters:
        """Return the counters of a request of a caller for a tenant."""
        uid = self._tenants.uid(tenant)
        if not uid or not is_metered(caller):
            return UNMETERED
        found = self._counters.get(uid)
        if found is None:
            found = self._counters[uid] = Counters(tenant, uid)
        return found

    def totals(self) -> Iterator[tuple[Counters, Amounts]]:
        """Yield the counters of each tenant with what it has used of this process."""
        now = self.monotonic()
        for counters in self._counters.values():
            yield counters, counters.amounts(now)

    async def run(self) -> None:
        """Write what was counted until cancelled; call `flush` once more then."""
        while True:
            await self.flush()
            await asyncio.sleep(min(FLUSH_SECONDS, HOUR_SECONDS - self._clock() % HOUR_SECONDS))

    async def flush(self) -> None:
        """Write what was counted. What cannot be written now stays, and the next call tries again."""
        changed = self._take()
        try:
            for key in changed:
                await self._sample(key)
            if self._sampled_hour != self._hour:
                await self._sample_idle(self._hour)
            await self._write()
        except StoreError as error:
            if not self._failing:
                _log.warning("usage of tenants cannot be written; trying again", error=str(error))
            self._failing = True
            return
        self._failing = False

    def _take(self) -> list[RowKey]:
        """Move what was counted since the last call into the rows of the hour of that call.

        The clock may be set back. The hour never goes back, because the rows of earlier hours may be complete and forgotten.
        """
        hour, changed = hour_text(self._hour), []
        for counters, amounts in list(self.totals()):
            used = amounts.minus(self._seen.get(counters.uid, Amounts()))
            if any(used):
                key = RowKey(counters.tenant, hour, counters.uid)
                self._rows[key] = self._rows.get(key, Row()).plus(used)
                self._unwritten.add(key)
                self._seen[counters.uid] = amounts
                changed.append(key)
            elif self._tenants.uid(counters.tenant) != counters.uid and not counters.open_watches:
                del self._counters[counters.uid]
                self._seen.pop(counters.uid, None)
        self._hour = max(self._hour, hour_of(self._clock()))
        return changed

    async def _sample(self, key: RowKey) -> None:
        """Take the storage of a tenant into account for its peak."""
        usage = await self._store.usage(key.tenant)
        row = self._rows[key].with_peak(usage.objects, usage.bytes)
        if row != self._rows[key]:
            self._rows[key] = row
            self._unwritten.add(key)

    async def _sample_idle(self, hour: int) -> None:
        """Write rows for tenants that have none in an hour, so that their storage counts without requests."""
        for tenant in self._tenants.names():
            uid = self._tenants.uid(tenant)
            key = RowKey(tenant, hour_text(hour), uid)
            if tenant == SYSTEM or not uid or key in self._rows:
                continue
            if (
                await self._store.range(f"{USAGE}{tenant}/{key.hour}/{uid}/", limit=1, counted=False)
            ).records:
                continue
            usage = await self._store.usage(tenant)
            self._rows[key] = Row().with_peak(usage.objects, usage.bytes)
            self._unwritten.add(key)
        self._sampled_hour = hour

    async def _write(self) -> None:
        """Write the rows that changed, and forget those of earlier hours."""
        while batch := sorted(self._unwritten)[:ROWS_OF_WRITE]:
            await self._store.txn(
                (), [Put(row_key(key, self._process), encode(self._rows[key])) for key in batch]
            )
            self._unwritten.difference_update(batch)
        current = hour_text(self._hour)
        for key in [key for key in self._rows if key.hour < current]:
            del self._rows[key]
