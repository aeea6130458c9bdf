"""Kills of `vcsync up` while users act in its tenants.

CHAOS_SECONDS sets the duration (default 600; kills happen in the first half), CHAOS_SEED the seed (default: a random
one, which is printed).
"""

import os
import secrets
from pathlib import Path

import pytest

from hack.audit import table
from hack.chaos.up import storm

SECONDS = float(os.environ.get("CHAOS_SECONDS", "600"))


@pytest.mark.timeout(SECONDS * 2 + 900)
def test_every_tenant_of_up_and_super_cluster_agree_after_many_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"CHAOS_SEED={seed} CHAOS_SECONDS={SECONDS:.0f}; data in {tmp_path}", flush=True)
    outcome = storm(tmp_path / "up", seed, SECONDS / 2, 300, lambda line: print(line, flush=True))
    assert not outcome.findings, f"seed {seed}, data in {tmp_path}\n{table(outcome.findings)}"
    assert not outcome.twice, f"Pods that ran twice\n{table(outcome.twice)}"
    assert outcome.copies > 0, "no copy had a node"
    assert not outcome.refused
    assert outcome.kills > 0
    assert outcome.actions["new_pod_with_volume"] > 0, "users did nothing"
    assert outcome.compared > 0, "nothing was left to compare"
