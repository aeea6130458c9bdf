"""Programs that use Kubernetes' Python libraries across all tenants of a running control plane."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from hack.embedded import ControlPlane
from hack.testbed import ensure
from vcsync.client import ALL_TENANTS, for_tenant, tenant_of

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "config" / "samples" / "config_map_users.py"
ANNOTATION = "samples.vcsync.x-k8s.io/pods"
DEADLINE = 60.0
OBJECTS = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: default}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default}
spec:
  containers: [{name: main, image: nginx}]
  volumes: [{name: settings, configMap: {name: settings}}]
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("clients")) as plane:
        for tenant in ("acme", "umbrella"):
            kubeconfig = plane.create(tenant)
            kubectl(kubeconfig, "apply", "-f", "-", text=OBJECTS)
        yield plane


def kubectl(kubeconfig: Path, *arguments: str, text: str = "") -> str:
    command = [str(ensure(["kubectl"])["kubectl"]), "--kubeconfig", str(kubeconfig), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def sample(plane: ControlPlane) -> Iterator[None]:
    """Run the sample controller."""
    command = [sys.executable, str(SAMPLE), str(plane.data / "admin.kubeconfig")]
    with subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}) as process:
        try:
            yield
            assert process.poll() is None
        finally:
            process.terminate()


def users(kubeconfig: Path) -> str | None:
    found: dict[str, Any] = json.loads(kubectl(kubeconfig, "get", "configmap", "settings", "-o", "json"))
    number: str | None = found["metadata"].get("annotations", {}).get(ANNOTATION)
    return number


def wait_for_users(kubeconfig: Path, number: str) -> None:
    end = time.monotonic() + DEADLINE
    while (found := users(kubeconfig)) != number:
        assert time.monotonic() < end, found
        time.sleep(0.1)


def test_the_sample_controller_counts_the_pods_of_each_tenant_alone(plane: ControlPlane) -> None:
    acme, umbrella = plane.kubeconfig("acme"), plane.kubeconfig("umbrella")
    kubectl(acme, "apply", "-f", "-", text=POD.replace("NAME", "before"))
    with sample(plane):
        wait_for_users(acme, "1")
        kubectl(umbrella, "apply", "-f", "-", text=POD.replace("NAME", "before"))
        wait_for_users(umbrella, "1")
        kubectl(acme, "apply", "-f", "-", text=POD.replace("NAME", "after"))
        wait_for_users(acme, "2")
        assert users(umbrella) == "1"
        kubectl(umbrella, "delete", "pod", "before", "--force")
        wait_for_users(umbrella, "0")
        assert users(acme) == "2"


def test_the_official_client_reads_all_tenants_and_writes_to_one(plane: ControlPlane) -> None:
    config = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(plane.data / "admin.kubeconfig"), client_configuration=config)
    with kubernetes.client.ApiClient(config) as api:
        everywhere = kubernetes.client.CoreV1Api(for_tenant(api, ALL_TENANTS))
        listed = everywhere.list_config_map_for_all_namespaces(field_selector="metadata.name=settings").items
        assert sorted(map(tenant_of, listed)) == ["acme", "umbrella"]
        for item in listed:
            item.data = {"tenant": tenant_of(item)}
            core = kubernetes.client.CoreV1Api(for_tenant(api, tenant_of(item)))
            written = core.replace_namespaced_config_map("settings", "default", item)
            with pytest.raises(ValueError, match="names no tenant"):
                tenant_of(written)
        watch = kubernetes.watch.Watch()
        seen = {}
        for event in watch.stream(everywhere.list_config_map_for_all_namespaces, timeout_seconds=30):
            if event["object"].metadata.name == "settings":
                seen[tenant_of(event["object"])] = event["object"].data
            if len(seen) == 2:
                watch.stop()
        assert seen == {"acme": {"tenant": "acme"}, "umbrella": {"tenant": "umbrella"}}


def plugin(plane: ControlPlane, *arguments: str) -> str:
    """Run `kubectl vcsync` as the operator."""
    binary = Path(ensure(["kubectl"])["kubectl"])
    path = f"{Path(sys.executable).parent}:{binary.parent}:/usr/bin:/bin"
    environment = {
        "PATH": path,
        "HOME": str(plane.directory),
        "KUBECONFIG": str(plane.data / "admin.kubeconfig"),
    }
    command = [str(binary), "vcsync", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_plug_in_of_kubectl_shows_tenants_and_acts_in_one(plane: ControlPlane) -> None:
    plugin(plane, "--tenant", "acme", "create", "configmap", "only-here")
    header, *rows = plugin(plane, "--all-tenants", "get", "configmaps", "-A").splitlines()
    assert header.split() == ["NAMESPACE", "TENANT", "NAME", "DATA", "AGE"]
    found = [tuple(row.split()[1:3]) for row in rows]
    assert ("acme", "only-here") in found
    assert ("umbrella", "only-here") not in found
    assert {("acme", "settings"), ("umbrella", "settings")} <= set(found)
    header, *_ = plugin(plane, "get", "namespaces", "--tenant=umbrella").splitlines()
    assert header.split() == ["NAME", "STATUS", "AGE"]
    definitions = plugin(plane, "--all-tenants", "get", "clusterroles").splitlines()
    assert definitions[0].split()[:2] == ["TENANT", "NAME"]
