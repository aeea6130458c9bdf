"""The kind PersistentVolume: defaults, validation, allowed updates, status, warnings and columns. Pure.

Source: `ValidatePersistentVolumeSpec` in Kubernetes' `pkg/apis/core/validation`.
"""

import posixpath
from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.common.node_labels import node_term_warnings
from vcsync.apimachinery.kinds.common.paths import no_backsteps
from vcsync.apimachinery.kinds.core import pod_volumes, volume_sources
from vcsync.apimachinery.kinds.core.persistent_volume_claim import VOLUME_MODES, access_modes
from vcsync.apimachinery.kinds.core.pod_defaults import AZURE_DISK, ISCSI, RBD
from vcsync.apimachinery.kinds.core.pod_scheduling import node_selector
from vcsync.apimachinery.kinds.core.pod_volumes import needs, partitioned
from vcsync.apimachinery.kinds.core.resources import basic_quantity, positive_quantity
from vcsync.apimachinery.kinds.core.volume_columns import CLASS_COLUMNS, phase, short_modes
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
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
from vcsync.apimachinery.wire import cells

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


def _cinder(path: str, found: Object) -> Findings:
    yield from needed(found, "volumeID", path)
    yield from volume_sources.secret_of(path, found, "name", "namespace")


def _azure_file(path: str, found: Object) -> Findings:
    yield from needed(found, "secretName", path)
    yield from needed(found, "shareName", path)
    if found.get("secretNamespace") is not None:
        yield from needed(found, "secretNamespace", path)


def _glusterfs(path: str, found: Object) -> Findings:
    yield from needed(found, "endpoints", path)
    yield from needed(found, "path", path)
    if found.get("endpointsNamespace") is None:
        return
    here, namespace = f"{path}.endpointsNamespace", text(found, "endpointsNamespace")
    if not namespace:
        yield errors.wrong(
            here, namespace, "if the endpointnamespace is set, it must be a valid namespace name"
        )
    else:
        yield from say(here, namespace, names.dns_label(namespace))


_SOURCES: tuple[tuple[str, str, pod_volumes.Check], ...] = (
    ("hostPath", "hostPath", pod_volumes.host_path),
    ("gcePersistentDisk", "persistentDisk", partitioned("pdName")),
    ("awsElasticBlockStore", "awsElasticBlockStore", partitioned("volumeID")),
    ("glusterfs", "glusterfs", _glusterfs),
    ("flocker", "flocker", pod_volumes.flocker),
    ("nfs", "nfs", pod_volumes.nfs),
    ("rbd", "rbd", needs("monitors", "image")),
    ("quobyte", "quobyte", volume_sources.quobyte),
    ("cephfs", "cephfs", needs("monitors")),
    ("iscsi", "iscsi", volume_sources.iscsi("must be valid format", secret_named=True)),
    ("cinder", "cinder", _cinder),
    ("fc", "fc", pod_volumes.fibre_channel),
    ("flexVolume", "flexVolume", needs("driver")),
    ("azureFile", "azureFile", _azure_file),
    ("vsphereVolume", "vsphereVolume", needs("volumePath")),
    ("photonPersistentDisk", "photonPersistentDisk", needs("pdID")),
    ("portworxVolume", "portworxVolume", needs("volumeID")),
    ("azureDisk", "azureDisk", volume_sources.azure_disk),
    ("scaleIO", "scaleIO", needs("gateway", "system", "volumeName")),
    ("local", "local", _local),
    ("storageos", "storageos", volume_sources.storage_os("name", "namespace")),
    ("csi", "csi", _csi),
)
_MISSPELT = {"cephfs": "cephFS"}
"""Spelling of a source in messages if the volume has more than one, where that is not the source's name."""
_DEPRECATED = {
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
"""Deprecated sources: the name that warnings show, and the advice."""
_OLD_ANNOTATIONS = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_RECYCLED = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
_SOURCE_KEYS = tuple(key for key, _, _ in _SOURCES)


def _default(found: Object) -> None:
    fill(found.setdefault("status", {}), {"phase": "Pending"})
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    default_sources(spec)


def default_sources(spec: Object) -> None:
    """Set the defaults of a volume's sources."""
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
        yield errors.not_supported("spec.capacity", spec.get("capacity"), ("storage",))
    for name, value in capacity.items():
        yield from basic_quantity(f"spec.capacity[{name}]", value)
        yield from positive_quantity(f"spec.capacity[{name}]", value)
    policy = text(spec, "persistentVolumeReclaimPolicy")
    if policy:
        yield from one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    yield from _affinity(spec)
    yield from _source("spec", spec)
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
        if given > 1 and key != "flexVolume":
            yield errors.not_allowed(
                f"{path}.{_MISSPELT.get(key, key)}", "may not specify more than 1 volume type"
            )
            continue
        yield from check(f"{path}.{place}", spec[key])
        if key == "local" and spec.get("nodeAffinity") is None:
            yield errors.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    if not given:
        yield errors.required(path, "must specify a volume type")
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" and _is_root(
        text(part(spec, "hostPath"), "path")
    ):
        message = "may not be 'recycle' for a hostPath mount of '/'"
        yield errors.not_allowed(f"{path}.persistentVolumeReclaimPolicy", message)


def _is_root(path: str) -> bool:
    return path.startswith("/") and not posixpath.normpath(path).strip("/")


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
    """Check the volume spec inside a VolumeAttachment."""
    if "claimRef" in spec:
        yield errors.not_allowed(f"{path}.claimRef", f"may not be specified {_INLINE}")
    if spec.get("capacity"):
        yield errors.not_allowed(f"{path}.capacity", f"may not be specified {_INLINE}")
    if "csi" not in spec:
        yield errors.required(f"{path}.csi", f"has to be specified {_INLINE}")
    if not items(spec, "accessModes"):
        yield errors.required(f"{path}.accessModes")
    yield from access_modes(f"{path}.accessModes", items(spec, "accessModes"))
    if text(spec, "persistentVolumeReclaimPolicy") not in ("", "Retain"):
        yield errors.not_allowed(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}")
    if "nodeAffinity" in spec:
        yield errors.not_allowed(f"{path}.nodeAffinity", f"may not be specified {_INLINE}")
    yield from _source(path, spec)
    if text(spec, "storageClassName"):
        yield errors.not_allowed(f"{path}.storageClassName", f"may not be specified {_INLINE}")
    if spec.get("volumeMode") not in (None, "Filesystem"):
        message = f"may not specify volumeMode other than Filesystem {_INLINE}"
        yield errors.not_allowed(f"{path}.volumeMode", message)


def _update(new: Object, old: Object) -> list[FieldError]:
    now, was = part(new, "spec"), part(old, "spec")
    # The strategy's `ValidateUpdate` applies the kind's rules twice, and reports each finding as a cause.
    found = list(_spec(now)) * 2
    before, after = ({key: spec[key] for key in _SOURCE_KEYS if key in spec} for spec in (was, now))
    if before.keys() == after.keys() == {"csi"} and "controllerExpandSecretRef" not in before["csi"]:
        after["csi"] = {
            key: value for key, value in after["csi"].items() if key != "controllerExpandSecretRef"
        }
    if before != after:
        found.append(errors.not_allowed("spec.persistentvolumesource", _FROZEN))
    found.extend(immutable("volumeMode", now.get("volumeMode"), was.get("volumeMode")))
    if "nodeAffinity" in was and now.get("nodeAffinity") != was["nodeAffinity"]:
        message = "field is immutable, except for updating from beta label to GA"
        found.append(errors.wrong("nodeAffinity", now.get("nodeAffinity"), message))
    if "volumeAttributesClassName" in was and "volumeAttributesClassName" not in now:
        message = "update from non-nil value to nil is forbidden"
        found.append(errors.not_allowed("spec.volumeAttributesClassName", message))
    return found


def _status_prepare(new: Object, old: Object, context: Context) -> None:
    status, before = new.setdefault("status", {}), part(old, "status")
    key = "lastPhaseTransitionTime"
    if status.get("phase") == before.get("phase"):
        if key not in status and key in before:
            status[key] = before[key]
    elif status.get(key) == before.get(key):
        status[key] = context.now


def _warnings(new: Object, _: Object | None) -> list[str]:
    spec, annotations = part(new, "spec"), part(new, "metadata", "annotations")
    message = [
        f"metadata.annotations[{key}]: {why}" for key, why in _OLD_ANNOTATIONS.items() if key in annotations
    ]
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle":
        message.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLED}")
    terms = items(part(spec, "nodeAffinity", "required"), "nodeSelectorTerms")
    for index, term in enumerate(terms):
        path = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]"
        message.extend(node_term_warnings(path, term, weighted=False))
    message += [f"spec.{place}: {why}" for key, (place, why) in _DEPRECATED.items() if key in spec]
    return message


def volume_modes(obj: cells.Object, _: datetime) -> str:
    """Return a volume's access modes."""
    return short_modes(obj, "spec.accessModes")


def claim(obj: cells.Object, _: datetime) -> str:
    """Return the namespace and name of the claim that a volume is bound to."""
    found = cells.look(obj, "spec.claimRef")
    return "" if found is None else f"{found.get('namespace', '')}/{found.get('name', '')}"


KIND = Kind(
    group="",
    kind="PersistentVolume",
    plural="persistentvolumes",
    status=True,
    default=_default,
    prepare_create=_create,
    validate=lambda found: list(_spec(part(found, "spec"))),
    validate_update=_update,
    status_prepare=_status_prepare,
    warnings=_warnings,
    fields=lambda found: {"name": text(part(found, "metadata"), "name")},
    columns={
        **CLASS_COLUMNS,
        "Name": cells.name,
        "Capacity": cells.field("spec.capacity.storage", "0"),
        "Access Modes": volume_modes,
        "Reclaim Policy": cells.field("spec.persistentVolumeReclaimPolicy"),
        "Status": phase,
        "Claim": claim,
        "Reason": cells.field("status.reason"),
    },
    resets={"": STATUS, "status": SPEC},
    repeats_finalizer_findings=True,
    repeats_metadata_findings=False,
    returned_on_deletion=True,
)
