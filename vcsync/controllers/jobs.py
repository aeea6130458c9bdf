"""Jobs: Pods that run to their end, so many times. Pure.

Behaviour: Kubernetes' `pkg/controller/job`. In each look: finished Pods are taken up in the status, then their finalizers
go, then Pods are made or given up, and in the end the counters are written. All that is known stands in objects, so a
restart between any two writes neither loses a Pod nor counts one twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from vcsync.controllers import job_pods, job_tally, owning
from vcsync.controllers.job_objects import (
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
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.plan import (
    NOTHING,
    Action,
    Controller,
    Delete,
    Emit,
    Look,
    Outcome,
    Patch,
    Plan,
    Watch,
)
from vcsync.controllers.pod_events import pod_events
from vcsync.controllers.waking import own, owner, standing
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import JOBS, PODS
from vcsync.kube.selectors import compile_selector

GATHER_PER_POD = 0.0001
"""Seconds for which changes of a Job's Pods are gathered, for each Pod: a few times what it takes to look at one."""
LONGEST_GATHER = 1.0


def plan(look: Look, key: Key) -> Plan:
    """Decide on a Job's next steps."""
    envelope = look.of[JOBS].get(*key)
    if envelope is None:
        return NOTHING
    job = read_job(envelope)
    if not job.ours or job.finished:
        return NOTHING
    mine, claims = _claimed(job, look)
    found = job_tally.tally(job, mine, look.now)
    status, free = job_tally.advanced(job, found, look.now)
    steps: list[Sequence[Action]] = [claims, written(job, status)]
    untracking = [untracked(each.envelope) for each in free]
    again = job_tally.deadline_in(job, look.now)
    if found.verdict is not None:
        again = None
        steps += [[_deletion(each) for each in found.active], untracking]
    elif envelope.deleting:
        steps.append(untracking)
    else:
        change = job_pods.change(job, found, look)
        # What is given up shall not count as failed: its finalizer goes first.
        let_go = [untracked(each.envelope) for each in change.surplus if each.tracked]
        steps += [untracking, let_go, [_deletion(each) for each in change.surplus], change.creations]
        again = min((each for each in (again, change.again) if each is not None), default=None)
    return Plan(steps, partial(_finish, key), again)


def _claimed(job: Job, look: Look) -> tuple[list[JobPod], list[Patch]]:
    """A Job's Pods, and the patches that adopt or release, finalizer included."""
    envelope = job.envelope
    namespace = look.of[PODS].orphans(envelope.tenant, namespace_of(envelope))
    candidates = [*owning.controlled(look.of[PODS], envelope), *namespace]
    selector = compile_selector(job.spec.selector)
    mine, claims = owning.claim(JOBS, envelope, selector, PODS, candidates)
    read = [read_pod(job, each, None if owning.controller_of(each) else True) for each in mine]
    adopted = {each.name for each in mine}
    return read, [_with_finalizer(each, each.name in adopted) for each in claims]


def _with_finalizer(claim: Patch, adopts: bool) -> Patch:
    assert isinstance(claim.patch, Mapping)  # noqa: S101 - claims are merged
    wish = {"finalizers" if adopts else "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return replace(claim, patch={**claim.patch, "metadata": {**claim.patch["metadata"], **wish}})


def _deletion(pod: JobPod) -> Delete:
    return Delete(PODS, namespace_of(pod.envelope), pod.envelope.name, pod.uid)


def _finish(key: Key, look: Look, outcome: Outcome) -> Iterable[Action]:
    envelope = look.of[JOBS].get(*key)
    if envelope is None:
        return
    job = read_job(envelope)
    about = ObjectRef(JOBS.api_version, JOBS.kind, job.envelope.name, key.namespace, job.envelope.uid)
    yield from pod_events(about, outcome)
    mine = [read_pod(job, each) for each in owning.controlled(look.of[PODS], envelope)]
    status = job_tally.closed(job_tally.counted(job, mine), mine, look.now)
    reason = ""
    if not _judged(status) and not envelope.deleting:
        status, reason = job_tally.suspension(status, job.spec.suspend, look.now)
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
        told = "Too many succeeded pods running after completion count reached"
        yield Emit(about, "Warning", "TooManySucceededPods", told)
    yield Emit(about, "Normal", "Completed", "Job completed")


def _pods(change: Change, look: Look) -> Iterable[Key]:
    """Whose Pod it is, or was; of one that nobody owns, whoever may adopt it."""
    owned = list(owner(JOBS.kind, JOBS.group)(change, look))
    if owned or change.new is None or change.new.owners:
        return owned
    pod = change.new
    return [
        key_of(each)
        for each in look.of[JOBS].within(pod.tenant, namespace_of(pod))
        if compile_selector(read_job(each).spec.selector).matches(pod.labels)
    ]


def _gathered(_change: Change, look: Look, key: Key) -> float:
    """Seconds in which to gather Pods' changes: of a large Job each look reads many Pods."""
    envelope = look.of[JOBS].get(*key)
    if envelope is None:
        return 0.0
    status = read_job(envelope).status
    return min((status.active + status.succeeded + status.failed) * GATHER_PER_POD, LONGEST_GATHER)


# ---- Pods that nobody counts any more ----------------------------------------------------


def plan_orphan(look: Look, key: Key) -> Plan:
    """Take the finalizer from a Pod whose Job is gone or has ended."""
    pod = look.of[PODS].get(*key)
    if pod is None or FINALIZER not in pod.finalizers:
        return NOTHING
    controller = owning.controller_of(pod)
    if controller is not None:
        if (controller.kind, controller.apiVersion) != (JOBS.kind, JOBS.api_version):
            return NOTHING
        envelope = look.of[JOBS].get(key.tenant, key.namespace, controller.name)
        if envelope is not None and envelope.uid == controller.uid:
            job = read_job(envelope)
            if not job.ours or not job.finished:
                return NOTHING
    return Plan([[untracked(pod)]])


def _tracked_pods(change: Change, _look: Look) -> Iterable[Key]:
    pod = standing(change)
    return [key_of(pod)] if FINALIZER in pod.finalizers else []


def _left_behind(change: Change, look: Look) -> Iterable[Key]:
    """The tracked Pods of a Job that is gone or has ended."""
    job = standing(change)
    if change.new is not None and not read_job(job).finished:
        return []
    return [key_of(each) for each in owning.controlled(look.of[PODS], job) if FINALIZER in each.finalizers]


JOB = Controller("job-controller", (Watch(JOBS, own), Watch(PODS, _pods, _gathered)), plan)
JOB_ORPHANS = Controller(
    "job-orphan-pod-controller", (Watch(PODS, _tracked_pods), Watch(JOBS, _left_behind)), plan_orphan
)
