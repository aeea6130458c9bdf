"""Charges a write to the quota of its tenant, or refuses it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as with_fields

from vcsync.apiserver.admission.charge import QuotaExceeded, Write
from vcsync.apiserver.tenants.quota_records import QuotaRecord
from vcsync.objects.quantity import milli
from vcsync.quota.tenants import amounts, charged, moved
from vcsync.quota.usage import NONE, Usage, missing_in_pod


class TenantQuotaExceeded(QuotaExceeded):
    """The write would exceed the quota of its tenant."""


def charge_tenant(tenant: str, write: Write, record: QuotaRecord) -> QuotaRecord | None:
    """Return the record after a write, or None if the write does not change it.

    A write that uses less, and a write of the status, is never refused.

    Raises:
        QuotaExceeded: The write exceeds a limit, or a Pod does not specify what is limited.
    """
    names = charged(write.group, write.plural, record.used)
    if not names:
        return None
    if (write.group, write.plural) == ("", "pods") and not write.reports_status:
        missing = missing_in_pod(names, write.new)
        if missing:
            raise QuotaExceeded(f"failed quota: tenant quota of {tenant}: must specify {missing}")
    after = amounts(write.group, write.plural, write.new)
    before = amounts(write.group, write.plural, write.old) if write.old is not None else {}
    used = moved(record.used, after, before, names)
    if not write.reports_status:
        _require_room(tenant, record, used, after, before)
    return with_fields(record, used={**record.used, **used}) if used else None


def _require_room(
    tenant: str, record: QuotaRecord, used: Mapping[str, str], after: Usage, before: Usage
) -> None:
    more = {
        name: replace(after.get(name, NONE), milli=after.get(name, NONE).milli - before.get(name, NONE).milli)
        for name in used
    }
    over = sorted(
        name
        for name, amount in more.items()
        if amount.milli > 0 and milli(used[name]) > milli(record.hard.get(name, used[name]))
    )
    if over:
        raise TenantQuotaExceeded(
            f"exceeded quota: tenant quota of {tenant}, "
            f"requested: {_joined({name: str(more[name]) for name in over}, over)}, "
            f"used: {_joined(record.used, over)}, "
            f"limited: {_joined(record.hard, over)}"
        )


def _joined(amounts: Mapping[str, str], names: Sequence[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)
