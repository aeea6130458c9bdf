"""Helpers for the tests of super clusters that fail: a pool of three, and what the schedulers think of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.system import System, SystemFailed
from hack.testbed import TestBed
from tests.real.pool.pool_kit import Json, Pool, Space, deployment, read, super_of
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.podscheduler.evictions import EVICTED
from vcsync.syncer.tenant import SLICES_LOST

SCHEDULERS = ("nsscheduler", "podscheduler")
# Above the 20 seconds between two heartbeats.
PATIENCE = ("--suspect-after", "30", "--lost-after", "45")
LOSS_SECONDS = 120
RETURN_SECONDS = 180
AT_ONCE = "MoveAfter=5s"
THREE_SLICES = {"cpu": "1500m", "memory": "1536Mi"}


@contextmanager
def impatient_pool(directory: Path) -> Iterator[Pool]:
    """Run three super clusters, and roles with little patience."""
    bed = TestBed(supers=3, nodes=1, tenants=("acme",), directory=directory / "bed")
    with bed:
        system = System(bed, directory / "system")
        system.options |= dict.fromkeys(system.role_names, PATIENCE)
        with system:
            yield Pool(bed, system)


@contextmanager
def space_on_all(pool: Pool) -> Iterator[Space]:
    """Make a namespace with a slice on each super cluster, of whose earlier failures nothing is remembered."""
    forget_failures(pool.bed, pool.system)
    eventually(lambda: all(health(pool, super_id) == {"Ready"} for super_id in pool.supers), RETURN_SECONDS)
    with pool.space(hard=THREE_SLICES) as space:
        yield space


def seen(pool: Pool, scheduler: str) -> dict[str, Json]:
    """Return the super clusters as a scheduler sees them."""
    status = pool.system.status(scheduler)["roles"][scheduler]
    assert "superClusters" in status, f"{scheduler} does not lead at present"
    found: dict[str, Json] = status["superClusters"]
    assert found.keys() == set(pool.supers), f"{scheduler} has not read the pool yet"
    return found


def health(pool: Pool, super_id: str) -> set[str]:
    """Return a super cluster's health according to both schedulers."""
    return {seen(pool, scheduler)[super_id]["health"] for scheduler in SCHEDULERS}


def listed(pool: Pool, super_id: str) -> Json:
    """Return a super cluster's health from `vcsync super list`."""
    shown = json.loads(pool.system.vcsync("super", "list", "-o", "json"))
    found: Json = next(each["health"] for each in shown if each["name"] == super_id)
    return found


def recorded(pool: Pool, super_id: str) -> Json:
    """Return what the namespace scheduler has stored of a super cluster's failures."""
    found = read(pool.bed.meta, f"/apis/{names.API_VERSION}/superclusters/{super_id}")
    record: Json = (found or {}).get("status", {}).get("failure", {})
    return record


def restart_schedulers(pool: Pool) -> None:
    """Begin new terms of both schedulers, and wait until they lead."""
    for scheduler in SCHEDULERS:
        pool.system.terminate(scheduler)
    pool.system.start(*SCHEDULERS)
    eventually(lambda: all(seen(pool, scheduler) for scheduler in SCHEDULERS))


def forget_failures(bed: TestBed, system: System) -> None:
    """Begin new terms of both schedulers without the records of earlier ones. Each failure doubles the quiet time."""
    for scheduler in SCHEDULERS:
        system.terminate(scheduler)
    for super_id in bed.supers:
        path = SUPER_CLUSTERS.path(name=super_id, subresource="status")
        code, answer = bed.meta.call("PATCH", path, {"status": {"failure": None}})
        assert code == 200, answer
    system.start(*SCHEDULERS)


def uids(pods: list[Json]) -> set[str]:
    return {each["metadata"]["uid"] for each in pods}


def copies(pool: Pool, space: Space) -> list[str]:
    """Return the names of all copies of the namespace's Pods."""
    return sorted(
        each["metadata"]["name"] for super_id in pool.supers for each in space.all_there(super_id, "pods")
    )


def names_of(found: list[Json]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in found)


def stateful_set(name: str, replicas: int) -> Json:
    """Return a StatefulSet whose Pods are made together."""
    made = deployment(name, replicas)
    return {
        **made,
        "kind": "StatefulSet",
        "spec": {**made["spec"], "serviceName": name, "podManagementPolicy": "Parallel"},
    }


def on(found: list[Json], super_id: str) -> set[str]:
    """Return the names of the Pods on a super cluster."""
    return {each["metadata"]["name"] for each in found if super_of(each) == super_id}


def terminating(space: Space, app: str) -> set[str]:
    """Return the names of an app's Pods that are being deleted."""
    found = space.all("pods", f"labelSelector=app%3D{app}")
    return {each["metadata"]["name"] for each in found if "deletionTimestamp" in each["metadata"]}


def spread(space: Space) -> None:
    """Create an app of each kind with a Pod on each super cluster, again if one did not take Pods for a moment."""
    apps = (deployment("web", 3), stateful_set("db", 3))

    def made() -> bool:
        space.apply(*apps)
        found = [{super_of(each) for each in space.all_running(app, 3)} for app in ("web", "db")]
        if all(each == set(space.pool.supers) for each in found):
            return True
        space.kubectl("delete", "deployment/web", "statefulset/db")
        eventually(lambda: not space.all("pods"))
        return False

    eventually(made, RETURN_SECONDS)


def lifted(pool: Pool, super_id: str) -> bool:
    """Lift a fence. Return whether that succeeded, or there is none."""
    try:
        pool.system.vcsync("super", "unfence", super_id)
    except SystemFailed as error:
        return "is not fenced" in str(error)
    return True


def told_to_leave(space: Space, name: str) -> list[Json]:
    """Return the Events that say why a Pod is evicted: the Pod scheduler's, or those of a syncer that still works."""
    return [*space.events(name, EVICTED), *space.events(name, SLICES_LOST)]
