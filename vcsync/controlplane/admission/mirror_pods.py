"""What of the API a Pod refers to: a Pod that a node makes up must not refer to anything. Pure.

Source: Kubernetes' `pkg/api/pod/util.go`, `HasAPIObjectReference`.
"""

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.identity.node_graph import NAMED

_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def reference_of(pod: Object) -> str:
    """Return what a Pod refers to, in the words of refusals; empty: nothing."""
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    for plural in ("secrets", "configmaps"):
        if any(NAMED[plural](pod)):
            return plural
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        for table, entry in ((_VOLUMES, volume), *((_SOURCES, each) for each in sources)):
            found = [told for key, told in table.items() if entry.get(key) is not None]
            if found:
                return found[0]
    return ""
