"""Arktos' promises, by kubectl at an embedded and an external tenant behind one door, and the holes that it had."""

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from ssl import create_default_context
from typing import Any
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from hack.attacks.client import Door
from hack.attacks.world import door
from hack.embedded import ControlPlane
from hack.testbed import TestBed, ensure
from tests.real.waiting import eventually

ACME, BETA, OUTSIDE = "acme", "beta", "outside"
TENANTS = (ACME, OUTSIDE)
LOOSE = "loose-token"
OPERATOR = "/vcsync/v1/tenants"
MARK = "promise-5d41402abc4b"


class Place:
    """A door with the embedded tenants acme and beta, and the external tenant `outside`."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._kubectl = str(ensure(["kubectl"])["kubectl"])
        self._kubeconfigs = {"system": plane.data / "admin.kubeconfig"}
        self.operator = door(plane.port, self._kubeconfigs["system"].read_text())

    def kubeconfig(self, tenant: str, user: str = "", *groups: str) -> Path:
        """Return the kubeconfig of a user of a tenant; by default of its administrator."""
        key = " ".join((tenant, user, *groups)).strip()
        if key not in self._kubeconfigs:
            # The operator's API is much faster than a command of vcsync.
            query = "&".join(
                [*([f"user={quote(user)}"] if user else []), *(f"group={quote(each)}" for each in groups)]
            )
            path = self.plane.directory / f"{tenant}-{uuid.uuid4().hex[:8]}.kubeconfig"
            path.touch(mode=0o600)
            path.write_text(self.kubectl("system", "get", "--raw", f"{OPERATOR}/{tenant}/kubeconfig?{query}"))
            self._kubeconfigs[key] = path
        return self._kubeconfigs[key]

    def run(self, who: str | Path, *arguments: str, stdin: object = None) -> subprocess.CompletedProcess[str]:
        config = who if isinstance(who, Path) else self.kubeconfig(who)
        return subprocess.run(
            [self._kubectl, f"--kubeconfig={config}", *arguments],
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True, text=True, check=False, timeout=60,
            # kubectl caches discovery by server, and these tenants have the same one.
            env={**os.environ, "KUBECACHEDIR": str(self.plane.directory / f"cache-{config.name.partition('-')[0]}")},
        )  # fmt: skip

    def kubectl(self, who: str | Path, *arguments: str, stdin: object = None) -> str:
        done = self.run(who, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, who: str | Path, *arguments: str, stdin: object = None) -> str:
        done = self.run(who, *arguments, stdin=stdin)
        assert done.returncode != 0, done.stdout
        assert MARK not in done.stdout + done.stderr
        return done.stderr

    def raw(self, who: str | Path, path: str) -> Any:
        return json.loads(self.kubectl(who, "get", "--raw", path))

    def at(self, tenant: str) -> str:
        """Return the option of kubectl for the path of a tenant."""
        return f"--server={self.plane.url}/tenants/{tenant}"


@pytest.fixture(scope="module")
def place(testbed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("promises")
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f'{LOOSE},loose,1,"developers"\nacme-token,carol,2,"",acme\n')
    with ControlPlane(folder, arguments=("--token-file", str(tokens))) as plane:
        found = Place(plane)
        for tenant in (ACME, BETA):
            assert found.operator.ask("POST", OPERATOR, {"name": tenant}).status == 201
        umbrella = testbed.tenants["umbrella"]
        plane.vcsync("tenant", "connect", OUTSIDE, "--kubeconfig", str(umbrella.kubeconfig))
        kept = config_map("kept") | {"data": {"mark": MARK}}
        found.kubectl(BETA, "create", "-f", "-", stdin=kept)
        yield found
        assert "Traceback" not in plane.log.read_text()
        assert plane.stop() == 0


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **metadata},
    }


def definition(group: str, scope: str = "Namespaced", version: str = "v1") -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture
def removed(place: Place) -> Iterator[Callable[[str, str], None]]:
    """Remember objects of the external tenant, which outlives the test."""
    found: list[tuple[str, str]] = []
    yield lambda tenant, name: found.append((tenant, name))
    for tenant, name in found:
        place.run(tenant, "delete", name, "--ignore-not-found", "--wait=false")


@pytest.mark.parametrize("tenant", TENANTS)
class TestPromises:
    def test_a_tenants_layer_in_the_url(self, place: Place, tenant: str) -> None:
        for path in ("/api/v1/namespaces/default", f"/api/v1/tenants/{tenant}/namespaces/default"):
            assert place.raw(tenant, path)["metadata"]["name"] == "default"
        assert "namespace/default" in place.kubectl(
            tenant, place.at(tenant), "get", "namespaces", "-o", "name"
        )
        deployments = f"/apis/apps/v1/tenants/{tenant}/namespaces/default/deployments"
        assert place.raw(tenant, deployments)["kind"] == "DeploymentList"

    def test_the_credential_alone_names_the_tenant(self, place: Place, tenant: str) -> None:
        assert "/tenants/" not in place.kubectl(tenant, "config", "view")
        assert (
            place.kubectl(tenant, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == "admin"
        )

    def test_an_object_is_written_and_read_by_every_form_of_the_url(
        self, place: Place, tenant: str, removed: Callable[[str, str], None]
    ) -> None:
        name = f"written-{uuid.uuid4().hex[:6]}"
        removed(tenant, f"configmap/{name}")
        place.kubectl(tenant, "create", "-f", "-", stdin=config_map(name))
        one = place.raw(tenant, f"/api/v1/namespaces/default/configmaps/{name}")
        other = place.raw(tenant, f"/api/v1/tenants/{tenant}/namespaces/default/configmaps/{name}")
        assert one["metadata"]["uid"] == other["metadata"]["uid"]

    def test_a_user_of_another_tenant_is_refused_whatever_it_asks(self, place: Place, tenant: str) -> None:
        for asked in (
            ("get", "--raw", "/api/v1/namespaces"),
            ("get", "--raw", "/api/v1/namespaces/no-such"),
            ("get", "--raw", "/apis"),
            ("get", "--raw", "/openapi/v2"),
            ("delete", "--raw", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"),
        ):
            said = [
                place.refused(BETA, place.at(each), *asked) for each in (tenant, "no-such", "all", "system")
            ]
            assert said == [said[0]] * 4
            assert "Forbidden" in said[0]

    def test_discovery_shows_a_tenants_own_definitions_only(
        self, place: Place, tenant: str, removed: Callable[[str, str], None]
    ) -> None:
        group = f"g{uuid.uuid4().hex[:6]}.example.com"
        removed(tenant, f"customresourcedefinition/things.{group}")
        place.kubectl(tenant, "create", "-f", "-", stdin=definition(group))
        place.kubectl(tenant, "wait", "--for=condition=Established", f"crd/things.{group}", "--timeout=60s")
        eventually(lambda: group in place.run(tenant, "get", "--raw", "/apis").stdout)
        assert group not in place.kubectl(BETA, "get", "--raw", "/apis")
        for query in (f"?tenant={tenant}", f"?tenant={tenant}&tenant={BETA}"):
            assert group not in place.kubectl(BETA, "get", "--raw", f"/apis{query}")
            assert "NotFound" in place.refused(BETA, "get", "--raw", f"/apis/{group}/v1{query}")
        eventually(lambda: f"things.{group}" in place.kubectl(tenant, "api-resources", "-o", "name"))
        made = {
            "apiVersion": f"{group}/v1",
            "kind": "Thing",
            "metadata": {"name": "one", "namespace": "default"},
        }
        eventually(lambda: place.run(tenant, "apply", "-f", "-", stdin=made).returncode == 0)
        assert (
            place.raw(tenant, f"/apis/{group}/v1/tenants/{tenant}/things")["items"][0]["metadata"]["name"]
            == "one"
        )

    def test_every_resource_that_discovery_lists_can_be_listed(self, place: Place, tenant: str) -> None:
        done = place.run(tenant, "api-resources", "--verbs=list", "-o", "name")
        assert (done.returncode, done.stderr) == (0, "")
        names = ",".join(done.stdout.split())
        listed = place.run(tenant, "get", names, "--all-namespaces", "--ignore-not-found", "-o", "name")
        assert (listed.returncode, "orbidden" in listed.stderr) == (0, False), listed.stderr

    def test_access_reviews_answer_truthfully(self, place: Place, tenant: str) -> None:
        # Arktos denied every review of a tenant's user that named no tenant.
        assert place.kubectl(tenant, "auth", "can-i", "list", "secrets") == "yes\n"
        nobody = place.kubeconfig(tenant, "nobody")
        assert place.run(nobody, "auth", "can-i", "list", "secrets").stdout == "no\n"
        assert 'User "nobody" cannot list' in place.refused(nobody, "get", "secrets")

    def test_requests_are_counted_by_tenant(self, place: Place, tenant: str) -> None:
        def requests() -> int:
            rows = place.operator.ask("GET", f"{OPERATOR}/{tenant}/usage").json["items"]
            return sum(row["reads"] for row in rows)

        before = requests()
        place.kubectl(tenant, "get", "namespaces")
        eventually(lambda: requests() > before)

    def test_the_operator_works_in_a_tenant_by_impersonating_one_of_its_users(
        self, place: Place, tenant: str
    ) -> None:
        acting = ("--as=admin", "--as-group=vcsync:tenant-admins")
        there = place.at(tenant)
        assert "namespace/default" in place.kubectl(
            "system", there, *acting, "get", "namespaces", "-o", "name"
        )
        assert "cannot list" in place.refused("system", there, "--as=nobody", "get", "secrets")


class TestEmbedded:
    """Promises about what only an embedded tenant has."""

    def test_nodes_and_what_runs_on_them_are_prohibited(self, place: Place) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"}}
        assert "can only read them" in place.refused(ACME, "create", "-f", "-", stdin=node)
        place.kubectl("system", place.at(ACME), "create", "-f", "-", stdin=node)
        assert place.kubectl(ACME, "get", "nodes", "-o", "name") == "node/own\n"
        for command in (("cordon", "own"), ("drain", "own"), ("taint", "node", "own", "a=b:NoExecute"),
                        ("label", "node", "own", "a=b"), ("delete", "node", "own")):  # fmt: skip
            # kubectl cordon ends with 0 whatever happened.
            assert "can only read them" in place.run(ACME, *command).stderr
        assert "unschedulable" not in place.kubectl(ACME, "get", "node", "own", "-o", "yaml")
        listed = place.kubectl(ACME, "api-resources", "-o", "name").split()
        for hidden in ("daemonsets.apps", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io",
                       "volumeattachments.storage.k8s.io"):  # fmt: skip
            assert hidden not in listed
            assert place.run(ACME, "auth", "can-i", "list", hidden).stdout.startswith("no")
            assert hidden in place.kubectl("system", place.at(ACME), "api-resources", "-o", "name").split()
        assert "nodes" in listed
        assert '"kind":"DaemonSet"' not in place.kubectl(ACME, "get", "--raw", "/openapi/v2")

    def test_a_tenant_has_all_kinds_if_the_operator_lets_it_bring_its_controllers(self, place: Place) -> None:
        place.operator.ask("PATCH", f"{OPERATOR}/{BETA}", {"controllers": "external"})
        try:
            eventually(lambda: "daemonsets.apps" in place.kubectl(BETA, "api-resources", "-o", "name"))
            assert place.kubectl(BETA, "auth", "can-i", "create", "nodes") == "yes\n"
        finally:
            place.operator.ask("PATCH", f"{OPERATOR}/{BETA}", {"controllers": "vcsync"})
        eventually(lambda: place.run(BETA, "auth", "can-i", "create", "nodes").stdout.startswith("no"))

    def test_objects_that_are_read_across_tenants_name_their_tenant(self, place: Place) -> None:
        place.kubectl(ACME, "create", "-f", "-", stdin=config_map("spread"))
        place.kubectl(BETA, "create", "-f", "-", stdin=config_map("spread"))
        query = "fieldSelector=metadata.name%3Dspread"
        for path in ("/api/v1/tenants/all/configmaps", "/api/v1/tenants/all/namespaces/default/configmaps"):
            # With a namespace, Arktos answered with an empty list.
            found = place.raw("system", f"{path}?{query}")["items"]
            assert [each["metadata"]["tenant"] for each in found] == [ACME, BETA]

    def test_roles_and_bindings_concern_users_of_their_own_tenant(self, place: Place) -> None:
        for tenant in (ACME, BETA):
            place.kubeconfig(tenant, "alice")
        place.kubectl(
            ACME, "create", "rolebinding", "alice", "--clusterrole=view", "--user=alice", "-n", "default"
        )
        place.kubectl(place.kubeconfig(ACME, "alice"), "get", "configmaps", "-n", "default")
        assert "cannot list" in place.refused(
            place.kubeconfig(BETA, "alice"), "get", "configmaps", "-n", "default"
        )

    def test_static_tokens_name_their_tenant_and_without_one_belong_to_the_operators_space(
        self, place: Place
    ) -> None:
        bare = place.plane.directory / "bare.kubeconfig"
        cluster = {"server": place.plane.url, "certificate-authority": str(place.plane.data / "ca.crt")}
        bare.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }))  # fmt: skip
        assert (
            place.kubectl(
                bare, "--token=acme-token", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"
            )
            == "carol"
        )
        assert "(Forbidden)" in place.refused(bare, "--token=acme-token", place.at(BETA), "get", "namespaces")
        # Arktos answered 500 to a user without a tenant.
        assert 'User "loose" cannot list' in place.refused(bare, f"--token={LOOSE}", "get", "namespaces")
        nobody = Door(place.plane.port, create_default_context(cafile=str(place.plane.data / "ca.crt")))
        assert nobody.ask("GET", "/api/v1/namespaces").status == 403

    def test_requested_tokens_are_valid_in_their_tenant_only(self, place: Place) -> None:
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "robot", "namespace": "default"},
        }
        place.kubectl(ACME, "create", "-f", "-", stdin=account)
        token = place.kubectl(ACME, "create", "token", "robot", "-n", "default").strip()
        bare = place.plane.directory / "bare.kubeconfig"
        who = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
        assert place.kubectl(bare, f"--token={token}", *who) == "system:serviceaccount:default:robot"
        for tenant in (BETA, OUTSIDE, "system", "no-such"):
            assert "(Forbidden)" in place.refused(
                bare, f"--token={token}", place.at(tenant), "get", "--raw", "/api/v1/pods"
            )


class TestHolesOfArktos:
    """Each hole that is on record, refused."""

    @pytest.mark.parametrize(
        "group", ["system:masters", "tenant:acme", "tenant:system", "system:nodes:masters"]
    )
    def test_a_groups_name_in_a_certificate_makes_no_superuser(self, place: Place, group: str) -> None:
        intruder = place.kubeconfig(ACME, "intruder", group)
        for tenant in (ACME, BETA, "all", "system"):
            assert "(Forbidden)" in place.refused(
                intruder, place.at(tenant), "get", "--raw", "/api/v1/configmaps"
            )

    @pytest.mark.parametrize(
        "name", ["beta:admin", "system:admin", "system:kube-scheduler", "system:apiserver"]
    )
    def test_a_users_name_in_a_certificate_names_no_tenant(self, place: Place, name: str) -> None:
        intruder = place.kubeconfig(ACME, name)
        for tenant in (BETA, "system"):
            assert "(Forbidden)" in place.refused(
                intruder, place.at(tenant), "get", "--raw", "/api/v1/configmaps"
            )

    @pytest.mark.parametrize("group", ["system:masters", "vcsync:tenant-admins"])
    def test_nobody_signs_itself_a_superusers_certificate(self, place: Place, group: str) -> None:
        subject = x509.Name([
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, "me"),
        ])  # fmt: skip
        request = x509.CertificateSigningRequestBuilder().subject_name(subject)
        pem = request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
            Encoding.PEM
        )
        spec = {
            "request": base64.b64encode(pem).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        }
        body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                "metadata": {"name": "me"}, "spec": spec}  # fmt: skip
        assert "(Forbidden)" in place.refused(ACME, "create", "-f", "-", stdin=body)

    def test_a_tenants_administrator_manages_no_tenants(self, place: Place) -> None:
        for path in (
            "/vcsync/v1/tenants",
            f"/vcsync/v1/tenants/{BETA}",
            f"/vcsync/v1/tenants/{ACME}/kubeconfig",
        ):
            assert "orbidden" in place.refused(ACME, "get", "--raw", path)
            assert "orbidden" in place.refused(ACME, "delete", "--raw", path)
        assert "NotFound" in place.refused(ACME, "get", "--raw", "/api/v1/tenants")
        for tenant in (BETA, "system", ACME):
            place.refused(ACME, "delete", "--raw", f"/api/v1/tenants/{tenant}")
        left = {each["name"] for each in place.operator.ask("GET", OPERATOR).json["items"]}
        assert {ACME, BETA, "system"} <= left

    def test_the_operators_space_cannot_be_deleted(self, place: Place) -> None:
        answer = place.operator.ask("DELETE", f"{OPERATOR}/system?gracePeriodSeconds=0")
        assert answer.status in (403, 409, 422), answer.message

    def test_priority_classes_and_webhooks_concern_only_their_tenant(self, place: Place) -> None:
        top = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "top"},
            "value": 10**9,
        }
        place.kubectl(ACME, "create", "-f", "-", stdin=top)
        hook = {
            "name": "all.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]}],
        }  # fmt: skip
        webhook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                   "metadata": {"name": "all"}, "webhooks": [hook]}  # fmt: skip
        place.kubectl(ACME, "create", "-f", "-", stdin=webhook)
        try:
            eventually(
                lambda: (
                    "does not allow it to be called"
                    in place.run(ACME, "create", "--dry-run=server", "-f", "-", stdin=config_map("x")).stderr
                )
            )
            place.kubectl(BETA, "create", "-f", "-", stdin=config_map("unhindered"))
            place.kubectl("system", "create", "-f", "-", stdin=config_map("unhindered"))
            for tenant in (BETA, "system"):
                assert "NotFound" in place.refused(tenant, "get", "priorityclass", "top")
        finally:
            place.kubectl(ACME, "delete", "validatingwebhookconfiguration", "all")

    def test_metrics_show_a_tenant_nothing_of_others(self, place: Place) -> None:
        shown = place.kubectl(ACME, "get", "--raw", "/metrics")
        assert not any(f'"{tenant}"' in shown for tenant in (BETA, OUTSIDE))
        for path in ("/logs", "/debug/pprof", "/configz"):
            place.refused(ACME, "get", "--raw", path)

    def test_a_node_reads_no_secret_of_another_tenant(self, place: Place) -> None:
        node = place.kubeconfig(ACME, "system:node:n1", "system:nodes")
        for tenant in (ACME, BETA, "system"):
            path = "/api/v1/namespaces/default/secrets/kept"
            assert "(Forbidden)" in place.refused(node, place.at(tenant), "get", "--raw", path)

    def test_reading_a_missing_tenant_is_not_an_empty_list(self, place: Place) -> None:
        for path in ("/api/v1/pods", "/api/v1/namespaces/default/pods"):
            assert 'tenants "no-such" not found' in place.refused(
                "system", place.at("no-such"), "get", "--raw", path
            )
        created = place.refused("system", place.at("no-such"), "create", "--raw", "/api/v1/namespaces/default/configmaps",
                                "-f", "-", stdin=config_map("x"))  # fmt: skip
        assert 'tenants "no-such" not found' in created

    def test_all_is_for_reading_and_for_system_callers(self, place: Place) -> None:
        path = "/api/v1/tenants/all/namespaces/default/configmaps"
        assert "(Forbidden)" in place.refused(ACME, "get", "--raw", path)
        place.refused("system", "delete", "--raw", path)
        place.refused("system", "get", "--raw", f"{path}/kept")
        assert place.raw(BETA, "/api/v1/namespaces/default/configmaps/kept")["data"] == {"mark": MARK}
        answer = place.operator.ask("POST", OPERATOR, {"name": "all"})
        assert (answer.status, "reserved" in answer.message) == (422, True), answer.message

    def test_two_tenants_define_one_name_differently(self, place: Place) -> None:
        for tenant, scope, version in ((ACME, "Cluster", "v1"), (BETA, "Namespaced", "v2")):
            place.kubectl(tenant, "create", "-f", "-", stdin=definition("same.example.com", scope, version))
            known = partial(place.kubectl, tenant, "api-resources", "-o", "name")
            eventually(lambda known=known: "things.same.example.com" in known())  # type: ignore[misc]
        acme = {"apiVersion": "same.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}}
        place.kubectl(ACME, "create", "-f", "-", stdin=acme)
        assert place.kubectl(ACME, "get", "things", "-o", "name") == "thing.same.example.com/one\n"
        assert place.kubectl(BETA, "get", "things", "-A", "-o", "name") == ""
        assert "NotFound" in place.refused(BETA, "get", "--raw", "/apis/same.example.com/v1/things")

    def test_a_body_that_names_another_tenant_stays_in_its_own(self, place: Place) -> None:
        forged = config_map("forged", tenant=BETA, annotations={"tenancy.x-k8s.io/tenant": BETA})
        place.kubectl(ACME, "create", "--validate=false", "-f", "-", stdin=forged)
        assert "NotFound" in place.refused(BETA, "get", "configmap", "forged", "-n", "default")
        assert "tenant" not in place.raw(ACME, "/api/v1/namespaces/default/configmaps/forged")["metadata"]

    def test_deleting_a_tenant_revokes_its_access(self, place: Place) -> None:
        assert place.operator.ask("POST", OPERATOR, {"name": "short"}).status == 201
        config = place.kubeconfig("short")
        place.kubectl(config, "get", "namespaces")
        assert place.operator.ask("DELETE", f"{OPERATOR}/short?gracePeriodSeconds=0").status in (200, 202)
        eventually(lambda: "Unauthorized" in place.run(config, "get", "namespaces").stderr)

    def test_the_first_namespaces_cannot_be_deleted(self, place: Place) -> None:
        for name in ("default", "kube-system", "kube-public"):
            assert "may not be deleted" in place.refused(ACME, "delete", "namespace", name)

    def test_networks_are_a_tenants_own_and_break_no_discovery(self, place: Place) -> None:
        # With Arktos' Network, discovery failed for every tenant, and nothing kept a default network.
        network = {"apiVersion": "tenancy.x-k8s.io/v1alpha1", "kind": "Network"}
        for name, spec in (("default", {}), ("blue", {"type": "VPC", "vpcID": "shared"})):
            place.kubectl(
                ACME, "create", "-f", "-", stdin={**network, "metadata": {"name": name}, "spec": spec}
            )
        assert "networks.tenancy.x-k8s.io" in place.kubectl(ACME, "api-resources", "-o", "name").split()
        assert "may not be deleted" in place.refused(ACME, "delete", "network", "default")
        place.kubectl(ACME, "delete", "network", "blue")
        assert place.kubectl(BETA, "get", "networks", "-o", "name") == ""
        assert "Forbidden" in place.refused(BETA, place.at(ACME), "get", "networks")
        shared = definition("tenancy.x-k8s.io")
        shared["metadata"]["name"] = "networks.tenancy.x-k8s.io"
        shared["spec"]["names"] |= {"plural": "networks"}
        assert "is built in" in place.refused(ACME, "create", "-f", "-", stdin=shared)
