"""The kind CronJob: defaults, validation of schedule and time zone, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/batch/validation`, `pkg/registry/batch/cronjob` and `pkg/printers/internalversion`.
"""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.batch import job
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.workloads import pods_hostname_warning
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, choice, nonnegative, part, text
from vcsync.apimachinery.wire import cells
from vcsync.objects.cron_schedules import schedule_error
from vcsync.patterns.linear import linear

_POLICIES = ("Allow", "Forbid", "Replace")
_ZONE_PART = linear(r"[A-Za-z.\-_0-9+]{1,14}")


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
        job.default_job_spec(inner)


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
        message = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield errors.wrong(path, zone, message)
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
    yield from job.job_spec(here, inner)
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
        message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield errors.wrong("spec.schedule", schedule, message)
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
        return pods_hostname_warning(new) + job.spec_warnings("spec.jobTemplate.spec", inner)
    found = job.spec_warnings("spec.jobTemplate.spec", inner) if spec != part(old, "spec") else []
    if "TZ" in text(spec, "schedule"):
        found.append(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see"
            " https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    return found


KIND = Kind(
    group="batch",
    kind="CronJob",
    plural="cronjobs",
    generation=("spec",),
    status=True,
    pod_spec=("spec", "jobTemplate", "spec", "template", "spec"),
    default=_cron_default,
    validate=_cron_validate,
    validate_update=lambda new, old: list(_cron(part(new, "spec"), part(old, "spec"))),
    warnings=_cron_warnings,
    columns={
        "Name": cells.name,
        "Schedule": cells.field("spec.schedule"),
        "Timezone": cells.field("spec.timeZone", cells.NONE),
        "Suspend": cells.boolean("spec.suspend"),
        "Active": cells.count("status.active"),
        "Last Schedule": cells.since("status.lastScheduleTime", cells.NONE),
        "Age": cells.age,
        **cells.containers_of("spec.jobTemplate.spec.template"),
        "Selector": cells.selector_at("spec.jobTemplate.spec.selector"),
    },
    resets={"": STATUS, "status": SPEC},
)
