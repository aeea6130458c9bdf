"""`vcsync up` with a super cluster whose node is real."""

import signal
from pathlib import Path

import pytest

from hack.testbed import TestBed
from tests.real.up_kit import Up


@pytest.mark.timeout(600)
def test_pods_of_vcsync_up_run_in_real_containers(up: Up, tmp_path: Path) -> None:
    with TestBed(supers=1, tenants=0, embedded=("meta",), real_nodes=True, directory=tmp_path / "bed") as bed:
        up.start("--super-cluster", f"r1={bed.supers['r1'].kubeconfig}")
        up.kubectl("create quota all --hard=cpu=1,memory=1Gi")
        up.kubectl(
            "create deployment web --image=busybox:1.35 --replicas=2 -- sh -c 'echo begun; sleep 3600'"
        )
        up.kubectl("set resources deployment web --requests=cpu=100m,memory=32Mi")
        up.running(2)
        for pod in up.pods():
            [status] = pod["status"]["containerStatuses"]
            assert status["containerID"].startswith("containerd://")
        assert up.kubectl("logs deployment/web") == "begun\n"
        assert up.kubectl("exec deployment/web -- cat /proc/1/comm") == "sleep\n"
        assert up.kubectl("exec deployment/web -- head -c 20000000 /dev/zero | wc -c") == "20000000\n"
        assert up.kubectl("exec -i deployment/web -- wc -c <<< 12345") == "6\n"
        assert "exit code 7" in up.kubectl("exec deployment/web -- sh -c 'exit 7' 2>&1 || true")
        assert up.end(signal.SIGTERM) == 0
