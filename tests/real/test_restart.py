"""Tenants and super clusters agree after roles were killed repeatedly and connections were cut."""

from pathlib import Path

import pytest

from hack.audit import table
from hack.chaos import Weather, storm
from hack.testbed import TestBed


@pytest.mark.timeout(900)
async def test_killed_roles_and_cut_connections_leave_nothing_missing_doubled_stale_or_foreign(
    tmp_path: Path,
) -> None:
    weather = Weather(seed=20, seconds=45, kills_of_each=3, settle_seconds=240)
    # Servers of its own: the storm leaves its tenants full, and other tests register the same clusters.
    with TestBed(supers=2, nodes=2, tenants=("acme", "umbrella"), directory=tmp_path / "bed") as bed:
        outcome = await storm(bed, tmp_path, weather)

    assert not outcome.findings, f"seed {weather.seed}\n{table(outcome.findings)}"
    assert not outcome.ended_at_work, "a role ended by itself while it worked"
    assert not outcome.unexplained, f"deletions without a cause\n{table(outcome.unexplained)}"
    assert not outcome.twice, f"Pods that ran twice\n{table(outcome.twice)}"
    assert not outcome.sightings, "something of one tenant was visible in another"
    assert not outcome.refused, "a tenant's user was refused what nobody refuses"
    assert set(outcome.kills) == {"nsscheduler", "podscheduler", "syncer-r1", "syncer-r2"}
    assert min(outcome.kills.values()) >= 3
    assert outcome.faults
    assert outcome.compared["pods"] > 0, "nothing was left to compare"
    assert outcome.deletions["pods"] > 0, "no deletion was judged"
    assert outcome.copies > 0, "no copy had a node"
    assert all(outcome.looked_at[name] > 0 for name in ("acme", "umbrella", "r1", "r2")), "the spy was blind"
