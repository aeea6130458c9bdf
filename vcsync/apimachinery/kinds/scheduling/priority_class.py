"""The kind PriorityClass: defaults, validation and columns. Pure.

Source: Kubernetes' `pkg/apis/scheduling/validation`,
`pkg/registry/scheduling/priorityclass` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.validation.fields import Findings, Object, immutable, number, one_of, part, text
from vcsync.apimachinery.wire import cells

_SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_HIGHEST = 1000000000


def _priority(found: Object) -> Findings:
    name, value = text(part(found, "metadata"), "name"), number(found, "value")
    if name.startswith("system-"):
        yield from _system_priority(name, value, bool(found.get("globalDefault")))
    elif value > _HIGHEST:
        yield errors.not_allowed("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
    if "preemptionPolicy" in found:
        if not found["preemptionPolicy"]:
            yield errors.required("preemptionPolicy")
        else:
            yield from one_of(
                "preemptionPolicy", found["preemptionPolicy"], ("PreemptLowerPriority", "Never")
            )


def _system_priority(name: str, value: int, default: bool) -> Findings:
    known = _SYSTEM_CLASSES.get(name)
    if known is None:
        why = f"{name} is not a known system priority class"
    elif value != known:
        why = f"value of {name} PriorityClass must be {known}"
    elif default:
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return
    message = "priority class names with 'system-' prefix are reserved for system use only. error: "
    yield errors.not_allowed("metadata.name", message + why)


def _priority_update(new: Object, old: Object) -> list[FieldError]:
    found = []
    if number(new, "value") != number(old, "value"):
        found.append(errors.not_allowed("value", "may not be changed in an update."))
    return [*found, *immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))]


KIND = Kind(
    group="scheduling.k8s.io",
    kind="PriorityClass",
    plural="priorityclasses",
    generation=("value",),
    default=lambda found: fill(found, {"preemptionPolicy": "PreemptLowerPriority"}),
    validate=lambda found: list(_priority(found)),
    validate_update=_priority_update,
    columns={
        "Name": cells.name,
        "Value": cells.field("value", 0),
        "Global-Default": cells.field("globalDefault", False),
        "Age": cells.age,
        "PreemptionPolicy": cells.field("preemptionPolicy"),
    },
)
