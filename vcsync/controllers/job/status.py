"""The progress of a Job: results of its Pods, whether they end it, and its status. Pure.

A finished Pod keeps its finalizer until its UID is in `uncountedTerminatedPods` (or its index in
`completedIndexes`); a UID moves into a counter once the finalizer is gone. So at every point of a crash each Pod is
counted once. Behaviour: `trackJobStatusAndRemoveFinalizers` of Kubernetes' `pkg/controller/job`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from vcsync.controllers.framework import pods
from vcsync.controllers.job import indexes as job_indexes
from vcsync.controllers.job import policies as job_policies
from vcsync.controllers.job.indexes import Intervals
from vcsync.controllers.job.objects import (
    NO_INDEX,
    Job,
    JobCondition,
    JobPod,
    JobStatus,
    Uncounted,
    condition,
)
from vcsync.objects.conditions import find_condition, is_true
from vcsync.objects.times import time_text

MOST_UNCOUNTED = 500
"""Finished Pods recorded at a time, so that the status stays below some 20 KB."""


class Tally(Struct, frozen=True):
    """The results of a Job's Pods, counted or not.

    Attributes:
        succeeded: Pods, or indexes of an indexed Job.
        failed: Pods whose failure counts.
        succeeded_indexes: succeeded indexes of an indexed Job.
        failed_indexes: failed indexes of a Job with a limit per index.
        kept: by index, the failed Pod that stays tracked until its replacement exists, which inherits its number of
            failures.
        verdict: the condition that ends the Job, `FailureTarget` or `SuccessCriteriaMet`; None: it continues.
    """

    pods: Sequence[JobPod]
    succeeded: int
    failed: int
    succeeded_indexes: Intervals
    failed_indexes: Intervals
    kept: dict[int, JobPod]
    verdict: JobCondition | None = None

    @property
    def active(self) -> list[JobPod]:
        """Return the Pods that are active."""
        return [each for each in self.pods if each.active]


def tally(job: Job, mine: Sequence[JobPod], now: datetime) -> Tally:
    """Count a Job's Pods and apply its limits and policies."""
    status = job.status
    seen = {*status.uncounted.succeeded, *status.uncounted.failed}
    fresh = [
        each
        for each in mine
        if each.tracked and each.uid not in seen and (not job.indexed or each.index != NO_INDEX)
    ]
    failures = [each for each in fresh if each.failed and job_policies.counts(job, each)]
    failed = status.failed + len(status.uncounted.failed) + len(failures)
    done: Intervals = ()
    lost: Intervals = ()
    succeeded = status.succeeded + len(status.uncounted.succeeded) + sum(each.succeeded for each in fresh)
    if job.indexed:
        before = job_indexes.parse(status.completed_indexes, job.completions)
        done = job_indexes.with_indexes(before, [each.index for each in fresh if each.succeeded])
        succeeded = job_indexes.total(done)
    if job.per_index:
        before = job_indexes.parse(status.failed_indexes or "", job.completions)
        lost = job_indexes.with_indexes(
            before, [each.index for each in mine if each.tracked and _index_failed(job, each)]
        )
    kept = _kept(mine, done, lost) if job.per_index else {}
    found = Tally(mine, succeeded, failed, done, lost, kept)
    return replace(found, verdict=_verdict(job, found, now))


def advanced(job: Job, found: Tally, now: datetime) -> tuple[JobStatus, list[JobPod]]:
    """Return the status that records finished Pods, and the Pods whose finalizers are removed after it is written."""
    status = counted(job, found.pods)
    before = job_indexes.parse(status.completed_indexes, job.completions)
    taken, indexes, free = _taken_up(job, found, status, before)
    status = replace(status, uncounted_terminated_pods=taken)
    if job.indexed:
        done = job_indexes.with_indexes(before, indexes)
        status = replace(
            status, completed_indexes=job_indexes.to_text(done), succeeded=job_indexes.total(done)
        )
    if job.per_index:
        status = replace(status, failed_indexes=job_indexes.to_text(found.failed_indexes))
    if status.start_time is None and not job.spec.suspend:
        status = replace(status, start_time=time_text(now))
    if found.verdict is not None:
        status = _with_condition(status, found.verdict)
    return status, free


def _taken_up(
    job: Job, found: Tally, status: JobStatus, before: Intervals
) -> tuple[Uncounted, list[int], list[JobPod]]:
    """Return the UIDs that no counter includes yet, new indexes, and Pods whose finalizers may be removed."""
    succeeded, failed = list(status.uncounted.succeeded), list(status.uncounted.failed)
    known = {*succeeded, *failed}
    indexes: list[int] = []
    free: list[JobPod] = []
    for pod in sorted(found.pods, key=lambda each: each.index):
        if not pod.tracked or not _may_go(job, found, pod):
            continue
        free.append(pod)
        if pod.uid in known or (job.indexed and pod.index == NO_INDEX):
            continue
        if pod.succeeded and not job.indexed:
            succeeded.append(pod.uid)
        elif pod.succeeded and not job_indexes.has(before, pod.index):
            indexes.append(pod.index)
        elif _fails(job, found, pod):
            failed.append(pod.uid)
        if len(indexes) + len(succeeded) + len(failed) >= MOST_UNCOUNTED:
            break
    return Uncounted(tuple(succeeded), tuple(failed)), indexes, free


def counted(job: Job, mine: Iterable[JobPod]) -> JobStatus:
    """Return the status that counts Pods without finalizer, and the current state."""
    mine = list(mine)
    status, tracked = job.status, {each.uid for each in mine if each.tracked}
    left = Uncounted(
        tuple(each for each in status.uncounted.succeeded if each in tracked),
        tuple(each for each in status.uncounted.failed if each in tracked),
    )
    active = [each for each in mine if each.active]
    return replace(
        status,
        succeeded=status.succeeded + len(status.uncounted.succeeded) - len(left.succeeded),
        failed=status.failed + len(status.uncounted.failed) - len(left.failed),
        uncounted_terminated_pods=left,
        active=len(active),
        ready=sum(each.ready for each in active),
        terminating=sum(each.terminating for each in mine),
    )


def closed(status: JobStatus, mine: Iterable[JobPod], now: datetime) -> JobStatus:
    """Return the status with its final condition, once no Pod remains to end or to be counted."""
    met, target = condition(status, "SuccessCriteriaMet"), condition(status, "FailureTarget")
    verdict = met or target
    busy = status.active or status.terminating or any(each.tracked for each in mine)
    if verdict is None or busy or status.uncounted != Uncounted():
        return status
    last = new_condition("Complete" if met else "Failed", verdict.reason, verdict.message, now)
    return replace(
        _with_condition(status, last),
        start_time=status.start_time or time_text(now),
        completion_time=time_text(now) if met else status.completion_time,
    )


def suspension(status: JobStatus, suspend: bool, now: datetime) -> tuple[JobStatus, str]:
    """Return the status with the condition Suspended, and the Event's reason if it has changed."""
    if suspend == is_true(status.conditions, "Suspended"):
        return status, ""
    if suspend:
        said = new_condition("Suspended", "JobSuspended", "Job suspended", now)
        return replace(_with_condition(status, said), start_time=None), "Suspended"
    said = replace(new_condition("Suspended", "JobResumed", "Job resumed", now), status="False")
    return replace(_with_condition(status, said), start_time=time_text(now)), "Resumed"


def new_condition(type_: str, reason: str, message: str, now: datetime) -> JobCondition:
    """Return a condition that is true since now."""
    time = time_text(now)
    return JobCondition(type_, "True", reason, message, time, last_probe_time=time)


def deadline_in(job: Job, now: datetime) -> float | None:
    """Return the seconds until a Job exceeds its active deadline; None: it has none."""
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or job.spec.suspend:
        return None
    return limit - ((now - pods.moment(start)).total_seconds() if start else 0.0)


# ---- Limits and policies -----------------------------------------------------------------


def _verdict(job: Job, found: Tally, now: datetime) -> JobCondition | None:
    status, spec = job.status, job.spec
    standing = condition(status, "SuccessCriteriaMet") or condition(status, "FailureTarget")
    if standing is not None:
        return standing
    for reason, message in _failures(job, found, now):
        if message:
            return new_condition("FailureTarget", reason, message, now)
    rule = job_policies.success(job, found.succeeded_indexes) if job.indexed else ""
    if rule:
        return new_condition("SuccessCriteriaMet", "SuccessPolicy", rule, now)
    enough = found.succeeded > 0 if spec.completions is None else found.succeeded >= spec.completions
    if enough and not found.active:
        message = "Reached expected number of succeeded pods"
        return new_condition("SuccessCriteriaMet", "CompletionsReached", message, now)
    return None


def _failures(job: Job, found: Tally, now: datetime) -> Iterable[tuple[str, str]]:
    """Iterate over the reasons that may fail a Job, in order; those without a message do not apply."""
    spec = job.spec
    yield "PodFailurePolicy", job_policies.job_failure(job, found.pods)
    if found.failed > spec.backoff_limit or _restarted_too_often(job, found.pods):
        yield "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left = deadline_in(job, now)
    if left is not None and left <= 0:
        yield "DeadlineExceeded", "Job was active longer than specified deadline"
    if not job.per_index:
        return
    lost = job_indexes.total(found.failed_indexes)
    if spec.max_failed_indexes is not None and lost > spec.max_failed_indexes:
        yield "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if lost and lost + found.succeeded >= job.completions:
        yield "FailedIndexes", "Job has failed indexes"


def _restarted_too_often(job: Job, mine: Iterable[JobPod]) -> bool:
    if (job.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        container.restart_count
        for pod in mine
        if pod.status.phase in ("Running", "Pending")
        for container in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    )
    return restarts > 0 if not job.spec.backoff_limit else restarts >= job.spec.backoff_limit


def _index_failed(job: Job, pod: JobPod) -> bool:
    if not pod.failed or pod.index == NO_INDEX:
        return False
    action, _ = job_policies.verdict(job, pod)
    limit = job.spec.backoff_limit_per_index or 0
    return action == "FailIndex" or (action != "Ignore" and pod.failures >= limit)


def _kept(mine: Iterable[JobPod], done: Intervals, lost: Intervals) -> dict[int, JobPod]:
    mine = list(mine)
    active = {each.index for each in mine if each.active}
    kept: dict[int, JobPod] = {}
    for pod in mine:
        if not pod.tracked or not pod.failed or pod.index == NO_INDEX or pod.index in active:
            continue
        if job_indexes.has(done, pod.index) or job_indexes.has(lost, pod.index):
            continue
        other = kept.get(pod.index)
        if other is None or _rank(pod) >= _rank(other):
            kept[pod.index] = pod
    return kept


def _rank(pod: JobPod) -> tuple[int, datetime]:
    return pod.failures + pod.ignored_failures, job_policies.finished_at(pod)


def _fails(job: Job, found: Tally, pod: JobPod) -> bool:
    """Return whether a Pod counts as failed: by itself, or because the Job fails before it has ended."""
    with_job = found.verdict is not None and found.verdict.type == "FailureTarget"
    return not pod.succeeded and (pod.failed or with_job) and job_policies.counts(job, pod)


def _may_go(job: Job, found: Tally, pod: JobPod) -> bool:
    """Return whether a Pod no longer needs its finalizer after it is recorded."""
    if job.envelope.deleting or found.verdict is not None or pod.succeeded:
        return True
    kept = found.kept.get(pod.index)
    return pod.failed and (kept is None or kept.uid != pod.uid)


def _with_condition(status: JobStatus, new: JobCondition) -> JobStatus:
    known = status.conditions or ()
    if find_condition(known, new.type) is not None:
        changed = tuple(
            new if each.type == new.type and each.status != new.status else each for each in known
        )
        return replace(status, conditions=changed)
    return replace(status, conditions=(*known, new))
