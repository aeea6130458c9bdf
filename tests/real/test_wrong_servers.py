"""A tenant's control plane that lost its data, or was replaced by another one: no running Pod is deleted."""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hack.system import System
from hack.testbed import Cluster, TestBed
from tests.real.waiting import eventually
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


def listed(cluster: Cluster, *arguments: str) -> list[Json]:
    found: list[Json] = json.loads(cluster.kubectl("get", *arguments, "-o", "json"))["items"]
    return found


def standing(system: System) -> list[str]:
    """Return the UIDs of the tenant's Pods that run in the super cluster."""
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


def forget_release(system: System) -> None:
    """Revoke an operator's release of an earlier test, which is valid for a quarter of an hour."""
    meta = system.bed.clusters["meta"]
    meta.kubectl("annotate", "virtualcluster", "acme", "-n", "vcsync", f"{names.BRAKE_RELEASED}-")


def condition(system: System, kind: str) -> str:
    """Return the problem that the tenant's VirtualCluster reports; "" if there is none."""
    found = system.bed.clusters["meta"].kubectl("get", "virtualcluster", "acme", "-n", "vcsync", "-o", "json")
    conditions = json.loads(found)["status"].get("conditions", [])
    return "".join(
        each["message"] for each in conditions if each.get("type") == kind and each["status"] == "True"
    )


def braked(system: System) -> list[Json]:
    found: list[Json] = json.loads(system.vcsync("brake", "status", "-o", "json"))
    return found


def tell(r1: Cluster, metadata: Json, name: str, **more: Any) -> None:
    """Create an Event of a Pod in the super cluster, like its kubelet, with a correct clock."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod"}
        | {key: metadata[key] for key in ("name", "namespace", "uid")},
        "type": "Normal",
        "reason": name.capitalize(),
        "message": "of the test",
        "source": {"component": "kubelet"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        **more,
    }
    r1.kubectl("create", "-f", "-", input=json.dumps(event))


@pytest.mark.timeout(380)
def test_pods_unknown_to_a_restored_control_plane_run_until_an_operator_releases_them(
    system: System,
) -> None:
    place(system, "shop", PODS, cpu="8")
    before = eventually(lambda: len(found := standing(system)) == PODS and found)

    system.bed.lose("acme", "pods/shop/")

    brakes = eventually(lambda: len(found := braked(system)) == 2 and found)
    assert {each["name"] for each in brakes} == {"r1", "vcsync/acme"}
    assert all(f"{PODS} of {PODS} pods in super cluster r1" in each["message"] for each in brakes)
    assert "release them with 'vcsync brake release" in condition(system, "Braked")
    for command in (("status",), ("explain", "namespace", "acme/shop")):
        assert f"{PODS} of {PODS} pods in super cluster r1" in system.vcsync(*command)
    assert listed(system.bed.tenants["acme"], "pods", "-n", "shop") == []
    time.sleep(5)
    assert standing(system) == before

    system.vcsync("brake", "release", "acme")

    eventually(lambda: not standing(system), within=150)
    eventually(lambda: braked(system) == [])

    system.vcsync("brake", "release", "--super-cluster", "r1")
    meta = system.bed.clusters["meta"]
    said = json.loads(meta.kubectl("get", "supercluster", "r1", "-o", "json"))["metadata"]["annotations"]
    assert said[names.BRAKE_RELEASED]
    meta.kubectl("annotate", "supercluster", "r1", f"{names.BRAKE_RELEASED}-")


@pytest.mark.timeout(380)
def test_placements_of_lost_namespaces_remain_until_an_operator_releases_them(system: System) -> None:
    meta = system.bed.clusters["meta"]
    for space in SPACES:
        place(system, space, 0)

    def placed() -> set[str]:
        return {each["metadata"]["name"] for each in listed(meta, "namespaceplacements", "-A")} & set(SPACES)

    eventually(lambda: placed() == set(SPACES))
    forget_release(system)

    system.bed.lose("acme", *(f"namespaces/{space}" for space in SPACES))

    brakes = eventually(lambda: braked(system))
    assert {each["kind"] for each in brakes} <= {"NamespacePlacement", "VirtualCluster"}
    eventually(lambda: "placements of namespaces" in condition(system, "Braked"))
    time.sleep(3)
    assert placed() == set(SPACES)

    system.vcsync("brake", "release", "acme")

    eventually(lambda: not placed(), within=150)
    eventually(lambda: not condition(system, "Braked"))


@pytest.mark.timeout(380)
def test_an_event_without_a_last_observed_time_does_not_stop_other_events(system: System) -> None:
    """kube-apiserver accepts one in core/v1, and it must not stop the Events of all tenants."""
    r1, tenant = system.bed.supers["r1"], system.bed.tenants["acme"]
    place(system, "told", 1)

    def copy() -> Json | None:
        pods = listed(r1, "pods", "-A", "-l", f"{names.CONTROLLED}={names.TRUE}")
        return next((pod for pod in pods if pod["metadata"]["namespace"].endswith("-told")), None)

    metadata = eventually(copy)["metadata"]

    unread = {"count": 3, "lastObservedTime": None}
    tell(r1, metadata, "poison", series=unread, firstTimestamp=None, lastTimestamp=None)
    kept = json.loads(r1.kubectl("get", "event", "poison", "-n", metadata["namespace"], "-o", "json"))
    assert kept["series"] == {"count": 3, "lastObservedTime": None}
    tell(r1, metadata, "wholesome")

    eventually(lambda: "Wholesome" in {each["reason"] for each in listed(tenant, "events", "-n", "told")})
    place(system, "after", 1)
    eventually(lambda: listed(tenant, "pods", "-n", "after")[0]["status"].get("phase") == "Running")
    tenant.kubectl("delete", "namespace", "told", "after", "--wait=false")
    eventually(lambda: not standing(system))


@pytest.mark.timeout(380)
def test_another_control_plane_behind_the_credentials_is_not_served(system: System, tmp_path: Path) -> None:
    place(system, "stays", 3)
    before = eventually(lambda: len(found := standing(system)) == 3 and found)
    meta = system.bed.clusters["meta"]
    # A record that was created without the command has no UID. The UID of the first answer is recorded.
    meta.kubectl("annotate", "virtualcluster", "acme", "-n", "vcsync", f"{names.CONTROL_PLANE_UID}-")
    right = json.loads(system.bed.tenants["acme"].kubectl("get", "namespace", "kube-system", "-o", "json"))
    first = ("get", "virtualcluster", "acme", "-n", "vcsync", "-o", "jsonpath={.status.controlPlaneUID}")
    eventually(lambda: meta.kubectl(*first) == right["metadata"]["uid"])
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

    warnings = eventually(events, within=150)
    assert "vcsync tenant accept acme" in warnings[0]["message"]
    eventually(lambda: "vcsync tenant accept acme" in condition(system, "WrongControlPlane"))
    assert "vcsync tenant accept acme" in system.vcsync("status")
    assert "vcsync tenant accept acme" in system.vcsync("explain", "namespace", "acme/stays")
    with urllib.request.urlopen(system.endpoint("nsscheduler") + "/metrics", timeout=60) as answer:
        metrics = answer.read().decode()
    assert re.search(
        r'^vcsync_tenants_in_trouble\{.*type="WrongControlPlane".*\} 1\.0$', metrics, re.MULTILINE
    )
    time.sleep(3)
    assert standing(system) == before

    for secret, kubeconfig in own.items():
        patch = json.dumps({"data": {names.KUBECONFIG_KEY: kubeconfig}})
        meta.kubectl("patch", "secret", secret, "-n", root, "--type=merge", "-p", patch)
    system.bed.tenants["acme"].kubectl("delete", "pod", "web-0", "-n", "stays", "--wait=false")
    eventually(lambda: len(standing(system)) == 2, within=200)
    eventually(lambda: not condition(system, "WrongControlPlane"))


@pytest.mark.timeout(380)
def test_clocks_that_are_an_hour_wrong_neither_delete_objects_nor_stop_work(
    system: System,
) -> None:
    tenant, r1 = system.bed.tenants["acme"], system.bed.supers["r1"]
    others = set(standing(system))
    place(system, "clocks", PODS, cpu="8")
    eventually(lambda: len(standing(system)) >= PODS)
    before = standing(system)
    forget_release(system)
    try:
        for role in system.role_names:
            system.kill(role)
            system.ahead[role] = -3600 if role == "nsscheduler" else 3600
        system.start()

        place(system, "hours", 1)
        after = eventually(lambda: len(found := standing(system)) == len(before) + 1 and found)
        assert set(before) < set(after)
        pods = listed(r1, "pods", "-A", "-l", f"{names.CONTROLLED}={names.TRUE}")
        copies = [pod["metadata"] for pod in pods if pod["metadata"]["namespace"].endswith("-hours")]
        tell(r1, copies[0], "strike")
        eventually(lambda: "Strike" in {each["reason"] for each in listed(tenant, "events", "-n", "hours")})

        system.bed.lose("acme", "pods/clocks/")
        eventually(lambda: braked(system))
        time.sleep(3)
        assert standing(system) == after
        system.vcsync("brake", "release", "acme")
        eventually(lambda: len(standing(system)) == len(after) - PODS, within=150)
    finally:
        for role in system.role_names:
            system.kill(role)
        system.ahead.clear()
        system.start()
    tenant.kubectl("delete", "namespace", "clocks", "hours", "--wait=false")
    eventually(lambda: set(standing(system)) <= others, within=150)


@pytest.mark.timeout(380)
def test_a_meta_cluster_that_lost_its_records_deletes_nothing(system: System) -> None:
    meta, tenant, r1 = system.bed.clusters["meta"], system.bed.tenants["acme"], system.bed.supers["r1"]
    place(system, "kept", 3)

    def running() -> bool:
        pods = listed(tenant, "pods", "-n", "kept")
        return len(pods) == 3 and all(pod["status"].get("phase") == "Running" for pod in pods)

    eventually(running)
    before = standing(system)

    # The virtual nodes of Pods of earlier tests may go at any moment.
    nodes = {pod["spec"]["nodeName"] for pod in listed(tenant, "pods", "-n", "kept")}

    def virtual_nodes() -> set[str]:
        return nodes & {each["metadata"]["name"] for each in listed(tenant, "nodes")}

    forget_release(system)

    system.bed.lose("meta", f"{names.GROUP}/superclusters/")

    what = "super clusters that are gone from the meta cluster"
    eventually(lambda: what in json.dumps(system.status("nsscheduler")))
    time.sleep(3)
    assert (standing(system), virtual_nodes()) == (before, nodes)

    system.vcsync("super", "add", "r1", "--kubeconfig", str(r1.kubeconfig))
    eventually(lambda: what not in json.dumps(system.status("nsscheduler")))

    roots = {each["metadata"]["name"] for each in listed(meta, "namespaces")}
    system.bed.lose("meta", f"{names.GROUP}/virtualclusters/")

    eventually(
        lambda: any(
            "VirtualClusters are gone from the meta cluster" in each["message"] for each in braked(system)
        )
    )
    time.sleep(3)
    assert (standing(system), virtual_nodes()) == (before, nodes)
    assert {each["metadata"]["name"] for each in listed(meta, "namespaces")} == roots
