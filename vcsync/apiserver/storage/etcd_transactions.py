"""Transactions of the etcd store: conditions, wide ones, leases of keys with a time to live."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apiserver.storage import etcd_client, etcd_messages
from vcsync.apiserver.storage import etcd_wide_transactions as etcd_wide
from vcsync.apiserver.storage.assumptions import AssumptionFailed, Assumptions
from vcsync.apiserver.storage.etcd_client import Client, EtcdError
from vcsync.apiserver.storage.interface import (
    MAX_CONDITIONS,
    NARROW,
    Compare,
    Delete,
    Outcome,
    Put,
    Record,
    StoreUnavailable,
)
from vcsync.apiserver.storage.ranges import end_of

WIDE_ATTEMPTS = 16
"""Attempts of a wide transaction. An attempt fails if other writers change one of its folders meanwhile."""

LEASE_SHARE = 0.05
LEASE_SECONDS = 60
"""Keys with the same time to live share a lease for this share of that time, and at most this many seconds.

kube-apiserver's leaseManager does the same.
"""


@dataclass(frozen=True, slots=True)
class _Lease:
    id: int
    until: float


class Transactions:
    """Executes transactions on the keys of one store.

    Args:
        client: The connections to etcd.
        data: Prefix of all keys.
        read: Calls `Range` with the fields of its request.
    """

    def __init__(self, client: Client, data: bytes, read: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        self._client = client
        self._data = data
        self._range = read
        self._leases: dict[int, _Lease] = {}
        self._granting = asyncio.Lock()

    async def commit(
        self, compares: Sequence[Compare], operations: Sequence[Put | Delete], assumed: Assumptions | None
    ) -> Outcome:
        """Execute a valid transaction if its conditions hold, and what was read is current; see `Store.txn`.

        Raises:
            AssumptionFailed: Something that was read is not current, or too much was read.
        """
        wide = max(len(compares), len(operations)) > NARROW
        room = MAX_CONDITIONS if wide else NARROW - len(compares)
        more = [] if assumed is None else self._conditions(assumed, compares, room)
        for last_try in (False, True):
            try:
                if wide:
                    return await self._wide_txn(compares, more, operations)
                return await self._txn(compares, more, operations)
            except EtcdError as error:
                if last_try or etcd_client.NO_LEASE not in error.message:
                    raise
                self._leases.clear()  # another client of etcd revoked a lease
        raise AssertionError("the second try returned or raised")

    async def holds(self, assumed: Assumptions) -> bool:
        """See `AssumingStore.holds`."""
        try:
            conditions = self._conditions(assumed, (), NARROW)
        except AssumptionFailed:
            return False
        return not conditions or (await self._try((), conditions, ())) is not None

    def _conditions(
        self, assumed: Assumptions, compares: Sequence[Compare], room: int
    ) -> list[dict[str, Any]]:
        """Return at most `room` conditions for what was read, apart from keys that `compares` covers.

        Raises:
            AssumptionFailed: There are too many of them. What is current when it is read needs no condition, so the first
                ones suffice then.
        """
        covered = {each.key for each in compares}
        found = [
            self._compare(Compare(key, revision))
            for key, revision in assumed.keys.items()
            if key not in covered
        ]
        for folder, revision in assumed.folders.items():
            key = self._key(folder)
            found.append(etcd_wide.unchanged(key, end_of(key), revision))
        if len(found) > room and not assumed.fresh:
            raise AssumptionFailed("the write depends on too many objects")
        return found[:room]

    async def _txn(
        self, compares: Sequence[Compare], more: Sequence[dict[str, Any]], operations: Sequence[Put | Delete]
    ) -> Outcome:
        outcome = await self._try(compares, more, [await self._operation(each) for each in operations])
        if outcome is None and more:
            raise AssumptionFailed("an object on which the write depends has changed")
        if outcome is None:
            # etcd reports a failed condition, but the records that it returns satisfy all of them.
            raise StoreUnavailable("etcd refuses a transaction without a reason")
        return outcome

    async def _wide_txn(
        self, compares: Sequence[Compare], more: Sequence[dict[str, Any]], operations: Sequence[Put | Delete]
    ) -> Outcome:
        """Execute a transaction that is too wide for a plain transaction of etcd; see `etcd_wide`."""
        wide = etcd_wide.plan(compares)
        success = etcd_wide.grouped([await self._operation(each) for each in operations])
        for _attempt in range(WIDE_ATTEMPTS):
            unchanged = [*more]
            for folder, absent in wide.areas.items():
                first, end = self._key(folder), end_of(self._key(folder))
                answer = await self._range({"key": first, "range_end": end, "keys_only": True})
                existing = {each.key for each in answer.kvs}
                failed = [each.key for each in absent if self._key(each.key) in existing]
                if failed:
                    return Outcome(
                        answer.header.revision, tuple([(key, await self._get(key)) for key in failed])
                    )
                unchanged.append(etcd_wide.unchanged(first, end, answer.header.revision))
            outcome = await self._try(wide.exact, unchanged, success)
            if outcome is not None:
                return outcome
            if more:
                raise AssumptionFailed("an object on which the write depends, or a folder, has changed")
        raise StoreUnavailable("other writers kept changing the folders of a wide transaction")

    def _compare(self, compare: Compare) -> dict[str, Any]:
        return {
            "target": etcd_messages.MOD,
            "result": etcd_messages.EQUAL,
            "key": self._key(compare.key),
            "mod_revision": compare.revision,
        }

    async def _try(
        self, compares: Sequence[Compare], more: Sequence[dict[str, Any]], success: Sequence[dict[str, Any]]
    ) -> Outcome | None:
        """Execute a transaction. Returns None if only a condition of `more` did not hold."""
        request = {
            "compare": [*map(self._compare, compares), *more],
            "success": success,
            "failure": [{"request_range": {"key": self._key(compare.key)}} for compare in compares],
        }
        answer = await self._client.call(etcd_client.TXN, request)
        if answer.succeeded:
            return Outcome(answer.header.revision)
        failed = []
        for compare, response in zip(compares, answer.responses, strict=True):
            kvs = response.response_range.kvs
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
                answer = await self._client.call(etcd_client.GRANT, {"TTL": ttl + shared})
                lease = self._leases[ttl] = _Lease(answer.ID, now + shared)
            return lease.id

    async def _get(self, key: str) -> Record | None:
        answer = await self._range({"key": self._key(key)})
        return self._record(answer.kvs[0]) if answer.kvs else None

    def _key(self, key: str) -> bytes:
        return self._data + key.encode()

    def _record(self, kv: Any) -> Record:
        return record_of(kv, self._data)


def record_of(kv: Any, data: bytes) -> Record:
    """Return the record of a `KeyValue`, whose key begins with the prefix of all keys."""
    return Record(kv.key[len(data) :].decode(), kv.value, kv.create_revision, kv.mod_revision)
