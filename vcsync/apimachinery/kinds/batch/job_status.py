"""Validation of updates of a Job's status. Pure.

Source: `ValidateJobStatusUpdate` in Kubernetes' `pkg/apis/batch/validation`, `getStatusValidationOptions` in
`pkg/registry/batch/job`. A rule applies only if the update changes the fields that it checks.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.batch.job_conditions import condition
from vcsync.apimachinery.kinds.batch.job_policies import index_count, intervals, without_value
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items, nonnegative, number, part


def validate(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on a new status, in upstream's order."""
    status, before, spec = part(new, "status"), part(old, "status"), part(new, "spec")
    return [
        *nonnegative(status, "status", "active", "succeeded", "failed", "ready", "terminating"),
        *_uncounted(status),
        *_conditions(status, before),
        *_completion(status, before),
        *_announced(status, before),
        *_finished(status, before, spec),
        *_indexes(status, before, spec),
        *_pods(status, before),
        *_criteria(status, spec),
        *_progress(status, before, spec),
    ]


def _changed(status: Object, before: Object, *keys: str) -> bool:
    return any(status.get(key) != before.get(key) for key in keys)


def _turned(status: Object, before: Object, *kinds: str) -> bool:
    return any(condition(status, kind) != condition(before, kind) for kind in kinds)


def _over(status: Object) -> bool:
    return condition(status, "Complete") or condition(status, "Failed")


def _uncounted(status: Object) -> Findings:
    seen: set[str] = set()
    path = "status.uncountedTerminatedPods"
    for key in ("succeeded", "failed"):
        for uid, here in indexed(part(status, "uncountedTerminatedPods"), key, f"{path}.{key}"):
            if not uid:
                yield errors.wrong(here, uid, "must not be empty")
            elif uid in seen:
                yield errors.duplicate(here, uid)
            seen.add(uid)


def _conditions(status: Object, before: Object) -> Findings:
    """Check that no conditions are true that exclude one another."""
    path = "status.conditions"
    complete, target = condition(status, "Complete"), condition(status, "FailureTarget")
    if complete and condition(status, "Failed") and _turned(status, before, "Complete", "Failed"):
        yield without_value(path, "cannot set Complete=True and Failed=true conditions")
    if complete and target and _turned(status, before, "Complete", "FailureTarget"):
        yield without_value(path, "cannot set Complete=True and FailureTarget=true conditions")


def _completion(status: Object, before: Object) -> Findings:
    start, end = status.get("startTime"), status.get("completionTime")
    complete = condition(status, "Complete")
    if _turned(status, before, "Complete") or _changed(status, before, "completionTime"):
        if end is not None and not complete:
            message = "cannot set completionTime when there is no Complete=True condition"
            yield errors.wrong("status.completionTime", end, message)
        if end is None and complete:
            yield errors.required("status.completionTime", "completionTime is required for Complete jobs")
    if _changed(status, before, "startTime", "completionTime") and start and end and end < start:
        yield errors.wrong("status.completionTime", end, "must be equal to or after `startTime`")


def _announced(status: Object, before: Object) -> Findings:
    """Check that conditions are true only after the ones that announce them."""
    path = "status.conditions"
    moved = _turned(status, before, "Failed") or _changed(status, before, "failedIndexes")
    if condition(status, "Failed") and not condition(status, "FailureTarget") and moved:
        yield without_value(path, "cannot set Failed=True condition without the FailureTarget=true condition")
    met = condition(status, "SuccessCriteriaMet")
    if (
        condition(status, "Complete")
        and not met
        and _turned(status, before, "Complete", "SuccessCriteriaMet")
    ):
        yield without_value(
            path, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        )


def _finished(status: Object, before: Object, spec: Object) -> Findings:
    if not _over(status):
        return
    moved = not _over(before)
    if number(status, "active") > 0 and (moved or _changed(status, before, "active")):
        yield errors.wrong("status.active", number(status, "active"), "active>0 is invalid for finished job")
    nothing_to_do = spec.get("suspend") is True and spec.get("completions") == 0
    if (
        (moved or _changed(status, before, "startTime"))
        and not nothing_to_do
        and status.get("startTime") is None
    ):
        yield errors.required("status.startTime", "startTime is required for finished job")
    uncounted = part(status, "uncountedTerminatedPods")
    left = items(uncounted, "failed") or items(uncounted, "succeeded")
    if left and (moved or _changed(status, before, "uncountedTerminatedPods")):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        yield errors.wrong("status.uncountedTerminatedPods", shown, "must be empty for finished job")


def _pods(status: Object, before: Object) -> Findings:
    moved = _over(status) != _over(before) or _changed(status, before, "terminating")
    if number(status, "terminating") > 0 and _over(status) and moved:
        message = "terminating>0 is invalid for finished job"
        yield errors.wrong("status.terminating", number(status, "terminating"), message)
    ready = status.get("ready")
    if ready is not None and ready > number(status, "active") and _changed(status, before, "ready", "active"):
        yield errors.wrong("status.ready", ready, "cannot set more ready pods than active")


def _indexes(status: Object, before: Object, spec: Object) -> Findings:
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    completions = spec.get("completions")
    more_completed = _changed(status, before, "completedIndexes")
    more_failed = _changed(status, before, "failedIndexes")
    if more_completed and completions is not None:
        yield from _well_formed("completedIndexes", completed, completions)
    if more_failed and failed is not None and completions is not None and "backoffLimitPerIndex" in spec:
        yield from _well_formed("failedIndexes", failed, completions)
    if more_completed and completed and spec.get("completionMode") != "Indexed":
        message = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield errors.wrong("status.completedIndexes", completed, message)
    if more_failed and failed is not None and "backoffLimitPerIndex" not in spec:
        message = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield errors.wrong("status.failedIndexes", failed, message)
    if _changed(status, before, "failedIndexes", "completedIndexes") and completions is not None and failed:
        yield from _overlap(completed, failed, completions)


def _well_formed(key: str, listed: str, completions: int) -> Findings:
    try:
        index_count(listed, completions)
    except ValueError as wrong:
        yield errors.wrong(f"status.{key}", listed, f"error parsing {key}: {wrong}")


def _overlap(completed: str, failed: str, completions: int) -> Findings:
    try:
        both = _first_shared(intervals(completed, completions), intervals(failed, completions))
    except ValueError:
        return
    if both is not None:
        message = f"failedIndexes and completedIndexes overlap at index: {both}"
        yield errors.wrong("status.failedIndexes", failed, message)


def _first_shared(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> int | None:
    one = other = 0
    while one < len(ones) and other < len(others):
        low, high = max(ones[one][0], others[other][0]), min(ones[one][1], others[other][1])
        if low <= high:
            return low
        if ones[one][1] < others[other][1]:
            one += 1
        else:
            other += 1
    return None


def _criteria(status: Object, spec: Object) -> Findings:
    path, met = "status.conditions", condition(status, "SuccessCriteriaMet")
    for kind in ("Failed", "FailureTarget"):
        if met and condition(status, kind):
            yield without_value(path, f"cannot set SuccessCriteriaMet=True and {kind}=true conditions")
    if "successPolicy" in spec and not met and condition(status, "Complete"):
        message = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield without_value(path, message)


def _progress(status: Object, before: Object, spec: Object) -> Findings:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if condition(before, kind) and not condition(status, kind):
            yield without_value("status.conditions", f"cannot disable the terminal {kind}=True condition")
    if number(status, "failed") < number(before, "failed"):
        yield errors.wrong("status.failed", number(status, "failed"), "cannot decrease the failed counter")
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic and number(status, "succeeded") < number(before, "succeeded"):
        yield errors.wrong(
            "status.succeeded", number(status, "succeeded"), "cannot decrease the succeeded counter"
        )
    if "completionTime" in before and status.get("completionTime") not in (None, before["completionTime"]):
        yield errors.wrong("status.completionTime", status["completionTime"], "field is immutable")
    resumes = condition(before, "Suspended") and not condition(status, "Suspended")
    if (
        "startTime" in before
        and _changed(status, before, "startTime")
        and not resumes
        and not spec.get("suspend")
    ):
        yield errors.wrong(
            "status.startTime", status.get("startTime"), "field is immutable for unsuspended job once set"
        )
    if condition(before, "SuccessCriteriaMet") and not condition(status, "SuccessCriteriaMet"):
        yield without_value("status.conditions", "cannot disable the SuccessCriteriaMet=True condition")
    late = condition(before, "Complete") and not condition(before, "SuccessCriteriaMet")
    if late and condition(status, "SuccessCriteriaMet"):
        message = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield without_value("status.conditions", message)
