"""Deletes the objects of a tenant that is being deleted: those without finalizers at once, the others when they are free.

An object with finalizers is marked as deleted and waits for their owners until the deadline of `tenant_deletion`. Programs
of the tenant cannot remove finalizers because its credentials are invalid: only the operator's programs, which see all
tenants, can. Finalizers of Kubernetes' own controllers are ignored because they protect only other objects of the tenant.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from vcsync.api.names import COPY_FINALIZER
from vcsync.apiserver.storage.interface import NARROW, Compare, Delete, Put, Record, Store

BUILT_IN = frozenset(
    {
        "batch.kubernetes.io/job-tracking",
        "customresourcecleanup.apiextensions.k8s.io",
        "foregroundDeletion",
        "kubernetes.io/pv-protection",
        "kubernetes.io/pvc-protection",
        "orphan",
        "service.kubernetes.io/load-balancer-cleanup",
        COPY_FINALIZER,
    }
)
"""Finalizers of kube-controller-manager, kube-apiserver and vcsync's own on Pods: nobody makes another Pod of a name."""

LAST = ("apiextensions.k8s.io/customresourcedefinitions", "core/namespaces")
"""Kinds that other objects need in order to be served; they are deleted last."""
PAGE = 32
"""Objects that are in memory at once. Each may have more than a megabyte."""
MAX_FINALIZERS = 10
"""Most finalizers that are listed: a tenant may use any number of names."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """The remaining objects of a tenant.

    Attributes:
        objects: Number of objects, without those that are deleted last.
        held: The most frequent finalizers with the number of their objects.
        more: Whether there are more objects than were counted.
    """

    objects: int = 0
    held: tuple[tuple[str, int], ...] = ()
    more: bool = False


async def drain(store: Store, tenant: str, now: str, guard: Compare) -> Remaining:
    """Delete objects without finalizers, and mark the others as deleted.

    Args:
        store: The store.
        tenant: The tenant.
        now: Time of the deletion, in RFC 3339.
        guard: Condition of every write.

    Returns:
        The objects that remain.

    Raises:
        StoreError: The store cannot be read or written.
    """
    left = await _drain(store, f"{tenant}/", now, guard, LAST)
    if left.objects:
        return left
    return await _drain(store, f"{tenant}/", now, guard, ())


async def sweep(store: Store, tenant: str, guard: Compare) -> bool:
    """Delete all objects, with or without finalizers. Returns whether `guard` held until the end.

    Raises:
        StoreError: The store cannot be read or written.
    """
    while page := (await store.range(f"{tenant}/", limit=NARROW)).records:
        outcome = await store.txn([guard], [Delete(record.key) for record in page])
        if not outcome.done:
            return False
    return True


async def remaining(store: Store, tenant: str, limit: int) -> Remaining:
    """Return what is left, of the first `limit` objects.

    Raises:
        StoreError: the store cannot be read.
    """
    page = await store.range(f"{tenant}/", limit=limit)
    counts = Counter[str]()
    found = [record for record in page.records if not _of(record.key, LAST)]
    for record in found:
        counts.update(_finalizers(_decoded(record)))
    return Remaining(len(found), tuple(counts.most_common(MAX_FINALIZERS)), page.more)


async def _drain(store: Store, prefix: str, now: str, guard: Compare, spared: tuple[str, ...]) -> Remaining:
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
            return Remaining(objects, tuple(counts.most_common(MAX_FINALIZERS)))
        after = page.records[-1].key


async def _write(store: Store, guard: Compare, changes: list[tuple[Record, Put | Delete]]) -> int:
    """Write the objects that have not changed. Returns the number of objects that have."""
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
    """Tell whether a key belongs to one of these resources (`group/plural`)."""
    return any(key.split("/", 1)[1].startswith(f"{resource}/") for resource in resources)


def _decoded(record: Record) -> dict[str, Any]:
    found = msgspec.json.decode(record.value)
    return found if isinstance(found, dict) else {}


def _finalizers(body: dict[str, Any]) -> list[str]:
    return [each for each in (body.get("metadata") or {}).get("finalizers") or () if each not in BUILT_IN]


def _marked(body: dict[str, Any], now: str) -> bytes:
    metadata = {**body["metadata"], "deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    return msgspec.json.encode({**body, "metadata": metadata})
