"""Simulated usage of Pods in hollow clusters: a constant share of their requests, because they have no real load."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import milli
from vcsync.objects.times import time_text
from vcsync.simulate.chance import share
from vcsync.simulate.reports import RUNTIME

LEAST, MOST = 0.3, 0.7
"""Bounds of the share of a request that a container uses."""
UNASKED: Mapping[str, str] = {"cpu": "100m", "memory": "64Mi"}
"""Assumed requests of containers without requests."""
WINDOW = "15s"
"""metrics-server's."""
_SEED = 1


class _Resources(Struct):
    requests: dict[str, str] | None = None


class _Container(Struct):
    name: str
    resources: _Resources = field(default_factory=_Resources)


class _Spec(Struct):
    containers: tuple[_Container, ...] = ()


class _State(Struct):
    running: dict[str, Any] | None = None


class _Status(Struct, rename="camel"):
    name: str = ""
    container_id: str = field(default="", name="containerID")
    state: _State = field(default_factory=_State)


class _Statuses(Struct, rename="camel"):
    container_statuses: tuple[_Status, ...] | None = None


def simulated_usage(pod: Envelope, now: datetime) -> dict[str, Any] | None:
    """Return the fields of PodMetrics about the usage of a Pod; None if none of its containers runs, or they are not hollow."""
    statuses = decode(pod.status, _Statuses).container_statuses or ()
    running = {
        each.name
        for each in statuses
        if each.state.running is not None and each.container_id.startswith(RUNTIME)
    }
    if not running:
        return None
    containers = decode(pod.spec, _Spec).containers
    return {
        "timestamp": time_text(now),
        "window": WINDOW,
        "containers": [
            {"name": each.name, "usage": _usage(pod, each)} for each in containers if each.name in running
        ],
    }


def _usage(pod: Envelope, container: _Container) -> dict[str, str]:
    requests = {**UNASKED, **(container.resources.requests or {})}
    used = {
        resource: milli(requests[resource])
        * (LEAST + (MOST - LEAST) * share(_SEED, pod.namespace, pod.name, container.name, resource))
        for resource in UNASKED
    }
    return {"cpu": f"{round(used['cpu'])}m", "memory": f"{round(used['memory'] / 1000 / 1024)}Ki"}
