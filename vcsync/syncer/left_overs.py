"""Permits the removal of super namespaces that the ledger does not know.

Only those are counted whose end nobody has seen: the ledger may have lost its entries. A super namespace that is gone, that is
being deleted, or whose entry this super cluster released needs no permission. Tenants make and delete namespaces all the time,
and the copy of one may be made while its drain ends.
"""

from __future__ import annotations

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import SuperCaches, owner_of
from vcsync.syncer.kinds.metadata import belongs_elsewhere
from vcsync.syncer.ledger import Ledger
from vcsync.syncer.steps import in_steps
from vcsync.tenancy.brake import DeletionLimiter


class LeftOvers:
    """Finds and permits super namespaces without entry in the ledger.

    Args:
        super_client: client of the super cluster.
        super_id: its id.
        caches: its caches.
        ledger: the ledger's entries of the super cluster.
        limiter: the limiter of all tenants.
    """

    def __init__(
        self,
        super_client: Client,
        super_id: str,
        caches: SuperCaches,
        ledger: Ledger,
        limiter: DeletionLimiter,
    ) -> None:
        self._super = super_client
        self._caches = caches
        self._ledger = ledger
        self._limiter = limiter
        self.what = f"namespaces in super cluster {super_id} that the ledger does not know"
        """The objects in the limiter's messages."""

    async def permit(self, tenant: str, namespace: str) -> bool:
        """Permit the removal of one super namespace. The ledger has no entry of it, as a live read has shown.

        Returns:
            Whether there is anything to remove.

        Raises:
            Braked: too many are unknown, so that an operator has to release them.
            KubeError: the super cluster cannot be asked.
        """
        found = await self._live(tenant, namespace)
        if found is None or not self._is_unknown(found, tenant, namespace):
            self.unwanted(tenant, namespace)
        else:
            await self._limiter.require("", self.what, (tenant, namespace), self._count)
        return found is not None

    def unwanted(self, tenant: str, namespace: str) -> None:
        """Record that a super namespace needs no permission. The brake ends if that holds for all of them."""
        self._limiter.unwanted("", self.what, (tenant, namespace))

    async def _live(self, tenant: str, namespace: str) -> Envelope | None:
        try:
            found = await self._super.get(NAMESPACES, names.super_namespace(tenant, namespace))
        except NotFound:
            return None
        return found if is_ours(found, tenant) and not belongs_elsewhere(found, tenant, namespace) else None

    def _is_unknown(self, found: Envelope, tenant: str, namespace: str) -> bool:
        """Return whether nobody has seen why a super namespace is left over."""
        return (
            not found.deleting
            and self._ledger.entry(tenant, namespace) is None
            and not self._ledger.released(tenant, namespace, found.annotations.get(names.UID, ""))
        )

    async def _count(self) -> tuple[int, int]:
        """Count the super namespaces that are unknown, and all."""
        unknown = total = 0
        async for found in in_steps(self._caches.items(NAMESPACES)):
            tenant, namespace = owner_of(found)
            total += 1
            unknown += bool(tenant and namespace) and self._is_unknown(found, tenant, namespace)
        return unknown, total


def is_ours(namespace: Envelope, tenant: str) -> bool:
    """Return whether a namespace of the super cluster is a copy of a tenant's."""
    return (
        namespace.labels.get(names.CONTROLLED) == names.TRUE
        and namespace.annotations.get(names.CLUSTER) == tenant
    )
