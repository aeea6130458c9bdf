"""A tenant with more objects than a role's memory limit gets an Event, and is served again when it has fewer."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pool_kit import Json, Pool, pod

from hack.testbed.processes import Spawner, free_ports, wait_gone
from tests.real.waiting import eventually
from vcsync.api import names

EACH = 200_000
"""Bytes of an annotation: contents of ConfigMaps are not kept, whole Services are."""


def too_large(pool: Pool, role: str) -> str:
    """Return the message of the Event that says that a tenant is too large for a role; empty if there is none."""
    found = json.loads(pool.bed.meta.kubectl("get", "events", "-n", names.DEFAULT_VC_NAMESPACE, "-o", "json"))
    messages = (each["message"] for each in found["items"] if each["reason"] == "TenantTooLarge")
    return next((each for each in messages if f"of a {role}'s memory" in each), "")


@pytest.mark.timeout(300)
def test_a_tenant_above_the_memory_limit_is_not_synced_until_it_is_below(pool: Pool, tmp_path: Path) -> None:
    system = pool.system
    with pool.space() as space:
        port = free_ports(1)[0]
        [usual] = [system.command("syncer-r1")]
        small = (*usual, "--memory-per-tenant", "1")
        small = tuple(f"127.0.0.1:{port}" if part.startswith("127.0.0.1:") else part for part in small)
        for number in range(6):
            space.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": f"large-{number}", "annotations": {"example.com/text": "x" * 10}},
                    "spec": {"ports": [{"port": 80}]},
                }
            )
            space.kubectl(
                "annotate", "--overwrite", "service", f"large-{number}", f"example.com/text={'x' * 100_000}"
            )
        system.terminate("syncer-r1")
        spawner = Spawner(die_with_us=True)
        process = spawner.start(small, tmp_path / "small.log", Path.cwd())
        try:
            for number in range(6):
                space.kubectl(
                    "annotate",
                    "--overwrite",
                    "service",
                    f"large-{number}",
                    f"example.com/more={'x' * 100_000}",
                )

            assert "--memory-per-tenant" in eventually(lambda: too_large(pool, "syncer"))
            for number in range(6):
                space.kubectl("delete", "service", f"large-{number}")
            space.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "after"}, "data": {"a": "b"}}
            )
            eventually(lambda: space.there("r1", "configmaps", "after"), within=90)
        finally:
            process.send(signal.SIGTERM)
            wait_gone([process], 30, spawner.reap)
            system.start("syncer-r1")


@contextmanager
def small(pool: Pool, role: str) -> Iterator[None]:
    """Run a scheduler with a limit of 1 MiB."""
    system = pool.system
    system.terminate(role)
    system.options[role] = ("--memory-per-tenant", "1")
    try:
        system.start(role)
        yield
    finally:
        del system.options[role]
        system.terminate(role)
        system.start(role)


@pytest.mark.timeout(300)
def test_a_tenant_above_the_memory_limit_gets_no_slices_until_it_is_below(pool: Pool) -> None:
    padded = " " * 100_000 + '{"cpu": "500m", "memory": "1Gi"}'
    large = [f"large-{number}" for number in range(12)]
    with pool.space() as space, small(pool, "nsscheduler"):
        for name in large:
            body = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "annotations": {names.SLICE: padded}},
            }
            space.kubectl("create", "-f", "-", input=json.dumps(body))
        assert "--memory-per-tenant" in eventually(lambda: too_large(pool, "namespace scheduler"))
        assert set(space.placements()) == set(pool.supers), "what is placed stays"
        space.kubectl("delete", "namespace", *large, "--wait=false")
        with pool.space_unplaced() as late:
            eventually(lambda: set(late.placements()) == set(pool.supers), within=90)


def with_many_claims(name: str) -> Json:
    """Return a Pod that takes 25 kB in the Pod scheduler, and waits for claims that do not exist."""
    claims = [f"{number:03}-{'x' * 240}" for number in range(100)]
    found = pod(name)
    found["spec"]["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    return found


@pytest.mark.timeout(300)
def test_a_tenant_above_the_memory_limit_gets_no_pods_placed_until_it_is_below(pool: Pool) -> None:
    with pool.space() as space, small(pool, "podscheduler"):
        space.apply(pod("early"))
        space.running("early")
        large = [with_many_claims(f"large-{number}") for number in range(60)]
        body = {"apiVersion": "v1", "kind": "List", "items": large}
        space.kubectl("create", "-f", "-", input=json.dumps(body))
        assert "--memory-per-tenant" in eventually(lambda: too_large(pool, "Pod scheduler"))
        space.running("early")
        space.kubectl("delete", "pods", *(each["metadata"]["name"] for each in large), "--wait=false")
        space.apply(pod("late"))
        space.running("late", 90)
