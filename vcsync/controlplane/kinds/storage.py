"""PersistentVolumes, StorageClasses, CSI kinds, VolumeAttachments. Pure.

Source: Kubernetes' `pkg/apis/storage` and the persistent volumes of `pkg/apis/core/validation`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.node_labels import deprecated_label
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.persistent_volumes import VOLUMES, inline_spec
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.pod_volumes import csi_driver_name
from vcsync.controlplane.kinds.resources import nonnegative_quantity
from vcsync.controlplane.kinds.rules import (
    IMMUTABLE,
    Findings,
    Object,
    immutable,
    indexed,
    items,
    label_key,
    one_of,
    part,
    say,
    selector,
    text,
)

_GROUP = "storage.k8s.io"
_BIGGEST = 256 * 1024
_DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def _provisioner(path: str, name: str) -> Findings:
    if not name:
        yield errors.required(path)
    else:
        yield from say(path, name.lower(), names.qualified_name(name.lower()))


def _parameters(path: str, found: Object, *, needed: bool) -> Findings:
    if len(found) > 512:
        yield errors.too_long(path, 512)
        return
    if "" in found:
        yield errors.wrong(path, "", "field can not be empty.")
    if sum(names.size(key) + names.size(value) for key, value in found.items()) > _BIGGEST:
        yield errors.too_long(path, _BIGGEST)
    if needed and not found:
        yield errors.required(path, "must contain at least one key/value pair")


def _class(found: Object) -> Findings:
    yield from _provisioner("provisioner", text(found, "provisioner"))
    yield from _parameters("parameters", part(found, "parameters"), needed=False)
    if text(found, "reclaimPolicy"):
        yield from one_of("reclaimPolicy", found["reclaimPolicy"], ("Delete", "Retain"))
    mode = found.get("volumeBindingMode")
    if mode is None:
        yield errors.required("volumeBindingMode")
    else:
        yield from one_of("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))
    yield from _topologies(found)


def _topologies(found: Object) -> Findings:
    seen: list[dict[str, set[str]]] = [{}]  # the real server finds a term without expressions a duplicate
    for term, here in indexed(found, "allowedTopologies", "allowedTopologies"):
        keys: dict[str, set[str]] = {}
        for each, place in indexed(term, "matchLabelExpressions", f"{here}.matchLabelExpressions"):
            values = items(each, "values")
            if not values:
                yield errors.required(f"{place}.values")
            known: set[str] = set()
            for value, spot in indexed(each, "values", f"{place}.values"):
                if value in known:
                    yield errors.duplicate(spot, value)
                known.add(value)
            yield from label_key(f"{place}.key", text(each, "key"))
            if text(each, "key") in keys:
                yield errors.duplicate(f"{place}.key", text(each, "key"))
            keys[text(each, "key")] = known
        if keys in seen:
            yield errors.duplicate(f"{here}.matchLabelExpressions", "")
        seen.append(keys)


def _class_update(new: Object, old: Object) -> list[FieldError]:
    found = list(_class(new))
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        found.extend(immutable(key, new.get(key), old.get(key)))
    return found


def _class_warnings(new: Object, _: Object | None) -> list[str]:
    return [
        f"{place}.key: {told}"
        for term, here in indexed(new, "allowedTopologies", "allowedTopologies")
        for each, place in indexed(term, "matchLabelExpressions", f"{here}.matchLabelExpressions")
        if (told := deprecated_label(text(each, "key")))
    ]


def _driver_create(new: Object, _: Context) -> None:
    """Generations of CSIDrivers count changes only: a new one has none."""
    new["metadata"].pop("generation", None)


def _driver_default(found: Object) -> None:
    spec = found.get("spec")
    if isinstance(spec, dict):
        fill(spec, _DRIVER_DEFAULTS)
        if not items(spec, "volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]


def _driver(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from one_of(
        "spec.fsGroupPolicy", text(spec, "fsGroupPolicy"), ("File", "None", "ReadWriteOnceWithFSType")
    )
    seen: set[str] = set()
    for each, here in indexed(spec, "tokenRequests", "spec.tokenRequests"):
        audience, seconds = text(each, "audience"), each.get("expirationSeconds")
        if audience in seen:
            yield errors.duplicate(f"{here}.audience", audience)
            continue
        seen.add(audience)
        if seconds is not None and seconds < 600:
            yield errors.wrong(
                f"{here}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
        if seconds is not None and seconds > 1 << 32:
            told = "may not specify a duration larger than 2^32 seconds"
            yield errors.wrong(f"{here}.expirationSeconds", seconds, told)
    for mode in items(spec, "volumeLifecycleModes"):
        yield from one_of("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        told = "must be greater than or equal to 10 seconds"
        yield errors.wrong("spec.nodeAllocatableUpdatePeriodSeconds", period, told)
    secret = spec.get("serviceAccountTokenInSecrets")
    if secret is not None and not items(spec, "tokenRequests"):
        told = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield errors.wrong("spec.serviceAccountTokenInSecrets", secret, told)


def _driver_warnings(new: Object, _: Object | None) -> list[str]:
    spec = part(new, "spec")
    if not items(spec, "tokenRequests") or "serviceAccountTokenInSecrets" in spec:
        return []
    told = "is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
    return [f"spec.serviceAccountTokenInSecrets {told}"]


def _driver_update(new: Object, old: Object) -> list[FieldError]:
    now, was = part(new, "spec"), part(old, "spec")
    found = list(_driver(new))
    found.extend(immutable("spec.attachedRequired", now.get("attachRequired"), was.get("attachRequired")))
    modes = "volumeLifecycleModes"
    found.extend(immutable(f"spec.{modes}", now.get(modes), was.get(modes)))
    return found


def _node(found: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(part(found, "spec"), "drivers", "spec.drivers"):
        name, node = text(each, "name"), text(each, "nodeID")
        yield from csi_driver_name(f"{here}.name", name)
        if not node:
            yield errors.required(f"{here}.nodeID")
        if names.size(node) > 256:
            yield errors.wrong(f"{here}.nodeID", node, "must be 256 characters or less")
        count = part(each, "allocatable").get("count")
        if count is not None and count < 0:
            yield errors.wrong(f"{here}.allocatable.count", count, "must be greater than or equal to 0")
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)
        keys: set[str] = set()
        for key in items(each, "topologyKeys"):
            if not key:
                yield errors.required(here)
            if key in keys:
                yield errors.duplicate(here, key)
            keys.add(key)
            yield from say(here, key, names.qualified_name(key))


def _node_update(new: Object, old: Object) -> list[FieldError]:
    found = list(_node(new))
    known = {text(each, "name"): each for each in items(part(old, "spec"), "drivers")}
    for each in items(part(new, "spec"), "drivers"):
        was = known.get(text(each, "name"))
        if was is not None and _fixed(each) != _fixed(was):
            found.append(errors.wrong("spec.drivers", _shown_driver(each), IMMUTABLE))
    return found


def _fixed(driver: Object) -> Object:
    return {key: value for key, value in driver.items() if key != "allocatable"}


def _shown_driver(driver: Object) -> Object:
    return {
        "Name": text(driver, "name"),
        "NodeID": text(driver, "nodeID"),
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None,
    }


def _capacity(found: Object) -> Findings:
    yield from selector("nodeTopology", found.get("nodeTopology"))
    name = text(found, "storageClassName")
    yield from say("storageClassName", name, names.dns_subdomain(name))
    if "capacity" in found:
        yield from nonnegative_quantity("capacity", found["capacity"])


def _capacity_update(new: Object, old: Object) -> list[FieldError]:
    found = list(_capacity(new))
    for key in ("nodeTopology", "storageClassName"):
        found.extend(immutable(key, new.get(key), old.get(key)))
    return found


def _attachment(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from csi_driver_name("spec.attacher", text(spec, "attacher"))
    source = part(spec, "source")
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    told = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        yield errors.required("spec.source", told)
    elif inline is not None and volume is not None:
        yield errors.not_allowed("spec.source", told)
    elif inline is not None:
        yield from inline_spec("spec.source.inlineVolumeSpec", inline)
    elif not volume:
        yield errors.required(
            "spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"
        )
    node = text(spec, "nodeName")
    yield from say("spec.nodeName", node, names.dns_subdomain(node))
    yield from _attachment_status(part(found, "status"))
    if volume is not None:
        yield from say("spec.source.persistentVolumeName", volume, names.dns_subdomain(volume))


def _attachment_status(status: Object) -> Findings:
    metadata = part(status, "attachmentMetadata")
    if sum(names.size(key) + names.size(value) for key, value in metadata.items()) > _BIGGEST:
        yield errors.too_long("status.attachmentMetadata", _BIGGEST)
    for key in ("attachError", "detachError"):
        error = part(status, key)
        if names.size(text(error, "message")) > 1024:
            yield errors.too_long(f"status.{key}.message", _BIGGEST)
        code = error.get("errorCode")
        if code is not None and code < 0:
            yield errors.wrong(f"status.{key}.errorCode", code, "must be between 0 and 2147483647, inclusive")


def _attachment_update(new: Object, old: Object) -> list[FieldError]:
    found, spec = list(_attachment(new)), part(new, "spec")
    if spec != part(old, "spec"):
        source = part(spec, "source")
        shown_source = {
            "PersistentVolumeName": source.get("persistentVolumeName"),
            "InlineVolumeSpec": source.get("inlineVolumeSpec"),
        }
        attacher, node = text(spec, "attacher"), text(spec, "nodeName")
        shown = {"Attacher": attacher, "Source": shown_source, "NodeName": node}
        found.append(errors.wrong("spec", shown, IMMUTABLE))
    return found


def _attributes(found: Object) -> Findings:
    yield from _provisioner("driverName", text(found, "driverName"))
    yield from _parameters("parameters", part(found, "parameters"), needed=True)


def _attributes_update(new: Object, old: Object) -> list[FieldError]:
    found = [
        errors.not_allowed(key, f"updates to {key} are forbidden.")
        for key in ("driverName", "parameters")
        if new.get(key) != old.get(key)
    ]
    return [*found, *_attributes(new)]


def _attachment_create(new: Object, _: Context) -> None:
    new["status"] = {"attached": False}


STORAGE = {
    **VOLUMES,
    (_GROUP, "StorageClass"): Part(
        default=lambda found: fill(found, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        validate=lambda found: list(_class(found)),
        validate_update=_class_update,
        warnings=_class_warnings,
    ),
    (_GROUP, "CSIDriver"): Part(
        default=_driver_default,
        prepare_create=_driver_create,
        validate=lambda found: list(_driver(found)),
        validate_update=_driver_update,
        warnings=_driver_warnings,
    ),
    (_GROUP, "CSINode"): Part(validate=lambda found: list(_node(found)), validate_update=_node_update),
    (_GROUP, "CSIStorageCapacity"): Part(
        validate=lambda found: list(_capacity(found)), validate_update=_capacity_update
    ),
    (_GROUP, "VolumeAttachment"): Part(
        prepare_create=_attachment_create,
        validate=lambda found: list(_attachment(found)),
        validate_update=_attachment_update,
        status_validate=_attachment_update,
    ),
    (_GROUP, "VolumeAttributesClass"): Part(
        validate=lambda found: list(_attributes(found)), validate_update=_attributes_update
    ),
}
