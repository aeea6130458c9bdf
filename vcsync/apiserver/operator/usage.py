"""Answers the operator's requests for what tenants used."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from vcsync.apimachinery.errors import bad_request
from vcsync.apiserver.metering.report import tenants_with_rows, used
from vcsync.apiserver.metering.rows import HOUR_SECONDS, Used, hour_of, hour_seconds, hour_text
from vcsync.apiserver.request.caller import ALL
from vcsync.apiserver.storage.interface import Store
from vcsync.objects.times import unix_time_text

MAX_HOURS = 50_000
"""Most hours of tenants in one answer."""

DAY_SECONDS = 24 * HOUR_SECONDS
LAST_SECOND = 4_102_444_800
"""2100-01-01T00:00:00Z. Later times, and those before 1970, are taken for mistakes."""


async def usage_of(
    store: Store, tenant: str, begin: Sequence[str], end: Sequence[str], now: float
) -> list[dict[str, Any]]:
    """Return what a tenant used in each hour of an interval, in order.

    Args:
        store: The store.
        tenant: Name of a tenant that exists or existed, or `all`.
        begin: Values of the parameter `from`: a time in RFC 3339. Empty: a day before the end.
        end: Values of the parameter `to`: a time in RFC 3339. Empty: now.
        now: Seconds since the epoch.

    Raises:
        StatusError: 400, a time is malformed, or the answer would be too long.
        StoreError: The store cannot be read.
    """
    until = _seconds("to", end[0]) if end else now
    since = _seconds("from", begin[0]) if begin else max(0, until - DAY_SECONDS)
    if since >= until:
        raise bad_request("from: give a time before that of to")
    # An hour that the interval touches is part of the answer.
    first, last = hour_text(since), hour_text(hour_of(until - 1) + HOUR_SECONDS)
    found: list[dict[str, Any]] = []
    names = [tenant] if tenant != ALL else sorted([each async for each in tenants_with_rows(store)])
    for name in names:
        async for each in used(store, name, first, last):
            if len(found) >= MAX_HOURS:
                raise bad_request(
                    f"there are more than {MAX_HOURS} hours of tenants; give a shorter interval"
                )
            found.append(_shown(each))
    return found


def _seconds(parameter: str, text: str) -> float:
    """Read a time.

    Raises:
        StatusError: 400.
    """
    try:
        moment = datetime.fromisoformat(text)
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds <= LAST_SECOND:
        raise bad_request(f"{parameter}: give a time such as 2026-11-25T05:00:00Z")
    return seconds


def _shown(each: Used) -> dict[str, Any]:
    row = each.row
    names = zip(row.__struct_encode_fields__, row.__struct_fields__, strict=True)
    return {
        "tenant": each.key.tenant,
        "uid": each.key.uid,
        "hour": unix_time_text(hour_seconds(each.key.hour)),
        **{name: getattr(row, field) for name, field in names},
    }
