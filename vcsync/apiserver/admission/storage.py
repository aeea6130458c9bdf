"""Protection of volumes in use, default storage and ingress classes, resizing of claims, and the taint of new nodes.

Source: Kubernetes' `plugin/pkg/admission/{storage,network/defaultingressclass,nodetaint}`.
"""

from typing import Any

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, creates, refusal, spec_of
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.quantity import milli

PROTECTED = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
DEFAULT_STORAGE = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
DEFAULT_INGRESS = "ingressclass.kubernetes.io/is-default-class"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
OLD_INGRESS_CLASS = "kubernetes.io/ingress.class"
NOT_READY = "node.kubernetes.io/not-ready"


async def in_use_protection(admission: Admission, lookup: Lookup) -> None:
    """Add the finalizers that protect volumes and claims while they are in use."""
    del lookup
    for (group, plural), finalizer in PROTECTED.items():
        if creates(admission, plural, group) and admission.new is not None:
            finalizers = admission.new["metadata"].setdefault("finalizers", [])
            if finalizer not in finalizers:
                finalizers.append(finalizer)


async def default_storage_class(admission: Admission, lookup: Lookup) -> None:
    """Set the class of a claim without one: the newest of the classes marked as default."""
    if not creates(admission, "persistentvolumeclaims"):
        return
    spec = spec_of(admission)
    annotations = (admission.new or {})["metadata"].get("annotations") or {}
    if spec.get("storageClassName") is not None or BETA_STORAGE_CLASS in annotations:
        return
    found = await lookup.all(admission.scope.tenant, "storage.k8s.io", "storageclasses")
    marked = [each for each in found if any(_marked(each, key) for key in DEFAULT_STORAGE)]
    if marked:
        spec["storageClassName"] = _newest(marked)


async def default_ingress_class(admission: Admission, lookup: Lookup) -> None:
    """Set the class of an Ingress without one to the default class.

    Raises:
        StatusError: 403, several classes are marked as default.
    """
    if not creates(admission, "ingresses", "networking.k8s.io"):
        return
    spec = spec_of(admission)
    annotations = (admission.new or {})["metadata"].get("annotations") or {}
    if spec.get("ingressClassName") is not None or OLD_INGRESS_CLASS in annotations:
        return
    found = await lookup.all(admission.scope.tenant, "networking.k8s.io", "ingressclasses")
    marked = [each for each in found if _marked(each, DEFAULT_INGRESS)]
    if marked:
        spec["ingressClassName"] = _newest(marked)


async def taint_new_node(admission: Admission, lookup: Lookup) -> None:
    """Add the not-ready taint to a new node, which is removed when the node is ready."""
    del lookup
    if not creates(admission, "nodes"):
        return
    spec = spec_of(admission)
    taints: list[Any] = spec.get("taints") or []
    if not any(each.get("key") == NOT_READY and each.get("effect") == "NoSchedule" for each in taints):
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


async def claim_resize(admission: Admission, lookup: Lookup) -> None:
    """Refuse to resize a claim that is not bound or whose class does not allow it.

    Raises:
        StatusError: 403.
    """
    resource, old = admission.scope.kind.resource, admission.old
    if resource.plural != "persistentvolumeclaims" or admission.scope.subresource or old is None:
        return
    if admission.operation != "UPDATE" or _asked(spec_of(admission)) <= _asked(old.get("spec") or {}):
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        raise refusal(admission, "Only bound persistent volume claims can be expanded")
    name = _class_of(old)
    found = (
        await lookup.get(admission.scope.tenant, "storage.k8s.io", "storageclasses", name)
        if name and _class_of(admission.new or {}) == name
        else None
    )
    if not (found or {}).get("allowVolumeExpansion"):
        raise refusal(
            admission,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        )


def _asked(spec: Object) -> int:
    return milli(str(((spec.get("resources") or {}).get("requests") or {}).get("storage") or "0"))


def _class_of(claim: Object) -> str:
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    return annotations.get(BETA_STORAGE_CLASS) or (claim.get("spec") or {}).get("storageClassName") or ""


def _marked(found: Object, annotation: str) -> bool:
    return (found["metadata"].get("annotations") or {}).get(annotation) == "true"


def _newest(found: list[Object]) -> str:
    by_name = sorted(found, key=lambda each: str(each["metadata"]["name"]))
    newest = max(by_name, key=lambda each: str(each["metadata"].get("creationTimestamp")))
    return str(newest["metadata"]["name"])
