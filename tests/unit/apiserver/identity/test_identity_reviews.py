"""Reviews and TokenRequest answer what kube-apiserver 1.36 answered to the same questions."""

from typing import Any

import pytest

from tests.unit.apiserver.identity.conftest import NOW, House
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization import limits
from vcsync.apiserver.request.caller import Caller

RBAC = "rbac.authorization.k8s.io"
BOB = Caller(User("bob", "bobuid", ("devs", "ops", "system:authenticated")), "acme")
ADMIN = Caller(User("admin", groups=("vcsync:tenant-admins", "system:authenticated")), "acme")
OPERATOR = Caller(User("admin", groups=("system:masters",)), "system", system=True)
PODS = {"verb": "get", "resource": "pods", "namespace": "default"}
AUTHORIZATION = "authorization.k8s.io/v1"
SAR, SELF_SAR = "subjectaccessreviews", "selfsubjectaccessreviews"
LOCAL_SAR = "localsubjectaccessreviews"
KINDS = {
    SAR: "SubjectAccessReview",
    SELF_SAR: "SelfSubjectAccessReview",
    LOCAL_SAR: "LocalSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
}


async def rights(house: House) -> None:
    """Let bob read pods in default, and refer to two roles that do not exist."""
    rules = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "configmaps"]}]
    await house.put(
        "acme", RBAC, "roles", {"metadata": {"name": "r1", "namespace": "default"}, "rules": rules}
    )
    for name, kind, role, subject in (
        ("b1", "Role", "r1", {"kind": "User", "name": "bob"}),
        ("b2", "Role", "nope", {"kind": "Group", "name": "devs"}),
    ):
        binding = {
            "metadata": {"name": name, "namespace": "default"},
            "subjects": [subject],
            "roleRef": {"kind": kind, "name": role, "apiGroup": RBAC},
        }
        await house.put("acme", RBAC, "rolebindings", binding)
    dangling = {
        "metadata": {"name": "dangling"},
        "subjects": [{"kind": "User", "name": "bob"}],
        "roleRef": {"kind": "ClusterRole", "name": "nothere", "apiGroup": RBAC},
    }
    await house.put("acme", RBAC, "clusterrolebindings", dangling)


async def ask(
    house: House, caller: Caller, plural: str, spec: Any, namespace: str = "", metadata: Any = None
) -> Any:
    body = {"kind": KINDS[plural], "apiVersion": AUTHORIZATION, "spec": spec}
    if metadata:
        body["metadata"] = metadata
    return await house.identity.reviews.create(caller, "acme", plural, namespace, body)


async def refusal(
    house: House, caller: Caller, plural: str, spec: Any, namespace: str = "", metadata: Any = None
) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await ask(house, caller, plural, spec, namespace, metadata)
    return caught.value


async def test_what_one_may(house: House) -> None:
    await rights(house)
    answer = await ask(house, BOB, SELF_SAR, {"resourceAttributes": PODS})
    assert answer == {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": AUTHORIZATION,
        "metadata": {},
        "spec": {"resourceAttributes": PODS},
        "status": {
            "allowed": True,
            "reason": 'RBAC: allowed by RoleBinding "b1/default" of Role "r1" to User "bob"',
        },
    }
    answer = await ask(house, BOB, SELF_SAR, {"resourceAttributes": {"verb": "get", "resource": "pods"}})
    assert answer["status"] == {
        "allowed": False,
        "reason": 'RBAC: clusterrole.rbac.authorization.k8s.io "nothere" not found',
    }


async def test_what_others_may_in_this_tenant(house: House) -> None:
    await rights(house)
    answer = await ask(house, ADMIN, SAR, {"user": "bob", "resourceAttributes": PODS})
    assert answer["status"]["allowed"] is True
    elsewhere = await house.identity.reviews.create(
        ADMIN,
        "umbrella",
        SAR,
        "",
        {"kind": "SubjectAccessReview", "spec": {"user": "bob", "resourceAttributes": PODS}},
    )
    assert elsewhere["status"] == {"allowed": False}


async def test_naming_the_masters_in_a_review_makes_nobody_an_operator(house: House) -> None:
    await house.delete(f"acme/{RBAC}/clusterrolebindings/cluster-admin")
    spec = {
        "user": "x",
        "groups": ["system:masters"],
        "resourceAttributes": {"verb": "get", "resource": "pods"},
    }
    assert (await ask(house, ADMIN, SAR, spec))["status"] == {"allowed": False}


async def test_an_operator_may_in_a_tenant_what_an_operator_may(house: House) -> None:
    spec = {"nonResourceAttributes": {"path": "/version", "verb": "get"}}
    assert (await ask(house, OPERATOR, SELF_SAR, spec))["status"] == {"allowed": True}


ONE_OF = (
    "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must "
    "be specified"
)


@pytest.mark.parametrize(
    ("plural", "namespace", "spec", "message"),
    [
        (SELF_SAR, "", {}, f'.authorization.k8s.io "" is invalid: {ONE_OF}'),
        (
            SAR,
            "",
            {},
            (
                f'.authorization.k8s.io "" is invalid: [{ONE_OF}, spec.user: Invalid value: "": at least one of user or '
                "group must be specified]"
            ),
        ),
        (
            LOCAL_SAR,
            "default",
            {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods"}},
            (
                '.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "": must match '
                "metadata.namespace"
            ),
        ),
        (
            LOCAL_SAR,
            "default",
            {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/x"}},
            (
                '.authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: '
                '{"Path":"/x","Verb":"get"}: disallowed on this kind of request'
            ),
        ),
        (
            SAR,
            "",
            {
                "user": "bob",
                "resourceAttributes": {
                    "verb": "get",
                    "resource": "pods",
                    "labelSelector": {
                        "rawSelector": "a=b",
                        "requirements": [{"key": "a", "operator": "Exists"}],
                    },
                    "fieldSelector": {},
                },
            },
            (
                '.authorization.k8s.io "" is invalid: [spec.resourceAttributes.fieldSelector.requirements: Required '
                "value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required, "
                'spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a=b": may not specified at the same '
                "time as requirements]"
            ),
        ),
    ],
)
async def test_questions_that_make_no_sense(
    house: House, plural: str, namespace: str, spec: Any, message: str
) -> None:
    refused = await refusal(house, ADMIN, plural, spec, namespace)
    assert (refused.code, refused.message) == (422, message)
    assert "kind" not in refused.status()["details"]


async def test_metadata_has_no_place_in_a_review(house: House) -> None:
    refused = await refusal(house, ADMIN, SELF_SAR, {"resourceAttributes": PODS}, metadata={"name": "x"})
    assert (
        refused.message
        == '.authorization.k8s.io "" is invalid: metadata: Invalid value: {"name":"x"}: must be empty'
    )


async def test_refused_metadata_is_told_in_the_order_of_its_type(house: House) -> None:
    spec = {"user": "bob", "resourceAttributes": PODS}
    given = {"annotations": {"a": "x"}, "name": "x"}
    refused = await refusal(house, ADMIN, LOCAL_SAR, spec, "default", given)
    told = '{"name":"x","namespace":"default","annotations":{"a":"x"}}'
    assert refused.message.endswith(f"metadata: Invalid value: {told}: must be empty except for namespace")


async def test_a_local_review_is_about_its_namespace(house: House) -> None:
    await rights(house)
    spec = {"user": "bob", "resourceAttributes": PODS}
    answer = await ask(house, ADMIN, LOCAL_SAR, spec, "default", {"namespace": "default"})
    assert answer["status"]["allowed"] is True
    refused = await refusal(house, ADMIN, LOCAL_SAR, spec, "default", {"namespace": "other"})
    assert (refused.code, refused.message) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


async def test_the_rules_that_one_has(house: House) -> None:
    await rights(house)
    answer = await ask(house, BOB, "selfsubjectrulesreviews", {"namespace": "default"})
    assert answer["spec"] == {}
    status = answer["status"]
    pods = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "configmaps"]}
    assert pods in status["resourceRules"]
    version = {
        "verbs": ["get"],
        "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
    }
    assert version in status["nonResourceRules"]
    assert status["incomplete"] is False
    assert status["evaluationError"] == (
        '[clusterrole.rbac.authorization.k8s.io "nothere" not found, '
        'role.rbac.authorization.k8s.io "nope" not found]'
    )
    refused = await refusal(house, BOB, "selfsubjectrulesreviews", {})
    assert (refused.code, refused.message) == (400, "no namespace on request")


async def test_rules_of_a_role_with_many_bindings_are_listed_once_and_too_many_are_left_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_RULES", 40)
    one = {"verbs": ["get"], "apiGroups": ["x.example.com"], "resources": ["bombs"]}
    for name, count in (("big", 20), ("huge", 41)):
        await house.put(
            "acme",
            RBAC,
            "clusterroles",
            {"metadata": {"name": name}, "rules": [one | {"resources": [name]}] * count},
        )
    for number in range(30):
        binding = {
            "metadata": {"name": f"b{number:02}"},
            "subjects": [{"kind": "User", "name": "bob"}],
            "roleRef": {"kind": "ClusterRole", "name": "huge" if number == 0 else "big", "apiGroup": RBAC},
        }
        await house.put("acme", RBAC, "clusterrolebindings", binding)
    answer = await ask(house, BOB, "selfsubjectrulesreviews", {"namespace": "default"})
    status = answer["status"]
    assert status["resourceRules"].count(one | {"resources": ["big"]}) == 20
    assert one | {"resources": ["huge"]} not in status["resourceRules"]
    assert (status["incomplete"], status["evaluationError"]) == (True, limits.EXCEEDED)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"groups": [f"g{n}" for n in range(1001)]},
            "spec.groups: Too many: 1001: must have at most 1000 items",
        ),
        (
            {"extra": {"k": [f"v{n}" for n in range(1000)]}},
            "spec.extra: Too many: 1001: must have at most 1000 items",
        ),
        (
            {"extra": {f"k{n}": [] for n in range(1001)}},
            "spec.extra: Too many: 1001: must have at most 1000 items",
        ),
    ],
    ids=["groups", "values", "keys"],
)
async def test_a_review_names_a_limited_number_of_groups_and_extra(
    house: House, more: dict[str, Any], message: str
) -> None:
    refused = await refusal(house, OPERATOR, SAR, {"user": "bob", "resourceAttributes": PODS, **more})
    assert refused.code == 422
    assert message in refused.message


async def test_who_one_is(house: House) -> None:
    body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    answer = await house.identity.reviews.create(BOB, "acme", "selfsubjectreviews", "", body)
    assert answer == {
        **body,
        "metadata": {"creationTimestamp": "2027-01-15T08:00:00Z"},
        "status": {
            "userInfo": {
                "username": "bob",
                "uid": "bobuid",
                "groups": ["devs", "ops", "system:authenticated"],
            }
        },
    }


# ---- tokens ------------------------------------------------------------------------------

ISSUER = "https://cp.example:6443/tenants/acme"


async def request(house: House, body: dict[str, Any], name: str = "x") -> dict[str, Any]:
    return await house.identity.token_requests.create("acme", "default", name, body)


async def account(house: House) -> None:
    await house.put(
        "acme", "", "serviceaccounts", {"metadata": {"name": "x", "namespace": "default", "uid": "u1"}}
    )
    await house.put(
        "acme", "", "secrets", {"metadata": {"name": "sec1", "namespace": "default", "uid": "s1"}}
    )


async def test_a_token_is_made_with_the_real_servers_defaults(house: House) -> None:
    await account(house)
    answer = await request(house, {"metadata": {"labels": {"a": "b"}}})
    token = answer["status"].pop("token")
    assert token.count(".") == 2
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": "x",
            "namespace": "default",
            "uid": "u1",
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "labels": {"a": "b"},
        },
        "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"expirationTimestamp": "2027-01-15T09:00:00Z"},
    }


INVALID = 'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: '


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"spec": {"expirationSeconds": 10}},
            422,
            f"{INVALID}10: may not specify a duration less than 10 minutes",
        ),
        (
            {"spec": {"expirationSeconds": 8589934592}},
            422,
            f"{INVALID}8589934592: may not specify a duration larger than 2^32 seconds",
        ),
        (
            {"metadata": {"name": "y"}},
            422,
            (
                'TokenRequest.authentication.k8s.io "x" is invalid: metadata.name: Invalid value: "y": must match the '
                "service account name if specified"
            ),
        ),
        (
            {"metadata": {"namespace": "y"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"metadata": {"uid": "y"}},
            409,
            (
                'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "x": the UID in the token request '
                "(y) does not match the UID of the service account (u1)"
            ),
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "sec1", "uid": "77"}}},
            409,
            (
                'Operation cannot be fulfilled on Secret "sec1": the UID in the bound object reference (77) does not '
                "match the UID in record. The object might have been deleted and then recreated"
            ),
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}},
            404,
            'secrets "none" not found',
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "../default/sec1"}}},
            404,
            'secrets "../default/sec1" not found',
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "none"}}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "none"}}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
    ],
)
async def test_token_requests_that_make_no_sense(
    house: House, body: dict[str, Any], code: int, message: str
) -> None:
    await account(house)
    with pytest.raises(StatusError) as caught:
        await request(house, body)
    assert (caught.value.code, caught.value.message) == (code, message)


async def test_a_token_is_not_bound_to_a_pod_of_another_account(house: House) -> None:
    await account(house)
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"serviceAccountName": "other"}}
    await house.put("acme", "", "pods", pod)
    with pytest.raises(StatusError, match="pod running with different serviceaccount name"):
        await request(house, {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}})


async def test_no_account_no_token(house: House) -> None:
    with pytest.raises(StatusError) as caught:
        await request(house, {}, "nosuch")
    assert (caught.value.code, caught.value.message) == (404, 'serviceaccounts "nosuch" not found')


async def review(house: House, tenant: str, spec: dict[str, Any]) -> Any:
    body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
    return (await house.identity.reviews.create(ADMIN, tenant, "tokenreviews", "", body))["status"]


async def test_tokens_are_reviewed_in_their_own_tenant_only(house: House) -> None:
    await account(house)
    token = (await request(house, {}))["status"]["token"]
    status = await review(house, "acme", {"token": token})
    assert status["authenticated"] is True
    assert status["audiences"] == [ISSUER]
    assert status["user"]["username"] == "system:serviceaccount:default:x"
    unknown = {"user": {}, "error": "invalid bearer token"}
    assert await review(house, "umbrella", {"token": token}) == unknown
    assert await review(house, "acme", {"token": "wrong"}) == unknown
    assert await review(house, "acme", {"token": token, "audiences": ["zz"]}) == {
        "user": {},
        "error": f'[invalid bearer token, token audiences ["{ISSUER}"] is invalid for the target audiences ["zz"]]',
    }
    house.clock.now = NOW + 3600 + 61
    assert "authenticated" not in await review(house, "acme", {"token": token})
    with pytest.raises(StatusError, match="token is required for TokenReview in authentication"):
        await review(house, "acme", {})


async def test_what_others_need_to_verify_tokens(house: House) -> None:
    found = await house.identity.token_requests.openid_configuration("acme")
    assert (found["issuer"], found["jwks_uri"]) == (ISSUER, f"{ISSUER}/openid/v1/jwks")
    _, signer, _ = await house.keys("acme")
    (key,) = (await house.identity.token_requests.jwks("acme"))["keys"]
    assert (key["kid"], key["kty"], key["crv"], key["alg"], key["use"]) == (
        signer.id,
        "EC",
        "P-256",
        "ES256",
        "sig",
    )
    with pytest.raises(StatusError):
        await house.identity.token_requests.jwks("no-such")
