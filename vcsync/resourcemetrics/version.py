"""The version of the resource metrics API, and its resources in discovery documents. Pure.

Source: the APIService and the resources of metrics-server.
"""

from typing import Any, Final

import msgspec

GROUP: Final = "metrics.k8s.io"
VERSION: Final = "v1beta1"
PRIORITY: Final = 100
VERBS: Final = ("get", "list")
_KINDS: Final = {"nodes": ("NodeMetrics", "node", False), "pods": ("PodMetrics", "pod", True)}


def entries() -> list[dict[str, Any]]:
    """Return the resources in the form of aggregated discovery documents."""
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


def resource_list() -> bytes:
    """Return `/apis/metrics.k8s.io/v1beta1`."""
    resources = [
        {"name": plural, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": VERBS}
        for plural, (kind, singular, namespaced) in _KINDS.items()
    ]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
    return msgspec.json.encode({**head, "resources": resources}) + b"\n"
