"""Scopes of quotas, and the objects that they select."""

from typing import Any

import pytest

from vcsync.quota.scopes import in_scope, selectors

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def container(**resources: dict[str, Any]) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


def asks(scope: str, operator: str = "Exists", values: list[str] | None = None) -> dict[str, Any]:
    return {"scopeName": scope, "operator": operator} | ({} if values is None else {"values": values})


def test_scopes_and_expressions_are_both_asked() -> None:
    expression = asks("PriorityClass", "In", ["high"])
    quota = {"spec": {"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [expression]}}}
    assert selectors(quota) == [{"scopeName": "BestEffort", "operator": "Exists"}, expression]
    assert selectors({}) == selectors({"spec": {"scopes": None, "scopeSelector": None}}) == []


@pytest.mark.parametrize(
    ("operator", "values", "named", "taken"),
    [
        ("Exists", None, "high", True),
        ("Exists", None, "", False),
        ("DoesNotExist", None, "high", False),
        ("DoesNotExist", None, "", True),
        ("In", ["high", "low"], "low", True),
        ("In", ["high"], "low", False),
        ("In", ["high"], "", False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["high"], "high", False),
        ("NotIn", ["high"], "", True),
        ("In", None, "high", False),
    ],
)
def test_priority_classes_are_selected_by_name(
    operator: str, values: list[str] | None, named: str, taken: bool
) -> None:
    selector = asks("PriorityClass", operator, values)
    assert in_scope("", "pods", selector, pod(priorityClassName=named)) is taken
    if not named:
        assert in_scope("", "pods", selector, {}) is taken


@pytest.mark.parametrize(
    ("spec", "best_effort"),
    [
        ({}, True),
        ({"containers": [container(requests={"cpu": "1"})]}, False),
        ({"containers": [container(limits={"memory": "1Gi"})]}, False),
        ({"containers": [container(), container(requests={"memory": "1"})]}, False),
        ({"initContainers": [container(requests={"cpu": "10m"})]}, False),
        ({"resources": {"requests": {"cpu": "1"}}}, False),
        ({"containers": [container(requests={"cpu": "0", "memory": "0"})]}, True),
        ({"containers": [container(requests={"ephemeral-storage": "1Gi", "example.com/gpu": "1"})]}, True),
        ({"containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]}, True),
        ({"containers": [{"name": "c", "resources": None}]}, True),
    ],
)
def test_a_pod_that_asks_for_neither_cpu_nor_memory_is_best_effort(
    spec: dict[str, Any], best_effort: bool
) -> None:
    assert in_scope("", "pods", asks("BestEffort"), pod(**spec)) is best_effort
    assert in_scope("", "pods", asks("NotBestEffort"), pod(**spec)) is not best_effort


@pytest.mark.parametrize(("deadline", "terminating"), [(None, False), (0, True), (60, True)])
def test_a_pod_with_a_deadline_is_terminating(deadline: int | None, terminating: bool) -> None:
    found = pod() if deadline is None else pod(activeDeadlineSeconds=deadline)
    assert in_scope("", "pods", asks("Terminating"), found) is terminating
    assert in_scope("", "pods", asks("NotTerminating"), found) is not terminating


@pytest.mark.parametrize("affinity", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("strength", [REQUIRED, PREFERRED])
@pytest.mark.parametrize(
    ("term", "crosses"),
    [
        ({"topologyKey": "zone"}, False),
        ({"namespaces": []}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": None}, False),
    ],
)
def test_affinity_to_pods_of_other_namespaces_is_seen_wherever_it_stands(
    affinity: str, strength: str, term: dict[str, Any], crosses: bool
) -> None:
    plain: dict[str, Any] = {"topologyKey": "zone"}
    terms = [plain, term] if strength == REQUIRED else [{"podAffinityTerm": plain}, {"podAffinityTerm": term}]
    found = pod(affinity={affinity: {strength: terms}, "nodeAffinity": {}})
    assert in_scope("", "pods", asks("CrossNamespacePodAffinity"), found) is crosses


def test_terms_of_all_kinds_count_together() -> None:
    theirs = {"namespaces": ["other"]}
    found = pod(
        affinity={
            "podAffinity": {REQUIRED: [theirs], PREFERRED: [{"weight": 1}]},
            "podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]},
        }
    )
    assert in_scope("", "pods", asks("CrossNamespacePodAffinity"), found)
    assert not in_scope("", "pods", asks("CrossNamespacePodAffinity"), pod(affinity=None))


@pytest.mark.parametrize(
    ("claim", "classes"),
    [
        ({}, set()),
        ({"spec": {"volumeAttributesClassName": "gold"}}, {"gold"}),
        ({"status": {"currentVolumeAttributesClassName": "silver"}}, {"silver"}),
        ({"status": {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "iron"}}}, {"iron"}),
        (
            {
                "spec": {"volumeAttributesClassName": "gold"},
                "status": {"currentVolumeAttributesClassName": "silver"},
            },
            {"gold", "silver"},
        ),
    ],
)
def test_a_claim_counts_for_every_class_that_it_has_or_is_to_have(
    claim: dict[str, Any], classes: set[str]
) -> None:
    claims = "persistentvolumeclaims"
    for name in ("gold", "silver", "iron"):
        selector = asks("VolumeAttributesClass", "In", [name])
        assert in_scope("", claims, selector, claim) is (name in classes)
    assert in_scope("", claims, asks("VolumeAttributesClass", "DoesNotExist"), claim) is (not classes)
    assert in_scope("", claims, asks("VolumeAttributesClass"), claim) is bool(classes)


def test_a_scope_is_about_its_own_kind_of_objects_only() -> None:
    assert not in_scope("", "persistentvolumeclaims", asks("BestEffort"), {})
    assert not in_scope("", "pods", asks("VolumeAttributesClass", "DoesNotExist"), pod())
    assert not in_scope("", "services", asks("BestEffort"), {})
    assert not in_scope("example.com", "pods", asks("BestEffort"), pod())
    assert not in_scope(
        "example.com", "persistentvolumeclaims", asks("VolumeAttributesClass", "DoesNotExist"), {}
    )
    assert not in_scope("", "pods", asks("Unknown"), pod())
