"""A share of `make attacks`: on one process, and on two over etcd."""

from pathlib import Path

import pytest

from hack.attacks.sweep import THEATRES, cases, sweep

TABLES = ("definitions", "bodies", "signing", "malformed", "selectors", "wide", "names")
EVERY = 9


@pytest.fixture
def world() -> None:
    """These attacks have a world of their own."""


@pytest.fixture(autouse=True)
def unharmed() -> None:
    """They look after themselves whether they have done any harm."""


@pytest.mark.parametrize("theatre", THEATRES)
def test_no_attack_succeeds(theatre: str, tmp_path: Path) -> None:
    chosen = cases(TABLES, "", EVERY)
    result = sweep(chosen, [theatre], tmp_path)
    assert result.misses == []
    assert result.counts.total() == len(chosen) > 100
