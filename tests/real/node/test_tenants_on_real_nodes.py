"""Tenants of `vcsync up` whose Pods run in real containers on two super clusters."""

import json
import signal

import pytest

from hack.testbed import TestBed
from tests.real.up_kit import Up
from tests.real.waiting import eventually


@pytest.mark.timeout(600)
def test_pods_of_a_tenant_run_in_real_containers(node_bed: TestBed, up: Up) -> None:
    supers = [f"{name}={cluster.kubeconfig}" for name, cluster in node_bed.supers.items()]
    up.start(*(option for each in supers for option in ("--super-cluster", each)))
    up.kubectl("create quota all --hard=cpu=2,memory=2Gi")
    up.kubectl("create deployment web --image=busybox:1.35 --replicas=4 -- sh -c 'echo started; exec sleep 3600'")
    up.kubectl("set resources deployment web --requests=cpu=100m,memory=32Mi")
    up.running(4)
    assert up.supers() == {"r1", "r2"}
    for pod in up.pods():
        [status] = pod["status"]["containerStatuses"]
        assert status["containerID"].startswith("containerd://")
        assert status["ready"] and status["started"]
        assert pod["status"]["podIP"].startswith("10.")
    assert up.end(signal.SIGTERM) == 0


@pytest.mark.timeout(600)
def test_a_tenant_sees_how_its_container_ended(node_bed: TestBed, up: Up) -> None:
    up.start("--super-cluster", f"r1={node_bed.supers['r1'].kubeconfig}")
    up.kubectl("create quota all --hard=cpu=2,memory=2Gi")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "brief"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1.35",
                    "command": ["sh", "-c", "echo bye > /dev/termination-log; exit 3"],
                    "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}},
                }
            ],
        },
    }
    up.type(f"kubectl create -f - <<'END'\n{json.dumps(pod)}\nEND", KUBECONFIG=str(up.data / "acme.kubeconfig"))
    [found] = eventually(lambda: [each for each in up.pods() if each["status"]["phase"] == "Failed"])
    [status] = found["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (3, "bye\n")
    assert up.end(signal.SIGTERM) == 0
