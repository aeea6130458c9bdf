"""The store in etcd, for several control plane processes on several machines.

All watches of a process share one watch of etcd. Earlier changes are read by a separate watch.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import structlog

from vcsync.apiserver.storage import assumptions, etcd_client, etcd_messages
from vcsync.apiserver.storage.assumptions import Assumptions
from vcsync.apiserver.storage.broadcaster import Broadcaster, follow
from vcsync.apiserver.storage.etcd_client import Certificates, Client, EtcdError
from vcsync.apiserver.storage.etcd_transactions import Transactions, record_of
from vcsync.apiserver.storage.interface import (
    Batch,
    Change,
    Compacted,
    Compare,
    Delete,
    FutureRevision,
    Outcome,
    Page,
    Put,
    Record,
    StoreError,
    StoreUnavailable,
    Usage,
    require_valid,
)
from vcsync.apiserver.storage.ranges import end_of
from vcsync.apiserver.storage.usage import UsageCounter
from vcsync.apiserver.storage.watched_cache import WatchedCache

PAGE_RECORDS = 1000
"""Records per request. etcd holds its lock while it reads them."""

PULSE_SECONDS = 5.0
"""Seconds without a change after which the store writes a key. It shows that watches are alive, and moves their progress."""

SILENT_PULSES = 3
"""Number of pulses without an event after which the watch is opened again."""

MAX_PAUSE_SECONDS = 5.0
"""Longest pause before the watch is opened again."""

log = structlog.get_logger(__name__)


class EtcdStore:
    """A `Store` in etcd. Use `open_etcd` to open one.

    Its keys are below `<prefix>/data/`. `<prefix>/pulse` is the only other key.
    """

    def __init__(self, client: Client, prefix: str, published: int, *, pulse_seconds: float) -> None:
        """Start to watch etcd.

        Args:
            client: The connections to etcd. The store closes it.
            prefix: Prefix of all keys, without a slash at its end.
            published: Revision after which watches begin.
            pulse_seconds: See `PULSE_SECONDS`.
        """
        self._client = client
        self._root = f"{prefix}/".encode()
        self._data = f"{prefix}/data/".encode()
        self._broadcaster = Broadcaster(published)
        self._usage_counter = UsageCounter(self._read_page)
        self._cache = WatchedCache()
        self._pulse_seconds = pulse_seconds
        self._transactions = Transactions(client, self._data, self._range)
        self._heard = time.monotonic()
        self._tasks = [
            asyncio.create_task(self._publish_changes()),
            asyncio.create_task(self._send_pulses()),
        ]

    async def get(self, key: str, *, revision: int = 0) -> tuple[Record | None, int]:
        """See `Store.get`."""
        answer = await self._range({"key": self._key(key), "revision": revision})
        record = self._record(answer.kvs[0]) if answer.kvs else None
        return record, revision or answer.header.revision

    async def range(
        self,
        prefix: str,
        *,
        after: str = "",
        limit: int = 0,
        revision: int = 0,
        counted: bool = True,  # noqa: ARG002 - etcd counts anyway
    ) -> Page:
        """See `Store.range`."""
        records: list[Record] = []
        while True:
            want = min(limit - len(records), PAGE_RECORDS) if limit else PAGE_RECORDS
            start = max(prefix, f"{after}\0") if after else prefix
            first, end = self._key(start), end_of(self._key(prefix))
            if first >= end:
                return Page(records, revision or await self.revision())
            answer = await self._range({"key": first, "range_end": end, "limit": want, "revision": revision})
            revision = revision or answer.header.revision
            records += [self._record(kv) for kv in answer.kvs]
            if not answer.more or len(records) == limit:
                remaining = answer.count - len(answer.kvs)
                return Page(records, revision, remaining > 0, remaining)
            after = records[-1].key

    async def count(self, prefix: str) -> int:
        """See `Store.count`."""
        key = self._key(prefix)
        return int((await self._range({"key": key, "range_end": end_of(key), "count_only": True})).count)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """See `Store.txn`. Keys with a time to live share leases, so they may live slightly longer."""
        require_valid(compares, operations)
        assumed = assumptions.current()
        outcome = await self._transactions.commit(compares, operations, assumed)
        changed = operations if outcome.done else [Delete(key) for key, _ in outcome.failed]
        self._cache.outdated([each.key for each in changed], outcome.revision)
        if assumed is not None and outcome.done:
            assumed.note_commit(operations, outcome.revision)
        return outcome

    async def holds(self, assumed: Assumptions) -> bool:
        """See `AssumingStore.holds`."""
        return await self._transactions.holds(assumed)

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """See `Store.watch`."""
        return follow(self._broadcaster, self._history, prefix, after, progress)

    async def revision(self) -> int:
        """See `Store.revision`."""
        return int((await self._range({"key": self._root, "count_only": True})).header.revision)

    async def compact(self, revision: int) -> None:
        """See `Store.compact`. This compacts the whole etcd, including the keys of its other users."""
        try:
            await self._client.call(etcd_client.COMPACT, {"revision": revision})
        except EtcdError as error:
            if etcd_client.COMPACTED not in error.message:
                raise await self._explained(error) from None

    async def get_cached(self, key: str) -> Record | None:
        """See `Store.get_cached`. Other processes write, too, so only assumptions come from a cache."""
        assumed = assumptions.current()
        known = None if assumed is None or assumed.fresh else self._cache.get(key)
        if known is not None:
            record = known[0] if known else None
        else:
            record, revision = await self.get(key)
            if assumed is not None:
                self._cache.put(key, () if record is None else (record,), revision)
        if assumed is not None:
            assumed.note(key, record)
        return record

    async def range_cached(self, prefix: str) -> Sequence[Record]:
        """See `Store.range_cached`. Other processes write, too, so only assumptions come from a cache."""
        assumed = assumptions.current()
        known = None if assumed is None or assumed.fresh else self._cache.get(prefix)
        if assumed is not None and known is not None:
            assumed.note_folder(prefix, known, self._cache.revision)
            return known
        page = await self.range(prefix)
        if assumed is not None:
            self._cache.put(prefix, page.records, page.revision)
            assumed.note_folder(prefix, page.records, page.revision)
        return page.records

    async def usage(self, tenant: str) -> Usage:
        """See `Store.usage`. The first call for a tenant reads all of its objects."""
        return await self._usage_counter.usage(tenant)

    async def wait_until_checked(self) -> None:
        """See `Store.wait_until_checked`. etcd checks its own files."""

    async def close(self) -> None:
        """See `Store.close`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._broadcaster.fail(StoreUnavailable("the store is closed"))
        await self._client.close()

    async def _read_page(self, prefix: str, after: str, revision: int) -> Page:
        return await self.range(prefix, after=after, limit=PAGE_RECORDS, revision=revision)

    async def _range(self, request: dict[str, Any]) -> Any:
        try:
            return await self._client.call(etcd_client.RANGE, request)
        except EtcdError as error:
            raise await self._explained(error) from None

    async def _explained(self, error: EtcdError) -> StoreError:
        """Return the error with the revision that etcd's message omits: the oldest or the newest one."""
        if etcd_client.FUTURE in error.message:
            return FutureRevision(await self.revision())
        if etcd_client.COMPACTED not in error.message:
            return error
        try:
            async with aclosing(self._events(1)) as events:
                async for _ in events:
                    break
        except Compacted as compacted:
            return compacted
        return error

    async def _history(self, prefix: str, after: int, until: int) -> AsyncGenerator[Batch, None]:
        # Every revision that the broadcaster has published belongs to a key below the root, so this ends.
        async with aclosing(self._events(after + 1)) as events:
            async for batch in events:
                wanted = [each for each in batch if each.revision <= until and each.key.startswith(prefix)]
                yield Batch(wanted, min(batch.revision, until))
                if batch.revision >= until:
                    return

    async def _events(self, start: int) -> AsyncGenerator[Batch, None]:
        """Yield all changes below the root from a revision on. A batch may be empty.

        Raises:
            Compacted: History no longer contains that revision.
            StoreUnavailable: The connection is lost.
        """
        request = {
            "key": self._root,
            "range_end": end_of(self._root),
            "start_revision": start,
            "prev_kv": True,
        }
        async with aclosing(self._client.watch(request)) as answers:
            async for answer in answers:
                if answer.compact_revision:
                    raise Compacted(answer.compact_revision)
                if answer.canceled:
                    raise StoreUnavailable(f"etcd ended a watch: {answer.cancel_reason}")
                if answer.events:
                    changes = [
                        self._change(event) for event in answer.events if event.kv.key.startswith(self._data)
                    ]
                    yield Batch(changes, answer.events[-1].kv.mod_revision)

    async def _publish_changes(self) -> None:
        """Publish the changes of etcd's watch. Opens it again after every loss of the connection."""
        pause = 0.1
        while True:
            try:
                async with aclosing(self._events(self._broadcaster.published + 1)) as events:
                    while True:
                        # Pulses arrive if nothing else does, so silence means a dead connection.
                        async with asyncio.timeout(SILENT_PULSES * self._pulse_seconds):
                            batch = await anext(events)
                        self._heard = time.monotonic()
                        self._usage_counter.note(batch)
                        self._cache.note(batch)
                        self._broadcaster.publish(batch, batch.revision)
                        pause = 0.1
            except TimeoutError:
                self._cache.interrupt()
                log.warning("etcd's watch is silent; opening another one")
                self._client.move_on()
            except Compacted as error:
                # The changes in between are lost: every client must list again.
                await self._start_over(error)
            except StoreError as error:
                self._cache.interrupt()
                log.warning("etcd's watch is interrupted", error=str(error), again_in_seconds=pause)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  jitter
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _start_over(self, error: Compacted) -> None:
        try:
            revision = await pulse(self._client, self._root)
        except StoreError:
            return  # the next attempt to watch fails with the same error
        self._usage_counter.forget()
        self._cache.forget()
        self._broadcaster.restart(revision, error)

    async def _send_pulses(self) -> None:
        while True:
            await asyncio.sleep(self._pulse_seconds)
            if time.monotonic() - self._heard < self._pulse_seconds:
                continue
            try:
                await pulse(self._client, self._root)
            except StoreError as error:
                log.warning("etcd refuses a write", error=str(error))

    def _key(self, key: str) -> bytes:
        return self._data + key.encode()

    def _record(self, kv: Any) -> Record:
        return record_of(kv, self._data)

    def _change(self, event: Any) -> Change:
        kv, previous = event.kv, event.prev_kv if event.HasField("prev_kv") else None
        deleted = event.type == etcd_messages.DELETE
        if previous is None and (deleted or kv.create_revision != kv.mod_revision):
            raise Compacted(kv.mod_revision)  # etcd compacted the previous value before it sent the event
        return Change(
            kv.mod_revision,
            kv.key[len(self._data) :].decode(),
            None if deleted else kv.value,
            previous.value if previous else None,
            previous.create_revision if deleted and previous else kv.create_revision,
        )


async def pulse(client: Client, root: bytes) -> int:
    """Write the key that shows that etcd is alive, and return its revision."""
    answer = await client.call(etcd_client.PUT, {"key": root + b"pulse", "value": b""})
    return int(answer.header.revision)


async def open_etcd(
    endpoints: Sequence[str],
    *,
    prefix: str = "/vcsync",
    certificates: Certificates | None = None,
    pulse_seconds: float = PULSE_SECONDS,
) -> EtcdStore:
    """Connect to etcd.

    Args:
        endpoints: URLs of its members.
        prefix: Prefix of all keys. It separates installations that share an etcd.
        certificates: For https.
        pulse_seconds: See `PULSE_SECONDS`.

    Raises:
        StoreUnavailable: No member answers.
    """
    client = Client(endpoints, certificates)
    prefix = prefix.rstrip("/")
    try:
        published = await pulse(client, f"{prefix}/".encode())
    except BaseException:
        await client.close()
        raise
    return EtcdStore(client, prefix, published, pulse_seconds=pulse_seconds)
