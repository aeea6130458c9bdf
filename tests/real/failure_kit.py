"""Helpers for the tests of super clusters that fail: a pool of three, and what the schedulers think of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.system import System
from hack.testbed import TestBed
from tests.real.pool.pool_kit import Json, Pool, Space
from tests.real.waiting import eventually

SCHEDULERS = ("nsscheduler", "podscheduler")
# Above the 20 seconds between two heartbeats.
PATIENCE = ("--suspect-after", "30", "--lost-after", "45")
LOSS_SECONDS = 120
RETURN_SECONDS = 180
THREE_SLICES = {"cpu": "1500m", "memory": "1536Mi"}


@contextmanager
def impatient_pool(directory: Path) -> Iterator[Pool]:
    """Run three super clusters, and roles with little patience."""
    bed = TestBed(supers=3, nodes=1, tenants=("acme",), directory=directory / "bed")
    with bed:
        system = System(bed, directory / "system")
        roles = (*SCHEDULERS, *(f"syncer-{super_id}" for super_id in bed.supers))
        system.options |= dict.fromkeys(roles, PATIENCE)
        with system:
            yield Pool(bed, system)


@contextmanager
def space_on_all(pool: Pool) -> Iterator[Space]:
    """Make a namespace with a slice on each super cluster, once those that an earlier test had fail are back."""
    eventually(lambda: all(health(pool, super_id) == {"Ready"} for super_id in pool.supers), RETURN_SECONDS)
    with pool.space(hard=THREE_SLICES) as space:
        yield space


def seen(pool: Pool, scheduler: str) -> dict[str, Json]:
    """Return the super clusters as a scheduler sees them."""
    status = pool.system.status(scheduler)["roles"][scheduler]
    assert "superClusters" in status, f"{scheduler} does not lead at present"
    found: dict[str, Json] = status["superClusters"]
    return found


def health(pool: Pool, super_id: str) -> set[str]:
    """Return a super cluster's health according to both schedulers."""
    return {seen(pool, scheduler)[super_id]["health"] for scheduler in SCHEDULERS}


def listed(pool: Pool, super_id: str) -> Json:
    """Return a super cluster's health from `vcsync super list`."""
    shown = json.loads(pool.system.vcsync("super", "list", "-o", "json"))
    found: Json = next(each["health"] for each in shown if each["name"] == super_id)
    return found


def uids(pods: list[Json]) -> set[str]:
    return {each["metadata"]["uid"] for each in pods}


def copies(pool: Pool, space: Space) -> list[str]:
    """Return the names of all copies of the namespace's Pods."""
    return sorted(
        each["metadata"]["name"] for super_id in pool.supers for each in space.all_there(super_id, "pods")
    )


def names_of(found: list[Json]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in found)
