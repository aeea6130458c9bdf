"""Clears what a super cluster holds of a namespace: Pods first and gracefully, then the rest, then the ledger's finalizer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from msgspec import Struct, field

from vcsync.api import names
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.api.specs import DEFAULT_EVICTION_SECONDS
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.errors import Conflict, Invalid, NotFound
from vcsync.kube.quantity import milli
from vcsync.kube.resources import ENDPOINTS, NAMESPACES, PODS, RESOURCE_QUOTAS, SERVICES
from vcsync.syncer.caches import SuperCaches, owner_of
from vcsync.syncer.kinds.metadata import belongs_elsewhere
from vcsync.syncer.kinds.token import TERMINAL_PHASES
from vcsync.syncer.ledger import Entry, Holding, Ledger
from vcsync.syncer.steps import in_steps
from vcsync.tenancy.brake import Braked, Gate

LOOK_AGAIN_SECONDS = 5.0
"""Fallback; the changes of Pods and namespaces wake the drain at once."""

MOST_REFUSALS = 20
"""Pods of a namespace that have to wait for budgets in one look; the next look begins with others."""

BRAKED_SECONDS = 60.0
"""When to look again at what waits for an operator."""

LONGEST_GRACE_SECONDS = 24 * 3600
"""What a Pod may take to end when it has lost its place: a tenant may write any number of years."""

log = structlog.get_logger(__name__)


class _QuotaStatus(Struct, gc=False):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class _PodStatus(Struct, gc=False):
    phase: str = ""


class _PodSpec(Struct, gc=False):
    grace: int | None = field(default=None, name="terminationGracePeriodSeconds")


class Drain:
    """Drains namespaces from one super cluster; level-based: each call looks at what still stands.

    It needs the tenant's control plane for nothing: Pods that go in the super cluster take the tenant's with them by the
    ordinary way up, and a tenant that cannot be reached any more is cleared all the same.

    Args:
        meta: client of the meta cluster.
        super_client: client of the super cluster.
        super_id: its id.
        caches: what it holds.
        ledger: what it should hold.
        tell: hears of every Pod that was asked to go, with its tenant's key; best effort.
        evict: asks a tenant whether a Pod may end: what it has to wait for, "" if nothing.
        clock: monotonic seconds.
        gate: lets namespaces go that the ledger does not know.
    """

    def __init__(
        self,
        *,
        meta: Client,
        super_client: Client,
        super_id: str,
        caches: SuperCaches,
        ledger: Ledger,
        tell: Callable[[str, Envelope], None],
        evict: Callable[[str, Envelope], Awaitable[str]],
        gate: Gate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self._tell = tell
        self._evict = evict
        self._clock = clock
        # Since when Pods of a namespace wait for budgets, and which was the last that had to.
        self._held: dict[tuple[str, str], tuple[float, str]] = {}
        self._meta = meta
        self._super = super_client
        self._super_id = super_id
        self._caches = caches
        self._ledger = ledger
        self._unknown = f"namespaces in super cluster {super_id} that the ledger does not know"
        self.reasons: dict[tuple[str, str], str] = {}

    async def step(self, tenant: str, namespace: str) -> float | None:
        """Take the drain of one tenant namespace a step further.

        Returns:
            None when it is done (or not called for); else seconds until the next look.

        Raises:
            KubeError: to be retried.
        """
        entry = self._ledger.entry(tenant, namespace)
        if entry is not None and entry.clearing:
            return await self._give_back(tenant, namespace)
        if self._placed(tenant, namespace) or (entry is None and not await self._orphaned(tenant, namespace)):
            self.reasons.pop((tenant, namespace), None)
            self._gate.unwanted("", self._unknown, (tenant, namespace))
            return None
        if entry is None and await self._is_braked(tenant, namespace):
            return BRAKED_SECONDS
        return await self._clear(tenant, namespace, entry)

    async def _is_braked(self, tenant: str, namespace: str) -> bool:
        """Whether a namespace that the ledger does not know is one of too many, so that an operator has to look first."""
        try:
            await self._gate.require("", self._unknown, (tenant, namespace), self._count_unknown)
        except Braked as braked:
            self.reasons[(tenant, namespace)] = str(braked)
            return True
        return False

    async def _clear(self, tenant: str, namespace: str, entry: Entry | None) -> float | None:
        budgets: list[str] = []
        left = await self._clear_pods(tenant, namespace, budgets)
        if left:
            waits = (
                f"; waits for PodDisruptionBudgets: {', '.join(dict.fromkeys(budgets))}" if budgets else ""
            )
            self.reasons[(tenant, namespace)] = f"{left} Pods are still to end{waits}"
            return LOOK_AGAIN_SECONDS
        self._held.pop((tenant, namespace), None)
        if namespace == names.TENANT_DNS_NAMESPACE and self._ledger.needs_name_server(tenant):
            await self._clear_but_name_server(tenant, namespace)
        elif await self._clear_namespace(tenant, namespace):
            self.reasons[(tenant, namespace)] = "the super namespace is still terminating"
            return LOOK_AGAIN_SECONDS
        if entry is not None:
            await self._release(tenant, namespace)
        self.reasons.pop((tenant, namespace), None)
        if self._placed(tenant, namespace):
            return None
        log.info("namespace drained", tenant=tenant, namespace=namespace, super_cluster=self._super_id)
        return None

    async def _count_unknown(self) -> tuple[int, int]:
        """How many super namespaces the ledger does not know, and how many there are."""
        unknown = held = 0
        async for tenant, namespace in in_steps(map(owner_of, self._caches.items(NAMESPACES))):
            held += 1
            unknown += bool(tenant and namespace) and self._ledger.entry(tenant, namespace) is None
        return unknown, held

    async def _orphaned(self, tenant: str, namespace: str) -> bool:
        """Whether the ledger, read live, knows nothing of what stands here: a cache may be behind."""
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
        except NotFound:
            return True
        self._ledger.reflector.observe(live)
        return self._ledger.entry(tenant, namespace) is None

    def _placed(self, tenant: str, namespace: str) -> bool:
        """Whether the namespace holds slices here; asked anew before each deletion: it may have got some meanwhile."""
        entry = self._ledger.entry(tenant, namespace)
        return entry is not None and entry.holding is not Holding.DRAINING

    async def _clear_pods(self, tenant: str, namespace: str, budgets: list[str]) -> int:
        """Ask every Pod to go, with its own grace period as far as that is believed; how many still stand.

        What some wait for is added to `budgets`.
        """
        left = 0
        asks = await self._respects_budgets(tenant, namespace)
        _, last = self._held.get((tenant, namespace), (0.0, ""))
        pods = sorted(
            self._caches.items(PODS, names.super_namespace(tenant, namespace)),
            key=lambda pod: (pod.name <= last, pod.name),  # others than last time are asked first
        )
        for pod in pods:
            if belongs_elsewhere(pod, tenant, namespace):
                continue
            left += 1
            grace = _grace(pod)
            if (not pod.deleting or grace is not None) and not self._placed(tenant, namespace):
                if asks and not pod.deleting and not _has_ended(pod):
                    if len(budgets) >= MOST_REFUSALS:
                        continue
                    if reason := await self._evict(tenant, pod):
                        budgets.append(reason)
                        since, _ = self._held.get((tenant, namespace), (self._clock(), ""))
                        self._held[(tenant, namespace)] = (since, pod.name)
                        continue
                try:
                    await self._super.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace)
                except NotFound:
                    self._caches.reflectors[PODS].observe_gone(pod.namespace, pod.name, pod.uid)
                    left -= 1
                except Conflict:
                    continue
                else:
                    if not pod.deleting:
                        self._tell(tenant, pod)
        return left

    async def _respects_budgets(self, tenant: str, namespace: str) -> bool:
        """Whether Pods wait for their tenant's budgets, as in a drained cluster.

        They do not when the namespace itself goes, nor for longer than the operator lets them.
        """
        placement = self._ledger.reflector.cache.get(tenant, namespace)
        if placement is None or placement.deleting:
            return False
        since, _ = self._held.get((tenant, namespace), (None, ""))
        try:
            found = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, self._super_id))
            patience = found.spec.eviction_seconds
        except (NotFound, ValueError):
            patience = DEFAULT_EVICTION_SECONDS
        return patience > 0 and (since is None or self._clock() - since < patience)

    async def _clear_but_name_server(self, tenant: str, namespace: str) -> None:
        """Delete everything else: Pods of the tenant's other namespaces keep for life the address of its Service here."""
        place = names.super_namespace(tenant, namespace)
        for resource, reflector in self._caches.reflectors.items():
            if not resource.namespaced or resource in (PODS, RESOURCE_QUOTAS):
                continue
            for held in list(reflector.cache.items(place)):
                if resource in (SERVICES, ENDPOINTS) and held.name == names.TENANT_DNS_SERVICE:
                    continue
                if held.deleting or belongs_elsewhere(held, tenant, namespace):
                    continue
                try:
                    await self._super.delete(resource, held.name, place, uid=held.uid)
                except NotFound:
                    reflector.observe_gone(place, held.name, held.uid)
                except Conflict:
                    continue

    async def _clear_namespace(self, tenant: str, namespace: str) -> bool:
        """Delete the super namespace, and with it everything else; whether it still has to go."""
        super_namespace = names.super_namespace(tenant, namespace)
        try:
            standing: Envelope | None = await self._super.get(NAMESPACES, super_namespace)
        except NotFound:
            standing = None
        if standing is None or not _ours(standing, tenant) or belongs_elsewhere(standing, tenant, namespace):
            return False
        if self._placed(tenant, namespace):
            return False
        if not standing.deleting:
            try:
                await self._super.delete(NAMESPACES, super_namespace, uid=standing.uid)
            except NotFound:
                return False
        return True

    async def _give_back(self, tenant: str, namespace: str) -> float | None:
        """Say that no more is used than the slices that are left, once that is so and stays so.

        A ResourceQuota lets nothing be made beyond `status.hard`, but what stands stays: with that as it is to be, and no
        more used, nothing of the slices given up is left.
        """
        place = names.super_namespace(tenant, namespace)
        quota = self._caches.get(RESOURCE_QUOTAS, place, names.SUPER_QUOTA_NAME)
        entry = self._ledger.entry(tenant, namespace)
        if quota is None or entry is None or not _within(quota, entry.placement.hard):
            self.reasons[(tenant, namespace)] = "Pods still use more than the slices that are left"
            return LOOK_AGAIN_SECONDS
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
            self._ledger.reflector.observe(live)
            found = self._ledger.entry(tenant, namespace)
            if found is None or not found.clearing or found.placement.hard != entry.placement.hard:
                return LOOK_AGAIN_SECONDS
            await self._take_off(live, names.clear_finalizer(self._super_id))
        except (NotFound, Invalid):
            pass
        self.reasons.pop((tenant, namespace), None)
        return None

    async def _take_off(self, live: Envelope, *finalizers: str) -> None:
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
        """Take our finalizer off the placement: nothing of the namespace is left here."""
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
            self._ledger.reflector.observe(live)
            entry = self._ledger.entry(tenant, namespace)
            if entry is None or entry.holding is not Holding.DRAINING:
                # The scheduler sets the finalizer a moment before it gives the super cluster slices.
                return
            await self._take_off(
                live, names.drain_finalizer(self._super_id), names.clear_finalizer(self._super_id)
            )
        except (NotFound, Invalid):
            # The last finalizer is gone already, and the object with it.
            return


def _grace(pod: Envelope) -> int | None:
    """The grace period to delete a Pod with; None if what it says itself, or was granted already, will do."""
    granted = pod.deletion_grace_seconds if pod.deleting else decode(pod.spec, _PodSpec).grace
    return LONGEST_GRACE_SECONDS if granted is not None and granted > LONGEST_GRACE_SECONDS else None


def _within(quota: Envelope, hard: Mapping[str, str]) -> bool:
    """Whether a ResourceQuota is in force with `hard`, and no more than that is used."""
    status = decode(quota.status, _QuotaStatus) if quota.status else _QuotaStatus()
    wanted = {name: milli(text) for name, text in hard.items()}
    in_force = {name: milli(text) for name, text in status.hard.items()}
    return in_force == wanted and all(
        milli(status.used.get(name, "0")) <= amount for name, amount in wanted.items()
    )


def _has_ended(pod: Envelope) -> bool:
    return bool(pod.status) and decode(pod.status, _PodStatus).phase in TERMINAL_PHASES


def _ours(namespace: Envelope, tenant: str) -> bool:
    return (
        namespace.labels.get(names.CONTROLLED) == names.TRUE
        and namespace.annotations.get(names.CLUSTER) == tenant
    )
