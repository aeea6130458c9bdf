"""One term of leadership: the engine with its controllers, and the garbage collector on its mirrors."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from vcsync.controllers import quotas
from vcsync.controllers.engine import Engine
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
        controllers: what runs.
        serves: whether a tenant's controllers run here.
    """

    def __init__(
        self, server: Client, controllers: Sequence[Controller | Worker], *, serves: Callable[[str], bool]
    ) -> None:
        self.engine = Engine(server, controllers, serves=serves)
        self.garbage = Collector(
            server, self.engine.mirrors, self.engine.reporter, serves=serves, on_gone=self._gone
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.engine.run(), name="controllers")
            tasks.create_task(self.garbage.run(), name="garbage")

    def synced(self) -> bool:
        """Whether everything that decisions are made by has been read."""
        return self.engine.synced() and self.garbage.synced()

    def status(self) -> dict[str, Any]:
        """The state of the role as plain JSON values."""
        return self.engine.status() | {"garbage": self.garbage.status()}

    def _gone(self, node: Node) -> None:
        """Have the quotas counted anew that limit how many objects of a kind there are."""
        if RESOURCE_QUOTAS not in self.engine.mirrors:
            return
        tenant, resource = node.envelope.tenant, node.resource
        look = self.engine.look()
        for key in quotas.counting(look, tenant, node.namespace, resource.group, resource.plural):
            self.engine.wake(quotas.NAME, key)
