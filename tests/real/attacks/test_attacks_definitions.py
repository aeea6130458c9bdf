"""A tenant's administrator, or a user who may define resources, tries to replace built-in resources by definitions."""

from typing import Any

import pytest

from hack.attacks.world import ATTACKER, World
from tests.real.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BUILT_IN = (
    ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole"),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding"),
    ("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io", "apiservices", "APIService"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("coordination.k8s.io", "leases", "Lease"),
)
APPROVALS = ("unapproved", "unapproved, because", "https://github.com/kubernetes/enhancements/pull/1111")


def definition(group: str, plural: str, kind: str, approval: str, version: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": approval}},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


@pytest.mark.parametrize("version", ["v1", "v9"])
@pytest.mark.parametrize("approval", APPROVALS)
@pytest.mark.parametrize(("group", "plural", "kind"), BUILT_IN)
def test_a_built_in_resource_cannot_be_redefined(
    world: World, group: str, plural: str, kind: str, approval: str, version: str
) -> None:
    asked = world.attacker.ask("POST", DEFINITIONS, definition(group, plural, kind, approval, version))

    assert asked.status == 422, asked.message
    assert "is built in" in asked.message


def test_a_definition_cannot_adopt_a_built_in_name_later(world: World) -> None:
    group = "rbac.authorization.k8s.io"
    made = world.attacker.ask("POST", DEFINITIONS, definition(group, "laters", "Later", "unapproved", "v9"))
    assert made.status == 201, made.message
    place, merge = f"{DEFINITIONS}/laters.{group}", {"Content-Type": "application/merge-patch+json"}
    served = f"/apis/{group}/v9"
    eventually(lambda: world.attacker.ask("GET", f"{served}/laters").status == 200)

    for names in ({"singular": "clusterrole"}, {"shortNames": ["roles"]}, {"listKind": "ClusterRoleList"}):
        answer = world.attacker.ask("PATCH", place, {"spec": {"names": names}}, merge)
        assert answer.status == 422, answer.message
        assert "is built in" in answer.message

    # A definition that is being deleted waits for a finalizer; no controller accepts its names any more.
    keep: dict[str, Any] = {"metadata": {"finalizers": ["attack.example/keep"]}}
    assert world.attacker.ask("PATCH", place, keep, merge).status == 200
    assert world.attacker.ask("DELETE", place).status == 200
    eventually(
        lambda: (
            world.attacker.ask("GET", place).json["metadata"]["finalizers"] == keep["metadata"]["finalizers"]
        )
    )
    forged = {"status": {"acceptedNames": {"plural": "clusterroles", "kind": "ClusterRole"}}}
    assert world.attacker.ask("PATCH", f"{place}/status", forged, merge).status == 200
    eventually(lambda: world.attacker.ask("GET", f"{served}/laters").status == 404)
    assert world.attacker.ask("GET", f"{served}/clusterroles").status == 404
    assert world.attacker.ask("PATCH", place, {"metadata": {"finalizers": []}}, merge).status == 200


def test_odd_custom_objects_of_a_built_in_group_do_no_harm(world: World) -> None:
    group = "rbac.authorization.k8s.io"
    made = world.attacker.ask("POST", DEFINITIONS, definition(group, "owns", "Own", "unapproved", "v9"))
    assert made.status == 201, made.message
    roles = len(world.attacker.ask("GET", f"/apis/{group}/v1/clusterroles").json["items"])
    body = {"apiVersion": f"{group}/v9", "kind": "Own", "metadata": {"name": "admin"}, "rules": 5}
    eventually(lambda: world.attacker.ask("POST", f"/apis/{group}/v9/owns", body).status == 201)

    gone = world.attacker.ask("DELETE", f"{DEFINITIONS}/owns.{group}")

    assert gone.status == 200, gone.message
    eventually(lambda: world.attacker.ask("GET", f"{DEFINITIONS}/owns.{group}").status == 404)
    assert len(world.attacker.ask("GET", f"/apis/{group}/v1/clusterroles").json["items"]) == roles
    assert world.user(ATTACKER).ask("GET", "/api/v1/namespaces").status == 200
