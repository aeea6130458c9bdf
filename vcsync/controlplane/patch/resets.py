"""Which fields a write through one path never owns, because the server puts them back as they were. Data.

The table is what the strategies of kube-apiserver's registries name (`GetResetFields`).
"""

from dataclasses import dataclass

from vcsync.controlplane.patch.fields import EMPTY, SELF, Set, single, union, without


@dataclass(frozen=True, slots=True)
class Reset:
    """What is not owned.

    Attributes:
        gone: paths that are put back, with all below them.
        only: if set, the only paths that count, with all below them; `*` stands for any one element.
        every_version: whether it holds for owners in other versions than the request's too. A write to a
            custom resource itself is judged by the request's version only.
    """

    gone: Set
    only: Set | None = None
    every_version: bool = True

    def kept(self, of: Set) -> Set:
        """Return what may be owned of a set."""
        if self.only is not None:
            return _within(of, self.only)
        return without(of, self.gone) if self.gone and of else of


def _within(of: Set, pattern: Set) -> Set:
    out: Set = {}
    for element, node in of.items():
        below = pattern.get(element, pattern.get("*"))
        if below is None or element == SELF:
            continue
        if not below or not node:
            out[element] = node
            continue
        inside = _within(node, below)
        if SELF in node:
            inside = {SELF: {}, **inside} if inside else {}
        if inside or SELF in node:
            out[element] = inside
    return out


def _paths(*dotted: str) -> Set:
    found: Set = {}
    for each in dotted:
        found = union(found, single(tuple(part if part == "*" else f"f:{part}" for part in each.split("."))))
    return found


NOTHING = Reset(EMPTY)
"""Every field may be owned."""

_STATUS = Reset(_paths("status"))
_SPEC = Reset(_paths("spec"))
_SPEC_AND_METADATA = Reset(_paths("spec", "metadata"))
_CUSTOM_STATUS = Reset(_paths("status"), every_version=False)

_WITH_STATUS: dict[str, str] = {
    "": "namespaces nodes persistentvolumeclaims persistentvolumes pods replicationcontrollers resourcequotas services",
    "apps": "daemonsets deployments replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "networking.k8s.io": "ingresses",
    "policy": "poddisruptionbudgets",
    "apiextensions.k8s.io": "customresourcedefinitions",
}
_WITH_STATUS_ONLY: dict[str, str] = {
    "admissionregistration.k8s.io": "validatingadmissionpolicies",
    "apiregistration.k8s.io": "apiservices",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "networking.k8s.io": "servicecidrs",
    "resource.k8s.io": "devicetaintrules resourceclaims resourcepoolstatusrequests",
    "storage.k8s.io": "volumeattachments",
    "storagemigration.k8s.io": "storageversionmigrations",
    "scheduling.k8s.io": "podgroups",
}
"""Kinds whose status subresource takes no metadata either."""

_RESIZED = tuple(
    f"spec.{kind}.*.{name}"
    for kind in ("containers", "initContainers")
    for name in ("resources", "resizePolicy")
)
_TABLE: dict[tuple[str, str, str], Reset] = {
    **{(group, plural, ""): _STATUS for group, names in _WITH_STATUS.items() for plural in names.split()},
    **{
        (group, plural, ""): _STATUS for group, names in _WITH_STATUS_ONLY.items() for plural in names.split()
    },
    **{(group, plural, "status"): _SPEC for group, names in _WITH_STATUS.items() for plural in names.split()},
    **{
        (group, plural, "status"): _SPEC_AND_METADATA
        for group, names in _WITH_STATUS_ONLY.items()
        for plural in names.split()
    },
    ("", "namespaces", "finalize"): _STATUS,
    ("", "pods", "status"): Reset(_paths("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")),
    ("", "pods", "ephemeralcontainers"): Reset(EMPTY, _paths("spec.ephemeralContainers")),
    ("", "pods", "resize"): Reset(EMPTY, _paths(*_RESIZED)),
    ("apps", "deployments", "status"): Reset(_paths("spec", "metadata.labels")),
    ("certificates.k8s.io", "certificatesigningrequests", ""): Reset(_paths("spec", "status")),
    ("certificates.k8s.io", "certificatesigningrequests", "status"): Reset(
        _paths("spec", "status.conditions")
    ),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): Reset(
        _paths("spec", "status.certificate")
    ),
    ("certificates.k8s.io", "podcertificaterequests", "status"): _SPEC,
}


def of_builtin(group: str, plural: str, subresource: str = "") -> Reset:
    """Return what a write to a built-in resource never owns."""
    return _TABLE.get((group, plural, subresource), NOTHING)


def of_custom(has_status: bool, subresource: str = "") -> Reset:
    """Return what a write to a custom resource never owns; `has_status`: its status subresource is on."""
    if subresource == "status":
        return _SPEC_AND_METADATA
    return _CUSTOM_STATUS if has_status and not subresource else NOTHING
