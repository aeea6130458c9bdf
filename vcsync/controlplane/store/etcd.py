"""The store in an etcd, for several control plane processes on several machines.

All watches of a process share one watch of etcd; what one asks for from before is read by a watch of its own.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

from vcsync.controlplane.store import etcd_gateway as wire
from vcsync.controlplane.store import etcd_wide
from vcsync.controlplane.store.etcd_gateway import Gateway, GatewayError, RangeAnswer
from vcsync.controlplane.store.hub import Hub, follow
from vcsync.controlplane.store.interface import (
    NARROW,
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
from vcsync.controlplane.store.metering import Meter
from vcsync.controlplane.store.ranges import end_of

PAGE_RECORDS = 1000
"""Records asked for at a time; etcd holds its lock while it reads them."""

PULSE_SECONDS = 5.0
"""When nothing came for so long, a key is written that shows watches to be alive and moves their progress on.

A watch of etcd has no other way to tell, at the JSON gateway, that nothing happened.
"""

SILENT_PULSES = 3
"""A watch that gives nothing for so many pulses is opened anew."""

WIDE_ATTEMPTS = 16
"""Others may write meanwhile where a wide transaction reserves."""

LEASE_SHARE = 0.05
LEASE_SECONDS = 60
"""Keys with one time to live share a lease that is at most so old (kube-apiserver's leaseManager)."""

MAX_PAUSE_SECONDS = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Lease:
    id: int
    until: float


class EtcdStore:
    """A `Store` in etcd. Made by `open_etcd`.

    Keys lie below `<prefix>/data/`; `<prefix>/pulse` is the one further key.
    """

    def __init__(self, gateway: Gateway, prefix: str, published: int, *, pulse_seconds: float) -> None:
        self._gateway = gateway
        self._root = f"{prefix}/".encode()
        self._data = f"{prefix}/data/".encode()
        self._hub = Hub(published)
        self._meter = Meter(self._read_page)
        self._pulse_seconds = pulse_seconds
        self._leases: dict[int, _Lease] = {}
        self._granting = asyncio.Lock()
        self._heard = time.monotonic()
        self._tasks = [
            asyncio.create_task(self._feed_for_ever()),
            asyncio.create_task(self._pulse_for_ever()),
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
        return (await self._range({"key": key, "range_end": end_of(key), "count_only": True})).count

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """See `Store.txn`. Keys with a time to live share leases, so they may live a little longer."""
        require_valid(compares, operations)
        for last_try in (False, True):
            try:
                if max(len(compares), len(operations)) > NARROW:
                    return await self._wide_txn(compares, operations)
                return await self._txn(compares, operations)
            except GatewayError as error:
                if last_try or wire.NO_LEASE not in error.message:
                    raise
                self._leases.clear()  # somebody revoked one
        raise AssertionError("the second try returned or raised")

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """See `Store.watch`."""
        return follow(self._hub, self._history, prefix, after, progress)

    async def revision(self) -> int:
        """See `Store.revision`."""
        return (await self._range({"key": self._root, "count_only": True})).header.revision

    async def compact(self, revision: int) -> None:
        """See `Store.compact`. It is the whole etcd that forgets, whoever else uses it."""
        try:
            await self._gateway.call("/v3/kv/compaction", {"revision": revision}, wire.Anything)
        except GatewayError as error:
            if wire.COMPACTED not in error.message:
                raise await self._explained(error) from None

    async def known(self, key: str) -> Record | None:
        """See `Store.known`. Other processes write, too: it is read."""
        return (await self.get(key))[0]

    async def known_below(self, prefix: str) -> Sequence[Record]:
        """See `Store.known_below`."""
        return (await self.range(prefix)).records

    async def usage(self, tenant: str) -> Usage:
        """See `Store.usage`. The first time, it reads all that the tenant has."""
        return await self._meter.usage(tenant)

    async def sound(self) -> None:
        """See `Store.sound`. etcd looks after itself."""

    async def close(self) -> None:
        """See `Store.close`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hub.fail(StoreUnavailable("the store is closed"))
        await self._gateway.close()

    async def _read_page(self, prefix: str, after: str, revision: int) -> Page:
        return await self.range(prefix, after=after, limit=PAGE_RECORDS, revision=revision)

    async def _txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        outcome = await self._try(compares, [], [await self._operation(one) for one in operations])
        if outcome is None:  # etcd says that a condition failed, and shows that all hold
            raise StoreUnavailable("etcd refuses a transaction without a reason")
        return outcome

    async def _wide_txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """Do what etcd does not take in one transaction; see `etcd_wide`."""
        wide = etcd_wide.plan(compares)
        success = etcd_wide.grouped([await self._operation(one) for one in operations])
        for _attempt in range(WIDE_ATTEMPTS):
            unchanged = []
            for folder, absent in wide.areas.items():
                first, end = self._key(folder), end_of(self._key(folder))
                answer = await self._range({"key": first, "range_end": end, "keys_only": True})
                there = {each.key for each in answer.kvs}
                failed = [each.key for each in absent if self._key(each.key) in there]
                if failed:
                    return Outcome(
                        answer.header.revision, tuple([(key, (await self.get(key))[0]) for key in failed])
                    )
                unchanged.append(etcd_wide.unchanged(first, end, answer.header.revision))
            outcome = await self._try(wide.exact, unchanged, success)
            if outcome is not None:
                return outcome
        raise StoreUnavailable("what a wide write reserves was changed again and again meanwhile")

    async def _try(
        self, compares: Sequence[Compare], more: Sequence[dict[str, Any]], success: Sequence[dict[str, Any]]
    ) -> Outcome | None:
        """Do a transaction; None: it was one of the further conditions that did not hold."""
        request = {
            "compare": [
                *(
                    {
                        "target": "MOD",
                        "result": "EQUAL",
                        "key": self._key(one.key),
                        "mod_revision": one.revision,
                    }
                    for one in compares
                ),
                *more,
            ],
            "success": success,
            "failure": [{"request_range": {"key": self._key(one.key)}} for one in compares],
        }
        answer = await self._gateway.call("/v3/kv/txn", request, wire.TxnAnswer)
        if answer.succeeded:
            return Outcome(answer.header.revision)
        failed = []
        for compare, response in zip(compares, answer.responses, strict=True):
            kvs = response.response_range.kvs if response.response_range else []
            record = self._record(kvs[0]) if kvs else None
            if compare.revision != (record.revision if record else 0):
                failed.append((compare.key, record))
        return Outcome(answer.header.revision, tuple(failed)) if failed else None

    async def _operation(self, operation: Put | Delete) -> dict[str, Any]:
        key = self._key(operation.key)
        if isinstance(operation, Delete):
            return {"request_delete_range": {"key": key}}
        lease = 0 if operation.ttl is None else await self._lease(operation.ttl)
        return {"request_put": {"key": key, "value": operation.value, "lease": lease}}

    async def _lease(self, ttl: int) -> int:
        """Return a lease that lives for at least `ttl` seconds."""
        async with self._granting:
            now = time.monotonic()
            lease = self._leases.get(ttl)
            if lease is None or lease.until <= now:
                shared = min(LEASE_SECONDS, int(ttl * LEASE_SHARE))
                answer = await self._gateway.call("/v3/lease/grant", {"TTL": ttl + shared}, wire.LeaseAnswer)
                lease = self._leases[ttl] = _Lease(answer.id, now + shared)
            return lease.id

    async def _range(self, request: dict[str, Any]) -> RangeAnswer:
        try:
            return await self._gateway.call("/v3/kv/range", request, RangeAnswer)
        except GatewayError as error:
            raise await self._explained(error) from None

    async def _explained(self, error: GatewayError) -> StoreError:
        """Find what an error of etcd does not say: how far history reaches."""
        if wire.FUTURE in error.message:
            return FutureRevision(await self.revision())
        if wire.COMPACTED not in error.message:
            return error
        try:
            async with aclosing(self._events(1)) as events:
                async for _ in events:
                    break
        except Compacted as compacted:
            return compacted
        return error

    async def _history(self, prefix: str, after: int, until: int) -> AsyncGenerator[Batch, None]:
        # Every revision that the hub has published is one of a key below our root, so this ends.
        async with aclosing(self._events(after + 1)) as events:
            async for batch in events:
                wanted = [one for one in batch if one.revision <= until and one.key.startswith(prefix)]
                yield Batch(wanted, min(batch.revision, until))
                if batch.revision >= until:
                    return

    async def _events(self, start: int) -> AsyncGenerator[Batch, None]:
        """Yield all changes below our root from a revision on; a batch may be empty.

        Raises:
            Compacted: history does not reach that revision.
            StoreUnavailable: the connection is lost.
        """
        request = {
            "key": self._root,
            "range_end": end_of(self._root),
            "start_revision": start,
            "prev_kv": True,
        }
        async with aclosing(self._gateway.watch(request)) as answers:
            async for answer in answers:
                if answer.compact_revision:
                    raise Compacted(answer.compact_revision)
                if answer.canceled:
                    raise StoreUnavailable(f"etcd ended a watch: {answer.cancel_reason}")
                if answer.events:
                    changes = [
                        self._change(one) for one in answer.events if one.kv.key.startswith(self._data)
                    ]
                    yield Batch(changes, answer.events[-1].kv.mod_revision)

    async def _feed_for_ever(self) -> None:
        """Hand on what etcd tells, taking up again after every loss of the connection."""
        pause = 0.1
        while True:
            try:
                async with aclosing(self._events(self._hub.published + 1)) as events:
                    while True:
                        # A pulse comes when nothing else does: silence is a connection that is dead.
                        async with asyncio.timeout(SILENT_PULSES * self._pulse_seconds):
                            batch = await anext(events)
                        self._heard = time.monotonic()
                        self._meter.note(batch)
                        self._hub.publish(batch, batch.revision)
                        pause = 0.1
            except TimeoutError:
                log.warning("etcd's watch is silent; another is opened")
                self._gateway.move_on()
            except Compacted as error:
                # What happened in between is gone: everyone has to list again.
                await self._start_over(error)
            except StoreError as error:
                log.warning("etcd's watch is interrupted", error=str(error), again_in_seconds=pause)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  jitter
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _start_over(self, error: Compacted) -> None:
        try:
            revision = await pulse(self._gateway, self._root)
        except StoreError:
            return  # the next turn finds the same
        self._meter.forget()
        self._hub.restart(revision, error)

    async def _pulse_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._pulse_seconds)
            if time.monotonic() - self._heard < self._pulse_seconds:
                continue
            try:
                await pulse(self._gateway, self._root)
            except StoreError as error:
                log.warning("etcd takes no write", error=str(error))

    def _key(self, key: str) -> bytes:
        return self._data + key.encode()

    def _record(self, kv: wire.KeyValue) -> Record:
        return Record(kv.key[len(self._data) :].decode(), kv.value, kv.create_revision, kv.mod_revision)

    def _change(self, event: wire.Event) -> Change:
        kv, previous = event.kv, event.prev_kv
        deleted = event.type == "DELETE"
        if previous is None and (deleted or kv.create_revision != kv.mod_revision):
            raise Compacted(kv.mod_revision)  # compacted between the change and its telling
        return Change(
            kv.mod_revision,
            kv.key[len(self._data) :].decode(),
            None if deleted else kv.value,
            previous.value if previous else None,
            previous.create_revision if deleted and previous else kv.create_revision,
        )


async def pulse(gateway: Gateway, root: bytes) -> int:
    """Write the key that shows that etcd is alive; return its revision."""
    answer = await gateway.call("/v3/kv/put", {"key": root + b"pulse", "value": b""}, wire.Anything)
    return answer.header.revision


async def open_etcd(
    endpoints: Sequence[str],
    *,
    prefix: str = "/vcsync",
    tls: ssl.SSLContext | None = None,
    pulse_seconds: float = PULSE_SECONDS,
) -> EtcdStore:
    """Connect to an etcd.

    Args:
        endpoints: URLs of its members.
        prefix: keeps installations that share an etcd apart.
        tls: for https: trusted CA and client certificate.
        pulse_seconds: see `PULSE_SECONDS`.

    Raises:
        StoreUnavailable: no member answers.
    """
    gateway = Gateway(endpoints, tls)
    prefix = prefix.rstrip("/")
    try:
        published = await pulse(gateway, f"{prefix}/".encode())
    except BaseException:
        await gateway.close()
        raise
    return EtcdStore(gateway, prefix, published, pulse_seconds=pulse_seconds)
