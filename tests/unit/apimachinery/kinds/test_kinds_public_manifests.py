"""Rules and columns on which public manifests differed from kube-apiserver."""

from datetime import UTC, datetime

import pytest

from vcsync.apimachinery.kinds.admissionregistration import (
    mutating_admission_policy,
    validating_admission_policy_binding,
)
from vcsync.apimachinery.kinds.core import persistent_volume_claim
from vcsync.apimachinery.kinds.rbac import role_binding

CLASS = "volume.beta.kubernetes.io/storage-class"
SIZE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def claim(annotation=None, name=None):
    found = {"metadata": {"annotations": {CLASS: annotation} if annotation else {}}, "spec": dict(SIZE)}
    if name:
        found["spec"]["storageClassName"] = name
    return found


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        (claim("one"), claim("other"), [f"metadata.annotations.{CLASS}"]),
        (claim("one"), claim(), [f"metadata.annotations.{CLASS}"]),
        (claim(), claim("late"), [f"metadata.annotations.{CLASS}"]),
        (claim("one"), claim("one", "one"), []),
        (claim("one"), claim(None, "one"), []),
        (claim("one"), claim("one", "other"), ["spec"]),
        (claim(), claim(None, "late"), []),
        (claim(None, "one"), claim(None, "other"), ["spec"]),
    ],
)
def test_the_class_of_a_claim_may_only_move_from_the_annotation_to_the_field(old, new, fields):
    assert [each.field for each in persistent_volume_claim.KIND.validate_update(new, old)] == fields


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"kind": "PersistentVolumeClaim", "name": "a"}, ""),
        ({"kind": "PersistentVolumeClaim", "name": "b"}, "must match dataSourceRef"),
        (
            {"kind": "PersistentVolumeClaim", "name": "a", "namespace": "n"},
            "may not be specified when dataSourceRef.namespace is specified",
        ),
    ],
)
def test_a_source_excludes_a_reference_to_another_namespace(reference, message):
    spec = {**SIZE, "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}, "dataSourceRef": reference}
    assert [str(each).rpartition(": ")[2] for each in persistent_volume_claim.spec("spec", spec)] == [
        message
    ][: bool(message)]


def test_a_binding_with_name_and_selector_is_refused_at_both():
    spec = {"policyName": "p", "validationActions": ["Deny"]}
    spec["paramRef"] = {"name": "n", "selector": {}, "parameterNotFoundAction": "Deny"}
    found = validating_admission_policy_binding.KIND.validate({"metadata": {"name": "b"}, "spec": spec})
    assert [each.field for each in found] == ["spec.paramRef.name", "spec.paramRef.selector"]


def test_a_mutating_policy_may_not_match_deletions():
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "DELETE"],
        "resources": ["pods"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
        "reinvocationPolicy": "Never",
    }
    found = mutating_admission_policy.KIND.validate({"metadata": {"name": "p"}, "spec": spec})
    assert [each.field for each in found] == ["spec.matchConstraints.resourceRules.operations"]


def test_service_accounts_are_shown_with_their_namespace_even_if_it_is_empty():
    subjects = [
        {"kind": "ServiceAccount", "name": "a"},
        {"kind": "ServiceAccount", "name": "b", "namespace": "n"},
    ]
    cell = role_binding.KIND.columns["ServiceAccounts"]
    assert cell({"subjects": subjects}, datetime.now(UTC)) == "/a, n/b"
