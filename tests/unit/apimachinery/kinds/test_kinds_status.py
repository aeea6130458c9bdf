"""Validation of the status of objects, with upstream's messages."""

from __future__ import annotations

from typing import Any

import pytest

from vcsync.apimachinery.kinds.all_kinds import by_kind
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import pod_volumes
from vcsync.apimachinery.kinds.core.pod_status import validate as pod_status


def declared(group: str, kind: str) -> Kind:
    found = by_kind(group, kind)
    assert found is not None
    return found


CLAIM = declared("", "PersistentVolumeClaim").status_validate
NODE = declared("", "Node").status_validate
POLICY = declared("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
SERVICE = declared("apiregistration.k8s.io", "APIService").status_validate
FEATURES = "status.declaredFeatures"
FORM = "must start with an UpperCamelCase segment"


@pytest.mark.parametrize(
    ("check", "status", "told"),
    [
        (CLAIM, {"capacity": {"storage": "1Gi"}, "allocatedResources": {"storage": "1Gi"}}, []),
        (CLAIM, {"allocatedResources": {"example.com/a": "1"}}, []),
        (CLAIM, {"allocatedResourceStatuses": {"storage": "NodeResizePending"}}, []),
        (CLAIM, {"capacity": {"a": "-1"}}, ["status.capacity[a]: Invalid value: -1: must be a valid"]),
        (CLAIM, {"allocatedResources": {"a": "1"}}, ['status.allocatedResources: Unsupported value: "a"']),
        (CLAIM, {"allocatedResources": {"storage": "-1"}}, ["status.allocatedResources[storage]: Invalid value: -1"]),
        (CLAIM, {"allocatedResources": {"no key!": "1"}}, ["status.allocatedResources: Invalid value"]),
        (
            CLAIM,
            {"allocatedResourceStatuses": {"storage": "Other"}},
            ['status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "Controller'],
        ),
        (NODE, {"declaredFeatures": ["A", "B/c"]}, []),
        (NODE, {"declaredFeatures": ["x"]}, [f'{FEATURES}[0]: Invalid value: "x": invalid feature name "x": {FORM}']),
        (NODE, {"declaredFeatures": ["A", "A"]}, ["status.declaredFeatures[1]: Duplicate value"]),
        (NODE, {"declaredFeatures": ["B", "A"]}, ['status.declaredFeatures[1]: Invalid value: "A": list must be sorted']),
        (NODE, {"declaredFeatures": ["A" * 254]}, ["status.declaredFeatures[0]: Invalid value"]),
        (POLICY.status_validate, {"typeChecking": {"expressionWarnings": [{"warning": "w", "fieldRef": "spec"}]}}, []),
        (
            POLICY.status_validate,
            {"typeChecking": {"expressionWarnings": [{"fieldRef": " "}]}},
            [
                "status.typeChecking.expressionWarnings[0].warning: Required value",
                "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
            ],
        ),
        (SERVICE, {"conditions": [{"type": "Available", "status": "Unknown"}]}, []),
        (SERVICE, {"conditions": [{"type": "Available"}]}, ['status.conditions[0].status: Unsupported value: ""']),
        (pod_status, {"conditions": [{"type": "Ready", "observedGeneration": 1}]}, []),
        (
            pod_status,
            {"conditions": [{"type": "Ready", "observedGeneration": -1}]},
            ["status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer"],
        ),
    ],
)  # fmt: skip
def test_status(check: Any, status: dict[str, Any], told: list[str]) -> None:
    found = [f"{each.field}: {each.body}" for each in check({"metadata": {}, "status": status}, {})]
    assert len(found) == len(told), found
    for said, expected in zip(found, told, strict=True):
        assert said.startswith(expected)


def topology(rules: Kind, new: dict[str, Any], old: dict[str, Any] | None) -> Any:
    if old is None:
        rules.prepare_create(new, None)  # type: ignore[arg-type]
    else:
        rules.prepare_update({"metadata": {}, **new}, {"metadata": {}, **old}, None)  # type: ignore[arg-type]
    return new["endpoints"][0].get("deprecatedTopology")


def test_the_topology_of_an_endpoint_is_kept_only_where_nothing_of_the_endpoints_changes() -> None:
    rules = declared("discovery.k8s.io", "EndpointSlice")

    def one(address: str) -> dict[str, Any]:
        return {"endpoints": [{"addresses": [address], "deprecatedTopology": {"a": "x"}}]}

    assert topology(rules, one("10.0.0.1"), None) is None
    assert topology(rules, one("10.0.0.1"), one("10.0.0.2")) is None
    assert topology(rules, one("10.0.0.1"), one("10.0.0.1")) == {"a": "x"}


@pytest.mark.parametrize(
    ("kind", "key", "refused"),
    [
        ("MutatingAdmissionPolicy", "resourceRules", True),
        ("MutatingAdmissionPolicy", "excludeResourceRules", False),
        ("ValidatingAdmissionPolicy", "resourceRules", False),
    ],
)
def test_only_what_cannot_be_mutated_is_no_operation_of_a_mutating_policy(
    kind: str, key: str, refused: bool
) -> None:
    rule = {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    found = declared("admissionregistration.k8s.io", kind).validate(
        {"spec": {"matchConstraints": {key: [rule]}}}
    )
    assert any("DELETE" in each.body for each in found) is refused


def test_a_reason_of_a_validation_is_one_of_three_if_it_is_given() -> None:
    found = POLICY.validate({"spec": {"validations": [{"expression": "true", "reason": ""}]}})
    assert 'Unsupported value: "": supported values: "Forbidden"' in next(
        each.body for each in found if each.field == "spec.validations[0].reason"
    )


def test_an_iscsi_disk_of_a_pod_may_name_no_secret() -> None:
    disk = {"targetPortal": "10.0.0.1", "iqn": "iqn.2026-01.example:a", "secretRef": {}}
    sources = {kind: check for kind, _, check in pod_volumes.SOURCES}
    assert not list(sources["iscsi"]("spec.volumes[0].iscsi", disk))
