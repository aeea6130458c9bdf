"""Helm with an embedded tenant: install, upgrade, roll back, test, uninstall; CRDs, hooks and webhooks in a chart."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from hack.testbed import ensure

CHART = Path(__file__).parent / "charts" / "shop"
FINISHED = {
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:00:01Z",
    "succeeded": 1,
    "uncountedTerminatedPods": {},
    "conditions": [
        {"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": "2026-01-01T00:00:01Z"}
        for kind in ("SuccessCriteriaMet", "Complete")
    ],
}  # fmt: skip
"""What a Job controller tells of a Job that is done."""


class Tenant:
    """A tenant's namespace, with helm and kubectl."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.namespace = "shop"
        self.kubeconfig = plane.create(name)
        self._home = plane.directory / "helm"
        self._programs = ensure(["helm", "kubectl"])

    def helm(self, *arguments: str) -> str:
        done = self.try_helm(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_helm(self, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        folders = {f"HELM_{kind}_HOME": str(self._home / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(self._programs["helm"]), *arguments, "--namespace", self.namespace],
            env={**os.environ, **folders, "KUBECONFIG": str(kubeconfig or self.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def kubectl(self, *arguments: str) -> str:
        done = self.try_kubectl(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._programs["kubectl"]), "-n", self.namespace, *arguments],
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "KUBECACHEDIR": str(self._home / "kubectl"),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return dict(json.loads(self.kubectl("get", kind, name, "-o", "json")))

    def names(self, kind: str) -> set[str]:
        return set(self.kubectl("get", kind, "-o", "jsonpath={.items[*].metadata.name}").split())

    def history(self, release: str) -> list[tuple[int, str]]:
        found = json.loads(self.helm("history", release, "-o", "json"))
        return [(each["revision"], each["status"]) for each in found]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("helm")) as found:
        yield found


@pytest.fixture(scope="module")
def tenant(plane: ControlPlane) -> Tenant:
    return Tenant(plane, "charts")


def test_the_life_of_a_release(tenant: Tenant) -> None:
    output = tenant.helm("install", "web", str(CHART), "--create-namespace", "--set", "greeting=hello")
    assert "web greets with hello." in output
    settings = tenant.get("configmap", "web-settings")
    assert settings["data"] == {"greeting": "hello", "served": "true", "namespace": "default"}
    assert tenant.get("widget", "web")["spec"] == {"size": 3, "colour": "blue"}
    assert tenant.get("configmap", "web-after")["data"] == {"revision": "1"}
    assert {"web", "web-before"} <= tenant.names("serviceaccounts")
    assert "web-shop" in tenant.names("validatingwebhookconfigurations")
    assert json.loads(tenant.helm("list", "-o", "json"))[0]["status"] == "deployed"
    assert json.loads(tenant.helm("get", "values", "web", "-o", "json")) == {"greeting": "hello"}
    assert "kind: Widget" in tenant.helm("get", "manifest", "web")
    assert "post-install" in tenant.helm("get", "hooks", "web")
    before = tenant.get("deployment", "web")

    tenant.helm("upgrade", "web", str(CHART), "--set", "greeting=bye,replicas=3,extra=true,size=4")
    assert tenant.get("configmap", "web-settings")["data"]["greeting"] == "bye"
    assert tenant.get("deployment", "web")["spec"]["replicas"] == 3
    assert tenant.get("deployment", "web")["metadata"]["uid"] == before["metadata"]["uid"]
    assert tenant.get("widget", "web")["spec"]["size"] == 4
    assert {"web-extra", "web-after"} <= tenant.names("configmaps")
    assert "web-passing" not in tenant.names("configmaps"), "a hook that is deleted when it succeeded"
    assert tenant.get("configmap", "web-after")["data"] == {"revision": "2"}
    assert tenant.history("web") == [(1, "superseded"), (2, "deployed")]

    tenant.helm("rollback", "web", "1")
    assert tenant.get("configmap", "web-settings")["data"]["greeting"] == "hello"
    assert tenant.get("deployment", "web")["spec"]["replicas"] == 1
    assert tenant.get("widget", "web")["spec"]["size"] == 3
    assert "web-extra" not in tenant.names("configmaps")
    assert tenant.history("web") == [(1, "superseded"), (2, "superseded"), (3, "deployed")]

    assert "Succeeded" in tenant.helm("test", "web")
    assert "web-tested" in tenant.names("configmaps")

    tenant.helm("uninstall", "web")
    assert "web-settings" not in tenant.names("configmaps")
    assert "web-gone" in tenant.names("configmaps"), "the hook after the deletion"
    assert tenant.names("widgets") == set()
    assert "widgets.shop.example.com" in tenant.names("customresourcedefinitions"), "Helm leaves definitions"
    assert "web-shop" not in tenant.names("mutatingwebhookconfigurations")
    assert tenant.helm("list", "-q") == ""


def test_a_refused_upgrade_fails_and_can_be_rolled_back(tenant: Tenant) -> None:
    tenant.helm("install", "wrong", str(CHART), "--create-namespace")
    for values, why in (("size=11", "should be less than or equal to 10"), ("size=7", "seven is taken")):
        failed = tenant.try_helm("upgrade", "wrong", str(CHART), "--set", f"{values},greeting=broken")
        assert failed.returncode == 1
        assert why in failed.stderr
    assert [status for _, status in tenant.history("wrong")] == ["deployed", "failed", "failed"]
    tenant.helm("rollback", "wrong", "1")
    assert tenant.get("configmap", "wrong-settings")["data"]["greeting"] == "hello"
    failed = tenant.try_helm(
        "upgrade",
        "wrong",
        str(CHART),
        "--set",
        "size=11,greeting=x",
        "--rollback-on-failure",
        "--timeout=3s",
    )
    assert failed.returncode == 1
    assert tenant.get("configmap", "wrong-settings")["data"]["greeting"] == "hello"
    tenant.helm("uninstall", "wrong")


def test_helm_waits_for_a_job_as_hook(tenant: Tenant) -> None:
    tenant.helm("upgrade", "--install", "moving", str(CHART), "--create-namespace")
    done: list[str] = []

    def finish() -> None:
        until = time.monotonic() + 60
        while not done and time.monotonic() < until:
            patch = [
                "patch",
                "job",
                "moving-migration",
                "--subresource=status",
                "-p",
                json.dumps({"status": FINISHED}),
            ]
            if (patched := tenant.try_kubectl(*patch)).returncode == 0:
                done.append(patched.stdout)
            elif "NotFound" not in patched.stderr:
                done.append(patched.stderr)

    controller = threading.Thread(target=finish)
    controller.start()
    tenant.helm(
        "upgrade", "--install", "moving", str(CHART), "--set", "job=true,greeting=moved", "--timeout", "60s"
    )
    controller.join()
    assert "patched" in done[0]
    assert "moving-migration" not in tenant.names("jobs")
    assert tenant.get("configmap", "moving-settings")["data"]["greeting"] == "moved"
    tenant.helm("uninstall", "moving")


def test_a_dry_run_asks_the_server_and_changes_nothing(tenant: Tenant) -> None:
    tenant.try_kubectl("create", "namespace", tenant.namespace)
    rendered = tenant.helm("install", "dry", str(CHART), "--dry-run=server", "--skip-crds")
    assert 'namespace: "default"' in rendered, "lookup sees the server's namespace"
    assert "dry-settings" not in tenant.names("configmaps")


def test_client_side_apply_works_too(tenant: Tenant) -> None:
    tenant.helm("install", "older", str(CHART), "--create-namespace", "--server-side=false")
    tenant.kubectl("scale", "deployment", "older", "--replicas=5")
    tenant.helm("upgrade", "older", str(CHART), "--server-side=false", "--set", "greeting=again,replicas=2")
    assert tenant.get("deployment", "older")["spec"]["replicas"] == 2
    assert tenant.get("configmap", "older-settings")["data"]["greeting"] == "again"
    tenant.helm("uninstall", "older", "--keep-history")
    assert tenant.history("older")[-1][1] == "uninstalled"


def test_a_user_who_may_not_write_releases_gets_the_missing_permission(
    plane: ControlPlane, tenant: Tenant
) -> None:
    tenant.try_kubectl("create", "namespace", tenant.namespace)
    reader = plane.kubeconfig("charts", user="reader")
    tenant.kubectl("create", "rolebinding", "reader", "--clusterrole=view", "--user=reader")
    refused = tenant.try_helm("install", "sneaky", str(CHART), "--skip-crds", kubeconfig=reader)
    assert refused.returncode == 1
    assert 'User "reader" cannot' in refused.stderr
    assert "sneaky-settings" not in tenant.names("configmaps")
