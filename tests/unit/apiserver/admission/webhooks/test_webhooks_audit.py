"""Audit annotations of webhooks, and managedFields that webhooks left invalid."""

import json

import pytest

from vcsync.apiserver.admission.webhooks import annotations
from vcsync.apiserver.admission.webhooks.dispatch import INVALID_OWNERS, _keep_owners
from vcsync.apiserver.admission.webhooks.hooks import hooks_in
from vcsync.apiserver.request.audit_trail import Level, Trail
from vcsync.apiserver.request.scope import Admission

PATCH = [{"op": "remove", "path": "/data"}]


def hook():
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]
    names = ("first.example.org", "second.example.org")
    hooks = [
        {
            "name": name,
            "clientConfig": {"url": "https://hooks.example.com"},
            "rules": rules,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for name in names
    ]
    _, second = hooks_in([json.dumps({"metadata": {"name": "c"}, "webhooks": hooks}).encode()])
    return second


WEBHOOK = {"configuration": "c", "webhook": "second.example.org"}


@pytest.mark.parametrize("changed", [True, False])
def test_audit_records_that_a_webhook_was_called_and_whether_it_changed_the_object(changed):
    trail = Trail(Level.METADATA)
    annotations.mutated(trail, hook(), 1, changed=changed)
    ((key, value),) = trail.annotations.items()
    assert key == "mutation.webhook.admission.k8s.io/round_1_index_1"
    assert json.loads(value) == {**WEBHOOK, "mutated": changed}


@pytest.mark.parametrize("level", [Level.METADATA, Level.REQUEST, Level.REQUEST_RESPONSE])
def test_audit_records_patches_at_levels_that_include_requests(level):
    trail = Trail(level)
    annotations.patched(trail, hook(), 0, PATCH)
    found = {key: json.loads(value) for key, value in trail.annotations.items()}
    whole = {
        "patch.webhook.admission.k8s.io/round_0_index_1": {
            **WEBHOOK,
            "patch": PATCH,
            "patchType": "JSONPatch",
        }
    }
    assert found == ({} if level == Level.METADATA else whole)


@pytest.mark.parametrize(("mutating", "sort"), [(True, "mutation"), (False, "validating")])
def test_audit_records_that_a_failure_was_ignored(mutating, sort):
    trail = Trail(Level.METADATA)
    annotations.failed_open(trail, hook(), 0, mutating=mutating)
    key = f"failed-open.{sort}.webhook.admission.k8s.io/round_0_index_1"
    assert trail.annotations == {key: "second.example.org"}


def test_requests_that_are_not_audited_get_no_annotations():
    trail = Trail(Level.NONE)
    annotations.mutated(trail, hook(), 0, changed=True)
    annotations.patched(trail, hook(), 0, PATCH)
    annotations.failed_open(trail, hook(), 0, mutating=True)
    assert trail.annotations == {}


INVALID = [{"manager": "m", "operation": "Nothing"}]
OWNERS = [
    {
        "manager": "me",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {}},
    }
]


class RecordingScope:
    """A stand-in for the scope of a request that records its warnings."""

    def __init__(self):
        self.warnings = []

    def warn(self, texts):
        self.warnings.extend(texts)


@pytest.mark.parametrize(
    ("before", "after", "kept", "warned"),
    [
        pytest.param(None, INVALID, None, True, id="there were none"),
        pytest.param(OWNERS, INVALID, OWNERS, True, id="there were some"),
        pytest.param(OWNERS, OWNERS, OWNERS, False, id="they are the same"),
        pytest.param(None, OWNERS, OWNERS, False, id="they are valid"),
        pytest.param(OWNERS, [], [], False, id="they were removed"),
    ],
)
def test_invalid_managed_fields_of_webhooks_are_replaced_by_the_previous_ones(before, after, kept, warned):
    new = {"metadata": {"name": "x", "managedFields": after}}
    scope = RecordingScope()
    _keep_owners(Admission(scope, "UPDATE", "x", new, None, False), before)
    expected = {"name": "x"} if kept is None else {"name": "x", "managedFields": kept}
    assert new["metadata"] == expected
    said = f"{INVALID_OWNERS}: operation must be `Apply` or `Update`"
    assert scope.warnings == ([said] if warned else [])
