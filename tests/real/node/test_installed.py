"""vcsync as a platform team installs it: the image on a real node, the chart, and a tenant on two further clusters."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from hack.testbed import TestBed
from tests.real import waiting
from tests.real.node.installed_kit import (
    NAMESPACE,
    SERVICE_ADDRESS,
    Installation,
    Json,
    ServiceProxy,
    is_ready,
)
from tests.real.waiting import eventually

pytestmark = pytest.mark.timeout(1500)

ROLES = {"nsscheduler": 1, "podscheduler": 1, "tenants": 1, "syncer": 2, "controlplane": 1}
"""Role -> number of its Pods."""
USUAL_SECONDS = 30.0
"""Time that three clusters with real nodes need to start on a quiet machine with two processors."""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Every command of docs/installing.md has been typed."""
    began = time.monotonic()
    service, directory = ServiceProxy(), tmp_path_factory.mktemp("installed")
    with TestBed(
        supers=3,
        tenants=0,
        embedded=("meta",),
        ours=True,
        real_nodes=True,
        services={SERVICE_ADDRESS: service.port},
        directory=directory / "bed",
    ) as bed:
        waiting.observe(time.monotonic() - began, USUAL_SECONDS)
        made = Installation(bed, directory, service)
        made.prepare()
        made.type_page()
        yield made
    service.close()


def tenants_pods(installation: Installation) -> list[Json]:
    found: list[Json] = json.loads(
        installation.type("kubectl --kubeconfig acme.kubeconfig get pods -o json")
    )["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def test_the_commands_of_the_page_lead_to_a_tenants_running_container(installation: Installation) -> None:
    [pod] = tenants_pods(installation)
    [status] = pod["status"]["containerStatuses"]
    assert status["containerID"].startswith("containerd://")
    assert pod["spec"]["nodeName"].rpartition(".")[2] in installation.super_clusters
    assert installation.type("kubectl --kubeconfig acme.kubeconfig logs deployment/web") == "begun\n"


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_ready_and_runs_as_an_unprivileged_user(installation: Installation, role: str) -> None:
    for pod in installation.ready(role, ROLES[role]):
        assert pod["spec"]["securityContext"]["runAsUser"] == 65532
        for status in (*pod["status"]["containerStatuses"], *pod["status"].get("initContainerStatuses", ())):
            assert status["image"] == "docker.io/library/vcsync:0.1.0"


def test_each_killed_pod_is_replaced_and_tenants_are_as_before(installation: Installation) -> None:
    before = {each["metadata"]["name"] for each in tenants_pods(installation)}
    for role in ROLES:
        installation.type(
            f"kubectl delete pod -n {NAMESPACE} -l app.kubernetes.io/component={role} --wait=false"
        )
    for role, count in ROLES.items():
        installation.ready(role, count)
    assert {each["metadata"]["name"] for each in tenants_pods(installation)} == before
    installation.type("kubectl --kubeconfig acme.kubeconfig scale deployment web --replicas=2")
    installation.type("kubectl --kubeconfig acme.kubeconfig rollout status deployment/web --timeout=120s")


def test_a_drained_node_gets_the_roles_back(installation: Installation) -> None:
    before = {each["metadata"]["name"] for each in tenants_pods(installation)}
    installation.type("kubectl drain node-0 --delete-emptydir-data --timeout=120s")
    # Their replacements have no node.
    assert not any(is_ready(pod) for role in ROLES for pod in installation.pods(role))
    installation.type("kubectl uncordon node-0")
    for role, count in ROLES.items():
        installation.ready(role, count)
    assert {each["metadata"]["name"] for each in tenants_pods(installation)} == before


def test_uninstalling_leaves_tenants_and_installing_again_serves_them(installation: Installation) -> None:
    def containers() -> list[str]:
        return [
            each["status"]["containerStatuses"][0]["containerID"]
            for cluster in installation.super_clusters.values()
            for each in cluster.call("GET", "/api/v1/pods?fieldSelector=status.phase%3DRunning")[1]["items"]
            if each["metadata"]["name"].startswith("web-")
        ]

    running = containers()
    assert running
    installation.type(f"helm uninstall vcsync -n {NAMESPACE}")
    eventually(lambda: not any(map(installation.pods, ROLES)))
    assert "acme" in installation.type("kubectl get tenants")
    claims = json.loads(installation.type(f"kubectl get persistentvolumeclaims -n {NAMESPACE} -o json"))
    assert [each["status"]["phase"] for each in claims["items"]] == ["Bound"]
    assert containers() == running
    # Another installation adopts what is there, also what the command makes.
    installation.type("vcsync install --meta meta.kubeconfig")
    installation.type(
        f"helm install vcsync config/chart --namespace {NAMESPACE} --values values.yaml "
        "--take-ownership --force-conflicts --set superClusters[0].id=r2,superClusters[1].id=r3"
    )
    for role, count in ROLES.items():
        installation.ready(role, count)
    assert containers() == running
    installation.type("kubectl --kubeconfig acme.kubeconfig rollout restart deployment web")
    installation.type("kubectl --kubeconfig acme.kubeconfig rollout status deployment/web --timeout=120s")
