"""Writes to a Job's status. Pure.

Source: `ValidateJobStatusUpdate` in Kubernetes' `pkg/apis/batch/validation`, `getStatusValidationOptions` in
`pkg/registry/batch/job`: a rule applies only where what it speaks of changes.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds.job_policies import index_count, intervals, without_value
from vcsync.controlplane.kinds.jobs import condition
from vcsync.controlplane.kinds.rules import Findings, Object, indexed, items, nonnegative, number, part


def validate(new: Object, old: Object) -> list[FieldError]:
    """Findings on a new status."""
    status, before, spec = part(new, "status"), part(old, "status"), part(new, "spec")
    return [
        *nonnegative(status, "status", "active", "succeeded", "failed", "ready", "terminating"),
        *_uncounted(status),
        *_conditions(status, before),
        *_times(status, before, spec),
        *_finished(status, before, spec),
        *_indexes(status, before, spec),
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
    path = "status.conditions"
    complete, failed = condition(status, "Complete"), condition(status, "Failed")
    target = condition(status, "FailureTarget")
    if complete and failed and _turned(status, before, "Complete", "Failed"):
        yield without_value(path, "cannot set Complete=True and Failed=true conditions")
    if complete and target and _turned(status, before, "Complete", "FailureTarget"):
        yield without_value(path, "cannot set Complete=True and FailureTarget=true conditions")
    moved = _turned(status, before, "Failed") or _changed(status, before, "failedIndexes")
    if failed and not target and moved:
        yield without_value(path, "cannot set Failed=True condition without the FailureTarget=true condition")
    met = condition(status, "SuccessCriteriaMet")
    if complete and not met and _turned(status, before, "Complete", "SuccessCriteriaMet"):
        yield without_value(
            path, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        )


def _times(status: Object, before: Object, spec: Object) -> Findings:
    start, end = status.get("startTime"), status.get("completionTime")
    complete = condition(status, "Complete")
    if _turned(status, before, "Complete") or _changed(status, before, "completionTime"):
        if end is not None and not complete:
            told = "cannot set completionTime when there is no Complete=True condition"
            yield errors.wrong("status.completionTime", end, told)
        if end is None and complete:
            yield errors.required("status.completionTime", "completionTime is required for Complete jobs")
    if _changed(status, before, "startTime", "completionTime") and start and end and end < start:
        yield errors.wrong("status.completionTime", end, "must be equal to or after `startTime`")
    moved = _over(status) != _over(before) or _changed(status, before, "startTime")
    nothing_to_do = spec.get("suspend") is True and spec.get("completions") == 0
    if moved and not nothing_to_do and start is None and _over(status):
        yield errors.required("status.startTime", "startTime is required for finished job")


def _finished(status: Object, before: Object, _spec: Object) -> Findings:
    moved = _over(status) != _over(before)
    if _over(status):
        if number(status, "active") > 0 and (moved or _changed(status, before, "active")):
            yield errors.wrong(
                "status.active", number(status, "active"), "active>0 is invalid for finished job"
            )
        uncounted = part(status, "uncountedTerminatedPods")
        left = items(uncounted, "failed") or items(uncounted, "succeeded")
        if left and (moved or _changed(status, before, "uncountedTerminatedPods")):
            shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
            yield errors.wrong("status.uncountedTerminatedPods", shown, "must be empty for finished job")
        if number(status, "terminating") > 0 and (moved or _changed(status, before, "terminating")):
            yield errors.wrong(
                "status.terminating",
                number(status, "terminating"),
                "terminating>0 is invalid for finished job",
            )
    ready = status.get("ready")
    if ready is not None and ready > number(status, "active") and _changed(status, before, "ready", "active"):
        yield errors.wrong("status.ready", ready, "cannot set more ready pods than active")


def _indexes(status: Object, before: Object, spec: Object) -> Findings:
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    completions = spec.get("completions")
    if _changed(status, before, "completedIndexes"):
        if completions is not None:
            yield from _well_formed("completedIndexes", completed, completions)
        if completed and spec.get("completionMode") != "Indexed":
            told = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield errors.wrong("status.completedIndexes", completed, told)
    if _changed(status, before, "failedIndexes") and failed is not None:
        if "backoffLimitPerIndex" not in spec:
            told = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield errors.wrong("status.failedIndexes", failed, told)
        elif completions is not None:
            yield from _well_formed("failedIndexes", failed, completions)
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
        told = f"failedIndexes and completedIndexes overlap at index: {both}"
        yield errors.wrong("status.failedIndexes", failed, told)


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
        told = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield without_value(path, told)


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
