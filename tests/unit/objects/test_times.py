"""Times are formatted as in Kubernetes."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from vcsync.objects.times import micro_time_text, time_text, unix_time_text

MOMENT = datetime(2026, 11, 24, 22, 43, 7, 900, tzinfo=UTC)


@pytest.mark.parametrize("moment", [MOMENT, MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))])
def test_times_of_any_zone_are_formatted_in_utc(moment: datetime) -> None:
    assert time_text(moment) == "2026-11-24T22:43:07Z"
    assert micro_time_text(moment) == "2026-11-24T22:43:07.000900Z"


def test_fractions_of_unix_seconds_are_cut_off() -> None:
    assert unix_time_text(1.9) == "1970-01-01T00:00:01Z"


def test_formatted_times_can_be_parsed() -> None:
    assert datetime.fromisoformat(micro_time_text(MOMENT)) == MOMENT
