"""Impersonation: never of another tenant's user, never of the operator, never beyond the caller's rights."""

from typing import Any

import pytest

from hack.attacks.client import Answer, Door
from hack.attacks.judge import hint, problem
from hack.attacks.world import ATTACKER, VICTIM, World

FORBIDDEN = frozenset({403})
SECRETS = "/api/v1/namespaces/default/secrets"
WANTED = {
    "the victim's admin": {"Impersonate-User": "admin"},
    "the superuser's group": {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"},
    "the operator": {"Impersonate-User": "system:admin", "Impersonate-Group": "system:masters"},
    "the API server": {"Impersonate-User": "system:apiserver"},
    "the controller manager": {"Impersonate-User": "system:kube-controller-manager"},
    "a node": {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"},
    "a ServiceAccount": {"Impersonate-User": "system:serviceaccount:default:kept-0"},
    "nobody": {"Impersonate-User": "system:anonymous"},
    "tenant admins": {"Impersonate-User": "x", "Impersonate-Group": "vcsync:tenant-admins"},
    "somebody with extra that names the tenant": {"Impersonate-User": "x", "Impersonate-Extra-Tenant": "{}"},
    "somebody with encoded extra": {"Impersonate-User": "x", "Impersonate-Extra-vcsync%2fTenant": "{}"},
    "somebody by uid": {"Impersonate-User": "x", "Impersonate-Uid": "{}"},
    "somebody of that name": {"Impersonate-User": "{}"},
    "somebody of the tenant's path": {"Impersonate-User": "/tenants/{}/admin"},
}  # fmt: skip
LOWLY = {
    "another user": {"Impersonate-User": "admin"},
    "the one with a group": {"Impersonate-User": "bob", "Impersonate-Group": "vcsync:tenant-admins"},
    "the one as a superuser": {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"},
    "the one with a uid": {"Impersonate-User": "bob", "Impersonate-Uid": "1"},
    "the one with extra": {"Impersonate-User": "bob", "Impersonate-Extra-Scopes": "all"},
    "the one in other letters": {"Impersonate-User": "BOB"},
    "the one with a space": {"Impersonate-User": "bob admin"},
    "the one and another": {"Impersonate-User": "bob,admin"},
    "a node": {"Impersonate-User": "system:node:n1"},
    "the API server": {"Impersonate-User": "system:apiserver"},
    "a controller": {"Impersonate-User": "system:serviceaccount:kube-system:namespace-controller"},
    "authenticated users": {"Impersonate-User": "system:authenticated"},
}  # fmt: skip
MALFORMED = {
    "a group alone": "Impersonate-Group: system:masters",
    "a uid alone": "Impersonate-Uid: 0",
    "extra alone": "Impersonate-Extra-a: b",
    "an empty user with a group": "Impersonate-User:\r\nImpersonate-Group: system:masters",
    "eleven hundred groups": "Impersonate-User: x\r\n"
    + "\r\n".join(f"Impersonate-Group: g{n}" for n in range(1100)),
    "bytes that are no text": "Impersonate-User: \udcff\udcfe",
}
IMPERSONATOR = [
    {"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}
]


@pytest.fixture(scope="module")
def lowly(world: World) -> Door:
    """May act as bob and do nothing else."""
    grant(world.attacker, "lowly", IMPERSONATOR)
    return world.user(ATTACKER, "lowly")


def grant(admin: Door, user: str, rules: list[dict[str, Any]]) -> None:
    """Give a user cluster-wide rights by a role with its name."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert (
        admin.ask("POST", f"{rbac}/clusterroles", {"metadata": {"name": user}, "rules": rules}).status == 201
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    body = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
    assert admin.ask("POST", f"{rbac}/clusterrolebindings", body).status == 201


@pytest.mark.parametrize("what", WANTED)
def test_a_user_of_another_tenant_cannot_be_impersonated(world: World, what: str) -> None:
    for path in (f"/tenants/{{}}{SECRETS}", "/tenants/{}/version"):

        def attack(tenant: str, path: str = path) -> Answer:
            headers = {key: value.replace("{}", tenant) for key, value in WANTED[what].items()}
            return world.attacker.ask("GET", path.format(tenant), None, headers)

        assert hint(attack, FORBIDDEN) == ""


@pytest.mark.parametrize("what", WANTED)
def test_the_operator_cannot_be_impersonated(world: World, what: str) -> None:
    headers = {key: value.replace("{}", VICTIM) for key, value in WANTED[what].items()}
    for path in (
        "/vcsync/v1/tenants",
        f"/vcsync/v1/tenants/{VICTIM}/export",
        "/tenants/system/api",
        "/tenants/all/api/v1/secrets",
    ):
        assert problem(world.attacker.ask("GET", path, None, headers), FORBIDDEN) == ""


@pytest.mark.parametrize("what", WANTED)
def test_an_impersonated_user_is_one_of_the_callers_tenant(world: World, what: str) -> None:
    headers = {key: value.replace("{}", VICTIM) for key, value in WANTED[what].items()}
    answer = world.attacker.ask("GET", "/api/v1/secrets", None, headers)
    assert problem(answer, frozenset({200, 403})) == ""


@pytest.mark.parametrize("what", LOWLY)
def test_the_right_to_impersonate_a_user_does_not_include_others(
    world: World, lowly: Door, what: str
) -> None:
    answer = lowly.ask("GET", "/version", None, LOWLY[what])
    assert problem(answer, FORBIDDEN) == ""
    assert lowly.ask("GET", "/version", None, {"Impersonate-User": "bob"}).status == 200


def test_impersonation_excludes_the_callers_own_rights(world: World, lowly: Door) -> None:
    for headers in ({}, {"Impersonate-User": "bob"}):
        assert problem(lowly.ask("GET", SECRETS, None, headers), FORBIDDEN) == ""
    twice = lowly.ask("GET", SECRETS, None, {"Impersonate-User": "bob", "impersonate-user": "admin"})
    assert problem(twice, FORBIDDEN) == ""


@pytest.mark.parametrize("what", MALFORMED)
def test_an_incomplete_impersonation_is_refused(world: World, what: str) -> None:
    sent = f"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n{MALFORMED[what]}\r\n\r\n"
    answer = world.attacker.raw(sent.encode("utf-8", "surrogateescape"))[0]
    assert problem(answer, frozenset({400, 403, 431})) == ""


def test_a_token_cannot_impersonate_another_account(world: World) -> None:
    place = "/api/v1/namespaces/default/serviceaccounts"
    world.attacker.ask("POST", place, {"metadata": {"name": "robot"}})
    token = world.attacker.ask("POST", f"{place}/robot/token", {"spec": {}}).json["status"]["token"]
    robot = Door(world.plane.port, world.anonymous.tls, token)
    for user in ("admin", "system:serviceaccount:kube-system:default", "system:serviceaccount:default:robot"):
        assert problem(robot.ask("GET", "/version", None, {"Impersonate-User": user}), FORBIDDEN) == ""


def test_a_user_impersonated_by_the_operator_is_authorized_on_the_operators_paths_too(world: World) -> None:
    assert world.operator.ask("GET", "/vcsync/v1/tenants").status == 200
    for user in ("nobody", "system:serviceaccount:default:default", "admin"):
        answer = world.operator.ask("GET", "/vcsync/v1/tenants", None, {"Impersonate-User": user})
        assert problem(answer, FORBIDDEN) == ""


def test_the_right_to_impersonate_every_group_does_not_make_an_administrator(world: World) -> None:
    rules = [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]
    grant(world.attacker, "everybody", rules)
    actor = world.user(ATTACKER, "everybody")
    for group in ("vcsync:tenant-admins", "vcsync:x"):
        headers = {"Impersonate-User": "x", "Impersonate-Group": group}
        assert problem(actor.ask("GET", SECRETS, None, headers), FORBIDDEN) == ""
    plain = {"Impersonate-User": "x", "Impersonate-Group": "devs"}
    assert actor.ask("GET", "/version", None, plain).status == 200
    admins = {"Impersonate-User": "x", "Impersonate-Group": "vcsync:tenant-admins"}
    assert world.attacker.ask("GET", SECRETS, None, admins).status == 200


def test_a_superuser_impersonated_by_the_operator_in_a_tenant_is_limited_to_the_tenant(world: World) -> None:
    headers = {"Impersonate-User": "x", "Impersonate-Group": "vcsync:tenant-admins"}
    assert world.operator.ask("GET", f"/tenants/{ATTACKER}{SECRETS}", None, headers).status == 200
    assert problem(world.operator.ask("GET", "/tenants/all/api/v1/secrets", None, headers), FORBIDDEN) == ""
