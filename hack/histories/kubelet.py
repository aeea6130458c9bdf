"""A simulated kubelet for all Pods of a tenant: they run immediately, and end when a history requires it."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hack.histories.stories import BROKEN
from vcsync.fairqueue import WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope, to_dict
from vcsync.objects.times import time_text

WORKERS = 8


class Kubelet:
    """Runs Pods; they are not on nodes, so that deleted ones disappear immediately."""

    def __init__(self, client: Client) -> None:
        """Initialize with the client of the tenant, as its administrator."""
        self._client = client
        self._finishing: set[str] = set()
        self.pods = Reflector(client, PODS, sink=self._changed)
        self._work: WorkerPool[tuple[str, str]] = WorkerPool("kubelet", self._handle, workers=WORKERS)

    async def run(self) -> None:
        """Simulate until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pods.run())
            tasks.create_task(self._work.run())

    def idle(self, namespace: str) -> bool:
        """Return whether no Pod of a namespace is about to change its state."""
        return not any(self._next(pod) for pod in self.pods.cache.items(namespace))

    @staticmethod
    def runs(pod: Envelope) -> bool:
        """Return whether a Pod runs."""
        return _phase(pod) == "Running"

    async def act(self, namespace: str, what: str, count: int) -> None:
        """Let some Pods fail, succeed or be deleted; with `finish`, all Pods succeed from then on. Deterministic.

        Raises:
            KubeError: the API server refuses a write.
        """
        if what == "finish":
            self._finishing.add(namespace)
            for pod in self.pods.cache.items(namespace):
                self._work.add(namespace, pod.key)
            return
        phases = ("Running", "Pending") if what == "delete" else ("Running",)
        everyone = self.pods.cache.items(namespace)
        standing = [pod for pod in everyone if not pod.deleting and _phase(pod) in phases]
        for pod in sorted(standing, key=_order)[:count]:
            with suppress(NotFound, Conflict):
                if what == "delete":
                    await self._client.delete(PODS, pod.name, namespace, uid=pod.uid)
                else:
                    await self._patch(pod, _ended(succeeded=what == "succeed"))

    def _changed(self, change: Change) -> None:
        if change.new is not None:
            self._work.add(change.new.namespace, change.new.key)

    async def _handle(self, _group: str, key: tuple[str, str]) -> None:
        pod = self.pods.cache.get(*key)
        status = self._next(pod) if pod else None
        if pod and status:
            with suppress(NotFound, Conflict):
                await self._patch(pod, status)

    def _next(self, pod: Envelope) -> dict[str, Any] | None:
        """Return the next status of a Pod; None: it does not change."""
        image = to_dict(pod)["spec"]["containers"][0]["image"]
        if pod.deleting or image == BROKEN:
            return None
        if _phase(pod) == "Pending":
            return _running()
        if _phase(pod) == "Running" and pod.namespace in self._finishing:
            return _ended(succeeded=True)
        return None

    async def _patch(self, pod: Envelope, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        self.pods.observe(
            await self._client.patch(PODS, pod.name, patch, pod.namespace, subresource="status")
        )


def _order(pod: Envelope) -> tuple[Any, ...]:
    """Return the identity of a Pod for comparison: not its name, if that is generated."""
    index = int(pod.labels.get("batch.kubernetes.io/job-completion-index", -1))
    ordinal = int(pod.labels.get("apps.kubernetes.io/pod-index", -1))
    return to_dict(pod)["spec"]["containers"][0]["image"], index, ordinal, pod.name


def _phase(pod: Envelope) -> str:
    return str((to_dict(pod).get("status") or {}).get("phase", "Pending"))


def _now() -> str:
    return time_text(datetime.now(UTC))


def _running() -> dict[str, Any]:
    state = {"running": {"startedAt": _now()}}
    return {
        "phase": "Running",
        "startTime": _now(),
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": _now()}
            for kind in ("Ready", "ContainersReady")
        ],
        "containerStatuses": [_container(state, ready=True)],
    }


def _ended(*, succeeded: bool) -> dict[str, Any]:
    code, reason = (0, "Completed") if succeeded else (1, "Error")
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _now()}}
    return {
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": _now()}],
        "containerStatuses": [_container(state, ready=False)],
    }


def _container(state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    shared = {"name": "main", "image": "i", "imageID": "i", "restartCount": 0}
    return {**shared, "ready": ready, "started": ready, "state": state}
