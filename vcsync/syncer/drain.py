"""Clears what a super cluster holds of a namespace: Pods first and gracefully, then the rest, then the ledger's finalizer."""

from __future__ import annotations

from typing import Any

import structlog

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import Conflict, Invalid, NotFound
from vcsync.kube.resources import NAMESPACES, PODS
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.ledger import Holding, Ledger

LOOK_AGAIN_SECONDS = 5.0
"""Fallback; the changes of Pods and namespaces wake the drain at once."""

log = structlog.get_logger(__name__)


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
    """

    def __init__(
        self, *, meta: Client, super_client: Client, super_id: str, caches: SuperCaches, ledger: Ledger
    ) -> None:
        self._meta = meta
        self._super = super_client
        self._super_id = super_id
        self._caches = caches
        self._ledger = ledger
        self.reasons: dict[tuple[str, str], str] = {}

    async def step(self, tenant: str, namespace: str) -> float | None:
        """Take the drain of one tenant namespace a step further.

        Returns:
            None when it is done (or not called for); else seconds until the next look.

        Raises:
            KubeError: to be retried.
        """
        entry = self._ledger.entry(tenant, namespace)
        if entry is not None and entry.holding is Holding.PLACED:
            self.reasons.pop((tenant, namespace), None)
            return None
        if entry is None and not await self._orphaned(tenant, namespace):
            self.reasons.pop((tenant, namespace), None)
            return None
        super_namespace = names.super_namespace(tenant, namespace)
        left = await self._clear_pods(super_namespace)
        if left:
            self.reasons[(tenant, namespace)] = f"{left} Pods are still terminating"
            return LOOK_AGAIN_SECONDS
        if await self._clear_namespace(tenant, super_namespace):
            self.reasons[(tenant, namespace)] = "the super namespace is still terminating"
            return LOOK_AGAIN_SECONDS
        if entry is not None:
            await self._release(tenant, namespace)
        self.reasons.pop((tenant, namespace), None)
        log.info("namespace drained", tenant=tenant, namespace=namespace, super_cluster=self._super_id)
        return None

    async def _orphaned(self, tenant: str, namespace: str) -> bool:
        """Whether the ledger, read live, knows nothing of what stands here: a cache may be behind."""
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
        except NotFound:
            return True
        self._ledger.reflector.observe(live)
        return self._ledger.entry(tenant, namespace) is None

    async def _clear_pods(self, super_namespace: str) -> int:
        """Ask every Pod to go, with its own grace period; how many still stand."""
        left = 0
        for pod in list(self._caches.items(PODS, super_namespace)):
            left += 1
            if not pod.deleting:
                try:
                    await self._super.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
                except NotFound:
                    self._caches.reflectors[PODS].observe_gone(pod.namespace, pod.name, pod.uid)
                    left -= 1
                except Conflict:
                    continue
        return left

    async def _clear_namespace(self, tenant: str, super_namespace: str) -> bool:
        """Delete the super namespace, and with it everything else; whether it still stands."""
        try:
            standing: Envelope | None = await self._super.get(NAMESPACES, super_namespace)
        except NotFound:
            standing = None
        if standing is None or not _ours(standing, tenant):
            return False
        if not standing.deleting:
            try:
                await self._super.delete(NAMESPACES, super_namespace, uid=standing.uid)
            except NotFound:
                return False
        return True

    async def _release(self, tenant: str, namespace: str) -> None:
        """Take our finalizer off the placement: nothing of the namespace is left here."""
        finalizer = names.drain_finalizer(self._super_id)
        try:
            live = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
            self._ledger.reflector.observe(live)
            entry = self._ledger.entry(tenant, namespace)
            if entry is None or entry.holding is Holding.PLACED:
                # The scheduler sets the finalizer a moment before it gives the super cluster slices.
                return
            patch: dict[str, Any] = {
                "metadata": {
                    "uid": live.uid,
                    "resourceVersion": live.resource_version,
                    "finalizers": [name for name in live.finalizers if name != finalizer],
                }
            }
            answer = await self._meta.patch(NAMESPACE_PLACEMENTS, namespace, patch, tenant)
        except (NotFound, Invalid):
            # The last finalizer is gone already, and the object with it.
            return
        if not (answer.deleting and not answer.finalizers):
            self._ledger.reflector.observe(answer)


def _ours(namespace: Envelope, tenant: str) -> bool:
    return (
        namespace.labels.get(names.CONTROLLED) == names.TRUE
        and namespace.annotations.get(names.CLUSTER) == tenant
    )
