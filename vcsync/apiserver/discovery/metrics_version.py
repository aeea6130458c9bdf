"""The version of the resource metrics API in discovery documents. Pure.

Source: the APIService and the resources of metrics-server.
"""

from typing import Any, Final

import msgspec

from vcsync.apiserver.discovery.remote_versions import RemoteVersion

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
PRIORITY: Final = 100
VERBS: Final = ("get", "list")
_KINDS: Final = {"nodes": ("NodeMetrics", "node", False), "pods": ("PodMetrics", "pod", True)}


def _entries() -> list[dict[str, Any]]:
    return [
        {
            "resource": plural,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": singular,
            "verbs": VERBS,
        }
        for plural, (kind, singular, namespaced) in _KINDS.items()
    ]


METRICS: Final = RemoteVersion(
    GROUP, VERSION, PRIORITY, PRIORITY, msgspec.json.encode(_entries()), current=True
)


def resource_list() -> bytes:
    """Return `/apis/metrics.k8s.io/v1beta1`."""
    resources = [
        {"name": plural, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": VERBS}
        for plural, (kind, singular, namespaced) in _KINDS.items()
    ]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
    return msgspec.json.encode({**head, "resources": resources}) + b"\n"
