"""The two sides' caches of one syncer and how a change on either side becomes an item of work."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode, strip
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import (
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    SECRETS,
    Resource,
)
from vcsync.syncer.digests import with_digest
from vcsync.syncer.kinds import token
from vcsync.syncer.kinds.node import readiness
from vcsync.syncer.kinds.plan import Dependency, Kind, Parts, Side
from vcsync.syncer.memory import Memory
from vcsync.syncer.room import growth_of
from vcsync.syncer.waiting import Item
from vcsync.tenancy.registry import TenantTooLarge

CONTROLLED_SELECTOR = f"{names.CONTROLLED}={names.TRUE}"
TOKENS = "tokens"
"""Items of this kind keep one token Secret: (tenant namespace, name of the Secret)."""
DELETIONS_REMEMBERED = 20_000
TENANT_MEMORY_BYTES = 256 << 20
"""What one tenant's objects may take of a syncer's memory, unless the operator says otherwise."""

K = TypeVar("K")

Enqueue = Callable[[str, Item], None]
"""Called with (tenant key, item)."""
Wake = Callable[[str, Dependency], None]
"""Called with (tenant key, what has changed); the key is "" where it concerns every tenant."""


class _NodeName(Struct, gc=False, rename="camel"):
    node_name: str = ""


def node_of(pod: Envelope) -> str:
    """Name of the node a Pod is bound to, or "" while it is not."""
    return decode(pod.spec, _NodeName).node_name if pod.spec else ""


def owner_of(namespace: Envelope) -> tuple[str, str]:
    """Cluster key and name, in the tenant, of the namespace that a super namespace stands for; "" for unknown."""
    return namespace.annotations.get(names.CLUSTER, ""), namespace.annotations.get(names.NAMESPACE, "")


def _slim(parts: Parts) -> Callable[[Envelope], Envelope] | None:
    """A projection that keeps only the raw parts a kind needs; None when it needs all."""
    if parts.spec and parts.status:
        return None
    return lambda envelope: strip(envelope, spec=not parts.spec, status=not parts.status)


def _turned(old: Envelope, new: Envelope) -> bool:
    """Whether a node has become ready, or is it no more."""
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


def _runtime_class_waker(wake: Wake, tenant: str, side: Side) -> Callable[[Change], None]:
    def changed(change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        assert envelope is not None  # noqa: S101  a Change has at least one side
        wake(tenant, Dependency(side, RUNTIME_CLASSES, "", envelope.name))

    return changed


def _remember(departures: OrderedDict[K, bool], key: K, certain: bool) -> None:
    departures[key] = certain
    if len(departures) > DELETIONS_REMEMBERED:
        departures.popitem(last=False)


class _Side:
    """The reflectors of one side's resources, of its nodes and its RuntimeClasses."""

    reflectors: dict[Resource, Reflector]
    nodes: Reflector
    runtime_classes: Reflector

    def get(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """An object of this side from the cache."""
        reflector = self.nodes if resource == NODES else self.reflectors.get(resource)
        return reflector.cache.get(namespace, name) if reflector is not None else None

    def all(self) -> tuple[Reflector, ...]:
        """Every reflector of this side."""
        return (*self.reflectors.values(), self.nodes, self.runtime_classes)

    async def run(self) -> None:
        """Keep all caches current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.all():
                tasks.create_task(reflector.run())

    async def wait_synced(self) -> None:
        """Return when every cache has been filled once."""
        for reflector in self.all():
            await reflector.wait_synced()


def _as_wanted_before(change: Change) -> bool:
    """Whether nothing of a quota has changed but what is used of it, as with every Pod."""
    old, new = change.old, change.new
    return (
        old is not None
        and new is not None
        and (old.spec, old.labels, old.annotations, old.deleting)
        == (new.spec, new.labels, new.annotations, new.deleting)
    )


class SuperCaches(_Side):
    """What one super cluster holds of ours (everything labelled `controlled`), and its nodes.

    Args:
        client: client of the super cluster.
        kinds: the kinds that are synced.
        enqueue: called for every item whose super object changed.
        wake: called with every super object that changed.
        on_node: called with the name of a node that changed.
    """

    def __init__(
        self,
        client: Client,
        kinds: Mapping[str, Kind],
        *,
        enqueue: Enqueue,
        wake: Wake,
        on_node: Callable[[str], None],
    ) -> None:
        self._kinds = kinds
        self._enqueue = enqueue
        self._wake = wake
        self._on_node = on_node
        self._pods_on: Counter[tuple[str, str]] = Counter()
        self._bytes_in: Counter[str] = Counter()
        self.reflectors: dict[Resource, Reflector] = {}
        by_resource = {kind.resource: kind for kind in kinds.values()}
        for resource in (*by_resource, RESOURCE_QUOTAS):
            kind = by_resource.get(resource)
            self.reflectors[resource] = Reflector(
                client,
                resource,
                label_selector=CONTROLLED_SELECTOR,
                project=_slim(kind.super_parts) if kind is not None else None,
                on_change=self._router(resource, kind),
            )
        self.nodes = Reflector(client, NODES, on_change=self._node_changed)
        self.runtime_classes = Reflector(
            client, RUNTIME_CLASSES, on_change=_runtime_class_waker(wake, "", "super")
        )
        self._departures: OrderedDict[str, bool] = OrderedDict()

    def items(self, resource: Resource, namespace: str | None = None) -> Iterator[Envelope]:
        """All objects of a kind, or those of one super namespace."""
        return self.reflectors[resource].cache.items(namespace)

    def items_in(self, super_namespace: str, kind: Kind) -> Iterator[Item]:
        """The items of the objects of a kind that stand in a super namespace."""
        for envelope in self.reflectors[kind.resource].cache.items(super_namespace):
            item = (token_item(envelope) if kind.resource == SECRETS else None) or item_of(kind, envelope)
            if item is not None:
                yield item

    def departure_seen(self, uid: str) -> bool:
        """Whether the watch itself reported the end of the object that stood for the tenant's object of this UID."""
        return uid in self._departures

    def pods_on(self, tenant: str, node: str) -> int:
        """How many Pods of a tenant stand on a node."""
        return self._pods_on[(tenant, node)]

    def bytes_in(self, super_namespace: str) -> int:
        """How many bytes a super namespace and its objects take; see `room.weight`."""
        return self._bytes_in[super_namespace]

    def _router(self, resource: Resource, kind: Kind | None) -> Callable[[Change], None]:
        kinds = tuple(self._kinds.values())

        def changed(change: Change) -> None:
            envelope = change.new if change.new is not None else change.old
            assert envelope is not None  # noqa: S101  a Change has at least one side
            if resource == PODS:
                self._count(change)
            if change.new is None and change.reported:
                _remember(self._departures, envelope.annotations.get(names.UID, ""), True)
            if kind is not None:
                self._weigh(envelope.namespace or envelope.name, growth_of(change.old, change.new))
            tenant = envelope.annotations.get(names.CLUSTER, "")
            if not tenant:
                return
            self._wake(tenant, Dependency("super", resource, envelope.namespace, envelope.name))
            item = token_item(envelope) if resource == SECRETS else None
            if item is None and kind is not None:
                item = item_of(kind, envelope)
            if item is not None:
                self._enqueue(tenant, item)
            if resource == RESOURCE_QUOTAS and _as_wanted_before(change):
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

    def _weigh(self, place: str, growth: int) -> None:
        if growth:
            self._bytes_in[place] += growth
            if not self._bytes_in[place]:
                del self._bytes_in[place]

    def _node_changed(self, change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        if envelope is not None:
            self._on_node(envelope.name)


def token_item(secret: Envelope) -> Item | None:
    """The item that keeps a token Secret; None when the Secret is none."""
    pod = token.pod_of(secret)
    return Item(TOKENS, pod[0], secret.name) if pod is not None else None


def item_of(kind: Kind, envelope: Envelope) -> Item | None:
    """The item a super object belongs to, by the annotations its syncer gave it; None when it is not ours.

    Namespaces are named by the tenant's name of them; other objects stand in the super namespace of theirs.
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
    """One tenant's objects that concern one super cluster.

    Pods are selected by the server: only those labelled with the super cluster's id arrive. Objects of other kinds in
    namespaces that the ledger does not place here are dropped at the cache's door.

    Args:
        client: client of the tenant's control plane.
        tenant: cluster key.
        super_id: id of the super cluster.
        kinds: the kinds that are synced.
        is_open: whether the ledger lets an object pass: (resource, namespace, name).
        enqueue: called for every item whose tenant object changed.
        wake: called with every tenant object that changed.
        on_pod: called with every Pod that changed, as it is or last was.
        memory: bytes that all of it may take.
    """

    def __init__(
        self,
        client: Client,
        *,
        tenant: str,
        super_id: str,
        kinds: Mapping[str, Kind],
        is_open: Callable[[Resource, str, str], bool],
        enqueue: Enqueue,
        wake: Wake,
        on_pod: Callable[[Envelope], None],
        memory: int = TENANT_MEMORY_BYTES,
    ) -> None:
        self._memory = Memory(memory)
        self._full = asyncio.Event()
        self._on_pod = on_pod
        self._tenant = tenant
        self._kinds = kinds
        self._is_open = is_open
        self._enqueue = enqueue
        self._wake = wake
        # Whether the object was certainly deleted, or may only have left our sight.
        self._departures: OrderedDict[tuple[str, str, str, str], bool] = OrderedDict()
        self.reflectors: dict[Resource, Reflector] = {}
        for kind in kinds.values():
            self.reflectors[kind.resource] = Reflector(
                client,
                kind.resource,
                label_selector=f"{names.SUPER_CLUSTER}={super_id}" if kind.resource == PODS else "",
                accept=self._door(kind.resource),
                project=self._projection(
                    kind.resource, with_digest if kind.digested else _slim(kind.tenant_parts)
                ),
                on_change=self._router(kind),
            )
        self._super_id = super_id
        self.nodes = Reflector(
            client,
            NODES,
            label_selector=f"{names.SUPER_CLUSTER_ID}={super_id}",
            project=self._projection(NODES, None),
            on_change=self._node_changed,
        )
        self.runtime_classes = Reflector(
            client,
            RUNTIME_CLASSES,
            project=self._projection(RUNTIME_CLASSES, None),
            on_change=self._runtime_class_changed(_runtime_class_waker(wake, tenant, "tenant")),
        )

    async def run(self) -> None:
        """Keep all caches current until cancelled.

        Raises:
            TenantTooLarge: the tenant has more than it may take of our memory.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            await self._full.wait()
            raise self._memory.too_large()

    def _projection(
        self, resource: Resource, project: Callable[[Envelope], Envelope] | None
    ) -> Callable[[Envelope], Envelope]:
        def kept(envelope: Envelope) -> Envelope:
            found = project(envelope) if project is not None else envelope
            try:
                self._memory.arrives(resource, found)
            except TenantTooLarge:
                self._full.set()
                raise
            return found

        return kept

    def _weigh(self, resource: Resource, change: Change) -> None:
        if not self._memory.changed(resource, change):
            self._full.set()

    def _runtime_class_changed(self, wake: Callable[[Change], None]) -> Callable[[Change], None]:
        def changed(change: Change) -> None:
            self._weigh(RUNTIME_CLASSES, change)
            wake(change)

        return changed

    def items(self, kind: Kind) -> Iterator[Item]:
        """The item of every cached object of a kind."""
        for envelope in self.reflectors[kind.resource].cache.items():
            yield Item(kind.name, envelope.namespace, envelope.name)

    def deletion_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Whether the watch itself reported the end of exactly this object."""
        return self._departures.get((resource.plural, namespace, name, uid), False)

    def departure_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Whether the watch itself reported that exactly this object ended or left our sight."""
        return (resource.plural, namespace, name, uid) in self._departures

    async def refill(self, namespace: str) -> None:
        """Let a namespace in, or out: the ledger has changed its mind about it."""
        for resource, reflector in self.reflectors.items():
            if resource.namespaced and resource != PODS:
                await reflector.refill(namespace)

    def _door(self, resource: Resource) -> Callable[[Envelope], bool] | None:
        # Namespaces are few and small, and are needed the moment the ledger opens one; Pods are chosen by the server.
        if resource in (PODS, NAMESPACES):
            return None
        return lambda envelope: self._is_open(resource, envelope.namespace, envelope.name)

    def _router(self, kind: Kind) -> Callable[[Change], None]:
        kinds = tuple(self._kinds.values())
        resource = kind.resource

        def changed(change: Change) -> None:
            envelope = change.new if change.new is not None else change.old
            assert envelope is not None  # noqa: S101  a Change has at least one side
            self._weigh(resource, change)
            if change.new is None and change.reported:
                self._remember(resource, envelope)
            self._wake(self._tenant, Dependency("tenant", resource, envelope.namespace, envelope.name))
            self._enqueue(self._tenant, Item(kind.name, envelope.namespace, envelope.name))
            if resource == PODS:
                self._on_pod(envelope)
            for related in _related_items(kinds, "tenant", resource, envelope):
                self._enqueue(self._tenant, related)

        return changed

    def _node_changed(self, change: Change) -> None:
        """A virtual node that somebody in the tenant has taken away may still be needed.

        One that the tenant's node controller has given up, because it heard no beat for a while, does not become ready by
        the next beat: as a kubelet does, we have to say again how it is.
        """
        self._weigh(NODES, change)
        old, new = change.old, change.new
        if old is not None and (new is None or _turned(old, new)):
            node = names.split_virtual_node(old.name, self._super_id)
            if node is not None:
                self._enqueue(self._tenant, Item(NODES.plural, "", node))

    def _remember(self, resource: Resource, last: Envelope) -> None:
        """Note a departure that the watch reported. A Pod also leaves the selection when its label changes."""
        certain = resource != PODS or last.deleting
        _remember(self._departures, (resource.plural, last.namespace, last.name, last.uid), certain)
