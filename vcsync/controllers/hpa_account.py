"""What is told of a HorizontalPodAutoscaler: its status, written once a look if it differs, and Events."""

from typing import Any

from vcsync.controllers import pods
from vcsync.controllers.hpa_metrics import said
from vcsync.controllers.hpa_objects import Status
from vcsync.controllers.mirror import namespace_of
from vcsync.controllers.plan import Emit
from vcsync.controllers.working import Desk
from vcsync.kube.envelope import Envelope, decode, untyped
from vcsync.kube.errors import KubeError, NotFound
from vcsync.kube.events import EventType, ObjectRef
from vcsync.kube.resources import HORIZONTAL_POD_AUTOSCALERS


class Account:
    """What one look tells."""

    def __init__(self, desk: Desk, hpa: Envelope) -> None:
        """Begin with what was told before."""
        self._desk = desk
        self._hpa = hpa
        self._before = untyped(hpa.status) if hpa.status else {}
        self._status = decode(hpa.status, Status)
        self._conditions = [dict(each) for each in self._status.conditions or ()]

    @property
    def desired(self) -> int:
        """How many Pods there were to be."""
        return self._status.desired_replicas

    def condition(self, type_: str, status: str, reason: str, message: str) -> None:
        """Say how something stands."""
        found = next((each for each in self._conditions if each["type"] == type_), None)
        if found is None:
            found = {"type": type_}
            self._conditions.append(found)
        if found.get("status") != status:
            found["lastTransitionTime"] = pods.told(self._desk.look.now)
        found |= {"status": status, "reason": reason, "message": message}

    def set(self, current: int, desired: int, metrics: Any, *, rescaled: bool) -> None:
        """Say how many Pods there are and are to be, and what metrics told."""
        self._status.current_replicas, self._status.desired_replicas = current, desired
        self._status.current_metrics = metrics
        if rescaled:
            self._status.last_scale_time = pods.told(self._desk.look.now)

    def emit(self, type_: EventType, reason: str, message: str) -> None:
        """Report an Event."""
        resource, there = HORIZONTAL_POD_AUTOSCALERS, self._hpa
        about = ObjectRef(resource.api_version, resource.kind, there.name, namespace_of(there), there.uid)
        self._desk.emit(Emit(about, type_, reason, message))

    async def tell(self) -> None:
        """Write the status, if it is another.

        Raises:
            KubeError: it cannot be written.
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
