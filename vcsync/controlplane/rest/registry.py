"""The generic registry's writes: create and update, with everything that is the same for all kinds.

Behaviour: apiserver's `registry/generic/registry/store.go` and `registry/rest/{create,update}.go`.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Behaviour, Object
from vcsync.controlplane.cel import patience
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.flow.budget import LIGHT
from vcsync.controlplane.patch.managed import keep_times
from vcsync.controlplane.rest import meta, stored
from vcsync.controlplane.rest.attempts import attempts
from vcsync.controlplane.rest.claims import AllClaims, Claims, Reservation, joined
from vcsync.controlplane.rest.copies import copied
from vcsync.controlplane.rest.heavy import checked, costly, heavily
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.lifecycle import check_namespace
from vcsync.controlplane.rest.options import DeleteOptions, WriteOptions
from vcsync.controlplane.rest.paging import parse_number
from vcsync.controlplane.rest.scope import Admission, Admit, Operation, Scope
from vcsync.controlplane.rest.storage_limit import StorageLimit
from vcsync.controlplane.rest.subwrites import META_OF_STATUS, SUBWRITES, keep_all_but, keep_meta, reset_meta
from vcsync.controlplane.store.interface import Compare, Delete, Outcome, Put, Record, Store, too_wide

GENERATE_ATTEMPTS = 8
"""So many names of a generateName are tried."""
CLAIM_ATTEMPTS = 32
"""How often a creation starts anew because other writes took what it reserves."""
EVENT_TTL = 3600
"""Seconds that Events are kept: kube-apiserver's --event-ttl."""

Change = Callable[[Object | None], Awaitable[Object]]
"""(served object that stands there, None: nothing) -> the served object that shall stand there."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left: the object in stored form, and whether it is new."""

    value: bytes
    revision: int
    created: bool = False


class Registry:
    """Writes of every kind and tenant."""

    def __init__(
        self,
        store: Store,
        admit: Sequence[Admit] = (),
        claims: Claims | None = None,
        *,
        validate: Sequence[Admit] = (),
        charges: Claims | None = None,
        room: StorageLimit | None = None,
    ) -> None:
        """Take what writes pass.

        Args:
            store: keeps everything.
            admit: asked before each write, in order.
            claims: what writes reserve of what they are given.
            validate: asked, in order, when the kind's own rules have found nothing; objects are working ones.
            charges: what writes that nothing refused count against.
            room: how much each tenant may keep.
        """
        self._room = room or StorageLimit(store)
        self.store = store
        self._admission = admit
        self.reserve: Claims = claims or AllClaims()
        self._validation = validate
        self._charge: Claims = charges or AllClaims()
        self._turns = AllClaims(self.reserve, self._charge)

    async def create(self, scope: Scope, served: Object, options: WriteOptions) -> Written:
        """Create an object.

        Raises:
            StatusError: as the API refuses.
        """
        metadata = served["metadata"]
        prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
        if name or not prefix:
            return await self._create(scope, served, options)
        for attempt in range(1, GENERATE_ATTEMPTS + 1):
            candidate = await heavily(scope, partial(copied, served))
            candidate["metadata"]["name"] = meta.generated(prefix)
            try:
                return await self._create(scope, candidate, options)
            except StatusError as error:
                if error.reason != "AlreadyExists" or attempt == GENERATE_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _create(self, scope: Scope, served: Object, options: WriteOptions) -> Written:
        await check_namespace(self.store, scope, served["metadata"].get("generateName") or "")
        served = await self.admitted(scope, "CREATE", served, None, options)
        scope.standing = False
        async with self._turns.turn(scope):
            return await self._create_in_turn(scope, served, options)

    async def _create_in_turn(self, scope: Scope, served: Object, options: WriteOptions) -> Written:
        for _attempt in range(CLAIM_ATTEMPTS):
            # What is reserved may be taken in between: then everything is chosen anew, on a fresh copy.
            working = await heavily(scope, lambda: scope.kind.working(copied(served)))
            reserved = await self._prepare_create(scope, working, options)
            key = scope.key(working["metadata"]["name"])
            packed = await self.packed(scope.kind, working)
            if options.dry_run:
                record, _ = await self.store.get(key)
                if record is not None:
                    raise self._exists(scope, record)
                return Written(packed, 0, created=True)
            await self._room.require(scope, key, packed, None)
            outcome = await self.commit(
                (Compare(key, 0), *reserved.compares),
                (Put(key, packed, self.ttl(scope.kind)), *reserved.operations),
            )
            if outcome.done:
                return Written(packed, outcome.revision, created=True)
            for failed, there in outcome.failed:
                if failed == key and there is not None:
                    raise self._exists(scope, there)
        raise errors.internal("what the object reserves was taken again and again")

    async def _prepare_create(self, scope: Scope, working: Object, options: WriteOptions) -> Reservation:
        kind, metadata = scope.kind, working["metadata"]
        behaviour = kind.behaviour
        namespaced = kind.resource.namespaced
        meta.settle_namespace(metadata, scope.namespace if namespaced else "")
        meta.fill(metadata, str(uuid.uuid4()), scope.context.now)
        metadata.pop("resourceVersion", None)
        if behaviour.generation:
            metadata["generation"] = 1
        await heavily(scope, partial(behaviour.prepare_create, working, scope.context))
        reserved = await self.reserve(scope, working, None, dry_run=options.dry_run)
        about_meta = partial(
            meta.findings, metadata, resource=kind.resource, own_name=True, behaviour=behaviour
        )
        found = await heavily(scope, about_meta)
        found += await checked(scope, partial(behaviour.validate, working))
        if found:
            raise self._invalid(scope, working, found)
        scope.warn(await checked(scope, partial(behaviour.warnings, working, None)))
        return joined(reserved, await self._charged(scope, "CREATE", working, None, options))

    async def update(
        self,
        scope: Scope,
        change: Change,
        options: WriteOptions,
        *,
        may_create: bool = False,
        uid: str = "",
    ) -> Written:
        """Update an object, or create it where the kind or the caller (`may_create`) allows.

        Args:
            scope: of the request.
            change: called again with what stands there whenever another write came between.
            options: of the request.
            may_create: even if the kind is not created by updates.
            uid: the object must have this one, empty: any.

        Raises:
            StatusError: as the API refuses.
            TooLarge: what stands there is too much for the loop; see `patience.moving`.
        """
        key = scope.key()

        async def attempt(record: Record | None) -> tuple[Written | None, Record | None]:
            if record is not None:
                return await self._try_update(scope, key, record, change, options, uid)
            if not (may_create or scope.kind.behaviour.create_on_update) or scope.subresource:
                raise self.not_found(scope)
            return await self._create_by_update(scope, change, options), None

        written = await attempts(self.store, scope, attempt)
        if written is None:
            raise self.conflict(scope)
        return written

    async def _create_by_update(self, scope: Scope, change: Change, options: WriteOptions) -> Written:
        if scope.kind.refusal:
            raise scope.kind.refusal
        served = await change(None)
        uid = served["metadata"].get("uid")
        if uid and scope.kind.behaviour.create_on_update:
            raise self._uid_conflict(scope, uid, "")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise self.conflict(scope, why)
        meta.wipe(served["metadata"])
        return await self._create(scope, served, options)

    async def _try_update(  # noqa: PLR0917 - one step of `update`
        self, scope: Scope, key: str, record: Record, change: Change, options: WriteOptions, uid: str
    ) -> tuple[Written | None, Record | None]:
        kind = scope.kind
        if patience.movable() and costly(record.value):
            raise patience.TooLarge
        scope.there = len(record.value)
        if scope.there > LIGHT:
            await scope.weigh(scope.there)
        old = await self.load(kind, record)
        old_served = kind.served(old)
        old_uid = old["metadata"].get("uid", "")
        if uid and uid != old_uid:
            raise self._uid_conflict(scope, uid, old_uid)
        served = await change(copied(old_served))
        self._check_version(scope, served["metadata"], record)
        served["metadata"]["resourceVersion"] = str(record.revision)
        # What prepare drops from the request must not reach admission, as in apiserver's order.
        served = await self.admitted(scope, "UPDATE", served, old_served, options)
        working = await heavily(scope, partial(kind.working, served))
        scope.standing = True
        async with self._turns.turn(scope):
            return await self._update_in_turn(scope, key, record, working, old, options)

    async def _update_in_turn(  # noqa: PLR0917 - one step of `update`
        self, scope: Scope, key: str, record: Record, working: Object, old: Object, options: WriteOptions
    ) -> tuple[Written | None, Record | None]:
        kind = scope.kind
        reserved = await self._prepare_update(scope, working, old, options)
        keep_times(old, working)
        if working == old:
            return Written(record.value, record.revision), record
        if finished(kind, working, old):
            return await self._remove(scope, key, record, working, options)
        packed = await self.packed(kind, working)
        if options.dry_run:
            return Written(packed, record.revision), record
        await self._room.require(scope, key, packed, record.value)
        outcome = await self.commit(
            (Compare(key, record.revision), *reserved.compares),
            (Put(key, packed, self.ttl(kind)), *reserved.operations),
        )
        if outcome.done:
            return Written(packed, outcome.revision), None
        return None, await self._lost(outcome, key)

    async def _remove(
        self, scope: Scope, key: str, record: Record, working: Object, options: WriteOptions
    ) -> tuple[Written | None, Record | None]:
        """Delete what an update freed of its last finalizer; the answer is the object."""
        packed = await self.packed(scope.kind, working)
        if options.dry_run:
            return Written(packed, record.revision), record
        reserved = await self.reserve(scope, None, working)
        outcome = await self.commit((Compare(key, record.revision),), (Delete(key), *reserved.operations))
        if outcome.done:
            return Written(packed, record.revision), None
        return None, await self._lost(outcome, key)

    async def _lost(self, outcome: Outcome, key: str) -> Record | None:
        """Return what the next attempt begins with; a condition of the caller's fails there."""
        for failed, there in outcome.failed:
            if failed == key:
                return there
        return (await self.store.get(key))[0]

    async def _prepare_update(
        self, scope: Scope, working: Object, old: Object, options: WriteOptions
    ) -> Reservation:
        kind = scope.kind
        behaviour, resource = kind.behaviour, kind.resource
        metadata, old_metadata = working["metadata"], old["metadata"]
        meta.settle_namespace(metadata, scope.namespace if resource.namespaced else "")
        meta.keep(metadata, old_metadata)
        part = SUBWRITES.get((resource.group, resource.plural, scope.subresource))
        if scope.subresource == "status":
            validate = self._prepare_status(scope, working, old)
        elif part is not None:
            part.prepare(working, old, scope.context)
            move_generation(behaviour, working, old)
            validate = part.validate
        else:
            await heavily(scope, partial(behaviour.prepare_update, working, old, scope.context))
            move_generation(behaviour, working, old)
            validate = behaviour.validate_update
        reserved = await self.reserve(scope, working, old, dry_run=options.dry_run)
        about_meta = partial(meta.findings, metadata, resource=resource, own_name=False, behaviour=behaviour)
        found = await heavily(scope, about_meta)
        changed = meta.update_findings(metadata, old_metadata)
        found += changed
        # The rules of each kind tell these again.
        found += changed if resource.custom else [*changed, *meta.standard_finalizers(metadata)]
        found += await checked(scope, partial(validate, working, old))
        if found:
            raise self._invalid(scope, working, found)
        if scope.subresource in ("", "scale"):
            scope.warn(await checked(scope, partial(behaviour.warnings, working, old)))
        return joined(reserved, await self._charged(scope, "UPDATE", working, old, options))

    def _prepare_status(
        self, scope: Scope, working: Object, old: Object
    ) -> Callable[[Object, Object], list[errors.FieldError]]:
        behaviour = scope.kind.behaviour
        keep_all_but(working, old, "status")
        resource = scope.kind.resource
        if resource.custom:
            keep_meta(working, old)
        elif (resource.group, resource.plural) in META_OF_STATUS:
            reset_meta(working, old)
        if behaviour.status is None:
            return behaviour.validate_update
        behaviour.status.prepare(working, old, scope.context)
        return behaviour.status.validate

    def _check_version(self, scope: Scope, metadata: Object, record: Record) -> None:
        said = metadata.get("resourceVersion") or ""
        if said in ("", "0"):
            if scope.kind.behaviour.unconditional_update:
                metadata.pop("resourceVersion", None)
                return
            resource = scope.kind.resource
            raise errors.invalid(
                resource.plural,
                resource.group,
                scope.name,
                [errors.FieldError(
                    "FieldValueInvalid",
                    "metadata.resourceVersion",
                    "Invalid value: 0: must be specified for an update",
                )],
            )  # fmt: skip
        if parse_number(said) != record.revision:
            raise self.conflict(scope)

    async def admitted(
        self, scope: Scope, operation: Operation, new: Object, old: Object | None, options: WriteOptions
    ) -> Object:
        """Ask admission; it may change the object."""
        if self._admission:
            name = new["metadata"].get("name") or scope.name
            told = options.as_object()
            for each in self._admission:
                await each(Admission(scope, operation, name, new, old, options.dry_run, told))
        return new

    async def _charged(
        self, scope: Scope, operation: Operation, new: Object, old: Object | None, options: WriteOptions
    ) -> Reservation:
        if self._validation:
            name = new["metadata"].get("name") or scope.name
            told = options.as_object()
            for each in self._validation:
                await each(Admission(scope, operation, name, new, old, options.dry_run, told))
        return await self._charge(scope, new, old, dry_run=options.dry_run)

    async def requested(
        self, scope: Scope, operation: Operation, body: Object, options: WriteOptions
    ) -> None:
        """Ask admission about a request of which nothing is kept as it is: a binding, a review; it may change it.

        Raises:
            StatusError: it refuses.
        """
        told = options.as_object() if operation == "CREATE" else {}
        if operation == "CREATE":
            await check_namespace(self.store, scope)
        for each in (*self._admission, *self._validation):
            await each(Admission(scope, operation, scope.name, body, None, options.dry_run, told))

    async def may_delete(
        self, scope: Scope, old: Object, options: DeleteOptions, *, named: bool = True
    ) -> None:
        """Ask admission about a deletion.

        Args:
            scope: of the request.
            old: a working object.
            options: of the request.
            named: whether the request names it; of one for a whole collection admission is told no name.

        Raises:
            StatusError: it refuses.
        """
        if not (self._admission or self._validation):
            return
        served, told = scope.kind.served(old), options.as_object()
        for each in (*self._admission, *self._validation):
            await each(
                Admission(scope, "DELETE", scope.name if named else "", None, served, options.dry_run, told)
            )

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """Commit, whatever becomes of the client: what is on its way to disk has an outcome.

        Raises:
            StatusError: 413, no store could write so much at once.
        """
        if too_wide(compares, operations):
            raise errors.too_large(
                f"the write depends on {len(compares)} objects and reservations and changes {len(operations)}, too many "
                "for one transaction: let the namespace have fewer ResourceQuotas, or the Service fewer ports"
            )
        return await asyncio.shield(asyncio.ensure_future(self.store.txn(compares, operations)))

    async def load(self, kind: Kind, record: Record) -> Object:
        """Return a record's working object."""
        resource = kind.resource
        obj = stored.unpack(record.value, record.revision, resource.kind, resource.storage_api_version)
        return (await kind.load([obj]))[0]

    async def packed(self, kind: Kind, working: Object) -> bytes:
        """Return the stored form of an object."""
        return stored.pack(await kind.store(working), versioned=kind.versioned)

    def ttl(self, kind: Kind) -> int | None:
        """How long objects of a kind are kept, in seconds; None: for ever."""
        resource = kind.resource
        return EVENT_TTL if resource.plural == "events" and not resource.storage_group else None

    def not_found(self, scope: Scope) -> StatusError:
        """404."""
        resource = scope.kind.resource
        return errors.not_found(resource.plural, resource.group, scope.name)

    def conflict(self, scope: Scope, why: str = errors.MODIFIED) -> StatusError:
        """409."""
        resource = scope.kind.resource
        return errors.conflict(resource.plural, resource.group, scope.name, why)

    def _uid_conflict(self, scope: Scope, wanted: str, there: str) -> StatusError:
        return self.conflict(
            scope, f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}"
        )

    def _exists(self, scope: Scope, there: Record) -> StatusError:
        resource = scope.kind.resource
        error = errors.already_exists(resource.plural, resource.group, there.key.rpartition("/")[2])
        if b'"deletionTimestamp":' in there.value and stored.deleting(there.value):
            error.message = f"object is being deleted: {error.message}"
        return error

    def _invalid(self, scope: Scope, working: Object, found: Sequence[errors.FieldError]) -> StatusError:
        resource = scope.kind.resource
        kind, group = resource.kind, resource.storage_group
        if resource.custom:  # it is named as what it says to be, which may be what is wrong
            kind, group = working.get("kind") or kind, (working.get("apiVersion") or "").rpartition("/")[0]
        return errors.invalid(kind, group, working["metadata"].get("name") or "", found)


def move_generation(behaviour: Behaviour, working: Object, old: Object) -> None:
    """Count a change of what generation counts."""
    if behaviour.generation and any(working.get(key) != old.get(key) for key in behaviour.generation):
        working["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def finished(kind: Kind, new: Object, old: Object) -> bool:
    """Tell whether an object that is being deleted has nothing left to wait for."""
    resource, metadata = kind.resource, old["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds"):
        return False
    if resource.plural == "namespaces" and not resource.group and (new.get("spec") or {}).get("finalizers"):
        return False
    return not new["metadata"].get("finalizers")
