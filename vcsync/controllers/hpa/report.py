"""The report about a HorizontalPodAutoscaler: its status, written at most once per reconcile, and Events."""

from typing import Any

from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Emit
from vcsync.controllers.framework.worker import ReconcileContext
from vcsync.controllers.hpa.metrics_client import said
from vcsync.controllers.hpa.objects import Status
from vcsync.kube.errors import KubeError, NotFound
from vcsync.kube.events import EventType, ObjectRef
from vcsync.kube.resources import HORIZONTAL_POD_AUTOSCALERS
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.times import time_text


class StatusReport:
    """The report of one reconcile."""

    def __init__(self, context: ReconcileContext, hpa: Envelope) -> None:
        """Start with the current status."""
        self._desk = context
        self._hpa = hpa
        self._before = untyped(hpa.status) if hpa.status else {}
        self._status = decode(hpa.status, Status)
        self._conditions = [dict(each) for each in self._status.conditions or ()]

    @property
    def desired(self) -> int:
        """Return the desired size of the last reconcile."""
        return self._status.desired_replicas

    def condition(self, type_: str, status: str, reason: str, message: str) -> None:
        """Set a condition."""
        found = next((each for each in self._conditions if each["type"] == type_), None)
        if found is None:
            found = {"type": type_}
            self._conditions.append(found)
        if found.get("status") != status:
            found["lastTransitionTime"] = time_text(self._desk.view.now)
        found |= {"status": status, "reason": reason, "message": message}

    def set(self, current: int, desired: int, metrics: Any, *, rescaled: bool) -> None:
        """Record the current and desired sizes, and the metrics."""
        self._status.current_replicas, self._status.desired_replicas = current, desired
        self._status.current_metrics = metrics
        if rescaled:
            self._status.last_scale_time = time_text(self._desk.view.now)

    def emit(self, type_: EventType, reason: str, message: str) -> None:
        """Report an Event."""
        resource, there = HORIZONTAL_POD_AUTOSCALERS, self._hpa
        about = ObjectRef(resource.api_version, resource.kind, there.name, namespace_of(there), there.uid)
        self._desk.emit(Emit(about, type_, reason, message))

    async def write_status(self) -> None:
        """Write the status, if it has changed.

        Raises:
            KubeError: the write failed.
        """
        after: dict[str, Any] = {
            "currentReplicas": self._status.current_replicas or None,
            "desiredReplicas": self._status.desired_replicas,
            "lastScaleTime": self._status.last_scale_time,
            "currentMetrics": self._status.current_metrics or None,
            "conditions": self._conditions or None,
        }
        change = {name: value for name, value in after.items() if self._before.get(name) != value}
        if not change:
            return
        patch = {"metadata": {"uid": self._hpa.uid}, "status": change}
        resource, namespace = HORIZONTAL_POD_AUTOSCALERS, namespace_of(self._hpa)
        try:
            await self._desk.client.patch(resource, self._hpa.name, patch, namespace, subresource="status")
        except NotFound:
            return
        except KubeError as error:
            self.emit("Warning", "FailedUpdateStatus", said(error))
            raise
