"""CronJobs: a Job at each time of a schedule. Pure.

Behaviour: Kubernetes' `pkg/controller/cronjob`. The name of a Job contains its scheduled time, so no scheduled time gets
two Jobs.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vcsync.controllers.cronjob import times as cron_times
from vcsync.controllers.cronjob.objects import CronJob, CronJobStatus, Reference, read_cron_job
from vcsync.controllers.framework import ownership, pods
from vcsync.controllers.framework.event_handlers import own, owner
from vcsync.controllers.framework.mirror import Key, namespace_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Create,
    Delete,
    Emit,
    Outcome,
    Patch,
    Plan,
    View,
    Watch,
    status_patch,
)
from vcsync.controllers.job.objects import Job, condition, ended, read_job
from vcsync.kube.cache import Change
from vcsync.kube.events import EventType
from vcsync.kube.resources import CRON_JOBS, JOBS
from vcsync.objects.cron_schedules import Schedule, ScheduleError, parse_schedule
from vcsync.objects.envelope import Envelope, untyped
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.objects.times import time_text

SCHEDULED_TIME = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class Decision(Struct, frozen=True):
    """The decision about a CronJob's schedule at one moment.

    Attributes:
        events: Events to report.
        start: the scheduled time of the Job to start; None: no Job.
        again: seconds until the next start.
    """

    events: Sequence[Emit] = ()
    start: datetime | None = None
    again: float | None = None


def plan(view: View, key: Key) -> Plan:
    """Delete Jobs beyond the history limits, and start the Job that is due."""
    envelope = view.of[CRON_JOBS].get(*key)
    if envelope is None:
        return NOTHING
    cron = read_cron_job(envelope)
    jobs = _jobs(view, envelope)
    forgotten = [_deletion(each) for each in _beyond_history(cron, jobs)]
    if envelope.deleting:
        return Plan([forgotten], partial(_finish, key))
    decision = _decide(cron, jobs, view.now)
    # History is deleted last, so that the schedule continues where deletions are denied.
    steps: list[Sequence[Action]] = [decision.events]
    if decision.start is not None:
        name = _job_name(cron, decision.start)
        if cron.spec.concurrency_policy == "Replace":
            steps.append([_deletion(each) for each in _running(cron, jobs)])
        if view.of[JOBS].get(key.tenant, key.namespace, name) is None:
            steps.append([_creation(cron, name, decision.start)])
    return Plan([*steps, forgotten], partial(_finish, key), decision.again)


def _jobs(view: View, envelope: Envelope) -> list[Job]:
    return [read_job(each) for each in ownership.controlled(view.of[JOBS], envelope)]


def _running(cron: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the Jobs that were started and have not ended."""
    started = {each.uid for each in cron.status.active or ()}
    started |= {each.envelope.uid for _, each in _unrecorded(cron, jobs)}
    return [each for each in jobs if each.envelope.uid in started and not each.finished]


def _unrecorded(cron: CronJob, jobs: Iterable[Job]) -> list[tuple[datetime, Job]]:
    """Return Jobs, with their scheduled times, that the status does not record: started just now, or before a crash."""
    last = pods.moment(cron.status.last_schedule_time)
    found = [(_meant_for(cron, each), each) for each in jobs]
    return [(when, each) for when, each in found if when is not None and when > last]


def _meant_for(cron: CronJob, job: Job) -> datetime | None:
    """Return the scheduled time of a Job; None: it was not started by its CronJob."""
    try:
        when = datetime.fromisoformat(job.envelope.annotations.get(SCHEDULED_TIME, ""))
        return when if when.tzinfo and job.envelope.name == _job_name(cron, when) else None
    except (ValueError, OverflowError):
        return None


# ---- Due starts --------------------------------------------------------------------------


def _decide(cron: CronJob, jobs: Sequence[Job], now: datetime) -> Decision:
    if cron.spec.time_zone is not None and _zone(cron) is None:
        zone = cron.spec.time_zone
        return _failed(cron, "UnknownTimeZone", f'invalid timeZone: "{zone}": unknown time zone {zone}')
    if cron.spec.suspend:
        return Decision()
    try:
        schedule = parse_schedule(cron.spec.schedule)
    except ScheduleError as wrong:
        message = f'unparseable schedule: "{cron.spec.schedule}" : {wrong}'
        return _failed(cron, "UnparseableSchedule", message)
    found = _due(cron, schedule, jobs, now)
    if "TZ" not in cron.spec.schedule:
        return found
    message = (
        f'CRON_TZ or TZ used in schedule "{cron.spec.schedule}" is not officially supported, see'
        " https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    )
    return replace(found, events=[_warning(cron, "UnsupportedSchedule", message), *found.events])


def _due(cron: CronJob, schedule: Schedule, jobs: Sequence[Job], now: datetime) -> Decision:
    spec, zone, deadline = cron.spec, _zone(cron) or UTC, cron.deadline
    try:
        due = cron_times.due(schedule, zone, cron.since, now, deadline)
    except ScheduleError as wrong:
        return _failed(cron, "InvalidSchedule", f"invalid schedule: {spec.schedule} : {wrong}")
    again = cron_times.next_in(schedule, zone, cron.since, now)
    if due.time is None:
        return Decision(again=again)
    events: list[Emit] = []
    if due.missed > cron_times.MANY:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        )
        events.append(_warning(cron, "TooManyMissedTimes", message))
    if deadline is not None and due.time + timedelta(seconds=deadline) < now:
        when = due.time.strftime("%a, %d %b %Y %H:%M:%S +0000")
        events.append(_warning(cron, "MissSchedule", f"Missed scheduled time to start a job: {when}"))
        return Decision(events, again=again)
    known = {each.envelope.name for each in jobs}
    if _job_name(cron, due.time) in known or cron.status.last_schedule_time == time_text(due.time):
        return Decision(events, again=again)
    if spec.concurrency_policy == "Forbid" and _running(cron, jobs):
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        events.append(_event(cron, "Normal", "JobAlreadyActive", message))
        return Decision(events, again=again)
    return Decision(events, due.time, again)


def _zone(cron: CronJob) -> tzinfo | None:
    if cron.spec.time_zone is None:
        return UTC
    try:
        return ZoneInfo(cron.spec.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


# ---- Jobs --------------------------------------------------------------------------------


def _job_name(cron: CronJob, start: datetime) -> str:
    return f"{cron.envelope.name}-{int(start.timestamp()) // 60}"


def _creation(cron: CronJob, name: str, start: datetime) -> Create:
    template: dict[str, Any] = untyped(cron.envelope.spec).get("jobTemplate") or {}
    metadata = template.get("metadata") or {}
    when = start.astimezone(_zone(cron) or UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    body: dict[str, Any] = {
        "metadata": {
            **({"labels": metadata["labels"]} if metadata.get("labels") else {}),
            "annotations": {**(metadata.get("annotations") or {}), SCHEDULED_TIME: when},
            "name": name,
            "ownerReferences": [ownership.reference(CRON_JOBS, cron.envelope)],
        },
        "spec": template.get("spec") or {},
    }
    return Create(JOBS, namespace_of(cron.envelope), body)


def _deletion(job: Job) -> Delete:
    place = job.envelope
    return Delete(JOBS, namespace_of(place), place.name, place.uid, propagation="Background")


def _beyond_history(cron: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the oldest ended Jobs beyond the history limit."""
    found: list[Job] = []
    kept = {
        "Complete": cron.spec.successful_jobs_history_limit,
        "Failed": cron.spec.failed_jobs_history_limit,
    }
    for type_, limit in kept.items():
        over = sorted((each for each in jobs if condition(each.status, type_)), key=_age)
        if limit is not None and len(over) > limit:
            found += over[: len(over) - limit]
    return [each for each in found if not each.envelope.deleting]


def _age(job: Job) -> tuple[bool, datetime, str]:
    start = job.status.start_time
    return start is None, pods.moment(start), job.envelope.name


# ---- Status ------------------------------------------------------------------------------


def _finish(key: Key, view: View, outcome: Outcome) -> Iterable[Action]:
    envelope = view.of[CRON_JOBS].get(*key)
    if envelope is None:
        return
    cron = read_cron_job(envelope)
    yield from _job_events(cron, outcome)
    gone = {each.uid for each in outcome.done if isinstance(each, Delete)}
    jobs = {each.envelope.uid: each for each in _jobs(view, envelope)}
    kept, events = _kept(cron, jobs, gone)
    started = _unrecorded(cron, jobs.values())
    known = {each.uid for each in kept} | gone
    kept += [
        _reference(each.envelope)
        for _, each in started
        if not each.finished and not each.envelope.deleting and each.envelope.uid not in known
    ]
    latest = max((when for when, _ in started), default=None)
    status = CronJobStatus(
        active=tuple(kept) or None,
        last_schedule_time=cron.status.last_schedule_time if latest is None else time_text(latest),
        last_successful_time=_last_success(cron, jobs.values()),
    )
    yield from _written(cron, status)
    yield from events
    yield from _unexpected(cron, jobs.values(), gone | {each.uid for each in kept})


def _unexpected(cron: CronJob, jobs: Iterable[Job], known: set[str]) -> Iterable[Emit]:
    for job in jobs:
        if job.envelope.uid not in known and not job.finished and not job.envelope.deleting:
            message = f"Saw a job that the controller did not create or forgot: {job.envelope.name}"
            yield _warning(cron, "UnexpectedJob", message)


def _kept(cron: CronJob, jobs: dict[str, Job], gone: set[str]) -> tuple[list[Reference], list[Emit]]:
    """Return the active Jobs that are still active, and the Events about the others."""
    kept: list[Reference] = []
    events: list[Emit] = []
    for each in cron.status.active or ():
        if each.uid in gone:
            continue
        job = jobs.get(each.uid)
        end = None if job is None else ended(job.status)
        if job is None:
            events.append(_event(cron, "Normal", "MissingJob", f"Active job went missing: {each.name}"))
        elif end is not None:
            message = f"Saw completed job: {each.name}, condition: {end.type}"
            events.append(_event(cron, "Normal", "SawCompletedJob", message))
        else:
            kept.append(each)
    return kept, events


def _last_success(cron: CronJob, jobs: Iterable[Job]) -> str | None:
    times = [cron.status.last_successful_time] + [
        each.status.completion_time for each in jobs if condition(each.status, "Complete")
    ]
    return max((each for each in times if each), key=pods.moment, default=None)


def _reference(job: Envelope) -> Reference:
    return Reference(JOBS.kind, namespace_of(job), job.name, job.uid, JOBS.api_version, job.resource_version)


def _written(cron: CronJob, status: CronJobStatus) -> list[Patch]:
    before = msgspec.json.decode(msgspec.json.encode(cron.status))
    patch = create_merge_patch(before, msgspec.json.decode(msgspec.json.encode(status)))
    if patch is None:
        return []
    return [status_patch(CRON_JOBS, cron.envelope, patch, unchanged=True)]


def _job_events(cron: CronJob, outcome: Outcome) -> Iterable[Emit]:
    for action in outcome.done:
        if isinstance(action, Create):
            name = action.body["metadata"]["name"]
            yield _event(cron, "Normal", "SuccessfulCreate", f"Created job {name}")
        elif isinstance(action, Delete):
            yield _event(cron, "Normal", "SuccessfulDelete", f"Deleted job {action.name}")
    for failure in outcome.failures:
        if isinstance(failure.action, Create):
            yield _warning(cron, "FailedCreate", f"Error creating job: {failure.said}")
        elif isinstance(failure.action, Delete):
            yield _warning(cron, "FailedDelete", f"Deleted job: {failure.said}")


def _failed(cron: CronJob, reason: str, message: str) -> Decision:
    return Decision([_warning(cron, reason, message)])


def _warning(cron: CronJob, reason: str, message: str) -> Emit:
    return _event(cron, "Warning", reason, message)


def _event(cron: CronJob, type_: EventType, reason: str, message: str) -> Emit:
    return Emit(cron.about, type_, reason, message)


def _until_next(change: Change, view: View, _key: Key) -> float:
    """Return the seconds until a changed schedule is processed: its next time, so that no past time is started."""
    if change.old is None or change.new is None:
        return 0.0
    cron, before = read_cron_job(change.new), read_cron_job(change.old).spec
    if (cron.spec.schedule, cron.spec.time_zone) == (before.schedule, before.time_zone):
        return 0.0
    try:
        schedule = parse_schedule(cron.spec.schedule)
    except ScheduleError:
        return 0.0
    return cron_times.next_in(schedule, _zone(cron) or UTC, cron.since, view.now) or 0.0


CRON_JOB = Controller(
    "cronjob-controller",
    (Watch(CRON_JOBS, own, _until_next), Watch(JOBS, owner(CRON_JOBS.kind, CRON_JOBS.group))),
    plan,
)
