"""The measurement finds patterns that take more than linear time, and lets others pass."""

import re

import pytest
from pattern_growth import growing, texts_of

SLOW = [
    (r"(\d*\.?\d*(ms|m|s))+", "fullmatch"),
    (r"[-+]?(0|([0-9]*\.?[0-9]*(ns|us|ms|s|m|h))+)", "fullmatch"),
    (r",(?![^(]*\))", "split"),
    (r"([+-]?)(0*)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[+-]?\d*)", "fullmatch"),
    (r"[+-]?(?:\d+\.?\d*|\.\d+)([eEinumkKMGTP]*[+-]?\d*)", "fullmatch"),
    (r"(\d+(?:\.\d*)?|\.\d+)(ns|us|ms|s|m|h)(?=[.\d]|\Z)", "findall"),
    (r"(.+?)\['(.*)'\]", "fullmatch"),
    (r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^'",]+))\s*(?:,|$)""", "match"),
    (r"""\s*@((?:[^=!<>'"]|'[^']*'|"[^"]*")*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*""", "fullmatch"),
    (r"\s*(!?)\s*([A-Za-z0-9]+)\s*", "fullmatch"),
    (r"(a|a)*b", "fullmatch"),
    (r"[0-9]+x", "search"),
]
LINEAR = [
    (r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", "fullmatch"),
    (r"[+-]?(?:\d++\.?\d*+|\.\d++)([eEinumkKMGTP]*+[+-]?\d*+)", "fullmatch"),
    (r"[0-9]{1,18}x", "search"),
]


@pytest.mark.parametrize(("pattern", "method"), SLOW)
def test_a_slow_pattern_is_found(pattern: str, method: str) -> None:
    assert growing(getattr(re.compile(pattern), method), *texts_of(pattern)) is not None


@pytest.mark.parametrize(("pattern", "method"), LINEAR)
def test_a_linear_pattern_passes(pattern: str, method: str) -> None:
    assert growing(getattr(re.compile(pattern), method), *texts_of(pattern)) is None
