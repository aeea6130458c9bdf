"""Pods on nodes: copies topology labels of the node, and checks that the node supports an update.

Source: Kubernetes' `plugin/pkg/admission/{podtopologylabels,nodedeclaredfeatures,podresize}`.
"""

from vcsync.apimachinery.errors import Cause, StatusError
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, refusal, spec_of
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.quantity import milli
from vcsync.quota.usage import NONE, Amount, pod_total

TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
RESIZES_INIT = "InPlacePodVerticalScalingInitContainers"
"""Declared feature of nodes whose kubelet resizes init containers. No other declared feature concerns updates."""
_OS = "kubernetes.io/os"


async def topology_labels(admission: Admission, lookup: Lookup) -> None:
    """Copy the zone and region labels of the node to a scheduled Pod or to a binding."""
    resource, sub, new = admission.scope.kind.resource, admission.scope.subresource, admission.new
    if (resource.group, resource.plural) != ("", "pods") or new is None or admission.operation != "CREATE":
        return
    if sub == "binding":
        target = new.get("target") or {}
        node = target.get("name") if target.get("kind") == "Node" else ""
    else:
        node = (new.get("spec") or {}).get("nodeName") if not sub else ""
    found = await lookup.get(admission.scope.tenant, "", "nodes", node) if node else None
    labels = ((found or {}).get("metadata") or {}).get("labels") or {}
    copied = {key: labels[key] for key in TOPOLOGY if key in labels}
    if copied:
        metadata = new.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **copied}


async def declared_features(admission: Admission, lookup: Lookup) -> None:
    """Refuse updates that require features that the Pod's node has not declared.

    Raises:
        StatusError: 403.
    """
    if not _changes_placed(admission, "", "resize"):
        return
    old, new = (admission.old or {}).get("spec") or {}, spec_of(admission)
    if not _resizes_init(old.get("initContainers") or (), new.get("initContainers") or ()):
        return
    node = await _node(admission, lookup)
    if RESIZES_INIT not in ((node.get("status") or {}).get("declaredFeatures") or ()):
        name = node["metadata"]["name"]
        why = f'pod update requires features {RESIZES_INIT} which are not available on node "{name}"'
        raise refusal(admission, why)


async def resize_fits(admission: Admission, lookup: Lookup) -> None:
    """Refuse resizes that exceed the allocatable resources of the node, or on nodes that cannot resize.

    Raises:
        StatusError: 403.
    """
    if not _changes_placed(admission, "resize"):
        return
    node = await _node(admission, lookup)
    name, system = node["metadata"]["name"], (node["metadata"].get("labels") or {}).get(_OS, "linux")
    if system != "linux":
        why = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
        raise _caused(admission, why, "UnsupportedPlatform")
    wanted = pod_total(spec_of(admission), "requests")
    has = (node.get("status") or {}).get("allocatable") or {}
    over = []
    for resource, unit in (("cpu", 1), ("memory", 1000)):
        asked, allocatable = wanted.get(resource, NONE), Amount(milli(str(has.get(resource, "0"))))
        if asked.milli > allocatable.milli:
            requested, available = (-(-each.milli // unit) for each in (asked, allocatable))
            over.append(f"{resource}, requested: {requested}, allocatable: {available}")
    if over:
        why = f"node didn't have enough allocatable resources: {'; '.join(over)}"
        raise _caused(admission, why, "NodeCapacity")


def _changes_placed(admission: Admission, *subresources: str) -> bool:
    """Return whether the spec of a scheduled Pod changes."""
    resource, old, new = admission.scope.kind.resource, admission.old, admission.new
    return (
        (resource.group, resource.plural) == ("", "pods")
        and admission.scope.subresource in subresources
        and admission.operation == "UPDATE"
        and old is not None
        and new is not None
        and bool((new.get("spec") or {}).get("nodeName"))
        and old["metadata"].get("generation") != new["metadata"].get("generation")
    )


def _resizes_init(old: object, new: object) -> bool:
    """Return whether the resources of an init container that is not a sidecar change."""
    pairs = zip(old, new, strict=False) if isinstance(old, list) and isinstance(new, list) else ()
    return any(
        was.get("restartPolicy") != "Always" and (was.get("resources") or {}) != (now.get("resources") or {})
        for was, now in pairs
    )


async def _node(admission: Admission, lookup: Lookup) -> Object:
    name = str(spec_of(admission).get("nodeName"))
    found = await lookup.get(admission.scope.tenant, "", "nodes", name)
    if found is None:
        raise refusal(admission, f'node "{name}" not found')
    return found


def _caused(admission: Admission, why: str, cause: str) -> StatusError:
    error = refusal(admission, why)
    error.causes = (Cause(cause, ""),)
    return error
