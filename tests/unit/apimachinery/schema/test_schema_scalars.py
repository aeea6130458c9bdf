"""Quantities, times and bytes have the form of Go, and errors have its messages."""

import base64
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.schema import scalars
from vcsync.apimachinery.schema.scalars import InvalidScalar


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("0", "0"), ("0Gi", "0"), ("000", "0"), ("-0", "0"), ("1", "1"), ("0.5", "500m"), (".5", "500m"), ("-0.5", "-500m"),
        ("1000m", "1"), ("100m", "100m"), ("1500m", "1500m"), ("0.0001", "100u"), ("0.1n", "1n"), ("1000", "1k"),
        ("1000000", "1M"), ("1e3", "1e3"), ("1000e3", "1e6"), ("1E", "1E"), ("1024Mi", "1Gi"), ("1500Mi", "1500Mi"),
        ("1.5Gi", "1536Mi"), ("0.5Ki", "512"), ("1Ki", "1Ki"), ("2048", "2048"), ("2048Ki", "2Mi"), ("0.1Ki", "102400m"),
        ("16Ei", "9223372036854775807"), ("1.0", "1"), ("+5", "+5"),
    ],
)  # fmt: skip
def test_a_quantity_has_a_canonical_form(given: str, written: str) -> None:
    assert scalars.quantity(given) == written


@pytest.mark.parametrize("text", ["", "1.1.1", "abc", "1 Gi", "1x", "1Gi ", "NaN", "1" * 200])
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidScalar, match="quantities must match the regular expression"):
        scalars.quantity(text)


@pytest.mark.parametrize("text", ["1Kii", "1mm", "1KM", "1ki", "--1"])
def test_an_unknown_suffix_is_named(text: str) -> None:
    with pytest.raises(InvalidScalar, match="unable to parse quantity's suffix"):
        scalars.quantity(text)


NUMBERS = st.from_regex(
    r"[+-]?[0-9]{1,20}(\.[0-9]{0,12})?(m|n|u|k|M|G|Ki|Mi|Gi|Ti|e[0-9]|E-[0-9])?", fullmatch=True
)


@given(NUMBERS)
def test_the_canonical_form_is_stable(text: str) -> None:
    once = scalars.quantity(text)
    assert scalars.quantity(once) == once


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2025-12-31T23:30:00-01:00", "2026-01-01T00:30:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_a_time_is_in_utc_and_seconds(given: str, written: str | None) -> None:
    assert scalars.time(given) == written


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05.000000+02:00", "2026-01-02T01:04:05.000000Z"),
        ("0001-01-01T00:00:00.000000Z", None),
    ],
)
def test_a_micro_time_keeps_six_digits(given: str, written: str | None) -> None:
    assert scalars.micro_time(given) == written


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", 'cannot parse "" as "2006"'),
        ("tomorrow", 'cannot parse "tomorrow" as "2006"'),
        ("2020", 'cannot parse "" as "-"'),
        ("2020-01-01", 'cannot parse "" as "T"'),
        ("2020-01-01T00:00:00", 'cannot parse "" as "Z07:00"'),
        ("2020-13-01T00:00:00Z", "month out of range"),
        ("2020-02-30T00:00:00Z", "day out of range"),
        ("2020-01-01T24:00:00Z", "hour out of range"),
        ("2020-01-01T00:00:00Zx", 'extra text: "x"'),
    ],
)
def test_an_invalid_time_is_refused_with_gos_message(text: str, why: str) -> None:
    with pytest.raises(InvalidScalar) as refused:
        scalars.time(text)
    assert str(refused.value).startswith(f'parsing time "{text}"')
    assert str(refused.value).endswith(why)


def test_a_micro_time_needs_its_six_digits() -> None:
    with pytest.raises(InvalidScalar, match=r'cannot parse "Z" as "\.000000"'):
        scalars.micro_time("2020-01-01T00:00:00Z")


MOMENTS = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))  # noqa: DTZ001


@given(MOMENTS, st.integers(-23 * 60, 23 * 60))
def test_a_formatted_time_is_the_same_moment(moment: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    written = scalars.time(moment.replace(tzinfo=zone).isoformat(timespec="seconds"))
    assert written is not None
    assert datetime.fromisoformat(written) == moment.replace(tzinfo=zone, microsecond=0)
    assert scalars.time(written) == written


@given(st.binary(max_size=40))
def test_canonical_base64_is_unchanged(content: bytes) -> None:
    text = base64.b64encode(content).decode()
    assert scalars.base64_text(text) == text


def test_line_breaks_in_base64_are_removed() -> None:
    assert scalars.base64_text("YWJj\nZGVm\r\n") == "YWJjZGVm"


@pytest.mark.parametrize(
    ("text", "at"),
    [("a b=", 1), ("YWJ", 0), ("YWJjYWJ", 4), ("YQ==YQ==", 4), ("YQ=a", 2), ("=", 0), ("YQ=", 3)],
)
def test_invalid_base64_is_refused_with_the_offset(text: str, at: int) -> None:
    with pytest.raises(InvalidScalar, match=f"illegal base64 data at input byte {at}"):
        scalars.base64_text(text)
