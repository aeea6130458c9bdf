"""The status that FlowSchemas and PriorityLevelConfigurations share. Pure.

Source: Kubernetes' `pkg/apis/flowcontrol/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.validation.fields import Object, indexed, needed, part, text


def validate_status(new: Object, _: Object) -> list[FieldError]:
    """Return the findings on the conditions of a FlowSchema or PriorityLevelConfiguration."""
    found: list[FieldError] = []
    seen: set[str] = set()
    for each, here in indexed(part(new, "status"), "conditions", "status.conditions"):
        kind = text(each, "type")
        if kind in seen:
            found.append(errors.duplicate(f"{here}.type", kind))
        seen.add(kind)
        found.extend(needed(each, "type", here))
    return found
