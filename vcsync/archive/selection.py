"""Selection of the objects that an archive leaves out, because a new control plane makes them or they belong to nodes. Pure."""

from typing import Any, Final

from vcsync.api import names

Object = dict[str, Any]

LEFT_OUT: Final = frozenset(
    {
        ("", "events"),
        ("", "nodes"),
        ("", "componentstatuses"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
        ("coordination.k8s.io", "leasecandidates"),
        ("networking.k8s.io", "ipaddresses"),
        ("networking.k8s.io", "servicecidrs"),
        ("certificates.k8s.io", "certificatesigningrequests"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "volumeattachments"),
        ("resource.k8s.io", "resourceslices"),
        ("internal.apiserver.k8s.io", "storageversions"),
        ("metrics.k8s.io", "pods"),
        ("metrics.k8s.io", "nodes"),
    }
)
"""Resources that describe nodes or the present moment, by group and plural."""

MARKS: Final = (
    ("labels", "kube-aggregator.kubernetes.io/automanaged", None),
    ("labels", "kubernetes.io/bootstrapping", None),
    ("labels", "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
    ("labels", "endpointslice.kubernetes.io/managed-by", "endpointslicemirroring-controller.k8s.io"),
    ("labels", names.NETWORK, None),
    ("annotations", "apf.kubernetes.io/autoupdate-spec", "true"),
    ("annotations", "pv.kubernetes.io/provisioned-by", names.PROVISIONER),
    ("annotations", names.PUBLISHED_BY, None),
    ("annotations", "kubernetes.io/config.mirror", None),
)
"""Labels and annotations of objects that a control plane or a node makes. None: any value."""

MADE: Final = frozenset(
    {
        ("Service", "default", "kubernetes"),
        ("Endpoints", "default", "kubernetes"),
        ("EndpointSlice", "default", "kubernetes"),
        ("ConfigMap", "kube-system", "extension-apiserver-authentication"),
        ("PriorityClass", "", "system-cluster-critical"),
        ("PriorityClass", "", "system-node-critical"),
        ("Network", "", "default"),
    }
)
"""Kind, namespace and name of such objects without a mark."""
FINISHED_PODS: Final = frozenset({"Succeeded", "Failed"})
_SYSTEM_RBAC: Final = frozenset({"ClusterRole", "ClusterRoleBinding"})


def why_left_out(found: Object) -> str:
    """Return why an object is not in an archive; empty if it is."""
    metadata = found["metadata"]
    kind, namespace, name = found["kind"], metadata.get("namespace", ""), metadata["name"]
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if (
        (kind, namespace, name) in MADE
        or (kind, name) == ("ConfigMap", names.ROOT_CA)
        or any(_has(metadata, *mark) for mark in MARKS)
    ):
        return "a new control plane makes it"
    if names.SYSTEM_NAMESPACE in (namespace, name if kind == "Namespace" else "") or (
        kind in _SYSTEM_RBAC and name.startswith("vcsync-")
    ):
        return "it is vcsync's own"
    if kind == "Pod" and any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return "its controller makes it"
    return "it has ended, and would run again" if _has_ended(kind, found.get("status") or {}) else ""


def _has(metadata: Object, field: str, key: str, value: str | None) -> bool:
    marks = metadata.get(field) or {}
    return key in marks and value in (None, marks[key])


def _has_ended(kind: str, status: Object) -> bool:
    if kind == "Pod":
        return status.get("phase") in FINISHED_PODS
    return kind == "Job" and any(
        each.get("type") in ("Complete", "Failed") and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )


WITHOUT_CONTENT: Final = "tenancy.x-k8s.io/without-content"
"""Annotation on a Secret in an archive: its contents were not exported."""
TOKEN_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret's type


def archived(found: Object, *, with_keys: bool) -> Object:
    """Return the form of an object in an archive. Tokens of ServiceAccounts are never exported: they are made again."""
    metadata = {
        key: value for key, value in found["metadata"].items() if key not in ("managedFields", "selfLink")
    }
    made = {**found, "metadata": metadata}
    if found["kind"] != "Secret" or found["apiVersion"] != "v1":
        return made
    if found.get("type") == TOKEN_TYPE:
        made.pop("data", None)
    elif not with_keys:
        made.pop("data", None)
        metadata["annotations"] = {**(metadata.get("annotations") or {}), WITHOUT_CONTENT: names.TRUE}
    annotations = metadata.get("annotations") or {}
    if not with_keys and "kubectl.kubernetes.io/last-applied-configuration" in annotations:
        # kubectl keeps a copy of the contents there.
        metadata["annotations"] = {
            key: value
            for key, value in annotations.items()
            if key != "kubectl.kubernetes.io/last-applied-configuration"
        }
    return made


def rank(group: str, plural: str) -> int:
    """Return the place of a resource in the order of an archive: what others need comes first."""
    if group in ("admissionregistration.k8s.io", "apiregistration.k8s.io"):
        return LATE
    return _RANKS.get((group, plural), _RANKS.get((group, ""), 6))


LATE: Final = 10
"""Rank from which on resources limit or change the creation of others: they come when everything else exists."""
_RANKS: Final = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): 0,
    ("", "namespaces"): 1,
    ("scheduling.k8s.io", ""): 2,
    ("storage.k8s.io", ""): 2,
    ("node.k8s.io", ""): 2,
    ("", "persistentvolumes"): 2,
    ("", "serviceaccounts"): 3,
    ("", "secrets"): 4,
    ("", "configmaps"): 4,
    ("rbac.authorization.k8s.io", ""): 5,
    ("apps", ""): 7,
    ("batch", ""): 7,
    ("", "pods"): 8,
    ("", "limitranges"): LATE,
    ("", "resourcequotas"): LATE,
}
