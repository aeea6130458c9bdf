"""What nodes may read because Pods bound to them name it: Secrets and ConfigMaps, one at a time.

As Kubernetes' `plugin/pkg/auth/authorizer/node` (its graph from nodes by Pods to what they name). Pods are looked
through when a node asks, and only those whose bytes name both.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from vcsync.controlplane.behaviour import Object, User
from vcsync.controlplane.identity.caller import Asked, Decision
from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.store.interface import Store

GROUP = "system:nodes"
PREFIX = "system:node:"
MIRROR = "kubernetes.io/config.mirror"
"""Marks a Pod that a node has made up itself: it must not open anything to that node."""
PAGE = 500
_VERBS = frozenset({"get", "list", "watch"})
_SECRET_VOLUMES = (
    ("azureFile", "secretName"),
    ("secret", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
)
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def node_of(user: User) -> str:
    """Return the name of the node that a user is, empty: it is none."""
    return user.name.removeprefix(PREFIX) if user.name.startswith(PREFIX) and GROUP in user.groups else ""


def is_read_by_nodes(asked: Asked) -> bool:
    """Whether a request is for one of the objects that Pods open to their node."""
    return (
        asked.resource_request
        and not asked.group
        and asked.resource in _NAMED
        and asked.verb in _VERBS
        and not asked.subresource
        and bool(asked.namespace and asked.name)
    )


async def decide(store: Store, tenant: str, node: str, asked: Asked) -> Decision:
    """Tell whether a Pod bound to a node names what the node wants to read; see `is_read_by_nodes`.

    Raises:
        StoreError: the store cannot be read.
    """
    prefix, after = collection_key(tenant, "", "pods", asked.namespace), ""
    texts = [msgspec.json.encode(each) for each in (node, asked.name)]
    while True:
        page = await store.range(prefix, after=after, limit=PAGE)
        for record in page.records:
            if all(text in record.value for text in texts) and _opens(record.value, node, asked):
                return Decision(True)
        if len(page.records) < PAGE:
            return Decision(False, f"no relationship found between node '{node}' and this object")
        after = page.records[-1].key


def _opens(value: bytes, node: str, asked: Asked) -> bool:
    pod = msgspec.json.decode(value)
    spec = pod.get("spec") or {}
    if spec.get("nodeName") != node or MIRROR in (pod["metadata"].get("annotations") or {}):
        return False
    return asked.name in _NAMED[asked.resource](spec)


def _secrets(spec: Object) -> Iterator[Any]:
    for each in spec.get("imagePullSecrets") or ():
        yield each.get("name")
    for volume in spec.get("volumes") or ():
        for path in _SECRET_VOLUMES:
            yield _at(volume, *path)
        for source in _at(volume, "projected", "sources") or ():
            yield _at(source, "secret", "name")
    yield from _environment(spec, "secretKeyRef", "secretRef")


def _config_maps(spec: Object) -> Iterator[Any]:
    for volume in spec.get("volumes") or ():
        yield _at(volume, "configMap", "name")
        for source in _at(volume, "projected", "sources") or ():
            yield _at(source, "configMap", "name")
    yield from _environment(spec, "configMapKeyRef", "configMapRef")


def _environment(spec: Object, of_one: str, of_all: str) -> Iterator[Any]:
    for part in _CONTAINERS:
        for container in spec.get(part) or ():
            for each in container.get("env") or ():
                yield _at(each, "valueFrom", of_one, "name")
            for each in container.get("envFrom") or ():
                yield _at(each, of_all, "name")


def _at(obj: Any, *path: str) -> Any:
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


_NAMED: Mapping[str, Any] = {"secrets": _secrets, "configmaps": _config_maps}
