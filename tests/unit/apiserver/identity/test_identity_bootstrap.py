"""The default roles and bindings."""

import msgspec
import pytest

from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization import bootstrap
from vcsync.apiserver.authorization.policy import GROUP, Policy
from vcsync.apiserver.authorization.policy_reader import apply
from vcsync.apiserver.authorization.rbac import missing, parse_rules
from vcsync.apiserver.request.caller import Attributes
from vcsync.apiserver.storage.interface import Change
from vcsync.objects.budget import Budget


def user(name: str, *groups: str) -> User:
    return User(name, groups=(*groups, "system:authenticated"))


def test_there_are_as_many_as_the_real_server_has() -> None:
    counted: dict[str, int] = {}
    for plural, _ in bootstrap.default_objects():
        counted[plural] = counted.get(plural, 0) + 1
    assert counted == {"clusterroles": 69, "clusterrolebindings": 51, "roles": 7, "rolebindings": 7}


@pytest.mark.parametrize(
    ("who", "question", "allowed"),
    [
        (user("alice"), Attributes("get", "/api/v1", resource_request=False), True),
        (user("alice"), Attributes("get", "/metrics", resource_request=False), False),
        (
            user("alice"),
            Attributes("create", group="authorization.k8s.io", resource="selfsubjectaccessreviews"),
            True,
        ),
        (user("alice"), Attributes("list", resource="pods"), False),
        (
            User("system:anonymous", groups=("system:unauthenticated",)),
            Attributes("get", "/version", resource_request=False),
            True,
        ),
        (
            User("system:anonymous", groups=("system:unauthenticated",)),
            Attributes("get", "/api", resource_request=False),
            False,
        ),
        (
            user("system:kube-controller-manager"),
            Attributes("list", group="apps", resource="deployments"),
            True,
        ),
        (
            user("system:kube-controller-manager"),
            Attributes("delete", group="apps", resource="deployments"),
            False,
        ),
        (
            user("system:kube-controller-manager"),
            Attributes(
                "get",
                resource="configmaps",
                namespace="kube-system",
                name="extension-apiserver-authentication",
            ),
            True,
        ),
        (
            user("system:kube-scheduler"),
            Attributes("create", resource="pods", subresource="binding", namespace="x"),
            True,
        ),
        (
            user("system:serviceaccount:kube-system:deployment-controller"),
            Attributes("create", group="apps", resource="replicasets", namespace="x"),
            True,
        ),
        (
            user("system:serviceaccount:other:deployment-controller"),
            Attributes("create", group="apps", resource="replicasets", namespace="x"),
            False,
        ),
        (user("boss", "system:masters"), Attributes("delete", resource="nodes"), True),
    ],
)
def test_default_rights(who: User, question: Attributes, allowed: bool) -> None:
    assert bootstrap.default_policy().decide(who, question).allowed is allowed


async def test_aggregating_roles_hold_what_they_aggregate() -> None:
    roles = {role.name: parse_rules(role.rules) for role in bootstrap.default_roles()}
    for held, wanted, covers in (("edit", "view", True), ("admin", "edit", True), ("edit", "admin", False)):
        lacking, _ = await missing(roles[held], roles[wanted], Budget("the comparison"))
        assert (lacking == []) is covers


def test_the_objects_written_into_a_tenant_grant_what_the_default_policy_grants() -> None:
    policy = Policy({}, {}, ())
    for revision, (plural, body) in enumerate(bootstrap.default_objects(), 1):
        metadata = body["metadata"]
        key = object_key("acme", GROUP, plural, metadata.get("namespace", ""), metadata["name"])
        apply(policy, Change(revision, key, msgspec.json.encode(body), None, 1))
    for role in bootstrap.default_roles():
        for subject in role.bound or ():
            name = f"system:serviceaccount:{subject.namespace}:{subject.name}"
            user = {
                "User": User(subject.name),
                "Group": User("", groups=(subject.name,)),
                "ServiceAccount": User(name),
            }[subject.kind]
            known = bootstrap.default_policy().grants(user, role.namespace)
            assert role.binding in {grant.binding.name for grant in known}
            assert policy.grants(user, role.namespace) == known
    admin = User("x", groups=(bootstrap.TENANT_ADMINS,))
    assert policy.decide(admin, Attributes("delete", resource="nodes")).allowed
    assert policy.decide(admin, Attributes("post", "/x", resource_request=False)).allowed


def test_default_objects_look_as_kube_apiservers_own() -> None:
    found = {(plural, body["metadata"]["name"]): body for plural, body in bootstrap.default_objects()}
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    own = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    updated = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    assert found["clusterroles", "edit"]["metadata"] == {
        "name": "edit",
        "labels": {**own, f"{prefix}admin": "true"},
        "annotations": updated,
    }
    assert found["clusterroles", "edit"]["aggregationRule"] == {
        "clusterRoleSelectors": [{"matchLabels": {f"{prefix}edit": "true"}}]
    }
    assert found["clusterroles", "system:aggregate-to-edit"]["metadata"]["labels"] == {
        **own,
        f"{prefix}edit": "true",
    }
    assert "aggregationRule" not in found["clusterroles", "system:aggregate-to-edit"]
    name = "extension-apiserver-authentication-reader"
    assert found["roles", name] == {
        "metadata": {"name": name, "namespace": "kube-system", "labels": own, "annotations": updated},
        "rules": [
            {
                "verbs": ["get", "list", "watch"],
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["extension-apiserver-authentication"],
            }
        ],
    }
    bound = found["rolebindings", f"system::{name}"]
    assert bound["metadata"]["namespace"] == "kube-system"
    assert bound["roleRef"] == {"apiGroup": GROUP, "kind": "Role", "name": name}
    assert bound["subjects"] == [
        {"kind": "User", "apiGroup": GROUP, "name": "system:kube-controller-manager"},
        {"kind": "User", "apiGroup": GROUP, "name": "system:kube-scheduler"},
    ]
    assert found["clusterrolebindings", "system:controller:job-controller"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "job-controller", "namespace": "kube-system"}
    ]


def test_what_is_aggregated_is_held_in_order_of_names_and_once() -> None:
    roles = {role.name: role for role in bootstrap.default_roles()}
    pieces = [name for name, role in sorted(roles.items()) if "edit" in role.into]
    expected: list[dict[str, object]] = []
    for name in pieces:
        expected += [rule for rule in roles[name].rules if rule not in expected]
    assert pieces == ["system:aggregate-to-edit", "view"]
    assert roles["edit"].rules == expected
    assert all(roles[name].rules for name in ("admin", "edit", "view"))
