"""Warnings about objects that a tenant may have, and that do nothing where its Pods run.

A plug-in of our own. A tenant that brings its own controllers or nodes knows what it does.
"""

from collections.abc import Mapping

from vcsync.api import names
from vcsync.controlplane.admission.daemon_sets import only_virtual_nodes
from vcsync.controlplane.admission.plugin import Lookup
from vcsync.controlplane.rest.scope import Admission

WITHOUT_EFFECT: Mapping[tuple[str, str], str] = {
    (
        "networking.k8s.io",
        "ingresses",
    ): "Ingresses are not carried to the clusters that your Pods run on: this one "
    "has no effect; use a Service of type LoadBalancer or NodePort",
    (
        "networking.k8s.io",
        "networkpolicies",
    ): "NetworkPolicies are not carried to the clusters that your Pods run on: "
    "this one has no effect, and nothing is kept from your Pods",
    (
        "",
        "persistentvolumeclaims",
    ): "PersistentVolumeClaims are not carried to the clusters that your Pods run on: "
    "this one is never bound, and Pods that use it do not start; use emptyDir, or storage over the network",
}
CORDONED = (
    "the node belongs to a cluster of your operator: to cordon it has no effect, Pods are still put there; to keep a "
    "Deployment's Pods away, use nodeSelector or affinity"
)


async def warn_of_no_effect(admission: Admission, lookup: Lookup) -> None:
    """Say in a Warning header that what is written does nothing."""
    scope = admission.scope
    resource = scope.kind.resource
    if scope.subresource or admission.new is None:
        return
    of = (resource.group, resource.plural)
    told = WITHOUT_EFFECT.get(of) if admission.operation == "CREATE" else _of_node(of, admission)
    if told and await only_virtual_nodes(scope.tenant, lookup):
        scope.warn([told])


def _of_node(of: tuple[str, str], admission: Admission) -> str | None:
    """Return what is to be said of an update; None: nothing."""
    if of != ("", "nodes") or admission.new is None or admission.old is None:
        return None
    virtual = names.VIRTUAL_NODE in (admission.new.get("metadata", {}).get("labels") or {})
    before, after = ((each.get("spec") or {}).get("unschedulable") for each in (admission.old, admission.new))
    return CORDONED if virtual and after and not before else None
