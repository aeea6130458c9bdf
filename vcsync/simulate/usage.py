"""Simulated usage of Pods in hollow clusters: a constant share of their requests, because they have no real load."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field

from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope, decode, encode
from vcsync.objects.quantity import milli
from vcsync.objects.times import time_text
from vcsync.simulate.chance import share
from vcsync.simulate.reports import RUNTIME

GROUP_VERSION = "metrics.k8s.io/v1beta1"
LEAST, MOST = 0.3, 0.7
"""Bounds of the share of a request that a container uses."""
UNASKED: Mapping[str, str] = {"cpu": "100m", "memory": "64Mi"}
"""Assumed requests of containers without requests."""
WINDOW = "15s"
"""metrics-server's."""
_SEED = 1
_PATH = re.compile(rf"/apis/{re.escape(GROUP_VERSION)}/namespaces/([^/]+)/pods")


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


def pod_metrics(pod: Envelope, now: datetime) -> dict[str, Any] | None:
    """Return the PodMetrics of a Pod; None if none of its containers runs, or they are not hollow."""
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
        "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": pod.labels},
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


class Measured(Client):
    """Client of a cluster that adds the usage of hollow Pods if no metrics-server reports usage."""

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        """Make one call, as `Client` does."""
        try:
            return await super().request(method, path, **rest)
        except NotFound:
            asked = _PATH.fullmatch(path)
            if asked is None:
                raise
            now = datetime.now(UTC)
            found = [pod_metrics(pod, now) for pod in await self.list(PODS, unquote(asked[1]))]
            items = [each for each in found if each is not None]
            if not items:
                raise
            return encode({"kind": "PodMetricsList", "apiVersion": GROUP_VERSION, "items": items})
