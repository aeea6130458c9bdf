"""A tenant's control plane that lost its data, or is another one: nothing that runs is deleted for it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.system import System
from hack.testbed import Cluster, TestBed
from vcsync.api import names

PODS = 25
SPACES = tuple(f"space-{number}" for number in range(5))

Json = dict[str, Any]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One super cluster, the tenant acme, and another control plane."""
    directory = tmp_path_factory.mktemp("wrong")
    bed = TestBed(supers=1, nodes=2, tenants=("acme", "other"), directory=directory / "bed")
    with bed, System(bed, directory / "system") as found:
        yield found


def eventually(check: Callable[[], Any], seconds: float = 90) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.5)
    return found


def listed(cluster: Cluster, *arguments: str) -> list[Json]:
    found: list[Json] = json.loads(cluster.kubectl("get", *arguments, "-o", "json"))["items"]
    return found


def standing(system: System) -> list[str]:
    """UIDs of the Pods that run in the super cluster for the tenant."""
    pods = listed(system.bed.supers["r1"], "pods", "-A", "-l", f"{names.CONTROLLED}={names.TRUE}")
    return sorted(pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running")


def place(system: System, namespace: str, pods: int, cpu: str = "1") -> None:
    requests = {"cpu": "10m", "memory": "16Mi"}
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"requests.cpu": cpu, "requests.memory": "4Gi"}}}
    objects: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "metadata": {"name": "all", "namespace": namespace}, **quota},
    ]
    for number in range(pods):
        container = {"name": "main", "image": "nginx", "resources": {"requests": requests}}
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"web-{number}", "namespace": namespace},
                "spec": {"containers": [container], "automountServiceAccountToken": False},
            }
        )
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects[:2]})
    tenant = system.bed.tenants["acme"]
    tenant.kubectl("apply", "-f", "-", input=text)
    eventually(lambda: listed(tenant, "serviceaccounts", "-n", namespace))
    tenant.kubectl(
        "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects[2:]})
    ) if pods else None


def braked(system: System) -> list[Json]:
    found: list[Json] = json.loads(system.vcsync("brake", "status", "-o", "json"))
    return found


@pytest.mark.timeout(380)
def test_pods_that_a_restored_control_plane_does_not_know_stay_until_an_operator_says_so(
    system: System,
) -> None:
    place(system, "shop", PODS, cpu="8")
    before = eventually(lambda: len(found := standing(system)) == PODS and found)

    system.bed.lose("acme", "pods/shop/")

    told = eventually(lambda: braked(system))
    assert [each["name"] for each in told] == ["r1"]
    assert f"{PODS} of {PODS} pods in super cluster r1" in told[0]["message"]
    assert listed(system.bed.tenants["acme"], "pods", "-n", "shop") == []
    time.sleep(5)
    assert standing(system) == before

    system.vcsync("brake", "release", "acme")

    eventually(lambda: not standing(system), seconds=150)
    eventually(lambda: braked(system) == [])


@pytest.mark.timeout(380)
def test_placements_of_lost_namespaces_stay_until_an_operator_says_so(system: System) -> None:
    meta = system.bed.clusters["meta"]
    for space in SPACES:
        place(system, space, 0)

    def placed() -> set[str]:
        return {each["metadata"]["name"] for each in listed(meta, "namespaceplacements", "-A")} & set(SPACES)

    eventually(lambda: placed() == set(SPACES))
    system.vcsync("brake", "release", "acme")  # counts for a quarter of an hour
    vc = listed(meta, "virtualclusters", "-A")[0]["metadata"]
    name = next(
        each["metadata"]["name"]
        for each in listed(meta, "virtualclusters", "-A")
        if each["metadata"]["name"] == "acme"
    )
    meta.kubectl("annotate", "virtualcluster", name, "-n", vc["namespace"], f"{names.BRAKE_RELEASED}-")

    system.bed.lose("acme", *(f"namespaces/{space}" for space in SPACES))

    told = eventually(lambda: braked(system))
    assert {each["kind"] for each in told} == {"NamespacePlacement"}
    time.sleep(3)
    assert placed() == set(SPACES)

    system.vcsync("brake", "release", "acme")

    eventually(lambda: not placed(), seconds=150)


@pytest.mark.timeout(380)
def test_another_control_plane_behind_the_credentials_is_not_served(system: System, tmp_path: Path) -> None:
    place(system, "stays", 3)
    before = eventually(lambda: len(found := standing(system)) == 3 and found)
    meta = system.bed.clusters["meta"]
    found = [each for each in listed(meta, "virtualclusters", "-A") if each["metadata"]["name"] == "acme"]
    root = found[0]["status"]["clusterNamespace"]
    other = base64.b64encode(system.bed.tenants["other"].kubeconfig.read_bytes()).decode()
    own: dict[str, str] = {}
    for role in names.ROLES:
        secret = names.role_secret(role)
        own[secret] = json.loads(meta.kubectl("get", "secret", secret, "-n", root, "-o", "json"))["data"][
            names.KUBECONFIG_KEY
        ]
        patch = json.dumps({"data": {names.KUBECONFIG_KEY: other}})
        meta.kubectl("patch", "secret", secret, "-n", root, "--type=merge", "-p", patch)

    def events() -> list[Json]:
        return [
            each
            for each in listed(meta, "events", "-n", found[0]["metadata"]["namespace"])
            if each["reason"] == "WrongControlPlane"
        ]

    told = eventually(events, seconds=150)
    assert "vcsync tenant accept acme" in told[0]["message"]
    time.sleep(3)
    assert standing(system) == before

    for secret, kubeconfig in own.items():
        patch = json.dumps({"data": {names.KUBECONFIG_KEY: kubeconfig}})
        meta.kubectl("patch", "secret", secret, "-n", root, "--type=merge", "-p", patch)
    system.bed.tenants["acme"].kubectl("delete", "pod", "web-0", "-n", "stays", "--wait=false")
    eventually(lambda: len(standing(system)) == 2, seconds=200)
