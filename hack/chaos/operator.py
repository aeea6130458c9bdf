"""The operator of the super clusters: publishes classes and withdraws some, and has volumes and addresses assigned."""

from __future__ import annotations

import http.client
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from hack.chaos.claims import DEVICES, FEW_STORAGE, STORAGE
from hack.chaos.published import TENANTS_RANGE, service_cidr
from hack.testbed.classes import CLASSES, GAUGES, device_class, resource_slice
from hack.testbed.cluster import Cluster
from hack.testbed.provisioner import Provisioner, storage_class
from vcsync.api import names

Json = dict[str, Any]

DEVICES_OF_A_NODE = 8
_LOOK_SECONDS = 0.5
_LONGEST_PAUSE = 8.0
"""Maximum seconds between two changes of what is published."""
_PATHS: Mapping[str, str] = {
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "IngressClass": "/apis/networking.k8s.io/v1/ingressclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ServiceCIDR": "/apis/networking.k8s.io/v1/servicecidrs",
}
_BALANCED = ("/api/v1/services", "/apis/networking.k8s.io/v1/ingresses")
"""Collections whose objects get addresses."""


class Operator:
    """Acts in its own threads from `start` to `stop`.

    Args:
        supers: id -> super cluster.
        seed: determines which classes are withdrawn, and when.
    """

    def __init__(self, supers: Mapping[str, Cluster], seed: int) -> None:
        self.done: Counter[str] = Counter()
        """Actions by name."""
        self._supers = supers
        self._random = random.Random(f"{seed}/operator")  # noqa: S311
        self._changing = threading.Event()
        self._stop = threading.Event()
        self._provisioners = ExitStack()
        self._balancer = threading.Thread(target=self._balance, daemon=True)
        self._publisher = threading.Thread(target=self._change, daemon=True)

    def start(self) -> None:
        """Publish all classes, and begin to act. Blocks until they are published.

        Raises:
            RuntimeError: a super cluster does not take a class.
        """
        first = next(iter(self._supers))
        for super_id, cluster in self._supers.items():
            for body in self._published(cluster, few=super_id == first):
                status, answer = cluster.call("POST", _PATHS[body["kind"]], body)
                if status != 201:
                    raise RuntimeError(f"{super_id} does not take {body['kind']}: {answer}")
            self._provisioners.enter_context(Provisioner(cluster))
        for thread in (self._balancer, self._publisher):
            thread.start()

    def settle(self) -> None:
        """Publish everything again, and change nothing more. Blocks."""
        self._changing.set()
        self._publisher.join()
        for cluster in self._supers.values():
            for body in _changeable():
                while not _label(cluster, body, names.TRUE):
                    self._stop.wait(_LOOK_SECONDS)

    def stop(self) -> None:
        """End all threads. Blocks."""
        self._changing.set()
        self._stop.set()
        self._provisioners.close()
        for thread in (self._balancer, self._publisher):
            if thread.is_alive():
                thread.join()

    def _published(self, cluster: Cluster, *, few: bool) -> Iterable[Json]:
        yield from (storage_class(STORAGE), *((storage_class(FEW_STORAGE),) if few else ()))
        yield from _changeable()
        yield service_cidr(TENANTS_RANGE)
        for node in cluster.call("GET", "/api/v1/nodes")[1]["items"]:
            yield resource_slice(node["metadata"]["name"], DEVICES_OF_A_NODE)

    def _change(self) -> None:
        while not self._changing.wait(self._random.uniform(0, _LONGEST_PAUSE)):
            cluster = self._random.choice(tuple(self._supers.values()))
            body = self._random.choice(_changeable())
            value = self._random.choice((names.TRUE, None))
            if _label(cluster, body, value):
                self.done["publish_class" if value else "withdraw_class"] += 1

    def _balance(self) -> None:
        """Give each copy of a load balancer and an Ingress an address, as the controllers of a super cluster do."""
        while not self._stop.wait(_LOOK_SECONDS):
            for cluster in self._supers.values():
                for path in _BALANCED:
                    _reached(partial(self._give_addresses, cluster, path))

    def _give_addresses(self, cluster: Cluster, path: str) -> bool:
        status, found = cluster.call("GET", f"{path}?labelSelector={names.CONTROLLED}%3D{names.TRUE}")
        for each in found["items"] if status == 200 else ():
            balanced = path.endswith("ingresses") or each["spec"].get("type") == "LoadBalancer"
            if not balanced or (each.get("status") or {}).get("loadBalancer"):
                continue
            metadata = each["metadata"]
            group, plural = path.rsplit("/", 1)
            where = f"{group}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}/status"
            address = f"198.51.100.{self._random.randrange(1, 255)}"
            body = {
                "metadata": {"uid": metadata["uid"]},
                "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
            }
            if cluster.call("PATCH", where, body)[0] == 200:
                self.done["give_address"] += 1
        return True


def _changeable() -> tuple[Json, ...]:
    return (*CLASSES, device_class(DEVICES), GAUGES)


def _label(cluster: Cluster, body: Json, value: str | None) -> bool:
    """Set or remove the label of a published class. Return whether the server has answered."""
    path = f"{_PATHS[body['kind']]}/{body['metadata']['name']}"
    patch = {"metadata": {"labels": {names.SUPER_PUBLIC: value}}}
    return _reached(lambda: cluster.call("PATCH", path, patch)[0] == 200)


def _reached(act: Callable[[], bool]) -> bool:
    """Return what a request returns; false while the server is away."""
    with suppress(OSError, http.client.HTTPException):
        return act()
    return False
