"""A tenant with more objects than a syncer's memory limit gets an Event, and is synced again when it has fewer."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from pool_kit import Pool

from hack.testbed.processes import Spawner, free_ports, wait_gone
from tests.real.waiting import eventually
from vcsync.api import names

EACH = 200_000
"""Bytes of an annotation: contents of ConfigMaps are not kept, whole Services are."""


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

            def message() -> str:
                found = json.loads(
                    pool.bed.meta.kubectl("get", "events", "-n", names.DEFAULT_VC_NAMESPACE, "-o", "json")
                )
                return next((e["message"] for e in found["items"] if e["reason"] == "TenantTooLarge"), "")

            assert "--memory-per-tenant" in eventually(message)
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
