"""Users with very many permissions, with kubectl on an embedded control plane: refusals name the limit and the remedy."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from tests.real.controllers_kit import controllers
from tests.real.kubectl_kit import Kubectl
from tests.real.waiting import eventually

RBAC = "rbac.authorization.k8s.io"
LIMITS = "only 10000 bindings of a user, and 10000 rules with 100000 values of 1000000 characters, count in a namespace"
REMEDY = "delete bindings, or shorten roles"


def role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def rules(count: int) -> list[dict[str, Any]]:
    return [{"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"]} for number in range(count)]


def long_rules(count: int) -> list[dict[str, Any]]:
    """Rules of 4,000 characters, which reach the limits with few values."""
    return [{**each, "resourceNames": ["x" * 4000]} for each in rules(count)]


def created(kubectl: Kubectl, folder: Path, *objects: dict[str, Any]) -> None:
    """Create objects from JSON, which kubectl reads quickly."""
    file = folder / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    kubectl("create", "-f", str(file))


def bindings(count: int, to: str, user: str) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{to}-{number}"},
            "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": to},
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with ControlPlane(tmp_path_factory.mktemp("permissions")) as plane:
        acme = Kubectl(plane.create("acme"))
        with controllers(plane):
            yield acme


def test_a_large_role_with_many_bindings_counts_once(kubectl: Kubectl, tmp_path: Path) -> None:
    created(kubectl, tmp_path, role("big", rules(500)), *bindings(50, "big", "low"))
    assert "forbidden" in kubectl.refused("get", "configmaps", "--as=low")
    listed = kubectl("auth", "can-i", "--list", "--as=low", "--no-headers")
    assert sum(line.startswith("r499 ") for line in listed.splitlines()) == 1


def test_a_role_beyond_the_limits_grants_nothing_and_administrators_repair_it(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    everybody = {"kind": "Group", "apiGroup": RBAC, "name": "system:authenticated"}
    (binding,) = bindings(1, "huge", "low")
    created(kubectl, tmp_path, role("huge", long_rules(260)), {**binding, "subjects": [everybody]})
    refused = kubectl.refused("get", "configmaps", "--as=other")
    assert LIMITS in refused
    assert REMEDY in refused
    assert LIMITS in kubectl.run("auth", "can-i", "--list", "--as=other").stderr
    kubectl("delete", "clusterrolebinding", "huge-0")
    assert LIMITS not in kubectl.refused("get", "configmaps", "--as=other")


def test_a_role_of_100000_permissions_is_compared_until_enough_are_missing(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    writing = [
        {"verbs": ["*"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["mine"]}
    ]
    writing += [{"verbs": ["create"], "apiGroups": [RBAC], "resources": ["clusterroles"]}]
    created(kubectl, tmp_path, role("writer", [*writing, *rules(1000)]), *bindings(1, "writer", "author"))
    wide = {
        "apiGroups": [f"g{number}" for number in range(100)],
        "resources": [f"r{number}" for number in range(100)],
        "verbs": [f"v{number}" for number in range(10)],
    }
    file = tmp_path / "wide.json"
    file.write_text(json.dumps(role("wide", [wide])))
    refused = kubectl.refused("create", "-f", str(file), "--as=author")
    assert "is attempting to grant RBAC permissions not currently held" in refused
    assert "further permissions were not compared after these 1000" in refused


def test_a_review_names_1000_groups_at_most(kubectl: Kubectl, tmp_path: Path) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "groups": [f"g{number}" for number in range(1001)],
            "resourceAttributes": {"verb": "get", "resource": "pods"},
        },
    }
    file = tmp_path / "review.json"
    file.write_text(json.dumps(review))
    assert "spec.groups: Too many: 1001: must have at most 1000 items" in kubectl.refused(
        "create", "-f", str(file)
    )


def test_aggregated_roles_that_no_object_can_hold_are_reported(kubectl: Kubectl, tmp_path: Path) -> None:
    to_view = {f"{RBAC}/aggregate-to-view": "true"}
    parts = [role(name, rules(1) if name == "small" else long_rules(250)) for name in ("one", "two", "small")]
    for number, part in enumerate(parts):
        part["metadata"]["labels"] = to_view
        part["rules"] = [{**each, "apiGroups": [f"g{number}"]} for each in part["rules"]]
    created(kubectl, tmp_path, parts[0], parts[1])
    failed = ("get", "events", "-A", "--field-selector=reason=AggregationFailed")
    eventually(lambda: "clusterrole/view" in kubectl(*failed))
    kubectl("delete", "clusterrole", "one", "two")
    created(kubectl, tmp_path, parts[2])
    eventually(lambda: "g2" in kubectl("get", "clusterrole", "view", "-o", "yaml"))
