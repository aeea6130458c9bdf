"""`vcsync up`: from nothing to Pods on two super clusters, in one process; killed and started again, nothing is lost."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.testbed import TestBed
from tests.real.up_kit import VCSYNC, Up, eventually
from vcsync.api import names

BREAKABLE = """
import asyncio, sys
from pathlib import Path
from vcsync.cli import up_roles
from vcsync.cli.main import main
from vcsync.cli.pool_role import PoolRole
from vcsync.cli.roles import SyncerRole
from vcsync.controllers.service import Controllers
from vcsync.nsscheduler import NamespaceScheduler
from vcsync.podscheduler import PodScheduler
from vcsync.simulate.cluster import HollowCluster

def breakable(owner, name, trigger):
    real = getattr(owner, name)

    async def run(*arguments):
        work = asyncio.ensure_future(real(*arguments))
        try:
            while not work.done() and not Path(trigger).exists():
                await asyncio.sleep(0.05)
        finally:
            work.cancel()
            await asyncio.wait([work])
        Path(trigger).unlink(missing_ok=True)
        raise RuntimeError("a defect")

    setattr(owner, name, run)

breakable(up_roles, "run_control_plane", "break-controlplane")
for owner in (Controllers, NamespaceScheduler, PodScheduler, HollowCluster, SyncerRole, PoolRole):
    breakable(owner, "run", f"break-{owner.__name__}")
sys.exit(main(sys.argv[1:]))
"""
"""A program like vcsync's, where a role fails once a file of its name appears."""

LEFT_BEHIND = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "node-0.gone",
            "labels": {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: "gone"},
        },
    }
)
"""A virtual node of a super cluster that was removed while nobody noticed."""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path)
    yield made
    if made.begun and made.alive:
        made.end(signal.SIGKILL)


def refused(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a `vcsync up` that cannot start."""
    return subprocess.run([*VCSYNC, "up", *options], capture_output=True, text=True, check=False, timeout=90)


@pytest.mark.timeout(390)
def test_a_newcomer_types_what_is_shown_and_keeps_it_over_a_crash(up: Up) -> None:
    up.start("--tenants", "acme,umbrella")
    shown = "\n".join(re.findall(r"^  (.*)$", up.log.read_text(), re.MULTILINE))
    assert "kubectl create deployment" in shown
    answers = up.type(shown)
    assert "syncer/r1" in answers  # vcsync status
    assert "acme/default" in answers  # vcsync explain
    up.kubectl("rollout status deployment/web --timeout=90s")
    pods = up.running(6)
    assert up.supers() == {"r1", "r2"}
    assert up.pods("umbrella") == []
    warned = up.kubectl("create ingress web --rule=example.com/*=web:80 2>&1")
    assert "Warning: Ingresses are not carried to the clusters that your Pods run on" in warned
    node = up.kubectl("get nodes -o name").split()[0]
    assert "to cordon it has no effect" in up.kubectl(f"cordon {node} 2>&1 && kubectl uncordon {node} 2>&1")

    up.type(f"kubectl create -f - <<< '{LEFT_BEHIND}'", KUBECONFIG=str(up.data / "acme.kubeconfig"))
    up.end(signal.SIGKILL)
    up.start("--tenants", "acme,umbrella")
    assert up.running(6) == pods
    eventually(lambda: ".gone" not in up.kubectl("get nodes -o name"))

    up.kubectl("scale deployment/web --replicas=2")
    assert up.running(2) < pods
    up.type(f"vcsync super remove r2 --force --meta {up.data / 'admin.kubeconfig'}")
    eventually(lambda: ".r2" not in up.kubectl("get nodes -o name"))
    assert up.ready()
    assert up.end(signal.SIGTERM) == 0


@pytest.mark.timeout(390)
def test_a_tenant_and_a_super_cluster_with_new_keys_are_served_on(up: Up) -> None:
    up.start("--tenants", "acme", "--hollow", "r1")
    up.kubectl("create quota all --hard=cpu=8,memory=16Gi")
    up.kubectl("create deployment web --image=nginx")
    up.kubectl("set resources deployment/web --requests=cpu=100m,memory=128Mi")
    up.running(1)
    for space in ("acme", "r1"):
        told = up.type(f"vcsync tenant rotate {space} --data {up.data}")
        assert "the roles that serve it have new credentials" in told
        following = told.splitlines()[-1].removeprefix("next: ")
        up.type(f"cd {up.data}; {following}")
    up.kubectl("scale deployment/web --replicas=4")
    up.running(4)


@pytest.mark.timeout(390)
def test_a_tenant_whose_virtual_cluster_is_deleted_by_kubectl_leaves_nothing(up: Up) -> None:
    up.start("--tenants", "acme,umbrella", "--hollow", "r1")
    find = "get namespaces -o jsonpath='{.items[*].metadata.name}'"
    (root,) = [name for name in up.kubectl(find, "admin").split() if name.endswith("-umbrella")]
    quota = "create quota all --hard=cpu=2,memory=4Gi"
    up.kubectl(quota, "umbrella")
    held = "get namespaceplacements -A -o jsonpath='{.items[*].status.placements}'"
    eventually(lambda: "r1" in up.kubectl(held, "admin"))
    assert "kubeconfig-syncer" in up.kubectl(f"get secrets -n {root} -o name", "admin")

    up.kubectl("delete virtualcluster umbrella -n vcsync --timeout=60s", "admin")

    eventually(lambda: root not in up.kubectl(find, "admin").split())
    assert root not in up.kubectl("get secrets -A", "admin")
    left = up.kubectl("get virtualclusters -A -o name", "admin")
    assert "acme" in left
    assert "umbrella" not in left
    up.type(f"vcsync tenant delete umbrella --data {up.data}")


def test_two_systems_at_once_choose_ports_of_their_own_and_leave_nothing(tmp_path: Path) -> None:
    first, second = Up(tmp_path / "first"), Up(tmp_path / "second")
    scratch = {}
    try:
        for each in (first, second):
            each.options = ()
            each.start("--ephemeral", "--hollow", "r1", "--tenants", "")
            told = re.search(
                r"(https://\S+) \(its CA: (\S+)/ca.crt\)[\s\S]*?(http://\S+)", each.log.read_text()
            )
            assert told is not None
            scratch[each] = told.groups()
        urls = [part for url, _, status in scratch.values() for part in (url, status)]
        assert len(set(urls)) == 4
        port = scratch[first][0].rpartition(":")[2]
        taken = refused("--ephemeral", "--listen", f"127.0.0.1:{port}")
        assert (taken.returncode, "choose another with --listen" in taken.stderr) == (1, True), taken.stderr
        other = refused("--ephemeral", "--status", f"127.0.0.1:{port}")
        assert (other.returncode, "choose another with --status" in other.stderr) == (2, True), other.stderr
        same = refused("--data", scratch[first][1], "--listen", "127.0.0.1:1")
        assert (same.returncode, "in use" in same.stderr) == (1, True), same.stderr
        assert "Traceback" not in taken.stderr + same.stderr
    finally:
        codes = [each.end(signal.SIGINT) for each in (first, second) if each.begun]
    assert codes == [0, 0]
    assert not any(Path(folder).exists() for _, folder, _ in scratch.values())


@pytest.mark.timeout(390)
def test_a_roles_defect_takes_no_other_down_and_is_told(up: Up) -> None:
    up.start(program=(sys.executable, "-c", BREAKABLE))
    broken = {
        "Controllers": "controllers",
        "NamespaceScheduler": "nsscheduler",
        "PodScheduler": "podscheduler",
        "PoolRole": "pool",
        "HollowCluster": "hollow/",
        "SyncerRole": "syncer/",
    }
    for trigger in broken:
        (up.folder / f"break-{trigger}").touch()

    def failed(name: str) -> bool:
        roles = up.roles()
        return any(
            roles[each]["restarts"] >= 1 and roles[each]["lastFailure"]["error"] == "RuntimeError: a defect"
            for each in roles
            if each.startswith(name)
        )

    for name in broken.values():
        eventually(lambda name=name: failed(name))
    assert up.roles()["controlplane"]["restarts"] == 0
    (up.folder / "break-controlplane").touch()
    eventually(lambda: failed("controlplane"))
    eventually(up.ready)
    up.kubectl("create quota all --hard=cpu=8,memory=16Gi")
    up.kubectl("create deployment web --image=nginx --replicas=4")
    up.kubectl("set resources deployment web --requests=cpu=500m,memory=128Mi")
    up.running(4)
    assert up.supers() == {"r1", "r2"}
    assert up.end(signal.SIGTERM) == 0


@pytest.mark.timeout(390)
def test_a_real_super_cluster_stands_beside_a_hollow_one(up: Up, tmp_path: Path) -> None:
    with TestBed(supers=1, nodes=2, tenants=(), directory=tmp_path / "bed", embedded=("meta",)) as bed:
        real = f"real={bed.supers['r1'].kubeconfig}"
        up.start("--super-cluster", real, "--hollow", "pretended")
        up.kubectl("create quota all --hard=cpu=8,memory=16Gi")
        up.kubectl("create deployment web --image=nginx --replicas=4")
        up.kubectl("set resources deployment web --requests=cpu=500m,memory=128Mi")
        up.running(4)
        assert up.supers() == {"real", "pretended"}
        assert up.end(signal.SIGTERM) == 0
