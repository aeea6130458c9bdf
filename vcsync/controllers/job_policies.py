"""What a Job's policies say about Pods that ended, and when failed ones may be replaced. Pure.

Behaviour: `pod_failure_policy.go`, `success_policy.go` and `backoff_utils.go` of Kubernetes' `pkg/controller/job`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import chain

from vcsync.controllers import job_indexes, pods
from vcsync.controllers.job_indexes import Intervals
from vcsync.controllers.job_objects import ContainerStatus, ExitCodes, FailureRule, Job, JobPod
from vcsync.controllers.mirror import namespace_of

FIRST_BACKOFF = 10.0
"""Seconds before a failed Pod is replaced; twice as many after each further failure."""
LONGEST_BACKOFF = 600.0
_LONGEST_GRACE = 10**9


def verdict(job: Job, pod: JobPod) -> tuple[str, str]:
    """Return what a failure means by the policy (`Count` without a rule), and in words why the whole Job fails by it."""
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate(policy.rules if policy else ()):
        told = _matched(rule, pod)
        if told:
            return rule.action, f"{told} matching {rule.action} rule at index {index}"
    return "Count", ""


def counts(job: Job, pod: JobPod) -> bool:
    """Whether a failure counts against the limits."""
    return verdict(job, pod)[0] != "Ignore"


def job_failure(job: Job, of: Iterable[JobPod]) -> str:
    """Return in words why the Job fails by its policy at once; empty: it does not."""
    if job.spec.pod_failure_policy is None:
        return ""
    for pod in of:
        if pod.failed:
            action, told = verdict(job, pod)
            if action == "FailJob":
                return told
    return ""


def success(job: Job, succeeded: Intervals) -> str:
    """Return in words which rule of the success policy is met; empty: none."""
    policy = job.spec.success_policy
    for index, rule in enumerate(policy.rules if policy and succeeded else ()):
        told = f"Matched rules at index {index}"
        if rule.succeeded_indexes is not None:
            required = job_indexes.parse(rule.succeeded_indexes, job.completions)
            there = job_indexes.common(required, succeeded)
            enough = rule.succeeded_count is not None and there >= rule.succeeded_count
            if required and (enough or there == job_indexes.total(required)):
                return told
        elif rule.succeeded_count is not None and job_indexes.total(succeeded) >= rule.succeeded_count:
            return told
    return ""


def finished_at(pod: JobPod) -> datetime:
    """Return when a Pod ended, as well as it is known."""
    statuses = pod.status.container_statuses or ()
    ends = [each.state.terminated.finished_at for each in statuses if each.state.terminated]
    if statuses and len(ends) == len(statuses) and all(ends):
        return max(pods.moment(each) for each in ends)
    ready = pods.condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return pods.moment(ready.last_transition_time)
    place = pod.envelope
    if place.deleting:
        grace = min(place.deletion_grace_seconds or 0, _LONGEST_GRACE)
        return pods.moment(place.deletion_timestamp) - timedelta(seconds=grace)
    return pods.moment(place.creation_timestamp)


def wait(of: Iterable[JobPod], now: datetime) -> float:
    """Seconds until Pods may be made again after the failures since the last success.

    Read from the Pods that stand, so that a restart forgets no failure. One that is going away and tracked no more may
    have been given up by us, and does not count.
    """
    ended = [
        (finished_at(each), each.succeeded)
        for each in of
        if (each.succeeded or each.failed) and (each.tracked or not each.envelope.deleting)
    ]
    last_success = max((when for when, well in ended if well), default=None)
    failures = [when for when, well in ended if not well and (last_success is None or when > last_success)]
    return _remaining(len(failures), max(failures, default=now), now)


def index_wait(replaced: JobPod | None, now: datetime) -> float:
    """Seconds until the Pod of an index may be made again."""
    if replaced is None:
        return 0.0
    failures = replaced.failures + replaced.ignored_failures + 1
    return _remaining(failures, finished_at(replaced), now)


def _remaining(failures: int, last: datetime, now: datetime) -> float:
    if not failures:
        return 0.0
    backoff = min(FIRST_BACKOFF * (1 << min(failures - 1, 16)), LONGEST_BACKOFF)
    return max(0.0, backoff - (now - last).total_seconds())


def _matched(rule: FailureRule, pod: JobPod) -> str:
    name = f"{namespace_of(pod.envelope)}/{pod.envelope.name}"
    if rule.on_exit_codes is not None:
        for each in chain(pod.status.container_statuses or (), pod.status.init_container_statuses or ()):
            code = _matching_code(rule.on_exit_codes, each)
            if code:
                return f"Container {each.name} for pod {name} failed with exit code {code}"
        return ""
    wanted = {(each.type, each.status) for each in rule.on_pod_conditions or ()}
    for condition in pod.status.conditions or ():
        if (condition.type, condition.status) in wanted:
            return f"Pod {name} has condition {condition.type}"
    return ""


def _matching_code(wanted: ExitCodes, container: ContainerStatus) -> int:
    """Return the exit code of a container that the rule means; 0: it does not."""
    ended = container.state.terminated
    if ended is None or wanted.container_name not in (None, container.name):
        return 0
    listed = ended.exit_code in (wanted.values or ())
    return ended.exit_code if listed == (wanted.operator == "In") else 0
