"""`vcsync up` with a real super cluster beside a hollow one."""

import signal
from pathlib import Path

import pytest

from hack.testbed import TestBed
from tests.real.up_kit import Up


@pytest.mark.timeout(390)
def test_a_real_super_cluster_works_next_to_a_hollow_one(up: Up, tmp_path: Path) -> None:
    with TestBed(supers=1, nodes=2, tenants=(), directory=tmp_path / "bed", embedded=("meta",)) as bed:
        real = f"real={bed.supers['r1'].kubeconfig}"
        up.start("--super-cluster", real, "--hollow", "pretended")
        up.kubectl("create quota all --hard=cpu=8,memory=16Gi")
        up.kubectl("create deployment web --image=nginx --replicas=4")
        up.kubectl("set resources deployment web --requests=cpu=500m,memory=128Mi")
        up.running(4)
        assert up.supers() == {"real", "pretended"}
        assert up.end(signal.SIGTERM) == 0
