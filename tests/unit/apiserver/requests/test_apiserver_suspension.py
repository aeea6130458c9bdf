"""Rights of users of a suspended tenant, and of vcsync's roles in it."""

from http import HTTPStatus
from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.filters.suspension import refuse_suspended
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import parse_path, parse_query, request_info

ROLE = "system:serviceaccount:vcsync-system:vcsync-"


class Suspended:
    """An identity that knows one suspended tenant."""

    def is_suspended(self, tenant: str) -> bool:
        return tenant == "acme"


def refusal(method: str, url: str, user: str = "admin", tenant: str = "acme", **caller: Any) -> str:
    """Return why a request is refused; empty if it is not."""
    path, _, query = url.partition("?")
    info = request_info(method, parse_path(path), parse_query(query))
    incoming = Incoming(method, path, query, {}, None, body=lambda _: None)  # type: ignore[arg-type,return-value]
    try:
        refuse_suspended(Suspended(), incoming, info, Caller(User(user), tenant, **caller), tenant)  # type: ignore[arg-type]
    except StatusError as error:
        return error.message if error.code == HTTPStatus.FORBIDDEN else f"not refused, but {error.code}"
    return ""


PODS = "/api/v1/namespaces/shop/pods"


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", PODS),
        ("GET", f"{PODS}?watch=1"),
        ("HEAD", f"{PODS}/web"),
        ("GET", f"{PODS}/web/log"),
        ("GET", "/openapi/v3"),
        ("OPTIONS", PODS),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ],
)
def test_questions_are_answered(method: str, url: str) -> None:
    assert refusal(method, url) == ""


WRITES = [
    ("POST", PODS),
    ("POST", f"{PODS}?dryRun=All"),
    ("PUT", f"{PODS}/web"),
    ("PATCH", f"{PODS}/web"),
    ("DELETE", f"{PODS}/web"),
    ("DELETE", PODS),
    ("POST", f"{PODS}/web/eviction"),
    ("POST", f"{PODS}/web/exec?command=true"),
    ("GET", f"{PODS}/web/exec?command=true"),
    ("GET", f"{PODS}/web/attach"),
    ("GET", f"{PODS}/web/portforward"),
    ("GET", f"{PODS}/web/proxy/admin"),
    ("GET", "/api/v1/proxy/namespaces/shop/pods/web/admin"),
    ("POST", "/api/v1/namespaces/shop/serviceaccounts/default/token"),
    ("DELETE", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("POST", "/apis/example.com/v1/selfsubjectaccessreviews"),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x/y"),
    ("POST", "/metrics"),
]


@pytest.mark.parametrize(("method", "url"), WRITES)
def test_everything_else_is_refused_with_whom_to_ask(method: str, url: str) -> None:
    said = refusal(method, url)
    assert "the tenant is suspended" in said
    assert "ask the operator" in said


@pytest.mark.parametrize(("method", "url"), WRITES)
def test_the_operator_and_other_tenants_write(method: str, url: str) -> None:
    assert refusal(method, url, system=True) == ""
    assert refusal(method, url, tenant="umbrella") == ""


@pytest.mark.parametrize(
    ("role", "method", "url", "allowed"),
    [
        ("syncer", "DELETE", f"{PODS}/web", True),
        ("syncer", "PATCH", f"{PODS}/web/status", True),
        ("syncer", "POST", f"{PODS}/web/binding", True),
        ("syncer", "POST", "/api/v1/nodes", True),
        ("syncer", "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", True),
        ("podscheduler", "PATCH", f"{PODS}/web", True),
        ("nsscheduler", "PATCH", "/api/v1/namespaces/shop", True),
        # A tenant may bind any role to these accounts, and act as them.
        ("syncer", "POST", PODS, False),
        ("syncer", "DELETE", PODS, False),
        ("syncer", "PUT", "/apis/coordination.k8s.io/v1/namespaces/shop/leases/n", False),
        ("syncer", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", False),
        ("nsscheduler", "DELETE", f"{PODS}/web", False),
        ("controllers", "POST", PODS, False),
    ],
)
def test_roles_do_their_own_work_only(role: str, method: str, url: str, allowed: bool) -> None:
    assert (refusal(method, url, f"{ROLE}{role}") == "") is allowed
    assert refusal(method, url, f"{ROLE}{role}", impersonated=True) != ""
