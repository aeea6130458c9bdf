"""Exact counting of tenants' usage: with kubectl, over restarts, and by two processes over etcd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.testbed import ensure
from tests.real.waiting import eventually

SECONDS = 60.0
"""For usage to be written: `meter.FLUSH_SECONDS`, and time for a slow machine."""
READS, WRITES = 7, 4
KUBECTL = str(ensure(["kubectl"])["kubectl"])


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    command = [KUBECTL, "--kubeconfig", str(kubeconfig), *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "HOME": "/nowhere"},
    )
    return done.stdout


def use(kubeconfig: Path, start: int = 0) -> None:
    """Make exactly `READS` reads and `WRITES` writes. Raw requests need no discovery."""
    path = "/api/v1/namespaces/default/configmaps"
    folder = kubeconfig.parent
    for number in range(start, start + WRITES):
        body = folder / "body.json"
        body.write_text(json.dumps({"metadata": {"name": f"cm-{number}"}, "data": {"k": "v" * 1000}}))
        kubectl(kubeconfig, "create", "--raw", path, "-f", str(body))
    for _ in range(READS):
        kubectl(kubeconfig, "get", "--raw", path)


def usage(plane: ControlPlane, tenant: str, *options: str) -> dict[str, Any]:
    """Return what a tenant used, over all hours."""
    items = json.loads(plane.vcsync("usage", "--tenant", tenant, "-o", "json", *options))["items"]
    return items[0] if items else {"reads": 0, "writes": 0, "watchSeconds": "0"}


def counts(plane: ControlPlane, tenant: str) -> tuple[int, int]:
    found = usage(plane, tenant)
    return found["reads"], found["writes"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


def test_known_requests_are_counted_exactly_over_restarts(plane: ControlPlane) -> None:
    acme = plane.create("acme")
    use(acme)
    plane.stop()
    plane.start()
    # An orderly end writes everything at once.
    assert counts(plane, "acme") == (READS, WRITES)
    use(acme, WRITES)
    eventually(lambda: counts(plane, "acme") == (2 * READS, 2 * WRITES))
    plane.stop(signal.SIGKILL)
    plane.start()
    found = usage(plane, "acme")
    assert (found["reads"], found["writes"]) == (2 * READS, 2 * WRITES)
    assert found["bytesIn"] > 2 * WRITES * 1000
    assert found["bytesOut"] > READS * WRITES * 1000
    assert found["storageBytes"] > 2 * WRITES * 1000


@pytest.mark.core
def test_watches_are_counted_and_costs_are_shown(plane: ControlPlane, tmp_path: Path) -> None:
    beta = plane.create("beta")
    command = [KUBECTL, "--kubeconfig", str(beta), "get", "configmaps", "--watch-only"]
    watching = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(tmp_path)})
    try:
        eventually(lambda: float(usage(plane, "beta")["watchSeconds"]) > 1)
    finally:
        watching.terminate()
        watching.wait()
    prices = tmp_path / "prices.yaml"
    prices.write_text("watches: 3600\n")
    shown = usage(plane, "beta", "--prices", str(prices))
    assert abs(float(shown["cost"]) - float(shown["watchSeconds"])) < 0.001
    answer = json.loads(plane.vcsync("usage", "-o", "opencost", "--step", "hour", "--prices", str(prices)))
    assert any(window["beta"]["totalCost"] > 1 for window in answer["data"] if "beta" in window)


def test_a_deleted_tenants_usage_stays_and_a_new_one_of_its_name_begins_at_zero(plane: ControlPlane) -> None:
    gone = plane.create("gone")
    use(gone)
    eventually(lambda: counts(plane, "gone") == (READS, WRITES))
    plane.vcsync("tenant", "delete", "gone", "--force")
    assert counts(plane, "gone") == (READS, WRITES)
    use(plane.create("gone"), WRITES)
    eventually(lambda: len(json.loads(plane.vcsync("usage", "--tenant", "gone", "-o", "json"))["items"]) == 2)

    def both() -> bool:
        items = json.loads(plane.vcsync("usage", "--tenant", "gone", "-o", "json"))["items"]
        return sorted((each["reads"], each["writes"]) for each in items) == [(READS, WRITES)] * 2

    eventually(both)


def test_a_tenant_cannot_read_usage(plane: ControlPlane) -> None:
    kubeconfig = plane.create("curious")
    for path in ("/vcsync/v1/tenants/acme/usage", "/vcsync/v1/tenants/all/usage"):
        refused = subprocess.run(
            [KUBECTL, "--kubeconfig", str(kubeconfig), "get", "--raw", path],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode != 0
        assert "forbidden" in refused.stderr.lower()


def test_the_counts_of_two_processes_add_up(tmp_path: Path) -> None:
    with (
        Etcd(tmp_path / "etcd") as etcd,
        ControlPlane(tmp_path / "one", etcd=etcd.url) as one,
        ControlPlane(tmp_path / "other", etcd=etcd.url) as other,
    ):
        here = one.create("acme")
        there = tmp_path / "other" / "acme.kubeconfig"
        there.write_text(here.read_text().replace(f":{one.port}", f":{other.port}"))
        use(here)
        use(there, WRITES)
        eventually(lambda: counts(one, "acme") == (2 * READS, 2 * WRITES))
        assert counts(other, "acme") == (2 * READS, 2 * WRITES)
        other.stop(signal.SIGKILL)
        assert counts(one, "acme") == (2 * READS, 2 * WRITES)
