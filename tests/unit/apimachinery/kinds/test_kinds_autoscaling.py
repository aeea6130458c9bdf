"""Targets of autoscalers, and fields that an update may leave invalid."""

import copy
from typing import Any

import pytest

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS

AUTOSCALER = BEHAVIOURS["autoscaling", "HorizontalPodAutoscaler"]


def made(version: str, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    target = {"apiVersion": version, "kind": kind, "name": "x"}
    found = {"metadata": {"name": "x", "namespace": "n"}, "spec": {"maxReplicas": 3, **spec}}
    found["spec"]["scaleTargetRef"] = target
    AUTOSCALER.default(found)
    return found


def on_an_object(version: str) -> dict[str, Any]:
    described = {"apiVersion": version, "kind": "Service", "name": "s"}
    target = {"type": "Value", "value": "1"}
    return {
        "type": "Object",
        "object": {"describedObject": described, "metric": {"name": "m"}, "target": target},
    }


def fields(findings: list[Any]) -> list[str]:
    return [each.field for each in findings]


@pytest.mark.parametrize("version", ["v1", "", "/v1", "/"])
def test_only_replication_controllers_are_scaled_in_the_core_group(version: str) -> None:
    assert fields(AUTOSCALER.validate(made(version))) == ["spec.scaleTargetRef.apiVersion"]
    assert fields(AUTOSCALER.validate(made(version, "ReplicationController"))) == []


@pytest.mark.parametrize("kind", ["Deployment", "ReplicationController"])
def test_a_version_of_three_parts_is_none(kind: str) -> None:
    assert fields(AUTOSCALER.validate(made("a/b/c", kind))) == ["spec.scaleTargetRef.apiVersion"]
    assert fields(AUTOSCALER.validate(made("apps/v1", kind))) == []


def test_a_change_may_leave_a_target_that_is_refused_today() -> None:
    old = made("v1")
    new = copy.deepcopy(old)
    new["spec"]["maxReplicas"] = 5
    assert fields(AUTOSCALER.validate_update(new, old)) == []
    new["spec"]["scaleTargetRef"]["name"] = "y"
    assert fields(AUTOSCALER.validate_update(new, old)) == []
    new["spec"]["scaleTargetRef"]["kind"] = "StatefulSet"
    assert fields(AUTOSCALER.validate_update(new, old)) == ["spec.scaleTargetRef.apiVersion"]
    new["spec"]["scaleTargetRef"]["kind"] = "ReplicationController"
    assert fields(AUTOSCALER.validate_update(new, old)) == []


def test_a_change_may_leave_metrics_on_objects_of_no_version() -> None:
    old = made("apps/v1", metrics=[on_an_object("a/b/c")])
    path = "spec.metrics[0].object.describedObject.apiVersion"
    assert fields(AUTOSCALER.validate(old)) == [path]
    assert fields(AUTOSCALER.validate_update(copy.deepcopy(old), old)) == []
    assert fields(AUTOSCALER.validate_update(old, made("apps/v1", metrics=[on_an_object("v1")]))) == [path]


def test_no_replicas_at_least_stay_where_they_were_but_are_not_new() -> None:
    none = made("apps/v1", minReplicas=0, metrics=[on_an_object("v1")])
    assert fields(AUTOSCALER.validate(none)) == ["spec.minReplicas"]
    assert fields(AUTOSCALER.validate_update(none, made("apps/v1"))) == ["spec.minReplicas"]
    assert fields(AUTOSCALER.validate_update(copy.deepcopy(none), none)) == []
