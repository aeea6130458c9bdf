"""TenantPolicies compiled: sets of resources, selections of tenants, and what is refused when they are written."""

import msgspec
import pytest

from vcsync.api.policy_specs import TenantPolicySpec
from vcsync.apimachinery.resources import Resource
from vcsync.apiserver.admission.tenant_policies.compiled import (
    Names,
    compile_policy,
    problems,
    read_policy,
)


def resource(group: str, plural: str, storage_group: str | None = None) -> Resource:
    stored = group if storage_group is None else storage_group
    return Resource(group, "v1", plural, "", "", True, (), storage_group=stored)


@pytest.mark.parametrize(
    ("groups", "names", "asked", "subresource", "holds"),
    [
        ("apps", "daemonsets", resource("apps", "daemonsets"), "", True),
        ("apps", "daemonsets", resource("apps", "daemonsets"), "scale", True),
        ("apps", "daemonsets", resource("apps", "deployments"), "", False),
        ("apps", "daemonsets", resource("", "daemonsets"), "", False),
        ("*", "daemonsets", resource("x.org", "daemonsets"), "", True),
        ("apps", "*", resource("apps", "deployments"), "scale", True),
        ("", "pods/exec", resource("", "pods"), "exec", True),
        ("", "pods/exec", resource("", "pods"), "", False),
        ("", "pods/exec", resource("", "pods"), "attach", False),
        ("", "pods/*", resource("", "pods"), "attach", True),
        ("", "*/exec", resource("", "pods"), "exec", True),
        ("", "*/*", resource("", "pods"), "", False),
        ("", "events", resource("events.k8s.io", "events", ""), "", True),
    ],
)
def test_a_set_of_resources(groups, names, asked, subresource, holds):
    assert Names(frozenset({groups}), frozenset({names})).holds(asked, subresource) is holds


def compiled(**spec):
    return compile_policy("p", ("p", 1), msgspec.convert(spec, TenantPolicySpec))


@pytest.mark.parametrize(
    ("tenants", "name", "labels", "own_nodes", "selects"),
    [
        (None, "acme", {}, False, True),
        (None, "r1", {}, True, False),
        ({"names": ["acme"]}, "acme", {}, False, True),
        ({"names": ["acme"]}, "other", {}, False, False),
        ({"names": ["r1"]}, "r1", {}, True, True),
        ({"selector": {"matchLabels": {"plan": "gold"}}}, "acme", {"plan": "gold"}, False, True),
        ({"selector": {"matchLabels": {"plan": "gold"}}}, "acme", {"plan": "silver"}, False, False),
        ({"selector": {"matchLabels": {"plan": "gold"}}}, "acme", {"plan": "gold"}, True, False),
        (
            {"selector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]}},
            "a",
            {},
            False,
            True,
        ),
        ({"selector": {}}, "acme", {}, False, True),
    ],
)
def test_a_selection_of_tenants(tenants, name, labels, own_nodes, selects):
    selection = compiled(tenants=tenants).selection
    assert selection.selects(name, labels, own_nodes=own_nodes) is selects


RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, []),
        ({"forbiddenResources": [{"apiGroups": ["apps"], "resources": ["*"]}]},
         ["spec.forbiddenResources[0].resources"]),
        ({"forbiddenResources": [{"apiGroups": ["apps"], "resources": ["daemonsets"]}]}, []),
        ({"forbiddenResources": [{"apiGroups": ["*"], "resources": ["*"]}]},
         ["spec.forbiddenResources[0].resources"]),
        ({"forbiddenResources": [{"apiGroups": ["*"], "resources": ["leases"]}]},
         ["spec.forbiddenResources[0].resources"]),
        ({"forbiddenResources": [{"apiGroups": [""], "resources": ["pods/exec", "secrets"]}]}, []),
        ({"forbiddenResources": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]},
         ["spec.forbiddenResources[0].resources"]),
        ({"requiredLabels": [{"apiGroups": [""], "resources": ["pods", "namespaces"], "labels": [{"key": "a"}]}]}, []),
        ({"requiredLabels": [{"apiGroups": [""], "resources": ["events"], "labels": [{"key": "a"}]}]},
         ["spec.requiredLabels[0].resources"]),
        ({"validations": [{"resourceRules": [RULE], "expression": "true"},
                          {"resourceRules": [RULE], "expression": "thing.x", "messageExpression": "1"}]},
         ["spec.validations[1].expression", "spec.validations[1].messageExpression"]),
        ({"validations": [{"resourceRules": [RULE], "expression": "object.metadata.name"}]},
         ["spec.validations[0].expression"]),
    ],
)  # fmt: skip
def test_what_cannot_be_enforced_is_found_with_its_field(spec, fields):
    assert [each.field for each in problems(msgspec.convert(spec, TenantPolicySpec))] == fields


def test_a_stored_policy_of_another_form_is_broken_for_the_tenants_that_it_selects():
    found = read_policy(
        "p", ("p", 1), {"tenants": {"names": ["acme"]}, "podSecurity": {"level": "unheard-of"}}
    )
    assert "podSecurity" in found.broken
    assert found.selection.names == {"acme"}
    assert read_policy("p", ("p", 1), {"tenants": 7}).selection.selects("any", {}, own_nodes=False)


def manifest(kind="ConfigMap", api_version="v1", name="x", **more):
    return {"manifest": {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}}


@pytest.mark.parametrize(
    ("placed", "field", "text"),
    [
        (manifest(), "", ""),
        ({"copyOf": {"kind": "Secret", "namespace": "vcsync", "name": "pull"}}, "", ""),
        (manifest("Pod"), "spec.placedObjects[0]", "one of ClusterRole, "),
        (manifest("ConfigMap", "v2"), "spec.placedObjects[0]", "one of ClusterRole, "),
        (manifest(name=""), "spec.placedObjects[0]", "metadata.name is missing"),
        (manifest(name="A_B"), "spec.placedObjects[0].manifest.metadata.name", "RFC 1123"),
        (manifest(dta={}), "spec.placedObjects[0]", 'unknown field "dta"'),
        (manifest(data={"a": 1}), "spec.placedObjects[0]", "ConfigMap"),
        (manifest(data={"a/b": ""}), "spec.placedObjects[0].manifest.data[a/b]", "a valid config key"),
        (manifest("LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": "x"}}]}),
         "spec.placedObjects[0]", "quantities must match"),
        ({**manifest("RuntimeClass", "node.k8s.io/v1", handler="x"), "namespaces": ["a"]},
         "spec.placedObjects[0]", "RuntimeClass has no namespace"),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_is_found(placed, field, text):
    found = problems(msgspec.convert({"placedObjects": [placed]}, TenantPolicySpec))
    if not field:
        assert not found
        return
    [wrong] = found
    assert wrong.field == field
    assert text in wrong.body
