"""The cached objects of one tenant on both sides. Plans read them, and the executor's answers update them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import INGRESSES, NAMESPACES, PODS, SECRETS, Resource
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import (
    TOKENS,
    SuperCaches,
    TenantCaches,
    has_ended,
    node_of,
    owner_of,
)
from vcsync.syncer.host_index import Age, HostIndex, Place
from vcsync.syncer.kinds import token
from vcsync.syncer.kinds.metadata import belongs_elsewhere
from vcsync.syncer.kinds.plan import Dependency, Kind, Placement, Side
from vcsync.syncer.ledger import Entry, Holding, Ledger
from vcsync.syncer.pending import PendingPods
from vcsync.syncer.provisioning import ProvisioningFailures
from vcsync.syncer.steps import in_steps
from vcsync.syncer.waiting import Item
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES

Unselected = Mapping[tuple[Resource, str, str], Envelope]
"""(resource, super namespace, name) -> an object of the super cluster that the caches do not select.

Such an object is found when a Create is refused because of its name.
"""


class Pair(NamedTuple):
    """The tenant's object (`v`) and the super cluster's object (`p`) of an item; None for one that does not exist."""

    v: Envelope | None
    p: Envelope | None

    @property
    def versions(self) -> tuple[str, str]:
        """The resource versions of both objects, "" for one that does not exist."""
        return (
            self.v.resource_version if self.v is not None else "",
            self.p.resource_version if self.p is not None else "",
        )


class TenantObjects:
    """The two sides of one tenant on one super cluster: a `plan.View` for plans and an `executor.Caches` for answers.

    Args:
        client: client of the tenant's control plane.
        key: cluster key.
        super_id: id of the super cluster.
        super_caches: caches of the super cluster.
        ledger: the ledger's entries of the super cluster.
        kinds: the kinds that are synced.
        enqueue: adds an item of this tenant to the work queue.
        wake: called with every object of the tenant that changed.
        memory: bytes that the tenant's cached objects may take.
        hosts: hosts of Ingresses in the super cluster.
    """

    def __init__(
        self,
        client: Client,
        *,
        key: str,
        super_id: str,
        super_caches: SuperCaches,
        ledger: Ledger,
        kinds: Mapping[str, Kind],
        enqueue: Callable[[str, Item], None],
        wake: Callable[[str, Dependency], None],
        memory: int = TENANT_MEMORY_BYTES,
        hosts: HostIndex | None = None,
    ) -> None:
        self.key = key
        self.hosts = hosts if hosts is not None else HostIndex()
        self.super_id = super_id
        self.super_caches = super_caches
        self.kinds = kinds
        self.failures = ProvisioningFailures()
        self.pending = PendingPods()
        self.ready = False
        self._ledger = ledger
        self._enqueue = enqueue
        self.tenant_caches = TenantCaches(
            client,
            tenant=key,
            super_id=super_id,
            kinds=kinds,
            is_placed=lambda resource, namespace, name: ledger.open(key, namespace, resource, name),
            enqueue=self.enqueue,
            wake=wake,
            on_pod=self._pod_changed,
            memory=memory,
        )

    # --- work

    def enqueue(self, tenant: str, item: Item) -> None:
        """Add an item to the work queue, if the caches are filled.

        Answers to the syncer's own writes add items too. An answer may contain an earlier change by another client, which
        no event reports any more, and a plan that created an object has not seen the object yet.
        """
        if self.ready:
            self._enqueue(tenant, item)

    def items(self) -> Iterator[Item | None]:
        """Yield the item of every object on either side, once each, and None for one that was yielded before.

        Kinds that others depend on come first. It is a generator, so that a walk over many items can be made in steps. An
        object that appears during the walk enqueues its own item.
        """
        seen: set[Item] = set()
        for kind in self.kinds.values():
            for item in itertools.chain(self.tenant_caches.items(kind), self._super_items(kind)):
                if item in seen:
                    yield None  # counts for `in_steps`: a settled tenant has all of its objects twice
                    continue
                seen.add(item)
                yield item
        yield from self.tenant_caches.volume_items()

    async def count_orphans(self, kind: Kind, side: Side) -> tuple[int, int]:
        """Count the objects of a kind on one side: those without a counterpart on the other side, and all.

        Objects that are being deleted, and those whose counterpart a watch has reported as deleted, are no orphans.

        The walk is made in steps; see `in_steps`.
        """
        orphans = total = 0
        async for item in in_steps(
            self._super_items(kind) if side == "super" else self.tenant_caches.items(kind)
        ):
            if item.kind != kind.name:
                continue
            v, p = self.pair(kind, item, {})
            if side == "super" and p is not None:
                total += 1
                orphans += v is None and not p.deleting and not self._left_above(kind, item, p)
            elif side == "tenant" and v is not None and (kind.resource != PODS or node_of(v)):
                total += 1
                orphans += (
                    p is None and not v.deleting and not self.super_caches.departure_seen(self.key, v.uid)
                )
        return orphans, total

    def _left_above(self, kind: Kind, item: Item, p: Envelope) -> bool:
        """Return whether the tenant's watch reported the deletion of the object of which `p` is the copy."""
        uid = p.annotations.get(names.UID, "")
        return self.tenant_caches.departure_seen(kind.resource, item.namespace, item.name, uid)

    async def has_bound_pods(self, node: str) -> bool:
        """Return whether Pods of the tenant that have not ended are bound to a virtual node. The walk is made in steps."""
        name = node.encode()
        async for pod in in_steps(self.tenant_caches.reflectors[PODS].cache.items()):
            if name in pod.spec and node_of(pod) == node and not has_ended(pod):
                return True
        return False

    def orphans_within(self, namespace: str) -> Iterator[tuple[Kind, Item, Pair]]:
        """Yield the objects in a tenant namespace's super namespace that have no counterpart in the tenant."""
        for kind in self.kinds.values():
            if kind.resource == NAMESPACES:
                continue
            for item in self.super_caches.items_in(self.super_namespace(namespace), kind):
                pair = self.pair(kind, item, {})
                if item.kind == kind.name and pair.v is None and pair.p is not None:
                    yield kind, item, pair

    def _super_items(self, kind: Kind) -> Iterator[Item]:
        for entry in self._ledger.entries(self.key):
            if kind.resource == NAMESPACES:
                yield Item(kind.name, "", entry.namespace)
            else:
                yield from self.super_caches.items_in(self.super_namespace(entry.namespace), kind)

    def looks_settled(self, item: Item) -> bool:
        """Return whether both objects of an item exist and none is being deleted. They may still differ."""
        kind = self.kinds.get(item.kind)
        if kind is None:
            return True
        v, p = self.pair(kind, item, {})
        return v is not None and p is not None and not v.deleting

    def entry(self, item: Item) -> Entry | None:
        """Return the ledger's entry of an item's namespace; None if it has none."""
        return self._ledger.entry(self.key, item.namespace or item.name)

    def unread(self, kind: Kind) -> tuple[Side, str] | None:
        """Return the side whose objects of an optional kind have not been read, and the last error; None if both have been.

        The error is empty until the first attempt has failed.
        """
        if not kind.optional:
            return None
        needed: list[tuple[Side, Resource]] = [("tenant", kind.resource), ("super", kind.resource)]
        needed += [("super", each) for each in kind.reads]
        needed += [(each.side, each.resource) for each in kind.related]
        for side, resource in needed:
            reflector = self._reflector(side, resource)
            if reflector is not None and not reflector.synced:
                return side, reflector.statistics().last_error or ""
        return None

    def pair(self, kind: Kind, item: Item, unselected: Unselected) -> Pair:
        """Return both objects of an item.

        Args:
            kind: the item's kind.
            item: the item.
            unselected: objects of the super cluster that the caches do not select.
        """
        v = self.tenant_caches.get(kind.resource, item.namespace, item.name)
        place = self.place(kind, item)
        if place is None:
            return Pair(v, None)
        p = unselected.get((kind.resource, *place)) or self.super_caches.get(kind.resource, *place)
        if v is None and p is not None and belongs_elsewhere(p, self.key, item.namespace or item.name):
            # The super cluster's object is the copy of another object, so this item has none.
            return Pair(None, None)
        return Pair(v, p)

    def place(self, kind: Kind, item: Item) -> tuple[str, str] | None:
        """Return (namespace, name) of an item's object in the super cluster; None if it has no counterpart there."""
        if kind.resource == NAMESPACES:
            return "", self.super_namespace(item.name)
        name = kind.super_name(item.name)
        return (self.super_namespace(item.namespace), name) if name is not None else None

    def has_super_namespace(self) -> bool:
        """Return whether the super cluster has a namespace of the tenant."""
        return any(owner_of(each)[0] == self.key for each in self.super_caches.items(NAMESPACES))

    def super_namespace(self, namespace: str) -> str:
        """Return the super namespace of one of the tenant's namespaces."""
        return names.super_namespace(self.key, namespace)

    def _pod_changed(self, pod: Envelope) -> None:
        """Enqueue a Pod's token Secret, if it has one: the Secret may have to be removed with the Pod."""
        secret = token.secret_name(pod.uid)
        if self.super_caches.get(SECRETS, self.super_namespace(pod.namespace), secret) is not None:
            self.enqueue(self.key, Item(TOKENS, pod.namespace, secret))

    # --- the view of plans (kinds.plan.View)

    def tenant(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """Return the tenant's object, by its namespace in the tenant."""
        return self.tenant_caches.get(resource, namespace, name)

    def super(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """Return the super cluster's object, by its super namespace."""
        return self.super_caches.get(resource, namespace, name)

    def placement(self, namespace: str) -> Placement | None:
        """Return the placement of a tenant namespace; None if it has no slices on this super cluster."""
        entry = self._ledger.entry(self.key, namespace)
        return entry.placement if entry is not None and entry.holding is not Holding.DRAINING else None

    def deletion_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Return whether the tenant's watch reported the deletion of exactly this object."""
        return self.tenant_caches.deletion_seen(resource, namespace, name, uid)

    def on_cordoned_nodes(self, namespace: str) -> Iterator[Envelope]:
        """Yield the copies of the Pods of a tenant namespace on nodes that are unschedulable."""
        return self.super_caches.on_cordoned_nodes(self.super_namespace(namespace))

    def turn(self, seconds: float) -> int:
        """Return the number of the present period of this many seconds, by the time of day."""
        return int(time.time() // seconds)

    def provisioning_failed_for(self, uid: str) -> float | None:
        """Return the seconds since the super cluster first failed to provision the claim with this UID; None if it did not."""
        return self.failures.seconds(uid)

    def unschedulable_for(self, uid: str) -> float:
        """Return the seconds since a plan first found the copy of a Pod without a node that suits it, by the copy's UID."""
        return self.pending.seconds(uid)

    def host_holder(self, host: str, *, before: Age | None = None) -> Dependency | None:
        """Return an Ingress of somebody else in the super cluster that has a host; see `HostIndex.holder`."""
        found = self.hosts.holder(self.key, host, before=before)
        return Dependency("super", INGRESSES, *found) if found is not None else None

    def is_backend(self, namespace: str, service: str) -> bool:
        """Return whether an Ingress in a super namespace sends requests to a Service."""
        return self.hosts.is_backend(namespace, service)

    def release(self, kind: Kind, item: Item) -> None:
        """End the reservation of what an item claims: it has been written, or will not be."""
        place = self.place(kind, item) if kind.claims is not None else None
        if place is not None:
            self.hosts.release(Place(*place))

    def with_unselected(self, unselected: Unselected) -> TenantObjects | ObjectsWithUnselected:
        """Return a view that also contains objects that the caches do not select."""
        return ObjectsWithUnselected(self, unselected) if unselected else self

    # --- answers to the syncer's own writes (executor.Caches)

    def observe(self, side: Side, resource: Resource, answer: Envelope) -> None:
        """Update a cache with the present state of an object."""
        if side == "tenant" and resource == PODS and answer.labels.get(names.SUPER_CLUSTER) != self.super_id:
            return
        reflector = self._reflector(side, resource)
        if reflector is None:
            return
        reflector.observe(answer)

    def observe_gone(
        self, side: Side, resource: Resource, namespace: str, name: str, uid: str, *, final: bool = True
    ) -> None:
        """Update a cache for an object that does not exist any more."""
        reflector = self._reflector(side, resource)
        if reflector is not None:
            reflector.observe_gone(namespace, name, uid, final=final)

    def _reflector(self, side: Side, resource: Resource) -> Reflector | None:
        return (self.tenant_caches if side == "tenant" else self.super_caches).reflector(resource)


class ObjectsWithUnselected:
    """A view that also contains objects whose names made a Create fail."""

    def __init__(self, objects: TenantObjects, unselected: Unselected) -> None:
        self._objects = objects
        self._unselected = unselected
        self.tenant = objects.tenant
        self.placement = objects.placement
        self.deletion_seen = objects.deletion_seen
        self.on_cordoned_nodes = objects.on_cordoned_nodes
        self.turn = objects.turn
        self.provisioning_failed_for = objects.provisioning_failed_for
        self.unschedulable_for = objects.unschedulable_for
        self.host_holder = objects.host_holder
        self.is_backend = objects.is_backend

    def super(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """Return the super cluster's object, by its super namespace."""
        return self._unselected.get((resource, namespace, name)) or self._objects.super(
            resource, namespace, name
        )
