"""The cost of one object of each kind: what is created for it, as data, and the measurement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from hack.bench import load
from hack.bench.load import NotInTime
from hack.bench.meter import Usage
from hack.bench.stage import NAMESPACE, Side, Stage
from hack.chaos import specs
from hack.testbed.classes import CLASSES, INGRESS, device_class, resource_slice
from hack.testbed.provisioner import Provisioner, storage_class
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    ENDPOINT_SLICES,
    INGRESS_CLASSES,
    INGRESSES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)

Json = dict[str, Any]
Objects = Sequence[tuple[Resource, Json]]

COUNT = 150
"""Objects of each kind, which the slices of the stage have room for."""
DEVICES = 60
"""Objects with a device each."""
DEVICES_OF_A_NODE = 8
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
CLASS = "bench"
"""Name of the StorageClass and of the DeviceClass."""
COPIED_SECONDS = 120.0
_LOOK_SECONDS = 0.5
_PORTS = [{"name": "http", "port": 80, "targetPort": 8080}]
_OF_CLASSES = {
    "IngressClass": INGRESS_CLASSES,
    "PriorityClass": PRIORITY_CLASSES,
    "RuntimeClass": RUNTIME_CLASSES,
    "DeviceClass": DEVICE_CLASSES,
    "ResourceSlice": RESOURCE_SLICES,
    "StorageClass": STORAGE_CLASSES,
}


class KindLoad(Struct, frozen=True):
    """The objects that one kind is measured by."""

    name: str
    objects: Callable[[str], Objects]
    """Returns the objects to create for one name, in this order."""
    counted: Resource
    """The copies of this resource show that everything has arrived."""
    count: int = COUNT


class KindRun(Struct, frozen=True):
    """The creation and deletion of objects of one kind."""

    name: str
    count: int
    usage: Usage


def _service(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": _PORTS, **spec}}


def _with_endpoints(name: str) -> Objects:
    """Return a Service without selector, and its addresses."""
    addresses = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": ["203.0.113.7"], "conditions": {"ready": True}}],
    }
    return (SERVICES, _service(name)), (ENDPOINT_SLICES, addresses)


def _pod(name: str, **spec: Any) -> tuple[Resource, Json]:
    plain = load.pod(name)
    return PODS, {**plain, "spec": {**plain["spec"], **spec}}


def _with_volume(name: str) -> Objects:
    claim = {"metadata": {"name": name}, "spec": specs.volume_claim(CLASS, "1Gi")}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return (PERSISTENT_VOLUME_CLAIMS, claim), _pod(name, volumes=[volume])


def _with_device(name: str) -> Objects:
    claim = {"metadata": {"name": name}, "spec": specs.device_claim(CLASS)}
    return (
        (RESOURCE_CLAIMS, claim),
        _pod(name, resourceClaims=[{"name": "device", "resourceClaimName": name}]),
    )


def _only(resource: Resource, body: Callable[[str], Mapping[str, Any]]) -> Callable[[str], Objects]:
    return lambda name: ((resource, {"metadata": {"name": name}, **body(name)}),)


LOADS: tuple[KindLoad, ...] = (
    KindLoad("ConfigMap", _only(CONFIG_MAPS, lambda name: {"data": {"name": name}}), CONFIG_MAPS),
    KindLoad("Secret", _only(SECRETS, lambda name: {"stringData": {"name": name}}), SECRETS),
    KindLoad("ServiceAccount", _only(SERVICE_ACCOUNTS, lambda _: {}), SERVICE_ACCOUNTS),
    KindLoad("Service", lambda name: ((SERVICES, _service(name, selector={"app": name})),), SERVICES),
    KindLoad("Service and EndpointSlice", _with_endpoints, ENDPOINT_SLICES),
    KindLoad(
        "Ingress",
        _only(
            INGRESSES,
            lambda name: {
                "spec": {
                    "ingressClassName": INGRESS,
                    "rules": [specs.rule(f"{name}.bench.example.com", name)],
                }
            },
        ),
        INGRESSES,
    ),
    KindLoad(
        "NetworkPolicy",
        _only(NETWORK_POLICIES, lambda name: {"spec": {"podSelector": {"matchLabels": {"app": name}}}}),
        NETWORK_POLICIES,
    ),
    KindLoad(
        "PodDisruptionBudget",
        _only(
            POD_DISRUPTION_BUDGETS,
            lambda name: {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}},
        ),
        POD_DISRUPTION_BUDGETS,
    ),
    KindLoad("Pod", lambda name: (_pod(name),), PODS),
    KindLoad("Pod and PersistentVolumeClaim", _with_volume, PODS),
    KindLoad("Pod and ResourceClaim", _with_device, PODS, DEVICES),
)


async def measure(stage: Stage, side: Side, found: list[KindRun]) -> None:
    """Create and delete objects of each kind on one side, one kind after the other.

    Args:
        stage: the stage.
        side: where they are created.
        found: gets the result of each kind as soon as it is known.

    Raises:
        NotInTime: copies did not arrive or did not go.
    """
    here = stage.direct
    namespace = NAMESPACE if side is here else await stage.super_namespace()
    async with (
        load.client_of(side.cluster.kubeconfig, side.name) as client,
        load.client_of(here.cluster.kubeconfig, "super") as below,
    ):
        await _publish(below)
        if side is not here:
            await _until(partial(_published, client), "the published classes in the tenant")
        with Provisioner(here.cluster):
            for each in LOADS:
                # One by one, so that an error does not lose what is known.
                found.append(await _run(stage, each, client, below, namespace))  # noqa: PERF401


async def _run(stage: Stage, each: KindLoad, client: Client, below: Client, namespace: str) -> KindRun:
    """Create the objects, wait for their copies, delete them, and wait until everything is at rest."""
    names = [f"kind-{number:03}" for number in range(each.count)]
    present = await _count(below, each.counted, namespace)
    await stage.settle()
    before = stage.read()

    async def create(name: str) -> None:
        for resource, body in each.objects(name):
            await client.create(resource, body, NAMESPACE)

    async def delete(name: str) -> None:
        for resource, _ in reversed(each.objects(name)):
            try:
                await client.delete(resource, name, NAMESPACE)
            except NotFound:
                continue

    await load.side_by_side(create, names)
    await _counted(below, each, namespace, present + each.count)
    await stage.settle()
    await load.side_by_side(delete, names)
    await _counted(below, each, namespace, present)
    await stage.settle()
    return KindRun(each.name, each.count, stage.usage_since(before))


async def _counted(below: Client, each: KindLoad, namespace: str, wanted: int) -> None:
    """Wait until the super cluster has a number of objects.

    Raises:
        NotInTime: it has not.
    """

    async def reached() -> bool:
        return await _count(below, each.counted, namespace) == wanted

    await _until(reached, f"{each.name}: {wanted} {each.counted.plural}")


async def _count(client: Client, resource: Resource, namespace: str) -> int:
    return len(await client.list(resource, namespace))


async def _publish(below: Client) -> None:
    """Create the operator's classes, and devices on all nodes."""
    slices = [resource_slice(node.name, DEVICES_OF_A_NODE) for node in await below.list(NODES)]
    for body in (*CLASSES, storage_class(CLASS), device_class(CLASS), *slices):
        resource = _OF_CLASSES[body["kind"]]
        if all(each.name != body["metadata"]["name"] for each in await below.list(resource)):
            await below.create(resource, body)


async def _published(client: Client) -> bool:
    """Return whether the tenant has the published classes."""
    return all(
        [await client.list(resource) for resource in (STORAGE_CLASSES, INGRESS_CLASSES, DEVICE_CLASSES)]
    )


async def _until(reached: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something is there.

    Raises:
        NotInTime: it is not.
    """
    deadline = time.monotonic() + COPIED_SECONDS
    while not await reached():
        if time.monotonic() > deadline:
            raise NotInTime(f"{what}: not within {COPIED_SECONDS:.0f} s")
        await asyncio.sleep(_LOOK_SECONDS)
