"""Histories of a pool in which everything happens in any order: nothing runs twice, nothing is lost, orders arrive.

The short profile makes the same histories each time. `VCSYNC_MODEL_SECONDS` makes new ones for so many seconds, from the seed
`VCSYNC_MODEL_SEED` on. What fails is made short, printed and stored, and is tried first the next time.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from .histories import load, run, save, shrink, text
from .machine import Pool, Step

SEED = int(os.environ.get("VCSYNC_MODEL_SEED") or secrets.randbelow(10**6))
SECONDS = float(os.environ.get("VCSYNC_MODEL_SECONDS", "0"))
STORE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vcsync" / "model"
PROFILE = settings(
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    print_blob=False,
    suppress_health_check=[*HealthCheck],
)
SHORT = settings(PROFILE, max_examples=25, stateful_step_count=40, derandomize=True)
LONG = settings(PROFILE, max_examples=40, stateful_step_count=80, derandomize=False)


@pytest.fixture(autouse=True)
def quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def explore(profile: settings, number: int) -> list[Step] | None:
    """Make histories. Return one that fails; None if none does."""
    machine = seed(number)(type("Pool", (Pool,), {}))
    try:
        run_state_machine_as_test(machine, settings=profile)
    except Exception:  # noqa: BLE001 - each error is a finding
        return list(Pool.last)
    return None


def check(history: list[Step] | None, hint: str = "") -> None:
    """Fail with the shortest form of a history that does not hold, and store it."""
    error = run(history) if history else None
    if history is None:
        return
    if error is not None:
        history = shrink(history, error)
    if SECONDS:
        hint += f"stored in {save(STORE, history)}"
    pytest.fail(f"{error!r} after\n{text(history)}\n{hint}", pytrace=False)


@pytest.mark.timeout(SECONDS * 2 + 1200)
def test_any_history_of_a_pool() -> None:
    check(explore(SHORT, 1))
    if not SECONDS:
        return
    for history in load(STORE):
        if run(history) is not None:
            check(history, "it failed before; ")
    number, until = SEED, time.monotonic() + SECONDS
    while time.monotonic() < until:
        print(f"VCSYNC_MODEL_SEED={number}", flush=True)
        check(explore(LONG, number), f"VCSYNC_MODEL_SEED={number}; ")
        number += 1
