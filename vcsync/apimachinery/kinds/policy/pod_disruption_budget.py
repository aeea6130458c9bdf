"""The kind PodDisruptionBudget: validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/policy/validation`,
`pkg/registry/policy/poddisruptionbudget` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.workloads import at_most_everything, count
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    conditions,
    items,
    nonnegative,
    one_of,
    part,
    selector,
)
from vcsync.apimachinery.wire import cells


def _budget(found: Object) -> Findings:
    spec = part(found, "spec")
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shown = {
            "MinAvailable": low,
            "Selector": spec.get("selector"),
            "MaxUnavailable": high,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield errors.wrong("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for key, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            yield from count(f"spec.{key}", value)
            yield from at_most_everything(f"spec.{key}", value)
    yield from selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        yield from one_of("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _budget_status(new: Object, _: Object) -> list[FieldError]:
    status = part(new, "status")
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return [
        *conditions("status.conditions", items(status, "conditions")),
        *nonnegative(status, "status", *counts),
    ]


def bound(path: str) -> cells.Cell:
    """Return the cell of one of a budget's bounds."""
    return lambda obj, _: str(cells.look(obj, path, "N/A"))


KIND = Kind(
    group="policy",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    generation=("spec",),
    status=True,
    unconditional_update=False,
    validate=lambda found: list(_budget(found)),
    status_validate=_budget_status,
    validate_name=names.segment_name,
    columns={
        "Name": cells.name,
        "Min Available": bound("spec.minAvailable"),
        "Max Unavailable": bound("spec.maxUnavailable"),
        "Allowed Disruptions": cells.field("status.disruptionsAllowed", 0),
        "Age": cells.age,
    },
    resets={"": STATUS, "status": SPEC},
    any_finalizers=True,
    repeats_metadata_findings=False,
)
