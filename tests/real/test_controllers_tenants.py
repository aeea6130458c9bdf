"""Our controllers for tenants that use them and tenants that do not: switching, binding of volumes, autoscaling."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hack.embedded import ControlPlane
from tests.real.controllers_kit import controllers, there
from tests.real.waiting import soon
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from vcsync.objects.envelope import untyped

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", namespaced=True)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a control plane with the tenant acme, and the controllers."""
    folder = tmp_path_factory.mktemp("tenants")
    with ControlPlane(folder) as made:
        made.create("acme")
        with controllers(made):
            yield made


@pytest.fixture
async def acme(plane: ControlPlane) -> AsyncIterator[Client]:
    path = plane.directory / "acme.kubeconfig"
    async with Client(Connection.from_kubeconfig_file(path), name="acme") as client:
        await soon(lambda: there(client, SERVICE_ACCOUNTS, "default", "default"))
        yield client


def replica_set(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def test_a_tenant_with_its_own_controllers_is_not_managed(plane: ControlPlane) -> None:
    plane.vcsync("tenant", "create", "umbrella", "--controllers", "external")
    assert "external" in plane.vcsync("tenant", "show", "umbrella")
    connection = Connection.from_kubeconfig_file(plane.kubeconfig("umbrella"))
    async with Client(connection, name="umbrella") as client:
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")

        async def pods() -> int:
            return len(await client.list(PODS, "default"))

        async def seen() -> bool:
            return await pods() == 2

        await client.create(REPLICA_SETS, replica_set("web", 2), "default")
        await asyncio.to_thread(plane.vcsync, "tenant", "set", "umbrella", "--controllers", "vcsync")
        await soon(seen)
        await asyncio.to_thread(plane.vcsync, "tenant", "set", "umbrella", "--controllers", "external")
        acme = Connection.from_kubeconfig_file(plane.directory / "acme.kubeconfig")
        async with Client(acme, name="acme") as other:
            numbers = itertools.count()

            async def left_alone() -> bool:
                """Create a namespace in both tenants; when the other one has its objects, this one would have them, too."""
                name = f"new-{next(numbers)}"
                for each in (client, other):
                    await each.create(NAMESPACES, {"metadata": {"name": name}})
                await soon(lambda: there(other, SERVICE_ACCOUNTS, "default", name))
                return not await there(client, SERVICE_ACCOUNTS, "default", name)

            # The controllers may see the first namespace before they see the switch.
            await soon(left_alone)


@pytest.mark.core
async def test_claims_are_bound_and_used_claims_and_volumes_are_protected(acme: Client) -> None:
    size = {"storage": "1Gi"}
    access = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "capacity": size,
        "hostPath": {"path": "/data"},
        "persistentVolumeReclaimPolicy": "Retain",
        **access,
    }
    await acme.create(PERSISTENT_VOLUMES, {"metadata": {"name": "v"}, "spec": volume})
    claim = {"resources": {"requests": size}, **access}
    await acme.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "c"}, "spec": claim}, "default")

    async def phases(of_claim: str, of_volume: str) -> bool:
        found = [
            await acme.get(PERSISTENT_VOLUME_CLAIMS, "c", "default"),
            await acme.get(PERSISTENT_VOLUMES, "v"),
        ]
        return [untyped(each.status).get("phase") for each in found] == [of_claim, of_volume]

    await soon(lambda: phases("Bound", "Bound"))
    await acme.delete(PERSISTENT_VOLUMES, "v")
    assert await there(acme, PERSISTENT_VOLUMES, "v")
    await acme.delete(PERSISTENT_VOLUME_CLAIMS, "c", "default")

    async def gone() -> bool:
        claims = await there(acme, PERSISTENT_VOLUME_CLAIMS, "c", "default")
        return not claims and not await there(acme, PERSISTENT_VOLUMES, "v")

    await soon(gone)


def autoscaler(name: str) -> dict[str, Any]:
    wanted = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "scaled"},
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": wanted}}],
    }
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.core
async def test_metrics_determine_the_number_of_pods(acme: Client) -> None:
    await acme.create(REPLICA_SETS, replica_set("scaled", 1), "default")
    await acme.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler("early"), "default")

    async def lacks_metrics() -> bool:
        found = await acme.get(HORIZONTAL_POD_AUTOSCALERS, "early", "default")
        conditions = untyped(found.status).get("conditions", ()) if found.status else ()
        return "FailedGetResourceMetric" in {each["reason"] for each in conditions}

    async def reported() -> bool:
        events = await acme.list(EVENTS, "default", field_selector="involvedObject.name=early")
        found = [untyped(each.rest) for each in events]
        return ("FailedComputeMetricsReplicas", "horizontal-pod-autoscaler") in {
            (each["reason"], each["reportingComponent"]) for each in found
        }

    await soon(lacks_metrics)
    await soon(reported)
    await acme.delete(HORIZONTAL_POD_AUTOSCALERS, "early", "default")
    await _serve_metrics(acme)
    await acme.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler("late"), "default")

    async def grown() -> bool:
        return bool(untyped((await acme.get(REPLICA_SETS, "scaled", "default")).spec)["replicas"] == 3)

    await soon(grown)


async def _serve_metrics(client: Client) -> None:
    """Let the tenant's API serve the metrics of its only Pod, as a custom resource of the group metrics.k8s.io."""
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"}
    approved = {"api-approved.kubernetes.io": "unapproved, a test"}
    definition = {
        "metadata": {"name": "pods.metrics.k8s.io", "annotations": approved},
        "spec": {"group": "metrics.k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    async def one() -> bool:
        return len(await client.list(PODS, "default", label_selector="app=scaled")) == 1

    await soon(one)
    [pod] = await client.list(PODS, "default", label_selector="app=scaled")
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [condition]}
    await client.patch(PODS, pod.name, {"status": status}, "default", subresource="status")
    body = {
        "metadata": {"name": pod.name, "labels": {"app": "scaled"}},
        "timestamp": "2026-01-01T00:10:00Z",
        "window": "30s",
        "containers": [{"name": "c", "usage": {"cpu": "150m", "memory": "1Mi"}}],
    }

    async def made() -> bool:
        try:
            await client.create(POD_METRICS, body, "default")
        except KubeError:
            return False
        return True

    await soon(made)


async def test_tenants_created_while_controllers_start_are_served(tmp_path: Path) -> None:
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(tmp_path))
        admin = Connection.from_kubeconfig_file(plane.data / "admin.kubeconfig")
        async with Client(admin, name="control plane") as server:
            starting = asyncio.create_task(asyncio.to_thread(stack.enter_context, controllers(plane)))
            made = []
            while not starting.done():
                made.append(f"tenant-{len(made)}")
                body = msgspec.json.encode({"name": made[-1]})
                await server.request("POST", "/vcsync/v1/tenants", body=body)
            await starting
            for name in made:
                space = server.below(f"/tenants/{name}")
                await soon(partial(there, space, SERVICE_ACCOUNTS, "default", "kube-public"))
