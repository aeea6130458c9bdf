"""One tenant's objects on both sides, as the caches have them: what plans read, and where our own answers are shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES, PODS, SECRETS, Resource
from vcsync.syncer.caches import TENANT_MEMORY_BYTES, TOKENS, SuperCaches, TenantCaches, node_of
from vcsync.syncer.kinds import token
from vcsync.syncer.kinds.metadata import belongs_elsewhere
from vcsync.syncer.kinds.plan import Dependency, Kind, Placement, Side
from vcsync.syncer.ledger import Entry, Holding, Ledger
from vcsync.syncer.steps import in_steps
from vcsync.syncer.waiting import Item

Met = Mapping[tuple[Resource, str, str], Envelope]
"""(resource, super namespace, name) -> an object of the super cluster that the caches do not select."""


class Pair(NamedTuple):
    """The tenant's and the super cluster's object of an item."""

    v: Envelope | None
    p: Envelope | None

    @property
    def versions(self) -> tuple[str, str]:
        """The resource versions of both, "" for one that is absent."""
        return (
            self.v.resource_version if self.v is not None else "",
            self.p.resource_version if self.p is not None else "",
        )


class World:
    """The two sides of one tenant on one super cluster; a `View` for plans and a `Caches` for answers.

    Args:
        client: client of the tenant's control plane.
        key: cluster key.
        super_id: id of the super cluster.
        here: what the super cluster holds.
        ledger: which of the tenant's namespaces belong here.
        kinds: the kinds that are synced.
        enqueue: hands an item of this tenant to the workers.
        wake: called with every object of the tenant that changed.
        memory: bytes that the tenant's objects may take.
    """

    def __init__(
        self,
        client: Client,
        *,
        key: str,
        super_id: str,
        here: SuperCaches,
        ledger: Ledger,
        kinds: Mapping[str, Kind],
        enqueue: Callable[[str, Item], None],
        wake: Callable[[str, Dependency], None],
        memory: int = TENANT_MEMORY_BYTES,
    ) -> None:
        self.key = key
        self.super_id = super_id
        self.here = here
        self.kinds = kinds
        self.ready = False
        self._ledger = ledger
        self._enqueue = enqueue
        self.theirs = TenantCaches(
            client,
            tenant=key,
            super_id=super_id,
            kinds=kinds,
            is_open=lambda resource, namespace, name: ledger.open(key, namespace, resource, name),
            enqueue=self.enqueue,
            wake=wake,
            on_pod=self._pod_changed,
            memory=memory,
        )

    # --- work

    def enqueue(self, tenant: str, item: Item) -> None:
        """Hand an item to the workers once they may work.

        The answer to our own write counts too: it may show what others wrote just before, of which no event comes any
        more, and a plan that created something has seen nothing of it yet.
        """
        if self.ready:
            self._enqueue(tenant, item)

    def items(self) -> Iterator[Item]:
        """Every pair of which either side holds something, once, kinds that others depend on first.

        A generator, so that a walk over many can be made in steps; what comes meanwhile is news of its own.
        """
        seen: set[Item] = set()
        for kind in self.kinds.values():
            for item in itertools.chain(self.theirs.items(kind), self._items_here(kind)):
                if item not in seen:
                    seen.add(item)
                    yield item

    async def lost(self, kind: Kind, side: Side) -> tuple[int, int]:
        """How many objects of a kind are to go on a side because the other has none, and how many stand; in steps."""
        lost = standing = 0
        async for item in in_steps(self._items_here(kind) if side == "super" else self.theirs.items(kind)):
            if item.kind != kind.name:
                continue
            v, p = self.pair(kind, item, {})
            if side == "super" and p is not None:
                standing += 1
                lost += v is None
            elif side == "tenant" and v is not None and (kind.resource != PODS or node_of(v)):
                standing += 1
                lost += p is None
        return lost, standing

    def _items_here(self, kind: Kind) -> Iterator[Item]:
        for entry in self._ledger.entries(self.key):
            if kind.resource == NAMESPACES:
                yield Item(kind.name, "", entry.namespace)
            else:
                yield from self.here.items_in(self.super_namespace(entry.namespace), kind)

    def looks_settled(self, item: Item) -> bool:
        """Whether both objects of an item are there and stay: at most they differ in something."""
        kind = self.kinds.get(item.kind)
        if kind is None:
            return True
        v, p = self.pair(kind, item, {})
        return v is not None and p is not None and not v.deleting

    def entry(self, item: Item) -> Entry | None:
        """The ledger's entry of an item's namespace."""
        return self._ledger.entry(self.key, item.namespace or item.name)

    def pair(self, kind: Kind, item: Item, met: Met) -> Pair:
        """Both objects of an item.

        Args:
            kind: its kind.
            item: the item.
            met: objects of its names that the caches do not select.
        """
        v = self.theirs.get(kind.resource, item.namespace, item.name)
        place = self.place(kind, item)
        if place is None:
            return Pair(v, None)
        p = met.get((kind.resource, *place)) or self.here.get(kind.resource, *place)
        if v is None and p is not None and belongs_elsewhere(p, self.key, item.namespace or item.name):
            return Pair(None, None)  # what has gone never stood there
        return Pair(v, p)

    def place(self, kind: Kind, item: Item) -> tuple[str, str] | None:
        """(namespace, name) of an item's object in the super cluster; None if it has no counterpart there."""
        if kind.resource == NAMESPACES:
            return "", self.super_namespace(item.name)
        name = kind.super_name(item.name)
        return (self.super_namespace(item.namespace), name) if name is not None else None

    def super_namespace(self, namespace: str) -> str:
        """The super namespace of one of the tenant's."""
        return names.super_namespace(self.key, namespace)

    def _pod_changed(self, pod: Envelope) -> None:
        """A Pod's token Secret, if it has one, may have to go with it."""
        secret = token.secret_name(pod.uid)
        if self.here.get(SECRETS, self.super_namespace(pod.namespace), secret) is not None:
            self.enqueue(self.key, Item(TOKENS, pod.namespace, secret))

    # --- what plans read (kinds.plan.View)

    def tenant(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """The tenant's object, by its tenant namespace."""
        return self.theirs.get(resource, namespace, name)

    def super(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """The super cluster's object, by its super namespace."""
        return self.here.get(resource, namespace, name)

    def placement(self, namespace: str) -> Placement | None:
        """The ledger's entry of a tenant namespace; None when it has no slices here."""
        entry = self._ledger.entry(self.key, namespace)
        return entry.placement if entry is not None and entry.holding is not Holding.DRAINING else None

    def deletion_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Whether the tenant's watch itself reported the deletion of exactly this object."""
        return self.theirs.deletion_seen(resource, namespace, name, uid)

    def with_met(self, met: Met) -> World | WorldWith:
        """This world, and objects that the caches do not select."""
        return WorldWith(self, met) if met else self

    # --- answers of our own writes (act.Caches)

    def observe(self, side: Side, resource: Resource, answer: Envelope) -> None:
        """Show a cache an object as the server has it now."""
        if side == "tenant" and resource == PODS and answer.labels.get(names.SUPER_CLUSTER) != self.super_id:
            return
        reflector = self._reflector(side, resource)
        if reflector is None:
            return
        reflector.observe(answer)

    def observe_gone(
        self, side: Side, resource: Resource, namespace: str, name: str, uid: str, *, for_good: bool = True
    ) -> None:
        """Show a cache that an object no longer exists."""
        reflector = self._reflector(side, resource)
        if reflector is not None:
            reflector.observe_gone(namespace, name, uid, for_good=for_good)

    def _reflector(self, side: Side, resource: Resource) -> Reflector | None:
        return (self.theirs if side == "tenant" else self.here).reflectors.get(resource)


class WorldWith:
    """A world as a plan sees it that is made again because a Create met an object of that name."""

    def __init__(self, world: World, met: Met) -> None:
        self._world = world
        self._met = met
        self.tenant = world.tenant
        self.placement = world.placement
        self.deletion_seen = world.deletion_seen

    def super(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """The super cluster's object, by its super namespace."""
        return self._met.get((resource, namespace, name)) or self._world.super(resource, namespace, name)
