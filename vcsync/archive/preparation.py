"""The body with which an archived object is created again. Pure."""

import copy
from collections.abc import Collection, Mapping
from typing import Any, Final

from vcsync.api import names

Object = dict[str, Any]

OF_THE_SERVER: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
)
"""Fields of metadata that the server sets."""
OF_PLACEMENT: Final = (names.SUPER_CLUSTER, names.PLACEMENTS, names.DEFAULT_QUOTA)
"""Labels and annotations that the schedulers write."""
OF_JOBS: Final = (
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
)
"""Labels that the server gives to the Pods of a Job, by the Job's UID."""
OF_BINDING: Final = ("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller")
"""Annotations that the binder of a control plane gives to claims."""
OF_TOKENS: Final = ("kubernetes.io/service-account.uid",)


class Waits(Exception):
    """An owner of the object is in the archive but has not been created yet."""


def prepared(found: Object, owners: Mapping[str, str], expected: Collection[str]) -> Object:
    """Return the body with which to create an object.

    References to owners get the owners' new UIDs. One to an owner outside the archive is left out, because the garbage
    collector would delete the object.

    Args:
        found: the archived object.
        owners: old UID -> new UID of the objects that exist.
        expected: old UIDs of the objects that will exist.

    Raises:
        Waits: an owner is expected but does not exist yet.
    """
    body = copy.deepcopy(found)
    body.pop("status", None)
    metadata = {key: value for key, value in body["metadata"].items() if key not in OF_THE_SERVER}
    references = []
    for owner in metadata.pop("ownerReferences", None) or ():
        if owner["uid"] in owners:
            references.append({**owner, "uid": owners[owner["uid"]]})
        elif owner["uid"] in expected:
            raise Waits
    if references:
        metadata["ownerReferences"] = references
    for field in ("labels", "annotations"):
        if metadata.get(field):
            metadata[field] = {key: value for key, value in metadata[field].items() if not _is_placement(key)}
    body["metadata"] = metadata
    _release(body, found["metadata"].get("uid", ""))
    fit = _FITS.get((body["apiVersion"], body["kind"]))
    if fit is not None:
        fit(body)
    return body


def _is_placement(key: str) -> bool:
    return key in OF_PLACEMENT or key.startswith(f"{names.PLACEMENT_DOMAIN}/")


def _pod(body: Object) -> None:
    spec = body.get("spec") or {}
    for field in ("nodeName", "ephemeralContainers", "priority", "overhead", "preemptionPolicy"):
        spec.pop(field, None)


def _job(body: Object) -> None:
    spec = body.get("spec") or {}
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    template = (spec.get("template") or {}).get("metadata") or {}
    for labels in (body["metadata"].get("labels"), template.get("labels")):
        for key in OF_JOBS:
            (labels or {}).pop(key, None)


def _volume(body: Object) -> None:
    claim = (body.get("spec") or {}).get("claimRef") or {}
    for field in ("uid", "resourceVersion"):
        claim.pop(field, None)


def _release(body: Object, uid: str) -> None:
    """Have a claim get a new volume if its volume was in a super cluster: archives contain no data of volumes."""
    spec = body.get("spec") or {}
    if body["kind"] != "PersistentVolumeClaim" or spec.get("volumeName") != names.volume_name(uid):
        return
    del spec["volumeName"]
    annotations = body["metadata"].get("annotations") or {}
    for key in OF_BINDING:
        annotations.pop(key, None)


def _secret(body: Object) -> None:
    annotations = body["metadata"].get("annotations") or {}
    for key in OF_TOKENS:
        annotations.pop(key, None)


def _account(body: Object) -> None:
    # Its tokens of the time before Kubernetes 1.24 are made again.
    body.pop("secrets", None)


_FITS: Final = {
    ("v1", "Pod"): _pod,
    ("batch/v1", "Job"): _job,
    ("v1", "PersistentVolume"): _volume,
    ("v1", "Secret"): _secret,
    ("v1", "ServiceAccount"): _account,
}

ADDRESSES: Final = ("clusterIP", "clusterIPs", "healthCheckNodePort")


def without_addresses(body: Object) -> Object:
    """Return a Service that gets new addresses and node ports."""
    spec = {key: value for key, value in (body.get("spec") or {}).items() if key not in ADDRESSES}
    if spec.get("ports"):
        spec["ports"] = [
            {key: value for key, value in port.items() if key != "nodePort"} for port in spec["ports"]
        ]
    if (body.get("spec") or {}).get("clusterIP") == "None":
        spec["clusterIP"] = "None"
    return {**body, "spec": spec}


def addition(body: Object) -> Object | None:
    """Return the merge patch of an object that every namespace or control plane has, but that users extend; or None."""
    metadata = body["metadata"]
    extended: Object = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    if (body["apiVersion"], body["kind"]) == ("v1", "Namespace") and metadata["name"] in DEFAULT_NAMESPACES:
        return {"metadata": extended} if extended else None
    if (body["apiVersion"], body["kind"], metadata["name"]) == ("v1", "ServiceAccount", "default"):
        fields = {
            key: body[key] for key in ("imagePullSecrets", "automountServiceAccountToken") if key in body
        }
        patch = fields | ({"metadata": extended} if extended else {})
        return patch or None
    return None


DEFAULT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
