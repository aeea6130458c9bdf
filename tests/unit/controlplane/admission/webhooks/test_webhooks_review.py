"""Answers of webhooks are believed only as far as the API goes."""

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controlplane.admission.matching import Place
from vcsync.controlplane.admission.webhooks import hooks as hooks_module
from vcsync.controlplane.admission.webhooks.hooks import Hooks, hooks_in
from vcsync.controlplane.admission.webhooks.review import read, refused, version_for
from vcsync.controlplane.egress.failure import CallFailed
from vcsync.controlplane.errors import StatusError

REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}


def packed(value):
    return base64.b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()


def answer(**response):
    return json.dumps({**REVIEW, "response": {"uid": "u", "allowed": True, **response}}).encode()


@pytest.mark.parametrize(
    ("body", "mutating", "told"),
    [
        (b"nonsense", True, "failed to call webhook: couldn't get version/kind; json parse error"),
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
            answer(patch=packed(b"{"), patchType="JSONPatch"),
            True,
            "received undecodable patch in webhook response",
        ),
        (answer(patch="%", patchType="JSONPatch"), True, "illegal base64 data"),
        (answer(allowed="yes"), True, "failed to call webhook: json: cannot unmarshal"),
    ],
)
def test_answers_that_make_no_sense_are_told(body, mutating, told):
    with pytest.raises(CallFailed) as caught:
        read(body, "v1", "u", "h.example.org", mutating=mutating)
    assert told in str(caught.value)


def test_the_older_review_needs_neither_uid_nor_patch_type():
    body = json.dumps({"response": {"allowed": True, "patch": packed([{"op": "add"}])}}).encode()
    found = read(body, "v1beta1", "u", "h", mutating=True)
    assert (found.patch, found.patch_type) == ([{"op": "add"}], "JSONPatch")


@pytest.mark.parametrize(
    ("status", "code", "told"),
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
def test_refusals_have_a_code_that_refuses(status, code, told):
    body = answer(allowed=False, **({} if status is None else {"status": status}))
    found = read(body, "v1", "u", "h.example.org", mutating=True).refusal
    assert isinstance(found, StatusError)
    assert found.code == code
    assert found.message.startswith('admission webhook "h.example.org" denied the request')
    assert found.message.endswith(told)


def test_a_refusal_carries_nothing_but_a_status():
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
def test_no_answer_is_an_error_of_ours(body, mutating):
    with suppress(CallFailed):
        read(json.dumps(body).encode(), "v1", "u", "h", mutating=mutating)


def test_the_first_review_that_both_know_is_spoken():
    assert version_for(("v2", "v1beta1", "v1")) == "v1beta1"
    with pytest.raises(CallFailed, match="does not accept known AdmissionReview versions"):
        version_for(("v2",))


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


def test_webhooks_are_told_apart_and_counted_through():
    two = {"metadata": {"name": "d"}, "webhooks": [{"name": "x.y.z"}, {"name": "x.y.z"}]}
    found = hooks_of([configuration(1), {"metadata": {"name": "none"}, "webhooks": None}, two])
    assert [(each.uid, each.position) for each in found.all] == [
        ("c/h0.example.org/0", 0), ("d/x.y.z/0", 1), ("d/x.y.z/1", 2),
    ]  # fmt: skip


def test_webhooks_of_other_kinds_cost_one_look():
    found = hooks_of([configuration(50)])
    assert found.concerned([("", "configmaps")]) == ()
    assert found.concerned([("", "configmaps")]) is found.concerned([("", "configmaps")])
    assert len(found.concerned([("apps", "deployments")])) == 50
    assert len(found.concerned([("extensions", "deployments"), ("apps", "deployments")])) == 50


def test_what_is_known_of_kinds_is_bounded(monkeypatch):
    monkeypatch.setattr(hooks_module, "MOST_KINDS", 10)
    found = hooks_of([configuration(1)])
    for at in range(100):
        found.concerned([("", f"kind{at}")])
    assert len(found._concerned) <= 10


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
def test_namespaces_are_cluster_scoped_though_in_themselves(scope, namespace, plural, matches):
    (hook,) = hooks_of([configuration(1, scope=scope, apiGroups=["*"], resources=["*"])]).all
    place = Place("", "v1", plural, "", "CREATE", namespace)
    assert hook.rules[0].matches(place) is matches
