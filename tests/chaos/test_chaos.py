"""A long run with churn and faults, started by `make chaos`.

CHAOS_SECONDS sets its duration (default 600; faults happen in the first half), CHAOS_SEED its seed (default: a random
one, which is printed).
"""

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from hack.audit import table
from hack.chaos import Weather, storm
from hack.testbed import TestBed

SECONDS = float(os.environ.get("CHAOS_SECONDS", "600"))
SUPERS = 3
TENANTS = 6
ASKING = 2
"""Tenants whose control planes ask the Pod scheduler about new Pods."""
PAUSE = 1.2
"""Maximum seconds between two actions of one tenant. With shorter ones two cores would not keep up."""


@pytest.mark.timeout(SECONDS * 2 + 900)
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"requests": True},
        {"longest_service": 6.0},
        {"longest_service": 6.0, "etcd": True, "clocks": (0.0, 3600.0, -3600.0)},
    ],
    ids=["connections", "connections and answers", "connections and servers", "etcd's members and clocks"],
)
async def test_every_tenant_and_super_cluster_agree_after_a_long_storm(
    tmp_path: Path, kind: dict[str, Any]
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"CHAOS_SEED={seed} CHAOS_SECONDS={SECONDS:.0f}; logs in {tmp_path}", flush=True)
    members = 3 if kind.get("etcd") else 1
    with TestBed(
        supers=SUPERS, nodes=2, tenants=TENANTS, etcd_members=members, directory=tmp_path / "bed"
    ) as bed:
        weather = Weather(
            seed=seed,
            seconds=SECONDS / 2,
            kills_of_each=5,
            settle_seconds=300,
            longest_life=8,
            pause_of_users=PAUSE,
            asking=ASKING,
            **kind,
        )
        outcome = await storm(bed, tmp_path, weather, lambda line: print(line, flush=True))
    print(
        f"kills {outcome.kills}\noutages {outcome.outages}\nfaults {outcome.faults}\nactions {outcome.actions}\n"
        f"released {outcome.released}",
        flush=True,
    )
    assert not outcome.findings, f"seed {seed}, logs in {tmp_path}\n{table(outcome.findings)}"
    assert not outcome.ended_at_work, "a role ended by itself while it worked"
    assert not outcome.unexplained, f"deletions without a cause\n{table(outcome.unexplained)}"
    assert not outcome.sightings
    assert not outcome.refused
    assert outcome.webhook.startswith("served at"), outcome.webhook
    assert outcome.compared["pods"] > 0, "nothing was left to compare"
    assert outcome.deletions["pods"] > 0, "no deletion was judged"
