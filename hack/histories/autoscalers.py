"""Compares HorizontalPodAutoscalers on both sides, with and without metrics: same results in the same words."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from hack.histories.arena import Side
from hack.histories.playing import PATIENCE, prepare, shown
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    REPLICA_SETS,
    Resource,
)
from vcsync.objects.envelope import to_dict
from vcsync.objects.times import time_text

LEAST_SECONDS = 35.0
"""Seconds of two reconciles of a controller with a period of 15 s."""
POLL_SECONDS = 1.0
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", namespaced=True)


def _of_cpu(type_: str, percent: int, **more: Any) -> dict[str, Any]:
    field = type_[0].lower() + type_[1:]
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": type_, field: {"name": "cpu", "target": target, **more}}


CPU = _of_cpu("Resource", 50)
SERVICE = {"kind": "Service", "name": "s", "apiVersion": "v1"}
VALUE, AVERAGE = {"type": "Value", "value": "10"}, {"type": "AverageValue", "averageValue": "10"}
SELECTED = {"name": "q", "selector": {"matchLabels": {"x": "y"}}}
MEMORY = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "10Mi"}}
SLOW = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
CASES: dict[str, tuple[int | None, dict[str, Any]]] = {
    "cpu": (1, {"metrics": [CPU]}),
    "container": (1, {"metrics": [_of_cpu("ContainerResource", 40, container="main")]}),
    "no-container": (1, {"metrics": [_of_cpu("ContainerResource", 40, container="other")]}),
    "memory": (1, {"metrics": [{"type": "Resource", "resource": MEMORY}], "maxReplicas": 9}),
    "pods": (1, {"metrics": [{"type": "Pods", "pods": {"metric": SELECTED, "target": AVERAGE}}]}),
    "object": (
        1,
        {
            "metrics": [
                {
                    "type": "Object",
                    "object": {"metric": {"name": "q"}, "describedObject": SERVICE, "target": VALUE},
                }
            ]
        },
    ),
    "object-average": (
        1,
        {
            "metrics": [
                {
                    "type": "Object",
                    "object": {"metric": {"name": "q"}, "describedObject": SERVICE, "target": AVERAGE},
                }
            ]
        },
    ),
    "external": (1, {"metrics": [{"type": "External", "external": {"metric": SELECTED, "target": VALUE}}]}),
    "external-average": (
        1,
        {"metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": AVERAGE}}]},
    ),
    "two": (1, {"metrics": [{"type": "External", "external": {"metric": SELECTED, "target": VALUE}}, CPU]}),
    "above": (4, {"metrics": [CPU], "maxReplicas": 2}),
    "below": (1, {"metrics": [CPU], "minReplicas": 3}),
    "zero": (0, {"metrics": [CPU]}),
    "slow": (1, {"metrics": [CPU], "maxReplicas": 9, "behavior": SLOW}),
    "tolerant": (1, {"metrics": [CPU], "behavior": {"scaleUp": {"tolerance": "9"}}}),
    "gone": (None, {"metrics": [CPU]}),
}
"""(replicas of the scaled object, None if it does not exist; spec of the autoscaler)."""


async def differences(sides: tuple[Side, Side]) -> list[str]:
    """Return the differences between the two sides, one text per autoscaler."""
    found = []
    for namespace in ("unmeasured", "measured"):
        await asyncio.gather(*(_set_up(side, namespace) for side in sides))
        begun = time.monotonic()
        while True:
            one, other = [await _read(side.client, namespace) for side in sides]
            passed = time.monotonic() - begun
            if passed > PATIENCE or (one == other and passed > LEAST_SECONDS):
                break
            await asyncio.sleep(POLL_SECONDS)
        for name in sorted(one.keys() | other.keys()):
            alike = one.get(name) == other.get(name)
            print(f"autoscaler {namespace}/{name}: {'alike' if alike else 'differs'}", flush=True)
            if not alike:
                found.append(f"{namespace}/{name}\n{shown(one.get(name), other.get(name))}")
    return found


async def _set_up(side: Side, namespace: str) -> None:
    client = side.client
    await prepare(client, namespace)
    for name, (size, _) in CASES.items():
        if size is not None:
            await client.create(REPLICA_SETS, _scaled(name, size), namespace)
    wanted = sum(size or 0 for size, _ in CASES.values())
    while True:
        everyone = side.kubelet.pods.cache.items(namespace)
        if sum(side.kubelet.runs(pod) for pod in everyone) >= wanted:
            break
        await asyncio.sleep(POLL_SECONDS)
    if namespace == "measured":
        await _measure(client, namespace)
    for name, (_, spec) in CASES.items():
        target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}
        body = {"metadata": {"name": name}, "spec": {"scaleTargetRef": target, "maxReplicas": 5, **spec}}
        await client.create(HORIZONTAL_POD_AUTOSCALERS, body, namespace)


def _scaled(name: str, size: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "20Mi"}
    container = {"name": "main", "image": "one", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def _measure(client: Client, namespace: str) -> None:
    """Let the tenant's API return the usage of each Pod."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"}
    definition = {
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a comparison"},
        },
        "spec": {"group": "metrics.k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    later = time_text(datetime.now(UTC) + timedelta(minutes=2))
    for pod in await client.list(PODS, namespace):
        body = {
            "metadata": {"name": pod.name, "labels": pod.labels},
            "timestamp": later,
            "window": "30s",
            "containers": [{"name": "main", "usage": {"cpu": "150m", "memory": "32Mi"}}],
        }
        while True:
            try:
                await client.create(POD_METRICS, body, namespace)
            # The definition is not served yet.
            except NotFound:
                await asyncio.sleep(POLL_SECONDS)
            else:
                break


async def _read(client: Client, namespace: str) -> dict[str, Any]:
    """Return the reports about each autoscaler, without times."""
    found: dict[str, Any] = {}
    for envelope in await client.list(HORIZONTAL_POD_AUTOSCALERS, namespace):
        status = to_dict(envelope).get("status") or {}
        status.pop("lastScaleTime", None)
        for condition in status.get("conditions") or ():
            del condition["lastTransitionTime"]
        found[envelope.name] = {"status": status, "events": []}
    about = f"involvedObject.kind={HORIZONTAL_POD_AUTOSCALERS.kind}"
    for event in map(to_dict, await client.list(EVENTS, namespace, field_selector=about)):
        content = [event[field] for field in ("type", "reason", "message", "reportingComponent")]
        found[event["involvedObject"]["name"]]["events"].append(content)
    for each in found.values():
        each["events"].sort()
    return found
