"""A Job's policies for ended Pods, and the back-off before failed ones are replaced. Pure.

Behaviour: `pod_failure_policy.go`, `success_policy.go` and `backoff_utils.go` of Kubernetes' `pkg/controller/job`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import chain

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.job import indexes as job_indexes
from vcsync.controllers.job.indexes import Intervals
from vcsync.controllers.job.objects import ContainerStatus, ExitCodes, FailureRule, Job, JobPod
from vcsync.objects.conditions import find_condition

FIRST_BACKOFF = 10.0
"""Seconds before a failed Pod is replaced; doubled after each further failure."""
LONGEST_BACKOFF = 600.0
_LONGEST_GRACE = 10**9


def verdict(job: Job, pod: JobPod) -> tuple[str, str]:
    """Return the policy's action for a failure (`Count` without a rule), and the message if the Job fails."""
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate(policy.rules if policy else ()):
        match = _matched(rule, pod)
        if match:
            return rule.action, f"{match} matching {rule.action} rule at index {index}"
    return "Count", ""


def counts(job: Job, pod: JobPod) -> bool:
    """Return whether a failure counts against the limits."""
    return verdict(job, pod)[0] != "Ignore"


def job_failure(job: Job, of: Iterable[JobPod]) -> str:
    """Return the message of the policy that fails the Job immediately; empty: no policy does."""
    if job.spec.pod_failure_policy is None:
        return ""
    for pod in of:
        if pod.failed:
            action, message = verdict(job, pod)
            if action == "FailJob":
                return message
    return ""


def success(job: Job, succeeded: Intervals) -> str:
    """Return the message of the success policy's rule that is met; empty: none."""
    policy = job.spec.success_policy
    for index, rule in enumerate(policy.rules if policy and succeeded else ()):
        message = f"Matched rules at index {index}"
        if rule.succeeded_indexes is not None:
            required = job_indexes.parse(rule.succeeded_indexes, job.completions)
            there = job_indexes.common(required, succeeded)
            enough = rule.succeeded_count is not None and there >= rule.succeeded_count
            if required and (enough or there == job_indexes.total(required)):
                return message
        elif rule.succeeded_count is not None and job_indexes.total(succeeded) >= rule.succeeded_count:
            return message
    return ""


def finished_at(pod: JobPod) -> datetime:
    """Return the time when a Pod ended, as exactly as its status says."""
    statuses = pod.status.container_statuses or ()
    ends = [each.state.terminated.finished_at for each in statuses if each.state.terminated]
    if statuses and len(ends) == len(statuses) and all(ends):
        return max(pods.moment(each) for each in ends)
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return pods.moment(ready.last_transition_time)
    place = pod.envelope
    if place.deleting:
        grace = min(place.deletion_grace_seconds or 0, _LONGEST_GRACE)
        return pods.moment(place.deletion_timestamp) - timedelta(seconds=grace)
    return pods.moment(place.creation_timestamp)


def wait(of: Iterable[JobPod], now: datetime) -> float:
    """Return the seconds until Pods may be created again after the failures since the last success.

    Computed from the existing Pods, so that a restart loses no failure. A Pod that is being deleted and no longer
    tracked may have been deleted by this controller, and does not count.
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
    """Return the seconds until the Pod of an index may be created again."""
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
    """Return the exit code of a container that the rule matches; 0: none."""
    ended = container.state.terminated
    if ended is None or wanted.container_name not in (None, container.name):
        return 0
    listed = ended.exit_code in (wanted.values or ())
    return ended.exit_code if listed == (wanted.operator == "In") else 0
