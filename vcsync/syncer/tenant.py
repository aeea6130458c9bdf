"""One tenant on one super cluster: keeps the two in step from the moment it is connected until it goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

import structlog
from msgspec import Struct, field

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.errors import Conflict, Forbidden, KubeError, NotFound, TooManyRequests, Unauthorized
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.resources import NAMESPACES, NODES, PODS, SERVICES
from vcsync.syncer.act import Hands
from vcsync.syncer.caches import TENANT_MEMORY_BYTES, SuperCaches, item_of
from vcsync.syncer.drift import DriftLedger
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.event import event_up, regarding
from vcsync.syncer.kinds.plan import Dependency, Kind, Notify, TenantContext
from vcsync.syncer.kinds.runtime import runtime_class_dependency, runtime_classes
from vcsync.syncer.ledger import Ledger
from vcsync.syncer.nodes import Pace, VirtualNodes
from vcsync.syncer.reconcile import FAILED_CREATE, WAITS_FOR, Reconciler
from vcsync.syncer.room import Room
from vcsync.syncer.steps import in_steps
from vcsync.syncer.tenant_events import Destination
from vcsync.syncer.waiting import Item, WaitingRoom
from vcsync.syncer.world import World
from vcsync.tenancy.brake import Gate
from vcsync.tenancy.registry import TenantHandle

NODE = "nodes"
"""Items of this kind refresh a virtual node; ("", super cluster's node name)."""
REFILL = "refill"
"""Items of this kind follow a change of the ledger; (namespace, "")."""
SLICES_LOST = "SlicesLost"
"""Event reason: a Pod goes because its namespace holds no slices any more where it runs."""

TOLD_TO_OWNERS = frozenset({metadata.POLICY_REFUSED, FAILED_CREATE, WAITS_FOR})
"""Reasons of Events about a Pod that its controller is told, too: nothing of the Pod runs."""

log = structlog.get_logger(__name__)


class _ServiceSpec(Struct, gc=False, rename="camel"):
    cluster_ip: str = field(default="", name="clusterIP")


class TenantSync:
    """Keeps one tenant and one super cluster in step.

    Args:
        handle: the tenant's connection and VirtualCluster.
        server: URL of the tenant's API, as the syncer reaches it.
        super_client: client of the super cluster.
        here: what the super cluster holds.
        super_id: id of the super cluster.
        ledger: which of the tenant's namespaces belong here.
        kinds: the kinds that are synced.
        enqueue: hands an item of this tenant to the workers.
        wake: called with every object of the tenant that changed.
        waiting: where items that wait are parked.
        drift: where repairs are noted.
        gate: lets objects go that nobody was seen to delete.
        on_changed: called with the VirtualCluster when it has changed.
        clock: monotonic seconds.
        memory: bytes that the tenant's objects may take.
    """

    def __init__(
        self,
        handle: TenantHandle,
        *,
        server: str,
        super_client: Client,
        here: SuperCaches,
        super_id: str,
        ledger: Ledger,
        kinds: Mapping[str, Kind],
        enqueue: Callable[[str, Item], None],
        wake: Callable[[str, Dependency], None],
        waiting: WaitingRoom,
        drift: DriftLedger,
        gate: Gate,
        on_changed: Callable[[VirtualCluster], None],
        clock: Callable[[], float],
        memory: int = TENANT_MEMORY_BYTES,
    ) -> None:
        self._on_changed = on_changed
        self.key = handle.key
        self.handle = handle
        self._server = server
        self._here = here
        self._super_id = super_id
        self._enqueue = enqueue
        self.world = World(
            handle.client,
            key=self.key,
            super_id=super_id,
            here=here,
            ledger=ledger,
            kinds=kinds,
            enqueue=enqueue,
            wake=wake,
            memory=memory,
        )
        self.nodes = VirtualNodes(
            client=handle.client,
            tenant=self.key,
            super_id=super_id,
            reflector=self.world.theirs.nodes,
            super_node=lambda name: here.get(NODES, "", name),
            pods_on=lambda node: here.pods_on(self.key, node),
            clock=clock,
        )
        self._moved: dict[str, None] = {}
        self._waiting = waiting
        self._look_at_all = asyncio.Event()
        self._woken: list[Item] = []
        self._wake = asyncio.Event()
        self._recorder = EventRecorder(handle.client, "vcsync-syncer")
        self.context = self._make_context()
        self.reconciler = Reconciler(
            world=self.world,
            hands=Hands(
                tenant_client=handle.client,
                super_client=super_client,
                caches=self.world,
                ensure_node=self.nodes.ensure,
                clock=clock,
            ),
            context=lambda: self.context,
            tenant_endpoint=handle.client.name,
            notify=self._notify,
            room=Room(held=here.bytes_in, whole=lambda: ledger.room(self.key), clock=clock),
            waiting=waiting,
            drift=drift,
            gate=gate,
            prove=handle.prove,
            clock=clock,
        )

    @property
    def ready(self) -> bool:
        """Whether all caches are filled and items are being worked off."""
        return self.world.ready

    async def run(self) -> None:
        """Fill the caches, work off what differs, then follow changes until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.world.theirs.run())
                tasks.create_task(self._recorder.run())
                await self.world.theirs.wait_synced()
                await self._here.wait_synced()
                self.begin()
                tasks.create_task(self._enqueue_all_when_wanted())
                tasks.create_task(self._enqueue_woken())
                self.handle.ready()
                log.info("tenant synced", tenant=self.key, super_cluster=self._super_id)
                tasks.create_task(self.nodes.beat(self._pace))
                released = self._released()
                while True:
                    await self.handle.changed.wait()
                    self.handle.changed.clear()
                    self._on_changed(self.handle.virtual_cluster)
                    self.refresh_context()
                    if self._released() != released:
                        released = self._released()
                        self._look_at_all.set()
        finally:
            self.world.ready = False

    def _released(self) -> str | None:
        return self.handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED)

    def _pace(self) -> Pace:
        spec = self.handle.virtual_cluster.spec
        return Pace(float(spec.heartbeat_seconds), float(spec.virtual_node_linger_seconds))

    def begin(self) -> None:
        """The caches are filled: look at everything, and follow what changed while they were being filled."""
        self.world.ready = True
        self._refresh_context()
        self._look_at_all.set()
        for node in self.nodes.shown():
            self._enqueue(self.key, Item(NODE, "", node))
        for namespace in self._moved:
            self._enqueue(self.key, Item(REFILL, namespace, ""))
        self._moved.clear()

    def ledger_changed(self, namespace: str) -> None:
        """The ledger has let a namespace in or out, or changed its slices: follow it, as soon as there are caches.

        A cache whose list was read before has dropped the namespace's objects at its door, others may be listed after.
        """
        if self.ready:
            self._enqueue(self.key, Item(REFILL, namespace, ""))
        else:
            self._moved[namespace] = None

    async def enqueue_all(self) -> None:
        """Have every pair looked at, first those that need something for certain: after a restart most do not."""
        later: list[Item] = []
        async for item in in_steps(self.world.items()):
            if self.world.looks_settled(item):
                later.append(item)
            else:
                self._enqueue(self.key, item)
        async for item in in_steps(later):
            self._enqueue(self.key, item)

    async def _enqueue_all_when_wanted(self) -> None:
        while True:
            await self._look_at_all.wait()
            self._look_at_all.clear()
            await self.enqueue_all()

    async def reconcile(self, item: Item) -> float | None:
        """Bring one pair a step further; see `Reconciler.reconcile`."""
        if not self.ready:
            return None
        try:
            return await self.reconciler.reconcile(item)
        except Unauthorized as error:
            if error.endpoint == self.handle.client.name:
                self.handle.refused()
            raise

    async def placement_changed(self, namespace: str) -> None:
        """Bring the caches in line with the ledger about one namespace, and look at all of it again."""
        await self.world.theirs.refill(namespace)
        self._enqueue(self.key, Item(NAMESPACES.plural, "", namespace))
        for kind in self.world.kinds.values():
            for envelope in self.world.theirs.reflectors[kind.resource].cache.items(namespace):
                self._enqueue(self.key, Item(kind.name, namespace, envelope.name))

    def refresh_context(self) -> None:
        """The VirtualCluster has changed: see whether that changes what goes down."""
        if self._refresh_context() and self.ready:
            self._look_at_all.set()

    def dns_changed(self) -> None:
        """The tenant's name server has come here or has gone: Pods that stand keep theirs, others get it.

        Those that wait for it are woken by the Service itself.
        """
        self._refresh_context()

    def runtime_classes_changed(self) -> None:
        """A RuntimeClass has come, changed or gone, on either side: Pods that wait for what it stands for look again."""
        before = self.context.runtime_classes
        if not self._refresh_context() or not self.ready:
            return
        after = self.context.runtime_classes
        for name in {**before, **after}:
            if before.get(name) != after.get(name):
                self.look_again(self._waiting.wake(self.key, runtime_class_dependency(name)))

    def look_again(self, items: Iterable[Item]) -> None:
        """Have items looked at again, however many they are: they reach the workers in steps."""
        self._woken.extend(items)
        if self._woken:
            self._wake.set()

    async def _enqueue_woken(self) -> None:
        """Hand items to the workers that so many waited for one thing that it takes several steps."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            woken, self._woken = self._woken, []
            async for item in in_steps(woken):
                self._enqueue(self.key, item)

    def _refresh_context(self) -> bool:
        context = self._make_context()
        if context == self.context:
            return False
        self.context = context
        return True

    def destination(self, event: Envelope) -> Destination | None:
        """Where an Event of the super cluster about one of this tenant's objects belongs; None when it is nobody's."""
        about = regarding(event)
        for kind in self.world.kinds.values():
            if kind.resource.kind != about.kind:
                continue
            p = self._here.get(kind.resource, about.namespace, about.name)
            item = item_of(kind, p) if p is not None and p.uid == about.uid else None
            v = self.world.theirs.get(kind.resource, item.namespace, item.name) if item is not None else None
            if p is not None and v is not None and v.uid == p.annotations.get(names.UID):
                return Destination(self.key, self.handle.client, event_up(event, v, self.context))
        return None

    def tell_drained(self, pod: Envelope) -> None:
        """Say in the tenant why a Pod of the super cluster was asked to go: nothing else there would tell."""
        regarding = ObjectRef(
            api_version=PODS.api_version,
            kind=PODS.kind,
            namespace=pod.annotations.get(names.NAMESPACE, ""),
            name=pod.name,
            uid=pod.annotations.get(names.UID, ""),
        )
        message = (
            f"Its namespace holds no slices on super cluster {self._super_id} any more: the Pod ends, its controller "
            "makes another one where there is room"
        )
        self._recorder.emit(regarding, "Warning", SLICES_LOST, message, now=time.time())

    async def evict(self, pod: Envelope) -> str:
        """Ask the tenant whether one of its Pods may end, as `kubectl drain` does; it then begins to.

        Args:
            pod: the Pod of the super cluster that stands for it.

        Returns:
            What to wait for, in words; "" if nothing is in the way of ending the Pod of the super cluster.
        """
        v = self.world.theirs.get(PODS, pod.annotations.get(names.NAMESPACE, ""), pod.name)
        if v is None or v.deleting or v.uid != pod.annotations.get(names.UID):
            return ""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": v.name, "namespace": v.namespace},
            "deleteOptions": {"preconditions": {"uid": v.uid}},
        }
        try:
            await self.handle.client.create_raw(PODS, body, v.namespace, name=v.name, subresource="eviction")
        except (NotFound, Conflict):
            return ""  # it has gone
        except Forbidden as error:
            log.warning(
                "budgets are not asked: rights of an earlier version",
                tenant=self.key,
                error=error.status.message,
            )
            return ""
        except TooManyRequests as error:
            budgets = [cause.message for cause in error.status.causes if cause.reason == "DisruptionBudget"]
            return "; ".join(budgets) or error.status.message
        except KubeError as error:
            return f"its control plane does not say whether Pod {v.name} may end: {error}"
        return ""

    def _notify(self, kind: Kind, item: Item, v: Envelope | None, notice: Notify) -> None:
        regarding = ObjectRef(
            api_version=kind.resource.api_version,
            kind=kind.resource.kind,
            namespace=item.namespace,
            name=item.name,
            uid=v.uid if v is not None else "",
        )
        self._recorder.emit(regarding, notice.type, notice.reason, notice.message, now=time.time())
        if kind.resource == PODS and v is not None and notice.reason in TOLD_TO_OWNERS:
            self._tell_owner(v, notice)

    def _tell_owner(self, pod: Envelope, notice: Notify) -> None:
        """Say on a Pod's controller what keeps the Pod from running: whoever describes a Job looks no further.

        The Pod's name is left out: all Pods of a controller are refused for the same reason, and repeats of one Event are
        counted, not written again.
        """
        owner = next((owner for owner in pod.owners if owner.controller), None)
        if owner is None:
            return
        regarding = ObjectRef(
            api_version=owner.apiVersion,
            kind=owner.kind,
            namespace=pod.namespace,
            name=owner.name,
            uid=owner.uid,
        )
        message = f"Pods of it do not run: {notice.message}"
        self._recorder.emit(regarding, notice.type, notice.reason, message, now=time.time())

    def _make_context(self) -> TenantContext:
        virtual_cluster = self.handle.virtual_cluster
        spec = virtual_cluster.spec
        host, port = api_endpoint(virtual_cluster, self._server)
        return TenantContext(
            key=self.key,
            vc_name=virtual_cluster.name,
            vc_namespace=virtual_cluster.namespace,
            vc_uid=virtual_cluster.uid,
            super_id=self._super_id,
            api_host=host,
            api_port=port,
            cluster_domain=spec.cluster_domain,
            opaque_prefixes=spec.opaque_meta_prefixes,
            transparent_prefixes=spec.transparent_meta_prefixes,
            policy=spec.pod_policy,
            service_policy=spec.service_policy,
            priority_classes=spec.priority_classes,
            runtime_classes=runtime_classes(
                self.world.theirs.runtime_classes.cache.items(), self._here.runtime_classes.cache.items()
            ),
            dns_nameserver=self._nameserver(),
        )

    def _nameserver(self) -> str:
        """Address, in this super cluster, of the tenant's own DNS service; "" when it has none here."""
        namespace = self.world.super_namespace(names.TENANT_DNS_NAMESPACE)
        service = self._here.get(SERVICES, namespace, names.TENANT_DNS_SERVICE)
        if service is None or service.annotations.get(names.CLUSTER) != self.key:
            return ""
        address = decode(service.spec, _ServiceSpec).cluster_ip
        return "" if address == "None" else address


def api_endpoint(virtual_cluster: VirtualCluster, server: str) -> tuple[str, int]:
    """Where Pods find the tenant's API: as the operator said, else as the syncer itself reaches it.

    Args:
        virtual_cluster: the tenant's VirtualCluster.
        server: URL of the API in the tenant's kubeconfig.
    """
    endpoint = virtual_cluster.spec.api_endpoint
    if endpoint is not None:
        return endpoint.host, endpoint.port
    url = urlsplit(server)
    return url.hostname or "", url.port or 443
