"""The kind PersistentVolumeClaim: defaults, validation, allowed updates, status, warnings and columns. Pure.

Source: `ValidatePersistentVolumeClaim*` in Kubernetes' `pkg/apis/core/validation`.
"""

from copy import deepcopy
from datetime import datetime
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.resources import (
    basic_quantity,
    is_native,
    milli,
    positive_quantity,
    resource_value,
)
from vcsync.apimachinery.kinds.core.volume_columns import CLASS_COLUMNS, phase, short_modes
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    annotations,
    immutable,
    items,
    keyed,
    labels,
    needed,
    part,
    say,
    selector,
    text,
)
from vcsync.apimachinery.wire import cells

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_RESIZING = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ONLY = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
_GO_NAMES = {"uid": "uID"}
"""Names of members in findings where they differ. Upstream derives them from the Go field names."""


def template_metadata(path: str, metadata: Object) -> Findings:
    """Check the metadata of a claim template: only labels and annotations are allowed."""
    yield from annotations(f"{path}.annotations", part(metadata, "annotations"))
    yield from labels(f"{path}.labels", part(metadata, "labels"))
    for key in metadata:
        if key not in ("annotations", "labels"):
            yield errors.not_allowed(f"{path}.{_GO_NAMES.get(key, key)}", "cannot be set")


def template(path: str, found: Object) -> Findings:
    """Check a claim template inside another object."""
    yield from template_metadata(f"{path}.metadata", part(found, "metadata"))
    yield from spec(f"{path}.spec", part(found, "spec"))


def access_modes(path: str, modes: list[Any]) -> Findings:
    """Check a claim's access modes."""
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield errors.not_supported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(each in ACCESS_MODES[:3] for each in modes):
        yield errors.not_allowed(path, "may not use ReadWriteOncePod with other access modes")


def spec(path: str, found: Object, *, any_group: bool = False) -> Findings:
    """Check a claim's spec; `any_group`: whether the API groups of its sources are not checked."""
    modes = items(found, "accessModes")
    if not modes:
        yield errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from selector(f"{path}.selector", found.get("selector"))
    yield from access_modes(f"{path}.accessModes", modes)
    yield from _size(f"{path}.resources[storage]", part(found, "resources", "requests").get("storage"))
    yield from _class(path, found, "storageClassName")
    if "volumeMode" in found and found["volumeMode"] not in VOLUME_MODES:
        yield errors.not_supported(f"{path}.volumeMode", found["volumeMode"], VOLUME_MODES)
    source, reference = found.get("dataSource"), found.get("dataSourceRef")
    if source is not None:
        yield from _source(f"{path}.dataSource", source, any_group=any_group)
    if reference is not None:
        yield from _source(f"{path}.dataSourceRef", reference, any_group=any_group)
        namespace = text(reference, "namespace")
        if namespace:
            yield from say(f"{path}.dataSourceRef.namespace", namespace, names.dns_label(namespace))
    if source is not None and reference is not None:
        # The value is a field path, which kube-apiserver shows as {}.
        if text(reference, "namespace"):
            yield errors.wrong(path, {}, "may not be specified when dataSourceRef.namespace is specified")
        elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
            yield errors.wrong(path, {}, "must match dataSourceRef")
    yield from _class(path, found, "volumeAttributesClassName")


def _class(path: str, found: Object, key: str) -> Findings:
    name = text(found, key)
    if name:
        yield from say(f"{path}.{key}", name, names.dns_subdomain(name))


def _size(path: str, size: Any) -> Findings:
    if size is None:
        yield errors.required(path)
        return
    wrong = list(positive_quantity(path, size))
    yield from wrong or resource_value(path, "storage", size)


def _source(path: str, found: Object, *, any_group: bool) -> Findings:
    yield from needed(found, "name", path)
    yield from needed(found, "kind", path)
    group = text(found, "apiGroup")
    if group:
        yield from () if any_group else say(f"{path}.apiGroup", group, names.dns_subdomain(group))
    elif text(found, "kind") != "PersistentVolumeClaim":
        yield errors.wrong(
            path, text(found, "kind"), "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        )


def default_spec(found: Object) -> None:
    """Set the defaults of a claim's spec."""
    fill(found, {"volumeMode": "Filesystem"})


def _default(claim: Object) -> None:
    status = claim.setdefault("status", {})
    fill(status, {"phase": "Pending"})
    if isinstance(claim.get("spec"), dict):
        default_spec(claim["spec"])


def _drop_unknown_source(found: Object) -> None:
    source = found.get("dataSource")
    known = source is not None and (
        (text(source, "apiGroup"), text(source, "kind"))
        in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    )
    if source is not None and not known:
        del found["dataSource"]


def _mirror_source(found: Object) -> None:
    source, reference = found.get("dataSource"), found.get("dataSourceRef")
    if source is not None and reference is None:
        found["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not text(reference, "namespace"):
        found["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _drop_foreign_reference(new: Object, old: Object) -> None:
    """Drop a source in another namespace unless the stored object has a reference: the feature is off by default."""
    if "dataSourceRef" not in old and text(part(new, "dataSourceRef"), "namespace"):
        del new["dataSourceRef"]


def _prepare_create(new: Object, _: Context) -> None:
    new["status"] = {"phase": "Pending"}
    _drop_foreign_reference(part(new, "spec"), {})
    _drop_unknown_source(part(new, "spec"))
    _mirror_source(part(new, "spec"))


def _prepare_update(new: Object, old: Object, _: Context) -> None:
    before = part(old, "spec")
    _drop_foreign_reference(part(new, "spec"), before)
    if before.get("dataSource") is None and before.get("dataSourceRef") is None:
        _drop_unknown_source(part(new, "spec"))
    _mirror_source(part(new, "spec"))


def _validate(claim: Object) -> list[FieldError]:
    return list(spec("spec", part(claim, "spec")))


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    had_group = any("apiGroup" in part(old, "spec", key) for key in ("dataSource", "dataSourceRef"))
    found = list(spec("spec", part(new, "spec"), any_group=had_group))
    now, was = deepcopy(part(new, "spec")), deepcopy(part(old, "spec"))
    if not text(was, "volumeName") and "volumeName" in now:
        was["volumeName"] = now["volumeName"]
    found += _class_changes(new, old, now)
    size, before = now.get("resources", {}).get("requests", {}).get("storage"), None
    before = was.get("resources", {}).get("requests", {}).get("storage")
    if text(part(new, "status"), "phase") == "Bound":
        if size is not None:
            now["resources"]["requests"]["storage"] = before
        now.pop("volumeAttributesClassName", None)
        was.pop("volumeAttributesClassName", None)
    if now != was:
        found.append(errors.not_allowed("spec", _ONLY))
    if milli(size or 0) < milli(before or 0) and milli(size or 0) <= milli(
        part(old, "status", "capacity").get("storage", 0)
    ):
        found.append(
            errors.not_allowed(
                "spec.resources.requests.storage", "field can not be less than status.capacity"
            )
        )
    found.extend(
        immutable("volumeMode", part(new, "spec").get("volumeMode"), part(old, "spec").get("volumeMode"))
    )
    found.extend(_attributes_changes(new, old))
    return found


def _attributes_changes(new: Object, old: Object) -> Findings:
    """Check that a claim keeps a class of volume attributes once one is in force."""
    key = "volumeAttributesClassName"
    name = part(new, "spec").get(key)
    changed = name != part(old, "spec").get(key)
    if changed and not name and part(old, "status").get("currentVolumeAttributesClassName") is not None:
        what = "nil" if name is None else "empty string"
        why = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        yield errors.not_allowed(f"spec.{key}", why)


def _class_changes(new: Object, old: Object, now: Object) -> Findings:
    """Check changes of the storage class, and drop it from the new spec `now` where it may be set.

    A claim without a class may get one. The annotation, which older clients write, may only become the field.
    """
    annotation = part(old, "metadata", "annotations").get(_CLASS_ANNOTATION)
    written = part(new, "metadata", "annotations").get(_CLASS_ANNOTATION)
    sets = "storageClassName" in now and "storageClassName" not in part(old, "spec")
    if sets and annotation == now["storageClassName"] and written in (None, annotation):
        del now["storageClassName"]
        return
    yield from immutable(f"metadata.annotations.{_CLASS_ANNOTATION}", written or "", annotation or "")
    if sets and annotation is None:
        del now["storageClassName"]


def _status(new: Object, _: Object) -> list[FieldError]:
    status = part(new, "status")
    found: list[FieldError] = []
    for name, size in part(status, "capacity").items():
        found.extend(basic_quantity(keyed("status.capacity", name), size))
    path = "status.allocatedResourceStatuses"
    for name, state in part(status, "allocatedResourceStatuses").items():
        found.extend(_resource_key(path, name))
        if state not in _RESIZING:
            found.append(errors.not_supported(path, name, _RESIZING))
    path = "status.allocatedResources"
    for name, size in part(status, "allocatedResources").items():
        wrong = list(_resource_key(path, name))
        found.extend(wrong or basic_quantity(keyed(path, name), size))
    return found


def _resource_key(path: str, name: str) -> Findings:
    wrong = names.qualified_name(name)
    yield from say(path, name, wrong)
    if not wrong and is_native(name) and name != "storage":
        yield errors.not_supported(path, name, ["storage"])


def _warnings(claim: Object, old: Object | None) -> list[str]:
    del old
    found = []
    if _CLASS_ANNOTATION in part(claim, "metadata", "annotations"):
        found.append(
            f"metadata.annotations[{_CLASS_ANNOTATION}]: deprecated since v1.8; "
            'use "storageClassName" attribute instead'
        )
    return found + spec_warnings("spec", part(claim, "spec"))


def spec_warnings(path: str, found: Object) -> list[str]:
    """Return the warnings about a claim's spec."""
    sizes = {key: part(found, "resources", key).get("storage", 0) for key in ("requests", "limits")}
    return [
        f'{path}.resources.{key}[storage]: fractional byte value "{size}" is invalid, must be an integer'
        for key, size in sizes.items()
        if milli(size) % 1000
    ]


def claim_modes(obj: cells.Object, _: datetime) -> str:
    """Return the access modes of a bound claim's volume."""
    return short_modes(obj, "status.accessModes") if cells.look(obj, "spec.volumeName") else ""


def claim_capacity(obj: cells.Object, _: datetime) -> str:
    """Return the capacity of a bound claim's volume."""
    return str(cells.look(obj, "status.capacity.storage", "0")) if cells.look(obj, "spec.volumeName") else ""


KIND = Kind(
    group="",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    status=True,
    default=_default,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate=_validate,
    validate_update=_validate_update,
    status_validate=_status,
    warnings=_warnings,
    columns={
        **CLASS_COLUMNS,
        "Name": cells.name,
        "Status": phase,
        "Volume": cells.field("spec.volumeName"),
        "Capacity": claim_capacity,
        "Access Modes": claim_modes,
    },
    resets={"": STATUS, "status": SPEC},
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
