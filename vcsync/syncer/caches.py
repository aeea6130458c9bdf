"""The caches of both sides of a syncer. Each change of a cached object enqueues items."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import Forbidden, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import (
    INGRESS_CLASSES,
    INGRESSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_CIDRS,
    Resource,
)
from vcsync.objects.envelope import Envelope, decode, strip
from vcsync.published.kind import SELECTOR as PUBLIC
from vcsync.published.kinds import KINDS as PUBLISHED
from vcsync.syncer.digests import with_digest
from vcsync.syncer.fair_memory import FairMemory
from vcsync.syncer.kinds import persistentvolume, token
from vcsync.syncer.kinds.node import kubelet_fields_changed, readiness
from vcsync.syncer.kinds.plan import Dependency, Kind, Parts, Side
from vcsync.syncer.store_budget import growth_of
from vcsync.syncer.waiting import Item
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES, TenantMemory

CONTROLLED_SELECTOR = f"{names.CONTROLLED}={names.TRUE}"
TOKENS = "tokens"
"""Kind of the items for token Secrets: (tenant's namespace, name of the Secret)."""
DELETIONS_REMEMBERED = 20_000
"""Number of deletions that each cache remembers. The oldest is forgotten first."""
VOLUMES = "volumes"
"""Kind of the items for a tenant's PersistentVolumes: (namespace of the claim, name of the volume)."""
_OPTIONAL_BACKOFF = (1.0, 60.0)
"""First and longest pause, in seconds, after reads that roles of an earlier version forbid."""

K = TypeVar("K")

Enqueue = Callable[[str, Item], None]
"""Called with (tenant key, item)."""
Wake = Callable[[str, Dependency], None]
"""Called with (tenant key, changed object). The key is "" for a change that concerns every tenant."""


class _NodeName(Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Cordon(Struct, gc=False):
    unschedulable: bool = False


class _Phase(Struct, gc=False):
    phase: str = ""


def node_of(pod: Envelope) -> str:
    """Return the name of the node that a Pod is bound to; "" if it is not bound."""
    return decode(pod.spec, _NodeName).node_name if pod.spec else ""


def has_ended(pod: Envelope) -> bool:
    """Return whether all containers of a Pod have terminated and will not be restarted."""
    return bool(pod.status) and decode(pod.status, _Phase).phase in token.TERMINAL_PHASES


def offered(resource: Resource) -> Dependency:
    """Return what objects of an optional kind wait for while one of the servers does not offer it."""
    return Dependency("super", resource, "", "")


def owner_of(namespace: Envelope) -> tuple[str, str]:
    """Return the cluster key and the tenant's namespace of a super namespace; "" for each that is unknown."""
    return namespace.annotations.get(names.CLUSTER, ""), namespace.annotations.get(names.NAMESPACE, "")


def _optional(kinds: Mapping[str, Kind]) -> frozenset[Resource]:
    return frozenset(kind.resource for kind in kinds.values() if kind.optional)


def _slim(parts: Parts) -> Callable[[Envelope], Envelope] | None:
    """Return a projection that keeps only the raw parts that a kind needs; None if it needs all."""
    if parts.spec and parts.status:
        return None
    return lambda envelope: strip(envelope, spec=not parts.spec, status=not parts.status)


def _readiness_changed(old: Envelope, new: Envelope) -> bool:
    """Return whether the readiness of a node has changed."""
    return old.status != new.status and readiness(old) != readiness(new)


def _related_items(
    kinds: Iterable[Kind], side: Side, resource: Resource, changed: Envelope
) -> Iterator[Item]:
    for kind in kinds:
        for related in kind.related:
            if related.side == side and related.resource == resource:
                target = related.item(changed)
                if target is not None:
                    yield Item(kind.name, *target)


def _super_selector(kind: Kind | None) -> str:
    """Return the label selector of a kind's objects in the super cluster."""
    if kind is None or not kind.super_selector:
        return "" if kind is not None and kind.whole else CONTROLLED_SELECTOR
    return f"{CONTROLLED_SELECTOR},{kind.super_selector}"


def _runtime_class_waker(wake: Wake, tenant: str, side: Side) -> Callable[[Change], None]:
    def changed(change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        assert envelope is not None  # noqa: S101  a Change has at least one side
        wake(tenant, Dependency(side, RUNTIME_CLASSES, "", envelope.name))

    return changed


class _Side:
    """The reflectors of one side: of the synced kinds, of Nodes and of RuntimeClasses."""

    reflectors: dict[Resource, Reflector]
    nodes: Reflector
    runtime_classes: Reflector
    optional: frozenset[Resource]
    """Resources that the server may lack, or not permit to read."""

    def get(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """Return a cached object of this side."""
        reflector = self.nodes if resource == NODES else self.reflector(resource)
        return reflector.cache.get(namespace, name) if reflector is not None else None

    def reflector(self, resource: Resource) -> Reflector | None:
        """Return the reflector of a synced or related resource of this side."""
        return self.reflectors.get(resource)

    def all(self) -> tuple[Reflector, ...]:
        """Return all reflectors of this side."""
        return (*self.reflectors.values(), self.nodes, self.runtime_classes)

    def required(self) -> tuple[Reflector, ...]:
        """Return the reflectors without which nothing is synced."""
        return tuple(each for each in self.all() if each.resource not in self.optional)

    async def run(self) -> None:
        """Keep all caches current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.all():
                tasks.create_task(reflector.run())


def _only_usage_changed(change: Change) -> bool:
    """Return whether only the status of a ResourceQuota has changed, as it does with every Pod."""
    old, new = change.old, change.new
    return (
        old is not None
        and new is not None
        and (old.spec, old.labels, old.annotations, old.deleting)
        == (new.spec, new.labels, new.annotations, new.deleting)
    )


class SuperCaches(_Side):
    """Caches of one super cluster: the objects that vcsync controls (label `controlled`), Nodes and RuntimeClasses.

    Args:
        client: client of the super cluster.
        kinds: the kinds that are synced.
        enqueue: called with every item whose object in the super cluster changed.
        wake: called with every object of the super cluster that changed.
        on_node: called with the name of a node that changed.
        on_cordon: called with the name of a node that has become unschedulable, or schedulable again.
        on_pod: called with every change of a Pod.
        on_read: called with every optional resource once its objects have been read.
        on_ingress: called with every change of an Ingress, also of those that are not of a tenant.
        on_ingress_class: called with the name of every published IngressClass that changed.
        on_service_cidr: called when a published ServiceCIDR has changed.
    """

    def __init__(
        self,
        client: Client,
        kinds: Mapping[str, Kind],
        *,
        enqueue: Enqueue,
        wake: Wake,
        on_node: Callable[[str], None],
        on_cordon: Callable[[str], None] = lambda _: None,
        on_pod: Callable[[Change], None] = lambda _: None,
        on_read: Callable[[Resource], None] = lambda _: None,
        on_ingress: Callable[[Change], None] = lambda _: None,
        on_ingress_class: Callable[[str], None] = lambda _: None,
        on_service_cidr: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_read = on_read
        self._kinds = kinds
        self._enqueue = enqueue
        self._wake = wake
        self._on_node = on_node
        self._on_cordon = on_cordon
        self._on_pod = on_pod
        self._cordoned: set[str] = set()
        self._leaving: dict[str, list[Envelope]] = {}
        self._on_ingress = on_ingress
        self._on_ingress_class = on_ingress_class
        self._pods_on: Counter[tuple[str, str]] = Counter()
        self._bytes_in: Counter[str] = Counter()
        self.optional = _optional(kinds)
        self.reflectors: dict[Resource, Reflector] = {}
        by_resource = {kind.resource: kind for kind in kinds.values()}
        for resource in (*by_resource, RESOURCE_QUOTAS):
            kind = by_resource.get(resource)
            self.reflectors[resource] = Reflector(
                client,
                resource,
                label_selector=_super_selector(kind),
                project=_slim(kind.super_parts) if kind is not None else None,
                sink=self._router(resource, kind),
            )
        self.nodes = Reflector(client, NODES, sink=self._node_changed)
        # A syncer without the right to read them has none of the rights for them, and serves its tenants as before.
        self.role_bindings = Reflector(
            client,
            ROLE_BINDINGS,
            label_selector=CONTROLLED_SELECTOR,
            sink=self._router(ROLE_BINDINGS, None),
        )
        self.classes: dict[Resource, Reflector] = {
            kind.resource: Reflector(
                client,
                kind.resource,
                label_selector=PUBLIC,
                sink=partial(self._class_changed, kind.resource),
                backoff=_OPTIONAL_BACKOFF,
            )
            for kind in PUBLISHED
        }
        """The caches with the classes that the operator publishes. Only objects of kinds that read them wait for them."""
        self.runtime_classes = self.classes[RUNTIME_CLASSES]
        # Servers before Kubernetes 1.33 have none.
        self.service_cidrs = Reflector(
            client,
            SERVICE_CIDRS,
            label_selector=PUBLIC,
            sink=lambda _: on_service_cidr(),
            backoff=_OPTIONAL_BACKOFF,
        )
        self._departures: FairMemory[str, bool] = FairMemory(DELETIONS_REMEMBERED)

    def reflector(self, resource: Resource) -> Reflector | None:
        """Return the reflector of a synced or related resource of the super cluster."""
        others = {
            ROLE_BINDINGS: self.role_bindings,
            **self.classes,
        }
        return others.get(resource) or super().reflector(resource)

    def _class_changed(self, resource: Resource, change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        if envelope is not None:
            self._wake("", Dependency("super", resource, "", envelope.name))
            if resource == INGRESS_CLASSES:
                self._on_ingress_class(envelope.name)

    async def run(self) -> None:
        """Keep all caches current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self.role_bindings.run())
            tasks.create_task(self.service_cidrs.run())
            for each in self.classes.values():
                if each is not self.runtime_classes:
                    tasks.create_task(each.run())
            for kind in self._kinds.values():
                if kind.optional:
                    tasks.create_task(self._report_read(kind))

    async def _report_read(self, kind: Kind) -> None:
        for resource in (kind.resource, *kind.reads):
            reflector = self.reflector(resource)
            if reflector is not None:
                await reflector.wait_synced()
        self._on_read(kind.resource)

    def items(self, resource: Resource, namespace: str | None = None) -> Iterator[Envelope]:
        """Return all objects of a resource, or those in one super namespace."""
        return self.reflectors[resource].cache.items(namespace)

    def items_in(self, super_namespace: str, kind: Kind) -> Iterator[Item]:
        """Yield the items of a kind's objects in a super namespace."""
        for envelope in self.reflectors[kind.resource].cache.items(super_namespace):
            item = (token_item(envelope) if kind.resource == SECRETS else None) or item_of(kind, envelope)
            if item is not None:
                yield item

    def departure_seen(self, tenant: str, uid: str) -> bool:
        """Return whether the watch reported the deletion of the copy of the tenant's object with this UID."""
        return self._departures.get(tenant, uid) is not None

    def pods_on(self, tenant: str, node: str) -> int:
        """Return the number of a tenant's Pods that are bound to a node."""
        return self._pods_on[(tenant, node)]

    def on_cordoned_nodes(self, super_namespace: str) -> Iterator[Envelope]:
        """Yield the Pods in a super namespace on nodes that are unschedulable.

        It costs nothing while all nodes are schedulable. Otherwise a tenant may ask for each of any number of budgets, so the
        Pods are looked for once after each change of a Pod of the namespace.
        """
        if not self._cordoned:
            return iter(())
        found = self._leaving.get(super_namespace)
        if found is None:
            found = [pod for pod in self.items(PODS, super_namespace) if node_of(pod) in self._cordoned]
            self._leaving[super_namespace] = found
        return iter(found)

    def bytes_in(self, super_namespace: str) -> int:
        """Return the bytes that a super namespace and its objects take; see `store_budget.stored_bytes`."""
        return self._bytes_in[super_namespace]

    def _router(self, resource: Resource, kind: Kind | None) -> Callable[[Change], None]:
        kinds = tuple(self._kinds.values())

        def changed(change: Change) -> None:
            envelope = change.new if change.new is not None else change.old
            assert envelope is not None  # noqa: S101  a Change has at least one side
            if resource == PODS:
                self._leaving.pop(envelope.namespace, None)
                self._count(change)
                self._on_pod(change)
            if resource == INGRESSES:
                self._on_ingress(change)
            if kind is not None:
                self._count_bytes(envelope.namespace or envelope.name, growth_of(change.old, change.new))
            tenant = envelope.annotations.get(names.CLUSTER, "")
            if not tenant:
                return
            if change.new is None and change.reported:
                self._departures.put(tenant, envelope.annotations.get(names.UID, ""), True)
            self._wake(tenant, Dependency("super", resource, envelope.namespace, envelope.name))
            item = token_item(envelope) if resource == SECRETS else None
            if item is None and kind is not None:
                item = item_of(kind, envelope)
            if item is not None:
                self._enqueue(tenant, item)
            if resource == RESOURCE_QUOTAS and _only_usage_changed(change):
                return
            for related in _related_items(kinds, "super", resource, envelope):
                self._enqueue(tenant, related)

        return changed

    def _count(self, change: Change) -> None:
        for envelope, step in ((change.old, -1), (change.new, 1)):
            if envelope is None:
                continue
            node = node_of(envelope)
            if node:
                place = (envelope.annotations.get(names.CLUSTER, ""), node)
                self._pods_on[place] += step
                if not self._pods_on[place]:
                    del self._pods_on[place]

    def _count_bytes(self, place: str, growth: int) -> None:
        if growth:
            self._bytes_in[place] += growth
            if not self._bytes_in[place]:
                del self._bytes_in[place]

    def _node_changed(self, change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        if envelope is None:
            return
        name = envelope.name
        self._on_node(name)
        cordoned = change.new is not None and _is_cordoned(change.new)
        if cordoned != (name in self._cordoned):
            (self._cordoned.add if cordoned else self._cordoned.discard)(name)
            self._leaving.clear()
            self._on_cordon(name)


def _is_cordoned(node: Envelope) -> bool:
    return b"unschedulable" in node.spec and decode(node.spec, _Cordon).unschedulable


def _ignore(_: Envelope, __: Envelope) -> None:
    return


def token_item(secret: Envelope) -> Item | None:
    """Return the item of a token Secret; None for other Secrets."""
    pod = token.pod_of(secret)
    return Item(TOKENS, pod[0], secret.name) if pod is not None else None


def volume_item(volume: Envelope) -> Item | None:
    """Return the item of a tenant's PersistentVolume; None if it is not one of vcsync's."""
    claim = persistentvolume.claim_of(volume)
    return Item(VOLUMES, claim[0], volume.name) if claim is not None else None


def item_of(kind: Kind, envelope: Envelope) -> Item | None:
    """Return the item of a super cluster's object, according to its annotations; None if no syncer created the object.

    The object must be in the super namespace that belongs to its annotations, or be that namespace.
    """
    namespace = envelope.annotations.get(names.NAMESPACE, "")
    tenant = envelope.annotations.get(names.CLUSTER, "")
    if not namespace or not tenant:
        return None
    place = envelope.name if kind.resource == NAMESPACES else envelope.namespace
    if place != names.super_namespace(tenant, namespace):
        return None
    if kind.resource == NAMESPACES:
        return Item(kind.name, "", namespace)
    name = kind.tenant_name(envelope.name)
    return Item(kind.name, namespace, name) if name is not None else None


class TenantCaches(_Side):
    """Caches of one tenant's objects that concern one super cluster.

    The server selects Pods by the label with the super cluster's id. For other kinds the caches keep only objects in
    namespaces that the ledger places on this super cluster.

    Attributes:
        on_node_change: called with a virtual node whose spec or labels changed, before and after the change.

    Args:
        client: client of the tenant's control plane.
        tenant: cluster key.
        super_id: id of the super cluster.
        kinds: the kinds that are synced.
        is_placed: whether an object belongs to this super cluster: (resource, namespace, name).
        enqueue: called with every item whose object in the tenant changed.
        wake: called with every object of the tenant that changed.
        on_pod: called with every Pod that changed, in its last known state.
        memory: bytes that all cached objects together may take.
    """

    def __init__(
        self,
        client: Client,
        *,
        tenant: str,
        super_id: str,
        kinds: Mapping[str, Kind],
        is_placed: Callable[[Resource, str, str], bool],
        enqueue: Enqueue,
        wake: Wake,
        on_pod: Callable[[Envelope], None],
        memory: int = TENANT_MEMORY_BYTES,
    ) -> None:
        self._memory = TenantMemory(memory, "syncer", "they are not synced, running Pods continue")
        self._on_pod = on_pod
        self.on_node_change: Callable[[Envelope, Envelope], None] = _ignore
        self._tenant = tenant
        self._kinds = kinds
        self._is_placed = is_placed
        self._enqueue = enqueue
        self._wake = wake
        # True: the object was deleted. False: it may only have left the selection.
        self._departures: OrderedDict[tuple[str, str, str, str], bool] = OrderedDict()
        self.optional = _optional(kinds)
        self._namers: dict[Resource, list[tuple[Kind, Callable[[Envelope], str]]]] = {}
        self.reflectors: dict[Resource, Reflector] = {}
        for kind in kinds.values():
            for related in kind.related:
                if related.names is not None:
                    self._namers.setdefault(related.resource, []).append((kind, related.names))
            self.reflectors[kind.resource] = Reflector(
                client,
                kind.resource,
                label_selector=f"{names.SUPER_CLUSTER}={super_id}"
                if kind.resource == PODS
                else kind.tenant_selector,
                accept=self._filter(kind.resource),
                project=self._memory.projection(
                    kind.resource, with_digest if kind.digested else _slim(kind.tenant_parts)
                ),
                sink=self._router(kind),
            )
        self.optional |= {PERSISTENT_VOLUMES}
        self.reflectors[PERSISTENT_VOLUMES] = Reflector(
            client,
            PERSISTENT_VOLUMES,
            label_selector=f"{names.SUPER_CLUSTER_ID}={super_id}",
            project=self._memory.projection(PERSISTENT_VOLUMES),
            sink=self._volume_changed,
        )
        self._super_id = super_id
        self.nodes = Reflector(
            client,
            NODES,
            label_selector=f"{names.SUPER_CLUSTER_ID}={super_id}",
            project=self._memory.projection(NODES),
            sink=self._node_changed,
        )
        self.runtime_classes = Reflector(
            client,
            RUNTIME_CLASSES,
            project=self._memory.projection(RUNTIME_CLASSES),
            sink=self._memory.counted(RUNTIME_CLASSES, _runtime_class_waker(wake, tenant, "tenant")),
        )

    async def run(self) -> None:
        """Keep all caches current until cancelled.

        Raises:
            TenantTooLarge: the tenant's objects take more than `memory`.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            for resource in self.optional:
                tasks.create_task(self._report_read(resource))
            await self._memory.exceeded()

    async def _report_read(self, resource: Resource) -> None:
        """Wake the objects of the optional kinds that wait for a resource, once it has been read."""
        await self.reflectors[resource].wait_synced()
        for kind in self._kinds.values():
            needs = {kind.resource, *(each.resource for each in kind.related if each.side == "tenant")}
            if kind.optional and resource in needs:
                self._wake(self._tenant, offered(kind.resource))

    def items(self, kind: Kind) -> Iterator[Item]:
        """Yield the item of every cached object of a kind."""
        for envelope in self.reflectors[kind.resource].cache.items():
            yield Item(kind.name, envelope.namespace, envelope.name)

    def deletion_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Return whether the watch reported the deletion of exactly this object."""
        return self._departures.get((resource.plural, namespace, name, uid), False)

    def departure_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Return whether the watch reported that exactly this object was deleted or left the selection."""
        return (resource.plural, namespace, name, uid) in self._departures

    async def refill(self, namespace: str) -> None:
        """Read or drop the objects of a namespace, after its placement has changed.

        An optional kind that the tenant's API server lacks has no objects. One that the syncer may not read yet is left out:
        its first list will read the namespace.

        Raises:
            KubeError: A list failed; call again.
        """
        for resource, reflector in self.reflectors.items():
            if not resource.namespaced or resource == PODS:
                continue
            try:
                await reflector.refill(namespace)
            except NotFound:
                if resource not in self.optional:
                    raise
            except Forbidden:
                if resource not in self.optional or reflector.synced:
                    raise

    def _filter(self, resource: Resource) -> Callable[[Envelope], bool] | None:
        # Namespaces are few and small, and are needed as soon as they are placed. The server selects the Pods.
        if resource in (PODS, NAMESPACES):
            return None
        return lambda envelope: self._is_placed(resource, envelope.namespace, envelope.name)

    def _router(self, kind: Kind) -> Callable[[Change], None]:
        kinds = tuple(self._kinds.values())
        resource = kind.resource

        def changed(change: Change) -> None:
            envelope = change.new if change.new is not None else change.old
            assert envelope is not None  # noqa: S101  a Change has at least one side
            self._memory.count(resource, change)
            if change.new is None and change.reported:
                self._remember(resource, envelope)
            self._wake(self._tenant, Dependency("tenant", resource, envelope.namespace, envelope.name))
            self._enqueue(self._tenant, Item(kind.name, envelope.namespace, envelope.name))
            if resource == PODS:
                self._on_pod(envelope)
            for related in _related_items(kinds, "tenant", resource, envelope):
                self._enqueue(self._tenant, related)
            for related in self._items_that_name(resource, envelope):
                self._enqueue(self._tenant, related)

        return changed

    def _items_that_name(self, resource: Resource, changed: Envelope) -> Iterator[Item]:
        """Yield the items of cached objects that name a changed object, by `Related.names`."""
        for kind, name_of in self._namers.get(resource, ()):
            for each in self.reflectors[kind.resource].cache.items(changed.namespace):
                if name_of(each) == changed.name:
                    yield Item(kind.name, each.namespace, each.name)

    def _node_changed(self, change: Change) -> None:
        """Enqueue a virtual node that was deleted, or whose readiness or kubelet's fields another client changed.

        A virtual node that was deleted in the tenant may still be needed. A node that the tenant's node controller marked
        as unknown, because its heartbeats were late, does not become ready by the next heartbeat: like a kubelet, the
        syncer must write its status again. It also corrects the kubelet's address and amounts that the tenant has changed.
        """
        self._memory.count(NODES, change)
        old, new = change.old, change.new
        if old is not None and new is not None and (old.spec, old.labels) != (new.spec, new.labels):
            self.on_node_change(old, new)
        if old is None:
            return
        if new is None or _readiness_changed(old, new) or kubelet_fields_changed(old, new):
            node = names.split_virtual_node(old.name, self._super_id)
            if node is not None:
                self._enqueue(self._tenant, Item(NODES.plural, "", node))

    def _volume_changed(self, change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        assert envelope is not None  # noqa: S101  a Change has at least one side
        self._memory.count(PERSISTENT_VOLUMES, change)
        self._wake(self._tenant, Dependency("tenant", PERSISTENT_VOLUMES, "", envelope.name))
        if (item := volume_item(envelope)) is not None:
            self._enqueue(self._tenant, item)
        for related in _related_items(self._kinds.values(), "tenant", PERSISTENT_VOLUMES, envelope):
            self._enqueue(self._tenant, related)

    def volume_items(self) -> Iterator[Item]:
        """Yield the item of every cached PersistentVolume."""
        for volume in self.reflectors[PERSISTENT_VOLUMES].cache.items():
            if (item := volume_item(volume)) is not None:
                yield item

    def _remember(self, resource: Resource, last: Envelope) -> None:
        """Remember a departure that the watch reported. A Pod also leaves the selection when its label changes."""
        certain = resource != PODS or last.deleting
        self._departures[resource.plural, last.namespace, last.name, last.uid] = certain
        if len(self._departures) > DELETIONS_REMEMBERED:
            self._departures.popitem(last=False)
