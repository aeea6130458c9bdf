"""Hostile requests of one tenant of an embedded control plane harm neither the server nor another tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hack.fuzz.run import run

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 10_000
SECONDS = 90.0
"""On a slow machine fewer are sent; `make fuzz` sends a hundred times as many."""


@pytest.mark.timeout(240)
async def test_hostile_requests(tmp_path: Path) -> None:
    tally = await run(tmp_path, REQUESTS, 1, seconds=SECONDS)
    assert tally.findings == []
    assert tally.sent == REQUESTS or tally.seconds >= SECONDS
    assert tally.codes[200] > 0
    assert tally.codes[201] > 0
