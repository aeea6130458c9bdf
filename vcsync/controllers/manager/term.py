"""One term of leadership: the engine with its controllers, and the garbage collector on its mirrors."""

import asyncio
from collections.abc import Sequence
from typing import Any

from vcsync.controllers.framework.engine import PER_TENANT, Engine
from vcsync.controllers.framework.external_tenants import Externals
from vcsync.controllers.framework.plan import Controller
from vcsync.controllers.framework.selector_index import Crowded
from vcsync.controllers.framework.worker import Worker
from vcsync.controllers.garbagecollector.garbage_collector_controller import Collector
from vcsync.controllers.garbagecollector.graph import Node
from vcsync.controllers.resourcequota import resourcequota_controller as quotas
from vcsync.kube.client import Client
from vcsync.kube.resources import RESOURCE_QUOTAS
from vcsync.tenancy.caches import wait_for_caches
from vcsync.tenancy.status import last_errors


class Term:
    """Everything that runs for all tenants while the process leads.

    Args:
        server: client of the control plane's root, as a system caller.
        controllers: the controllers, for tenants that do not bring their own.
        per_tenant: maximum number of one tenant's objects in progress.
    """

    def __init__(
        self, server: Client, controllers: Sequence[Controller | Worker], per_tenant: int = PER_TENANT
    ) -> None:
        self.externals = Externals(server.below("/tenants/system"), self._switched)
        serves = self.externals.serves
        self.engine = Engine(server, controllers, serves=serves, per_tenant=per_tenant)
        self.garbage = Collector(
            server,
            self.engine.mirrors,
            self.engine.reporter,
            serves=serves,
            on_gone=self._gone,
            per_tenant=per_tenant,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.externals.reflector.run(), name="externals")
            await wait_for_caches([self.externals.reflector])
            tasks.create_task(self.engine.run(), name="controllers")
            tasks.create_task(self.garbage.run(), name="garbage")

    def synced(self) -> bool:
        """Return whether all mirrors are filled."""
        return self.engine.synced() and self.garbage.synced()

    def troubles(self) -> str:
        """Return the faults that prevent a part of its work; `/status` reports faults of single tenants."""
        return ""

    def held_back(self) -> str:
        """Return nothing: controllers wait only for the resources they read."""
        return ""

    def status(self) -> dict[str, Any]:
        """Return the state of the role as plain JSON values."""
        return self.engine.status() | {
            "garbage": self.garbage.status(),
            "lastErrors": last_errors(self.engine.work, self.garbage.work),
            "externalControllers": self.externals.names(),
        }

    def _switched(self, tenant: str, external: bool) -> None:
        for part in (self.engine, self.garbage):
            (part.end_tenant if external else part.begin_tenant)(tenant)

    def _gone(self, node: Node) -> None:
        """Recount the quotas that limit the number of objects of a kind."""
        if RESOURCE_QUOTAS not in self.engine.mirrors:
            return
        tenant, resource = node.envelope.tenant, node.resource
        view = self.engine.view()
        try:
            for key in quotas.counting(view, tenant, node.namespace, resource.group, resource.plural):
                self.engine.wake(quotas.NAME, key, quotas.gathered(view, key))
        except Crowded:
            self.engine.wake_all(quotas.NAME, tenant, node.namespace)
