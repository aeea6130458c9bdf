"""Jobs and CronJobs. Pure.

Source: Kubernetes' `pkg/apis/batch` and `pkg/registry/batch`; the grammar of schedules is robfig/cron's.
"""

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from vcsync.api.schedules import schedule_error
from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import job_status, jobs, names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.pods import drop_disabled_template
from vcsync.controlplane.kinds.rules import Findings, Object, choice, nonnegative, number, part, text
from vcsync.controlplane.kinds.workloads import pods_hostname_warning

_POLICIES = ("Allow", "Forbid", "Replace")
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def _job_warnings(new: Object, old: Object | None) -> list[str]:
    spec = part(new, "spec")
    if old is None:
        return pods_hostname_warning(new) + jobs.spec_warnings("spec", spec)
    return jobs.spec_warnings("spec", spec) if spec != part(old, "spec") else []


def _cron_default(found: Object) -> None:
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(
        spec,
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    inner = part(spec, "jobTemplate", "spec")
    if inner:
        jobs.default_job_spec(inner)


def _cron_create(new: Object, _: Context) -> None:
    drop_disabled_template(part(new, "spec", "jobTemplate", "spec", "template"))


def _zone(path: str, zone: str | None) -> Findings:
    if zone is None:
        return
    if not zone:
        yield errors.wrong(path, zone, "timeZone must be nil or non-empty string")
        return
    for each in zone.split("/"):
        if each in (".", "..") or each.startswith("-") or not _ZONE_PART.fullmatch(each):
            yield errors.wrong(path, zone, f"unknown time zone {zone}")
            return
    if zone.lower() == "local":
        told = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield errors.wrong(path, zone, told)
        return
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield errors.wrong(path, zone, f"unknown time zone {zone}")


def _cron(spec: Object, before: Object | None) -> Findings:
    schedule, zone = text(spec, "schedule"), spec.get("timeZone")
    if not schedule:
        yield errors.required("spec.schedule")
    else:
        yield from _schedule(schedule, zone, before)
    yield from nonnegative(spec, "spec", "startingDeadlineSeconds")
    if before is None or before.get("timeZone") != zone:
        yield from _zone("spec.timeZone", zone)
    yield from choice("spec.concurrencyPolicy", text(spec, "concurrencyPolicy"), _POLICIES)
    inner, here = part(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec"
    yield from jobs.job_spec(here, inner)
    if "selector" in inner:
        yield errors.wrong(f"{here}.selector", inner["selector"], "`selector` will be auto-generated")
    if inner.get("manualSelector"):
        yield errors.not_supported(f"{here}.manualSelector", True, ("nil", "false"))
    yield from nonnegative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _schedule(schedule: str, zone: str | None, before: Object | None) -> Findings:
    wrong = schedule_error(schedule)
    if wrong:
        yield errors.wrong("spec.schedule", schedule, wrong)
    if "TZ" not in schedule:
        return
    allowed = before is not None and "TZ" in text(before, "schedule")
    if not allowed:
        told = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield errors.wrong("spec.schedule", schedule, told)
    elif zone is not None:
        yield errors.wrong(
            "spec.schedule", schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        )


def _cron_validate(found: Object) -> list[FieldError]:
    wrong = list(_cron(part(found, "spec"), None))
    name = text(part(found, "metadata"), "name")
    if names.size(name) > 52:
        wrong.append(errors.wrong("metadata.name", name, "must be no more than 52 characters"))
    return wrong


def _cron_warnings(new: Object, old: Object | None) -> list[str]:
    spec = part(new, "spec")
    inner = part(spec, "jobTemplate", "spec")
    if old is None:
        return pods_hostname_warning(new) + jobs.spec_warnings("spec.jobTemplate.spec", inner)
    found = jobs.spec_warnings("spec.jobTemplate.spec", inner) if spec != part(old, "spec") else []
    if "TZ" in text(spec, "schedule"):
        found.append(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see"
            " https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    return found


BATCH = {
    ("batch", "Job"): Part(
        default=jobs.default,
        prepare_create=jobs.prepare_create,
        validate=lambda found: list(jobs.job(found)),
        validate_update=jobs.validate_update,
        warnings=_job_warnings,
        fields=lambda found: {"status.successful": str(number(part(found, "status"), "succeeded"))},
        status_validate=job_status.validate,
    ),
    ("batch", "CronJob"): Part(
        default=_cron_default,
        prepare_create=_cron_create,
        validate=_cron_validate,
        validate_update=lambda new, old: list(_cron(part(new, "spec"), part(old, "spec"))),
        warnings=_cron_warnings,
    ),
}
