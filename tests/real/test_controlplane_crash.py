"""A control plane's store that is killed while it writes loses no acknowledged write."""

from __future__ import annotations

from pathlib import Path

from hack.crash.rounds import run


def test_killed_while_writing(tmp_path: Path) -> None:
    tally = run(tmp_path, 15, 0.15, seed=7)
    assert tally.problems == []
    assert tally.rounds == 15
    assert tally.acknowledged > 0
