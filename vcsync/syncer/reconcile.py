"""Reconciles the two objects of an item: plans, executes the plan, confirms deletions, and parks items that must wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog

from vcsync.api import names
from vcsync.api.refusals import ADMISSION, QUOTA
from vcsync.kube.errors import ApiError, BadRequest, Forbidden, Invalid, KubeError, NotFound, TooLarge
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    VOLUME_SNAPSHOTS,
    Resource,
)
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import TOKENS, VOLUMES, node_of, offered
from vcsync.syncer.digests import digest, is_digest
from vcsync.syncer.drift.detector import DriftDetector
from vcsync.syncer.executor import Executor, ObjectExists, Stale, TooEarly
from vcsync.syncer.host_index import HostTaken, Place
from vcsync.syncer.kinds import keys, metadata, persistentvolume, pod_return, token
from vcsync.syncer.kinds.plan import (
    Action,
    Bind,
    ConfirmAbsent,
    Create,
    Delete,
    Dependency,
    EnsureNode,
    Kind,
    Notify,
    Patch,
    Placement,
    Plan,
    RequestToken,
    Side,
    TenantContext,
    Wait,
)
from vcsync.syncer.ledger import Holding, holds
from vcsync.syncer.steps import StepMeter, in_steps
from vcsync.syncer.store_budget import NO_DEMAND, OverBudget, StoreBudget, WritesTooFast, demand_of
from vcsync.syncer.tenant_objects import Pair, TenantObjects
from vcsync.syncer.waiting import Item, ParkedItems
from vcsync.tenancy.brake import Braked, DeletionLimiter
from vcsync.tenancy.proof import WrongControlPlane

ROUNDS = 4
"""Largest number of plans in one reconcile of an item. A plan from an outdated object is made again."""
BRAKED_SECONDS = 60.0
"""Seconds until an item that waits for an operator is reconciled again."""
REFUSED_AGAIN_SECONDS = 60.0
"""Seconds until a write that an API server refused is tried again. A change of the object is handled immediately."""

QUOTA_SECONDS = 10.0
"""Seconds for which the quota of a super namespace is used up, after which a Pod counts as refused there."""

_UNKNOWN_OUTCOME = 500
"""Codes of answers from this one on leave open whether the request was executed."""
_LONGEST_REFUSAL = 700
"""Characters of a super cluster's message that an Event repeats, so that the remedy after it fits into the Event, too."""
_EXCEEDED = "exceeded quota"
"""Text in an API server's message that a ResourceQuota is used up."""
_MORE_SLICES = "have the namespace hold more slices: raise cpu or memory in its ResourceQuota"
_DATA = (PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS)
"""Kinds whose objects are reconciled until the end of a drain."""
MISSING_SECONDS = 60.0
"""Seconds until an object of an optional kind is tried again that one of the servers does not offer."""
NOT_SYNCED = "NotSynced"
"""Event reason: one of the servers does not offer the kind."""
FAILED_CREATE = "FailedCreate"
"""Event reason: the super cluster refused an object, or has no room for it."""
WAITS_FOR = "WaitsFor"
"""Event reason: an object is not created in the super cluster, since it depends on another object that was refused."""

log = structlog.get_logger(__name__)


class SliceExhausted(Exception):
    """The super namespace's ResourceQuota is used up. The item is retried with backoff."""


class Busy(Exception):
    """The item's objects changed during each of `ROUNDS` plans. The item is retried with backoff."""


class Parked(Exception):
    """The item cannot be settled now.

    Args:
        wait: the reason, and the objects whose changes end the wait.
    """

    def __init__(self, wait: Wait) -> None:
        super().__init__(wait.reason)
        self.wait = wait


class _Settled(NamedTuple):
    """The versions of a pair whose plan was empty, and the other inputs of that plan."""

    versions: tuple[str, str]
    inputs: tuple[Placement | None, TenantContext]
    digest: bytes
    """Digest of the tenant's object, for kinds whose objects may be cached as a digest; empty for others."""


class Reconciler:
    """Reconciles the items of one tenant on one super cluster, in both directions.

    Args:
        objects: the cached objects of both sides.
        executor: executes actions.
        context: returns the tenant's settings for the kinds.
        tenant_endpoint: name of the tenant's client, by which its errors are recognized.
        notify: emits an Event about an object in the tenant: (kind, item, object, notice).
        budget: limits the bytes that the tenant may write into the super cluster.
        waiting: the parked items.
        drift: finds and records repairs.
        limiter: permits deletions for which no request was observed, or raises Braked.
        prove: raises WrongControlPlane if the control plane is not the tenant's.
        note: records an action on an item's object in the tenant: (item, description, its resourceVersion).
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        objects: TenantObjects,
        executor: Executor,
        context: Callable[[], TenantContext],
        tenant_endpoint: str,
        notify: Callable[[Kind, Item, Envelope | None, Notify], None],
        budget: StoreBudget,
        waiting: ParkedItems,
        drift: DriftDetector,
        limiter: DeletionLimiter,
        prove: Callable[[], Awaitable[None]],
        note: Callable[[Item, str, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._limiter = limiter
        self._prove = prove
        self._note = note
        self._objects = objects
        self._executor = executor
        self._context = context
        self._tenant_endpoint = tenant_endpoint
        self._notify = notify
        self._budget = budget
        self._waiting = waiting
        self._drift = drift
        self._clock = clock
        self._settled: dict[Item, _Settled] = {}
        self._refusals: dict[Dependency, str] = {}
        self._reported_missing: set[Item] = set()

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one item.

        Returns:
            Seconds until the item is to be reconciled again; None if that is not needed before something changes.

        Raises:
            Exception: the item is to be retried with backoff.
        """
        try:
            if item.kind == TOKENS:
                return await self._reconcile_token(item)
            if item.kind == VOLUMES:
                return await self._reconcile_volume(item)
            kind = self._objects.kinds[item.kind]
            entry = self._objects.entry(item)
            placed = holds(entry, kind.resource, item.name)
            # A tenant's Pod is deleted after the super cluster's Pod. By then the ledger may have no entry any more.
            draining = entry is not None and entry.holding is Holding.DRAINING
            # A drain waits for claims with volumes and for snapshots, until the tenant deletes them.
            ends_here = kind.resource == PODS or (kind.resource in _DATA and draining)
            if not placed and not ends_here:
                self._forget(kind, item)
                return None
            self._require_kind(kind, item)
            return await self._reconcile(kind, item, placed=placed)
        except Parked as parked:
            self._waiting.park(self._objects.key, item, parked.wait, now=self._clock())
            return parked.wait.after

    def _require_kind(self, kind: Kind, item: Item) -> None:
        """Return if both sides offer a kind. Otherwise report it once on each object.

        Raises:
            Parked: they do not.
        """
        unread = self._objects.unread(kind)
        if unread is None:
            self._reported_missing.discard(item)
            return
        side, error = unread
        plural, super_id = kind.resource.plural, self._objects.super_id
        where = f"super cluster {super_id}" if side == "super" else "the tenant"
        pair = self._objects.pair(kind, item, {})
        if error and pair.v is not None and item not in self._reported_missing:
            self._reported_missing.add(item)
            message = f"{plural} are not synced to super cluster {super_id} at present; ask its operator"
            self._notify(kind, item, pair.v, Notify("Warning", NOT_SYNCED, message))
        reason = f"{plural} of {where} cannot be read"
        raise Parked(Wait(reason, (offered(kind.resource),), MISSING_SECONDS))

    async def unsettled(self, *, pause: float = 0.0, meter: StepMeter | None = None) -> AsyncIterator[Item]:
        """Yield the items whose objects have changed since they were settled and that are not parked.

        Args:
            pause: seconds to pause between two steps of the walk; see `in_steps`.
            meter: measures the steps.
        """
        objects = self._objects
        async for item in in_steps(objects.items(), pause=pause, meter=meter):
            if (
                item.kind not in (TOKENS, VOLUMES)
                and self._settled_versions(item) != objects.pair(objects.kinds[item.kind], item, {}).versions
                and self._waiting.reason(objects.key, item) is None
            ):
                yield item

    async def _reconcile(self, kind: Kind, item: Item, *, placed: bool) -> float | None:
        unselected: dict[tuple[Resource, str, str], Envelope] = {}
        for _ in range(ROUNDS):
            pair = self._objects.pair(kind, item, unselected)
            if pair.v is not None and is_digest(pair.v):
                if self._still_settled(item, pair):
                    return None
                whole = await self._executor.reread(
                    "tenant", kind.resource, item.namespace, item.name, pair.v.uid
                )
                if whole is None:
                    # Only the tenant's watch reports deletions to the cache; see `Executor.reread`.
                    raise Parked(
                        Wait("the tenant's object is gone, which its watch has not reported yet", after=2.0)
                    )
                pair = self._objects.pair(kind, item, unselected)
                if pair.v is None or whole.resource_version != pair.v.resource_version:
                    continue
                pair = Pair(whole, pair.p)
            plan = kind.plan(pair.v, pair.p, self._context(), self._objects.with_unselected(unselected))
            if not placed:
                _refuse_creation(plan, self._objects.super_id)
            try:
                await self._execute(kind, item, pair, plan)
            except Stale:
                continue
            except ObjectExists as error:
                action, existing = error.action, error.existing
                unselected[(action.resource, action.namespace, existing.name)] = existing
                continue
            return self._settle(kind, item, plan)
        raise Busy(f"{item.kind} {item.namespace}/{item.name} changed {ROUNDS} times while it was reconciled")

    def _still_settled(self, item: Item, pair: Pair) -> bool:
        """Return whether nothing relevant of a settled pair has changed, so that the tenant's object need not be read."""
        settled = self._settled.get(item)
        if settled is None or pair.v is None or pair.p is None:
            return False
        if self._waiting.reason(self._objects.key, item) is not None:
            return False
        same = (pair.p.resource_version, digest(pair.v), self._inputs(item))
        if same != (settled.versions[1], settled.digest, settled.inputs):
            return False
        self._settled[item] = settled._replace(versions=pair.versions)
        return True

    async def _reconcile_token(self, item: Item) -> float | None:
        """Renew or remove one token Secret. The item has the tenant's namespace and the Secret's name."""
        objects = self._objects
        secret = objects.super_caches.get(SECRETS, objects.super_namespace(item.namespace), item.name)
        pod = token.pod_of(secret) if secret is not None else None
        if secret is None or pod is None:
            return None
        v = objects.tenant_caches.get(PODS, *pod)
        plan = token.plan(secret, v, self._context(), now=datetime.now(UTC))
        try:
            await self._execute(objects.kinds[PODS.plural], Item(PODS.plural, *pod), Pair(v, secret), plan)
        except Stale:
            return 1.0
        return plan.wait.after if plan.wait is not None else None

    async def _reconcile_volume(self, item: Item) -> float | None:
        """Delete one PersistentVolume of the tenant after its claim. The item has the claim's namespace and the volume's name."""
        objects = self._objects
        volume = objects.tenant_caches.get(PERSISTENT_VOLUMES, "", item.name)
        plan = persistentvolume.plan(volume, self._context(), objects)
        try:
            await self._execute(
                objects.kinds[PERSISTENT_VOLUME_CLAIMS.plural], item, Pair(volume, None), plan
            )
        except Stale:
            return 1.0
        if plan.wait is None:
            self._waiting.settle(objects.key, item)
            return None
        self._waiting.park(objects.key, item, plan.wait, now=self._clock())
        return plan.wait.after

    async def _execute(self, kind: Kind, item: Item, pair: Pair, plan: Plan) -> None:
        for action in plan.actions:
            repair = await self._drift.repair(
                action, kind, self._objects.key, item, agreed=self._agreed(kind, item, pair)
            )
            try:
                with self._claim(kind, item, action), self._reserve(kind, item, pair, action):
                    await self._executor.execute(
                        action,
                        self._context(),
                        confirm=lambda doomed: self._confirm(kind, item, pair, doomed),
                        notify=lambda notice: self._notify(kind, item, pair.v, notice),
                    )
            except OverBudget as error:
                raise self._over_budget(kind, item, pair, action, error) from error
            except TooEarly as error:
                raise Parked(Wait(str(error), after=error.after)) from error
            except WritesTooFast as error:
                raise Parked(Wait(f"{_doing(action)}: {error}", after=error.after)) from error
            except (NotFound, Forbidden, Invalid, BadRequest, TooLarge) as error:
                await self._say_refused(kind, pair, action, error)
                raise self._refused(kind, item, pair, action, error) from error
            if repair is not None:
                self._drift.record(repair)
            self._note(item, _doing(action), pair.v.resource_version if pair.v is not None else "")
            if isinstance(action, Create) and pair.v is not None and action.resource == kind.resource:
                self._report_reserved_names(kind, item, pair.v)
            self._report_left_out(kind, item, pair.v, action)

    def _reserve(self, kind: Kind, item: Item, pair: Pair, action: Action) -> AbstractContextManager[None]:
        demand = demand_of(kind, action, pair.v, pair.p)
        entry = self._objects.entry(item)
        if demand == NO_DEMAND or entry is None or entry.byte_limit is None:
            return nullcontext()
        place = self._objects.super_namespace(item.namespace or item.name)
        return self._budget.reserve(place, entry.byte_limit, demand)

    @contextmanager
    def _claim(self, kind: Kind, item: Item, action: Action) -> Iterator[None]:
        """Hold what an action claims in the super cluster, so that concurrent writes of other tenants cannot get it.

        If the outcome of the write is unknown, the claim lasts until the item is settled.

        Raises:
            Stale: somebody else has got it meanwhile.
        """
        place = self._objects.place(kind, item)
        if (
            kind.claims is None
            or place is None
            or not isinstance(action, Create | Patch)
            or action.side != "super"
        ):
            yield
            return
        claims = kind.claims(action.body if isinstance(action, Create) else action.patch)
        try:
            self._objects.hosts.reserve(Place(*place), self._objects.key, claims)
        except HostTaken as error:
            raise Stale("a host belongs to somebody else since the plan was made") from error
        try:
            yield
        except (Stale, ObjectExists, OverBudget, WritesTooFast):
            self._objects.release(kind, item)
            raise
        except ApiError as error:
            if error.status.code < _UNKNOWN_OUTCOME:
                self._objects.release(kind, item)
            raise
        self._objects.release(kind, item)

    def _report_reserved_names(self, kind: Kind, item: Item, v: Envelope) -> None:
        """Emit an Event about labels and annotations of a new object that use reserved names and are not copied."""
        if reserved := metadata.reserved_by_tenant(v):
            message = (
                f"{', '.join(reserved)}: reserved for the system; without effect, and not copied to where Pods run; "
                f"remove it from this {kind.resource.kind}"
            )
            self._notify(kind, item, v, Notify("Warning", metadata.RESERVED_NAMES, message))

    def _report_left_out(self, kind: Kind, item: Item, v: Envelope | None, action: Action) -> None:
        """Emit an Event about labels and annotations without effect, when a write notes them in the copy."""
        if v is None or not isinstance(action, Create | Patch) or action.side != "super":
            return
        body = action.body if isinstance(action, Create) else action.patch
        if text := body.get("metadata", {}).get("annotations", {}).get(names.LEFT_OUT):
            message = keys.left_out_message(kind.resource, text)
            self._notify(kind, item, v, Notify("Warning", keys.ANNOTATIONS_LEFT_OUT, message))

    def _settle(self, kind: Kind, item: Item, plan: Plan) -> float | None:
        pair = self._objects.pair(kind, item, {})
        self._forget_refusal(kind, item)
        self._objects.release(kind, item)
        self._unwanted(kind, item)
        if pair.v is None and pair.p is None:
            self._settled.pop(item, None)
        else:
            self._settled[item] = _Settled(
                pair.versions,
                self._inputs(item),
                digest(pair.v) if kind.digested and pair.v is not None else b"",
            )
        if plan.wait is None:
            self._waiting.settle(self._objects.key, item)
            return None
        for dependency in plan.wait.on:
            if why := self._refusals.get(dependency):
                message = f"waits for {dependency.resource.kind} {dependency.name}: {why}"
                self._notify(kind, item, pair.v, Notify("Warning", WAITS_FOR, message))
        self._waiting.park(self._objects.key, item, plan.wait, now=self._clock())
        return plan.wait.after

    def _forget(self, kind: Kind, item: Item) -> None:
        """Forget an item that does not belong to this super cluster. If it returns, it is treated as a new item."""
        self._settled.pop(item, None)
        self._forget_refusal(kind, item)
        self._objects.release(kind, item)
        self._unwanted(kind, item)
        self._waiting.settle(self._objects.key, item)

    def _unwanted(self, kind: Kind, item: Item) -> None:
        """Record that neither side of an item is to be deleted here, so that the brake does not wait for it."""
        for side in ("super", "tenant") if self._limiter.braked else ():
            self._limiter.unwanted(self._objects.key, self._doomed(kind, side), item)

    async def _confirm(self, kind: Kind, item: Item, pair: Pair, doomed: Delete) -> None:
        """Confirm a deletion without an observed request, by a live read of the source and by the number of deletions.

        A control plane that was emptied or exchanged answers 404 to every read, live or not. Therefore it has to prove
        that it is the tenant's, and too many deletions within the brake's window wait for an operator.

        Raises:
            Stale: the source exists; nothing may be deleted.
            Parked: the source exists in a state that keeps the object, or too many objects would be deleted.
        """
        what = self._doomed(kind, doomed.side)
        # A Pod may have got another super cluster, which its source proves however many other objects are missing.
        may_prove = kind.resource == PODS and doomed.side == "super"
        if may_prove or not self._limiter.is_braked(self._objects.key, what):
            try:
                await self._prove()
            except WrongControlPlane as error:
                raise Parked(Wait(str(error), after=BRAKED_SECONDS)) from error
            if await self._confirm_absence(kind, item, pair, doomed):
                return
        if self._departure_seen(kind, item, pair, doomed) or await self._is_gone(doomed):
            return
        try:
            await self._require(kind, item, doomed.side)
            if kind.resource == NAMESPACES and doomed.side == "super":
                await self._require_contents(item)
        except Braked as braked:
            raise Parked(Wait(str(braked), after=BRAKED_SECONDS)) from braked

    async def _is_gone(self, doomed: Delete) -> bool:
        """Return whether an object that is to be deleted is gone already, so that its deletion needs no permission."""
        found = await self._executor.reread(
            doomed.side, doomed.resource, doomed.namespace, doomed.name, doomed.uid
        )
        return found is None or found.uid != doomed.uid

    async def _require_contents(self, item: Item) -> None:
        """Require permission for every object in a super namespace too: a few namespaces may hold many objects."""
        async for kind, inner, pair in in_steps(self._objects.orphans_within(item.name)):
            doomed = Delete("super", kind.resource, "", inner.name, "")
            if not self._departure_seen(kind, inner, pair, doomed):
                await self._require(kind, inner, doomed.side)

    async def _require(self, kind: Kind, item: Item, side: Side) -> None:
        what = self._doomed(kind, side)
        await self._limiter.require(
            self._objects.key, what, item, lambda: self._objects.count_orphans(kind, side)
        )

    def _departure_seen(self, kind: Kind, item: Item, pair: Pair, doomed: Delete) -> bool:
        """Return whether a watch reported that the source was deleted or left the selection.

        A live read has shown before that it is gone.
        """
        if doomed.side == "tenant":
            return self._objects.super_caches.departure_seen(self._objects.key, doomed.uid)
        shared = pair.p.annotations.get(names.UID, "") if pair.p is not None else ""
        return self._objects.tenant_caches.departure_seen(kind.resource, item.namespace, item.name, shared)

    def _doomed(self, kind: Kind, side: Side) -> str:
        where = f"in super cluster {self._objects.super_id}" if side == "super" else "in the tenant"
        return f"{kind.resource.plural} {where}"

    async def _confirm_absence(self, kind: Kind, item: Item, pair: Pair, doomed: Delete) -> bool:
        """Read the source of an object that is to be deleted live; see `plan.Delete`.

        Returns:
            Whether the source proves that the object is to be deleted: it is a Pod that belongs to another super cluster.
            False if there is no source, which may be missing for other reasons.

        Raises:
            Stale: the source exists; nothing may be deleted.
            Parked: the source exists in a state that keeps the object.
        """
        objects = self._objects
        if doomed.side == "tenant":
            place = objects.place(kind, item)
            source = (
                await self._executor.reread("super", kind.resource, *place, "") if place is not None else None
            )
            # With a grace period the tenant's object only starts to terminate, as the super cluster's object has.
            ending = source is not None and source.deleting and doomed.grace_seconds != 0
            if source is not None and source.annotations.get(names.UID) == doomed.uid and not ending:
                raise Stale(f"{item.namespace}/{item.name} exists in super cluster {objects.super_id}")
            return False
        shared = pair.p.annotations.get(names.UID, "") if pair.p is not None else ""
        source = await self._executor.reread("tenant", kind.resource, item.namespace, item.name, shared)
        if source is None or source.uid != shared or source.deleting:
            return False
        if kind.resource != PODS or source.labels.get(names.SUPER_CLUSTER) == objects.super_id:
            raise Stale(f"{item.namespace}/{item.name} exists in the tenant")
        if names.split_virtual_node(node_of(source), objects.super_id) is not None:
            raise Parked(
                Wait(
                    f"label {names.SUPER_CLUSTER} was changed though the Pod runs on {objects.super_id}; "
                    "the pod scheduler restores it",
                    after=30.0,
                )
            )
        return True

    def _note_refusal(self, kind: Kind, item: Item, why: str) -> None:
        """Remember why an object was refused, and wake the items that wait for it, so that they report the reason."""
        place = self._objects.place(kind, item)
        if place is not None:
            dependency = Dependency("super", kind.resource, *place)
            self._refusals[dependency] = why
            self._wake(dependency)

    def _forget_refusal(self, kind: Kind, item: Item) -> None:
        """Forget a refusal, because the object exists now or is no longer wanted, and wake the items that wait for it."""
        place = self._objects.place(kind, item) if self._refusals else None
        if place is not None:
            dependency = Dependency("super", kind.resource, *place)
            if self._refusals.pop(dependency, None) is not None:
                self._wake(dependency)

    def _wake(self, dependency: Dependency) -> None:
        for item in self._waiting.wake(self._objects.key, dependency):
            self._objects.enqueue(self._objects.key, item)

    def _refused(self, kind: Kind, item: Item, pair: Pair, action: Action, error: ApiError) -> Exception:
        """Return the error to raise for an answer that an immediate retry would not change."""
        objects = self._objects
        by_tenant = error.endpoint == self._tenant_endpoint
        message = self._as_tenant_reads(item, error.status.message)
        doing = _doing(action)
        if not by_tenant and kind.resource == PODS and _EXCEEDED in message:
            return SliceExhausted(f"the slices on {objects.super_id} are still in use: {message}")
        if isinstance(error, NotFound) or "being terminated" in message:
            place = Dependency("super", NAMESPACES, "", objects.super_namespace(item.namespace or item.name))
            return Parked(Wait(f"{doing}: {message}", on=(place,), after=5.0))
        if not by_tenant and pair.v is not None:
            self._report_refusal(
                kind, item, pair.v, action, f"{message[:_LONGEST_REFUSAL]}; {_remedy(kind, error)}"
            )
        log.warning(
            "refused",
            tenant=objects.key,
            kind=item.kind,
            namespace=item.namespace,
            name=item.name,
            by="tenant" if by_tenant else "super cluster",
            error=message,
        )
        return Parked(Wait(f"{doing} was refused: {message}", after=REFUSED_AGAIN_SECONDS))

    async def _say_refused(self, kind: Kind, pair: Pair, action: Action, error: ApiError) -> None:
        """Say on a tenant's Pod that the super cluster refuses its copy, so that it can be placed elsewhere.

        A quota is often used up only until Pods that have ended are no longer counted, so that is said after a while. What
        cannot be written is said at the next attempt.
        """
        v, message = pair.v, error.status.message
        if kind.resource != PODS or v is None or not isinstance(action, Create) or action.resource != PODS:
            return
        if isinstance(error, NotFound) or "being terminated" in message:
            return
        exceeded = _EXCEEDED in message
        if exceeded and self._objects.pending.seconds(v.uid) < QUOTA_SECONDS:
            return
        for said in pod_return.refuse(v, QUOTA if exceeded else ADMISSION, self._context()):
            with suppress(Stale, KubeError):
                await self._executor.execute(said, self._context(), confirm=_never, notify=_never)

    def _over_budget(self, kind: Kind, item: Item, pair: Pair, action: Action, error: OverBudget) -> Parked:
        remedy = f"remove objects or make them smaller, or {_MORE_SLICES}"
        if pair.v is not None:
            self._report_refusal(kind, item, pair.v, action, f"{error}; {remedy}")
        return Parked(Wait(f"{_doing(action)}: {error}", after=REFUSED_AGAIN_SECONDS))

    def _report_refusal(self, kind: Kind, item: Item, v: Envelope, action: Action, why: str) -> None:
        creating = isinstance(action, Create)
        message = f"Error {'creating' if creating else 'updating'}: {why}"
        reason = FAILED_CREATE if creating else "FailedUpdate"
        self._notify(kind, item, v, Notify("Warning", reason, message))
        self._note_refusal(kind, item, message)

    def _settled_versions(self, item: Item) -> tuple[str, str] | None:
        settled = self._settled.get(item)
        return settled.versions if settled is not None else None

    def _inputs(self, item: Item) -> tuple[Placement | None, TenantContext]:
        """Return the inputs of a plan besides the tenant's object: the placement and the tenant's settings."""
        entry = self._objects.entry(item)
        return (entry.placement if entry is not None else None), self._context()

    def _agreed(self, kind: Kind, item: Item, pair: Pair) -> bool | None:
        """Return whether both objects agreed, and the tenant's and all other inputs are the same as then.

        None: they have not agreed since this process started.
        """
        settled = self._settled.get(item)
        if pair.v is None or pair.v.deleting or kind.follows_status:
            return False
        if settled is None:
            return None
        return (settled.versions[0], settled.inputs) == (pair.v.resource_version, self._inputs(item))

    def _as_tenant_reads(self, item: Item, message: str) -> str:
        """Return a super cluster's message without the names that a tenant must not see."""
        namespace = item.namespace or item.name
        message = message.replace(self._objects.super_namespace(namespace), namespace)
        return message.replace(f"{self._objects.key}-", "").replace(self._objects.key, "")


def _never(_action: Any) -> Any:
    """Stand for what a patch does not need."""
    raise AssertionError("a patch is neither confirmed nor reported")


def _refuse_creation(plan: Plan, super_id: str) -> None:
    """Refuse a plan that creates objects in a namespace that has no slices on this super cluster.

    Raises:
        Parked: the plan creates objects.
    """
    for action in plan.actions:
        if isinstance(action, RequestToken) or (isinstance(action, Create) and action.side == "super"):
            raise Parked(Wait(f"its namespace has no slices on super cluster {super_id}"))


def _remedy(kind: Kind, error: ApiError) -> str:
    """Return the tenant's remedy for a refusal of the super cluster."""
    name = kind.resource.kind
    if _EXCEEDED in error.status.message:
        return f"remove another {name}, or {_MORE_SLICES}"
    if isinstance(error, TooLarge):
        return (
            f"make the {name} smaller: shorten data, and put control characters, six bytes each in JSON, "
            "as binaryData"
        )
    return f"change the {name} accordingly, or ask the operator of the cluster your Pods run on"


def _doing(action: Action) -> str:
    """Describe an action in a few words."""
    where = {"super": "in the super cluster", "tenant": "in the tenant"}
    match action:
        case ConfirmAbsent():
            return f"confirming that the {action.resource.kind} is gone {where[action.side]}"
        case Create() | Patch() | Delete():
            return f"{_VERBS[type(action)]} the {action.resource.kind} {where[action.side]}"
        case RequestToken():
            return "requesting a ServiceAccount token of the tenant"
        case Bind(node=node):
            return f"binding the Pod to node {node} in the tenant"
        case Notify(reason=reason):
            return f"reporting Event {reason} in the tenant"
        case EnsureNode(node=node):
            return f"making the virtual node of {node} in the tenant"


_VERBS: Mapping[type, str] = {Create: "creating", Patch: "updating", Delete: "deleting"}
