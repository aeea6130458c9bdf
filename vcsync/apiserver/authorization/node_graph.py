"""The objects that a Pod references, which its node may therefore read. Pure.

Behaviour: `AddPod` of Kubernetes' `plugin/pkg/auth/authorizer/node/graph.go`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vcsync.apimachinery.strategy import Object

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of mirror Pods, which a node creates itself. They grant the node nothing."""
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
_SECRETS_OF_VOLUME = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
    ("csi", "nodeStageSecretRef", "name"),
    ("csi", "nodeExpandSecretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
)
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def is_mirror(pod: Object) -> bool:
    """Return whether a Pod is a mirror Pod, created by its node."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def node_of_pod(pod: Object) -> str:
    """Return the node that a Pod is bound to, or an empty text."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def claims_of(pod: Object) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims that a Pod uses."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield at(volume, "persistentVolumeClaim", "claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume.get('name')}"


def secrets_of_volume(volume: Object) -> Iterator[Any]:
    """Yield the names of Secrets that a PersistentVolume needs on its node."""
    for path in _SECRETS_OF_VOLUME:
        yield at(volume.get("spec") or {}, *path)


def _resource_claims(pod: Object) -> Iterator[Any]:
    for each in (pod.get("spec") or {}).get("resourceClaims") or ():
        yield each.get("resourceClaimName")
    status = pod.get("status") or {}
    for each in status.get("resourceClaimStatuses") or ():
        yield each.get("resourceClaimName")
    yield at(status, "extendedResourceClaimStatus", "resourceClaimName")


def _account(pod: Object) -> Iterator[Any]:
    yield (pod.get("spec") or {}).get("serviceAccountName")


def _secrets(pod: Object) -> Iterator[Any]:
    spec = pod.get("spec") or {}
    for each in spec.get("imagePullSecrets") or ():
        yield each.get("name")
    for volume in spec.get("volumes") or ():
        for path in _SECRET_VOLUMES:
            yield at(volume, *path)
        for source in at(volume, "projected", "sources") or ():
            yield at(source, "secret", "name")
    yield from _environment(spec, "secretKeyRef", "secretRef")


def _config_maps(pod: Object) -> Iterator[Any]:
    spec = pod.get("spec") or {}
    for volume in spec.get("volumes") or ():
        yield at(volume, "configMap", "name")
        for source in at(volume, "projected", "sources") or ():
            yield at(source, "configMap", "name")
    yield from _environment(spec, "configMapKeyRef", "configMapRef")


def _environment(spec: Object, of_one: str, of_all: str) -> Iterator[Any]:
    for part in _CONTAINERS:
        for container in spec.get(part) or ():
            for each in container.get("env") or ():
                yield at(each, "valueFrom", of_one, "name")
            for each in container.get("envFrom") or ():
                yield at(each, of_all, "name")


def at(obj: Any, *path: str) -> Any:
    """Return the value at a path of nested objects, or None."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


NAMED: Mapping[str, Callable[[Object], Iterator[Any]]] = {
    "secrets": _secrets,
    "configmaps": _config_maps,
    "serviceaccounts": _account,
    "persistentvolumeclaims": claims_of,
    "resourceclaims": _resource_claims,
}
"""References of a Pod within its namespace, by resource."""
