"""The kind StorageClass: defaults, validation, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/storage/validation`,
`pkg/registry/storage/storageclass` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.common.node_labels import deprecated_label
from vcsync.apimachinery.kinds.storage.parameters import validate_parameters, validate_provisioner
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    immutable,
    indexed,
    items,
    label_key,
    one_of,
    part,
    text,
)
from vcsync.apimachinery.wire import cells


def _class(found: Object) -> Findings:
    yield from validate_provisioner("provisioner", text(found, "provisioner"))
    yield from validate_parameters("parameters", part(found, "parameters"), needed=False)
    if text(found, "reclaimPolicy"):
        yield from one_of("reclaimPolicy", found["reclaimPolicy"], ("Delete", "Retain"))
    mode = found.get("volumeBindingMode")
    if mode is None:
        yield errors.required("volumeBindingMode")
    else:
        yield from one_of("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))
    yield from _topologies(found)


def _topologies(found: Object) -> Findings:
    # kube-apiserver reports a term without expressions as a duplicate.
    seen: list[dict[str, set[str]]] = [{}]
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
        f"{place}.key: {message}"
        for term, here in indexed(new, "allowedTopologies", "allowedTopologies")
        for each, place in indexed(term, "matchLabelExpressions", f"{here}.matchLabelExpressions")
        if (message := deprecated_label(text(each, "key")))
    ]


DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def class_name(obj: cells.Object, _: datetime) -> str:
    """Return the name of a StorageClass, marked if it is the default."""
    annotations = cells.look(obj, "metadata.annotations", {})
    default = any(annotations.get(each) == "true" for each in DEFAULT_CLASS)
    return f"{cells.look(obj, 'metadata.name', '')}{' (default)' if default else ''}"


KIND = Kind(
    group="storage.k8s.io",
    kind="StorageClass",
    plural="storageclasses",
    default=lambda found: fill(found, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    validate=lambda found: list(_class(found)),
    validate_update=_class_update,
    warnings=_class_warnings,
    columns={
        "Name": class_name,
        "Provisioner": cells.field("provisioner"),
        "ReclaimPolicy": cells.field("reclaimPolicy", "Delete"),
        "VolumeBindingMode": cells.field("volumeBindingMode", "Immediate"),
        "AllowVolumeExpansion": cells.field("allowVolumeExpansion", False),
        "Age": cells.age,
    },
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
