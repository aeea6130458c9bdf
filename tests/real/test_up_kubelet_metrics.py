"""`kubectl top` in a tenant with a kube-apiserver of its own, whose Pods run on two super clusters."""

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from streams_kit import User

from hack.testbed import TestBed
from hack.testbed.processes import free_ports
from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually
from vcsync.api import names
from vcsync.apiserver.operator.folder import own_address

API = "/apis/metrics.k8s.io/v1beta1"
QUOTA = "cpu=8,memory=16Gi"
API_SERVICE = "v1beta1.metrics.k8s.io"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Up:
    return Up(tmp_path_factory.mktemp("up"))


@pytest.fixture(scope="module")
def outside(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """The administrator of the tenant, which has one Pod on each super cluster."""
    with TestBed(supers=0, tenants=("outside",), directory=tmp_path_factory.mktemp("bed")) as bed:
        first = free_ports(1)[0]
        settings = {
            # kube-apiserver forwards no requests for nodes/proxy to loopback addresses.
            "kubelet-address": own_address(),
            "kubelet-ports": f"{first}-{first + 20}",
        }
        (up.folder / "vcsync.yaml").write_text(yaml.safe_dump({"all": settings}))
        up.start("--config", "vcsync.yaml", "--hollow", "r1,r2")
        try:
            kubeconfig = bed.tenants["outside"].kubeconfig
            operator(up, f"vcsync tenant add outside --kubeconfig {kubeconfig} --default-quota {QUOTA}")
            operator(up, f"vcsync tenant metrics outside --kubeconfig {kubeconfig}")
            user = User(kubeconfig)
            for name, super_id in (("web", "r1"), ("db", "r2")):
                place(user, name, super_id)
            yield user
        finally:
            up.end(signal.SIGTERM)


def place(user: User, name: str, super_id: str) -> None:
    """Run a Pod on a super cluster."""
    requests = {"cpu": "500m", "memory": "128Mi"}
    spec = {
        "nodeSelector": {names.SUPER_CLUSTER_ID: super_id},
        "containers": [{"name": "c", "image": "example.org/web:1", "resources": {"requests": requests}}],
    }
    metadata = {"name": name, "labels": {"app": name}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    eventually(lambda: user.kubectl("create", "-f", "-", stdin=json.dumps(body)))
    eventually(lambda: user.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}") == "Running")


def top(user: User, *arguments: str) -> dict[str, list[str]]:
    """Return the lines of `kubectl top` by name."""
    lines = user.kubectl("top", *arguments, "--no-headers").splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def registered(user: User) -> Any:
    return json.loads(user.kubectl("get", "apiservice", API_SERVICE, "-o", "json"))


@pytest.mark.timeout(600)
def test_usage_comes_from_all_super_clusters(outside: User) -> None:
    eventually(lambda: set(top(outside, "pods")) == {"web", "db"})
    for cpu, memory in top(outside, "pods").values():
        # Hollow containers use from 0.3 to 0.7 of their requests.
        assert 150 <= int(cpu.removesuffix("m")) <= 350
        assert 38 <= int(memory.removesuffix("Mi")) <= 90
    assert set(top(outside, "pods", "-l", "app=db")) == {"db"}
    assert set(top(outside, "pod", "web")) == {"web"}
    nodes = top(outside, "nodes")
    assert {name.rpartition(".")[2] for name in nodes} == {"r1", "r2"}
    assert all(share.endswith("%") for _, share, *_ in nodes.values())


def servers(up: Up) -> dict[str, str]:
    """Return who serves the API of the tenant, in the words of each syncer."""
    return {
        name.removeprefix("syncer/"): tenant["metricsApi"]
        for name, role in up.roles().items()
        if name.startswith("syncer/")
        for tenant in role["tenants"]
        if tenant["key"].endswith("outside")
    }


def test_the_status_says_who_serves_usage(up: Up, outside: User) -> None:
    def agree() -> bool:
        chosen = registered(outside)["metadata"]["annotations"][names.METRICS_PUBLISHER]
        [other] = {"r1", "r2"} - {chosen}
        said = {chosen: "served by this syncer", other: f"served by the syncer of super cluster {chosen}"}
        assert servers(up) == said
        return True

    eventually(agree, 90)


def test_an_autoscaler_reads_usage(outside: User) -> None:
    """kube-controller-manager reads the same API as kubectl."""
    raw = json.loads(
        outside.kubectl("get", "--raw", f"{API}/namespaces/default/pods?labelSelector=app%3Dweb")
    )
    assert [each["metadata"]["name"] for each in raw["items"]] == ["web"]
    assert raw["items"][0]["containers"][0]["usage"].keys() == {"cpu", "memory"}


def test_other_paths_of_the_nodes_stay_refused(outside: User) -> None:
    node = outside.kubectl("get", "pod", "web", "-o", "jsonpath={.spec.nodeName}")
    for path in ("pods", "metrics", "stats/summary", "configz"):
        answer = outside.refused("get", "--raw", f"/api/v1/nodes/{node}/proxy/{path}")
        assert "could not find the requested resource" in answer


def test_a_registration_that_fails_is_replaced_and_one_of_the_tenant_is_not(outside: User) -> None:
    eventually(lambda: registered(outside)["status"]["conditions"][0]["status"] == "True")
    publisher = registered(outside)["metadata"]["annotations"][names.METRICS_PUBLISHER]
    assert publisher in ("r1", "r2")
    outside.kubectl("delete", "apiservice", API_SERVICE)
    own = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE, "annotations": {"since": datetime.now(UTC).isoformat()}},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "own"},
        },
    }
    outside.kubectl("create", "-f", "-", stdin=json.dumps(own))
    assert registered(outside)["spec"]["service"]["name"] == "own"
    outside.kubectl("delete", "apiservice", API_SERVICE)
    eventually(lambda: registered(outside)["spec"]["service"]["name"] == "vcsync-metrics", 90)


def test_the_permission_can_be_taken_away(up: Up, outside: User) -> None:
    operator(up, f"vcsync tenant metrics outside --kubeconfig {outside.kubeconfig} --off")
    eventually(lambda: "Metrics API not available" in outside.refused("top", "pods"))
    account = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:vcsync-syncer"
    for what in ("get nodes --subresource=proxy", f"get apiservices/{API_SERVICE}"):
        answer = outside.run("auth", "can-i", *what.split(), "--as", account).stdout
        assert answer.strip() == "no"
