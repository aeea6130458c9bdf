"""Runs the controllers of all tenants: one watch per resource, one fair queue over all tenants, one committer."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import structlog

from vcsync.controllers.framework.commit import Committer
from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.large_plans import Planner
from vcsync.controllers.framework.mirror import Key, Mirror, Project, key_of, namespace_of
from vcsync.controllers.framework.plan import (
    Action,
    Controller,
    Finish,
    Outcome,
    View,
    Watch,
    first_creations,
)
from vcsync.controllers.framework.reporting import Reporter
from vcsync.controllers.framework.selector_index import SELECTORS, Crowded
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.fairqueue import FairQueue, ObjectName, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.resources import NAMESPACES, Resource
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest
from vcsync.process.marks import run_marked
from vcsync.tenancy.caches import wait_for_caches
from vcsync.tenancy.status import skipped_objects

WORKERS = 64
PER_TENANT = 8
"""Maximum number of one tenant's objects in progress: more than one, so that one that waits does not delay the others."""
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated suffixes, as in Kubernetes: without vowels, so that they form no words."""

EVERYTHING = "/"
"""Name of the item for all objects of a namespace, or of a tenant. No object can have it."""
CROWD_SECONDS, CROWD_PACE, CROWD_MOST_SECONDS = 1.0, 1000.0, 10.0
"""Seconds until all objects of a namespace or tenant are queued, plus their number divided by the pace, up to a maximum."""
STEPS_PER_KEY = 10
"""Steps of a budget that the queueing of one object takes."""

_log = structlog.get_logger(__name__)


class Item(NamedTuple):
    """One object to be reconciled by one controller."""

    controller: str
    namespace: str
    name: str


class Engine:
    """Runs controllers for all tenants of an embedded control plane.

    Args:
        server: client of the control plane, as a system caller.
        controllers: the controllers to run.
        serves: returns whether a tenant's controllers run here; other tenants bring their own controller manager.
        projects: functions that reduce the objects of a resource before they are stored.
        per_tenant: maximum number of one tenant's objects in progress.
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
        everywhere = server.across_tenants()
        self.mirrors = {
            resource: Mirror(
                everywhere,
                resource,
                (projects or {}).get(resource),
                fields=fields,
                selector=SELECTORS.get(resource),
            )
            for resource, fields in _resources(controllers).items()
        }
        self.reporter = Reporter(server)
        self.work: WorkerPool[Item] = WorkerPool(
            "controllers",
            self._handle,
            workers=WORKERS,
            queue=FairQueue(limit=per_tenant),
            controller_of=lambda item: item.controller,
        )
        self._planner = Planner()
        self._committer = Committer(server, self.mirrors, self.reporter, self.work.timeline)
        for resource, mirror in self.mirrors.items():
            mirror.subscribe(self._waker(self._watches(resource)))

    async def run(self) -> None:
        """Reconcile until cancelled, after all mirrors are filled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reporter.run(), name="events")
            for mirror in self.mirrors.values():
                tasks.create_task(mirror.reflector.run(), name=mirror.resource.plural)
            await wait_for_caches([mirror.reflector for mirror in self.mirrors.values()])
            _log.info("controllers began", controllers=len(self._controllers))
            await self.work.run()

    def synced(self) -> bool:
        """Return whether all mirrors are filled."""
        return all(mirror.reflector.synced for mirror in self.mirrors.values())

    def status(self) -> dict[str, Any]:
        """Return the state of the role as plain JSON values."""
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
        }

    def view(self) -> View:
        """Return the current state of all mirrors, and the time."""
        return View(self.mirrors, datetime.now(UTC), _suffix)

    def wake(self, controller: str, key: Key, after: float = 0.0) -> None:
        """Schedule an object for a controller within some seconds, if the tenant's controllers run here."""
        if self._serves(key.tenant):
            self.work.add_after(key.tenant, Item(controller, key.namespace, key.name), after)

    def wake_all(self, controller: str, tenant: str, namespace: str) -> None:
        """Schedule all objects of a namespace for a controller, once for all calls of some seconds.

        They are all objects of the tenant if the controller's objects have no namespaces, or `namespace` is empty.
        """
        mirror = self._keys_of(controller)
        namespace = namespace if mirror.resource.namespaced else ""
        count = mirror.count(tenant, namespace) if namespace else mirror.total(tenant)
        after = min(CROWD_SECONDS + count / CROWD_PACE, CROWD_MOST_SECONDS)
        self.wake(controller, Key(tenant, namespace, EVERYTHING), after)

    def end_tenant(self, tenant: str) -> None:
        """Drop the queue of a tenant that is no longer served; reconciles in progress finish."""
        self.work.queue.forget_group(tenant)
        self.work.timeline.forget(tenant)
        self._planner.forget(tenant)

    def begin_tenant(self, tenant: str) -> None:
        """Queue all objects of a tenant that is served from now on."""
        for resource, mirror in self.mirrors.items():
            wake = self._waker(self._watches(resource))
            for envelope in mirror.everything():
                if envelope.tenant == tenant:
                    wake(Change(None, envelope))

    def _watches(self, resource: Resource) -> list[tuple[str, Watch]]:
        """Return the controllers that watch a resource, with their watches."""
        return [
            (controller.name, watch)
            for controller in self._controllers.values()
            for watch in controller.watches
            if watch.resource == resource
        ]

    def _waker(self, watches: Sequence[tuple[str, Watch]]) -> Callable[[Change], None]:
        def queue(change: Change) -> None:
            view = self.view()
            for name, watch in watches:
                try:
                    for key in watch.keys(change, view):
                        self.wake(name, key, watch.gather(change, view, key) if watch.gather else 0.0)
                except Crowded:
                    at = standing(change)
                    self.wake_all(name, at.tenant, namespace_of(at))

        def wake(change: Change) -> None:
            about = change.new or change.old
            if about is not None and self._serves(about.tenant):
                run_marked("controllers", about.tenant, queue, change)

        return wake

    async def _handle(self, tenant: str, item: Item) -> float | None:
        """Reconcile one object.

        Raises:
            KubeError: the first failure; the object is retried with backoff.
        """
        if item.name == EVERYTHING:
            await self._wake_everything(tenant, item)
            return None
        controller = self._controllers[item.controller]
        if isinstance(controller, Worker):
            emit = partial(self._committer.emit, controller.reporter, tenant)
            note = partial(self._note, tenant)
            context = ReconcileContext(self.view(), self._server.below(f"/tenants/{tenant}"), emit, note)
            return await controller.work(context, Key(tenant, item.namespace, item.name))
        key, decide = Key(tenant, item.namespace, item.name), controller.plan
        if (first := controller.preparation) is not None:
            wanted = await self._planner.run(tenant, lambda view: first.wanted(view, key), self.view())
            await first.read(self._server.below(f"/tenants/{tenant}"), key, wanted)
        plan = await self._planner.run(tenant, lambda view: decide(view, key), self.view())
        steps, whole = first_creations(plan.steps)
        outcome = await self._commit(controller, tenant, steps, plan.finish)
        if outcome.failures:
            raise outcome.failures[0].error
        return plan.again if whole else 0.0

    async def _wake_everything(self, tenant: str, item: Item) -> None:
        budget = Budget("all objects of a controller")
        mirror, places = self._keys_of(item.controller), [item.namespace]
        if mirror.resource.namespaced and not item.namespace:
            places = [each.name for each in self.mirrors[NAMESPACES].within(tenant)]
        for place in places:
            for envelope in mirror.within(tenant, place):
                self.wake(item.controller, key_of(envelope))
                budget.spend(STEPS_PER_KEY)
                await rest(budget)
            budget.spend()
            await rest(budget)

    def _keys_of(self, controller: str) -> Mirror:
        """Return the mirror of the objects that a controller reconciles."""
        return self.mirrors[self._controllers[controller].watches[0].resource]

    def _note(self, tenant: str, name: ObjectName, what: str, version: str) -> None:
        self.work.timeline.add(tenant, name, what, now=time.time(), version=version)

    async def _commit(
        self, controller: Controller, tenant: str, steps: Sequence[Sequence[Action]], finish: Finish | None
    ) -> Outcome:
        outcome = await self._committer.steps(controller.reporter, tenant, steps)
        if finish is None:
            return outcome
        writes = await self._planner.run(tenant, lambda view: list(finish(view, outcome)), self.view())
        last = await self._committer.steps(controller.reporter, tenant, [[each] for each in writes])
        return Outcome(outcome.done, [*outcome.failures, *last.failures])


def _resources(controllers: Iterable[Controller | Worker]) -> dict[Resource, str]:
    """Return the watched resources with their field selectors: where two differ, all objects are watched."""
    found: dict[Resource, str] = {}
    for controller in controllers:
        asked = [(watch.resource, watch.fields) for watch in controller.watches]
        for resource, fields in (*asked, *((each, "") for each in controller.reads)):
            found[resource] = fields if found.get(resource, fields) == fields else ""
    return found


def _suffix() -> str:
    return "".join(random.choices(LETTERS, k=5))  # noqa: S311 - a name, no secret
