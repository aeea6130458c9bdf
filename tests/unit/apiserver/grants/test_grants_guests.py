"""The permissions of guests: those of their grants, and none that could outlive them."""

import pytest

from vcsync.apiserver.authorization import guests, limits
from vcsync.apiserver.authorization.bootstrap import default_policy
from vcsync.apiserver.authorization.policy import Binding, Policy, Subject
from vcsync.apiserver.authorization.rbac import Rule
from vcsync.apiserver.request.caller import Attributes, Granted

EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
PODS = Rule(("get", "list", "create"), ("",), ("pods", "pods/exec"))
POLICY = Policy(
    {"all": EVERYTHING, "pods": (PODS,)},
    {("shop", "secrets"): (Rule(("get",), ("",), ("secrets",)),)},
    [
        Binding(
            "b",
            "ClusterRole",
            "all",
            (Subject("Group", "system:authenticated"), Subject("User", "tenant:acme:alice")),
        )
    ],
)


def granted(*roles, namespaces=("shop",), everywhere=False):
    return Granted("g", "d", roles, () if everywhere else namespaces, everywhere)


def may(grants, verb, resource="pods", namespace="shop", **more):
    return guests.decide(
        POLICY, grants, Attributes(verb, resource=resource, namespace=namespace, **more)
    ).allowed


def test_a_role_holds_in_the_named_namespaces_only():
    grants = [granted(("ClusterRole", "pods"))]
    assert may(grants, "get")
    assert may(grants, "create", subresource="exec")
    for namespace in ("web", "", "shop2"):
        assert not may(grants, "get", namespace=namespace)
    assert not may(grants, "delete")
    assert not may(grants, "get", "secrets")


def test_a_cluster_wide_role_holds_everywhere():
    grants = [granted(("ClusterRole", "pods"), everywhere=True)]
    assert all(may(grants, "list", namespace=each) for each in ("shop", "web", ""))


def test_a_role_is_that_of_the_namespace():
    grants = [granted(("Role", "secrets"), namespaces=("shop", "web"))]
    assert may(grants, "get", "secrets")
    assert not may(grants, "get", "secrets", "web")
    assert not may([granted(("Role", "secrets"), everywhere=True)], "get", "secrets", "")


def test_a_missing_role_grants_nothing_and_a_later_one_does():
    policy = Policy({}, {}, [])
    grants, asked = [granted(("ClusterRole", "later"))], Attributes("get", resource="pods", namespace="shop")
    assert not guests.decide(policy, grants, asked).allowed
    policy.set_role("", "later", (PODS,))
    decision = guests.decide(policy, grants, asked)
    assert decision.allowed
    assert decision.reason == 'TenantGrant: allowed by TenantGrant "g" of ClusterRole "later"'


def test_bindings_of_the_tenant_mean_nothing_to_guests():
    assert not may([], "get")
    assert not may([granted(("ClusterRole", "pods"))], "get", "secrets")


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("get", "/api"),
        ("get", "/apis/apps/v1"),
        ("get", "/openapi/v3"),
        ("get", "/version"),
        ("get", "/livez"),
    ],
)
def test_every_guest_reads_discovery(verb, path):
    assert guests.decide(POLICY, [], Attributes(verb, path, resource_request=False)).allowed
    assert not guests.decide(POLICY, [], Attributes("post", path, resource_request=False)).allowed


def test_other_paths_need_a_cluster_wide_role():
    asked = Attributes("get", "/metrics", resource_request=False)
    assert not guests.decide(POLICY, [granted(("ClusterRole", "all"))], asked).allowed
    assert guests.decide(POLICY, [granted(("ClusterRole", "all"), everywhere=True)], asked).allowed


@pytest.mark.parametrize(
    ("group", "resource", "allowed"),
    [
        ("authorization.k8s.io", "selfsubjectaccessreviews", True),
        ("authorization.k8s.io", "selfsubjectrulesreviews", True),
        ("authentication.k8s.io", "selfsubjectreviews", True),
        ("authorization.k8s.io", "subjectaccessreviews", False),
        ("authentication.k8s.io", "tokenreviews", False),
    ],
)
def test_every_guest_reviews_itself(group, resource, allowed):
    asked = Attributes("create", group=group, resource=resource)
    assert guests.decide(POLICY, [], asked).allowed == allowed


IMPERSONATING = ("impersonate", "impersonate:user-info", "impersonate-on:user-info:get")
TENANCY = ("tenantgrants", "tenantgrantoffers")
CHANGING_REQUESTS = (
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiregistration.k8s.io", "apiservices"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
)
WRITES = ("create", "update", "patch", "delete", "deletecollection")
PASSING_ON = [
    *(Attributes(verb, resource="users", name="x") for verb in IMPERSONATING),
    *(Attributes(verb, group=guests.RBAC, resource="clusterroles") for verb in ("bind", "escalate", *WRITES)),
    *(
        Attributes(verb, group="certificates.k8s.io", resource="signers")
        for verb in ("approve", "sign", "attest")
    ),
    Attributes("create", group="certificates.k8s.io", resource="certificatesigningrequests"),
    Attributes("create", resource="serviceaccounts", subresource="token", namespace="shop"),
    *(Attributes(verb, group="tenancy.x-k8s.io", resource=each) for verb in WRITES for each in TENANCY),
    *(Attributes(verb, group=group, resource=each) for verb in WRITES for group, each in CHANGING_REQUESTS),
    Attributes("*", group="*", resource="*"),
    Attributes("create", group="*", resource="pods"),
    Attributes("create", resource="*"),
    Attributes("*", resource="pods"),
]


@pytest.mark.parametrize("asked", PASSING_ON)
def test_no_role_lets_a_guest_pass_permissions_on_or_keep_them(asked):
    grants = [granted(("ClusterRole", "all"), everywhere=True)]
    assert guests.decide(POLICY, grants, asked) == guests.decide(default_policy(), grants, asked)
    assert not guests.decide(POLICY, grants, asked).allowed
    assert guests.REFUSED in guests.decide(POLICY, grants, asked).reason


def test_guests_read_what_they_may_not_write():
    grants = [granted(("ClusterRole", "all"), everywhere=True)]
    assert may(grants, "list", "tenantgrants", "", group="tenancy.x-k8s.io")
    assert may(grants, "get", "roles", group=guests.RBAC)
    assert may(grants, "create", "serviceaccounts")


def test_a_role_of_many_grants_is_looked_at_once_and_very_many_rules_grant_nothing(monkeypatch):
    monkeypatch.setattr(limits, "MAX_RULES", 20)
    policy = Policy({"big": (PODS,) * 15, "bigger": (PODS,) * 6}, {}, [])
    compared = []
    monkeypatch.setattr(guests, "allows", lambda rule, asked: bool(compared.append(rule)))
    grants = [granted(("ClusterRole", "big"), ("ClusterRole", "bigger"), everywhere=True)] * 30
    refused = guests.decide(policy, grants, Attributes("get", resource="secrets", namespace="shop"))
    assert (refused.allowed, refused.reason) == (False, f"TenantGrant: {limits.EXCEEDED}")
    assert len(compared) == len(guests.ALWAYS) + 15
    assert len(guests.rules(policy, grants, "shop")) == len(guests.ALWAYS) + 15


def test_the_listed_rules_are_those_of_the_namespace():
    grants = [granted(("ClusterRole", "pods"), ("Role", "secrets"))]
    always = list(guests.ALWAYS)
    assert guests.rules(POLICY, grants, "shop") == [*always, PODS, Rule(("get",), ("",), ("secrets",))]
    assert guests.rules(POLICY, grants, "web") == always
