"""Tenant objects with kubectl beside a real meta cluster: external control planes, embedded ones on another server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.system import System
from hack.testbed import KubectlError, TestBed
from hack.testbed.processes import Spawner, free_ports, stop
from tests.real.up_kit import VCSYNC
from tests.real.waiting import eventually
from vcsync.api import names

EMBEDDED = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: umbrella}
spec: {weight: 2}
"""
EXTERNAL = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: umbrella}
spec:
  controlPlane: {external: {kubeconfigSecretRef: {name: umbrella-admin}}}
  defaultQuota: {cpu: "1", memory: 1Gi}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  containers:
  - name: web
    image: web
    resources: {limits: {cpu: 100m, memory: 100Mi}}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A real meta cluster with a super cluster, and the roles with only their own rights; no tenant is registered."""
    directory = tmp_path_factory.mktemp("tenants")
    with TestBed(supers=1, nodes=1, tenants=("umbrella",), directory=directory) as bed:
        made = System(bed, directory / "system")
        try:
            made.directory.mkdir()
            made.vcsync("install", "--kubeconfigs", str(made.role_directory))
            made.vcsync("super", "add", "r1", "--kubeconfig", str(bed.supers["r1"].kubeconfig))
            made.start("nsscheduler", "podscheduler", "syncer-r1", "tenants")
            yield made
        finally:
            made.stop()


def condition(system: System, kind: str = "Ready") -> dict[str, Any]:
    """Return a condition of the Tenant umbrella."""
    found = json.loads(system.bed.meta.kubectl("get", "te", "umbrella", "-o", "json"))
    conditions = found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


@pytest.mark.timeout(390)
def test_an_external_control_plane_is_registered_by_its_secret_and_left_empty(system: System) -> None:
    meta, umbrella, r1 = system.bed.meta, system.bed.tenants["umbrella"], system.bed.supers["r1"]
    meta.kubectl("apply", "-f", "-", input=EXTERNAL)
    eventually(lambda: condition(system).get("reason") == "NoKubeconfig")
    assert "kubectl create secret generic -n vcsync umbrella-admin" in condition(system)["message"]
    meta.kubectl(
        *("create", "secret", "generic", "-n", "vcsync", "umbrella-admin"),
        f"--from-file=kubeconfig={umbrella.kubeconfig}",
    )
    system.kill("tenants")
    system.start("tenants")
    meta.kubectl("wait", "--for=condition=Ready", "te/umbrella", "--timeout=60s")
    umbrella.kubectl("apply", "-f", "-", input=POD)
    eventually(lambda: umbrella.kubectl("get", "pod", "web", "-o", "jsonpath={.status.phase}") == "Running")
    assert "External" in meta.kubectl("get", "te", "umbrella")

    meta.kubectl("delete", "te", "umbrella", "--wait=false")
    system.kill("tenants")
    system.start("tenants")
    meta.kubectl("wait", "--for=delete", "te/umbrella", "--timeout=90s")
    for cluster in (meta, r1):
        assert "umbrella" not in cluster.kubectl("get", "namespaces", "-o", "name")
    assert meta.kubectl("get", "virtualclusters", "-A") == ""
    secrets = meta.kubectl("get", "secrets", "-A", "-o", "name")
    assert "secret/kubeconfig-syncer" not in secrets
    log = system.log("tenants").read_text()
    for private in ("client-key-data", "token:", "-----BEGIN"):
        assert private not in log


@pytest.mark.timeout(390)
def test_an_embedded_control_plane_where_there_is_none_is_refused_with_the_remedy(system: System) -> None:
    meta = system.bed.meta
    meta.kubectl("apply", "-f", "-", input=EMBEDDED)
    eventually(lambda: condition(system).get("reason") == "NoEmbeddedControlPlanes")
    assert "--control-plane KUBECONFIG" in condition(system)["message"]
    change = json.dumps({"spec": {"controlPlane": {"clusterVersion": "v1"}}})
    meta.kubectl("patch", "te", "umbrella", "--type=merge", "-p", change)
    eventually(lambda: condition(system).get("reason") == "NotSupported")
    change = json.dumps({"spec": {"controlPlane": {"clusterVersion": None, "embedded": {}}}})
    code, answer = meta.call("PATCH", "/apis/tenancy.x-k8s.io/v1alpha1/tenants/umbrella", json.loads(change))
    assert code == 422
    assert "spec.controlPlane cannot change from one kind to another" in answer["message"]
    meta.kubectl("delete", "te", "umbrella", "--timeout=60s")


@pytest.mark.timeout(390)
def test_embedded_control_planes_may_be_on_another_server(system: System, tmp_path: Path) -> None:
    meta, plane, roles = system.bed.meta, tmp_path / "plane", tmp_path / "roles"
    address = f"127.0.0.1:{free_ports(1)[0]}"
    spawner, processes = Spawner(die_with_us=True), []
    program = [*VCSYNC, "run"]
    try:
        server = [*program, "controlplane", "--data", str(plane), "--listen", address]
        processes.append(spawner.start(server, tmp_path / "plane.log", Path.cwd()))
        admin = plane / "admin.kubeconfig"
        eventually(
            lambda: "system" in system.vcsync("tenant", "list", "--all", "--data", str(plane), check=False)
        )
        system.vcsync("install", "--meta", str(admin), "--kubeconfigs", str(roles))
        system.terminate("tenants")
        role = [*system.command("tenants"), "--control-plane", str(roles / "tenants.kubeconfig")]
        processes.append(spawner.start(role, tmp_path / "tenants.log", Path.cwd()))
        meta.kubectl("apply", "-f", "-", input=EMBEDDED)
        meta.kubectl("wait", "--for=condition=Ready", "te/umbrella", "--timeout=60s")
        assert json.loads(system.vcsync("tenant", "list", "-o", "json"))[0]["spec"]["weight"] == 2
        assert "umbrella" in system.vcsync("tenant", "list", "--data", str(plane))
        meta.kubectl("delete", "te", "umbrella", "--timeout=60s")
        assert "umbrella" not in system.vcsync("tenant", "list", "--data", str(plane))
        assert "umbrella" not in meta.kubectl("get", "namespaces", "-o", "name")
    finally:
        stop(processes, spawner.reap)
        spawner.close()
        system.start("tenants")


@pytest.mark.timeout(390)
def test_the_role_can_write_to_root_namespaces_only(system: System) -> None:
    meta = system.bed.meta
    role = f"--as=system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(names.ROLE_TENANTS)}"

    def refusal(*command: str, body: str | None = None) -> str:
        try:
            return meta.kubectl(*command, role, input=body)
        except KubectlError as error:
            return str(error)

    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "kubeconfig-syncer",
            "namespace": "vcsync",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
    }
    tries: list[tuple[Callable[[], str], str]] = [
        (
            lambda: refusal("create", "-f", "-", body=json.dumps(token)),
            "may only write Secrets of type Opaque in root namespaces",
        ),
        (
            lambda: refusal("create", "secret", "generic", "x", "-n", "vcsync-system"),
            "may only write Secrets of type Opaque in root namespaces",
        ),
        (
            lambda: refusal("delete", "namespace", "vcsync-system"),
            "may only change and delete root namespaces",
        ),
        (
            lambda: refusal("label", "namespace", "default", "a=b"),
            "may only change and delete root namespaces",
        ),
        (lambda: refusal("get", "secrets", "-n", "vcsync-system"), "cannot list resource"),
        (lambda: refusal("delete", "te", "umbrella"), "cannot delete resource"),
    ]
    for attempt, said in tries:
        eventually(lambda attempt=attempt, said=said: said in attempt())  # type: ignore[misc]
