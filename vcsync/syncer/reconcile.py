"""Brings pairs into step: plans, has the plan carried out, confirms deletions, and says why an item has to wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from vcsync.api import names
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, TooLarge
from vcsync.kube.resources import NAMESPACES, PODS, RESOURCE_QUOTAS, SECRETS, Resource
from vcsync.syncer.act import Hands, NameStands, Stale
from vcsync.syncer.caches import TOKENS, node_of
from vcsync.syncer.digests import digest, is_digest
from vcsync.syncer.drift import DriftLedger, Repair, fields
from vcsync.syncer.kinds import metadata, token
from vcsync.syncer.kinds.plan import (
    Action,
    Create,
    Delete,
    Dependency,
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
from vcsync.syncer.ledger import holds
from vcsync.syncer.room import NOTHING, NoRoom, Room, TooFast, demand_of
from vcsync.syncer.steps import in_steps
from vcsync.syncer.waiting import Item, WaitingRoom
from vcsync.syncer.world import Pair, World
from vcsync.tenancy.brake import Braked, Gate
from vcsync.tenancy.proof import WrongControlPlane

ROUNDS = 4
"""Plans made of one item at once, when each finds that the last was made from something stale."""
BRAKED_SECONDS = 60.0
"""When to look again at what waits for an operator."""
REFUSED_AGAIN_SECONDS = 60.0
"""What an API server's rules refused is tried again so much later; a change of the object comes at once anyway."""

_LONGEST_REFUSAL = 700
"""Characters of a super cluster's message that an Event repeats: the remedy after it has to fit, too."""
_EXCEEDED = "exceeded quota"
"""How an API server begins to say that a ResourceQuota has no room."""
_MORE_SLICES = "have the namespace hold more slices: raise cpu or memory in its ResourceQuota"
FAILED_CREATE = "FailedCreate"
"""Event reason: the super cluster refused an object, or has no room for it."""
WAITS_FOR = "WaitsFor"
"""Event reason: an object cannot go down before another one, which was refused."""

log = structlog.get_logger(__name__)


class SliceExhausted(Exception):
    """The super namespace's ResourceQuota has no room yet; retried with backoff."""


class Busy(Exception):
    """What the item was planned from changed each time it was looked at; retried with backoff."""


class Parked(Exception):
    """The item cannot be settled now, for a reason that can be asked for."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(wait.reason)
        self.wait = wait


class _Settled(NamedTuple):
    """A pair as it was when nothing was left to do, and what that was decided by."""

    versions: tuple[str, str]
    given: tuple[Placement | None, TenantContext]
    digest: bytes
    """Of the tenant's object, where that may be kept as a digest only."""


class Reconciler:
    """Reconciles the items of one tenant on one super cluster, both directions together.

    Args:
        world: the caches of both sides.
        hands: carries actions out.
        context: the tenant, as its kinds see it now.
        tenant_endpoint: name of the tenant's client, to tell whose answer an error is.
        notify: emits an Event about a tenant object: (kind, item, object, notice).
        room: what the tenant's namespaces may write.
        waiting: where items that wait are parked.
        drift: where repairs are noted.
        gate: lets objects go that nobody was seen to delete.
        prove: raises WrongControlPlane if the control plane is not the tenant's.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        world: World,
        hands: Hands,
        context: Callable[[], TenantContext],
        tenant_endpoint: str,
        notify: Callable[[Kind, Item, Envelope | None, Notify], None],
        room: Room,
        waiting: WaitingRoom,
        drift: DriftLedger,
        gate: Gate,
        prove: Callable[[], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self._gate = gate
        self._prove = prove
        self._world = world
        self._hands = hands
        self._context = context
        self._tenant_endpoint = tenant_endpoint
        self._notify = notify
        self._room = room
        self._waiting = waiting
        self._drift = drift
        self._clock = clock
        self._settled: dict[Item, _Settled] = {}
        self._refusals: dict[Dependency, str] = {}

    async def reconcile(self, item: Item) -> float | None:
        """Bring one pair a step further.

        Returns:
            None when nothing more is to be done until something changes; else the seconds after which to look again.

        Raises:
            Exception: to be retried with backoff.
        """
        try:
            if item.kind == TOKENS:
                return await self._reconcile_token(item)
            kind = self._world.kinds[item.kind]
            entry = self._world.entry(item)
            placed = holds(entry, kind.resource, item.name)
            # A tenant's Pod ends after the super cluster's: that may be when the ledger has let go of its namespace already.
            if not placed and kind.resource != PODS:
                self._let_go(kind, item)
                return None
            return await self._reconcile(kind, item, placed=placed)
        except Parked as parked:
            self._waiting.park(self._world.key, item, parked.wait, now=self._clock())
            return parked.wait.after

    async def unsettled(self, *, pause: float = 0.0) -> AsyncIterator[Item]:
        """Items whose pair is not as it was when it was last settled, and that wait for nothing; found in steps.

        Args:
            pause: seconds to rest between two steps.
        """
        world = self._world
        async for item in in_steps(world.items(), pause=pause):
            if (
                item.kind != TOKENS
                and self._settled_versions(item) != world.pair(world.kinds[item.kind], item, {}).versions
                and self._waiting.reason(world.key, item) is None
            ):
                yield item

    async def _reconcile(self, kind: Kind, item: Item, *, placed: bool) -> float | None:
        met: dict[tuple[Resource, str, str], Envelope] = {}
        for _ in range(ROUNDS):
            pair = self._world.pair(kind, item, met)
            if pair.v is not None and is_digest(pair.v):
                if self._stays(item, pair):
                    return None
                whole = await self._hands.reread(
                    "tenant", kind.resource, item.namespace, item.name, pair.v.uid
                )
                if whole is None:
                    # What comes of it is for the tenant's watch to say; see `Hands.reread`.
                    raise Parked(
                        Wait("the tenant's object is gone, of which its watch has yet to tell", after=2.0)
                    )
                pair = self._world.pair(kind, item, met)
                if pair.v is None or whole.resource_version != pair.v.resource_version:
                    continue
                pair = Pair(whole, pair.p)
            plan = kind.plan(pair.v, pair.p, self._context(), self._world.with_met(met))
            if not placed:
                _refuse_creation(plan, self._world.super_id)
            try:
                await self._carry_out(kind, item, pair, plan)
            except Stale:
                continue
            except NameStands as stands:
                action, existing = stands.action, stands.existing
                met[(action.resource, action.namespace, existing.name)] = existing
                continue
            return self._settle(kind, item, plan)
        raise Busy(f"{item.kind} {item.namespace}/{item.name} changed {ROUNDS} times while it was looked at")

    def _stays(self, item: Item, pair: Pair) -> bool:
        """Whether a settled pair is as it was in all that matters, so that the tenant's object need not be read."""
        settled = self._settled.get(item)
        if settled is None or pair.v is None or pair.p is None:
            return False
        if self._waiting.reason(self._world.key, item) is not None:
            return False
        same = (pair.p.resource_version, digest(pair.v), self._given(item))
        if same != (settled.versions[1], settled.digest, settled.given):
            return False
        self._settled[item] = settled._replace(versions=pair.versions)
        return True

    async def _reconcile_token(self, item: Item) -> float | None:
        """Renew or remove one token Secret; the item is (tenant namespace, name of the Secret)."""
        world = self._world
        secret = world.here.get(SECRETS, world.super_namespace(item.namespace), item.name)
        pod = token.pod_of(secret) if secret is not None else None
        if secret is None or pod is None:
            return None
        v = world.theirs.get(PODS, *pod)
        plan = token.plan(secret, v, self._context(), now=datetime.now(UTC))
        try:
            await self._carry_out(world.kinds[PODS.plural], Item(PODS.plural, *pod), Pair(v, secret), plan)
        except Stale:
            return 1.0
        return plan.wait.after if plan.wait is not None else None

    async def _carry_out(self, kind: Kind, item: Item, pair: Pair, plan: Plan) -> None:
        for action in plan.actions:
            self._note_drift(kind, item, pair, action)
            try:
                with self._taking_room(kind, item, pair, action):
                    await self._hands.carry_out(
                        action,
                        self._context(),
                        confirm=lambda doomed: self._confirm(kind, item, pair, doomed),
                        notify=lambda notice: self._notify(kind, item, pair.v, notice),
                    )
            except NoRoom as error:
                raise self._without_room(kind, item, pair, action, error) from error
            except TooFast as error:
                raise Parked(Wait(f"{_doing(action)}: {error}", after=error.after)) from error
            except (NotFound, Forbidden, Invalid, BadRequest, TooLarge) as error:
                raise self._refused(kind, item, pair, action, error) from error
            if isinstance(action, Create) and pair.v is not None and action.resource == kind.resource:
                self._tell_reserved(kind, item, pair.v)

    def _taking_room(
        self, kind: Kind, item: Item, pair: Pair, action: Action
    ) -> AbstractContextManager[None]:
        demand = demand_of(kind, action, pair.v, pair.p)
        entry = self._world.entry(item)
        if demand == NOTHING or entry is None or entry.room is None:
            return nullcontext()
        place = self._world.super_namespace(item.namespace or item.name)
        return self._room.taking(place, entry.room, demand)

    def _tell_reserved(self, kind: Kind, item: Item, v: Envelope) -> None:
        """Say what of a new object is in our own name and stays behind."""
        if reserved := metadata.reserved_by_tenant(v):
            message = (
                f"{', '.join(reserved)}: reserved for the system; without effect, and not there where Pods run; "
                f"remove it from this {kind.resource.kind}"
            )
            self._notify(kind, item, v, Notify("Warning", metadata.RESERVED_NAMES, message))

    def _settle(self, kind: Kind, item: Item, plan: Plan) -> float | None:
        pair = self._world.pair(kind, item, {})
        self._forget_refusal(kind, item)
        for side in ("super", "tenant") if self._gate.braked else ():
            self._gate.unwanted(self._world.key, self._doomed(kind, side), item)
        if pair.v is None and pair.p is None:
            self._settled.pop(item, None)
        else:
            self._settled[item] = _Settled(
                pair.versions,
                self._given(item),
                digest(pair.v) if kind.digested and pair.v is not None else b"",
            )
        if plan.wait is None:
            self._waiting.settle(self._world.key, item)
            return None
        for dependency in plan.wait.on:
            if why := self._refusals.get(dependency):
                message = f"waits for {dependency.resource.kind} {dependency.name}: {why}"
                self._notify(kind, item, pair.v, Notify("Warning", WAITS_FOR, message))
        self._waiting.park(self._world.key, item, plan.wait, now=self._clock())
        return plan.wait.after

    def _let_go(self, kind: Kind, item: Item) -> None:
        """Forget an item that does not belong here: should it come back, it is new."""
        self._settled.pop(item, None)
        self._forget_refusal(kind, item)
        self._waiting.settle(self._world.key, item)

    async def _confirm(self, kind: Kind, item: Item, pair: Pair, doomed: Delete) -> None:
        """Make sure of a deletion that nobody was seen to ask for: by the source itself, and by their number.

        A source that was emptied or exchanged denies everything, read live or not. So the control plane has to prove
        that it is the tenant's, and deletions that are too many at once wait for an operator.

        Raises:
            Stale: the source stands; nothing may be deleted.
            Parked: it stands in another way that leaves the object where it is, or too many would be deleted.
        """
        what = self._doomed(kind, doomed.side)
        if not self._gate.is_braked(self._world.key, what):
            try:
                await self._prove()
            except WrongControlPlane as error:
                raise Parked(Wait(str(error), after=BRAKED_SECONDS)) from error
            await self._confirm_absence(kind, item, pair, doomed)
        if self._departure_seen(kind, item, pair, doomed):
            return
        try:
            await self._gate.require(self._world.key, what, item, lambda: self._world.lost(kind, doomed.side))
        except Braked as braked:
            raise Parked(Wait(str(braked), after=BRAKED_SECONDS)) from braked

    def _departure_seen(self, kind: Kind, item: Item, pair: Pair, doomed: Delete) -> bool:
        """Whether a watch has told that the source went, or left our sight; a live read has shown that it is gone."""
        if doomed.side == "tenant":
            return self._world.here.departure_seen(doomed.uid)
        shared = pair.p.annotations.get(names.UID, "") if pair.p is not None else ""
        return self._world.theirs.departure_seen(kind.resource, item.namespace, item.name, shared)

    def _doomed(self, kind: Kind, side: Side) -> str:
        where = f"in super cluster {self._world.super_id}" if side == "super" else "in the tenant"
        return f"{kind.resource.plural} {where}"

    async def _confirm_absence(self, kind: Kind, item: Item, pair: Pair, doomed: Delete) -> None:
        """Read the source of a doomed object live; see `plan.Delete`.

        Raises:
            Stale: the source stands; nothing may be deleted.
            Parked: it stands in another way that leaves the object where it is.
        """
        world = self._world
        if doomed.side == "tenant":
            place = world.place(kind, item)
            source = (
                await self._hands.reread("super", kind.resource, *place, "") if place is not None else None
            )
            # With a grace period the tenant's object only begins to end, as the super cluster's has.
            ending = source is not None and source.deleting and doomed.grace_seconds != 0
            if source is not None and source.annotations.get(names.UID) == doomed.uid and not ending:
                raise Stale(f"{item.namespace}/{item.name} stands in super cluster {world.super_id}")
            return
        shared = pair.p.annotations.get(names.UID, "") if pair.p is not None else ""
        source = await self._hands.reread("tenant", kind.resource, item.namespace, item.name, shared)
        if source is None or source.uid != shared or source.deleting:
            return
        if kind.resource != PODS or source.labels.get(names.SUPER_CLUSTER) == world.super_id:
            raise Stale(f"{item.namespace}/{item.name} stands in the tenant")
        if names.split_virtual_node(node_of(source), world.super_id) is not None:
            raise Parked(
                Wait(
                    f"label {names.SUPER_CLUSTER} was changed though the Pod runs on {world.super_id}; "
                    "the pod scheduler restores it",
                    after=30.0,
                )
            )

    def _note_refusal(self, kind: Kind, item: Item, why: str) -> None:
        """Let those who wait for the item's object say why it does not come."""
        place = self._world.place(kind, item)
        if place is not None:
            dependency = Dependency("super", kind.resource, *place)
            self._refusals[dependency] = why
            self._wake(dependency)

    def _forget_refusal(self, kind: Kind, item: Item) -> None:
        """What was refused has come or is wanted no more: those who waited for it look again."""
        place = self._world.place(kind, item) if self._refusals else None
        if place is not None:
            dependency = Dependency("super", kind.resource, *place)
            if self._refusals.pop(dependency, None) is not None:
                self._wake(dependency)

    def _wake(self, dependency: Dependency) -> None:
        for sleeper in self._waiting.wake(self._world.key, dependency):
            self._world.enqueue(self._world.key, sleeper)

    def _refused(self, kind: Kind, item: Item, pair: Pair, action: Action, error: ApiError) -> Exception:
        """What to do about an answer that trying again at once would not change."""
        world = self._world
        by_tenant = error.endpoint == self._tenant_endpoint
        message = self._as_tenant_reads(item, error.status.message)
        doing = _doing(action)
        if not by_tenant and kind.resource == PODS and _EXCEEDED in message:
            return SliceExhausted(f"the slices on {world.super_id} are still in use: {message}")
        if isinstance(error, NotFound) or "being terminated" in message:
            place = Dependency("super", NAMESPACES, "", world.super_namespace(item.namespace or item.name))
            return Parked(Wait(f"{doing}: {message}", on=(place,), after=5.0))
        if not by_tenant and pair.v is not None:
            self._tell_refused(
                kind, item, pair.v, action, f"{message[:_LONGEST_REFUSAL]}; {_remedy(kind, error)}"
            )
        log.warning(
            "refused",
            tenant=world.key,
            kind=item.kind,
            namespace=item.namespace,
            name=item.name,
            by="tenant" if by_tenant else "super cluster",
            error=message,
        )
        return Parked(Wait(f"{doing} was refused: {message}", after=REFUSED_AGAIN_SECONDS))

    def _without_room(self, kind: Kind, item: Item, pair: Pair, action: Action, error: NoRoom) -> Parked:
        remedy = f"remove objects or make them smaller, or {_MORE_SLICES}"
        if pair.v is not None:
            self._tell_refused(kind, item, pair.v, action, f"{error}; {remedy}")
        return Parked(Wait(f"{_doing(action)}: {error}", after=REFUSED_AGAIN_SECONDS))

    def _tell_refused(self, kind: Kind, item: Item, v: Envelope, action: Action, why: str) -> None:
        creating = isinstance(action, Create)
        told = f"Error {'creating' if creating else 'updating'}: {why}"
        reason = FAILED_CREATE if creating else "FailedUpdate"
        self._notify(kind, item, v, Notify("Warning", reason, told))
        self._note_refusal(kind, item, told)

    def _settled_versions(self, item: Item) -> tuple[str, str] | None:
        settled = self._settled.get(item)
        return settled.versions if settled is not None else None

    def _given(self, item: Item) -> tuple[Placement | None, TenantContext]:
        """What decides on a super object besides the tenant's object: slices and what the operator has set."""
        entry = self._world.entry(item)
        return (entry.placement if entry is not None else None), self._context()

    def _note_drift(self, kind: Kind, item: Item, pair: Pair, action: Action) -> None:
        """Remember a repair: the super cluster's object changed though all that decides on it is as when both agreed.

        Other slices, another policy and the end of a Pod (whose tokens then go) are no repairs.
        """
        if not isinstance(action, Create | Patch | Delete) or action.side != "super":
            return
        if action.resource not in (kind.resource, RESOURCE_QUOTAS):
            return
        settled = self._settled.get(item)
        if pair.v is None or pair.v.deleting or settled is None:
            return
        if (settled.versions[0], settled.given) != (pair.v.resource_version, self._given(item)):
            return
        match action:
            case Patch():
                what = ", ".join(fields(action.patch)) or "metadata"
            case Create():
                what = "created"
            case Delete():
                what = "deleted"
        self._drift.record(
            Repair(datetime.now(UTC), self._world.key, item.kind, item.namespace, item.name, what)
        )

    def _as_tenant_reads(self, item: Item, message: str) -> str:
        """A super cluster's message without the names that a tenant must not see."""
        namespace = item.namespace or item.name
        message = message.replace(self._world.super_namespace(namespace), namespace)
        return message.replace(f"{self._world.key}-", "").replace(self._world.key, "")


def _refuse_creation(plan: Plan, super_id: str) -> None:
    """Keep a plan from making anything in a namespace that has no slices here, or no longer.

    Raises:
        Parked: the plan would.
    """
    for action in plan.actions:
        if isinstance(action, RequestToken) or (isinstance(action, Create) and action.side == "super"):
            raise Parked(Wait(f"its namespace has no slices on super cluster {super_id}"))


def _remedy(kind: Kind, error: ApiError) -> str:
    """What a tenant can do about a refusal of the super cluster."""
    what = kind.resource.kind
    if _EXCEEDED in error.status.message:
        return f"remove another {what}, or {_MORE_SLICES}"
    if isinstance(error, TooLarge):
        return (
            f"make the {what} smaller: shorten data, and put control characters, six bytes each in JSON, "
            "as binaryData"
        )
    return f"change the {what} accordingly, or ask the operator of the cluster your Pods run on"


def _doing(action: Action) -> str:
    """What an action does, in words for people."""
    where = {"super": "in the super cluster", "tenant": "in the tenant"}
    match action:
        case Create(side=side, resource=resource):
            return f"creating the {resource.kind} {where[side]}"
        case Patch(side=side, resource=resource):
            return f"updating the {resource.kind} {where[side]}"
        case Delete(side=side, resource=resource):
            return f"deleting the {resource.kind} {where[side]}"
        case RequestToken():
            return "requesting a ServiceAccount token of the tenant"
        case _:
            return f"{type(action).__name__} in the tenant"
