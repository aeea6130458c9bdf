"""PersistentVolumes. Pure.

Source: `ValidatePersistentVolumeSpec` in Kubernetes' `pkg/apis/core/validation`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names, pod_volumes
from vcsync.controlplane.kinds.claims import VOLUME_MODES, access_modes
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.paths import no_backsteps
from vcsync.controlplane.kinds.pod_defaults import AZURE_DISK, ISCSI, RBD, fill
from vcsync.controlplane.kinds.pod_scheduling import node_selector
from vcsync.controlplane.kinds.pod_volumes import needs, partitioned
from vcsync.controlplane.kinds.resources import positive_quantity
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    immutable,
    items,
    needed,
    one_of,
    part,
    say,
    text,
)

_RECLAIM = ("Delete", "Recycle", "Retain")
_FROZEN = "spec.persistentvolumesource is immutable after creation\n"
_INLINE = "in the context of inline volumes"


def _local(path: str, found: Object) -> Findings:
    yield from needed(found, "path", path)
    if text(found, "path"):
        yield from no_backsteps(f"{path}.path", text(found, "path"))


def _csi(path: str, found: Object) -> Findings:
    yield from pod_volumes.csi_driver_name(f"{path}.driver", text(found, "driver"))
    yield from needed(found, "volumeHandle", path)
    for key in (
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ):
        reference = found.get(key)
        if reference is None:
            continue
        for member, check in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
            value = text(reference, member)
            if not value:
                yield errors.required(f"{path}.{key}.{member}")
            else:
                yield from say(f"{path}.{key}.{member}", value, check(value))


_SOURCES: tuple[tuple[str, str, pod_volumes.Check], ...] = (
    ("hostPath", "hostPath", pod_volumes.host_path),
    ("gcePersistentDisk", "persistentDisk", partitioned("pdName")),
    ("awsElasticBlockStore", "awsElasticBlockStore", partitioned("volumeID")),
    ("glusterfs", "glusterfs", needs("endpoints", "path")),
    ("flocker", "flocker", pod_volumes.flocker),
    ("nfs", "nfs", pod_volumes.nfs),
    ("rbd", "rbd", needs("monitors", "image")),
    ("quobyte", "quobyte", needs("registry", "volume")),
    ("cephfs", "cephfs", needs("monitors")),
    ("iscsi", "iscsi", pod_volumes.iscsi),
    ("cinder", "cinder", needs("volumeID")),
    ("fc", "fc", pod_volumes.fibre_channel),
    ("flexVolume", "flexVolume", needs("driver")),
    ("azureFile", "azureFile", needs("secretName", "shareName")),
    ("vsphereVolume", "vsphereVolume", needs("volumePath")),
    ("photonPersistentDisk", "photonPersistentDisk", needs("pdID")),
    ("portworxVolume", "portworxVolume", needs("volumeID")),
    ("azureDisk", "azureDisk", pod_volumes.azure_disk),
    ("scaleIO", "scaleIO", needs("gateway", "system", "volumeName")),
    ("local", "local", _local),
    ("storageos", "storageos", needs()),
    ("csi", "csi", _csi),
)
_SOURCE_KEYS = tuple(key for key, _, _ in _SOURCES)


def _default(found: Object) -> None:
    fill(found.setdefault("status", {}), {"phase": "Pending"})
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    for key, defaults in (
        ("azureDisk", AZURE_DISK),
        ("hostPath", {"type": ""}),
        ("iscsi", ISCSI),
        ("rbd", RBD),
        ("scaleIO", {"storageMode": "ThinProvisioned", "fsType": "xfs"}),
    ):
        if isinstance(spec.get(key), dict):
            fill(spec[key], defaults)


def _create(new: Object, context: Context) -> None:
    new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.now}


def _spec(spec: Object) -> Findings:
    modes, capacity = items(spec, "accessModes"), part(spec, "capacity")
    if not modes:
        yield errors.required("spec.accessModes")
    yield from access_modes("spec.accessModes", modes)
    if not capacity:
        yield errors.required("spec.capacity")
    if "storage" not in capacity or len(capacity) > 1:
        yield errors.not_supported("spec.capacity", capacity or None, ("storage",))
    for name, value in capacity.items():
        yield from positive_quantity(f"spec.capacity[{name}]", value)
    policy = text(spec, "persistentVolumeReclaimPolicy")
    if policy:
        yield from one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    yield from _affinity(spec)
    yield from _source("spec", spec)
    if text(part(spec, "hostPath"), "path") == "/" and policy == "Recycle":
        told = "may not be 'recycle' for a hostPath mount of '/'"
        yield errors.not_allowed("spec.persistentVolumeReclaimPolicy", told)
    name = text(spec, "storageClassName")
    if name:
        yield from say("spec.storageClassName", name, names.dns_subdomain(name))
    if "volumeMode" in spec:
        yield from one_of("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)
    yield from _attributes(spec)


def _affinity(spec: Object) -> Findings:
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        return
    required = part(affinity).get("required")
    if required is None:
        yield errors.required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        yield from node_selector("spec.nodeAffinity.required", required)


def _source(path: str, spec: Object) -> Findings:
    given = 0
    for key, place, check in _SOURCES:
        if not isinstance(spec.get(key), dict):
            continue
        given += 1
        if given > 1:
            yield errors.not_allowed(f"{path}.{key}", "may not specify more than 1 volume type")
            continue
        yield from check(f"{path}.{place}", spec[key])
        if key == "local" and "required" not in part(spec, "nodeAffinity"):
            yield errors.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    if not given:
        yield errors.required(path, "must specify a volume type")


def _attributes(spec: Object) -> Findings:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    here = "spec.volumeAttributesClassName"
    if not name:
        yield errors.required(here, "an empty string is disallowed")
    else:
        yield from say(here, name, names.dns_subdomain(name))
    if "csi" not in spec:
        yield errors.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def inline_spec(path: str, spec: Object) -> Findings:
    """A volume that stands in a VolumeAttachment."""
    for key in ("claimRef", "capacity"):
        if spec.get(key):
            yield errors.not_allowed(f"{path}.{key}", f"may not be specified {_INLINE}")
    if "csi" not in spec:
        yield errors.required(f"{path}.csi", f"has to be specified {_INLINE}")
    if not items(spec, "accessModes"):
        yield errors.required(f"{path}.accessModes")
    yield from access_modes(f"{path}.accessModes", items(spec, "accessModes"))
    for key in ("nodeAffinity", "storageClassName"):
        if spec.get(key):
            yield errors.not_allowed(f"{path}.{key}", f"may not be specified {_INLINE}")
    yield from _source(path, spec)


def _update(new: Object, old: Object) -> list[FieldError]:
    now, was = part(new, "spec"), part(old, "spec")
    found = list(_spec(now))
    before, after = ({key: spec[key] for key in _SOURCE_KEYS if key in spec} for spec in (was, now))
    if before.keys() == after.keys() == {"csi"} and "controllerExpandSecretRef" not in before["csi"]:
        after["csi"] = {
            key: value for key, value in after["csi"].items() if key != "controllerExpandSecretRef"
        }
    if before != after:
        found.append(errors.not_allowed("spec.persistentvolumesource", _FROZEN))
    found.extend(immutable("volumeMode", now.get("volumeMode"), was.get("volumeMode")))
    if "nodeAffinity" in was and now.get("nodeAffinity") != was["nodeAffinity"]:
        told = "field is immutable, except for updating from beta label to GA"
        found.append(errors.wrong("nodeAffinity", now.get("nodeAffinity"), told))
    if "volumeAttributesClassName" in was and "volumeAttributesClassName" not in now:
        told = "update from non-nil value to nil is forbidden"
        found.append(errors.not_allowed("spec.volumeAttributesClassName", told))
    return found


def _status_prepare(new: Object, old: Object, context: Context) -> None:
    status, before = new.setdefault("status", {}), part(old, "status")
    key = "lastPhaseTransitionTime"
    if status.get("phase") == before.get("phase"):
        if key not in status and key in before:
            status[key] = before[key]
    elif status.get(key) == before.get(key):
        status[key] = context.now


VOLUMES = {
    ("", "PersistentVolume"): Part(
        default=_default,
        prepare_create=_create,
        validate=lambda found: list(_spec(part(found, "spec"))),
        validate_update=_update,
        status_prepare=_status_prepare,
        fields=lambda found: {"name": text(part(found, "metadata"), "name")},
    )
}
