"""Emptying the space of a tenant that is being deleted: what nobody holds goes, what somebody holds is marked.

Whoever put a finalizer on an object is told, as by any deletion, and the object waits for them (up to a deadline,
which is `lifecycle`'s). A tenant's own programs cannot let go any more, for its credentials are dead: finalizers are
for the operator's programs, which see all tenants. Those of Kubernetes' own controllers mean nothing when everything
goes, and hold nothing here.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from vcsync.controlplane.store.interface import NARROW, Compare, Delete, Put, Record, Store

BUILT_IN = frozenset(
    {
        "batch.kubernetes.io/job-tracking",
        "customresourcecleanup.apiextensions.k8s.io",
        "foregroundDeletion",
        "kubernetes.io/pv-protection",
        "kubernetes.io/pvc-protection",
        "orphan",
        "service.kubernetes.io/load-balancer-cleanup",
    }
)
"""Finalizers of kube-controller-manager's and kube-apiserver's."""

LAST = ("apiextensions.k8s.io/customresourcedefinitions", "core/namespaces")
"""What other objects need to be reached: it goes when they have gone."""
PAGE = 32
"""Objects in memory at once: each may have more than a megabyte."""
TOLD_FINALIZERS = 10
"""A tenant chooses their names: no more than these of the most frequent are told."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a tenant still has.

    Attributes:
        objects: how many, those that only wait for others left out.
        held: the most frequent finalizers, with the number of objects that each is on.
        more: there are more than were counted.
    """

    objects: int = 0
    held: tuple[tuple[str, int], ...] = ()
    more: bool = False


async def drain(store: Store, tenant: str, now: str, guard: Compare) -> Left:
    """Delete what nobody holds, mark the rest as being deleted since `now` (RFC 3339), and return what is left.

    Nothing is written any more once `guard` does not hold.

    Raises:
        StoreError: the store cannot be read or written.
    """
    left = await _drain(store, f"{tenant}/", now, guard, LAST)
    if left.objects:
        return left
    return await _drain(store, f"{tenant}/", now, guard, ())


async def sweep(store: Store, tenant: str, guard: Compare) -> bool:
    """Delete everything, whoever holds it; return whether `guard` held to the end.

    Raises:
        StoreError: the store cannot be read or written.
    """
    while page := (await store.range(f"{tenant}/", limit=NARROW)).records:
        outcome = await store.txn([guard], [Delete(record.key) for record in page])
        if not outcome.done:
            return False
    return True


async def look(store: Store, tenant: str, limit: int) -> Left:
    """Return what is left, of the first `limit` objects.

    Raises:
        StoreError: the store cannot be read.
    """
    page = await store.range(f"{tenant}/", limit=limit)
    counts = Counter[str]()
    found = [record for record in page.records if not _of(record.key, LAST)]
    for record in found:
        counts.update(_finalizers(_decoded(record)))
    return Left(len(found), tuple(counts.most_common(TOLD_FINALIZERS)), page.more)


async def _drain(store: Store, prefix: str, now: str, guard: Compare, spared: tuple[str, ...]) -> Left:
    objects, counts, after = 0, Counter[str](), ""
    while True:
        page = await store.range(prefix, after=after, limit=PAGE)
        changes: list[tuple[Record, Put | Delete]] = []
        for record in page.records:
            if _of(record.key, spared):
                continue
            body = _decoded(record)
            if held := _finalizers(body):
                objects += 1
                counts.update(held)
                if not body["metadata"].get("deletionTimestamp"):
                    changes.append((record, Put(record.key, _marked(body, now))))
            else:
                changes.append((record, Delete(record.key)))
        objects += await _write(store, guard, changes)
        if not page.more:
            return Left(objects, tuple(counts.most_common(TOLD_FINALIZERS)))
        after = page.records[-1].key


async def _write(store: Store, guard: Compare, changes: list[tuple[Record, Put | Delete]]) -> int:
    """Write what nobody else has written; return how many objects are to be looked at again."""
    if not changes:
        return 0
    outcome = await store.txn(
        [guard, *(Compare(record.key, record.revision) for record, _ in changes)],
        [write for _, write in changes],
    )
    if outcome.done:
        return 0
    changed = {key for key, _ in outcome.failed}
    if guard.key in changed:
        return len(changes)
    await _write(store, guard, [each for each in changes if each[0].key not in changed])
    return len(changed)


def _of(key: str, resources: Iterable[str]) -> bool:
    """Tell whether a key is of one of these resources (`group/plural`)."""
    return any(key.split("/", 1)[1].startswith(f"{resource}/") for resource in resources)


def _decoded(record: Record) -> dict[str, Any]:
    found = msgspec.json.decode(record.value)
    return found if isinstance(found, dict) else {}


def _finalizers(body: dict[str, Any]) -> list[str]:
    return [each for each in (body.get("metadata") or {}).get("finalizers") or () if each not in BUILT_IN]


def _marked(body: dict[str, Any], now: str) -> bytes:
    metadata = {**body["metadata"], "deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    return msgspec.json.encode({**body, "metadata": metadata})
