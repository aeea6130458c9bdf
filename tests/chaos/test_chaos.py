"""A long run with churn and faults, started by `make chaos`.

CHAOS_SECONDS sets its duration (default 600; faults happen in the first half), CHAOS_SEED its seed (default: a random
one, which is printed).
"""

import os
import secrets
import time
from pathlib import Path
from typing import Any

import pytest

from hack.audit import table
from hack.chaos import Weather, storm
from hack.testbed import TestBed
from tests.real import waiting
from tests.real.waiting import limit

SECONDS = float(os.environ.get("CHAOS_SECONDS", "600"))
SUPERS = 3
TENANTS = 6
ASKING = 2
"""Tenants whose control planes ask the Pod scheduler about new Pods."""
PAUSE = 1.2
"""Maximum seconds between two actions of one tenant. With shorter ones two cores would not keep up."""
USUAL_SECONDS = 25.0
"""Time that the clusters need to start on a quiet machine with two processors."""


@pytest.mark.timeout(SECONDS * 2 + 3600)
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"requests": True},
        {"longest_service": 6.0},
        {"longest_service": 6.0, "etcd": True, "clocks": (0.0, 3600.0, -3600.0)},
        {"moves": True, "longest_life": 60},
        {"moves": True, "longest_life": 30, "longest_service": 30.0},
    ],
    ids=[
        "connections",
        "connections and answers",
        "connections and servers",
        "etcd's members and clocks",
        "moves and losses",
        "moves, losses and servers",
    ],
)
async def test_every_tenant_and_super_cluster_agree_after_a_long_storm(
    tmp_path: Path, kind: dict[str, Any]
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"CHAOS_SEED={seed} CHAOS_SECONDS={SECONDS:.0f}; logs in {tmp_path}", flush=True)
    members = 3 if kind.get("etcd") else 1
    began = time.monotonic()
    with TestBed(
        supers=SUPERS, nodes=2, tenants=TENANTS, etcd_members=members, directory=tmp_path / "bed"
    ) as bed:
        waiting.observe(time.monotonic() - began, USUAL_SECONDS)
        usual: dict[str, Any] = {"kills_of_each": 1 if kind.get("moves") else 5, "longest_life": 8}
        weather = Weather(
            seed=seed,
            seconds=SECONDS / 2,
            settle_seconds=limit(300),
            pause_of_users=PAUSE,
            asking=ASKING,
            **usual | kind,
        )
        outcome = await storm(bed, tmp_path, weather, lambda line: print(line, flush=True))
    print(
        f"kills {outcome.kills}\noutages {outcome.outages}\nfaults {outcome.faults}\nactions {outcome.actions}\n"
        f"moves {outcome.moves}\nrefused moves {outcome.moves_refused}\nreleased {outcome.released}\n"
        f"copies {outcome.copies}\ndeletions {outcome.deletions}\nroles that ended at their start {len(outcome.ended)}",
        flush=True,
    )
    assert not outcome.findings, f"seed {seed}, logs in {tmp_path}\n{table(outcome.findings)}"
    assert not outcome.ended_at_work, "a role ended by itself while it worked"
    assert not outcome.unexplained, f"deletions without a cause\n{table(outcome.unexplained)}"
    assert not outcome.twice, f"Pods that ran twice\n{table(outcome.twice)}"
    assert not outcome.sightings
    assert not outcome.refused
    assert outcome.webhook.startswith("served at"), outcome.webhook
    assert outcome.compared["pods"] > 0, "nothing was left to compare"
    assert outcome.deletions["pods"] > 0, "no deletion was judged"
    assert outcome.copies > 0, "no copy had a node"
