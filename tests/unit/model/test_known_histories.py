"""Histories that once made a Pod run twice, end, or wait for ever, and that once exceeded caps and capacity."""

from __future__ import annotations

import pytest

from vcsync.scheduling.snapshot import Health

from .histories import run
from .machine import Step
from .wire import AT_ONCE

TINY, LARGE = '{"cpu":"1m","memory":"1Mi"}', '{"cpu":"100m","memory":"100Mi"}'


def create(name: str = "db-0") -> Step:
    return "create", {"name": name, "cpu": 50, "placed": True}


def quota(slices: int, size: str = "") -> Step:
    return "set_quota", {"slices": slices, "size": size, "decided": True}


def order(what: str, super_id: str = "r1") -> Step:
    return "order", {"super_id": super_id, "what": what, "decided": True}


def sync(super_id: str) -> Step:
    return "sync", {"super_id": super_id}


def runs(super_id: str) -> Step:
    return "run", {"super_id": super_id}


def handle(passes: int) -> Step:
    return "handle", {"role": "r1", "which": 0, "passes": passes, "catch_up": False}


BEGIN: Step = ("begin", {"bound_status": False, "moves": False, "skews": {}})
PLACE: Step = ("place", {})
BOUND_BELOW: Step = ("run_one", {"super_id": "r1", "which": 0, "what": "schedule"})
LOST: Step = ("judge", {"super_id": "r1", "health": int(Health.LOST), "which": ("pods", "slices")})
FENCE: Step = ("fence", {"super_id": "r1", "what": "fence"})
HEAR: Step = ("hear", {"role": "r1", "feed": "copies", "events": AT_ONCE})
REPLY: Step = ("network", {"which": 0, "what": "reply", "passes": AT_ONCE})
ELSEWHERE = [PLACE, sync("r2"), sync("r3"), runs("r2"), runs("r3")]
KNOWN: dict[str, list[Step]] = {
    "slices leave a Pod whose copy has started": [create(), sync("r1"), BOUND_BELOW, order("drain"), *ELSEWHERE],
    "some slices leave a lost super cluster": [quota(6), create(), sync("r1"), BOUND_BELOW, LOST, order("leave"), *ELSEWHERE],
    "a binding comes after its super cluster was fenced": [
        *[create(), sync("r1"), runs("r1"), HEAR, handle(3), handle(3), handle(3), FENCE, order("leave"), *ELSEWHERE],
        *[REPLY, sync("r2"), sync("r3")],
    ],
    "tiny slices become large under a cap": [
        *[quota(1, TINY), order("another namespace clears 200m"), order("cap 200m"), quota(9, LARGE)],
    ],
    "slices get more Pods than fit": [quota(9, LARGE), order("more Pods", "r2")],
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_history_breaks_nothing(name: str) -> None:
    assert run([BEGIN, *KNOWN[name]]) is None
