"""API objects that a Pod references. A mirror Pod must not reference any. Pure.

Source: Kubernetes' `pkg/api/pod/util.go`, `HasAPIObjectReference`.
"""

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.authorization.node_graph import NAMED

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
    """Return the kind of objects that a Pod references, as messages name it, or an empty text."""
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
            found = [name for field, name in table.items() if entry.get(field) is not None]
            if found:
                return found[0]
    return ""
