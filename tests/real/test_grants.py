"""Grants between tenants with kubectl: on one control plane process, and on two over etcd."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.testbed import ensure
from tests.real.waiting import eventually

SECONDS = 100.0
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata}]
"""
GRANT = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: TenantGrant
metadata: {name: support}
spec:
  tenant: acme
  subjects:
  - {kind: User, name: alice}
  - {kind: Group, name: support}
  roles:
  - {kind: ClusterRole, name: edit}
  namespaces: [shop]
"""


@dataclass
class User:
    """kubectl with a kubeconfig, at a server."""

    kubeconfig: Path
    server: str

    def command(self, *arguments: str) -> list[str]:
        kubectl = str(ensure(["kubectl"])["kubectl"])
        return [kubectl, f"--kubeconfig={self.kubeconfig}", f"--server={self.server}", *arguments]

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECACHEDIR": str(self.kubeconfig.parent / "kubectl-cache")}
        return subprocess.run(
            self.command(*arguments),
            input=stdin, capture_output=True, text=True, check=False, timeout=SECONDS, env=environment,
        )  # fmt: skip

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str, stdin: str | None = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def may(self, *question: str) -> bool:
        answer = self.run("auth", "can-i", *question).stdout.strip().partition(" ")[0]
        assert answer in ("yes", "no"), answer
        return answer == "yes"


@dataclass
class World:
    """Administrators of both tenants; alice, a user of acme, in both; the folder of the audit logs of her process."""

    umbrella: User
    acme: User
    alice: User
    guest: User
    audit: Path

    def offer(self) -> dict[str, Any] | None:
        """Return the offer in acme, once it has its digest."""
        done = self.acme.run("get", "tenantgrantoffer", "umbrella.support", "-o", "json")
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        return found if found.get("status", {}).get("digest") else None

    def accept(self) -> None:
        """Accept the current version of the grant, and wait until both tenants and the guest see it."""
        self.answer()
        eventually(lambda: self.guest.run("get", "configmaps", "-n", "shop").returncode == 0)

    def answer(self) -> None:
        """Accept the current version of the grant, and wait until both tenants see it."""

        def observed() -> bool:
            found = json.loads(self.umbrella.kubectl("get", "tenantgrant", "support", "-o", "json"))
            conditions = found.get("status", {}).get("conditions", [])
            return bool(conditions) and conditions[0]["observedGeneration"] == found["metadata"]["generation"]

        # The offer is written before the status of the grant.
        eventually(observed)
        digest = eventually(self.offer)["status"]["digest"]
        patch = json.dumps({"spec": {"accept": digest, "reject": False}})
        self.acme.kubectl("patch", "tgo", "umbrella.support", "--type=merge", "-p", patch)
        for user, kind, name in ((self.acme, "tgo", "umbrella.support"), (self.umbrella, "tg", "support")):
            user.kubectl("wait", "--for=condition=Accepted", f"{kind}/{name}", f"--timeout={SECONDS:.0f}s")


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("grants")
    (folder / "policy.yaml").write_text(POLICY)
    arguments = ["--tenant-grants", "--audit-policy-file", str(folder / "policy.yaml"), "--audit-log-path"]
    if request.param == "one process":
        with ControlPlane(folder / "one", arguments=[*arguments, str(folder / "audit-one")]) as plane:
            yield built(plane, plane, folder / "audit-one")
        return
    with (
        Etcd(folder / "etcd") as etcd,
        ControlPlane(folder / "one", etcd=etcd.url, arguments=[*arguments, str(folder / "audit-one")]) as one,
        ControlPlane(
            folder / "other", etcd=etcd.url, arguments=[*arguments, str(folder / "audit-other")]
        ) as other,
    ):
        yield built(one, other, folder / "audit-other")


def built(plane: ControlPlane, other: ControlPlane, audit: Path) -> World:
    """Create the tenants. Administrators use one process, and alice uses the other."""
    umbrella, acme = plane.create("umbrella"), plane.create("acme")
    alice = plane.kubeconfig("acme", user="alice")
    found = World(
        User(umbrella, f"{plane.url}/tenants/umbrella"),
        User(acme, f"{plane.url}/tenants/acme"),
        User(alice, f"{other.url}/tenants/acme"),
        User(alice, f"{other.url}/tenants/umbrella"),
        audit,
    )
    eventually(lambda: "forbidden" in found.guest.run("get", "pods").stderr.lower())
    for namespace in ("shop", "web"):
        found.umbrella.kubectl("create", "namespace", namespace)
        found.umbrella.kubectl("create", "configmap", "prices", "-n", namespace, "--from-literal=a=1")
    return found


@pytest.fixture
def granted(world: World) -> Iterator[World]:
    """An accepted grant."""
    world.umbrella.kubectl("apply", "-f", "-", stdin=GRANT)
    world.accept()
    yield world
    world.umbrella.kubectl("delete", "tenantgrant", "--all")
    eventually(lambda: not world.acme.kubectl("get", "tgo", "-o", "name"))


@pytest.mark.parametrize(
    "world", [pytest.param("one process", marks=pytest.mark.core), "two processes on etcd"], indirect=True
)
def test_a_grant_holds_once_the_home_tenant_has_accepted_it(world: World) -> None:
    assert "Forbidden" in world.guest.refused("get", "configmaps", "-n", "shop")
    world.umbrella.kubectl("apply", "-f", "-", stdin=GRANT)
    eventually(world.offer)
    assert "Pending" in world.umbrella.kubectl("get", "tg", "support")
    assert "Forbidden" in world.guest.refused("get", "configmaps", "-n", "shop")
    world.accept()
    assert "prices" in world.guest.kubectl("get", "configmaps", "-n", "shop")
    assert "Accepted" in world.umbrella.kubectl("get", "tg", "support")
    described = world.acme.kubectl("describe", "tgo", "umbrella.support")
    assert all(each in described for each in ("umbrella", "alice", "edit", "shop", "Accepted"))
    world.umbrella.kubectl("delete", "tg", "support")
    eventually(lambda: world.guest.run("get", "configmaps", "-n", "shop").returncode != 0)
    eventually(lambda: not world.acme.kubectl("get", "tgo", "-o", "name"))


@pytest.mark.parametrize("world", ["one process"], indirect=True)
def test_kubectl_works_on_the_path_of_the_other_tenant(granted: World) -> None:
    guest = granted.guest
    guest.kubectl("create", "configmap", "mine", "-n", "shop", "--from-literal=a=1")
    guest.kubectl("patch", "configmap", "mine", "-n", "shop", "-p", '{"data":{"a":"2"}}')
    assert granted.umbrella.kubectl("get", "cm", "mine", "-n", "shop", "-o", "jsonpath={.data.a}") == "2"
    guest.kubectl("delete", "configmap", "mine", "-n", "shop")
    assert "forbidden" in guest.refused("get", "configmaps", "-n", "web")
    assert "forbidden" in guest.refused("get", "configmaps", "-A")
    assert "forbidden" in guest.refused("get", "nodes")
    assert "tenant:acme:alice" in guest.kubectl("auth", "whoami")
    assert "configmaps" in guest.kubectl("api-resources")


@pytest.mark.parametrize("world", ["one process"], indirect=True)
def test_access_reviews_tell_a_guest_the_truth(granted: World) -> None:
    guest = granted.guest
    assert guest.may("create", "configmaps", "-n", "shop")
    assert guest.may("get", "pods", "--subresource=log", "-n", "shop")
    for question in (
        ("create", "configmaps", "-n", "web"),
        ("list", "configmaps", "-A"),
        ("create", "rolebindings", "-n", "shop"),
        ("create", "serviceaccounts", "--subresource=token", "-n", "shop"),
        ("create", "tenantgrants"),
        ("impersonate", "users"),
        ("*", "*"),
    ):
        assert not guest.may(*question), question
    assert "configmaps" in guest.kubectl("auth", "can-i", "--list", "-n", "shop")
    assert "configmaps" not in guest.kubectl("auth", "can-i", "--list", "-n", "web")


@pytest.mark.parametrize("world", ["two processes on etcd"], indirect=True)
@pytest.mark.parametrize("end", ["deleted", "rejected", "changed", "acceptance withdrawn"])
def test_open_watches_end_with_the_grant(granted: World, end: str) -> None:
    watch = granted.guest.command("get", "configmaps", "-n", "shop", "--watch", "-o", "name")
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline().startswith("configmap/")
            granted.umbrella.kubectl("create", "configmap", f"new-{end[:3]}", "-n", "shop")
            while f"new-{end[:3]}" not in (line := running.stdout.readline()):
                assert line, "the watch ended too early"
            if end == "deleted":
                granted.umbrella.kubectl("delete", "tg", "support")
            elif end == "changed":
                granted.umbrella.kubectl(
                    "patch", "tg", "support", "--type=merge", "-p", '{"spec":{"namespaces":["shop","web"]}}'
                )
            else:
                spec = '{"spec":{"reject":true}}' if end == "rejected" else '{"spec":{"accept":""}}'
                granted.acme.kubectl("patch", "tgo", "umbrella.support", "--type=merge", "-p", spec)
            assert running.wait(SECONDS) is not None
        finally:
            running.kill()
    eventually(lambda: "Forbidden" in granted.guest.run("get", "configmaps", "-n", "shop").stderr)


@pytest.mark.parametrize("world", ["two processes on etcd"], indirect=True)
def test_a_grant_and_its_watches_end_when_it_expires(granted: World) -> None:
    until = (datetime.now(UTC) + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    granted.umbrella.kubectl(
        "patch", "tg", "support", "--type=merge", "-p", json.dumps({"spec": {"expires": until}})
    )
    granted.accept()
    watch = granted.guest.command("get", "configmaps", "-n", "shop", "--watch", "-o", "name")
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            assert running.wait(SECONDS) is not None
        finally:
            running.kill()
    eventually(lambda: "Expired" in granted.umbrella.kubectl("get", "tg", "support"))
    assert "Forbidden" in granted.guest.refused("get", "configmaps", "-n", "shop")


@pytest.mark.parametrize("world", ["one process"], indirect=True)
def test_a_changed_role_changes_what_is_granted(granted: World) -> None:
    role = ["role", "reader", "-n", "shop", "--verb=get", "--resource=secrets"]
    granted.umbrella.kubectl("create", *role)
    change = {"spec": {"roles": [{"kind": "Role", "name": "reader"}]}}
    granted.umbrella.kubectl("patch", "tg", "support", "--type=merge", "-p", json.dumps(change))
    digest = eventually(
        lambda: "Pending" in granted.umbrella.kubectl("get", "tg", "support") and granted.offer()
    )
    patch = json.dumps({"spec": {"accept": digest["status"]["digest"]}})
    granted.acme.kubectl("patch", "tgo", "umbrella.support", "--type=merge", "-p", patch)
    eventually(
        lambda: granted.guest.run("auth", "can-i", "get", "secrets", "-n", "shop").stdout.startswith("yes")
    )
    granted.umbrella.kubectl("delete", "role", "reader", "-n", "shop")
    eventually(
        lambda: granted.guest.run("auth", "can-i", "get", "secrets", "-n", "shop").stdout.startswith("no")
    )


@pytest.mark.parametrize("world", ["two processes on etcd"], indirect=True)
def test_the_granting_tenants_audit_log_names_the_home_tenant_and_the_grant(granted: World) -> None:
    granted.guest.kubectl("get", "configmap", "prices", "-n", "shop")

    def recorded() -> list[dict[str, Any]]:
        texts = [file.read_text() for path in granted.audit.glob("umbrella*") for file in files(path)]
        # The last line may not be written completely.
        lines = [line for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]
        found = [json.loads(each) for each in lines]
        return [
            each for each in found
            if each["stage"] == "ResponseComplete"
            and each["user"].get("username") == "tenant:acme:alice" and each.get("objectRef", {}).get("name") == "prices"
        ]  # fmt: skip

    event = eventually(recorded)[-1]
    assert event["annotations"]["tenancy.x-k8s.io/home-tenant"] == "acme"
    assert event["annotations"]["tenancy.x-k8s.io/grants"] == "support"
    assert event["user"]["extra"]["tenancy.x-k8s.io/home-tenant"] == ["acme"]


def files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
