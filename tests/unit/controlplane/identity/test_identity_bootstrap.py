"""The default roles and bindings."""

import pytest

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity import bootstrap
from vcsync.controlplane.identity.caller import Attributes
from vcsync.controlplane.identity.rbac import missing, parse_rules


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


def test_aggregating_roles_hold_what_they_aggregate() -> None:
    roles = {role.name: parse_rules(role.rules) for role in bootstrap.default_roles()}
    assert missing(roles["edit"], roles["view"]) == []
    assert missing(roles["admin"], roles["edit"]) == []
    assert missing(roles["edit"], roles["admin"]) != []
