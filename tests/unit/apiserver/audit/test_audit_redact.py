"""Audit events never contain the content of a Secret or a token, whatever the policy says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.audit import redact
from vcsync.apiserver.audit.redact import REDACTED

SECRETS = {"resource": "secrets", "apiVersion": "v1"}
TOKEN = {"resource": "serviceaccounts", "subresource": "token"}
REVIEW = {"resource": "tokenreviews", "apiGroup": "authentication.k8s.io"}
HIDDEN = "aHVudGVyMg=="
ANNOTATED = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": HIDDEN}}
SECRET = {"kind": "Secret", "metadata": {"name": "s", **ANNOTATED}, "type": "Opaque", "data": {"k": HIDDEN}}
TABLE = {"kind": "Table", "rows": [{"cells": ["s", 1], "object": SECRET}]}

BODIES = [
    (SECRETS, SECRET),
    (SECRETS, {"stringData": {"k": HIDDEN}}),
    (SECRETS, {"data": None, "stringData": HIDDEN}),
    (SECRETS, {"kind": "SecretList", "items": [SECRET, SECRET]}),
    (SECRETS, TABLE),
    (
        SECRETS,
        [{"op": "add", "path": "/data/k", "value": HIDDEN}, {"op": "test", "path": "", "value": SECRET}],
    ),
    (SECRETS, {"metadata": {"annotations": {"note": HIDDEN}}}),
    (SECRETS, {"metadata": {"unknown": HIDDEN}, "unknown": {"deep": [HIDDEN]}}),
    (SECRETS, {"data": {"$patch": "replace", "k": HIDDEN}}),
    (SECRETS, HIDDEN),
    ({**SECRETS, "subresource": "status"}, SECRET),
    (TOKEN, {"kind": "TokenRequest", "status": {"token": HIDDEN, "expirationTimestamp": "t"}}),
    (REVIEW, {"kind": "TokenReview", "spec": {"token": HIDDEN}, "status": {"authenticated": True}}),
]


@pytest.mark.parametrize(("reference", "value"), BODIES)
def test_secrets_are_removed(reference, value):
    assert redact.may_contain_secrets(reference)
    shown = redact.body(reference, value)
    assert HIDDEN not in json.dumps(shown)
    assert REDACTED in json.dumps(shown)


def test_the_identity_of_a_secret_is_kept():
    shown = redact.body(SECRETS, SECRET)
    assert shown["metadata"]["name"] == "s"
    assert shown["type"] == "Opaque"
    assert list(shown["data"]) == ["k"]
    patch = redact.body(SECRETS, [{"op": "add", "path": "/data/k", "value": HIDDEN}])
    assert patch == [{"op": "add", "path": "/data/k", "value": REDACTED}]


@given(
    st.recursive(
        st.just(HIDDEN) | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["data", "stringData", "items", "rows", "object", "metadata", "annotations", "value", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_body_of_any_shape_reveals_a_secret(value):
    assert HIDDEN not in json.dumps(redact.body(SECRETS, value))


@pytest.mark.parametrize(
    ("code", "kept"), [(400, False), (403, False), (404, True), (409, True), (422, False), (500, False)]
)
def test_messages_that_may_repeat_the_request_are_removed(code, kept):
    status = {
        "code": code,
        "message": HIDDEN,
        "details": {"name": "s", "causes": [{"field": "data", "message": HIDDEN}]},
    }
    shown = redact.status(status, {})
    assert (HIDDEN in json.dumps(shown)) is kept
    assert shown["details"]["name"] == "s"


def test_messages_of_the_authorizer_are_kept():
    status = {"code": 403, "message": "secrets is forbidden"}
    assert redact.status(status, {"authorization.k8s.io/decision": "forbid"}) == status


def test_annotations_of_policies_and_webhooks_keep_only_their_keys():
    found = {"authorization.k8s.io/decision": "allow", "my-policy/object": HIDDEN,
             "patch.webhook.admission.k8s.io/round_0_index_0": HIDDEN}  # fmt: skip
    assert redact.annotations(found) == {
        "authorization.k8s.io/decision": "allow",
        "my-policy/object": REDACTED,
        "patch.webhook.admission.k8s.io/round_0_index_0": REDACTED,
    }


@pytest.mark.parametrize(
    "reference",
    [
        None,
        {"resource": "configmaps"},
        {"resource": "secrets", "apiGroup": "x"},
        {"resource": "serviceaccounts"},
    ],
)
def test_other_resources_are_recorded_unchanged(reference):
    assert not redact.may_contain_secrets(reference)


def test_managed_fields_are_removed_from_objects_lists_and_tables():
    one = {"kind": "Pod", "metadata": {"name": "p", "managedFields": [{}]}}
    bare = {"kind": "Pod", "metadata": {"name": "p"}}
    assert redact.without_managed_fields(one) == bare
    assert redact.without_managed_fields({"items": [one]}) == {"items": [bare]}
    assert redact.without_managed_fields({"rows": [{"object": one}]}) == {"rows": [{"object": bare}]}
    assert redact.without_managed_fields([1]) == [1]
