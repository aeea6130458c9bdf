"""A part of `make attacks`: on one process, and on two over etcd."""

from pathlib import Path

import pytest

from hack.attacks.tables.sweep import THEATRES, cases, suited, sweep

TABLES = (
    "definitions",
    "bodies",
    "signing",
    "malformed",
    "selectors",
    "wide",
    "costly",
    "names",
    "networks",
    "prohibited",
    "forwarded",
    "answering",
    "storing",
    "hosts",
)
EVERY = 9


@pytest.fixture
def world() -> None:
    """These attacks start their own control planes."""


@pytest.fixture(autouse=True)
def unharmed() -> None:
    """These attacks check for damage by themselves."""


@pytest.mark.parametrize("theatre", THEATRES)
def test_no_attack_succeeds(theatre: str, tmp_path: Path) -> None:
    chosen = suited(cases(TABLES, "", EVERY), theatre)
    result = sweep(chosen, [theatre], tmp_path)
    assert result.misses == []
    assert result.counts.total() == len(chosen) > 100
