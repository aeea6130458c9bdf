"""`vcsync up`: starts a whole system in one process, up to Pods on two super clusters, and survives a crash."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hack.testbed import ensure
from tests.real.up_kit import VCSYNC, Up
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.objects.quantity import milli
from vcsync.objects.readable_amounts import readable

BREAKABLE = """
import asyncio, sys
from pathlib import Path
from vcsync.cli.up import roles as up_roles
from vcsync.cli.command.main import main
from vcsync.cli.run.pool_role import PoolRole
from vcsync.cli.run.roles import SyncerRole
from vcsync.controllers.manager.role import Controllers
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


def refused(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a `vcsync up` that cannot start."""
    return subprocess.run([*VCSYNC, "up", *options], capture_output=True, text=True, check=False, timeout=90)


@pytest.mark.core
@pytest.mark.timeout(390)
def test_the_printed_commands_work_and_objects_survive_a_crash(up: Up) -> None:
    up.start("--tenants", "acme,umbrella")
    shown = "\n".join(re.findall(r"^  (.*)$", up.log.read_text(), re.MULTILINE))
    assert "kubectl create deployment" in shown
    answers = up.type(shown)
    assert "syncer/r1" in answers  # vcsync status
    assert "acme/default" in answers  # vcsync explain
    mistaken = up.type(f"vcsync status --meta {up.data / 'acme.kubeconfig'} 2>&1 || true")
    assert "is the kubeconfig of tenant acme" in mistaken
    up.kubectl("rollout status deployment/web --timeout=90s")
    pods = up.running(6)
    assert up.supers() == {"r1", "r2"}
    assert up.pods("umbrella") == []
    warned = up.kubectl("create priorityclass high --value=10 2>&1")
    assert "Warning: your own PriorityClasses are not synced to the clusters that your Pods run on" in warned
    node = up.kubectl("get nodes -o name").split()[0]
    for refused in (
        f"cordon {node}",
        f"label {node} a=b",
        f"taint nodes {node.removeprefix('node/')} a=b:NoExecute",
        f"delete {node}",
    ):
        assert "a tenant can only read them" in up.kubectl(f"{refused} 2>&1 || true")

    operator = str(up.data / "admin.kubeconfig")
    there = f"--server https://{up.options[1]}/tenants/acme"
    up.type(f"kubectl {there} create -f - <<< '{LEFT_BEHIND}'", KUBECONFIG=operator)
    up.end(signal.SIGKILL)
    up.start("--tenants", "acme,umbrella")
    assert up.running(6) == pods
    eventually(lambda: ".gone" not in up.kubectl("get nodes -o name"))
    print(next(line for line in up.log.read_text().splitlines() if line.startswith("ready after")))
    # Its roles hold no Leases, so that a successor does not wait.
    admin = str(up.data / "admin.kubeconfig")
    assert up.type("kubectl get leases -n vcsync-system -o name", KUBECONFIG=admin) == ""

    up.kubectl("scale deployment/web --replicas=2")
    assert up.running(2) < pods
    up.type(f"vcsync super remove r2 --force --meta {up.data / 'admin.kubeconfig'}")
    eventually(lambda: ".r2" not in up.kubectl("get nodes -o name"))
    assert up.ready()
    assert up.end(signal.SIGTERM) == 0


@pytest.mark.timeout(390)
def test_settings_and_removals_persist_and_changes_are_reported(up: Up) -> None:
    admin = f"--meta {up.data / 'admin.kubeconfig'}"

    def ready_nodes() -> dict[str, str]:
        pool = json.loads(up.type(f"vcsync super list -o json {admin}"))
        return {
            each["name"]: "{ready} of {total}".format(**each["status"].get("nodes", {"ready": 0, "total": 0}))
            for each in pool
        }

    up.start("--nodes", "4")
    eventually(lambda: ready_nodes() == {"r1": "4 of 4", "r2": "4 of 4"})
    assert up.end(signal.SIGTERM) == 0
    up.start()
    eventually(lambda: ready_nodes() == {"r1": "4 of 4", "r2": "4 of 4"})
    up.type(f"vcsync super remove r2 --force {admin}")
    assert up.end(signal.SIGTERM) == 0

    up.start("--nodes", "2")
    assert "--nodes 2, before 4" in up.log.read_text()
    assert "super cluster r2 was removed and stays removed" in up.log.read_text()
    eventually(lambda: ready_nodes() == {"r1": "2 of 2"})
    assert up.end(signal.SIGTERM) == 0

    up.start("--hollow", "r1,r2")
    eventually(lambda: ready_nodes() == {"r1": "2 of 2", "r2": "2 of 2"})
    assert up.end(signal.SIGTERM) == 0


@pytest.mark.timeout(390)
@pytest.mark.core
def test_pods_that_request_nothing_run_without_a_quota_and_no_tenant_takes_the_whole_pool(up: Up) -> None:
    up.start("--tenants", "acme")
    up.kubectl("run one --image=nginx")
    up.kubectl("create job once --image=busybox -- true")
    helm = ensure(["helm"])["helm"]
    up.type(f"{helm} create web && {helm} install web ./web", KUBECONFIG=str(up.data / "acme.kubeconfig"))
    up.kubectl("rollout status deployment/web --timeout=90s")
    eventually(lambda: {each["status"]["phase"] for each in up.pods()} <= {"Running", "Succeeded"})
    up.kubectl("wait --for=condition=complete --timeout=60s job/once")

    admin = f"--meta {up.data / 'admin.kubeconfig'}"
    up.kubectl("create namespace greedy")
    up.kubectl("-n greedy create quota all --hard=cpu=500,memory=1000Gi")

    def dealt() -> int:
        shown = json.loads(up.type(f"vcsync status -o json {admin}"))["namespaces"]
        return sum(
            sum(each["status"]["placements"].values()) for each in shown if each["namespace"] == "greedy"
        )

    eventually(lambda: dealt() == 40)  # of two CPUs each: 96 less what default and kube-system have
    assert "quota cpu=96,memory=384Gi, now cpu=20" in up.type(
        f"vcsync tenant set acme --quota cpu=20 {admin}"
    )
    assert "now cpu=120,memory=400Gi" in up.type(
        f"vcsync tenant set acme --quota cpu=120,memory=400Gi {admin}"
    )
    eventually(lambda: dealt() == 52)


@pytest.mark.timeout(390)
@pytest.mark.core
def test_free_capacity_is_the_same_wherever_it_is_shown(up: Up) -> None:
    up.start("--tenants", "acme")
    admin = up.data / "admin.kubeconfig"
    spec = {"spec": {"headroom": {"cpu": "25%"}, "overcommit": {"cpu": "200%"}}}
    up.type(f"kubectl --kubeconfig {admin} patch supercluster r1 --type=merge -p '{json.dumps(spec)}'")
    up.kubectl("create namespace shop")
    up.kubectl("-n shop create quota all --hard=cpu=10,memory=1Gi")

    def dealt() -> bool:
        shown = json.loads(up.type(f"vcsync status -o json --meta {admin}"))["namespaces"]
        return any(each["namespace"] == "shop" and each["status"]["placements"] for each in shown)

    eventually(dealt)

    def listed() -> dict[str, dict[str, str]]:
        shown: dict[str, Any] = next(
            each
            for each in json.loads(up.type(f"vcsync super list -o json --meta {admin}"))
            if each["name"] == "r1"
        )
        return {key: shown[key] for key in ("capacity", "dealt", "free")}

    def reported(roles: dict[str, Any]) -> dict[str, Any]:
        return {
            key: roles["nsscheduler"]["superClusters"]["r1"][key] for key in ("capacity", "dealt", "free")
        }

    stored = f"kubectl --kubeconfig {admin} get supercluster r1 -o json"

    def status() -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(up.type(stored))["status"]
        return answer

    def agreed() -> bool:
        """Return whether all places know the new headroom; each of them hears of it at another time."""
        shown, stored = listed(), status()
        return (
            shown == reported(up.roles())
            and milli(shown["capacity"]["cpu"]) == milli(stored["allocatable"]["cpu"]) * 3 // 2
            and milli(shown["free"]["cpu"]) == milli(stored["free"]["cpu"])
        )

    # The syncer writes the capacity with its next heartbeat.
    eventually(agreed)
    found = listed()
    assert milli(found["free"]["cpu"]) == milli(found["capacity"]["cpu"]) - milli(found["dealt"]["cpu"])
    assert milli(found["dealt"]["cpu"]) > 0
    line = next(
        each for each in up.type(f"vcsync super list --meta {admin}").splitlines() if each.startswith("r1 ")
    )
    assert f"{readable(found['free']['cpu'], 'cpu')} of {readable(found['capacity']['cpu'], 'cpu')}" in line

    up.kubectl('-n shop patch resourcequota all --type=merge -p \'{"spec":{"hard":{"cpu":"1900"}}}\'')
    explain = f"vcsync explain namespace acme/shop --meta {admin}"
    eventually(lambda: re.search(r"Super cluster r1 has \S+ cpu, .* free of ", up.type(explain)))


@pytest.mark.timeout(390)
def test_a_tenant_and_a_super_cluster_with_rotated_keys_are_served(up: Up) -> None:
    up.start("--tenants", "acme", "--hollow", "r1")
    up.kubectl("create quota all --hard=cpu=8,memory=16Gi")
    up.kubectl("create deployment web --image=nginx")
    up.kubectl("set resources deployment/web --requests=cpu=100m,memory=128Mi")
    up.running(1)
    for space in ("acme", "r1"):
        output = up.type(f"vcsync tenant rotate {space} --data {up.data}")
        assert "the roles that serve it have new credentials" in output
        following = output.splitlines()[-1].removeprefix("next: ")
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
    left = up.kubectl("get virtualclusters,tenants -A -o name", "admin")
    assert "tenant.tenancy.x-k8s.io/acme" in left
    assert "umbrella" not in left
    up.type(f"vcsync tenant delete umbrella --data {up.data}")


def test_two_concurrent_systems_choose_different_ports_and_leave_no_files(tmp_path: Path) -> None:
    first, second = Up(tmp_path / "first"), Up(tmp_path / "second")
    scratch = {}
    try:
        for each in (first, second):
            each.options = ()
            each.start("--ephemeral", "--hollow", "r1", "--tenants", "")
            output = re.search(
                r"(https://\S+) \(its CA: (\S+)/ca.crt\)[\s\S]*?(http://\S+)", each.log.read_text()
            )
            assert output is not None
            scratch[each] = output.groups()
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
def test_a_defect_of_a_role_is_reported_and_does_not_end_other_roles(up: Up) -> None:
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
