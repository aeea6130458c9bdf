"""A hollow super cluster at work: nodes registered, Pods bound and run, load balancers given addresses."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import structlog
from msgspec import Struct

from vcsync.fairqueue import WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode, untyped
from vcsync.kube.errors import AlreadyExists, Conflict, NotFound
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NODES, PODS, SERVICES
from vcsync.simulate import kubelet
from vcsync.simulate.chance import share
from vcsync.simulate.fitting import Nodes, Wish, wish
from vcsync.simulate.kubelet import FINISHED, Habits
from vcsync.simulate.nodes import Shape, address, node, node_name, node_status, tainted

WORKERS = 32
UNSCHEDULABLE_AGAIN_SECONDS = 30.0
"""A Pod that no node takes is looked at again so much later; sooner when something is freed."""
HEARTBEAT_SECONDS = 240.0
SCHEDULER, KUBELET, CLOUD = "default-scheduler", "kubelet", "hollow-cloud"

Item = tuple[str, str, str]
"""(what: `node`, `pod` or `service`; namespace; name)."""

_log = structlog.get_logger(__name__)


class Settings(Struct, frozen=True):
    """What a hollow cluster is made of."""

    nodes: int = 3
    shape: Shape = Shape()
    habits: Habits = Habits()


class _ServiceSpec(Struct):
    type: str = ""


class _Ingress(Struct):
    ip: str = ""


class _LoadBalancer(Struct):
    ingress: tuple[_Ingress, ...] | None = None


class _ServiceStatus(Struct, rename="camel"):
    load_balancer: _LoadBalancer | None = None


class HollowCluster:
    """Pretends to be the nodes, the scheduler and the load balancers of a cluster whose API is real.

    Args:
        client: of that cluster, as its administrator; stays the caller's to close.
        settings: what it is made of.
    """

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._nodes = Nodes()
        self._waiting: dict[tuple[str, str], None] = {}
        self._known: dict[str, tuple[str, datetime]] = {}  # Pod's uid -> (its state, since when)
        self._down: set[str] = set()
        self._bound = 0
        self._events = EventRecorder(client, SCHEDULER)
        self._work: WorkerPool[Item] = WorkerPool("hollow", self._handle, workers=WORKERS)
        self._node_reflector = Reflector(client, NODES, on_change=self._node_changed)
        self._pods = Reflector(client, PODS, on_change=self._pod_changed)
        self._services = Reflector(client, SERVICES, on_change=self._service_changed)

    async def run(self) -> None:
        """Pretend until cancelled."""
        reflectors = (self._node_reflector, self._pods, self._services)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            for reflector in reflectors:
                tasks.create_task(reflector.run())
            for reflector in reflectors:
                await reflector.wait_synced()
            for index in range(self._settings.nodes):
                self._work.add("nodes", ("node", "", node_name(index)))
            _log.info("hollow cluster began", nodes=self._settings.nodes, cluster=self._client.name)
            await self._work.run()

    def ready(self) -> tuple[bool, str]:
        """Whether all its nodes stand."""
        there = len(self._nodes)
        if there < self._settings.nodes:
            return False, f"{there} of {self._settings.nodes} nodes are registered"
        return True, ""

    def status(self) -> dict[str, Any]:
        """The state of the cluster as plain JSON values."""
        queue = self._work.queue.statistics()
        return {
            "nodes": len(self._nodes),
            "nodesDown": sorted(self._down),
            "pods": len(self._pods.cache),
            "waiting": len(self._waiting),
            "bound": self._bound,
            "queue": {"queued": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
        }

    def metrics(self) -> list[Any]:
        """None of its own: it is no part of what runs for real."""
        return []

    def fail_node(self, name: str) -> None:
        """Let a node's kubelet fall silent: nothing happens to its Pods until it comes back."""
        self._down.add(name)
        self._work.add("nodes", ("node", "", name))

    def restore_node(self, name: str) -> None:
        """Let a node's kubelet come back."""
        self._down.discard(name)
        self._work.add("nodes", ("node", "", name))
        for pod in self._pods.cache.items():
            if decode(pod.spec, kubelet.Spec).node_name == name:
                self._work.add("pods", ("pod", *pod.key))

    # ---- What changes --------------------------------------------------------------------

    def _node_changed(self, change: Change) -> None:
        if change.new is None:
            if change.old is not None:
                self._nodes.lose_node(change.old.name)
                self._work.add("nodes", ("node", "", change.old.name))
            return
        self._nodes.see_node(change.new)
        self._retry()

    def _pod_changed(self, change: Change) -> None:
        pod = change.new
        if pod is None:
            if change.old is not None:
                self._waiting.pop(change.old.key, None)
                self._known.pop(change.old.uid, None)
                if self._nodes.lift(change.old.uid):
                    self._retry()
            return
        spec, status = decode(pod.spec, kubelet.Spec), decode(pod.status, kubelet.Status)
        if spec.node_name:
            self._waiting.pop(pod.key, None)
            if status.phase not in FINISHED:
                self._nodes.place(pod.uid, spec.node_name, wish(pod))
            elif self._nodes.lift(pod.uid):
                self._retry()
        self._work.add("pods", ("pod", *pod.key))

    def _service_changed(self, change: Change) -> None:
        if change.new is not None:
            self._work.add("services", ("service", *change.new.key))

    def _retry(self) -> None:
        for key in list(self._waiting):
            self._work.add("pods", ("pod", *key))

    # ---- What is done about it -----------------------------------------------------------

    async def _handle(self, _group: str, item: Item) -> float | None:
        what, namespace, name = item
        try:
            if what == "node":
                return await self._handle_node(name)
            if what == "pod":
                return await self._handle_pod(namespace, name)
            await self._handle_service(namespace, name)
        except (NotFound, Conflict):
            pass  # it has changed; that change asks for another look
        return None

    async def _handle_node(self, name: str) -> float | None:
        index = int(name.rpartition("-")[2])
        if index >= self._settings.nodes or name != node_name(index):
            return None
        if self._node_reflector.cache.get("", name) is None:
            try:
                self._node_reflector.observe(await self._client.create(NODES, node(index)))
            except AlreadyExists:
                self._node_reflector.observe(await self._client.get(NODES, name))
        status = node_status(index, self._settings.shape, name not in self._down, datetime.now(UTC))
        answer = await self._client.patch(NODES, name, {"status": status}, subresource="status")
        self._node_reflector.observe(answer)
        taints = untyped(answer.spec).get("taints") or []
        wanted = tainted(taints, down=name in self._down)
        if wanted != taints:
            patch = {"metadata": {"uid": answer.uid}, "spec": {"taints": wanted or None}}
            self._node_reflector.observe(await self._client.patch(NODES, name, patch))
        return HEARTBEAT_SECONDS

    async def _handle_pod(self, namespace: str, name: str) -> float | None:
        pod = self._pods.cache.get(namespace, name)
        if pod is None:
            return None
        spec = decode(pod.spec, kubelet.Spec)
        if not spec.node_name:
            return await self._schedule(pod)
        if spec.node_name in self._down or self._node_reflector.cache.get("", spec.node_name) is None:
            return None
        return await self._keep(pod, spec.node_name)

    async def _schedule(self, pod: Envelope) -> float | None:
        """Bind a Pod to a node, or tell why there is none."""
        if pod.deleting or b'"schedulingGates"' in pod.spec:
            return None
        needs = wish(pod)
        chosen = self._nodes.choose(needs)
        if not isinstance(chosen, str):
            await self._refuse(pod, chosen)
            return UNSCHEDULABLE_AGAIN_SECONDS
        await self._bind(pod, chosen, needs)
        return None

    async def _bind(self, pod: Envelope, chosen: str, needs: Wish) -> None:
        self._nodes.place(pod.uid, chosen, needs)
        self._waiting.pop(pod.key, None)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": chosen},
        }
        try:
            await self._client.create_raw(PODS, body, pod.namespace, name=pod.name, subresource="binding")
        except BaseException:
            self._nodes.lift(pod.uid)
            raise
        self._bound += 1
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {chosen}"
        self._events.emit(_about(pod), "Normal", "Scheduled", message, now=time.time())

    async def _refuse(self, pod: Envelope, reasons: dict[str, int]) -> None:
        self._waiting[pod.key] = None
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        message = (
            f"0/{len(self._nodes)} nodes are available: {told}."
            if told
            else "no nodes available to schedule pods"
        )
        for each in decode(pod.status, _Told).conditions or ():
            if each.type == "PodScheduled" and each.message == message:
                return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        await self._report(pod, {"conditions": [condition]})
        self._events.emit(_about(pod), "Warning", "FailedScheduling", message, now=time.time())

    async def _keep(self, pod: Envelope, on: str) -> float | None:
        """Do what the kubelet would: the next step, now or later."""
        now = datetime.now(UTC)
        state = f"{pod.deleting} {pod.generation} {kubelet_state(pod)}"
        known, since = self._known.get(pod.uid, ("", now))
        if known != state:
            since = now
            self._known[pod.uid] = (state, since)
        step = kubelet.next_step(pod, address(int(on.rpartition("-")[2])), since, now, self._settings.habits)
        if step is None:
            return None
        if step.after > 0:
            return step.after
        if step.gone:
            left = await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)
            if left is None:
                self._pods.observe_gone(pod.namespace, pod.name, pod.uid)
            return None
        if step.status is not None:
            await self._report(pod, step.status)
        return None

    async def _report(self, pod: Envelope, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        answer = await self._client.patch(
            PODS, pod.name, patch, pod.namespace, kind="strategic", subresource="status"
        )
        self._pods.observe(answer)

    async def _handle_service(self, namespace: str, name: str) -> None:
        service = self._services.cache.get(namespace, name)
        if service is None or service.deleting or decode(service.spec, _ServiceSpec).type != "LoadBalancer":
            return
        balancer = decode(service.status, _ServiceStatus).load_balancer
        if balancer is not None and balancer.ingress:
            return
        number = int(share(self._settings.habits.seed, service.uid, "load balancer") * 2**16)
        status = {"loadBalancer": {"ingress": [{"ip": f"198.18.{number // 256}.{number % 256}"}]}}
        patch = {"metadata": {"uid": service.uid}, "status": status}
        self._services.observe(
            await self._client.patch(SERVICES, name, patch, namespace, subresource="status")
        )


class _ToldCondition(Struct):
    type: str = ""
    message: str = ""


class _Told(Struct):
    conditions: tuple[_ToldCondition, ...] | None = None


def kubelet_state(pod: Envelope) -> str:
    """Return what of a Pod's status begins a new span of time: its phase, and how often its container was restarted."""
    status = decode(pod.status, kubelet.Status)
    restarts = status.container_statuses[0].restart_count if status.container_statuses else 0
    return f"{status.phase} {restarts}"


def _about(pod: Envelope) -> ObjectRef:
    return ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)
