"""TenantPolicies with kubectl: what the operator rules holds in a tenant, whatever its administrator writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.testbed import ensure
from tests.real.up_kit import Up
from tests.real.waiting import eventually

KUBECTL = str(ensure(["kubectl"])["kubectl"])
CRDS = Path(__file__).parents[2] / "config" / "crd"
POLICY = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: TenantPolicy
metadata: {name: base}
spec:
  tenants: {names: [acme]}
  forbiddenResources:
  - {apiGroups: [networking.k8s.io], resources: [ingresses]}
  - {apiGroups: [""], resources: [pods/exec]}
  requiredLabels:
  - {apiGroups: [""], resources: [namespaces], labels: [{key: team, values: [red, blue]}]}
  imageRegistries: [registry.example.com/team]
  podSecurity: {level: baseline}
  validations:
  - resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}
    expression: "object.spec.replicas <= 3"
    message: at most 3 replicas
"""


class Kubectl:
    """kubectl with one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def run(self, *arguments: str, stdin: Any = None) -> tuple[int, str]:
        """Return the exit code and everything that was printed."""
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        done = subprocess.run(
            [KUBECTL, "--kubeconfig", str(self.kubeconfig), *arguments],
            capture_output=True,
            text=True,
            input=text,
            timeout=120,
            check=False,
            env={**os.environ, "HOME": str(self.kubeconfig.parent)},
        )
        return done.returncode, done.stdout + done.stderr

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        code, text = self.run(*arguments, stdin=stdin)
        assert code == 0, text
        return text

    def refused(self, *arguments: str, stdin: Any = None) -> str:
        code, text = self.run(*arguments, stdin=stdin)
        assert code != 0, text
        return text


def install(plane: ControlPlane) -> Kubectl:
    """Define Tenants and TenantPolicies in the operator's space."""
    operator = Kubectl(plane.data / "admin.kubeconfig")
    files = [f"-f={CRDS / name}" for name in ("tenants.yaml", "tenantpolicies.yaml")]
    operator("apply", *files)
    operator("wait", "--for=condition=Established", *files, "--timeout=60s")
    return operator


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def operator(plane: ControlPlane) -> Kubectl:
    return install(plane)


@pytest.fixture(scope="module")
def acme(plane: ControlPlane, operator: Kubectl) -> Kubectl:
    made = Kubectl(plane.create("acme"))
    made("create", "serviceaccount", "default")
    return made


@pytest.fixture
def base(operator: Kubectl, acme: Kubectl) -> Iterator[None]:
    operator("apply", "-f=-", stdin=POLICY)
    # The server that took the write may pass it to itself a moment later.
    eventually(lambda: acme.run("create", "ns", "probe", "--dry-run=server")[0] != 0)
    yield
    operator("delete", "tenantpolicy", "base")


def pod(name: str, image: str = "registry.example.com/team/web:1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


@pytest.mark.core
@pytest.mark.usefixtures("base")
def test_a_policy_holds_in_a_tenant_and_only_there(
    plane: ControlPlane, operator: Kubectl, acme: Kubectl
) -> None:
    text = acme.refused("create", "ns", "shop")
    assert "TenantPolicy 'base' of the operator requires label team, one of blue, red" in text
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red", "labels": {"team": "red"}}}
    acme("create", "-f=-", stdin=shop)
    assert "requires label team" in acme.refused("label", "ns", "red", "team-")

    assert "allows images of registry.example.com/team only" in acme.refused(
        "create", "-f=-", stdin=pod("a", "nginx")
    )
    acme("create", "-f=-", stdin=pod("web"))
    assert "docker.io" not in acme.refused(
        "set", "image", "pod/web", "c=registry.example.com.evil.org/team/x"
    )
    assert 'requires PodSecurity "baseline:latest": host namespaces' in acme.refused(
        "create", "-f=-", stdin=pod("b", hostNetwork=True)
    )
    # The tenant's own labels and policies change nothing.
    acme("label", "ns", "default", "pod-security.kubernetes.io/enforce=privileged")
    acme.refused("create", "-f=-", stdin=pod("b", hostPID=True))

    deployment = ("create", "deployment", "web", "--image=nginx")
    assert "at most 3 replicas" in acme.refused(*deployment, "--replicas=4")
    assert "Pods of this template will be refused" in acme(*deployment, "--replicas=3")
    assert "at most 3 replicas" in acme.refused("scale", "deployment/web", "--replicas=5")
    assert "forbids ingresses" in acme.refused("create", "ingress", "x", "--rule=a/b=c:80")
    assert "forbids pods/exec" in acme.refused("exec", "web", "--", "true")
    acme("delete", "pod", "web", "--now")

    eventually(lambda: operator("get", "tenantpolicies", "--no-headers").split()[:3] == ["base", "1", "True"])
    other = Kubectl(plane.create("other"))
    other("create", "ns", "shop")
    for hidden in ("tenantpolicies", "tenantpolicies.tenancy.x-k8s.io"):
        assert "the server doesn't have a resource type" in acme.refused("get", hidden)


def test_a_policy_that_cannot_be_enforced_is_refused_and_names_the_field(operator: Kubectl) -> None:
    broken = POLICY.replace("object.spec.replicas <= 3", "object.spec.replicas <=")
    text = operator.refused("apply", "-f=-", stdin=broken)
    assert "spec.validations[0].expression: Invalid value" in text
    text = operator.refused(
        "apply", "-f=-", stdin=POLICY.replace("ingresses", "'*'").replace("networking.k8s.io", "''")
    )
    assert "spec.forbiddenResources[0].resources" in text
    assert "every control plane needs it" in text
    text = operator.refused("apply", "-f=-", stdin=POLICY.replace("{names: [acme]}", "{}"))
    assert "spec.tenants needs either names or selector" in text
    assert "not found" in operator.refused("get", "tenantpolicy", "base")


def test_labels_of_tenants_select_and_changes_need_no_restart(plane: ControlPlane, operator: Kubectl) -> None:
    gold = Kubectl(plane.create("gold"))
    selecting = POLICY.replace("{names: [acme]}", "{selector: {matchLabels: {plan: gold}}}").replace(
        "base", "gold", 1
    )
    operator("apply", "-f=-", stdin=selecting)
    gold("create", "ns", "before")
    tenant = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": "gold"},
        "spec": {},
    }
    operator("create", "-f=-", stdin=tenant)
    operator("label", "tenant", "gold", "plan=gold")
    eventually(lambda: "requires label" in gold.run("create", "ns", "x", "--dry-run=server")[1])
    operator("label", "tenant", "gold", "plan=silver", "--overwrite")
    eventually(lambda: gold.run("create", "ns", "x", "--dry-run=server")[0] == 0)
    operator("label", "tenant", "gold", "plan=gold", "--overwrite")
    eventually(lambda: "requires label" in gold.run("create", "ns", "x", "--dry-run=server")[1])
    plane.stop()
    plane.start()
    gold.refused("create", "ns", "x")
    operator("delete", "tenantpolicy", "gold")
    eventually(lambda: gold.run("create", "ns", "x", "--dry-run=server")[0] == 0)


PLACING = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: TenantPolicy
metadata: {name: placing}
spec:
  tenants: {names: [acme]}
  placedObjects:
  - copyOf: {kind: Secret, namespace: default, name: pull}
  - namespaces: [shop]
    manifest:
      apiVersion: networking.k8s.io/v1
      kind: NetworkPolicy
      metadata: {name: closed}
      spec: {podSelector: {}, policyTypes: [Ingress]}
"""


def test_placed_objects_are_kept_in_a_tenant_and_leave_it(operator: Kubectl, acme: Kubectl) -> None:
    operator("create", "secret", "generic", "pull", "--from-literal=a=1")
    operator("apply", "-f=-", stdin=PLACING)
    eventually(lambda: acme.run("get", "secret", "pull")[0] == 0)
    assert "places this object" in acme.refused("delete", "secret", "pull")
    assert "places this object" in acme.refused("label", "secret", "pull", "a=b")
    acme("create", "ns", "shop")
    eventually(lambda: acme.run("get", "netpol", "closed", "-n", "shop")[0] == 0)
    operator("delete", "secret", "pull")
    operator("create", "secret", "generic", "pull", "--from-literal=a=2")
    eventually(lambda: acme("get", "secret", "pull", "-o=jsonpath={.data.a}") == "Mg==")
    operator("delete", "tenantpolicy", "placing")
    eventually(lambda: acme.run("get", "secret", "pull")[0] != 0)
    eventually(lambda: acme.run("get", "netpol", "closed", "-n", "shop")[0] != 0)
    acme("delete", "ns", "shop", "--wait=false")


def test_two_processes_enforce_the_same(tmp_path: Path) -> None:
    with (
        Etcd(tmp_path / "etcd") as etcd,
        ControlPlane(tmp_path / "one", etcd=etcd.url) as one,
        ControlPlane(tmp_path / "other", etcd=etcd.url) as other,
    ):
        operator = install(one)
        here = one.create("acme")
        there = tmp_path / "other" / "acme.kubeconfig"
        there.write_text(here.read_text().replace(f":{one.port}", f":{other.port}"))
        acme = Kubectl(there)
        acme("create", "ns", "before")
        operator("apply", "-f=-", stdin=POLICY)
        eventually(lambda: "requires label" in acme.run("create", "ns", "x", "--dry-run=server")[1])
        operator("delete", "tenantpolicy", "base")
        eventually(lambda: acme.run("create", "ns", "x", "--dry-run=server")[0] == 0)


@pytest.mark.timeout(390)
def test_a_syncer_refuses_images_of_other_registries_wherever_the_pod_comes_from(tmp_path: Path) -> None:
    up = Up(tmp_path)
    try:
        up.start("--tenants", "umbrella")
        admin = str(up.data / "admin.kubeconfig")
        change = json.dumps({"spec": {"podPolicy": {"imageRegistries": ["docker.io/library"]}}})
        up.type(f"kubectl patch vc -n vcsync umbrella --type=merge -p '{change}'", KUBECONFIG=admin)
        up.kubectl("run allowed --image=nginx", "umbrella")
        up.running(1, "umbrella")
        up.kubectl("run refused --image=evil.example.com/x", "umbrella")
        eventually(
            lambda: (
                "PolicyRefused" in up.kubectl("get events --field-selector reason=PolicyRefused", "umbrella")
            )
        )
        assert "use images of docker.io/library" in up.kubectl("describe pod refused", "umbrella")
        assert up.end(signal.SIGTERM) == 0
    finally:
        if up.begun and up.alive:
            up.end(signal.SIGKILL)
