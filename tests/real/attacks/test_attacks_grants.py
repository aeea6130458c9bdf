"""Guests that try to get more than they were granted, and tenants that try to grant or accept what they may not.

The victim grants a role to a user of the attacker's tenant. A third tenant grants everything to the same user.
"""

from __future__ import annotations

from typing import Any

import pytest

from hack.attacks.case import MERGE, RBAC, binding
from hack.attacks.client import Answer, Door
from hack.attacks.judge import hint, problem
from hack.attacks.world import ATTACKER, NOBODY, VICTIM, World
from tests.real.waiting import eventually

ARGUMENTS = ("--tenant-grants",)
TENANCY = "/apis/tenancy.x-k8s.io/v1alpha1"
GRANTS, OFFERS = f"{TENANCY}/tenantgrants", f"{TENANCY}/tenantgrantoffers"
DEFAULT = "/api/v1/namespaces/default"
GENEROUS = "generous"
GUEST = "guest"
FORBIDDEN = frozenset({403})
SECONDS = 60.0
EVERYTHING = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]


def grant(name: str = "g", **spec: Any) -> dict[str, Any]:
    """Return a TenantGrant to the attacker's user."""
    filled = {
        "tenant": ATTACKER,
        "subjects": [{"kind": "User", "name": GUEST}],
        "roles": [{"kind": "ClusterRole", "name": "looking"}],
        "namespaces": ["default"],
        **spec,
    }
    head = {"apiVersion": "tenancy.x-k8s.io/v1alpha1", "kind": "TenantGrant", "metadata": {"name": name}}
    return {**head, "spec": {key: value for key, value in filled.items() if value is not None}}


def made(answer: Answer, code: int = 201) -> Answer:
    """Return the answer to a preparation, which must succeed."""
    assert answer.status == code, answer.message
    return answer


def accepted(giver: Door, tenant: str, home: Door, body: dict[str, Any]) -> None:
    """Make a grant and accept it."""
    made(giver.ask("POST", GRANTS, body))
    place = f"{OFFERS}/{tenant}.{body['metadata']['name']}"

    def digest() -> Any:
        answer = home.ask("GET", place)
        return answer.status == 200 and (answer.json.get("status") or {}).get("digest")

    made(home.ask("PATCH", place, {"spec": {"accept": eventually(digest)}}, MERGE), 200)


@pytest.fixture(scope="module")
def guest(world: World) -> Door:
    """A user of the attacker's tenant, to whom two tenants have granted roles."""
    looking = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["open"], "verbs": ["get"]}]
    generous = world.tenant(GENEROUS)
    made(
        world.victim.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "looking"}, "rules": looking})
    )
    made(
        generous.ask(
            "POST", f"{RBAC}/clusterroles", {"metadata": {"name": "everything"}, "rules": EVERYTHING}
        )
    )
    accepted(world.victim, VICTIM, world.attacker, grant())
    roles = [{"kind": "ClusterRole", "name": "everything"}]
    accepted(generous, GENEROUS, world.attacker, grant(roles=roles, namespaces=None, clusterWide=True))
    found = world.user(ATTACKER, GUEST)
    eventually(lambda: found.ask("GET", f"/tenants/{VICTIM}/api").status == 200)
    eventually(lambda: found.ask("GET", f"/tenants/{GENEROUS}/api/v1/secrets").status == 200)
    world.before["/apis/rbac.authorization.k8s.io/v1/clusterroles"] = world.victim.ask(
        "GET", f"{RBAC}/clusterroles"
    ).body.partition(b'"items":')[2]
    return found


BEYOND = (
    ("GET", f"{DEFAULT}/secrets"),
    ("GET", f"{DEFAULT}/secrets/kept-0"),
    ("GET", f"{DEFAULT}/configmaps"),
    ("GET", f"{DEFAULT}/configmaps/kept-0"),
    ("GET", f"{DEFAULT}/configmaps?fieldSelector=metadata.name=kept-0"),
    ("GET", f"{DEFAULT}/configmaps?watch=1"),
    ("GET", "/api/v1/watch/namespaces/default/configmaps"),
    ("GET", "/api/v1/configmaps"),
    ("GET", "/api/v1/namespaces/kube-system/configmaps/open"),
    ("GET", "/api/v1/namespaces"),
    ("GET", "/api/v1/nodes"),
    ("GET", "/metrics"),
    ("GET", GRANTS),
    ("GET", OFFERS),
    ("DELETE", f"{GRANTS}/g"),
    ("DELETE", f"{DEFAULT}/configmaps"),
    ("DELETE", f"{DEFAULT}/configmaps/kept-0"),
    ("POST", f"{DEFAULT}/pods"),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ("GET", "/openid/v1/jwks"),
    ("GET", "/vcsync/v1/tenants"),
)


@pytest.mark.parametrize(("method", "path"), BEYOND)
def test_a_guest_gets_nothing_beyond_its_grant(world: World, guest: Door, method: str, path: str) -> None:
    for shape in (f"/tenants/{VICTIM}{path}", f"/tenants/{ATTACKER}/tenants/{VICTIM}{path}"):
        answer = guest.ask(method, shape, None if method == "GET" else {})
        assert problem(answer, frozenset({400, 403, 404})) == "", shape


@pytest.mark.parametrize(
    "path", ["api/v1/tenants/{}/namespaces/default/secrets", "apis/apps/v1/tenants/{}/deployments"]
)
def test_the_other_shapes_of_urls_give_a_guest_no_more(world: World, guest: Door, path: str) -> None:
    assert problem(guest.ask("GET", "/" + path.format(VICTIM)), FORBIDDEN) == ""


@pytest.mark.parametrize(
    "tenant", ["system", "all", "victim%2f", "victim ", "VICTIM", "victim\u00a0", NOBODY, "umbrella"]
)
def test_a_grant_of_one_tenant_opens_no_other(world: World, guest: Door, tenant: str) -> None:
    path = f"/tenants/{tenant}/api/v1/namespaces/default/configmaps/open".encode().decode("latin-1")
    assert problem(guest.ask("GET", path), frozenset({400, 403, 404})) == ""


PASSING_ON = (
    ("POST", f"{RBAC}/clusterrolebindings", binding("x", "cluster-admin", "mallory")),
    ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "x"}, "rules": []}),
    ("PATCH", f"{RBAC}/clusterroles/everything", {"rules": []}),
    ("DELETE", f"{RBAC}/clusterrolebindings/vcsync:tenant-admins", None),
    ("POST", GRANTS, grant("x", tenant=VICTIM)),
    ("PATCH", f"{GRANTS}/g", {"spec": {"subjects": [{"kind": "Group", "name": "x"}]}}),
    ("DELETE", f"{GRANTS}/g", None),
    ("DELETE", GRANTS, None),
    ("POST", OFFERS, {"metadata": {"name": f"{VICTIM}.x"}, "spec": {}}),
    ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", {"metadata": {"name": "x"}, "spec": {}}),
    ("PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", {"metadata": {"name": "x"}}),
    ("POST", f"{DEFAULT}/serviceaccounts/default/token", {"spec": {}}),
)  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), PASSING_ON)
def test_even_a_guest_with_all_permissions_passes_nothing_on(
    world: World, guest: Door, method: str, path: str, body: Any
) -> None:
    headers = MERGE if method == "PATCH" else None
    answer = guest.ask(method, f"/tenants/{GENEROUS}{path}", body, headers)
    assert problem(answer, FORBIDDEN) == ""


IMPERSONATED = (
    {"Impersonate-User": "admin"},
    {"Impersonate-User": GUEST},
    {"Impersonate-User": f"tenant:{ATTACKER}:{GUEST}"},
    {"Impersonate-User": "x", "Impersonate-Group": "system:masters"},
    {"Impersonate-User": "x", "Impersonate-Group": "vcsync:tenant-admins"},
    {"Impersonate-User": "system:serviceaccount:default:default"},
    {"Impersonate-User": "system:anonymous"},
    {"impersonate-user": "x", "Impersonate-Extra-tenancy.x-k8s.io%2fgrants": "g"},
)


@pytest.mark.parametrize("headers", IMPERSONATED)
def test_a_guest_impersonates_nobody(world: World, guest: Door, headers: dict[str, str]) -> None:
    for tenant in (VICTIM, GENEROUS):
        assert problem(guest.ask("GET", f"/tenants/{tenant}/version", None, headers), FORBIDDEN) == ""


@pytest.mark.parametrize("headers", [*IMPERSONATED, {}])
def test_no_other_user_of_the_home_tenant_becomes_the_guest(
    world: World, guest: Door, headers: dict[str, str]
) -> None:
    def attack(tenant: str) -> Answer:
        return world.attacker.ask("GET", f"/tenants/{tenant}/version", None, headers)

    assert hint(attack, FORBIDDEN) == ""


NAMES = (
    "tenant:mallet:guest",
    "Guest",
    "guest ",
    "guest\u200b",
    "system:serviceaccount:default:guest",
    "mallet:guest",
)


@pytest.mark.parametrize("name", NAMES)
def test_similar_names_are_other_users(world: World, guest: Door, name: str) -> None:
    actor = world.user(ATTACKER, name)
    assert hint(lambda tenant: actor.ask("GET", f"/tenants/{tenant}/version"), FORBIDDEN) == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_user_of_the_victim_with_a_similar_name_has_no_rights_of_the_guest(
    world: World, guest: Door, name: str
) -> None:
    actor = world.user(VICTIM, name)
    assert problem(actor.ask("GET", f"{DEFAULT}/configmaps/open"), FORBIDDEN) == ""


REFUSED_GRANTS: dict[str, dict[str, Any]] = {
    "to itself": {"tenant": ATTACKER},
    "to the operator": {"tenant": "system"},
    "to all": {"tenant": "all"},
    "to a pattern": {"tenant": "*"},
    "to a path": {"tenant": f"{VICTIM}/x"},
    "to the superusers": {"tenant": VICTIM, "subjects": [{"kind": "Group", "name": "system:masters"}]},
    "to everybody": {"tenant": VICTIM, "subjects": [{"kind": "Group", "name": "system:authenticated"}]},
    "to nobody": {"tenant": VICTIM, "subjects": [{"kind": "Group", "name": "system:unauthenticated"}]},
    "to the anonymous": {"tenant": VICTIM, "subjects": [{"kind": "User", "name": "system:anonymous"}]},
    "to administrators": {"tenant": VICTIM, "subjects": [{"kind": "Group", "name": "VCSYNC:tenant-admins"}]},
    "to an account": {"tenant": VICTIM, "subjects": [{"kind": "ServiceAccount", "name": "default"}]},
    "without subjects": {"tenant": VICTIM, "subjects": []},
    "without roles": {"tenant": VICTIM, "roles": []},
    "without an extent": {"tenant": VICTIM, "namespaces": []},
    "with two extents": {"tenant": VICTIM, "clusterWide": True},
    "of a Role everywhere": {
        "tenant": VICTIM, "roles": [{"kind": "Role", "name": "x"}], "namespaces": None, "clusterWide": True
    },
    "without end": {"tenant": VICTIM, "expires": "never"},
    "of too many": {"tenant": VICTIM, "subjects": [{"kind": "User", "name": f"u{each}"} for each in range(1000)]},
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED_GRANTS)
def test_a_malformed_grant_is_refused(world: World, what: str) -> None:
    answer = world.attacker.ask("POST", GRANTS, grant("refused", **REFUSED_GRANTS[what]))
    assert problem(answer, frozenset({400, 422})) == ""


def test_a_user_grants_no_more_than_it_has(world: World) -> None:
    rules = [
        {
            "apiGroups": ["tenancy.x-k8s.io"],
            "resources": ["tenantgrants", "tenantgrants/status"],
            "verbs": ["*"],
        }
    ]
    made(
        world.attacker.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "granting"}, "rules": rules})
    )
    made(
        world.attacker.ask("POST", f"{RBAC}/clusterrolebindings", binding("granting", "granting", "granter"))
    )
    actor = world.user(ATTACKER, "granter")
    eventually(lambda: actor.ask("GET", GRANTS).status == 200)
    for role in ("cluster-admin", "admin", "view"):
        body = grant("more", tenant=GENEROUS, roles=[{"kind": "ClusterRole", "name": role}])
        assert problem(actor.ask("POST", GRANTS, body), FORBIDDEN) == ""
    own = [{"kind": "ClusterRole", "name": "granting"}]
    made(
        actor.ask("POST", GRANTS, grant("own", tenant=GENEROUS, roles=own, namespaces=None, clusterWide=True))
    )
    for path, form in (("own", MERGE), ("own", {"Content-Type": "application/json-patch+json"})):
        change: Any = {"spec": {"roles": [{"kind": "ClusterRole", "name": "cluster-admin"}]}}
        if form is not MERGE:
            change = [{"op": "replace", "path": "/spec/roles/0/name", "value": "cluster-admin"}]
        assert problem(actor.ask("PATCH", f"{GRANTS}/{path}", change, form), FORBIDDEN) == ""
    made(world.attacker.ask("DELETE", f"{GRANTS}/own"), 200)


OFFER = f"{OFFERS}/{VICTIM}.g"


def test_an_offer_gives_nothing_that_the_grant_does_not(world: World, guest: Door) -> None:
    found = made(world.attacker.ask("GET", OFFER), 200).json
    wider = {
        **found["status"],
        "roles": [{"kind": "ClusterRole", "name": "cluster-admin"}],
        "clusterWide": True,
    }
    world.attacker.ask("PATCH", f"{OFFER}/status", {"status": wider}, MERGE)
    world.attacker.ask("PATCH", OFFER, {"status": wider, "spec": {"roles": wider["roles"]}}, MERGE)
    for path in (f"{DEFAULT}/secrets", "/api/v1/secrets", f"{DEFAULT}/configmaps"):
        assert problem(guest.ask("GET", f"/tenants/{VICTIM}{path}"), FORBIDDEN) == ""


@pytest.mark.parametrize("name", [f"{VICTIM}.made", f"{NOBODY}.made", "system.made", "all.made", "made"])
def test_a_tenant_makes_no_offers_to_itself(world: World, name: str) -> None:
    body = {"apiVersion": "tenancy.x-k8s.io/v1alpha1", "kind": "TenantGrantOffer", "metadata": {"name": name}}
    answer = world.attacker.ask("POST", OFFERS, {**body, "spec": {"accept": "0" * 32}})
    assert problem(answer, frozenset({403, 422})) == ""


@pytest.mark.parametrize("part", ["plural", "kind", "shortNames"])
def test_a_tenant_defines_no_grants_of_its_own(world: World, part: str) -> None:
    names: dict[str, Any] = {"plural": "mine", "singular": "mine", "kind": "Mine", "listKind": "MineList"}
    names |= {
        "plural": {"plural": "tenantgrants"},
        "kind": {"kind": "TenantGrant"},
        "shortNames": {"shortNames": ["tg"]},
    }[part]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "tenancy.x-k8s.io", "scope": "Cluster", "names": names, "versions": [version]}
    body = {"metadata": {"name": f"{names['plural']}.tenancy.x-k8s.io"}, "spec": spec}
    answer = world.attacker.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    assert problem(answer, frozenset({422})) == ""
    assert "is built in" in answer.message


def test_a_grant_does_not_reveal_whether_its_home_tenant_exists(world: World) -> None:
    seen = []
    for tenant in (VICTIM, NOBODY, GENEROUS):
        name = f"to-{tenant[:3]}"
        answer = made(world.attacker.ask("POST", GRANTS, grant(name, tenant=tenant)))

        def status(name: str = name) -> Any:
            return world.attacker.ask("GET", f"{GRANTS}/{name}").json.get("status")

        condition = eventually(status)["conditions"][0]
        condition.pop("lastTransitionTime")
        spec = {**answer.json["spec"], "tenant": ""}
        seen.append((spec, condition, status().keys()))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1]["reason"] == "Pending"
    for tenant in (VICTIM, NOBODY, GENEROUS):
        made(world.attacker.ask("DELETE", f"{GRANTS}/to-{tenant[:3]}"), 200)


def test_without_a_grant_the_answers_for_a_victim_and_a_missing_tenant_are_equal(
    world: World, guest: Door
) -> None:
    actor = world.user(ATTACKER, "other")
    for path in ("/api", f"{DEFAULT}/secrets", GRANTS, "/vcsync/v1/tenants", "/version"):
        assert hint(lambda tenant, path=path: actor.ask("GET", f"/tenants/{tenant}{path}"), FORBIDDEN) == ""


def test_the_anonymous_are_never_guests(world: World, guest: Door) -> None:
    subjects = [{"kind": "User", "name": "anonymous"}]
    made(world.victim.ask("POST", GRANTS, grant("anonymous", subjects=subjects)))
    assert problem(world.anonymous.ask("GET", f"/tenants/{VICTIM}{DEFAULT}/configmaps/open"), FORBIDDEN) == ""
    made(world.victim.ask("DELETE", f"{GRANTS}/anonymous"), 200)


def test_a_token_of_an_account_is_never_a_guest(world: World, guest: Door) -> None:
    place = f"{DEFAULT}/serviceaccounts"
    made(world.attacker.ask("POST", place, {"metadata": {"name": GUEST}}))
    token = made(world.attacker.ask("POST", f"{place}/{GUEST}/token", {"spec": {}})).json["status"]["token"]
    robot = Door(world.plane.port, world.anonymous.tls, token)
    assert problem(robot.ask("GET", f"/tenants/{VICTIM}/version"), FORBIDDEN) == ""


def test_a_recreated_home_tenant_inherits_nothing(world: World, guest: Door) -> None:
    home = world.tenant("passing")
    accepted(world.victim, VICTIM, home, grant("passing", tenant="passing"))
    actor = world.user("passing", GUEST)
    eventually(lambda: actor.ask("GET", f"/tenants/{VICTIM}/version").status == 200)
    made(world.operator.ask("DELETE", "/vcsync/v1/tenants/passing"), 200)
    made(world.operator.ask("POST", "/vcsync/v1/tenants", {"name": "passing"}))
    later = world.user("passing", GUEST)
    assert problem(later.ask("GET", f"/tenants/{VICTIM}/version"), FORBIDDEN) == ""
    assert actor.ask("GET", f"/tenants/{VICTIM}/version").status in (0, 401)
    made(world.victim.ask("DELETE", f"{GRANTS}/passing"), 200)


def test_a_revoked_certificate_is_no_guest(world: World, guest: Door) -> None:
    subjects = [{"kind": "User", "name": "leaver"}]
    accepted(world.victim, VICTIM, world.attacker, grant("leaver", subjects=subjects))
    actor = world.user(ATTACKER, "leaver")
    eventually(lambda: actor.ask("GET", f"/tenants/{VICTIM}/version").status == 200)
    world.operator.ask("POST", f"/vcsync/v1/tenants/{ATTACKER}/revoke", {"user": "leaver"})
    assert actor.ask("GET", f"/tenants/{VICTIM}/version").status == 401
    made(world.victim.ask("DELETE", f"{GRANTS}/leaver"), 200)


def test_the_guest_still_has_what_it_was_granted(world: World, guest: Door) -> None:
    answer = guest.ask("GET", f"/tenants/{VICTIM}{DEFAULT}/configmaps/open")
    assert answer.status == 404, answer.message
    review = made(
        guest.ask("POST", f"/tenants/{VICTIM}/apis/authentication.k8s.io/v1/selfsubjectreviews", {}), 201
    ).json
    assert review["status"]["userInfo"]["username"] == f"tenant:{ATTACKER}:{GUEST}"
    assert "groups" not in review["status"]["userInfo"]
