"""PersistentVolumeClaims. Pure.

Source: `ValidatePersistentVolumeClaim*` in Kubernetes' `pkg/apis/core/validation`.
"""

from copy import deepcopy
from typing import Any

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.resources import milli, positive_quantity, resource_value
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    annotations,
    immutable,
    items,
    labels,
    needed,
    part,
    say,
    selector,
    text,
)

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ONLY = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"


def template(path: str, found: Object) -> Findings:
    """A claim that stands in another object."""
    metadata = part(found, "metadata")
    yield from annotations(f"{path}.metadata.annotations", part(metadata, "annotations"))
    yield from labels(f"{path}.metadata.labels", part(metadata, "labels"))
    for key in metadata:
        if key not in ("annotations", "labels"):
            yield errors.not_allowed(f"{path}.metadata.{key}", "cannot be set")
    yield from spec(f"{path}.spec", part(found, "spec"))


def access_modes(path: str, modes: list[Any]) -> Findings:
    """How a volume may be mounted."""
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield errors.not_supported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(each in ACCESS_MODES[:3] for each in modes):
        yield errors.not_allowed(path, "may not use ReadWriteOncePod with other access modes")


def spec(path: str, found: Object) -> Findings:
    """A claim's spec."""
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
        yield from _source(f"{path}.dataSource", source)
    if reference is not None:
        yield from _source(f"{path}.dataSourceRef", reference)
    if (
        source is not None
        and reference is not None
        and any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name"))
    ):
        yield errors.wrong(path, {}, "must match dataSourceRef")  # a path, as the real server shows it
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


def _source(path: str, found: Object) -> Findings:
    yield from needed(found, "name", path)
    yield from needed(found, "kind", path)
    group = text(found, "apiGroup")
    if group:
        yield from say(f"{path}.apiGroup", group, names.dns_subdomain(group))
    elif text(found, "kind") != "PersistentVolumeClaim":
        yield errors.wrong(
            path, text(found, "kind"), "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        )


def default_spec(found: Object) -> None:
    """Fill in a claim's spec."""
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


def _prepare_create(new: Object, _: Context) -> None:
    new["status"] = {"phase": "Pending"}
    _drop_unknown_source(part(new, "spec"))
    _mirror_source(part(new, "spec"))


def _prepare_update(new: Object, old: Object, _: Context) -> None:
    before = part(old, "spec")
    if before.get("dataSource") is None and before.get("dataSourceRef") is None:
        _drop_unknown_source(part(new, "spec"))
    _mirror_source(part(new, "spec"))


def _validate(claim: Object) -> list[FieldError]:
    return list(spec("spec", part(claim, "spec")))


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    found = _validate(new)
    now, was = deepcopy(part(new, "spec")), deepcopy(part(old, "spec"))
    if not text(was, "volumeName") and "volumeName" in now:
        was["volumeName"] = now["volumeName"]
    annotation = part(old, "metadata", "annotations").get(_CLASS_ANNOTATION)
    if (
        "storageClassName" in now
        and "storageClassName" not in was
        and annotation in (None, now["storageClassName"])
    ):
        del now["storageClassName"]
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
    return found


def _warnings(claim: Object, old: Object | None) -> list[str]:
    del old
    found = []
    if _CLASS_ANNOTATION in part(claim, "metadata", "annotations"):
        found.append(
            f"metadata.annotations[{_CLASS_ANNOTATION}]: deprecated since v1.8; "
            'use "storageClassName" attribute instead'
        )
    for field in ("requests", "limits"):
        size = part(claim, "spec", "resources", field).get("storage", 0)
        if milli(size) % 1000:
            found.append(
                f'spec.resources.{field}[storage]: fractional byte value "{size}" is invalid, must be an integer'
            )
    return found


CLAIMS = {
    ("", "PersistentVolumeClaim"): Part(
        default=_default,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate=_validate,
        validate_update=_validate_update,
        warnings=_warnings,
    )
}
