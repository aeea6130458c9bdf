"""The generic registry: creates and updates objects of every kind.

Behaviour: apiserver's `registry/generic/registry/store.go` and `registry/rest/{create,update}.go`.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel import cooperative
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds.all_kinds import by_plural
from vcsync.apimachinery.kinds.common.partial_writes import keep_all_but, keep_metadata, reset_metadata
from vcsync.apimachinery.patch.managed import keep_times
from vcsync.apimachinery.strategy import Behaviour, Object
from vcsync.apiserver.flow.memory_budget import LIGHT
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry.assumed_reads import with_assumed_reads
from vcsync.apiserver.registry.guaranteed_update import guaranteed_update
from vcsync.apiserver.registry.namespace_lifecycle import check_namespace
from vcsync.apiserver.registry.offloading import consider, is_expensive, run_rules, run_step
from vcsync.apiserver.registry.storage_limit import StorageLimit
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.claims import AllClaims, Claims, Reservation, joined
from vcsync.apiserver.request.options import DeleteOptions, WriteOptions
from vcsync.apiserver.request.paging import parse_number
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Admission, Admit, Operation, Scope
from vcsync.apiserver.request.tentative import Tentative
from vcsync.apiserver.storage import assumptions
from vcsync.apiserver.storage.interface import (
    Compare,
    Delete,
    Outcome,
    Put,
    Record,
    Store,
    tenant_of,
    too_wide,
)
from vcsync.process.tasks import retrieve

GENERATE_ATTEMPTS = 8
"""Generated names that are tried before a creation fails."""
CLAIM_ATTEMPTS = 32
"""Attempts of a creation whose reservations are taken by other writes."""
EVENT_TTL = 3600
"""Time to live of Events in seconds: the default of kube-apiserver's --event-ttl."""

Change = Callable[[Object | None], Awaitable[Object]]
"""(current object in its served form, or None) -> new object in its served form."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write.

    Attributes:
        value: The object in its stored form.
        revision: Its revision; 0 for a dry run of a creation.
        created: Whether the object is new.
    """

    value: bytes
    revision: int
    created: bool = False


class Registry:
    """Writes objects of every kind and tenant.

    Args:
        store: The store.
        admit: Mutating admission plug-ins, in order.
        claims: What writes reserve, such as addresses.
        validate: Validating admission plug-ins, in order. They see valid objects in their working form.
        charges: What admitted writes count against, such as quotas.
        storage_limit: Limits how much each tenant stores.
    """

    def __init__(
        self,
        store: Store,
        admit: Sequence[Admit] = (),
        claims: Claims | None = None,
        *,
        validate: Sequence[Admit] = (),
        charges: Claims | None = None,
        storage_limit: StorageLimit | None = None,
    ) -> None:
        self._storage_limit = storage_limit or StorageLimit(store)
        self.store = store
        self._assuming = store if isinstance(store, assumptions.AssumingStore) else None
        self._admission = admit
        self.reserve: Claims = claims or AllClaims()
        self._validation = validate
        self._charge: Claims = charges or AllClaims()
        self._turns = AllClaims(self.reserve, self._charge)

    async def create(self, scope: Scope, served: Object, options: WriteOptions) -> Written:
        """Create an object.

        Raises:
            StatusError: The API refuses it.
        """
        metadata = served["metadata"]
        prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
        if name or not prefix:
            return await self._create(scope, served, options)
        for attempt in range(1, GENERATE_ATTEMPTS + 1):
            candidate = await run_step(scope, partial(copied, served))
            candidate["metadata"]["name"] = meta.generated(prefix)
            try:
                return await self._create(scope, candidate, options)
            except StatusError as error:
                if error.reason != "AlreadyExists" or attempt == GENERATE_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _create(self, scope: Scope, served: Object, options: WriteOptions) -> Written:
        if self._assuming is None or assumptions.current() is not None:
            return await self._create_once(scope, served, options)

        async def act() -> Written:
            # Admission changes the object, and another attempt starts from the unchanged one.
            own = await run_step(scope, partial(copied, served))
            return await self._create_once(scope, own, options)

        return await with_assumed_reads(self._assuming, scope, act)

    async def _create_once(self, scope: Scope, served: Object, options: WriteOptions) -> Written:
        await check_namespace(self.store, scope, served["metadata"].get("generateName") or "")
        try:
            served = await self.admitted(scope, "CREATE", served, None, options)
            scope.exists = False
            async with self._turns.turn(scope):
                return await self._create_in_turn(scope, served, options)
        finally:
            for each in scope.tentative:
                each.give_back()
            scope.tentative = []

    async def _create_in_turn(self, scope: Scope, served: Object, options: WriteOptions) -> Written:
        for _attempt in range(CLAIM_ATTEMPTS):
            # Another write may take what this one reserves. The next attempt starts from an unchanged copy.
            working = await run_step(scope, lambda: scope.kind.working(copied(served)))
            reserved = await self._prepare_create(scope, working, options)
            for each in scope.tentative:
                each.prepare(working)
            key = scope.key(working["metadata"]["name"])
            packed = await self.packed(scope, working)
            if options.dry_run:
                record, _ = await self.store.get(key)
                if record is not None:
                    raise self._exists(scope, record)
                return Written(packed, 0, created=True)
            await self._storage_limit.require(scope, key, packed, None)
            outcome = await self.commit(
                (Compare(key, 0), *reserved.compares),
                (Put(key, packed, self.ttl(scope.kind)), *reserved.operations),
                scope.tentative,
            )
            if outcome.done:
                return Written(packed, outcome.revision, created=True)
            for failed, current in outcome.failed:
                if failed == key and current is not None:
                    raise self._exists(scope, current)
        raise errors.internal("other writes took what the object reserves in every attempt")

    async def _prepare_create(self, scope: Scope, working: Object, options: WriteOptions) -> Reservation:
        kind, metadata = scope.kind, working["metadata"]
        behaviour = kind.behaviour
        namespaced = kind.resource.namespaced
        meta.settle_namespace(metadata, scope.namespace if namespaced else "")
        meta.fill(metadata, str(uuid.uuid4()), scope.context.now)
        metadata.pop("resourceVersion", None)
        if behaviour.generation:
            metadata["generation"] = 1
        await run_step(scope, partial(behaviour.prepare_create, working, scope.context))
        reserved = await self.reserve(scope, working, None, dry_run=options.dry_run)
        about_meta = partial(
            meta.findings, metadata, resource=kind.resource, own_name=True, behaviour=behaviour
        )
        found = await run_step(scope, about_meta)
        found += await run_rules(scope, partial(behaviour.validate, working))
        if found:
            raise self._invalid(scope, working, found)
        scope.warn(await run_rules(scope, partial(behaviour.warnings, working, None)))
        return joined(reserved, await self._charged(scope, "CREATE", working, None, options))

    async def update(
        self,
        scope: Scope,
        change: Change,
        options: WriteOptions,
        *,
        may_create: bool = False,
        uid: str = "",
        before: Callable[[Object], Object] | None = None,
    ) -> Written:
        """Update an object, or create it where the kind or the caller (`may_create`) allows.

        Args:
            scope: Scope of the request.
            change: Returns the new object. It is called again with the current object when another write came first.
            options: Options of the request.
            may_create: Whether to create the object even if updates do not create objects of its kind.
            uid: UID that the object must have. Empty: any.
            before: Returns a changed copy of the stored object in its working form, which takes the place of the stored
                object. It has been admitted and is valid, and is written even if `change` adds nothing.

        Raises:
            StatusError: The API refuses the write.
            TooLarge: The stored object is too large for the event loop; see `cooperative.raising_too_long`.
        """
        key = scope.key()

        async def attempt(record: Record | None) -> tuple[Written | None, Record | None]:
            if record is not None:
                return await self._try_update(scope, key, record, change, options, uid, before)
            if not (may_create or scope.kind.behaviour.create_on_update) or scope.subresource:
                raise self.not_found(scope)
            return await self._create_by_update(scope, change, options), None

        async def update() -> Written | None:
            return await guaranteed_update(self.store, scope, attempt)

        written = (
            await update()
            if self._assuming is None
            else await with_assumed_reads(self._assuming, scope, update, own=key)
        )
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
        self,
        scope: Scope,
        key: str,
        record: Record,
        change: Change,
        options: WriteOptions,
        uid: str,
        before: Callable[[Object], Object] | None,
    ) -> tuple[Written | None, Record | None]:
        kind = scope.kind
        if consider(scope, record.value) and cooperative.raises_too_long():
            raise cooperative.TooLarge
        scope.stored_size = len(record.value)
        if scope.stored_size > LIGHT:
            await scope.weigh(scope.stored_size)
        old = await self.load(kind, record)
        old_uid = old["metadata"].get("uid", "")
        if uid and uid != old_uid:
            raise self._uid_conflict(scope, uid, old_uid)
        if before is not None:
            old = before(old)
        old_served = await run_step(scope, partial(kind.served, old))
        served = await change(await run_step(scope, partial(copied, old_served)))
        self._check_version(scope, served["metadata"], record)
        served["metadata"]["resourceVersion"] = str(record.revision)
        # Admission must not see fields that preparing the object drops, as in apiserver.
        served = await self.admitted(scope, "UPDATE", served, old_served, options)
        working = await run_step(scope, partial(kind.working, served))
        scope.exists = True
        async with self._turns.turn(scope):
            return await self._update_in_turn(
                scope, key, record, working, old, options, changed=before is not None
            )

    async def _update_in_turn(  # noqa: PLR0917 - one step of `update`
        self,
        scope: Scope,
        key: str,
        record: Record,
        working: Object,
        old: Object,
        options: WriteOptions,
        *,
        changed: bool,
    ) -> tuple[Written | None, Record | None]:
        kind = scope.kind
        reserved = await self._prepare_update(scope, working, old, options)
        keep_times(old, working)
        if not changed and working == old and not await self._stored_otherwise(scope, working, record):
            return Written(record.value, record.revision), record
        if can_be_removed(kind, working, old):
            return await self._remove(scope, key, record, working, options)
        packed = await self.packed(scope, working)
        if options.dry_run:
            return Written(packed, record.revision), record
        await self._storage_limit.require(scope, key, packed, record.value)
        outcome = await self.commit(
            (Compare(key, record.revision), *reserved.compares),
            (Put(key, packed, self.ttl(kind)), *reserved.operations),
        )
        if outcome.done:
            return Written(packed, outcome.revision), None
        return None, await self._after_conflict(outcome, key)

    async def _stored_otherwise(self, scope: Scope, working: Object, record: Record) -> bool:
        """Return whether writing an unchanged object would change its stored form.

        Its definition may have another storage version or new defaults since, and an update without changes is how
        clients migrate objects. Built-in kinds have one stored form.
        """
        if not scope.kind.resource.custom:
            return False
        packed = await self.packed(scope, working)
        return not await run_step(scope, partial(stored.same, packed, record.value))

    async def _remove(
        self, scope: Scope, key: str, record: Record, working: Object, options: WriteOptions
    ) -> tuple[Written | None, Record | None]:
        """Delete an object whose last finalizer an update removed. The response is the object."""
        packed = await self.packed(scope, working)
        if options.dry_run:
            return Written(packed, record.revision), record
        reserved = await self.reserve(scope, None, working)
        outcome = await self.commit((Compare(key, record.revision),), (Delete(key), *reserved.operations))
        if outcome.done:
            return Written(packed, record.revision), None
        return None, await self._after_conflict(outcome, key)

    async def _after_conflict(self, outcome: Outcome, key: str) -> Record | None:
        """Return the record for the next attempt."""
        for failed, current in outcome.failed:
            if failed == key:
                return current
        return (await self.store.get(key))[0]

    async def _prepare_update(
        self, scope: Scope, working: Object, old: Object, options: WriteOptions
    ) -> Reservation:
        kind = scope.kind
        behaviour, resource = kind.behaviour, kind.resource
        metadata, old_metadata = working["metadata"], old["metadata"]
        meta.settle_namespace(metadata, scope.namespace if resource.namespaced else "")
        meta.keep(metadata, old_metadata)
        declared = None if resource.custom else by_plural(resource.group, resource.plural)
        part = None if declared is None else declared.partial_writes.get(scope.subresource)
        if scope.subresource == "status":
            validate = self._prepare_status(scope, working, old)
        elif part is not None:
            part.prepare(working, old, scope.context)
            move_generation(behaviour, working, old)
            validate = part.validate
        else:
            await run_step(scope, partial(behaviour.prepare_update, working, old, scope.context))
            move_generation(behaviour, working, old)
            validate = behaviour.validate_update
        reserved = await self.reserve(scope, working, old, dry_run=options.dry_run)
        about_meta = partial(
            meta.all_update_findings, metadata, old_metadata, resource=resource, behaviour=behaviour
        )
        found, later = await run_step(scope, about_meta)
        own = await run_rules(scope, partial(validate, working, old))
        if later and validate is behaviour.validate_update:
            first = await run_rules(scope, partial(behaviour.validate, working))
            found += own[: len(first)] + later + own[len(first) :]
        else:
            found += later + own
        if found:
            raise self._invalid(scope, working, found)
        if scope.subresource in ("", "scale"):
            scope.warn(await run_rules(scope, partial(behaviour.warnings, working, old)))
        return joined(reserved, await self._charged(scope, "UPDATE", working, old, options))

    def _prepare_status(
        self, scope: Scope, working: Object, old: Object
    ) -> Callable[[Object, Object], list[errors.FieldError]]:
        behaviour = scope.kind.behaviour
        keep_all_but(working, old, "status")
        resource = scope.kind.resource
        if resource.custom:
            keep_metadata(working, old)
        elif (declared := by_plural(resource.group, resource.plural)) and declared.status_keeps_metadata:
            reset_metadata(working, old)
        if behaviour.status is None:
            return behaviour.validate_update
        behaviour.status.prepare(working, old, scope.context)
        return behaviour.status.validate

    def _check_version(self, scope: Scope, metadata: Object, record: Record) -> None:
        version = metadata.get("resourceVersion") or ""
        if version in ("", "0"):
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
        if parse_number(version) != record.revision:
            raise self.conflict(scope)

    async def admitted(
        self, scope: Scope, operation: Operation, new: Object, old: Object | None, options: WriteOptions
    ) -> Object:
        """Run mutating admission, which may change the object."""
        if self._admission:
            name = new["metadata"].get("name") or scope.name
            sent_options = options.as_object()
            for each in self._admission:
                await each(Admission(scope, operation, name, new, old, options.dry_run, sent_options))
        return new

    async def _charged(
        self, scope: Scope, operation: Operation, new: Object, old: Object | None, options: WriteOptions
    ) -> Reservation:
        if self._validation:
            name = new["metadata"].get("name") or scope.name
            sent_options = options.as_object()
            for each in self._validation:
                await each(Admission(scope, operation, name, new, old, options.dry_run, sent_options))
        return await self._charge(scope, new, old, dry_run=options.dry_run)

    async def admit_and_validate_request(
        self, scope: Scope, operation: Operation, body: Object, options: WriteOptions
    ) -> None:
        """Run admission for a request whose body is not stored, such as a binding or a review.

        Raises:
            StatusError: Admission refuses the request.
        """
        await self.admit_request(scope, operation, body, options)
        await self.validate_request(scope, operation, body, options)

    async def admit_request(
        self, scope: Scope, operation: Operation, body: Object, options: WriteOptions
    ) -> None:
        """Run mutating admission for a request: the first half of `admit_and_validate_request`.

        Raises:
            StatusError: Admission refuses the request.
        """
        if operation == "CREATE":
            await check_namespace(self.store, scope)
        await self._run(self._admission, scope, operation, body, options)

    async def validate_request(
        self, scope: Scope, operation: Operation, body: Object, options: WriteOptions
    ) -> None:
        """Run validating admission for a request: the second half of `admit_and_validate_request`.

        Raises:
            StatusError: Admission refuses the request.
        """
        await self._run(self._validation, scope, operation, body, options)

    async def _run(
        self,
        plugins: Sequence[Admit],
        scope: Scope,
        operation: Operation,
        body: Object,
        options: WriteOptions,
    ) -> None:
        sent_options = options.as_object() if operation == "CREATE" else {}
        for each in plugins:
            await each(Admission(scope, operation, scope.name, body, None, options.dry_run, sent_options))

    async def admit_deletion(
        self, scope: Scope, old: Object, options: DeleteOptions, *, named: bool = True
    ) -> None:
        """Run admission for a deletion.

        Args:
            scope: Scope of the request.
            old: The object in its working form.
            options: Options of the request.
            named: Whether the request names the object. Admission sees no name for deletions of collections.

        Raises:
            StatusError: Admission refuses the deletion.
        """
        if not (self._admission or self._validation):
            return
        served, sent_options = scope.kind.served(old), options.as_object()
        for each in (*self._admission, *self._validation):
            await each(
                Admission(
                    scope, "DELETE", scope.name if named else "", None, served, options.dry_run, sent_options
                )
            )

    async def commit(
        self,
        compares: Sequence[Compare],
        operations: Sequence[Put | Delete],
        tentative: Sequence[Tentative] = (),
    ) -> Outcome:
        """Commit a transaction. Cancellation does not interrupt it, because what is sent to the store may be written.

        Args:
            compares: Its conditions.
            operations: Its changes.
            tentative: What depends on its outcome.

        Raises:
            StatusError: 413, the transaction is too large for the stores.
        """
        if too_wide(compares, operations):
            raise errors.too_large(
                f"the write depends on {len(compares)} objects and reservations and changes {len(operations)}, too many "
                "for one transaction: let the namespace have fewer ResourceQuotas, or the Service fewer ports"
            )
        transaction = asyncio.ensure_future(self.store.txn(compares, operations))
        transaction.add_done_callback(retrieve)
        for each in tentative:
            each.follow(transaction)
        return await asyncio.shield(transaction)

    async def load(self, kind: Kind, record: Record) -> Object:
        """Return the working form of a stored object. Large ones are decoded on a thread, one at a time per tenant."""
        resource, large = kind.resource, is_expensive(record.value)
        unpack = partial(
            stored.unpack, record.value, record.revision, resource.kind, resource.storage_api_version
        )
        obj = await cooperative.evaluate_in_thread(tenant_of(record.key), unpack) if large else unpack()
        return (await kind.load([obj], large=large))[0]

    async def packed(self, scope: Scope, working: Object) -> bytes:
        """Return the stored form of a working object, made on a thread if it is large."""

        async def step(work: Callable[[], Object]) -> Object:
            return await run_step(scope, work)

        kept = await scope.kind.store(working, step)
        return await run_step(scope, partial(stored.pack, kept, versioned=scope.kind.versioned))

    def ttl(self, kind: Kind) -> int | None:
        """Return the time to live of a kind's objects in seconds, or None if they do not expire."""
        resource = kind.resource
        return EVENT_TTL if resource.plural == "events" and not resource.storage_group else None

    def not_found(self, scope: Scope) -> StatusError:
        """Return a 404 for the object of a request."""
        resource = scope.kind.resource
        return errors.not_found(resource.plural, resource.group, scope.name)

    def conflict(self, scope: Scope, why: str = errors.MODIFIED) -> StatusError:
        """Return a 409 for the object of a request."""
        resource = scope.kind.resource
        return errors.conflict(resource.plural, resource.group, scope.name, why)

    def _uid_conflict(self, scope: Scope, wanted: str, current: str) -> StatusError:
        return self.conflict(
            scope, f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {current}"
        )

    def _exists(self, scope: Scope, current: Record) -> StatusError:
        resource = scope.kind.resource
        error = errors.already_exists(resource.plural, resource.group, current.key.rpartition("/")[2])
        if b'"deletionTimestamp":' in current.value and stored.deleting(current.value):
            error.message = f"object is being deleted: {error.message}"
        return error

    def _invalid(self, scope: Scope, working: Object, found: Sequence[errors.FieldError]) -> StatusError:
        resource = scope.kind.resource
        kind, group = resource.kind, resource.storage_group
        if resource.custom:
            # The message names the kind in the body, which may be the field that is wrong.
            kind, group = working.get("kind") or kind, (working.get("apiVersion") or "").rpartition("/")[0]
        return errors.invalid(kind, group, working["metadata"].get("name") or "", found)


def move_generation(behaviour: Behaviour, working: Object, old: Object) -> None:
    """Increase the generation if a field that it counts has changed."""
    if behaviour.generation and any(working.get(key) != old.get(key) for key in behaviour.generation):
        working["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def can_be_removed(kind: Kind, new: Object, old: Object) -> bool:
    """Return whether an object that is being deleted has no finalizers and no grace period left."""
    resource, metadata = kind.resource, old["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds"):
        return False
    if resource.plural == "namespaces" and not resource.group and (new.get("spec") or {}).get("finalizers"):
        return False
    return not new["metadata"].get("finalizers")
