"""All versions that built-in kinds ever had. Data only.

kube-apiserver can convert all of them, served or not. Ownership of fields in other versions is dropped
(`IsMissingVersionError` in structured-merge-diff).
"""

from vcsync.objects.text_cache import cache_short_texts

REGISTERED: dict[str, str] = {
    "": "v1",
    "admissionregistration.k8s.io": "v1 v1alpha1 v1beta1",
    "apiextensions.k8s.io": "v1 v1beta1",
    "apiregistration.k8s.io": "v1 v1beta1",
    "apps": "v1 v1beta1 v1beta2",
    "authentication.k8s.io": "v1 v1alpha1 v1beta1",
    "authorization.k8s.io": "v1 v1beta1",
    "autoscaling": "v1 v2",
    "batch": "v1 v1beta1",
    "certificates.k8s.io": "v1 v1alpha1 v1beta1",
    "coordination.k8s.io": "v1 v1alpha2 v1beta1",
    "discovery.k8s.io": "v1 v1beta1",
    "events.k8s.io": "v1 v1beta1",
    "flowcontrol.apiserver.k8s.io": "v1 v1beta1 v1beta2 v1beta3",
    "networking.k8s.io": "v1 v1beta1",
    "node.k8s.io": "v1 v1alpha1 v1beta1",
    "policy": "v1 v1beta1",
    "rbac.authorization.k8s.io": "v1 v1alpha1 v1beta1",
    "resource.k8s.io": "v1 v1alpha3 v1beta1 v1beta2",
    "scheduling.k8s.io": "v1 v1alpha2 v1beta1",
    "storage.k8s.io": "v1 v1alpha1 v1beta1",
}
"""Versions of each group, from the packages of `k8s.io/api` and of the two aggregated servers."""
EXTENSIONS = frozenset({"DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet"})
"""Kinds that were in `extensions/v1beta1` before they had groups of their own."""


@cache_short_texts(1024, 512)
def tracked_versions(group: str, kind: str) -> frozenset[str] | None:
    """Return the apiVersions of a built-in kind, or None if its group is not known."""
    if group not in REGISTERED:
        return None
    named = {f"{group}/{each}" if group else each for each in REGISTERED[group].split()}
    return frozenset(named | ({"extensions/v1beta1"} if kind in EXTENSIONS else set()))
