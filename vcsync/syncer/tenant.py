"""Synchronizes one tenant with one super cluster, from its connection until the end of its session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Set
from urllib.parse import urlsplit

import structlog
from msgspec import Struct, field

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import ShownNodes
from vcsync.api.without_effect import REASON
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, Forbidden, KubeError, NotFound, TooManyRequests, Unauthorized
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.resources import NAMESPACES, NODES, PERSISTENT_VOLUMES, PODS, SERVICES
from vcsync.objects.envelope import Envelope, decode
from vcsync.resourcemetrics.documents import Described
from vcsync.syncer.caches import SuperCaches, item_of, node_of
from vcsync.syncer.drift.detector import DriftDetector
from vcsync.syncer.executor import Executor
from vcsync.syncer.host_index import HostIndex
from vcsync.syncer.kinds import cluster_ips, metadata, volume_event
from vcsync.syncer.kinds.event import event_up, regarding
from vcsync.syncer.kinds.node import without_effect
from vcsync.syncer.kinds.plan import Dependency, Kind, Notify, TenantContext
from vcsync.syncer.kinds.poddisruptionbudget import POD_DISRUPTION_BUDGET
from vcsync.syncer.kinds.runtime import runtime_class_dependency, runtime_classes
from vcsync.syncer.kubelet_api.server import SuperPod
from vcsync.syncer.kubelet_api.service import KubeletApi, ServedTenant
from vcsync.syncer.kubelet_api.settings import Endpoint
from vcsync.syncer.ledger import Ledger
from vcsync.syncer.metrics_api.tenant_usage import RunningPod
from vcsync.syncer.nodes import Pace, VirtualNodes
from vcsync.syncer.pod_controllers import PodControllers
from vcsync.syncer.provisioning import reports_failure
from vcsync.syncer.reconcile import FAILED_CREATE, WAITS_FOR, Reconciler
from vcsync.syncer.steps import in_steps
from vcsync.syncer.store_budget import StoreBudget
from vcsync.syncer.tenant_events import Destination
from vcsync.syncer.tenant_objects import TenantObjects
from vcsync.syncer.waiting import Item, ParkedItems
from vcsync.tenancy.brake import DeletionLimiter
from vcsync.tenancy.caches import wait_for_caches
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES
from vcsync.tenancy.registry import TenantHandle

NODE = "nodes"
"""Kind of the items that refresh a virtual node: ("", name of the super cluster's node)."""
REFILL = "refill"
"""Kind of the items that follow a change of the ledger: (namespace, "")."""
SLICES_LOST = "SlicesLost"
"""Event reason: a Pod is evicted because its namespace has lost its slices where the Pod runs."""
MOST_EVICTED = 10_000
"""Number of evicted Pods that are remembered. Pods whose copies end by themselves remain in it; then Events are repeated."""
NOT_SHARED = "EndpointsNotShared"
"""Event reason: Pods of a Service are not reached from other super clusters of the network."""

REPORTED_TO_OWNERS = frozenset({metadata.POLICY_REFUSED, FAILED_CREATE, WAITS_FOR})
"""Reasons of Events about a Pod that are repeated for its controller, since the Pod does not run."""

log = structlog.get_logger(__name__)


class _ServiceSpec(Struct, gc=False, rename="camel"):
    cluster_ip: str = field(default="", name="clusterIP")


class TenantSync:
    """Synchronizes one tenant with one super cluster.

    Args:
        handle: the tenant's connection and VirtualCluster.
        server: URL of the tenant's API, as the syncer reaches it.
        super_client: client of the super cluster.
        super_caches: caches of the super cluster.
        super_id: id of the super cluster.
        ledger: the ledger's entries of the super cluster.
        kinds: the kinds that are synced.
        enqueue: adds an item of this tenant to the work queue.
        wake: called with every object of the tenant that changed.
        waiting: the parked items.
        drift: finds and records repairs.
        limiter: permits deletions for which no request was observed, or raises Braked.
        on_changed: called with the VirtualCluster when it has changed.
        note: records an action on an item's object in the tenant: (item, description, its resourceVersion).
        clock: monotonic seconds.
        memory: bytes that the tenant's cached objects may take.
        kubelet_api: serves logs and streams to the tenant's kube-apiserver. None: they are not served.
        leaving: tells whether the tenant is being removed from the pool.
        out_of_touch: returns whether the super cluster is not heard from.
        lost_since: returns since when the super cluster has been out of touch, in words, once it is lost; "" otherwise.
        hosts: hosts of Ingresses in the super cluster.
        networks: returns the network of each super cluster that is in one, by its id.
        lost: returns the ids of the super clusters that are lost.
        service_range: returns the range of cluster IPs that the tenant has for itself, in CIDR notation; "" if it has none.
        unschedulable_seconds: seconds without a node for a copy after which its Pod counts as refused here.
    """

    def __init__(
        self,
        handle: TenantHandle,
        *,
        server: str,
        super_client: Client,
        super_caches: SuperCaches,
        super_id: str,
        ledger: Ledger,
        kinds: Mapping[str, Kind],
        enqueue: Callable[[str, Item], None],
        wake: Callable[[str, Dependency], None],
        waiting: ParkedItems,
        drift: DriftDetector,
        limiter: DeletionLimiter,
        on_changed: Callable[[VirtualCluster], None],
        note: Callable[[Item, str, str], None],
        clock: Callable[[], float],
        memory: int = TENANT_MEMORY_BYTES,
        kubelet_api: KubeletApi | None = None,
        leaving: Callable[[], Awaitable[bool]],
        hosts: HostIndex | None = None,
        shown_nodes: Callable[[], ShownNodes | None] = lambda: None,
        networks: Callable[[], Mapping[str, str]] = dict,
        lost: Callable[[], frozenset[str]] = frozenset,
        service_range: Callable[[VirtualCluster], str] = lambda _: "",
        out_of_touch: Callable[[], bool] = lambda: False,
        lost_since: Callable[[], str] = lambda: "",
        unschedulable_seconds: float = 60.0,
    ) -> None:
        self._unschedulable_seconds = unschedulable_seconds
        self._shown_nodes = shown_nodes
        self._networks = networks
        self._lost = lost
        self._ledger = ledger
        self._service_range = service_range
        self._out_of_touch = out_of_touch
        self._kubelet_api = kubelet_api
        self._leaving = leaving
        self._kubelet: Endpoint | None = None
        self._on_changed = on_changed
        self._note = note
        self.key = handle.key
        self.handle = handle
        self._server = server
        self._super_caches = super_caches
        self._super_id = super_id
        self._enqueue = enqueue
        self.objects = TenantObjects(
            handle.client,
            key=self.key,
            super_id=super_id,
            super_caches=super_caches,
            ledger=ledger,
            kinds=kinds,
            enqueue=enqueue,
            wake=wake,
            memory=memory,
            hosts=hosts,
        )
        self.nodes = VirtualNodes(
            client=handle.client,
            tenant=self.key,
            super_id=super_id,
            reflector=self.objects.tenant_caches.nodes,
            super_node=lambda name: super_caches.get(NODES, "", name),
            pods_on=lambda node: super_caches.pods_on(self.key, node),
            bound=self.objects.has_bound_pods,
            clock=clock,
            lost=lost_since,
        )
        self.objects.tenant_caches.on_node_change = self.report_without_effect
        self._needed = asyncio.Event()
        if any(ledger.entries(self.key)):
            self._needed.set()
        self._moved: dict[str, None] = {}
        self._waiting = waiting
        self._enqueue_all_wanted = asyncio.Event()
        self._woken: list[Item] = []
        self._wake = asyncio.Event()
        self._recorder = EventRecorder(handle.client, "vcsync-syncer")
        # UIDs of the tenant's Pods whose evictions have emitted an Event, until their copies are deleted.
        self._evicted: set[str] = set()
        self._runtime_classes: dict[str, str] = {}
        self.context = self._make_context()
        self.reconciler = Reconciler(
            objects=self.objects,
            executor=Executor(
                tenant_client=handle.client,
                super_client=super_client,
                caches=self.objects,
                ensure_node=self.nodes.ensure,
                clock=clock,
            ),
            context=lambda: self.context,
            tenant_endpoint=handle.client.name,
            notify=self._notify,
            budget=StoreBudget(
                stored=super_caches.bytes_in, tenant_limit=lambda: ledger.byte_limit(self.key), clock=clock
            ),
            waiting=waiting,
            drift=drift,
            limiter=limiter,
            prove=self._prove,
            note=note,
            clock=clock,
        )

    @property
    def ready(self) -> bool:
        """Whether all caches are filled and items are reconciled."""
        return self.objects.ready

    @property
    def needed(self) -> bool:
        """Whether the super cluster has or gets objects of the tenant, so that its caches are filled."""
        return self._needed.is_set()

    def need(self) -> None:
        """Note that the super cluster has or gets objects of the tenant."""
        self._needed.set()

    async def run(self) -> None:
        """Fill the caches as soon as they are needed, reconcile every item, then follow changes until cancelled.

        A tenant with nothing on this super cluster is not watched, since each watch costs a connection on both sides.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_settings())
                await self._until_needed()
                tasks.create_task(self.objects.tenant_caches.run())
                tasks.create_task(self._recorder.run())
                await wait_for_caches(
                    [*self.objects.tenant_caches.required(), *self._super_caches.required()]
                )
                self.begin()
                tasks.create_task(self._enqueue_all_when_wanted())
                tasks.create_task(self._enqueue_woken())
                self.handle.ready()
                log.info("tenant synced", tenant=self.key, super_cluster=self._super_id)
                tasks.create_task(self.nodes.beat(self._pace))
                tasks.create_task(self._serve_kubelet_api())
        finally:
            self.objects.ready = False

    async def _until_needed(self) -> None:
        """Wait until the super cluster has or gets objects of the tenant, or the tenant has some of the super cluster."""
        await wait_for_caches([*self._super_caches.required()])
        if self.objects.has_super_namespace() or await self._has_shadows():
            self.need()
        if not self.needed:
            self.handle.ready()
            log.info("nothing of the tenant is here", tenant=self.key, super_cluster=self._super_id)
        await self._needed.wait()

    async def _has_shadows(self) -> bool:
        """Return whether the tenant has virtual nodes or volumes of this super cluster, which may have to be removed."""
        selector = f"{names.SUPER_CLUSTER_ID}={self._super_id}"
        if await self.handle.client.list(NODES, label_selector=selector, limit=1, most_pages=1):
            return True
        try:
            found = await self.handle.client.list(
                PERSISTENT_VOLUMES, label_selector=selector, limit=1, most_pages=1
            )
        except (Forbidden, NotFound):  # an optional kind; see `Reflectors.required`
            return False
        return bool(found)

    async def _follow_settings(self) -> None:
        """Follow changes of the VirtualCluster."""
        released = self._released()
        while True:
            await self.handle.changed.wait()
            self.handle.changed.clear()
            self._on_changed(self.handle.virtual_cluster)
            self.refresh_context()
            if self._released() != released:
                released = self._released()
                self._enqueue_all_wanted.set()

    async def _serve_kubelet_api(self) -> None:
        if self._kubelet_api is not None:
            await self._kubelet_api.serve(
                ServedTenant(
                    self.key,
                    self.handle.client,
                    self.super_pod,
                    self.super_pods,
                    self._kubelet_api_opened,
                    self._leaving,
                )
            )

    def _kubelet_api_opened(self, endpoint: Endpoint | None) -> None:
        """Follow a change of the address of the kubelet API, which is in the status of all virtual nodes."""
        self._kubelet = endpoint
        self.refresh_context()
        for node in self.nodes.shown():
            self._enqueue(self.key, Item(NODE, "", node))

    def super_pod(self, namespace: str, name: str) -> SuperPod | None:
        """Return where one of the tenant's Pods runs; None if it does not run on this super cluster."""
        v = self.objects.tenant_caches.get(PODS, namespace, name)
        if v is None:
            return None
        below = self.objects.super_namespace(namespace)
        p = self._super_caches.get(PODS, below, name)
        if p is None:
            return None
        stated = tuple(p.annotations.get(each) for each in (names.CLUSTER, names.NAMESPACE, names.UID))
        return SuperPod(node_of(v), below) if stated == (self.key, namespace, v.uid) else None

    def super_pods(self) -> Iterator[RunningPod]:
        """Yield the tenant's Pods that run on this super cluster."""
        for v in self.objects.tenant_caches.reflectors[PODS].cache.items():
            place = self.super_pod(v.namespace, v.name)
            if place is not None:
                yield RunningPod(Described(v.name, v.namespace, dict(v.labels)), place.node, place.namespace)

    async def _prove(self) -> None:
        await self.handle.prove(sum(reflector.lists_taken for reflector in self.objects.tenant_caches.all()))

    def _released(self) -> str | None:
        return self.handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED)

    def _pace(self) -> Pace:
        spec = self.handle.virtual_cluster.spec
        return Pace(float(spec.heartbeat_seconds), float(spec.virtual_node_linger_seconds))

    def begin(self) -> None:
        """Enqueue every item, now that the caches are filled, and the changes of the ledger since the session began."""
        self.objects.ready = True
        self._refresh_context()
        self.runtime_classes_changed()
        self._enqueue_all_wanted.set()
        for node in self.nodes.shown():
            self._enqueue(self.key, Item(NODE, "", node))
        for namespace in self._moved:
            self._enqueue(self.key, Item(REFILL, namespace, ""))
        self._moved.clear()

    def ledger_changed(self, namespace: str) -> None:
        """Follow a change of a namespace's placement, as soon as the caches are filled.

        A cache that was filled before the change does not contain the namespace's objects.
        """
        self.need()
        if self.ready:
            self._enqueue(self.key, Item(REFILL, namespace, ""))
        else:
            self._moved[namespace] = None

    async def enqueue_all(self) -> None:
        """Enqueue every item. Items that certainly need work come first, since after a restart most items need none."""
        later: list[Item] = []
        async for item in in_steps(self.objects.items()):
            if self.objects.looks_settled(item):
                later.append(item)
            else:
                self._enqueue(self.key, item)
        async for item in in_steps(later):
            self._enqueue(self.key, item)

    async def _enqueue_all_when_wanted(self) -> None:
        while True:
            await self._enqueue_all_wanted.wait()
            self._enqueue_all_wanted.clear()
            await self.enqueue_all()

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one item; see `Reconciler.reconcile`."""
        if not self.ready:
            return None
        try:
            return await self.reconciler.reconcile(item)
        except Unauthorized as error:
            if error.endpoint == self.handle.client.name:
                self.handle.refused()
            raise

    async def placement_changed(self, namespace: str) -> None:
        """Update the caches after a namespace's placement changed, and enqueue all its items."""
        await self.objects.tenant_caches.refill(namespace)
        self._enqueue(self.key, Item(NAMESPACES.plural, "", namespace))
        for kind in self.objects.kinds.values():
            for envelope in self.objects.tenant_caches.reflectors[kind.resource].cache.items(namespace):
                self._enqueue(self.key, Item(kind.name, namespace, envelope.name))

    def refresh_context(self) -> None:
        """Follow a change of the VirtualCluster: enqueue every item if the context of the kinds has changed."""
        if self._refresh_context() and self.ready:
            self._enqueue_all_wanted.set()

    def lost_changed(self, super_ids: Set[str]) -> None:
        """Follow the loss or the return of super clusters: enqueue the Services of namespaces that have slices there."""
        if not self._refresh_context() or not self.ready:
            return
        services = self.objects.tenant_caches.reflectors[SERVICES].cache
        for entry in self._ledger.entries(self.key):
            if not super_ids.isdisjoint(entry.placement.placements):
                for service in services.items(entry.namespace):
                    self._enqueue(self.key, Item(SERVICES.plural, entry.namespace, service.name))

    def dns_changed(self) -> None:
        """Follow a change of the tenant's name server on this super cluster.

        Existing Pods keep their name server. New Pods use the present one. The Service itself wakes Pods that wait for it.
        """
        self._refresh_context()

    def shown_nodes_changed(self) -> None:
        """Follow a change of what tenants see of nodes. The caller enqueues the nodes."""
        self._refresh_context()

    def runtime_class_changed(self, name: str) -> None:
        """Follow a change of one of the tenant's RuntimeClasses, and wake the Pods that wait for it.

        Only this class is examined, since a tenant may have any number of them and write them at any rate.
        """
        if not self.ready:
            return
        changed = self.objects.tenant_caches.runtime_classes.cache.get("", name)
        self._set_runtime_classes([name], self._counterparts([changed] if changed is not None else []))

    def runtime_classes_changed(self) -> None:
        """Follow a change of the super cluster's RuntimeClasses, and wake the Pods that wait for one of them."""
        if not self.ready:
            return
        found = self._counterparts(self.objects.tenant_caches.runtime_classes.cache.items())
        self._set_runtime_classes({**self._runtime_classes, **found}, found)

    def _counterparts(self, theirs: Iterable[Envelope]) -> dict[str, str]:
        return runtime_classes(theirs, self._super_caches.runtime_classes.cache.items())

    def _set_runtime_classes(self, named: Iterable[str], found: Mapping[str, str]) -> None:
        """Store the counterparts of some classes. Classes of `named` that are not in `found` have none any more."""
        for name in named:
            if self._runtime_classes.get(name) == found.get(name):
                continue
            if name in found:
                self._runtime_classes[name] = found[name]
            else:
                del self._runtime_classes[name]
            self.enqueue_in_steps(self._waiting.wake(self.key, runtime_class_dependency(name)))

    def enqueue_budgets(self) -> None:
        """Enqueue the PodDisruptionBudgets, because Pods have to leave a node, or may stay again."""
        self.enqueue_in_steps(self.objects.tenant_caches.items(POD_DISRUPTION_BUDGET))

    def enqueue_in_steps(self, items: Iterable[Item]) -> None:
        """Enqueue any number of items, in steps."""
        self._woken.extend(items)
        if self._woken:
            self._wake.set()

    async def _enqueue_woken(self) -> None:
        """Enqueue the items of `enqueue_in_steps`, until cancelled."""
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
        """Return the destination of an Event about one of this tenant's objects; None if there is none.

        The object may not be this tenant's, or the Event may concern the operator only.
        """
        about = regarding(event)
        if volume_event.is_internal(about.kind, event):
            return None
        for kind in self.objects.kinds.values():
            if kind.resource.kind != about.kind:
                continue
            p = self._super_caches.get(kind.resource, about.namespace, about.name)
            item = item_of(kind, p) if p is not None and p.uid == about.uid else None
            v = (
                self.objects.tenant_caches.get(kind.resource, item.namespace, item.name)
                if item is not None
                else None
            )
            if p is not None and v is not None and v.uid == p.annotations.get(names.UID):
                if reports_failure(about.kind, event) and self.objects.failures.note(p.uid):
                    self.objects.enqueue(self.key, Item(kind.name, v.namespace, v.name))
                return Destination(self.key, self.handle.client, event_up(event, v, self.context))
        return None

    def report_drained(self, pod: Envelope) -> None:
        """Emit an Event in the tenant with the reason why a Pod is deleted, unless its eviction has emitted it."""
        uid = pod.annotations.get(names.UID, "")
        if uid in self._evicted:
            self._evicted.discard(uid)
        else:
            self._report_leaving(pod)

    def _report_leaving(self, pod: Envelope) -> None:
        regarding = ObjectRef(
            api_version=PODS.api_version,
            kind=PODS.kind,
            namespace=pod.annotations.get(names.NAMESPACE, ""),
            name=pod.name,
            uid=pod.annotations.get(names.UID, ""),
        )
        message = (
            f"Its namespace has no slices on super cluster {self._super_id} any more: the Pod is deleted, and its controller "
            "creates another one where there is room"
        )
        self._recorder.emit(regarding, "Warning", SLICES_LOST, message, now=time.time())

    def report_not_shared(self, namespace: str, service: str, message: str) -> None:
        """Emit an Event about a Service whose endpoints are not shared as a whole with other super clusters."""
        v = self.objects.tenant_caches.get(SERVICES, namespace, service)
        if v is not None:
            about = ObjectRef(SERVICES.api_version, SERVICES.kind, service, namespace=namespace, uid=v.uid)
            self._recorder.emit(about, "Warning", NOT_SHARED, message, now=time.time())

    def report_without_effect(self, old: Envelope, new: Envelope) -> None:
        """Emit Events about the tenant's changes of a virtual node that have no effect."""
        actual = names.split_virtual_node(new.name, self._super_id)
        below = self._super_caches.get(NODES, "", actual) if actual is not None else None
        if below is None:
            return
        about = ObjectRef(NODES.api_version, NODES.kind, new.name, uid=new.uid)
        for message in without_effect(old, new, below, self.context):
            self._recorder.emit(about, "Warning", REASON, message, now=time.time())

    async def has_namespace(self, namespace: str) -> bool:
        """Return whether one of the tenant's namespaces exists and is not being deleted. Its absence is confirmed live.

        Raises:
            WrongControlPlane: the control plane is not the tenant's.
            KubeError: it does not answer.
        """
        found = self.objects.tenant_caches.get(NAMESPACES, "", namespace)
        if found is None:
            await self._prove()
            try:
                found = await self.handle.client.get(NAMESPACES, namespace)
            except NotFound:
                return False
        return not found.deleting

    def availability(self, namespace: str) -> PodControllers:
        """Return who reads which Pods of a namespace may leave, for one step of a drain."""
        return PodControllers(self.handle.client, namespace)

    def is_unbound(self, pod: Envelope) -> bool:
        """Return whether the tenant's Pod of a copy is assigned to this super cluster and has no node yet."""
        v = self.objects.tenant_caches.get(PODS, pod.annotations.get(names.NAMESPACE, ""), pod.name)
        return v is not None and v.uid == pod.annotations.get(names.UID) and not (v.deleting or node_of(v))

    async def evict(self, pod: Envelope) -> str:
        """Evict one of the tenant's Pods in the tenant, as `kubectl drain` does. PodDisruptionBudgets may refuse that.

        Args:
            pod: the super cluster's copy of the Pod.

        Returns:
            The reason why the eviction waits; "" if the super cluster's Pod may be deleted.
        """
        v = self.objects.tenant_caches.get(PODS, pod.annotations.get(names.NAMESPACE, ""), pod.name)
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
            self._note(Item(PODS.plural, v.namespace, v.name), "evicted", v.resource_version)
            if v.uid not in self._evicted:
                # Now, since the super cluster may not answer when the Pod is to be deleted there.
                if len(self._evicted) >= MOST_EVICTED:
                    self._evicted.clear()
                self._evicted.add(v.uid)
                self._report_leaving(pod)
        except (NotFound, Conflict):
            return ""
        except Forbidden as error:
            log.warning(
                "PodDisruptionBudgets are not checked: the tenant's roles are outdated",
                tenant=self.key,
                error=error.status.message,
            )
            return ""
        except TooManyRequests as error:
            budgets = [cause.message for cause in error.status.causes if cause.reason == "DisruptionBudget"]
            return "; ".join(budgets) or error.status.message
        except KubeError as error:
            return f"its control plane did not answer the eviction of Pod {v.name}: {error}"
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
        if kind.resource == PODS and v is not None and notice.reason in REPORTED_TO_OWNERS:
            self._report_to_owner(v, notice)

    def _report_to_owner(self, pod: Envelope, notice: Notify) -> None:
        """Emit an Event about a Pod's controller with the reason why the Pod does not run, for users who describe a Job.

        The Event does not name the Pod: all Pods of a controller are refused for the same reason, and repeats of an Event
        are counted instead of written.
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
            ingress_policy=spec.ingress_policy,
            tenant=spec.tenant or virtual_cluster.name,
            priority_classes=spec.priority_classes,
            runtime_classes=self._runtime_classes,
            shown_nodes=self._shown_nodes(),
            out_of_touch=self._out_of_touch(),
            dns_nameserver=self._nameserver(),
            cluster_ips=cluster_ips.range_here(
                self._service_range(virtual_cluster), self._super_caches.service_cidrs.cache.items()
            ),
            kubelet=(self._kubelet.address, self._kubelet.port) if self._kubelet is not None else None,
            networks=self._networks(),
            lost=self._lost(),
            unschedulable_seconds=self._unschedulable_seconds,
            binds_streams=self._super_caches.role_bindings.synced,
        )

    def _nameserver(self) -> str:
        """Return the address of the tenant's own DNS service in this super cluster; "" if it has none there."""
        namespace = self.objects.super_namespace(names.TENANT_DNS_NAMESPACE)
        service = self._super_caches.get(SERVICES, namespace, names.TENANT_DNS_SERVICE)
        if service is None or service.annotations.get(names.CLUSTER) != self.key:
            return ""
        address = decode(service.spec, _ServiceSpec).cluster_ip
        return "" if address == "None" else address


def api_endpoint(virtual_cluster: VirtualCluster, server: str) -> tuple[str, int]:
    """Return host and port at which Pods reach the tenant's API: the operator's setting, else the syncer's own endpoint.

    Args:
        virtual_cluster: the tenant's VirtualCluster.
        server: URL of the API in the tenant's kubeconfig.
    """
    endpoint = virtual_cluster.spec.api_endpoint
    if endpoint is not None:
        return endpoint.host, endpoint.port
    url = urlsplit(server)
    return url.hostname or "", url.port or 443
