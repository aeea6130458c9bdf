"""Deletes objects: preconditions, grace periods, finalizers and the response.

Behaviour: apiserver's `registry/rest/delete.go` and the deletion half of `registry/generic/registry/store.go`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel import cooperative
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.crd import definition
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds.all_kinds import by_plural
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.apiextensions.catalogue import GROUP, PLURAL
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry.namespace_lifecycle import check_deletion
from vcsync.apiserver.registry.offloading import consider, run_step
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.options import DeleteOptions
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compare, Delete, Put, Record

ATTEMPTS = 30
"""Attempts of a deletion until it is refused because other writes came first."""
CONCURRENT_DELETIONS = 16
"""Objects of a collection that are deleted at the same time."""
MAX_GRACE_SECONDS = 10**10
"""Longest grace period that moves a deletionTimestamp. The year of a later time would have more than four digits."""
JOBS_ORPHAN = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
By = Literal["name", "collection", "eviction"]
"""Request that deletes an object: it names the object or its collection, or it evicts the Pod.

An eviction has passed admission before.
"""
Step = Literal["marked", "waiting", "continue"]
"""Next step of a deletion after the kind's own beginning.

`marked`: The object was changed in place and is stored. `waiting`: The deletion has begun before and waits for something
else. `continue`: The deletion continues as for all kinds.
"""
BeginDeletion = Callable[[Object, DeleteOptions, str], Step]
"""(working object, options, time of the request in RFC 3339) -> next step. Begins the deletion of a special kind."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion.

    Attributes:
        value: The object of the response in its stored form, or None if the response is a Status.
        revision: Revision of the deletion or of the object.
        gone: Whether the object is gone. False: it is marked, or its deletion waits.
        uid: UID of the object.
    """

    value: bytes | None
    revision: int
    gone: bool
    uid: str = ""


class Deleter:
    """Deletes objects of every kind and tenant.

    Args:
        registry: Writes the objects.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store

    async def delete(self, scope: Scope, options: DeleteOptions, *, by: By = "name") -> Deleted:
        """Delete an object, or mark it if its grace period or finalizers delay the deletion.

        Args:
            scope: Scope of the request.
            options: Options of the request.
            by: Kind of the request.

        Raises:
            StatusError: The API refuses the deletion.
            TooLarge: The stored object is too large for the event loop; see `cooperative.raising_too_long`.
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
        if consider(scope, record.value) and cooperative.raises_too_long():
            raise cooperative.TooLarge
        old = await self._registry.load(scope.kind, record)
        self._check(scope, old["metadata"], record, options)
        if by != "eviction":
            await self._registry.admit_deletion(scope, old, options, named=by == "name")
        # Only fields of the metadata change in place, but for the beginning of a special kind. A whole copy may be megabytes.
        working = {**old, "metadata": dict(old["metadata"])}
        now = scope.context.now
        resource = scope.kind.resource
        uid = old["metadata"].get("uid", "")
        begin = SPECIAL.get((resource.group, resource.plural))
        if begin:
            working = await run_step(scope, partial(copied, old))
        step = begin(working, options, now) if begin else "continue"
        if step == "marked":
            return await self._mark(scope, key, record, working, options)
        if step == "waiting":
            return Deleted(record.value, record.revision, gone=False, uid=uid), None
        graceful, pending = self._grace(scope, working, options)
        if pending:
            return self._result(scope, record.value, record.revision, gone=False, uid=uid), None
        changed = collect(working["metadata"], options, (resource.group, resource.plural))
        waiting = bool(working["metadata"].get("finalizers"))
        if waiting and not graceful:
            mark(working["metadata"], now)
        grace = working["metadata"].get("deletionGracePeriodSeconds") or 0
        if waiting or (graceful and grace > 0):
            return await self._mark(scope, key, record, working, options)
        if graceful and not options.dry_run:
            return await self._end_grace(scope, key, record, working, options)
        if changed or graceful:
            record = replace(record, value=await self._registry.packed(scope, working))
        return await self._remove(scope, key, record, working, options)

    async def _end_grace(
        self, scope: Scope, key: str, record: Record, working: Object, options: DeleteOptions
    ) -> tuple[Deleted | None, Record | None]:
        """Write the end of the grace period, and remove the object.

        Watchers see both, as from kube-apiserver: controllers act on an object that is marked. If the removal does not
        follow, the next deletion removes the object.
        """
        marked, current = await self._mark(scope, key, record, working, options)
        if marked is None:
            return None, current
        value = marked.value or record.value
        record = replace(record, value=value, revision=marked.revision)
        done, current = await self._remove(scope, key, record, working, options)
        if done is None and current is None:  # another client has removed it
            return self._result(scope, value, marked.revision, gone=True, uid=marked.uid), None
        return done, current

    async def _mark(
        self, scope: Scope, key: str, record: Record, working: Object, options: DeleteOptions
    ) -> tuple[Deleted | None, Record | None]:
        packed = await self._registry.packed(scope, working)
        uid = working["metadata"].get("uid", "")
        if options.dry_run or await run_step(scope, partial(stored.same, packed, record.value)):
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
            return self._result(scope, record.value, record.revision, gone=True, uid=uid), None
        freed = await self._registry.reserve(scope, None, working)
        outcome = await self._registry.commit(
            (Compare(key, record.revision),), (Delete(key), *freed.operations)
        )
        if outcome.done:
            return self._result(scope, record.value, outcome.revision, gone=True, uid=uid), None
        return None, outcome.failed[0][1]

    def _result(self, scope: Scope, value: bytes, revision: int, *, gone: bool, uid: str) -> Deleted:
        resource = scope.kind.resource
        declared = None if resource.custom else by_plural(resource.group, resource.plural)
        returned = declared is not None and declared.returned_on_deletion
        return Deleted(value if returned else None, revision, gone, uid)

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

    def _refused(self, scope: Scope, precondition: tuple[str, str, str], why: str) -> StatusError:
        """Return the error for a failed precondition.

        Args:
            scope: Scope of the request.
            precondition: Name of the field, the value that the request demands, and the current value.
            why: Message for kinds that are not special.
        """
        resource = scope.kind.resource
        if (resource.group, resource.plural) not in SPECIAL:
            return errors.conflict(resource.kind, resource.storage_group, scope.name, why)
        name, wanted, current = precondition
        message = f"Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {current}"
        return errors.conflict(resource.plural, resource.group, scope.name, message)

    def _grace(self, scope: Scope, working: Object, options: DeleteOptions) -> tuple[bool, bool]:
        """Mark an object for graceful deletion, in place.

        Returns:
            Whether the object was marked, and whether its graceful deletion is already pending and does not change.
        """
        default = scope.kind.behaviour.grace_seconds
        if default is None:
            return False, False
        metadata = working["metadata"]
        requested = options.grace_seconds
        if requested is not None and requested < 0:
            requested = 1
        if metadata.get("deletionTimestamp"):
            return self._shorten(metadata, requested, scope.context.now)
        seconds = default(working, {} if requested is None else {"gracePeriodSeconds": requested})
        metadata["deletionTimestamp"] = later(scope.context.now, seconds)
        metadata["deletionGracePeriodSeconds"] = seconds
        if metadata.get("generation"):
            metadata["generation"] += 1
        return True, False

    @staticmethod
    def _shorten(metadata: Object, requested: int | None, now: str) -> tuple[bool, bool]:
        """Shorten the grace period of an object that is being deleted; see `_grace`."""
        current = metadata.get("deletionGracePeriodSeconds") or 0
        if current == 0:
            return False, False
        if requested is None or requested >= current:
            return False, True
        # The new period counts from the beginning of the deletion, whose period was limited in the same way.
        difference = min(requested, MAX_GRACE_SECONDS) - min(current, MAX_GRACE_SECONDS)
        moved = later(metadata["deletionTimestamp"], difference)
        if moved < now:
            moved, requested = now, min(requested, 1)
        metadata["deletionTimestamp"] = moved
        metadata["deletionGracePeriodSeconds"] = requested
        return True, False

    async def delete_all(self, scope: Scope, names: list[tuple[str, str]], options: DeleteOptions) -> None:
        """Delete the objects of a collection. Objects that are already gone are ignored.

        Args:
            scope: Scope of the request.
            names: (namespace, name) of each object.
            options: Options of the request.

        Raises:
            StatusError: The first refusal. Other objects may have been deleted.
        """
        semaphore = asyncio.Semaphore(CONCURRENT_DELETIONS)

        async def delete_one(namespace: str, name: str) -> None:
            async with semaphore:
                try:
                    await self.delete(
                        replace(scope, namespace=namespace, name=name), options, by="collection"
                    )
                except StatusError as error:
                    if error.code != 404:
                        raise

        await gather([delete_one(namespace, name) for namespace, name in names])


async def gather(work: list[Awaitable[None]]) -> None:
    """Await all. Raises the first error itself, without an exception group, once everything has ended."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def collect(metadata: Object, options: DeleteOptions, resource: tuple[str, str]) -> bool:
    """Set the garbage collector's finalizers according to the options. Returns whether they changed."""
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
    """Return the warnings of a deletion. Deleting a Job orphans its Pods unless the options say otherwise."""
    resource = scope.kind.resource
    has_policy = options.orphan is not None or options.policy is not None
    return [] if has_policy or (resource.group, resource.plural) != ("batch", "jobs") else [JOBS_ORPHAN]


def policy(finalizers: list[str], options: DeleteOptions, resource: tuple[str, str]) -> tuple[bool, bool]:
    """Return whether dependents are orphaned, and whether they are deleted before their owner."""
    if resource == ("", "events"):
        return False, False
    if options.orphan is not None:
        return options.orphan, False
    if options.policy is not None:
        return options.policy == "Orphan", options.policy == "Foreground"
    for each in finalizers:
        if each in (meta.ORPHAN, meta.FOREGROUND):
            return each == meta.ORPHAN, each == meta.FOREGROUND
    declared = by_plural(*resource)
    return declared is not None and declared.orphans_dependents, False


def mark(metadata: Object, now: str) -> None:
    """Mark an object as being deleted without a grace period, in place."""
    if not metadata.get("deletionTimestamp") and metadata.get("generation"):
        metadata["generation"] += 1
    if not metadata.get("deletionTimestamp") or metadata["deletionTimestamp"] > now:
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def later(time: str, seconds: int) -> str:
    """Add seconds, `MAX_GRACE_SECONDS` at most, to an RFC 3339 time in UTC."""
    added = timedelta(seconds=min(seconds, MAX_GRACE_SECONDS))
    moved = datetime.fromisoformat(time.replace("Z", "+00:00")) + added
    return moved.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status_of(scope: Scope, deleted: Deleted) -> Object:
    """Return the Status of the response to a deletion."""
    resource = scope.kind.resource
    details = {"name": scope.name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if deleted.uid:
        details["uid"] = deleted.uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def begin_namespace(working: Object, options: DeleteOptions, now: str) -> Step:
    """Begin the deletion of a namespace. Its contents are deleted first (`registry/core/namespace/storage`)."""
    metadata = working["metadata"]
    if metadata.get("deletionTimestamp"):
        return "waiting" if (working.get("spec") or {}).get("finalizers") else "continue"
    metadata["deletionTimestamp"] = now
    working["status"] = {**(working.get("status") or {}), "phase": "Terminating"}
    if options.orphan is not None or options.policy is not None:
        collect(metadata, options, ("", "namespaces"))
    return "marked"


def begin_definition(working: Object, _: DeleteOptions, now: str) -> Step:
    """Begin the deletion of a CustomResourceDefinition. Its custom resources are deleted first."""
    return "marked" if definition.terminate(working, now) else "continue"


SPECIAL: Mapping[tuple[str, str], BeginDeletion] = {
    ("", "namespaces"): begin_namespace,
    (GROUP, PLURAL): begin_definition,
}
"""(group, plural) of the special kinds, whose contents are deleted first -> how their deletion begins."""
