"""Writes of a part of an object, through a subresource: what the write may touch, and its rules. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vcsync.controlplane.behaviour import Context, Object
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import certificates, pod_updates, pods
from vcsync.controlplane.rest.copies import copied

KEPT = ("kind", "apiVersion", "metadata")
RESET = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")
"""What of metadata some partial writes do not change (`ResetObjectMetaForStatus`)."""


META_OF_STATUS = frozenset(
    {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("certificates.k8s.io", "podcertificaterequests"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "devicetaintrules"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourcepoolstatusrequests"),
        ("scheduling.k8s.io", "podgroups"),
        ("storage.k8s.io", "volumeattachments"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)
"""Built-in kinds of which a write to the status changes nothing of that, by group and plural."""


@dataclass(frozen=True, slots=True)
class SubWrite:
    """What a write through one subresource does.

    `prepare` (new, old, context): puts back in `new` what it may not touch. `validate` (new, old).
    """

    prepare: Callable[[Object, Object, Context], None]
    validate: Callable[[Object, Object], list[FieldError]]


def nothing_wrong(_new: Object, _old: Object) -> list[FieldError]:
    """Find nothing."""
    return []


def keep_all_but(new: Object, old: Object, *changing: str) -> None:
    """Put back every top-level field but these and metadata."""
    for key in new.keys() | old.keys():
        if key in KEPT or key in changing:
            continue
        if key in old:
            new[key] = copied(old[key])
        else:
            del new[key]


def keep_meta(new: Object, old: Object) -> None:
    """Put back all of metadata but managedFields: a custom resource's status write changes nothing else."""
    metadata = new["metadata"]
    managed = metadata.get("managedFields")
    metadata.clear()
    metadata.update(copied(old["metadata"]))
    metadata.pop("managedFields", None)
    if managed:
        metadata["managedFields"] = managed


def reset_meta(new: Object, old: Object) -> None:
    """Put back what clients may set of metadata."""
    metadata, before = new["metadata"], old["metadata"]
    for key in RESET:
        if key in before:
            metadata[key] = copied(before[key])
        else:
            metadata.pop(key, None)


def _finalize(new: Object, old: Object, _: Context) -> None:
    finalizers = (new.get("spec") or {}).get("finalizers")
    keep_all_but(new, old)
    spec = {key: value for key, value in (new.get("spec") or {}).items() if key != "finalizers"}
    if finalizers:
        spec["finalizers"] = finalizers
    new["spec"] = spec
    if not spec:
        del new["spec"]


def _ephemeral(new: Object, old: Object, _: Context) -> None:
    containers = (new.get("spec") or {}).get("ephemeralContainers")
    keep_all_but(new, old)
    reset_meta(new, old)
    if containers:
        new["spec"]["ephemeralContainers"] = containers
    else:
        new["spec"].pop("ephemeralContainers", None)


def _resize(new: Object, old: Object, _: Context) -> None:
    spec = pod_updates.resized_spec(new.get("spec") or {}, old.get("spec") or {})
    keep_all_but(new, old)
    reset_meta(new, old)
    new["spec"] = spec


def _approval(new: Object, old: Object, context: Context) -> None:
    certificates.prepare_approval(new, old, context)
    keep_all_but(new, old, "status")


SUBWRITES: Mapping[tuple[str, str, str], SubWrite] = {
    ("", "namespaces", "finalize"): SubWrite(_finalize, nothing_wrong),
    ("", "pods", "ephemeralcontainers"): SubWrite(_ephemeral, pods.validate_ephemeral_containers),
    ("", "pods", "resize"): SubWrite(_resize, pods.validate_resize),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): SubWrite(
        _approval, certificates.validate_approval
    ),
}
"""By group, plural and subresource; `status` is each kind's own (`Behaviour.status`)."""
