"""A long storm. CHAOS_SECONDS (600) and CHAOS_SEED (random, printed) change it; `make chaos` runs it."""

import os
import secrets
from pathlib import Path

import pytest

from hack.audit import table
from hack.chaos import Weather, storm
from hack.testbed import TestBed

SECONDS = float(os.environ.get("CHAOS_SECONDS", "600"))


@pytest.mark.timeout(SECONDS * 2 + 900)
@pytest.mark.parametrize(
    ("requests", "longest_service"),
    [(False, 0.0), (True, 0.0), (False, 6.0)],
    ids=["connections", "connections and answers", "connections and servers"],
)
async def test_every_tenant_and_super_cluster_agree_after_a_long_storm(
    tmp_path: Path, requests: bool, longest_service: float
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"CHAOS_SEED={seed} CHAOS_SECONDS={SECONDS:.0f}; logs in {tmp_path}", flush=True)
    with TestBed(supers=2, nodes=2, tenants=3, directory=tmp_path / "bed") as bed:
        weather = Weather(
            seed=seed,
            seconds=SECONDS / 2,
            kills_of_each=5,
            settle_seconds=300,
            longest_life=8,
            requests=requests,
            longest_service=longest_service,
        )
        outcome = await storm(bed, tmp_path, weather, lambda line: print(line, flush=True))
    print(
        f"kills {outcome.kills}\noutages {outcome.outages}\nfaults {outcome.faults}\nactions {outcome.actions}",
        flush=True,
    )
    assert not outcome.findings, f"seed {seed}, logs in {tmp_path}\n{table(outcome.findings)}"
    assert not outcome.sightings
    assert not outcome.refused
    assert outcome.compared["pods"] > 0, "nothing was left to compare"
