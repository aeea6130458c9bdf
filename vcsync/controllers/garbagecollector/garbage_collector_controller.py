"""The garbage collector: deletes objects whose owners are all gone, and dependents as their owners' deletion requests.

It follows every resource of all tenants: mirrored resources through their mirrors, the others by their
metadata only, and custom ones per tenant as definitions appear and disappear. Before anything is deleted,
the API server must confirm that an object missing from the mirrors is gone.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from msgspec.structs import replace

from vcsync.controllers.framework.definitions import slim
from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Key, Mirror
from vcsync.controllers.framework.reporting import Reporter
from vcsync.controllers.garbagecollector import garbage_collector_plan as gc_decide
from vcsync.controllers.garbagecollector.custom_resources import MOST_CUSTOM, Custom, CustomResources
from vcsync.controllers.garbagecollector.garbage_collector_plan import (
    Remove,
    Standing,
    Step,
    decide,
    needs_owners,
)
from vcsync.controllers.garbagecollector.graph import Graph, Node, Uid, goes_after_dependents, group_of
from vcsync.fairqueue import FairQueue, ObjectName, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.discovery import discover
from vcsync.kube.errors import Conflict, KubeError, NotFound, describe
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from vcsync.objects.budget import Budget
from vcsync.objects.envelope import Envelope, OwnerReference, strip
from vcsync.process.loop_turns import rest
from vcsync.tenancy.caches import wait_for_caches

NAME = "garbage-collector-controller"
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Resources with many objects that neither own objects nor have owners."""
VERBS = frozenset({"delete", "list", "watch"})
WORKERS = 32
PER_TENANT = 8
"""Maximum number of one tenant's objects in progress."""
LEFT_OUT = "GarbageNotCollected"
"""Event reason: the objects of a definition are not followed, so neither they nor their dependents are collected."""
DEPENDENTS_PER_SECOND = 4000.0
"""Dependents of an object above `FEW_DEPENDENTS` per second of delay, for which changes of them are gathered."""
FEW_DEPENDENTS = 100
LONGEST_DELAY = 1.0
STEPS_PER_OBJECT = 10
"""Steps of a budget that the queueing of one object takes."""
ATTEMPTS = 5
"""Attempts of a step whose object changes meanwhile, before it is retried later."""
MOST_ABSENT = 4096
"""Number of remembered missing owners, so that their dependents need no request."""
DISCOVERY_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class UnknownKind(KubeError):
    """The tenant does not have the owner's kind (yet), so the owner's state is unknown."""


class Unresolvable(Exception):
    """A cluster-scoped object names a namespaced owner: it is never collected."""


class Collector:
    """Collects the garbage of all tenants.

    Args:
        server: client of the control plane, as a system caller.
        mirrors: existing mirrors.
        reporter: reports Events; run by its owner.
        serves: returns whether a tenant's garbage is collected here.
        on_gone: called with every object of any kind that is gone; must return quickly.
        per_tenant: maximum number of one tenant's objects in progress.
    """

    def __init__(
        self,
        server: Client,
        mirrors: Mapping[Resource, Mirror],
        reporter: Reporter,
        *,
        serves: Callable[[str], bool] = lambda _tenant: True,
        on_gone: Callable[[Node], None] = lambda _node: None,
        per_tenant: int = PER_TENANT,
    ) -> None:
        self._server = server
        self._on_gone = on_gone
        self._everywhere = server.across_tenants()
        self._shared = {(each.group, each.plural): mirror for each, mirror in mirrors.items() if mirror.whole}
        self._reporter = reporter
        self._serves = serves
        self._graph = Graph()
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._mirrors: dict[Resource, Mirror] = {}
        self._definitions = Mirror(self._everywhere, CUSTOM_RESOURCE_DEFINITIONS, slim)
        self._customs = CustomResources(self._begin_custom, self._end_custom, self._tell_left_out)
        self._absent: OrderedDict[tuple[str, str, OwnerReference], None] = OrderedDict()
        self._tasks: asyncio.TaskGroup | None = None
        self._began = False
        self._crowded = asyncio.Event()
        self.work: WorkerPool[str] = WorkerPool(
            "garbage", self._handle, workers=WORKERS, queue=FairQueue(limit=per_tenant)
        )

    async def run(self) -> None:
        """Collect until cancelled, after all built-in resources have been read."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for resource in await self._builtin():
                self._follow_builtin(tasks, resource)
            self._definitions.subscribe(self._defined)
            tasks.create_task(self._definitions.reflector.run(), name="definitions")
            followed = (*self._mirrors.values(), self._definitions)
            await wait_for_caches([mirror.reflector for mirror in followed])
            self._began = True
            budget = Budget("all objects at the start")
            for node in self._graph.everything():
                if self._graph.concerns(node):
                    self._add(node.id)
                budget.spend(STEPS_PER_OBJECT)
                await rest(budget)
            tasks.create_task(self._add_crowds(), name="garbage crowds")
            await self.work.run()

    def synced(self) -> bool:
        """Return whether all built-in resources have been read."""
        return self._began

    def status(self) -> dict[str, Any]:
        """Return its contents and its queue as plain JSON values."""
        queue = self.work.queue.statistics()
        return {
            "objects": len(self._graph),
            "resources": len(self._mirrors),
            "customResources": len(self._customs),
            "customResourcesLeftOut": self._customs.left_out(),
            "queue": {"queued": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
        }

    def left_out(self) -> int:
        """Return how many definitions of all tenants are not followed, because their tenants have too many."""
        return sum(self._customs.left_out().values())

    def end_tenant(self, tenant: str) -> None:
        """Stop collecting a tenant's garbage and following its custom resources."""
        self.work.queue.forget_group(tenant)
        self.work.timeline.forget(tenant)
        self._customs.end_tenant(tenant)

    def begin_tenant(self, tenant: str) -> None:
        """Start collecting a tenant's garbage."""
        for definition in self._definitions.everything():
            if definition.tenant == tenant:
                self._defined(Change(None, definition))
        for node in self._graph.everything():
            if node.envelope.tenant == tenant and self._graph.concerns(node):
                self._add(node.id)

    # ---- Followed resources

    async def _builtin(self) -> list[Resource]:
        while True:
            try:
                discovery = await discover(self._everywhere)
            except KubeError as error:
                _log.info("garbage.discovery", **describe(error))
                await asyncio.sleep(DISCOVERY_SECONDS)
                continue
            return [
                each.resource
                for each in discovery.resources
                if each.verbs >= VERBS and (each.resource.group, each.resource.plural) not in IGNORED
            ]

    def _follow_builtin(self, tasks: asyncio.TaskGroup, resource: Resource) -> None:
        mirror = self._shared.get((resource.group, resource.plural))
        if mirror is None:
            mirror = Mirror(self._everywhere.metadata_only(), resource, _slim)
            tasks.create_task(mirror.reflector.run(), name=f"garbage {resource.plural}")
        self._kinds[resource.group, resource.kind] = mirror.resource
        self._mirrors[mirror.resource] = mirror
        self._follow(mirror)

    def _follow(self, mirror: Mirror) -> None:
        def note(change: Change) -> None:
            for uid in self._graph.change(mirror.resource, change):
                self._add(uid)
            if self._graph.crowds:
                self._crowded.set()
            if change.new is None:
                self._on_gone(Node(mirror.resource, standing(change)))

        mirror.subscribe(note)
        for envelope in mirror.everything():
            note(Change(None, envelope))

    def _defined(self, change: Change) -> None:
        self._customs.changed(change, serves=self._serves(standing(change).tenant))

    def _tell_left_out(self, definition: Envelope) -> None:
        _log.warning(
            "garbage.custom_resources",
            tenant=definition.tenant,
            definition=definition.name,
            most=MOST_CUSTOM,
        )
        message = (
            f"more than {MOST_CUSTOM} definitions have their garbage collected already: objects of this one are not deleted "
            "with their owners, nor are their dependents with them; delete definitions that are not used"
        )
        kind = CUSTOM_RESOURCE_DEFINITIONS
        about = ObjectRef(kind.api_version, kind.kind, definition.name, "", definition.uid)
        self._reporter.emit(definition.tenant, NAME, about, "Warning", LEFT_OUT, message, now=time.time())

    def _begin_custom(self, tenant: str, resource: Resource) -> Custom:
        if self._tasks is None:
            raise AssertionError("definitions are followed only while it runs")
        client = self._of(tenant).metadata_only()
        mirror = Mirror(client, resource, _slim, tenant=tenant)
        task = self._tasks.create_task(mirror.reflector.run(), name=f"garbage {tenant} {resource.plural}")
        self._follow(mirror)
        return Custom(resource, mirror, task)

    def _end_custom(self, _tenant: str, known: Custom) -> None:
        for envelope in known.mirror.everything():
            for uid in self._graph.change(known.resource, Change(envelope, None)):
                self._add(uid)
        if self._graph.crowds:
            self._crowded.set()

    async def _add_crowds(self) -> None:
        """Add the dependents of owners with many of them, in turns with other tasks."""
        budget = Budget("the dependents of an owner")
        while True:
            await self._crowded.wait()
            self._crowded.clear()
            while self._graph.crowds:
                for each in self._graph.crowd():
                    self._add(each)
                    budget.spend(STEPS_PER_OBJECT)
                    await rest(budget)
                budget.spend(STEPS_PER_OBJECT)
                await rest(budget)

    # ---- One object

    def _add(self, uid: Uid) -> None:
        if self._began and self._serves(uid.tenant):
            # An owner that waits for many dependents is looked at again, with all of them, after each that has gone.
            many = max(self._graph.count(uid) - FEW_DEPENDENTS, 0)
            delay = min(many / DEPENDENTS_PER_SECOND, LONGEST_DELAY)
            self.work.add_after(uid.tenant, uid.uid, delay)

    async def _handle(self, tenant: str, uid: str) -> float | None:
        node = self._graph.get(Uid(tenant, uid))
        if node is None:
            return None
        owners: dict[str, Standing] = {}
        if needs_owners(node):
            try:
                budget = Budget("the owners of an object")
                for reference in node.envelope.owners:
                    owners[reference.uid] = await self._standing(node, reference)
                    budget.spend(2)
                    await rest(budget)
            except Unresolvable:
                return None
        decision = decide(self._graph, node, owners)
        for step in decision.steps:
            await self._carry_out(step)
        budget = Budget("the dependents of an object")
        for each in decision.look_at:
            self._add(each)
            budget.spend(2)
            await rest(budget)
        return None

    async def _standing(self, node: Node, reference: OwnerReference) -> Standing:
        """Determine the state of an owner. Only the API server can confirm that it does not exist.

        Raises:
            KubeError: the state cannot be determined now.
            Unresolvable: the state can never be determined.
        """
        known = self._graph.owner(node, reference)
        if known in ("solid", "waiting"):
            return "solid" if known == "solid" else "waiting"
        tenant = node.envelope.tenant
        resource = self._kind(tenant, reference)
        if known == "elsewhere" or (resource.namespaced and not node.namespace):
            self._warn(node, reference)
        if resource.namespaced and not node.namespace:
            raise Unresolvable
        place = (tenant, node.namespace, reference)
        if place in self._absent:
            return "dangling"
        owner = await _found(
            self._of(tenant), resource, reference.name, node.namespace if resource.namespaced else ""
        )
        if owner is None or owner.uid != reference.uid:
            self._absent[place] = None
            if len(self._absent) > MOST_ABSENT:
                self._absent.popitem(last=False)
            return "dangling"
        return "waiting" if goes_after_dependents(owner) else "solid"

    def _kind(self, tenant: str, reference: OwnerReference) -> Resource:
        group = group_of(reference)
        if (found := self._kinds.get((group, reference.kind))) is not None:
            return found
        if (custom := self._customs.of_kind(tenant, group, reference.kind)) is not None:
            return custom.resource
        raise UnknownKind(f"no matches for kind {reference.kind!r} in version {reference.apiVersion!r}")

    def _warn(self, node: Node, reference: OwnerReference) -> None:
        resource, envelope = node.resource, node.envelope
        about = ObjectRef(resource.api_version, resource.kind, envelope.name, node.namespace, envelope.uid)
        owner = (
            f"[{reference.apiVersion}/{reference.kind}, namespace: {node.namespace}, "
            f"name: {reference.name}, uid: {reference.uid}]"
        )
        self._reporter.emit(
            envelope.tenant,
            NAME,
            about,
            "Warning",
            "OwnerRefInvalidNamespace",
            f'ownerRef {owner} does not exist in namespace "{node.namespace}"',
            now=time.time(),
        )

    async def _carry_out(self, step: Step) -> None:
        """Apply one step to an object that may change meanwhile, or be gone.

        Raises:
            KubeError: it failed; Conflict: the object keeps changing, or has other owners by now.
        """
        node = step.node
        client, latest = self._of(node.envelope.tenant), node.envelope
        for attempt in range(ATTEMPTS):
            try:
                return await self._do(client, step, latest)
            except NotFound:
                return self._gone(node)
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
                found = await _found(client, node.resource, latest.name, node.namespace)
                if found is None or found.uid != latest.uid:
                    return self._gone(node)
                if isinstance(step, Remove) and found.owners != latest.owners:
                    raise
                latest = found
        return None

    async def _do(self, client: Client, step: Step, latest: Envelope) -> None:
        node = step.node
        if isinstance(step, Remove):
            left = await client.delete(
                node.resource,
                latest.name,
                node.namespace,
                uid=latest.uid,
                resource_version=latest.resource_version,
                propagation=step.propagation,
            )
            name = ObjectName(node.resource.plural, node.namespace, latest.name)
            self.work.timeline.add(
                node.envelope.tenant, name, "deleted", now=time.time(), version=latest.resource_version
            )
            if left is None:
                self._gone(node)
            return
        patch = gc_decide.change(step, latest)
        if patch is not None:
            await client.patch(node.resource, latest.name, patch, node.namespace)

    def _gone(self, node: Node) -> None:
        """Update the mirror immediately, because the watch may be delayed."""
        tenant, envelope = node.envelope.tenant, node.envelope
        mirror = self._mirrors.get(node.resource)
        custom = self._customs.of_kind(tenant, node.resource.group, node.resource.kind)
        if mirror is None and custom is not None and custom.resource == node.resource:
            mirror = custom.mirror
        if mirror is not None:
            mirror.observe_gone(Key(tenant, node.namespace, envelope.name), envelope.uid)

    def _of(self, tenant: str) -> Client:
        return self._server.below(f"/tenants/{tenant}")


async def _found(client: Client, resource: Resource, name: str, namespace: str) -> Envelope | None:
    """Get an object's metadata; None: it does not exist."""
    try:
        return await client.metadata_only().get(resource, name, namespace)
    except NotFound:
        return None


def _slim(envelope: Envelope) -> Envelope:
    """Return an object with only the fields that the collector needs."""
    return replace(strip(envelope), labels={}, annotations={}, rest=b"")
