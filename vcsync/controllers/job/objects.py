"""Jobs and their Pods as the Job controller reads them. Pure."""

from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Patch, status_patch
from vcsync.kube.resources import JOBS, PODS
from vcsync.objects.conditions import Condition, find_condition, is_true
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.objects.selectors import LabelSelector

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
CONTROLLER = "kubernetes.io/job-controller"
NO_INDEX = -1
_MAX_INT32 = 2**31 - 1


class ExitCodes(Struct, rename="camel"):
    """The exit codes that a rule of a failure policy matches."""

    operator: str = "In"
    values: tuple[int, ...] | None = None
    container_name: str | None = None


class PodConditionPattern(Struct, rename="camel"):
    """The condition that a rule of a failure policy matches."""

    type: str = ""
    status: str = "True"


class FailureRule(Struct, rename="camel"):
    """One rule of a failure policy."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] | None = None


class FailurePolicy(Struct, rename="camel"):
    """The failure policy of a Pod."""

    rules: tuple[FailureRule, ...] = ()


class SuccessRule(Struct, rename="camel"):
    """One rule of a success policy."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Struct, rename="camel"):
    """The indexes whose success is sufficient."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(Struct, rename="camel"):
    """The parts of a Job's spec."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    selector: LabelSelector = LabelSelector()
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str | None = None
    suspend: bool = False
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    managed_by: str | None = None


class JobCondition(Condition, rename="camel", omit_defaults=True):
    """A condition of a Job, which also has a probe time."""

    last_probe_time: str | None = None


class Uncounted(Struct, rename="camel", omit_defaults=True):
    """UIDs of finished Pods that no counter includes yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Struct, rename="camel", omit_defaults=True):
    """The status of a Job."""

    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: Uncounted | None = None
    conditions: tuple[JobCondition, ...] | None = None

    @property
    def uncounted(self) -> Uncounted:
        """Return the UIDs of Pods that no counter includes yet."""
        return self.uncounted_terminated_pods or Uncounted()


class Job(Struct, frozen=True):
    """A Job."""

    envelope: Envelope
    spec: JobSpec
    status: JobStatus
    template: dict[str, Any]

    @property
    def indexed(self) -> bool:
        """Return whether each Pod has an index."""
        return self.spec.completion_mode == "Indexed"

    @property
    def completions(self) -> int:
        """Return the number of requested completions; 0: any number."""
        return self.spec.completions or 0

    @property
    def per_index(self) -> bool:
        """Return whether failures count against their index."""
        return self.indexed and self.spec.backoff_limit_per_index is not None

    @property
    def replaces_failed_only(self) -> bool:
        """Return whether a Pod being deleted is replaced only after it has ended."""
        return self.spec.pod_replacement_policy == "Failed" or self.spec.pod_failure_policy is not None

    @property
    def ours(self) -> bool:
        """Return whether this controller manages the Job."""
        return self.spec.managed_by in (None, CONTROLLER)

    @property
    def finished(self) -> bool:
        """Return whether the Job has ended permanently."""
        return ended(self.status) is not None


class Terminated(Struct, gc=False, rename="camel"):
    """The termination of a container."""

    exit_code: int = 0
    finished_at: str | None = None


class ContainerState(Struct, frozen=True, gc=False, rename="camel"):
    """The state of a container."""

    terminated: Terminated | None = None


class ContainerStatus(Struct, gc=False, rename="camel"):
    """The status of a container."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Struct, gc=False, rename="camel"):
    """The parts of a Pod's status."""

    phase: str = "Pending"
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class JobPod(Struct, frozen=True):
    """A Pod of a Job. `index`: `NO_INDEX` if it has no valid one."""

    envelope: Envelope
    status: PodStatus
    index: int
    tracked: bool
    failed: bool

    @property
    def uid(self) -> str:
        """The Pod's UID."""
        return self.envelope.uid

    @property
    def finished(self) -> bool:
        """Whether it ended."""
        return self.status.phase in pods.FINISHED

    @property
    def succeeded(self) -> bool:
        """Return whether it has succeeded."""
        return self.status.phase == "Succeeded"

    @property
    def active(self) -> bool:
        """Return whether it is active: running, or about to run."""
        return not self.finished and not self.envelope.deleting

    @property
    def terminating(self) -> bool:
        """Return whether it is being deleted and has not ended yet."""
        return not self.finished and self.envelope.deleting

    @property
    def ready(self) -> bool:
        """Return whether it is ready."""
        return is_true(self.status.conditions, "Ready")

    @property
    def failures(self) -> int:
        """Return the number of counted failures of its index before it."""
        return _count(self.envelope, FAILURE_COUNT)

    @property
    def ignored_failures(self) -> int:
        """Return the number of ignored failures of its index before it."""
        return _count(self.envelope, IGNORED_FAILURE_COUNT)


def read_job(envelope: Envelope) -> Job:
    """Read a Job."""
    spec = decode(envelope.spec, JobSpec)
    status = decode(envelope.status, JobStatus)
    return Job(envelope, spec, status, untyped(envelope.spec).get("template") or {})


def read_pod(job: Job, envelope: Envelope, tracked: bool | None = None) -> JobPod:
    """Decode a Pod of a Job; a newly adopted one is tracked from now on."""
    status = decode(envelope.status, PodStatus)
    failed = status.phase == "Failed" or (
        not job.replaces_failed_only and envelope.deleting and status.phase != "Succeeded"
    )
    index = _index(envelope)
    if job.indexed and index >= job.completions:
        index = NO_INDEX
    known = FINALIZER in envelope.finalizers if tracked is None else tracked
    return JobPod(envelope, status, index, known, failed)


def condition(status: JobStatus, type_: str) -> JobCondition | None:
    """Return the condition of a type if it is true."""
    found = find_condition(status.conditions, type_)
    return found if found is not None and found.status == "True" else None


def ended(status: JobStatus) -> JobCondition | None:
    """Return the condition of its end; None: it has not ended."""
    return condition(status, "Complete") or condition(status, "Failed")


def written(job: Job, status: JobStatus) -> list[Patch]:
    """Return the patch that writes a status; it fails if the Job was written meanwhile."""
    before: dict[str, Any] = untyped(job.envelope.status)
    known = {name: before.get(name) for name in _FIELDS if before.get(name) is not None}
    patch = create_merge_patch(known, msgspec.json.decode(msgspec.json.encode(status)))
    if patch is None:
        return []
    return [status_patch(JOBS, job.envelope, patch, unchanged=True)]


def untracked(pod: Envelope) -> Patch:
    """Return the patch that removes the finalizer from a Pod that is counted, or never will be."""
    patch = {"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    return Patch(PODS, namespace_of(pod), pod.name, patch, "strategic")


_FIELDS = tuple(each.encode_name for each in msgspec.structs.fields(JobStatus))


def _index(pod: Envelope) -> int:
    text = pod.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() and len(text) < 11 else NO_INDEX


def _count(pod: Envelope, annotation: str) -> int:
    text = pod.annotations.get(annotation, "")
    number = int(text) if text.isdecimal() and len(text) < 11 else 0
    return number if number <= _MAX_INT32 else 0
