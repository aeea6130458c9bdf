"""The garbage collector: objects of any kind go when all their owners are gone, or as their owners' deletion asks.

It follows every resource of all tenants: those that the controllers mirror anyway by their mirrors, the others by their
metadata only, custom ones tenant by tenant as definitions come and go. What is absent from the mirrors is asked for at
the API server before anything is deleted.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import structlog
from msgspec.structs import replace

from vcsync.controllers import gc_decide
from vcsync.controllers.definitions import resource_of, slim
from vcsync.controllers.gc_decide import Remove, Standing, Step, decide, needs_owners
from vcsync.controllers.gc_graph import Graph, Node, Uid, goes_after_dependents, group_of
from vcsync.controllers.mirror import Key, Mirror
from vcsync.controllers.reporting import Reporter
from vcsync.controllers.waking import standing
from vcsync.fairqueue import FairQueue, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.discovery import discover
from vcsync.kube.envelope import Envelope, OwnerReference, strip
from vcsync.kube.errors import Conflict, KubeError, NotFound, describe
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

NAME = "garbage-collector-controller"
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Neither own nor are owned, and there are many."""
VERBS = frozenset({"delete", "list", "watch"})
WORKERS = 32
PER_TENANT = 8
"""Objects of one tenant in work at once."""
MOST_CUSTOM = 200
"""Custom resources of one tenant that are followed: each is a stream of its own."""
ATTEMPTS = 5
"""Tries of a change whose object changed meanwhile, before it has to wait."""
MOST_ABSENT = 4096
"""Owners remembered not to exist: their dependents need not ask again."""
DISCOVERY_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class UnknownKind(KubeError):
    """An owner is of a kind that its tenant does not have, or not yet: nothing can be said of it."""


class Unresolvable(Exception):
    """An object without a namespace names an owner that has one: it is never collected."""


class _Custom(NamedTuple):
    resource: Resource
    mirror: Mirror
    task: asyncio.Task[None]


class Collector:
    """Collects the garbage of all tenants.

    Args:
        server: client of the control plane, as a system caller.
        mirrors: what is mirrored anyway.
        reporter: who reports Events; run by its owner.
        serves: whether a tenant's garbage is collected here.
        on_gone: told of every object of any kind that is gone; must be quick.
        per_tenant: how many of one tenant's objects are looked at at once.
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
        self._everywhere = server.below("/tenants/all")
        self._shared = {(each.group, each.plural): mirror for each, mirror in mirrors.items() if mirror.whole}
        self._reporter = reporter
        self._serves = serves
        self._graph = Graph()
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._mirrors: dict[Resource, Mirror] = {}
        self._definitions = Mirror(self._everywhere, CUSTOM_RESOURCE_DEFINITIONS, slim)
        self._custom: dict[str, dict[str, _Custom]] = {}
        self._absent: OrderedDict[tuple[str, str, OwnerReference], None] = OrderedDict()
        self._tasks: asyncio.TaskGroup | None = None
        self._began = False
        self.work: WorkerPool[str] = WorkerPool(
            "garbage", self._handle, workers=WORKERS, queue=FairQueue(limit=per_tenant)
        )

    async def run(self) -> None:
        """Work until cancelled. Nothing is decided before everything built-in has been read."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for resource in await self._builtin():
                self._follow_builtin(tasks, resource)
            self._definitions.subscribe(self._defined)
            tasks.create_task(self._definitions.reflector.run(), name="definitions")
            for mirror in (*self._mirrors.values(), self._definitions):
                await mirror.reflector.wait_synced()
            self._began = True
            for node in self._graph.everything():
                if self._graph.concerns(node):
                    self._add(node.id)
            await self.work.run()

    def synced(self) -> bool:
        """Whether everything built-in has been read."""
        return self._began

    def status(self) -> dict[str, Any]:
        """What it holds and has to do, as plain JSON values."""
        queue = self.work.queue.statistics()
        return {
            "objects": len(self._graph),
            "resources": len(self._mirrors),
            "customResources": sum(map(len, self._custom.values())),
            "queue": {"queued": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
            "lastErrors": {
                f"{tenant}: {uid}": error.message for (tenant, uid), error in self.work.last_errors.items()
            },
        }

    def end_tenant(self, tenant: str) -> None:
        """Leave a tenant's garbage alone, and follow its custom resources no more."""
        self.work.queue.forget_group(tenant)
        for known in self._custom.pop(tenant, {}).values():
            self._end_custom(known)

    def begin_tenant(self, tenant: str) -> None:
        """Collect a tenant's garbage from now on."""
        for definition in self._definitions.everything():
            if definition.tenant == tenant:
                self._defined(Change(None, definition))
        for node in self._graph.everything():
            if node.envelope.tenant == tenant and self._graph.concerns(node):
                self._add(node.id)

    # What is followed

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
                for each in discovery.found
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
            if change.new is None:
                self._on_gone(Node(mirror.resource, standing(change)))

        mirror.subscribe(note)
        for envelope in mirror.everything():
            note(Change(None, envelope))

    def _defined(self, change: Change) -> None:
        """Begin to follow a custom resource, or end it, as its definition has it now."""
        definition = standing(change)
        wanted = None if change.new is None else resource_of(change.new)
        customs = self._custom.setdefault(definition.tenant, {})
        known = customs.get(definition.name)
        if known is not None and known.resource != wanted:
            del customs[definition.name]
            self._end_custom(known)
        if wanted is not None and definition.name not in customs and self._serves(definition.tenant):
            self._begin_custom(definition.tenant, definition.name, wanted)
        if not customs:
            del self._custom[definition.tenant]

    def _begin_custom(self, tenant: str, definition: str, resource: Resource) -> None:
        customs = self._custom[tenant]
        if self._tasks is None or len(customs) >= MOST_CUSTOM:
            _log.warning("garbage.custom_resources", tenant=tenant, definition=definition, most=MOST_CUSTOM)
            return
        client = self._of(tenant).metadata_only()
        mirror = Mirror(client, resource, _slim, tenant=tenant)
        task = self._tasks.create_task(mirror.reflector.run(), name=f"garbage {tenant} {resource.plural}")
        customs[definition] = _Custom(resource, mirror, task)
        self._follow(mirror)

    def _end_custom(self, known: _Custom) -> None:
        known.task.cancel()
        for envelope in known.mirror.everything():
            for uid in self._graph.change(known.resource, Change(envelope, None)):
                self._add(uid)

    # One object

    def _add(self, uid: Uid) -> None:
        if self._began and self._serves(uid.tenant):
            self.work.add(uid.tenant, uid.uid)

    async def _handle(self, tenant: str, uid: str) -> float | None:
        node = self._graph.get(Uid(tenant, uid))
        if node is None:
            return None
        owners: dict[str, Standing] = {}
        if needs_owners(node):
            try:
                for reference in node.envelope.owners:
                    owners[reference.uid] = await self._standing(node, reference)
            except Unresolvable:
                return None
        decision = decide(self._graph, node, owners)
        for step in decision.steps:
            await self._carry_out(step)
        for each in decision.look_at:
            self._add(each)
        return None

    async def _standing(self, node: Node, reference: OwnerReference) -> Standing:
        """Find out how an owner stands; that it is not there, only the API server can tell.

        Raises:
            KubeError: it cannot be told now.
            Unresolvable: it can never be.
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
        found = self._kinds.get((group, reference.kind))
        customs = () if found is not None else self._custom.get(tenant, {}).values()
        for each in customs:
            if (each.resource.group, each.resource.kind) == (group, reference.kind):
                found = each.resource
        if found is None:
            raise UnknownKind(f"no matches for kind {reference.kind!r} in version {reference.apiVersion!r}")
        return found

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
        """Do one thing to an object that may change meanwhile, or be gone.

        Raises:
            KubeError: it failed; Conflict: the object changes again and again, or has other owners by now.
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
            if left is None:
                self._gone(node)
            return
        patch = gc_decide.change(step, latest)
        if patch is not None:
            await client.patch(node.resource, latest.name, patch, node.namespace)

    def _gone(self, node: Node) -> None:
        """Tell the mirror at once; the watch may take a while."""
        tenant, envelope = node.envelope.tenant, node.envelope
        customs = self._custom.get(tenant, {}).values()
        mirror = self._mirrors.get(node.resource) or next(
            (each.mirror for each in customs if each.resource == node.resource), None
        )
        if mirror is not None:
            mirror.observe_gone(Key(tenant, node.namespace, envelope.name), envelope.uid)

    def _of(self, tenant: str) -> Client:
        return self._server.below(f"/tenants/{tenant}")


async def _found(client: Client, resource: Resource, name: str, namespace: str) -> Envelope | None:
    """Ask for an object's metadata; None: there is none."""
    try:
        return await client.metadata_only().get(resource, name, namespace)
    except NotFound:
        return None


def _slim(envelope: Envelope) -> Envelope:
    """Keep only what the collector needs of an object."""
    return replace(strip(envelope), labels={}, annotations={}, rest=b"")
