"""Objects and fields of tenants that have no effect where their Pods run, and the texts of warnings and Events about them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

WITHOUT_EFFECT: Final[Mapping[tuple[str, str], str]] = {
    (
        "scheduling.k8s.io",
        "priorityclasses",
    ): "your own PriorityClasses are not synced to the clusters that your Pods run on: this one gives Pods no precedence there, "
    "unless your operator maps it to a PriorityClass of those clusters; use one that your operator publishes, if there is any",
}
"""Text of the warning, by group and plural."""
BUILT_IN: Final[Mapping[tuple[str, str], str]] = {("scheduling.k8s.io", "priorityclasses"): "system-"}
"""Prefix of the names of objects that Kubernetes itself creates in every cluster, by group and plural."""
CORDONED: Final = (
    "the node belongs to a cluster of your operator: to cordon it has no effect, Pods are still scheduled there; to keep a "
    "Deployment's Pods away, use nodeSelector or affinity"
)
TAINTED: Final = (
    "the node belongs to a cluster of your operator: your taint does not keep Pods away from it; to keep a "
    "Deployment's Pods away, use nodeSelector or affinity"
)
LABELLED: Final = (
    "the node belongs to a cluster of your operator: the scheduler there does not see your label, and a nodeSelector or "
    "affinity that requires it matches no node; ask your operator which labels its nodes have"
)
SCHEDULER_NAME: Final = (
    "the clusters that your Pods run on schedule them: spec.schedulerName has no effect, and a scheduler of your own does "
    "not schedule them; leave the field out"
)
DEFAULT_SCHEDULER: Final = "default-scheduler"
"""Default value of a Pod's `spec.schedulerName`."""
REASON: Final = "WithoutEffect"
"""Reason of the Events."""
NO_STREAMS: Final = (
    "your Pods run in clusters of your operator, which logs, exec, attach and port-forward do not reach: have containers "
    "send their logs elsewhere, and reach what they serve through a Service"
)
DEBUGGED: Final = (
    "where kubectl logs and exec do not reach your Pods, nobody can attach to a debug container or read its logs. A container "
    "that the Pod policy refuses ends at once: its status and the Pod's Events "
    "give the reason"
)
"""Warning about ephemeral containers, which run in a Pod if the Pod policy allows their settings."""


def scheduling_taints(taints: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return key and effect of the taints that only a scheduler enforces, without those that Kubernetes itself sets.

    `NoExecute` is not among them, because the tenant's own controllers evict Pods from a node with such a taint.
    """
    return {
        (taint["key"], taint["effect"])
        for taint in taints
        if taint["effect"] != "NoExecute" and not taint["key"].startswith("node.kubernetes.io/")
    }


def chosen_labels(labels: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return key and value of a node's labels, without those that kube-controller-manager adds for old clients."""
    return {(key, value) for key, value in labels.items() if "beta.kubernetes.io/" not in key}
