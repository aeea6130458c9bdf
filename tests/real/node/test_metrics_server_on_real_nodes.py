"""`kubectl top` and an autoscaler of tenants, from the Metrics Server of a super cluster whose node is real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.testbed import Cluster, TestBed, ensure
from hack.testbed.processes import free_ports
from tests.real.node.node_kit import Namespace
from tests.real.pool.pool_kit import Json, Pool, Space, container, deployment, pod
from tests.real.waiting import eventually

USAGE = "/apis/metrics.k8s.io/v1beta1"
BUSYBOX = "busybox:1.35"
BUSY = ["sh", "-c", "while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.02; done"]
READING = ("timestamp", "window", "containers")
TWO_READINGS = 120
"""Seconds. Metrics Server reads kubelets every ten, and needs two readings for a rate."""


@pytest.fixture(scope="module")
def metrics_server(node_bed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The super cluster r1, with Metrics Server."""
    cluster, folder = node_bed.supers["r1"], tmp_path_factory.mktemp("metrics-server")
    port = free_ports(1)[0]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(_command(cluster, port, folder), stdout=log, stderr=subprocess.STDOUT)
        try:
            cluster.kubectl("create", "--filename=-", input=json.dumps(_registration(port)))
            eventually(lambda: server.poll() is not None or bool(_usage(cluster, "nodes")), TWO_READINGS)
            assert server.poll() is None, (folder / "log").read_text()[-2000:]
            yield cluster
        finally:
            server.terminate()
            server.wait()
            cluster.kubectl("delete", "--filename=-", input=json.dumps(_registration(port)))


def _command(cluster: Cluster, port: int, folder: Path) -> list[str]:
    kubeconfigs = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [
        str(ensure(["metrics-server"])["metrics-server"]),
        *(f"--{each}={cluster.kubeconfig}" for each in kubeconfigs),
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
        "--kubelet-insecure-tls",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-use-node-status-port",
    ]


def _registration(port: int) -> Json:
    """Return the Service and the APIService. No proxy carries addresses of Services here, so it is a name."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "metrics-server", "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "kube-system", "name": "metrics-server", "port": port},
    }
    registered = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": spec,
    }
    return {"apiVersion": "v1", "kind": "List", "items": [service, registered]}


def _usage(cluster: Cluster, path: str) -> list[Json]:
    status, answer = cluster.call("GET", f"{USAGE}/{path}")
    return list(answer["items"]) if status == 200 else []


@pytest.fixture(params=["inside", "outside"])
def space(node_pool: Pool, metrics_server: Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of each tenant in turn, whose tenant may see usage."""
    if request.param == "outside":
        kubeconfig = node_pool.cluster("outside").kubeconfig
        command = [
            sys.executable,
            "-m",
            "vcsync",
            "tenant",
            "metrics",
            "outside",
            f"--kubeconfig={kubeconfig}",
        ]
        subprocess.run(command, check=True)
    with node_pool.space(request.param) as space:
        yield space


@pytest.mark.timeout(600)
def test_a_tenant_sees_what_its_containers_use(space: Space, metrics_server: Cluster) -> None:
    space.apply(pod("worker", on="r1", containers=[container(image=BUSYBOX, command=BUSY)]))
    uid = space.running("worker")["metadata"]["uid"]

    def same() -> bool:
        """Return whether tenant and super cluster show the same reading."""
        below = [each for each in _usage(metrics_server, "pods") if _is_copy(metrics_server, each, uid)]
        above = _usage(space.tenant, f"namespaces/{space.name}/pods")
        readings = [[{field: each[field] for field in READING} for each in side] for side in (below, above)]
        return len(above) == 1 and readings[0] == readings[1]

    eventually(same, TWO_READINGS)
    user = Namespace(space.tenant, space.name)
    [name, cpu, memory] = user.kubectl("top", "pods", "--no-headers").split()
    assert (name, int(cpu.removesuffix("m")) > 0, memory.endswith("Mi")) == ("worker", True, True)
    [node, *_] = user.kubectl("top", "nodes", "--no-headers").split()
    assert node.endswith(".r1")


def _is_copy(cluster: Cluster, usage: Json, uid: str) -> bool:
    """Return whether a reading is that of the copy of a tenant's Pod."""
    namespace, name = usage["metadata"]["namespace"], usage["metadata"]["name"]
    status, found = cluster.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    return status == 200 and uid in (found["metadata"].get("annotations") or {}).values()


@pytest.mark.timeout(600)
def test_an_autoscaler_follows_the_load_of_containers(space: Space) -> None:
    busy = container(image=BUSYBOX, command=BUSY, resources={"requests": {"cpu": "10m", "memory": "16Mi"}})
    space.apply(
        deployment("web", 1, containers=[busy], nodeSelector={"tenancy.x-k8s.io/superclusterid": "r1"})
    )
    space.all_running("web", 1)
    user = Namespace(space.tenant, space.name)
    user.kubectl("autoscale", "deployment", "web", "--cpu=50%", "--max=2")
    space.all_running("web", 2, TWO_READINGS)
