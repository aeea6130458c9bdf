"""Deletions: preconditions, grace periods, finalizers, and what the answer is.

Behaviour: apiserver's `registry/rest/delete.go` and the deletion half of `registry/generic/registry/store.go`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.cel import patience
from vcsync.controlplane.crd import definition
from vcsync.controlplane.crd.catalogue import GROUP, PLURAL
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import meta
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.heavy import costly
from vcsync.controlplane.rest.lifecycle import check_deletion
from vcsync.controlplane.rest.options import DeleteOptions
from vcsync.controlplane.rest.registry import Registry
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Compare, Delete, Put, Record

ATTEMPTS = 30
AT_ONCE = 16
FARTHEST = 10**10
"""Seconds from now at which an end is still written as a date; a grace period may be longer."""
"""So many objects of a collection are deleted at the same time."""
JOBS_ORPHAN = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
DEFAULT_ORPHANS = frozenset({("", "replicationcontrollers"), ("batch", "jobs")})
"""Whose dependents are orphaned unless the caller says otherwise."""
RETURNED = frozenset(
    [("", each) for each in (
        "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas",
        "serviceaccounts", "services",
    )]
    + [("storage.k8s.io", each) for each in (
        "csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses",
    )]
    + [("resource.k8s.io", each) for each in (
        "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates",
        "resourcepoolstatusrequests", "resourceslices",
    )]
)  # fmt: skip
"""Whose deletion is answered with the object instead of a Status."""

By = Literal["name", "collection", "eviction"]
"""What deletes an object: a request that names it, one for all of a collection, or an eviction, about which admission
was asked already."""
Begin = Literal["marked", "waiting", "on"]
Special = Callable[[Object, DeleteOptions, str], Begin]
"""(working object, options, now): how the deletion of a kind begins that has its own way.

`marked`: in place, to be written; `waiting`: it has begun, something else must happen first; `on`: as all kinds.
"""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion came to.

    Attributes:
        value: the object in stored form; None: a Status is the answer.
        gone: whether it is gone, or only marked.
        uid: of the object.
    """

    value: bytes | None
    revision: int
    gone: bool
    uid: str = ""


class Deleter:
    """Deletes objects of every kind and tenant."""

    def __init__(self, registry: Registry) -> None:
        """Take the registry."""
        self._registry = registry
        self._store = registry.store

    async def delete(self, scope: Scope, options: DeleteOptions, *, by: By = "name") -> Deleted:
        """Delete an object, or mark it where something must happen first.

        Args:
            scope: of the request.
            options: of the request.
            by: what deletes it.

        Raises:
            StatusError: as the API refuses.
            TooLarge: what stands there is too much for the loop; see `patience.moving`.
        """
        check_deletion(scope)
        key = scope.key()
        record, _ = await self._store.get(key)
        for _attempt in range(ATTEMPTS):
            if record is None:
                raise self._registry.not_found(scope)
            done, record = await self._try(scope, key, record, options, by)
            if done is not None:
                return done
        raise self._registry.conflict(scope)

    async def _try(
        self, scope: Scope, key: str, record: Record, options: DeleteOptions, by: By
    ) -> tuple[Deleted | None, Record | None]:
        if patience.movable() and costly(record.value):
            raise patience.TooLarge
        old = await self._registry.load(scope.kind, record)
        self._check(scope, old["metadata"], record, options)
        if by != "eviction":
            await self._registry.may_delete(scope, old, options, named=by == "name")
        working = copied(old)
        now = scope.context.now
        resource = scope.kind.resource
        uid = old["metadata"].get("uid", "")
        special = SPECIAL.get((resource.group, resource.plural))
        begin = special(working, options, now) if special else "on"
        if begin == "marked":
            return await self._mark(scope, key, record, working, options)
        if begin == "waiting":
            return Deleted(record.value, record.revision, gone=False, uid=uid), None
        graceful, pending = self._grace(scope, working, options)
        if pending:
            return self._told(scope, record.value, record.revision, gone=False, uid=uid), None
        changed = collect(working["metadata"], options, (resource.group, resource.plural))
        waiting = bool(working["metadata"].get("finalizers"))
        if waiting and not graceful:
            mark(working["metadata"], now)
            return await self._mark(scope, key, record, working, options)
        grace = working["metadata"].get("deletionGracePeriodSeconds") or 0
        if graceful and (waiting or grace > 0):
            return await self._mark(scope, key, record, working, options)
        if changed or graceful:
            record = replace(record, value=await self._registry.packed(scope.kind, working))
        return await self._remove(scope, key, record, working, options)

    async def _mark(
        self, scope: Scope, key: str, record: Record, working: Object, options: DeleteOptions
    ) -> tuple[Deleted | None, Record | None]:
        packed = await self._registry.packed(scope.kind, working)
        uid = working["metadata"].get("uid", "")
        if options.dry_run or packed == record.value:
            return Deleted(packed, record.revision, gone=False, uid=uid), None
        outcome = await self._registry.commit(
            (Compare(key, record.revision),), (Put(key, packed, self._registry.ttl(scope.kind)),)
        )
        if outcome.done:
            return Deleted(packed, outcome.revision, gone=False, uid=uid), None
        return None, outcome.failed[0][1]

    async def _remove(
        self, scope: Scope, key: str, record: Record, working: Object, options: DeleteOptions
    ) -> tuple[Deleted | None, Record | None]:
        uid = working["metadata"].get("uid", "")
        if options.dry_run:
            return self._told(scope, record.value, record.revision, gone=True, uid=uid), None
        freed = await self._registry.reserve(scope, None, working)
        outcome = await self._registry.commit(
            (Compare(key, record.revision),), (Delete(key), *freed.operations)
        )
        if outcome.done:
            return self._told(scope, record.value, outcome.revision, gone=True, uid=uid), None
        return None, outcome.failed[0][1]

    def _told(self, scope: Scope, value: bytes, revision: int, *, gone: bool, uid: str) -> Deleted:
        resource = scope.kind.resource
        told = (resource.group, resource.plural) in RETURNED
        return Deleted(value if told else None, revision, gone, uid)

    def _check(self, scope: Scope, metadata: Object, record: Record, options: DeleteOptions) -> None:
        uid, version = metadata.get("uid", ""), str(record.revision)
        if options.uid is not None and options.uid != uid:
            raise self._refused(
                scope,
                ("UID", options.uid, uid),
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})."
                " The object might have been deleted and then recreated",
            )
        if options.resource_version is not None and options.resource_version != version:
            raise self._refused(
                scope,
                ("ResourceVersion", options.resource_version, version),
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({version}). The object might have been modified",
            )

    def _refused(self, scope: Scope, what: tuple[str, str, str], why: str) -> StatusError:
        resource = scope.kind.resource
        if (resource.group, resource.plural) not in SPECIAL:
            return errors.conflict(resource.kind, resource.storage_group, scope.name, why)
        name, wanted, there = what
        told = f"Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {there}"
        return errors.conflict(resource.plural, resource.group, scope.name, told)

    def _grace(self, scope: Scope, working: Object, options: DeleteOptions) -> tuple[bool, bool]:
        """Mark for a graceful deletion.

        Returns:
            whether it was marked so, and whether a longer one is going on already.
        """
        default = scope.kind.behaviour.grace_seconds
        if default is None:
            return False, False
        metadata = working["metadata"]
        asked = options.grace_seconds
        if asked is not None and asked < 0:
            asked = 1
        if metadata.get("deletionTimestamp"):
            return self._shorten(metadata, asked, scope.context.now)
        given = {} if asked is None else {"gracePeriodSeconds": asked}
        seconds = default(working, given)
        metadata["deletionTimestamp"] = later(scope.context.now, seconds)
        metadata["deletionGracePeriodSeconds"] = seconds
        if metadata.get("generation"):
            metadata["generation"] += 1
        return True, False

    @staticmethod
    def _shorten(metadata: Object, asked: int | None, now: str) -> tuple[bool, bool]:
        current = metadata.get("deletionGracePeriodSeconds") or 0
        if current == 0:
            return False, False
        if asked is None or asked >= current:
            return False, True
        # From when it began; what was beyond the calendar then has been cut.
        moved = later(metadata["deletionTimestamp"], min(asked, FARTHEST) - min(current, FARTHEST))
        if moved < now:
            moved, asked = now, min(asked, 1)
        metadata["deletionTimestamp"] = moved
        metadata["deletionGracePeriodSeconds"] = asked
        return True, False

    async def delete_all(self, scope: Scope, names: list[tuple[str, str]], options: DeleteOptions) -> None:
        """Delete objects by (namespace, name); those that are gone already don't matter.

        Raises:
            StatusError: the first refusal; others may have been deleted.
        """
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(namespace: str, name: str) -> None:
            async with gate:
                try:
                    await self.delete(
                        replace(scope, namespace=namespace, name=name), options, by="collection"
                    )
                except StatusError as error:
                    if error.code != 404:
                        raise

        await gather([one(namespace, name) for namespace, name in names])


async def gather(work: list[Awaitable[None]]) -> None:
    """Do all; the first error is raised as itself once everything has ended."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def collect(metadata: Object, options: DeleteOptions, resource: tuple[str, str]) -> bool:
    """Set the garbage collector's finalizers as the caller wants them; return whether they changed."""
    before = list(metadata.get("finalizers") or ())
    orphan, foreground = policy(before, options, resource)
    after = [each for each in before if each not in (meta.ORPHAN, meta.FOREGROUND)]
    after += [meta.ORPHAN] * orphan + [meta.FOREGROUND] * foreground
    if set(after) == set(before):
        return False
    if after:
        metadata["finalizers"] = after
    else:
        metadata.pop("finalizers", None)
    return True


def warnings(scope: Scope, options: DeleteOptions) -> list[str]:
    """Return what a deletion warns of: that of a Job orphans its Pods unless something else is asked for."""
    resource = scope.kind.resource
    asked = options.orphan is not None or options.policy is not None
    return [] if asked or (resource.group, resource.plural) != ("batch", "jobs") else [JOBS_ORPHAN]


def policy(finalizers: list[str], options: DeleteOptions, resource: tuple[str, str]) -> tuple[bool, bool]:
    """Return whether dependents are orphaned, and whether they are deleted first."""
    if resource == ("", "events"):
        return False, False
    if options.orphan is not None:
        return options.orphan, False
    if options.policy is not None:
        return options.policy == "Orphan", options.policy == "Foreground"
    for each in finalizers:
        if each in (meta.ORPHAN, meta.FOREGROUND):
            return each == meta.ORPHAN, each == meta.FOREGROUND
    return resource in DEFAULT_ORPHANS, False


def mark(metadata: Object, now: str) -> None:
    """Mark as being deleted, without grace."""
    if not metadata.get("deletionTimestamp") and metadata.get("generation"):
        metadata["generation"] += 1
    if not metadata.get("deletionTimestamp") or metadata["deletionTimestamp"] > now:
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def later(time: str, seconds: int) -> str:
    """Add seconds to an RFC 3339 time in UTC, so many at most that the year is still one."""
    moved = datetime.fromisoformat(time.replace("Z", "+00:00")) + timedelta(seconds=min(seconds, FARTHEST))
    return moved.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status_of(scope: Scope, deleted: Deleted) -> Object:
    """Return the Status that answers a deletion."""
    resource = scope.kind.resource
    details = {"name": scope.name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if deleted.uid:
        details["uid"] = deleted.uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def begin_namespace(working: Object, options: DeleteOptions, now: str) -> Begin:
    """Begin the deletion of a namespace: its contents go first (`registry/core/namespace/storage`)."""
    metadata = working["metadata"]
    if metadata.get("deletionTimestamp"):
        return "waiting" if (working.get("spec") or {}).get("finalizers") else "on"
    metadata["deletionTimestamp"] = now
    working["status"] = {**(working.get("status") or {}), "phase": "Terminating"}
    if options.orphan is not None or options.policy is not None:
        collect(metadata, options, ("", "namespaces"))
    return "marked"


def begin_definition(working: Object, _: DeleteOptions, now: str) -> Begin:
    """Begin the deletion of a CustomResourceDefinition: its objects go first."""
    return "marked" if definition.terminate(working, now) else "on"


SPECIAL: Mapping[tuple[str, str], Special] = {
    ("", "namespaces"): begin_namespace,
    (GROUP, PLURAL): begin_definition,
}
"""Kinds whose deletions begin in ways of their own, by group and plural."""
