"""One term of the tenant controller as leader: it follows Tenants, their templates and VirtualClusters."""

import asyncio
from collections import Counter
from typing import Final

import structlog

from vcsync.api import names
from vcsync.api.resources import TENANT_TEMPLATES, TENANTS, VIRTUAL_CLUSTERS
from vcsync.fairqueue import WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.events import EventRecorder
from vcsync.kube.reflector import Reflector
from vcsync.objects.envelope import untyped
from vcsync.tenancy.status import unanswered
from vcsync.tenantcontroller.control_planes import EmbeddedControlPlanes, ExternalControlPlanes, OpenClient
from vcsync.tenantcontroller.reconcile import Reconciler
from vcsync.tenantcontroller.settings import Settings

COMPONENT: Final = "vcsync-tenants"
ITEM: Final = "tenant"
"""The only item of each Tenant in the queue. Its group is the Tenant's name."""

_log = structlog.get_logger(__name__)


class Leadership:
    """One term as leader. It keeps no state: every step follows from the objects that it reads.

    Args:
        meta: client of the meta cluster.
        server: client of the server that has embedded control planes.
        settings: the operator's settings.
        open_client: opens clients of control planes.
    """

    def __init__(self, meta: Client, server: Client, settings: Settings, open_client: OpenClient) -> None:
        self.tenants = Reflector(meta, TENANTS, sink=self._tenant_changed)
        self.templates = Reflector(meta, TENANT_TEMPLATES, sink=self._template_changed)
        self.virtual_clusters = Reflector(meta, VIRTUAL_CLUSTERS, sink=self._virtual_cluster_changed)
        self._events = EventRecorder(meta, COMPONENT)
        self._reconciler = Reconciler(
            meta,
            embedded=EmbeddedControlPlanes(server, open_client),
            external=ExternalControlPlanes(meta, open_client),
            events=self._events,
            settings=settings,
        )
        self.work: WorkerPool[str] = WorkerPool("tenants", self._handle, workers=settings.workers)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.tenants.run(), name="tenants")
            tasks.create_task(self.templates.run(), name="tenanttemplates")
            tasks.create_task(self.virtual_clusters.run(), name="virtualclusters")
            tasks.create_task(self._events.run(), name="events")
            await self.work.run()

    def synced(self) -> bool:
        """Return whether the caches are filled. Templates are read when they are needed: the cache only tells of changes."""
        return self.tenants.synced and self.virtual_clusters.synced

    def held_back(self) -> str:
        """Return why work does not begin although the caches are filled; empty if it does."""
        return unanswered({"meta cluster": self.tenants})

    def troubles(self) -> str:
        """Return which Tenants are in phase Error; empty if none is."""
        failed = sorted(name for name, phase in self.phases().items() if phase == "Error")
        return f"Tenants in phase Error: {', '.join(failed[:10])}" if failed else ""

    def phases(self) -> dict[str, str]:
        """Return the phases of all Tenants by name; empty while a Tenant has none."""
        return {
            each.name: str((untyped(each.status) if each.status else {}).get("phase") or "")
            for each in self.tenants.cache.items()
        }

    def counts(self) -> Counter[str]:
        """Return the number of Tenants in each phase."""
        return Counter(phase or "Pending" for phase in self.phases().values())

    def _tenant_changed(self, change: Change) -> None:
        tenant = change.new or change.old
        if tenant is None:
            return
        if change.new is None:
            self.work.queue.forget_group(tenant.name)
        elif change.old is None or _is_news(change):
            self.work.add(tenant.name, ITEM)

    def _virtual_cluster_changed(self, change: Change) -> None:
        vc = change.new or change.old
        if vc is not None and vc.namespace == names.DEFAULT_VC_NAMESPACE:
            self.work.add(vc.name, ITEM)

    def _template_changed(self, change: Change) -> None:
        template = change.new or change.old
        if template is None:
            return
        for tenant in self.tenants.cache.items():
            if tenant.spec and untyped(tenant.spec).get("template") == template.name:
                self.work.add(tenant.name, ITEM)

    async def _handle(self, tenant: str, _item: str) -> float | None:
        return await self._reconciler.reconcile(tenant)


def _is_news(change: Change) -> bool:
    """Return whether a Tenant changed in more than its status, which only this controller writes."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    metadata = [
        (each.uid, each.generation, each.annotations, each.finalizers, each.deleting) for each in (old, new)
    ]
    return metadata[0] != metadata[1]
