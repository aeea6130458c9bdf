"""Runs controllers, planned and working ones: one watch per resource, one fair queue over all tenants, one committer."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog

from vcsync.controllers.commit import Committer
from vcsync.controllers.mirror import Key, Mirror, Project
from vcsync.controllers.plan import Controller, Look, Outcome, Plan, Watch
from vcsync.controllers.reporting import Reporter
from vcsync.controllers.working import Desk, Worker
from vcsync.fairqueue import WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.resources import Resource

WORKERS = 64
PER_TENANT = 8
"""Objects of one tenant in work at once: what one waits for does not hold up others."""
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What generated names end in, as in Kubernetes: no vowels, so no words."""

_log = structlog.get_logger(__name__)


class Item(NamedTuple):
    """One object in the hands of one controller."""

    controller: str
    namespace: str
    name: str


class Engine:
    """Controllers at work for all tenants of an embedded control plane.

    Args:
        server: client of the control plane, as a system caller.
        controllers: what runs.
        serves: whether a tenant's controllers run here; others bring their own controller manager.
        projects: how to slim the objects of a resource before they are kept.
    """

    def __init__(
        self,
        server: Client,
        controllers: Sequence[Controller | Worker],
        *,
        serves: Callable[[str], bool] = lambda _tenant: True,
        projects: Mapping[Resource, Project] | None = None,
    ) -> None:
        self._controllers = {each.name: each for each in controllers}
        self._server = server
        self._serves = serves
        everywhere = server.below("/tenants/all")
        self.mirrors = {
            resource: Mirror(everywhere, resource, (projects or {}).get(resource))
            for resource in _resources(controllers)
        }
        self.reporter = Reporter(server)
        self._committer = Committer(server, self.mirrors, self.reporter)
        self.work: WorkerPool[Item] = WorkerPool("controllers", self._handle, workers=WORKERS)
        self._tenants: set[str] = set()
        for controller in controllers:
            for watch in controller.watches:
                self.mirrors[watch.resource].subscribe(self._waker(controller.name, watch))

    async def run(self) -> None:
        """Work until cancelled. Nothing is decided before all mirrors are filled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reporter.run(), name="events")
            for mirror in self.mirrors.values():
                tasks.create_task(mirror.reflector.run(), name=mirror.resource.plural)
            for mirror in self.mirrors.values():
                await mirror.reflector.wait_synced()
            _log.info("controllers began", controllers=len(self._controllers))
            await self.work.run()

    def synced(self) -> bool:
        """Whether everything it decides by has been read."""
        return all(mirror.reflector.synced for mirror in self.mirrors.values())

    def status(self) -> dict[str, Any]:
        """The state of the role as plain JSON values."""
        queue = self.work.queue.statistics()
        return {
            "controllers": sorted(self._controllers),
            "mirrors": {
                mirror.resource.plural: {
                    "objects": len(mirror.reflector.cache),
                    "synced": mirror.reflector.synced,
                }
                for mirror in self.mirrors.values()
            },
            "queue": {"queued": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
            "lastErrors": {
                f"{tenant}: {'/'.join(item)}": error.message
                for (tenant, item), error in self.work.last_errors.items()
            },
        }

    def look(self) -> Look:
        """Return what decisions are made by, now."""
        return Look(self.mirrors, datetime.now(UTC), _suffix)

    def wake(self, controller: str, key: Key, after: float = 0.0) -> None:
        """Have a controller look at an object some seconds later at most, if the tenant's controllers run here."""
        if not self._serves(key.tenant):
            return
        if key.tenant not in self._tenants:
            self._tenants.add(key.tenant)
            self.work.queue.set_limit(key.tenant, PER_TENANT)
        self.work.add_after(key.tenant, Item(controller, key.namespace, key.name), after)

    def _waker(self, name: str, watch: Watch) -> Callable[[Change], None]:
        def wake(change: Change) -> None:
            look = self.look()
            for key in watch.keys(change, look):
                self.wake(name, key, watch.gather(change, look, key) if watch.gather else 0.0)

        return wake

    async def _handle(self, tenant: str, item: Item) -> float | None:
        """Decide about an object and do it.

        Raises:
            KubeError: the first thing that failed; it is looked at again, with backoff.
        """
        controller = self._controllers[item.controller]
        if isinstance(controller, Worker):
            desk = Desk(self.look(), self._server.below(f"/tenants/{tenant}"))
            return await controller.work(desk, Key(tenant, item.namespace, item.name))
        plan = controller.plan(self.look(), Key(tenant, item.namespace, item.name))
        outcome = await self._commit(controller, tenant, plan)
        if outcome.failures:
            raise outcome.failures[0].error
        return plan.again

    async def _commit(self, controller: Controller, tenant: str, plan: Plan) -> Outcome:
        outcome = await self._committer.steps(controller.name, tenant, plan.steps)
        if plan.finish is None:
            return outcome
        last = await self._committer.steps(
            controller.name, tenant, [[each] for each in plan.finish(self.look(), outcome)]
        )
        return Outcome(outcome.done, [*outcome.failures, *last.failures])


def _resources(controllers: Iterable[Controller | Worker]) -> dict[Resource, None]:
    found: dict[Resource, None] = {}
    for controller in controllers:
        found |= dict.fromkeys(watch.resource for watch in controller.watches)
        found |= dict.fromkeys(controller.reads)
    return found


def _suffix() -> str:
    return "".join(random.choices(LETTERS, k=5))  # noqa: S311 - a name, no secret
