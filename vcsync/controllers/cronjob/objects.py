"""CronJobs as their controller reads them. Pure."""

from datetime import datetime

from msgspec import Struct

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import CRON_JOBS
from vcsync.objects.envelope import Envelope, decode

LONGEST_DEADLINE = 10**9
"""Seconds, a generation."""


class CronJobSpec(Struct, rename="camel"):
    """The parts of a CronJob's spec."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class Reference(Struct, rename="camel", omit_defaults=True):
    """A Job that runs, as a CronJob's status names it."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class CronJobStatus(Struct, rename="camel", omit_defaults=True):
    """The status of a CronJob."""

    active: tuple[Reference, ...] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Struct, frozen=True):
    """A CronJob."""

    envelope: Envelope
    spec: CronJobSpec
    status: CronJobStatus

    @property
    def since(self) -> datetime:
        """The time after which starts count."""
        return pods.moment(self.status.last_schedule_time or self.envelope.creation_timestamp)

    @property
    def deadline(self) -> int | None:
        """Seconds after its scheduled time within which a Job may start; values above a generation mean no limit."""
        seconds = self.spec.starting_deadline_seconds
        return None if seconds is None else min(seconds, LONGEST_DEADLINE)

    @property
    def about(self) -> ObjectRef:
        """The object that its Events refer to."""
        place = self.envelope
        return ObjectRef(CRON_JOBS.api_version, CRON_JOBS.kind, place.name, namespace_of(place), place.uid)


def read_cron_job(envelope: Envelope) -> CronJob:
    """Read a CronJob."""
    return CronJob(envelope, decode(envelope.spec, CronJobSpec), decode(envelope.status, CronJobStatus))
