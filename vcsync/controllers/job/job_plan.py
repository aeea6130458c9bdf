"""Jobs: Pods that run to completion a given number of times. Pure.

Behaviour: Kubernetes' `pkg/controller/job`. Each reconcile first records finished Pods in the status, then removes their
finalizers, then creates or deletes Pods, and finally writes the counters. All state is in objects, so a
restart between any two writes neither loses a Pod nor counts one twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.event_handlers import dependents, own, owner, selecting, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Delete,
    Emit,
    Outcome,
    Patch,
    Plan,
    View,
    Watch,
)
from vcsync.controllers.framework.pod_events import pod_events
from vcsync.controllers.job import pods as job_pods
from vcsync.controllers.job import status as job_tally
from vcsync.controllers.job.objects import (
    FINALIZER,
    Job,
    JobPod,
    JobStatus,
    ended,
    read_job,
    read_pod,
    untracked,
    written,
)
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import JOBS, PODS
from vcsync.objects.envelope import decode
from vcsync.objects.selectors import compile_selector

GATHER_PER_POD = 0.0001
"""Seconds per Pod for which changes of a Job's Pods are collected: a few times the cost of processing one Pod."""
LONGEST_GATHER = 1.0


def plan(view: View, key: Key) -> Plan:
    """Decide on a Job's next steps."""
    envelope = view.of[JOBS].get(*key)
    if envelope is None:
        return NOTHING
    job = read_job(envelope)
    if not job.ours or job.finished:
        return NOTHING
    mine, claims = _claimed(job, view)
    found = job_tally.tally(job, mine, view.now)
    status, free = job_tally.advanced(job, found, view.now)
    steps: list[Sequence[Action]] = [claims, written(job, status)]
    untracking = [untracked(each.envelope) for each in free]
    again = job_tally.deadline_in(job, view.now)
    if found.verdict is not None:
        again = None
        steps += [[_deletion(each) for each in found.active], untracking]
    elif envelope.deleting:
        steps.append(untracking)
    else:
        change = job_pods.change(job, found, view)
        # A Pod that is deleted here must not count as failed: its finalizer is removed first.
        let_go = [untracked(each.envelope) for each in change.surplus if each.tracked]
        steps += [untracking, let_go, [_deletion(each) for each in change.surplus], change.creations]
        again = min((each for each in (again, change.again) if each is not None), default=None)
    return Plan(steps, partial(_finish, key), again)


def _claimed(job: Job, view: View) -> tuple[list[JobPod], list[Patch]]:
    """Return a Job's Pods, and the patches that adopt (with finalizer) or release Pods."""
    envelope = job.envelope
    namespace = view.of[PODS].orphans(envelope.tenant, namespace_of(envelope))
    candidates = [*ownership.controlled(view.of[PODS], envelope), *namespace]
    selector = compile_selector(job.spec.selector)
    mine, claims = ownership.claim(JOBS, envelope, selector, PODS, candidates)
    read = [read_pod(job, each, None if ownership.controller_of(each) else True) for each in mine]
    adopted = {each.name for each in mine}
    return read, [_with_finalizer(each, each.name in adopted) for each in claims]


def _with_finalizer(claim: Patch, adopts: bool) -> Patch:
    assert isinstance(claim.patch, Mapping)  # noqa: S101 - claims are merged
    metadata = {"finalizers" if adopts else "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return replace(claim, patch={**claim.patch, "metadata": {**claim.patch["metadata"], **metadata}})


def _deletion(pod: JobPod) -> Delete:
    return Delete(PODS, namespace_of(pod.envelope), pod.envelope.name, pod.uid)


def _finish(key: Key, view: View, outcome: Outcome) -> Iterable[Action]:
    envelope = view.of[JOBS].get(*key)
    if envelope is None:
        return
    job = read_job(envelope)
    about = ObjectRef(JOBS.api_version, JOBS.kind, job.envelope.name, key.namespace, job.envelope.uid)
    yield from pod_events(about, outcome)
    mine = [read_pod(job, each) for each in ownership.controlled(view.of[PODS], envelope)]
    status = job_tally.closed(job_tally.counted(job, mine), mine, view.now)
    reason = ""
    if not _judged(status) and not envelope.deleting:
        status, reason = job_tally.suspension(status, job.spec.suspend, view.now)
    yield from written(job, status)
    if reason:
        yield Emit(about, "Normal", reason, f"Job {reason.lower()}")
    yield from _end_events(about, job, status)


def _judged(status: JobStatus) -> bool:
    ends = ("SuccessCriteriaMet", "FailureTarget")
    return any(each.type in ends and each.status == "True" for each in status.conditions or ())


def _end_events(about: ObjectRef, job: Job, status: JobStatus) -> Iterable[Emit]:
    end = ended(status)
    if end is None or job.finished:
        return
    if end.type == "Failed":
        yield Emit(about, "Warning", end.reason, end.message)
        return
    if job.spec.completions is not None and status.succeeded > job.spec.completions:
        message = "Too many succeeded pods running after completion count reached"
        yield Emit(about, "Warning", "TooManySucceededPods", message)
    yield Emit(about, "Normal", "Completed", "Job completed")


def _pods(change: Change, view: View) -> Iterable[Key]:
    """Return the Job of a Pod, past and current, or for an orphan the Jobs that may adopt it."""
    owned = list(owner(JOBS.kind, JOBS.group)(change, view))
    if owned or change.new is None or change.new.owners:
        return owned
    return [key_of(each) for each in selecting(JOBS, Change(None, change.new), view)]


def _gathered(_change: Change, view: View, key: Key) -> float:
    """Return the seconds for which Pods' changes are collected: each reconcile of a large Job reads many Pods."""
    envelope = view.of[JOBS].get(*key)
    if envelope is None:
        return 0.0
    status = decode(envelope.status, JobStatus)
    return min((status.active + status.succeeded + status.failed) * GATHER_PER_POD, LONGEST_GATHER)


# ---- Pods that no Job counts any more ----------------------------------------------------


def plan_orphan(view: View, key: Key) -> Plan:
    """Remove the finalizer from a Pod whose Job is gone or has ended."""
    pod = view.of[PODS].get(*key)
    if pod is None or FINALIZER not in pod.finalizers:
        return NOTHING
    controller = ownership.controller_of(pod)
    if controller is not None:
        if (controller.kind, controller.apiVersion) != (JOBS.kind, JOBS.api_version):
            return NOTHING
        envelope = view.of[JOBS].get(key.tenant, key.namespace, controller.name)
        if envelope is not None and envelope.uid == controller.uid:
            job = read_job(envelope)
            if not job.ours or not job.finished:
                return NOTHING
    return Plan([[untracked(pod)]])


def _tracked_pods(change: Change, _look: View) -> Iterable[Key]:
    pod = standing(change)
    return [key_of(pod)] if FINALIZER in pod.finalizers else []


def _left_behind(change: Change, view: View) -> Iterable[Key]:
    """Return the tracked Pods of a Job that is gone or has ended."""
    job = standing(change)
    if change.new is not None and not read_job(job).finished:
        return []
    return [key_of(each) for each in dependents(view, PODS, job) if FINALIZER in each.finalizers]


JOB = Controller("job-controller", (Watch(JOBS, own), Watch(PODS, _pods, _gathered)), plan)
JOB_ORPHANS = Controller(
    "job-orphan-pod-controller", (Watch(PODS, _tracked_pods), Watch(JOBS, _left_behind)), plan_orphan
)
