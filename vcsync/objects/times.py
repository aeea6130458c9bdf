"""Formats times as Kubernetes does: RFC 3339 in UTC, in whole seconds (`metav1.Time`) or microseconds (`MicroTime`). Pure."""

from datetime import UTC, datetime


def time_text(moment: datetime) -> str:
    """Format a time as `metav1.Time`, for example `2026-11-24T22:43:00Z`. Fractions of a second are cut off.

    Args:
        moment: A time with a time zone.
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_time_text(seconds: float) -> str:
    """Format a time as `metav1.Time`.

    Args:
        seconds: Seconds since 1970.
    """
    return time_text(datetime.fromtimestamp(seconds, UTC))


def micro_time_text(moment: datetime) -> str:
    """Format a time as `metav1.MicroTime`, for example `2026-11-24T22:43:00.000000Z`.

    Args:
        moment: A time with a time zone.
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
