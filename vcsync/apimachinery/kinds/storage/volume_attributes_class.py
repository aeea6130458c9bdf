"""The kind VolumeAttributesClass: validation, allowed updates and columns. Pure.

Source: Kubernetes' `pkg/apis/storage/validation`,
`pkg/registry/storage/volumeattributesclass` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.storage.parameters import validate_parameters, validate_provisioner
from vcsync.apimachinery.validation.fields import Findings, Object, part, text
from vcsync.apimachinery.wire import cells


def _attributes(found: Object) -> Findings:
    yield from validate_provisioner("driverName", text(found, "driverName"))
    yield from validate_parameters("parameters", part(found, "parameters"), needed=True)


def _attributes_update(new: Object, old: Object) -> list[FieldError]:
    found = [
        errors.not_allowed(key, f"updates to {key} are forbidden.")
        for key in ("driverName", "parameters")
        if new.get(key) != old.get(key)
    ]
    return [*found, *_attributes(new)]


KIND = Kind(
    group="storage.k8s.io",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    validate=lambda found: list(_attributes(found)),
    validate_update=_attributes_update,
    columns={
        "Name": cells.name,
        "DriverName": cells.field("driverName"),
        "Age": cells.age,
    },
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
