"""Quantities follow Kubernetes' grammar and rounding, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.objects.quantity import InvalidQuantity, canonical, milli

CAP = (2**63 - 1) * 1000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1000),
        ("+1", 1000),
        ("-1", -1000),
        ("1.", 1000),
        (".5", 500),
        ("0.5", 500),
        ("250m", 250),
        ("1.5m", 2),
        ("1n", 1),
        ("1500u", 2),
        ("0.0001", 1),
        ("-0.0001", 0),
        ("2k", 2_000_000),
        ("1Ki", 1_024_000),
        ("1.5Gi", 1_610_612_736_000),
        ("1M", 10**9),
        ("1E", 10**21),
        ("1e3", 10**6),
        ("1E3", 10**6),
        ("1.5e-1", 150),
        ("1e+2", 10**5),
        ("1Ei", 2**60 * 1000),
        ("10Ei", CAP),
        ("1e100", CAP),
        ("-1e100", -CAP),
        ("1e-100", 1),
    ],
)
def test_quantities_are_parsed(text: str, value: int) -> None:
    assert milli(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1 Gi",
        "Gi",
        "1gi",
        "1K",
        "1KI",
        "--1",
        "1.2.3",
        ".",
        "1e",
        "1e1.5",
        "1mi",
        "0x1",
        "1_000",
        "1e9999",
        "\u0661",
        "1" * 65,
        "1\n",
        "inf",
        "nan",
    ],
)
def test_invalid_quantities_are_refused_with_the_field(text: str) -> None:
    with pytest.raises(InvalidQuantity, match=r"spec\.hard\.cpu"):
        milli(text, field="spec.hard.cpu")


@pytest.mark.parametrize(
    ("value", "like", "text"),
    [
        (0, "", "0"),
        (500, "", "500m"),
        (1500, "1", "1500m"),
        (2000, "", "2"),
        (1_000_000, "", "1k"),
        (1_500_000, "", "1500"),
        (1_024_000, "1Gi", "1Ki"),
        (1_610_612_736_000, "1Gi", "1536Mi"),
        (512_000, "1Ki", "512"),
        (1_024_500, "1Ki", "1024500m"),
        (10**6, "1e6", "1e3"),
        (10**6, "1E", "1k"),
        (-(10**6), "", "-1k"),
    ],
)
def test_quantities_are_formatted_in_the_requested_notation(value: int, like: str, text: str) -> None:
    assert canonical(value, like) == text


@settings(deadline=None)
@given(st.integers(-CAP, CAP), st.sampled_from(["", "1Ki", "1e3", "1m"]))
def test_a_formatted_quantity_parses_to_the_same_value(value: int, like: str) -> None:
    assert milli(canonical(value, like)) == value


@settings(deadline=None)
@given(st.integers(0, 10**12), st.integers(0, 10**9), st.sampled_from(["n", "u", "m", "", "k", "M"]))
def test_parsing_rounds_up_by_less_than_a_thousandth(whole: int, part: int, suffix: str) -> None:
    power = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6}[suffix]
    exact = Fraction(f"{whole}.{part:09d}") * Fraction(10) ** (power + 3)
    assert 0 <= milli(f"{whole}.{part:09d}{suffix}") - exact < 1
