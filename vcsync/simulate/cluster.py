"""A running hollow super cluster: registers nodes, binds and runs Pods, assigns addresses and volumes."""

import asyncio
import ssl
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import structlog
from msgspec import Struct
from msgspec.structs import replace

from vcsync.fairqueue import FairQueue, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, KubeError, NotFound, Unauthorized
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES, NODES, PODS, SERVICES
from vcsync.objects.conditions import find_condition, is_true
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import milli
from vcsync.objects.times import time_text
from vcsync.simulate import container_events, kubelet, missing_objects, reports
from vcsync.simulate.addresses import Addresses
from vcsync.simulate.balancers import Balancers
from vcsync.simulate.fitting import Nodes, PodNeeds, Refuses, needs_of
from vcsync.simulate.fleet import Fleet, pace
from vcsync.simulate.ingresses import IngressController
from vcsync.simulate.kubelet import FINISHED, KubeletBehaviour
from vcsync.simulate.kubelet_server import KubeletServer
from vcsync.simulate.neighbours import PlacedPods, depends_on_other_pods
from vcsync.simulate.nodes import DOWN, Shape, address, index_of, is_beyond, node_name
from vcsync.simulate.preempting import priority, victims
from vcsync.simulate.reports import Place, Spec, Status
from vcsync.simulate.volumes import Storage

WORKERS = 32
UNSCHEDULABLE_AGAIN_SECONDS = 30.0
"""Seconds until a Pod that fits no node is tried again; earlier when resources become free."""
AGAIN_SECONDS = 0.1
"""Seconds from the release of resources until waiting Pods are tried, to collect further releases."""
BEGINNING_SECONDS = 1.0
"""Seconds until a Pod is tried again if its node's kubelet has not started yet."""
LACKING_AGAIN_SECONDS = 5.0
"""Seconds until a Pod is tried again if its ConfigMaps or Secrets do not exist."""
FEW_NODES = 100
"""Largest number of nodes of a cluster whose kubelets tell of containers in Events by default."""
AT_A_TIME = 1000
"""Number of Pods of a failed or recovered node that are processed before the event loop runs other tasks."""
SCHEDULER, KUBELET, CLOUD = "default-scheduler", "kubelet", "hollow-cloud"

Item = tuple[str, str, str]
"""Kind (`node`, `pod` or `service`), namespace and name."""

_log = structlog.get_logger(__name__)


class Settings(Struct, frozen=True):
    """The shape of a hollow cluster.

    `beat`: seconds between a node's heartbeats; None: the default. `per_namespace`: maximum number of Pods of one namespace
    in progress; None: no limit. `load_balancers`: whether Services and Ingresses get addresses. `network`: its Pods' addresses
    begin at 10.NETWORK.0.0; clusters of one pool should differ. `container_events`: whether kubelets tell in Events that
    containers start and are stopped, some four for each; None: with at most `FEW_NODES` nodes.
    """

    nodes: int = 3
    shape: Shape = Shape()
    behaviour: KubeletBehaviour = KubeletBehaviour()
    load_balancers: bool = True
    beat: float | None = None
    per_namespace: int | None = None
    network: int = 1
    container_events: bool | None = None

    @property
    def tells_of_containers(self) -> bool:
        """Return whether kubelets tell of containers in Events."""
        return self.nodes <= FEW_NODES if self.container_events is None else self.container_events


class Serving(Struct, frozen=True):
    """Address of the kubelets' server for logs and exec; port 0: any. `tls` contains the cluster's CA."""

    host: str
    port: int
    tls: ssl.SSLContext


class HollowCluster:
    """Simulates the nodes, the scheduler and the load balancers of a cluster with a real API.

    Args:
        client: client of that cluster, as its administrator; the caller closes it.
        settings: shape of the cluster.
        serving: address of the kubelets' server; None: none.
    """

    def __init__(self, client: Client, settings: Settings, serving: Serving | None = None) -> None:
        self._client = client
        self._settings = settings
        self._serving = serving
        self._server = KubeletServer(self._pod_of)
        self._addresses = Addresses(int(milli(settings.shape.pods) / 1000), settings.network)
        self._storage = Storage(client, self._claim_settled)
        self._balancers = Balancers(settings.behaviour.seed)
        self._ingresses = IngressController(client, self._balancers.ingress_address(settings.network))
        self._nodes = Nodes()
        self._neighbours = PlacedPods(self._labels_of)
        # Key of a waiting Pod: whether it depends on other Pods.
        self._waiting: dict[tuple[str, str], bool] = {}
        # Namespace -> names of Pods whose claims have no volume yet. Their room is reserved.
        self._without_volume: dict[str, set[str]] = {}
        # UID of a Pod: its state, and the time of the last change.
        self._known: dict[str, tuple[str, datetime]] = {}
        # Timer of the next attempt for waiting Pods.
        self._again: asyncio.TimerHandle | None = None
        self._all_again = False
        self._bound = 0
        self._refused: asyncio.Queue[Unauthorized] = asyncio.Queue(1)
        self._events = EventRecorder(client, SCHEDULER)
        self._kubelet_events = EventRecorder(client, KUBELET)
        self._work: WorkerPool[Item] = WorkerPool(
            "hollow",
            self._handle,
            workers=WORKERS,
            queue=FairQueue(limit=settings.per_namespace),
            on_error=self._failed,
        )
        self._node_reflector = Reflector(client, NODES, sink=self._node_changed)
        self._pods = Reflector(client, PODS, sink=self._pod_changed)
        self._services = Reflector(client, SERVICES, sink=self._service_changed)
        self._namespaces = Reflector(client, NAMESPACES, project=_labels_only)
        self._fleet = Fleet(
            client,
            self._node_reflector,
            settings.nodes,
            settings.shape,
            pace(settings.nodes, settings.beat),
            self._node_state_changed,
        )

    async def run(self) -> None:
        """Simulate until cancelled.

        Raises:
            Unauthorized: the cluster refuses the credentials (in a group), so that new ones are needed.
        """
        reflectors = (self._node_reflector, self._pods, self._services, self._namespaces)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            tasks.create_task(self._kubelet_events.run())
            tasks.create_task(self._end_refused())
            tasks.create_task(self._storage.run())
            if self._settings.load_balancers:
                tasks.create_task(self._ingresses.run())
            for reflector in reflectors:
                tasks.create_task(reflector.run())
            for reflector in reflectors:
                await reflector.wait_synced()
            try:
                await self._serve()
                await self._leave()
                for index in range(self._settings.nodes):
                    self._work.add("nodes", ("node", "", node_name(index)))
                _log.info("hollow cluster began", nodes=self._settings.nodes, cluster=self._client.name)
                await self._work.run()
            finally:
                if self._again is not None:
                    self._again.cancel()
                await self._server.stop()

    async def _end_refused(self) -> None:
        raise await self._refused.get()

    async def _leave(self) -> None:
        """Delete surplus nodes of an earlier start with more nodes, which nothing would simulate."""
        for node in list(self._node_reflector.cache.items()):
            if not is_beyond(node, self._settings.nodes):
                continue
            try:
                await self._client.delete(NODES, node.name, uid=node.uid)
            except NotFound:
                continue
            except KubeError as error:
                _log.warning("surplus node not deleted", node=node.name, error=str(error))
            else:
                _log.info("surplus node deleted", node=node.name, nodes=self._settings.nodes)

    async def _serve(self) -> None:
        if self._serving is not None:
            host, port, tls = self._serving.host, self._serving.port, self._serving.tls
            self._fleet.endpoint = host, await self._server.start(host, port, tls)

    def ready(self) -> tuple[bool, str]:
        """Return whether all its nodes have registered; nodes that were deleted later count, too."""
        there = self._fleet.registered
        if there < self._settings.nodes:
            return False, f"{there} of {self._settings.nodes} nodes are registered"
        return True, ""

    def status(self) -> dict[str, Any]:
        """Return the state of the cluster as plain JSON values."""
        queue = self._work.queue.statistics()
        return {
            "nodes": len(self._nodes),
            "nodesDown": self._fleet.down(),
            "pods": len(self._pods.cache),
            "waiting": len(self._waiting),
            "bound": self._bound,
            "queue": {"queued": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
        }

    def metrics(self) -> list[Any]:
        """Return no metrics: a hollow cluster is not part of the real system."""
        return []

    # ---- Changes -------------------------------------------------------------------------

    def _node_changed(self, change: Change) -> None:
        if change.new is None:
            if change.old is not None:
                self._nodes.remove_node(change.old.name)
                self._fleet.forget(change.old.name)
            return
        if self._nodes.update_node(change.new):
            self._retry()
        self._work.add("nodes", ("node", "", change.new.name))

    def _pod_changed(self, change: Change) -> None:
        pod = change.new
        if pod is None:
            if change.old is not None:
                self._waiting.pop(change.old.key, None)
                self._known.pop(change.old.uid, None)
                self._addresses.free(change.old.uid)
                self._remove_pod(change.old)
            return
        spec, status = decode(pod.spec, Spec), decode(pod.status, Status)
        if spec.node_name:
            self._waiting.pop(pod.key, None)
            if status.phase not in FINISHED:
                if not self._nodes.has(pod.uid):
                    self._nodes.add(pod.uid, spec.node_name, needs_of(pod))
                self._neighbours.add(pod, spec.node_name)
                if self._waiting and _was_unbound(change.old):
                    self._retry(only_dependent=True)
                if status.pod_ip and not spec.host_network:
                    self._addresses.hold(pod.uid, status.pod_ip)
            else:
                self._addresses.free(pod.uid)
                self._remove_pod(pod)
        self._work.add(pod.namespace, ("pod", *pod.key))  # Each namespace gets its turn.

    def _claim_settled(self, namespace: str) -> None:
        """Try the Pods of a namespace again that wait for volumes."""
        for name in self._without_volume.pop(namespace, ()):
            self._work.add(namespace, ("pod", namespace, name))

    def _service_changed(self, change: Change) -> None:
        if change.new is not None:
            self._balancers.see(change.new)
            self._work.add(change.new.namespace, ("service", *change.new.key))
        elif change.old is not None:
            self._balancers.forget(change.old)

    def _remove_pod(self, pod: Envelope) -> None:
        """Stop counting a Pod."""
        self._neighbours.remove(pod)
        if self._nodes.remove(pod.uid):
            self._retry()

    def _retry(self, *, only_dependent: bool = False) -> None:
        """Try waiting Pods again soon: all, or those that depend on other Pods."""
        if self._waiting:
            self._all_again = self._all_again or not only_dependent
            if self._again is None:
                loop = asyncio.get_running_loop()
                self._again = loop.call_later(AGAIN_SECONDS, self._retry_now)

    def _retry_now(self) -> None:
        self._again, retry_all = None, self._all_again
        self._all_again = False
        for key, dependent in list(self._waiting.items()):
            if dependent or retry_all:
                self._work.add(key[0], ("pod", *key))

    def _labels_of(self, namespace: str) -> dict[str, str]:
        found = self._namespaces.cache.get("", namespace)
        return {} if found is None else found.labels

    # ---- Reactions -----------------------------------------------------------------------

    async def _handle(self, _group: str, item: Item) -> float | None:
        what, namespace, name = item
        try:
            if what == "node":
                return await self._fleet.keep(name)
            if what == "pods of":
                await self._wake_pods(name)
                return None
            if what == "pod":
                return await self._handle_pod(namespace, name)
            await self._handle_service(namespace, name)
        except (NotFound, Conflict):
            pass  # It has changed, and the change queues it again.
        return None

    def _node_state_changed(self, node: str) -> None:
        """Record a change of a node's simulated state."""
        self._work.add("nodes", ("pods of", "", node))

    async def _wake_pods(self, node: str) -> None:
        for number, pod in enumerate(list(self._pods.cache.items())):
            if decode(pod.spec, Spec).node_name == node:
                self._work.add(pod.namespace, ("pod", *pod.key))
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _pod_of(self, namespace: str, name: str) -> Envelope | None:
        """Return a Pod if its kubelet works, otherwise None."""
        pod = self._pods.cache.get(namespace, name)
        works = pod is not None and self._fleet.alive(decode(pod.spec, Spec).node_name)
        return pod if works else None

    def _failed(self, _group: str, item: Item, error: Exception, delay: float) -> None:
        """Log an error whose work will be retried."""
        if isinstance(error, Unauthorized) and not self._refused.full():
            self._refused.put_nowait(error)
        if isinstance(error, KubeError):
            _log.debug("the API refused", item=item, error=str(error), again=delay)
        else:
            _log.error("a hollow cluster's work failed", item=item, again=delay, exc_info=error)

    async def _handle_pod(self, namespace: str, name: str) -> float | None:
        pod = self._pods.cache.get(namespace, name)
        if pod is None:
            return None
        spec = decode(pod.spec, Spec)
        if not spec.node_name:
            return await self._schedule(pod)
        index = index_of(spec.node_name, self._settings.nodes)
        if index is None or self._node_reflector.cache.get("", spec.node_name) is None:
            return None
        state = self._fleet.state(spec.node_name)
        if state is None:
            return BEGINNING_SECONDS
        if state == DOWN:
            await self._silent(pod)
            return None
        return await self._keep(pod, spec, index, state)

    async def _silent(self, pod: Envelope) -> None:
        """Set a Pod of a silent node to not ready, as its cluster's node controller would."""
        if is_true(decode(pod.status, Status).conditions, "Ready"):
            await self._report(pod, {"conditions": [reports.not_ready(datetime.now(UTC))]})

    async def _schedule(self, pod: Envelope) -> float | None:
        """Bind a Pod to a node, or report why none fits."""
        if pod.deleting or b'"schedulingGates"' in pod.spec:
            return None
        needs = needs_of(pod)
        # Release the resources that were reserved for this Pod.
        self._nodes.remove(pod.uid)
        refusal = self._neighbours.refusal(pod, needs, self._nodes.by_name)
        chosen = self._nodes.choose(needs, refusal)
        if not isinstance(chosen, str):
            await self._refuse(pod, chosen)
            if priority(pod):
                await self._preempt(pod, needs, refusal)
            return UNSCHEDULABLE_AGAIN_SECONDS
        await self._bind(pod, chosen, needs)
        return None

    async def _preempt(self, pod: Envelope, needs: PodNeeds, refuses: Refuses | None) -> None:
        """Preempt Pods of lower priority, and reserve their room for this one."""
        standing = [each for each in self._pods.cache.items() if _is_counted(each)]
        found = victims(pod, needs, self._nodes.by_name.values(), standing, refuses)
        if found is None:
            return
        self._nodes.add(pod.uid, found.node, needs)
        for each in found.pods:
            await self._report(each, {"conditions": [reports.preempted(datetime.now(UTC))]})
            await self._client.delete(PODS, each.name, each.namespace, uid=each.uid)
            message = f"Preempted by pod {pod.uid} on node {found.node}"
            self._events.emit(_about(each), "Normal", "Preempted", message, now=time.time())

    async def _bind(self, pod: Envelope, chosen: str, needs: PodNeeds) -> None:
        """Bind a Pod, or reserve its room until its claims have volumes."""
        self._nodes.add(pod.uid, chosen, needs)
        self._neighbours.add(pod, chosen)
        self._waiting.pop(pod.key, None)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": chosen},
        }
        try:
            await self._storage.select_node(pod, chosen)
            if self._storage.lacks_volume(pod):
                self._without_volume.setdefault(pod.namespace, set()).add(pod.name)
                self._neighbours.remove(pod)
                return
            await self._client.create_raw(PODS, body, pod.namespace, name=pod.name, subresource="binding")
        except BaseException:
            self._nodes.remove(pod.uid)
            self._neighbours.remove(pod)
            raise
        self._bound += 1
        self._known[pod.uid] = (kubelet.span(pod, decode(pod.status, Status)), datetime.now(UTC))
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {chosen}"
        self._events.emit(_about(pod), "Normal", "Scheduled", message, now=time.time())

    async def _refuse(self, pod: Envelope, reasons: dict[str, int]) -> None:
        self._waiting[pod.key] = depends_on_other_pods(pod)
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        message = (
            f"0/{len(self._nodes)} nodes are available: {listed}."
            if listed
            else "no nodes available to schedule pods"
        )
        scheduled = find_condition(decode(pod.status, Status).conditions, "PodScheduled")
        if scheduled is not None and scheduled.message == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": time_text(datetime.now(UTC)),
        }
        await self._report(pod, {"conditions": [condition]})
        self._events.emit(_about(pod), "Warning", "FailedScheduling", message, now=time.time())

    async def _keep(self, pod: Envelope, spec: Spec, index: int, node_state: str) -> float | None:
        """Do the kubelet's next step, now or later."""
        now = datetime.now(UTC)
        status = decode(pod.status, Status)
        state = kubelet.span(pod, status)
        known, since = self._known.get(pod.uid, ("", now))
        if known != state:
            since = now if known else kubelet.began(status, now)
            self._known[pod.uid] = (state, since)
            if pod.deleting and status.phase == "Running":
                self._tell(pod, container_events.stopping(spec))
        own = address(index)
        place = Place(own, own if spec.host_network else self._addresses.take(pod.uid, index), node_state)
        step = kubelet.next_step(pod, place, since, now, self._settings.behaviour)
        if step is None:
            return None
        if step.after > 0:
            return step.after
        if step.status is not None:
            if status.phase == "Pending" and step.status.get("phase") == "Running":
                lacks = await missing_objects.missing(self._client, pod)
                if lacks:
                    await self._report_missing(pod, spec, place, lacks)
                    return LACKING_AGAIN_SECONDS
            await self._report(pod, step.status)
            self._tell(pod, container_events.begun(spec, status, step.status))
        elif step.gone:
            left = await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)
            if left is None:
                self._pods.observe_gone(pod.namespace, pod.name, pod.uid)
        return None

    def _tell(self, pod: Envelope, events: Iterable[container_events.ContainerEvent]) -> None:
        if self._settings.tells_of_containers:
            for path, reason, message in events:
                about = replace(_about(pod), field_path=path)
                self._kubelet_events.emit(about, "Normal", reason, message, now=time.time())

    async def _report_missing(
        self, pod: Envelope, spec: Spec, place: Place, lacks: list[missing_objects.Need]
    ) -> None:
        """Report the missing objects of a Pod: volumes first, because no container is created without them."""
        first = next((each for each in lacks if each.volume), None)
        reported = [first] if first is not None else lacks
        for reason, message in dict.fromkeys(each.event for each in reported):
            self._kubelet_events.emit(_about(pod), "Warning", reason, message, now=time.time())
        containers = {each.container: each.lack for each in reversed(reported) if each.container}
        status = decode(pod.status, Status)
        report = reports.waiting_for_objects(pod, spec, status, place, containers, datetime.now(UTC))
        if report is not None:
            await self._report(pod, report)

    async def _report(self, pod: Envelope, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        answer = await self._client.patch(
            PODS, pod.name, patch, pod.namespace, kind="strategic", subresource="status"
        )
        self._pods.observe(answer)

    async def _handle_service(self, namespace: str, name: str) -> None:
        service = self._services.cache.get(namespace, name)
        if service is None or not self._settings.load_balancers:
            return
        status = self._balancers.report(service)
        if status is None:
            return
        patch = {"metadata": {"uid": service.uid}, "status": status}
        self._services.observe(
            await self._client.patch(SERVICES, name, patch, namespace, subresource="status")
        )


def _was_unbound(before: Envelope | None) -> bool:
    return before is None or not decode(before.spec, Spec).node_name


def _labels_only(namespace: Envelope) -> Envelope:
    return replace(namespace, annotations={}, spec=b"", status=b"", rest=b"")


def _is_counted(pod: Envelope) -> bool:
    return bool(decode(pod.spec, Spec).node_name) and decode(pod.status, Status).phase not in FINISHED


def _about(pod: Envelope) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)
