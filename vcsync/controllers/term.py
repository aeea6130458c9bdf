"""One term of leadership: the engine with its controllers, and the garbage collector on its mirrors."""

import asyncio
from collections.abc import Sequence
from typing import Any

from vcsync.controllers import quotas
from vcsync.controllers.engine import PER_TENANT, Engine
from vcsync.controllers.externals import Externals
from vcsync.controllers.garbage import Collector
from vcsync.controllers.gc_graph import Node
from vcsync.controllers.plan import Controller
from vcsync.controllers.working import Worker
from vcsync.kube.client import Client
from vcsync.kube.resources import RESOURCE_QUOTAS


class Term:
    """Everything that works for all tenants while we lead.

    Args:
        server: client of the control plane's root, as a system caller.
        controllers: what runs, for tenants that do not bring their own.
        per_tenant: how many objects of one tenant are in work at once.
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
            await self.externals.reflector.wait_synced()
            tasks.create_task(self.engine.run(), name="controllers")
            tasks.create_task(self.garbage.run(), name="garbage")

    def synced(self) -> bool:
        """Whether everything that decisions are made by has been read."""
        return self.engine.synced() and self.garbage.synced()

    def held_back(self) -> str:
        """Controllers wait for nothing but what they read."""
        return ""

    def status(self) -> dict[str, Any]:
        """The state of the role as plain JSON values."""
        external = {"externalControllers": self.externals.names()}
        return self.engine.status() | {"garbage": self.garbage.status()} | external

    def _switched(self, tenant: str, external: bool) -> None:
        for part in (self.engine, self.garbage):
            (part.end_tenant if external else part.begin_tenant)(tenant)

    def _gone(self, node: Node) -> None:
        """Have the quotas counted anew that limit how many objects of a kind there are."""
        if RESOURCE_QUOTAS not in self.engine.mirrors:
            return
        tenant, resource = node.envelope.tenant, node.resource
        look = self.engine.look()
        for key in quotas.counting(look, tenant, node.namespace, resource.group, resource.plural):
            self.engine.wake(quotas.NAME, key, quotas.gathered(look, key))
