"""The kind ConfigMap: validation of keys and size, immutability and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/configmap` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.immutable_data import MOST_DATA, decoded, frozen
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, part, say
from vcsync.apimachinery.wire import cells


def _config_map(found: Object) -> list[FieldError]:
    return list(_config_map_findings(found))


def _config_map_findings(found: Object) -> Findings:
    data, binary = part(found, "data"), part(found, "binaryData")
    size = 0
    for key, value in data.items():
        yield from say(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            yield errors.wrong(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += names.size(value)
    for key, value in binary.items():
        yield from say(f"binaryData[{key}]", key, names.config_key(key))
        size += len(decoded(value))
    if size > MOST_DATA:
        yield errors.too_long("[]", MOST_DATA)


def _config_map_update(new: Object, old: Object) -> list[FieldError]:
    return [*frozen(new, old, ("data", "binaryData")), *_config_map_findings(new)]


KIND = Kind(
    group="",
    kind="ConfigMap",
    plural="configmaps",
    validate=_config_map,
    validate_update=_config_map_update,
    columns={"Name": cells.name, "Data": cells.count("data", "binaryData"), "Age": cells.age},
    repeats_finalizer_findings=True,
)
