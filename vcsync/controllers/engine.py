"""Runs controllers, planned and working ones: one watch per resource, one fair queue over all tenants, one committer."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import structlog

from vcsync.controllers.commit import Committer
from vcsync.controllers.mirror import Key, Mirror, Project
from vcsync.controllers.plan import Controller, Look, Outcome, Plan, Watch
from vcsync.controllers.reporting import Reporter
from vcsync.controllers.working import Desk, Worker
from vcsync.fairqueue import FairQueue, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.resources import Resource
from vcsync.tenancy.status import skipped_objects

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
        per_tenant: how many objects of one tenant are in work at once.
    """

    def __init__(
        self,
        server: Client,
        controllers: Sequence[Controller | Worker],
        *,
        serves: Callable[[str], bool] = lambda _tenant: True,
        projects: Mapping[Resource, Project] | None = None,
        per_tenant: int = PER_TENANT,
    ) -> None:
        self._controllers = {each.name: each for each in controllers}
        self._server = server
        self._serves = serves
        everywhere = server.below("/tenants/all")
        self.mirrors = {
            resource: Mirror(everywhere, resource, (projects or {}).get(resource), fields=fields)
            for resource, fields in _resources(controllers).items()
        }
        self.reporter = Reporter(server)
        self._committer = Committer(server, self.mirrors, self.reporter)
        self.work: WorkerPool[Item] = WorkerPool(
            "controllers", self._handle, workers=WORKERS, queue=FairQueue(limit=per_tenant)
        )
        for resource, mirror in self.mirrors.items():
            mirror.subscribe(self._waker(self._watches(resource)))

    async def run(self) -> None:
        """Work until cancelled. Nothing is decided before all mirrors are filled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.reporter.run(), name="events")
                for mirror in self.mirrors.values():
                    tasks.create_task(mirror.reflector.run(), name=mirror.resource.plural)
                for mirror in self.mirrors.values():
                    await mirror.reflector.wait_synced()
                _log.info("controllers began", controllers=len(self._controllers))
                await self.work.run()
        finally:
            for each in self._controllers.values():
                if isinstance(each, Worker) and each.close is not None:
                    await each.close()

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
                    **skipped_objects(mirror.reflector),
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
        if self._serves(key.tenant):
            self.work.add_after(key.tenant, Item(controller, key.namespace, key.name), after)

    def end_tenant(self, tenant: str) -> None:
        """Forget what was to be looked at for a tenant that is not served any more; what is in work ends."""
        self.work.queue.forget_group(tenant)

    def begin_tenant(self, tenant: str) -> None:
        """Look at everything of a tenant that is served from now on."""
        for resource, mirror in self.mirrors.items():
            wake = self._waker(self._watches(resource))
            for envelope in mirror.everything():
                if envelope.tenant == tenant:
                    wake(Change(None, envelope))

    def _watches(self, resource: Resource) -> list[tuple[str, Watch]]:
        """Return who watches a resource, and how."""
        return [
            (controller.name, watch)
            for controller in self._controllers.values()
            for watch in controller.watches
            if watch.resource == resource
        ]

    def _waker(self, watches: Sequence[tuple[str, Watch]]) -> Callable[[Change], None]:
        def wake(change: Change) -> None:
            look = self.look()
            for name, watch in watches:
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
            emit = partial(self._committer.emit, controller.reporter, tenant)
            desk = Desk(self.look(), self._server.below(f"/tenants/{tenant}"), emit)
            return await controller.work(desk, Key(tenant, item.namespace, item.name))
        plan = controller.plan(self.look(), Key(tenant, item.namespace, item.name))
        outcome = await self._commit(controller, tenant, plan)
        if outcome.failures:
            raise outcome.failures[0].error
        return plan.again

    async def _commit(self, controller: Controller, tenant: str, plan: Plan) -> Outcome:
        outcome = await self._committer.steps(controller.reporter, tenant, plan.steps)
        if plan.finish is None:
            return outcome
        last = await self._committer.steps(
            controller.reporter, tenant, [[each] for each in plan.finish(self.look(), outcome)]
        )
        return Outcome(outcome.done, [*outcome.failures, *last.failures])


def _resources(controllers: Iterable[Controller | Worker]) -> dict[Resource, str]:
    """What is looked at, and by which field selector: where two do not agree, all objects are."""
    found: dict[Resource, str] = {}
    for controller in controllers:
        asked = [(watch.resource, watch.fields) for watch in controller.watches]
        for resource, fields in (*asked, *((each, "") for each in controller.reads)):
            found[resource] = fields if found.get(resource, fields) == fields else ""
    return found


def _suffix() -> str:
    return "".join(random.choices(LETTERS, k=5))  # noqa: S311 - a name, no secret
