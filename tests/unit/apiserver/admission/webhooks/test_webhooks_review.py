"""Decoding of webhook configurations, and validation of the responses of webhooks."""

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission.framework.matching import Place
from vcsync.apiserver.admission.webhooks import hooks as hooks_module
from vcsync.apiserver.admission.webhooks.hooks import Hooks, hooks_in
from vcsync.apiserver.admission.webhooks.review import read, refused, version_for
from vcsync.apiserver.egress.failure import CallFailed

REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}


def packed(value):
    return base64.b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()


def answer(**response):
    return json.dumps({**REVIEW, "response": {"uid": "u", "allowed": True, **response}}).encode()


@pytest.mark.parametrize(
    ("body", "mutating", "expected"),
    [
        (
            b"nonsense",
            True,
            "failed to call webhook: couldn't get version/kind; json parse error: invalid character",
        ),
        (b"[]", True, "json parse error: json: cannot unmarshal array into Go value of type struct {"),
        (b'"text"', True, "json parse error: json: cannot unmarshal string into Go value of type struct {"),
        (json.dumps(REVIEW).encode(), True, "received invalid webhook response: webhook response was absent"),
        (answer(uid="v"), True, 'received invalid webhook response: expected response.uid="u", got "v"'),
        (answer(patch=packed([])), True, "webhook returned response.patch but not response.patchType"),
        (answer(patchType="JSONPatch"), True, "webhook returned response.patchType but not response.patch"),
        (answer(patch=packed([]), patchType=""), True, 'webhook returned invalid response.patchType of ""'),
        (answer(patch=packed([])), False, "validating webhook may not return response.patch"),
        (answer(patchType="JSONPatch"), False, "validating webhook may not return response.patchType"),
        (
            answer(patch=packed({}), patchType="JSONPatch"),
            True,
            "received undecodable patch in webhook response",
        ),
        (
            answer(patch=packed([1]), patchType="JSONPatch"),
            True,
            "received undecodable patch in webhook response",
        ),
        (
            answer(patch=packed(b"{n"), patchType="JSONPatch"),
            True,
            "received undecodable patch in webhook response: invalid character 'n' looking for beginning of object key",
        ),
        (answer(patch="%", patchType="JSONPatch"), True, "illegal base64 data at input byte 0"),
        (answer(allowed="yes"), True, "failed to call webhook: json: cannot unmarshal"),
    ],
)
def test_an_invalid_response_is_an_error_with_a_reason(body, mutating, expected):
    with pytest.raises(CallFailed) as caught:
        read(body, "v1", "u", "h.example.org", mutating=mutating)
    assert expected in str(caught.value)


def test_v1beta1_reviews_need_neither_uid_nor_patch_type():
    body = json.dumps({"response": {"allowed": True, "patch": packed([{"op": "add"}])}}).encode()
    found = read(body, "v1beta1", "u", "h", mutating=True)
    assert (found.patch, found.patch_type) == ([{"op": "add"}], "JSONPatch")


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (None, 400, "without explanation"),
        ({"message": "m"}, 400, ": m"),
        ({"reason": "R"}, 400, ": R"),
        ({"code": 200}, 400, "without explanation"),
        ({"code": 399}, 400, "without explanation"),
        ({"code": 403}, 403, "without explanation"),
        ({"code": 503}, 503, "without explanation"),
        ({"code": 10**9}, 500, "without explanation"),
        ({"code": -1}, 400, "without explanation"),
    ],
)
def test_the_code_of_a_refusal_is_an_error_code(status, code, expected):
    body = answer(allowed=False, **({} if status is None else {"status": status}))
    found = read(body, "v1", "u", "h.example.org", mutating=True).refusal
    assert isinstance(found, StatusError)
    assert found.code == code
    assert found.message.startswith('admission webhook "h.example.org" denied the request')
    assert found.message.endswith(expected)


def test_a_refusal_contains_only_known_fields_of_a_status():
    details = {
        "name": "n",
        "secret": "x",
        "causes": [{"reason": "R", "message": 1}, "x"],
        "retryAfterSeconds": 10**12,
    }
    body = answer(allowed=False, status={"details": details})
    found = read(body, "v1", "u", "h", mutating=False).refusal
    assert found.details == {"name": "n"}
    assert [each.message for each in found.causes] == ["1"]
    assert found.retry_after is None
    assert refused("h", None).code == 400


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_response = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("uid", "allowed", "status", "patch", "patchType", "warnings", "auditAnnotations"), _json
    ),
)


@given(st.one_of(_json, _response.map(lambda each: {**REVIEW, "response": each})), st.booleans())
def test_no_response_raises_an_unexpected_error(body, mutating):
    with suppress(CallFailed):
        read(json.dumps(body).encode(), "v1", "u", "h", mutating=mutating)


def test_the_first_supported_version_of_the_review_is_used():
    assert version_for(("v2", "v1beta1", "v1")) == "v1beta1"
    with pytest.raises(CallFailed) as caught:
        version_for(("v2",))
    assert str(caught.value) == "webhook does not accept known AdmissionReview versions (v1, v1beta1)"


def configuration(count, **rule):
    rules = [
        {
            "operations": ["*"],
            "apiGroups": ["apps"],
            "apiVersions": ["*"],
            "resources": ["deployments"],
            **rule,
        }
    ]
    return {
        "metadata": {"name": "c"},
        "webhooks": [{"name": f"h{at}.example.org", "rules": rules} for at in range(count)],
    }


def hooks_of(configurations):
    return Hooks(tuple(hooks_in(json.dumps(each).encode() for each in configurations)))


def test_webhooks_have_unique_uids_and_positions():
    two = {"metadata": {"name": "d"}, "webhooks": [{"name": "x.y.z"}, {"name": "x.y.z"}]}
    found = hooks_of([configuration(1), {"metadata": {"name": "none"}, "webhooks": None}, two])
    assert [(each.uid, each.position) for each in found.all] == [
        ("c/h0.example.org/0", 0), ("d/x.y.z/0", 1), ("d/x.y.z/1", 2),
    ]  # fmt: skip


def test_relevant_webhooks_are_cached_by_resource():
    found = hooks_of([configuration(50)])
    assert found.relevant([("", "configmaps")]) == ()
    assert found.relevant([("", "configmaps")]) is found.relevant([("", "configmaps")])
    assert len(found.relevant([("apps", "deployments")])) == 50
    assert len(found.relevant([("extensions", "deployments"), ("apps", "deployments")])) == 50


def test_the_cache_of_relevant_webhooks_is_bounded(monkeypatch):
    monkeypatch.setattr(hooks_module, "MOST_KINDS", 10)
    found = hooks_of([configuration(1)])
    for at in range(100):
        found.relevant([("", f"kind{at}")])
    assert len(found._relevant) <= 10


@pytest.mark.parametrize(
    ("scope", "namespace", "plural", "matches"),
    [
        ("*", "", "nodes", True),
        ("Cluster", "", "nodes", True),
        ("Cluster", "n", "pods", False),
        ("Namespaced", "n", "pods", True),
        ("Namespaced", "", "nodes", False),
        ("Cluster", "n", "namespaces", True),
        ("Namespaced", "n", "namespaces", False),
    ],
)
def test_rules_treat_namespaces_as_cluster_scoped(scope, namespace, plural, matches):
    (hook,) = hooks_of([configuration(1, scope=scope, apiGroups=["*"], resources=["*"])]).all
    place = Place("", "v1", plural, "", "CREATE", namespace)
    assert hook.rules[0].matches(place) is matches


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(7, 7), (1, 1), ((1 << 31) - 1, (1 << 31) - 1), (0, None), (-1, None), (1 << 31, None), ("7", None)],
)
def test_a_refusal_may_have_retry_after_seconds(seconds, expected):
    body = answer(allowed=False, status={"code": 429, "details": {"retryAfterSeconds": seconds}})
    found = read(body, "v1", "u", "h", mutating=False).refusal
    assert (found.code, found.retry_after, found.details) == (429, expected, {})
