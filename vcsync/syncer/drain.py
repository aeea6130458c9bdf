"""Removes a namespace from a super cluster: Pods first, gracefully, then its other objects, then the ledger's finalizer.

While the namespace itself remains, a drain waits for claims with volumes and for snapshots: a placement never destroys data.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog
from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.api.specs import DEFAULT_EVICTION_SECONDS
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, Forbidden, Invalid, NotFound
from vcsync.kube.resources import (
    ENDPOINTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    VOLUME_SNAPSHOTS,
)
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import milli
from vcsync.syncer.availability import Availability
from vcsync.syncer.caches import CONTROLLED_SELECTOR, SuperCaches
from vcsync.syncer.drain_waits import Asked, Waits
from vcsync.syncer.kinds import device_quota
from vcsync.syncer.kinds.grace import limited_grace
from vcsync.syncer.kinds.metadata import belongs_elsewhere
from vcsync.syncer.kinds.token import TERMINAL_PHASES
from vcsync.syncer.ledger import Entry, Holding, Ledger
from vcsync.syncer.left_overs import LeftOvers, is_ours
from vcsync.tenancy.brake import Braked, DeletionLimiter
from vcsync.tenancy.suspension import is_suspended

LOOK_AGAIN_SECONDS = 5.0
"""Seconds until a drain is tried again. Changes of Pods and namespaces continue it immediately."""

MOST_PATIENCE = 4
"""Times `spec.evictionSeconds` after which Pods leave in any case. A tenant could let one go shortly before each limit."""

BLOCKED_SECONDS = 30.0
"""Seconds for which no Pod of a namespace has left, since they wait, after which the namespace counts as blocked."""

BRAKED_SECONDS = 60.0
"""Seconds until a drain that waits for an operator is tried again."""

MOST_NAMED = 5
"""Largest number of claims, and of snapshots, that the reason of a drain names."""

log = structlog.get_logger(__name__)


class _QuotaStatus(Struct, gc=False):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class _Status(Struct, gc=False):
    phase: str = ""


class _Waiting(Struct, frozen=True):
    """The Pods of a namespace that wait: since when any does, since when none has left, and the last one that was refused."""

    first: float
    since: float
    pod: str


class Drain:
    """Drains namespaces from one super cluster. It is level-based: each step works on the objects that still exist.

    A drain does not need the tenant's control plane, so that a tenant that cannot be reached is drained too. When Pods of
    the super cluster terminate, the ordinary upward synchronization deletes the tenant's Pods.

    Attributes:
        reasons: (cluster key, namespace) -> why its drain waits.

    Args:
        meta: client of the meta cluster.
        super_client: client of the super cluster.
        super_id: its id.
        caches: caches of the super cluster.
        ledger: the ledger's entries of the super cluster.
        on_deleted: called with the cluster key and every Pod that is deleted; best effort.
        evict: evicts a Pod in its tenant. Returns why the eviction waits; "" if it does not.
        unbound: returns whether the tenant's Pod of a copy has no node yet, so that it is still to be bound or given back.
        availability: returns who knows which Pods of a namespace may leave during one step; None: all may.
        keeps_data: returns whether a tenant's namespace still exists, so that its volumes must outlive its placement.
        clock: monotonic seconds.
        limiter: permits the removal of namespaces that the ledger does not know, or raises Braked.
    """

    def __init__(
        self,
        *,
        meta: Client,
        super_client: Client,
        super_id: str,
        caches: SuperCaches,
        ledger: Ledger,
        on_deleted: Callable[[str, Envelope], None],
        evict: Callable[[str, Envelope], Awaitable[str]],
        unbound: Callable[[str, Envelope], bool],
        availability: Callable[[str, str], Availability | None],
        keeps_data: Callable[[str, str], Awaitable[bool]],
        limiter: DeletionLimiter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_deleted = on_deleted
        self._evict = evict
        self._unbound = unbound
        self._availability = availability
        self._keeps_data = keeps_data
        self._clock = clock
        self._refused: dict[tuple[str, str], _Waiting] = {}
        self._asked: dict[tuple[str, str], Asked] = {}
        self._meta = meta
        self._super = super_client
        self._super_id = super_id
        self._caches = caches
        self._ledger = ledger
        self._left_overs = LeftOvers(super_client, super_id, caches, ledger, limiter)
        self.reasons: dict[tuple[str, str], str] = {}
        # Those of them that end only when an operator or a tenant does something.
        self._waits_for_others: set[tuple[str, str]] = set()

    def blocked(self) -> dict[tuple[str, str], str]:
        """Return the namespaces whose drains wait for somebody, or whose Pods have waited for a while, with the reasons."""
        waited = self._clock() - BLOCKED_SECONDS
        return {
            key: reason
            for key, reason in self.reasons.items()
            if key in self._waits_for_others or (key in self._refused and self._refused[key].since <= waited)
        }

    async def step(self, tenant: str, namespace: str) -> float | None:
        """Continue the drain of one tenant namespace.

        Returns:
            Seconds until the next step; None if the drain is complete or not needed.

        Raises:
            KubeError: a request failed; call again.
        """
        entry = self._ledger.entry(tenant, namespace)
        if entry is not None and entry.clearing:
            return await self._confirm_clearing(tenant, namespace)
        if self._placed(tenant, namespace) or (entry is None and not await self._orphaned(tenant, namespace)):
            self._settle(tenant, namespace)
            self._forget_waits(tenant, namespace)
            self._left_overs.unwanted(tenant, namespace)
            return None
        if entry is None:
            try:
                left = await self._left_overs.permit(tenant, namespace)
            except Braked as braked:
                self._wait_for_others(tenant, namespace, str(braked))
                return BRAKED_SECONDS
            if not left:
                self._settle(tenant, namespace)
                self._forget_waits(tenant, namespace)
                return None
        return await self._clear(tenant, namespace, entry)

    def _settle(self, tenant: str, namespace: str) -> None:
        self.reasons.pop((tenant, namespace), None)
        self._waits_for_others.discard((tenant, namespace))

    def _rest(self, tenant: str, namespace: str) -> float:
        """Return the seconds until a tenant may be asked about Pods of a namespace; 0 if it may be now."""
        asked = self._asked.get((tenant, namespace))
        return 0.0 if asked is None else max(0.0, asked.again - self._clock())

    def _forget_waits(self, tenant: str, namespace: str) -> None:
        self._refused.pop((tenant, namespace), None)
        self._asked.pop((tenant, namespace), None)

    def _wait_for_others(self, tenant: str, namespace: str, reason: str) -> None:
        self.reasons[(tenant, namespace)] = reason
        self._waits_for_others.add((tenant, namespace))

    async def _clear(self, tenant: str, namespace: str, entry: Entry | None) -> float | None:
        evicts = await self._respects_budgets(tenant, namespace)
        rest = self._rest(tenant, namespace) if evicts else 0.0
        waits = self._asked[(tenant, namespace)].waits if rest else Waits()
        left = await self._clear_pods(tenant, namespace, waits, evicts=evicts, rests=rest > 0)
        if left:
            self._settle(tenant, namespace)
            self.reasons[(tenant, namespace)] = f"{left} Pods have not ended yet{waits.text()}"
            return min(rest or LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS)
        self._forget_waits(tenant, namespace)
        data = _named("claims", self._claims_with_volumes(tenant, namespace))
        data += _named("snapshots", await self._snapshots(tenant, namespace))
        if data and await self._keeps_data(tenant, namespace):
            self._wait_for_others(
                tenant,
                namespace,
                f"it has volumes here, whose data would be lost: {', '.join(data)}; "
                "give the namespace slices here again, by a ResourceQuota if it has none, or have its tenant delete them",
            )
            return LOOK_AGAIN_SECONDS
        if namespace == names.TENANT_DNS_NAMESPACE and self._ledger.needs_name_server(tenant):
            await self._clear_but_name_server(tenant, namespace)
        elif await self._clear_namespace(tenant, namespace):
            self.reasons[(tenant, namespace)] = "the super namespace is still terminating"
            return LOOK_AGAIN_SECONDS
        if entry is not None:
            await self._release(tenant, namespace)
        self._settle(tenant, namespace)
        if self._placed(tenant, namespace):
            return None
        log.info("namespace drained", tenant=tenant, namespace=namespace, super_cluster=self._super_id)
        return None

    def _claims_with_volumes(self, tenant: str, namespace: str) -> list[str]:
        """Return the claims of a namespace that have volumes here, by name.

        Claims are optional. If they cannot be read, the usage of the namespace's ResourceQuota tells whether there are any.
        """
        place = names.super_namespace(tenant, namespace)
        if self._caches.reflectors[PERSISTENT_VOLUME_CLAIMS].synced:
            found = self._caches.items(PERSISTENT_VOLUME_CLAIMS, place)
            return sorted(each.name for each in found if is_bound(each))
        quota = self._caches.get(RESOURCE_QUOTAS, place, names.SUPER_QUOTA_NAME)
        status = decode(quota.status, _QuotaStatus) if quota is not None and quota.status else _QuotaStatus()
        used = status.used.get(PERSISTENT_VOLUME_CLAIMS.plural, "0")
        return [] if used == "0" else [f"(their number: {used}; they cannot be read)"]

    async def _snapshots(self, tenant: str, namespace: str) -> list[str]:
        """Return the snapshots of a namespace here, by name.

        Most super clusters that have not answered do not serve the kind, and then have none. A live read tells.
        """
        place = names.super_namespace(tenant, namespace)
        if self._caches.reflectors[VOLUME_SNAPSHOTS].synced:
            return sorted(each.name for each in self._caches.items(VOLUME_SNAPSHOTS, place))
        try:
            found = await self._super.list(VOLUME_SNAPSHOTS, place, label_selector=CONTROLLED_SELECTOR)
        except (NotFound, Forbidden):  # a syncer without the rights has made none
            return []
        return sorted(each.name for each in found)

    async def _orphaned(self, tenant: str, namespace: str) -> bool:
        """Return whether the ledger has no entry for the namespace. It is read live, since a cache may be outdated."""
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
        except NotFound:
            return True
        self._ledger.reflector.observe(live)
        return self._ledger.entry(tenant, namespace) is None

    def _placed(self, tenant: str, namespace: str) -> bool:
        """Return whether the namespace has slices here. Call this before each deletion, since it may have got some."""
        entry = self._ledger.entry(tenant, namespace)
        return entry is not None and entry.holding is not Holding.DRAINING

    async def _clear_pods(
        self, tenant: str, namespace: str, waits: Waits, *, evicts: bool, rests: bool
    ) -> int:
        """Delete every Pod with its own grace period, limited to a day.

        Args:
            tenant: cluster key.
            namespace: the namespace.
            waits: reasons of Pods that have to wait are added.
            evicts: whether the tenant is asked before a Pod leaves.
            rests: whether it is not asked now, so that the Pods wait that it would be asked about.

        Returns:
            The number of Pods that still exist.
        """
        left, asks = 0, False
        available = self._availability(tenant, namespace) if evicts and not rests else None
        waiting = self._refused.get((tenant, namespace))
        last = waiting.pod if waiting is not None else ""
        pods = sorted(
            self._caches.items(PODS, names.super_namespace(tenant, namespace)),
            key=lambda pod: (pod.name <= last, pod.name),  # begins after the Pod that was refused last
        )
        for pod in pods:
            if belongs_elsewhere(pod, tenant, namespace):
                continue
            left += 1
            grace = limited_grace(pod)
            if (not pod.deleting or grace is not None) and not self._placed(tenant, namespace):
                if evicts and not pod.deleting and not has_ended(pod):
                    if self._is_unbound(tenant, namespace, pod, waits) or rests or waits.many:
                        continue
                    asks = True
                    if not await self._may_leave(tenant, pod, available, waits):
                        self._note_refused(tenant, namespace, pod.name)
                        continue
                    self._note_progress(tenant, namespace)
                try:
                    await self._super.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace)
                except NotFound:
                    self._caches.reflectors[PODS].observe_gone(pod.namespace, pod.name, pod.uid)
                    left -= 1
                except Conflict:
                    continue
                else:
                    if not pod.deleting:
                        self._on_deleted(tenant, pod)
        if asks:
            self._asked[(tenant, namespace)] = Asked(self._clock() + waits.rest, waits)
        return left

    def _is_unbound(self, tenant: str, namespace: str, pod: Envelope, waits: Waits) -> bool:
        """Return whether a Pod has no node in its tenant yet, and note that it waits.

        The tenant's API would remove it at once, and its namesake could run elsewhere beside this copy.
        """
        if not self._unbound(tenant, pod):
            return False
        waits.unbound += 1
        waiting = self._refused.get((tenant, namespace))
        self._note_refused(tenant, namespace, waiting.pod if waiting is not None else "")
        return True

    async def _may_leave(
        self, tenant: str, pod: Envelope, available: Availability | None, waits: Waits
    ) -> bool:
        """Evict a Pod in its tenant, unless its controller or a budget needs it. Return whether it may be deleted here."""
        if available is not None:
            began = self._clock()
            reason = await available.why_stay(pod.name, pod.annotations.get(names.UID, ""))
            waits.answered += self._clock() - began
            if reason:
                waits.replacements[reason] = None
                return False
        if reason := await self._evict(tenant, pod):
            waits.budgets.append(reason)
            return False
        if available is not None:
            available.note_left(pod.name)
        return True

    def _note_refused(self, tenant: str, namespace: str, pod: str) -> None:
        now = self._clock()
        waiting = self._refused.get((tenant, namespace), _Waiting(now, now, pod))
        self._refused[(tenant, namespace)] = replace(waiting, pod=pod)

    def _note_progress(self, tenant: str, namespace: str) -> None:
        """Begin the time again for which Pods wait, since one of them leaves."""
        if (waiting := self._refused.get((tenant, namespace))) is not None:
            self._refused[(tenant, namespace)] = replace(waiting, since=self._clock())

    async def _respects_budgets(self, tenant: str, namespace: str) -> bool:
        """Return whether PodDisruptionBudgets of the tenant are respected, as by `kubectl drain`, and its controllers' Pods.

        Neither counts when the namespace itself is deleted, when its Pods are to run nowhere else, since it has no quota
        or its tenant is suspended, and once none of them has left for `spec.evictionSeconds` of the SuperCluster, or some
        have waited for `MOST_PATIENCE` times as long.
        """
        placement = self._ledger.reflector.cache.get(tenant, namespace)
        if placement is None or placement.deleting or _runs_nowhere(placement):
            return False
        try:
            found = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, self._super_id))
            patience = found.spec.eviction_seconds
        except (NotFound, ValueError):
            patience = DEFAULT_EVICTION_SECONDS
        waiting, now = self._refused.get((tenant, namespace)), self._clock()
        if patience == 0 or waiting is None:
            return patience > 0
        return now - waiting.since < patience and now - waiting.first < patience * MOST_PATIENCE

    async def _clear_but_name_server(self, tenant: str, namespace: str) -> None:
        """Delete everything except the name server, since Pods of the tenant's other namespaces use its Service address."""
        place = names.super_namespace(tenant, namespace)
        for resource, reflector in self._caches.reflectors.items():
            if not resource.namespaced or resource in (PODS, RESOURCE_QUOTAS):
                continue
            for found in list(reflector.cache.items(place)):
                if resource in (SERVICES, ENDPOINTS) and found.name == names.TENANT_DNS_SERVICE:
                    continue
                if found.deleting or belongs_elsewhere(found, tenant, namespace):
                    continue
                if found.labels.get(names.CONTROLLED) != names.TRUE:
                    continue
                try:
                    await self._super.delete(resource, found.name, place, uid=found.uid)
                except NotFound:
                    reflector.observe_gone(place, found.name, found.uid)
                except Conflict:
                    continue

    async def _clear_namespace(self, tenant: str, namespace: str) -> bool:
        """Delete the super namespace with everything in it. Return whether it still exists."""
        super_namespace = names.super_namespace(tenant, namespace)
        try:
            live: Envelope | None = await self._super.get(NAMESPACES, super_namespace)
        except NotFound:
            live = None
        if live is None or not is_ours(live, tenant) or belongs_elsewhere(live, tenant, namespace):
            return False
        if self._placed(tenant, namespace):
            return False
        if not live.deleting:
            try:
                await self._super.delete(NAMESPACES, super_namespace, uid=live.uid)
            except NotFound:
                return False
        return True

    async def _confirm_clearing(self, tenant: str, namespace: str) -> float | None:
        """Remove the clear finalizer when the namespace uses no more than its remaining slices and cannot exceed them.

        A ResourceQuota refuses new objects beyond `status.hard`, but keeps existing ones. So once `status.hard` has the
        new values and `status.used` is within them, the freed slices can be distributed again.
        """
        place = names.super_namespace(tenant, namespace)
        quota = self._caches.get(RESOURCE_QUOTAS, place, names.SUPER_QUOTA_NAME)
        entry = self._ledger.entry(tenant, namespace)
        if (
            quota is None
            or entry is None
            or not _within(quota, entry.placement.hard, entry.placement.devices)
        ):
            reason = "Pods or claims still use more than the slices that are left"
            self._wait_for_others(tenant, namespace, reason)
            return LOOK_AGAIN_SECONDS
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
            self._ledger.reflector.observe(live)
            found = self._ledger.entry(tenant, namespace)
            if found is None or not found.clearing or _limits(found) != _limits(entry):
                return LOOK_AGAIN_SECONDS
            await self._remove_finalizers(live, names.clear_finalizer(self._super_id))
        except (NotFound, Invalid):
            pass
        self._settle(tenant, namespace)
        return None

    async def _remove_finalizers(self, live: Envelope, *finalizers: str) -> None:
        patch: dict[str, Any] = {
            "metadata": {
                "uid": live.uid,
                "resourceVersion": live.resource_version,
                "finalizers": [name for name in live.finalizers if name not in finalizers],
            }
        }
        answer = await self._meta.patch(NAMESPACE_PLACEMENTS, live.name, patch, live.namespace)
        if not (answer.deleting and not answer.finalizers):
            self._ledger.reflector.observe(answer)

    async def _release(self, tenant: str, namespace: str) -> None:
        """Remove the finalizers of this super cluster from the placement, since it has no objects of the namespace."""
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
            self._ledger.reflector.observe(live)
            entry = self._ledger.entry(tenant, namespace)
            if entry is None or entry.holding is not Holding.DRAINING:
                # The scheduler sets the finalizer just before it places slices on the super cluster.
                return
            await self._remove_finalizers(
                live, names.drain_finalizer(self._super_id), names.clear_finalizer(self._super_id)
            )
        except (NotFound, Invalid):
            # The last finalizer has been removed already, and the object with it.
            return


def _runs_nowhere(envelope: Envelope) -> bool:
    """Return whether a namespace is to have no slices on any super cluster."""
    try:
        placement = NamespacePlacement.from_envelope(envelope)
        return is_suspended(placement) or not (placement.spec.slices or placement.status.placements)
    except ValueError:  # the ledger reports entries that cannot be read
        return False


def _limits(entry: Entry) -> tuple[Mapping[str, str], str]:
    return entry.placement.hard, entry.placement.devices


def _within(quota: Envelope, hard: Mapping[str, str], devices: str) -> bool:
    """Return whether a ResourceQuota is in force with `hard` and the limit of each DeviceClass, and the usage is within them.

    The quota names a class from its first claim on. What else it limits no slice gives, and none can free it.
    """
    status = decode(quota.status, _QuotaStatus) if quota.status else _QuotaStatus()
    wanted = {**hard, **device_quota.limits(status.hard, devices)}
    return all(
        name in status.hard
        and milli(status.hard[name]) == milli(amount)
        and milli(status.used.get(name, "0")) <= milli(amount)
        for name, amount in wanted.items()
    )


def is_bound(claim: Envelope) -> bool:
    """Return whether a claim has a volume."""
    return bool(claim.status) and decode(claim.status, _Status).phase == "Bound"


def has_ended(pod: Envelope) -> bool:
    """Return whether a Pod has succeeded or failed."""
    return bool(pod.status) and decode(pod.status, _Status).phase in TERMINAL_PHASES


def _named(kind: str, found: Sequence[str]) -> list[str]:
    """Return a kind with the first of its names, for the reason of a drain; empty if there are none."""
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return [f"{kind} {', '.join(found[:MOST_NAMED])}{more}"] if found else []
