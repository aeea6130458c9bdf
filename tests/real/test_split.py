"""The roles in separate processes with one vcsync.yaml: the commands of config/compose, without containers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.split_kit import SERVICES, Split
from tests.real.waiting import eventually


@pytest.fixture
def split(tmp_path: Path) -> Iterator[Split]:
    made = Split(tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(390)
@pytest.mark.core
def test_roles_in_separate_processes_share_one_file(split: Split) -> None:
    split.start("controlplane")
    assert "tenant umbrella" in split.run("setup")  # waits for the control plane
    roles = [service for service in SERVICES if service not in ("controlplane", "setup")]
    for service in roles:
        split.start(service)

    def nodes() -> list[int]:
        pool = json.loads(split.kubectl("admin", "get", "superclusters", "-o", "json"))["items"]
        return [one.get("status", {}).get("nodes", {}).get("ready", 0) for one in pool]

    def all_reported() -> bool:
        assert nodes() == [3, 3], nodes()
        return True

    eventually(all_reported, within=120)
    for tenant in ("acme", "umbrella"):
        split.kubectl(tenant, "create", "quota", "all", "--hard=cpu=8,memory=16Gi")
        split.kubectl(tenant, "create", "deployment", "web", "--image=nginx", "--replicas=4")
        split.kubectl(tenant, "set", "resources", "deployment", "web", "--requests=cpu=500m,memory=128Mi")

    def all_run(tenant: str) -> bool:
        pods = json.loads(split.kubectl(tenant, "get", "pods", "-o", "json"))["items"]
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        assert len(running) == len(pods) == 4, split.kubectl(tenant, "describe", "pods")[-3000:]
        return {pod["spec"]["nodeName"].rpartition(".")[2] for pod in running} <= {"r1", "r2"}

    for tenant in ("acme", "umbrella"):
        eventually(lambda tenant=tenant: all_run(tenant), within=120)
    assert "super cluster r1" in split.run("setup")  # again: it finds everything there
    assert split.end(*roles) == {0}
    assert split.end("controlplane") == {0}
