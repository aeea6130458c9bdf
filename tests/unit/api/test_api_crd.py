"""The CRDs are structural, describe every field, and limit the size of everything that a rule evaluates."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from vcsync.api import served, specs
from vcsync.api.crd import DEFINITIONS, crd, crds
from vcsync.apimachinery.cel.rules import compile_rules
from vcsync.apimachinery.structural.schema import build
from vcsync.scheduling.slices import DIMENSIONS, OBJECTS, PODS

CRDS = {
    definition["spec"]["names"]["kind"]: definition for definition in (*crds(), *map(crd, served.NETWORKS))
}


def schema_of(kind: str) -> dict[str, Any]:
    (version,) = CRDS[kind]["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


def below(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema within a schema with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from below(inner, f"{path}.{name}")
    for inside in ("items", "additionalProperties"):
        if inside in schema:
            yield from below(schema[inside], f"{path}[]")


FIELDS = [
    pytest.param(schema, id=f"{kind}{path}")
    for kind in CRDS
    for part in ("spec", "status")
    if part in schema_of(kind)["properties"]
    for path, schema in below(schema_of(kind)["properties"][part], f".{part}")
]


@pytest.mark.parametrize("schema", FIELDS)
def test_every_field_has_a_type_and_bounds(schema: dict[str, Any]) -> None:
    if schema.get("x-kubernetes-int-or-string"):
        assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}]
        assert {"maxLength", "pattern", "minimum"} <= set(schema)
        return
    match schema["type"]:
        case "string":
            assert "maxLength" in schema or "enum" in schema
        case "array":
            assert "maxItems" in schema
        case "object":
            assert "additionalProperties" not in schema or "maxProperties" in schema


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_is_explained(kind: str) -> None:
    for path, schema in below(schema_of(kind)):
        is_element = path.endswith("[]") and schema["type" if "type" in schema else "anyOf"] != "object"
        assert (
            is_element
            or path == ".metadata"
            or schema.get("description", "").endswith((".", "hostNetwork", "hostPID", "hostIPC"))
        )


@pytest.mark.parametrize("kind", CRDS)
def test_defaults_are_in_the_spec_only_and_meet_their_own_schema(kind: str) -> None:
    for path, schema in below(schema_of(kind)):
        if "default" not in schema:
            continue
        assert path.startswith(".spec.")
        default = schema["default"]
        if "enum" in schema:
            assert default in schema["enum"]
        if schema["type"] == "integer":
            assert schema["minimum"] <= default <= schema["maximum"]
        if "pattern" in schema:
            assert re.search(schema["pattern"], default)


def test_names_are_short_and_unique() -> None:
    short_names = [definition["spec"]["names"]["shortNames"] for definition in CRDS.values()]
    assert short_names == [["te"], ["tt"], ["tp"], ["vc"], ["sc", "super"], ["npl"], ["ne", "net"]]
    assert all(definition["spec"]["names"]["categories"] == ["vcsync"] for definition in CRDS.values())


@pytest.mark.parametrize("kind", CRDS)
def test_status_is_a_subresource_with_conditions(kind: str) -> None:
    (version,) = CRDS[kind]["spec"]["versions"]
    if kind == "TenantTemplate":  # Tenants show what has become of it.
        assert "subresources" not in version
        return
    assert version["subresources"] == {"status": {}}
    conditions = schema_of(kind)["properties"]["status"]["properties"]["conditions"]
    if kind == "VirtualCluster":
        # VirtualCluster's own conditions have no type, so the list cannot be keyed by it.
        assert "x-kubernetes-list-type" not in conditions
        assert "required" not in conditions["items"]
    else:
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]
        assert set(conditions["items"]["required"]) == {"type", "status", "reason", "lastTransitionTime"}


@pytest.mark.parametrize(
    "definition", [*DEFINITIONS, *served.NETWORKS], ids=lambda definition: definition.resource.kind
)
def test_columns_show_fields_that_exist(definition: Any) -> None:
    paths = {path for path, _ in below(schema_of(definition.resource.kind))}
    for column in definition.columns:
        path = re.sub(r"\[\?\(.*\)\]", "[]", column.path)
        parent, _, leaf = path.rpartition(".")
        open_map = any(p == f"{parent}[]" for p in paths)
        assert path in {*paths, ".metadata.creationTimestamp", ".metadata.generation"} or (
            open_map and leaf in {"cpu", "memory", "pods"}
        )


def test_every_rule_names_the_field_and_the_remedy() -> None:
    rules = [
        rule
        for kind in CRDS
        for _, schema in below(schema_of(kind))
        for rule in schema.get("x-kubernetes-validations", ())
    ]
    assert len(rules) >= 9
    for rule in rules:
        field, _, remedy = rule["message"].partition(": ")
        assert re.match(r"(spec|status|metadata)\.|controlPlane|sliceSize", field)
        assert remedy


TAKEN = {
    ("VirtualCluster", "quota"): (*DIMENSIONS, PODS),
    ("VirtualCluster", "defaultQuota"): DIMENSIONS,
    ("VirtualCluster", "sliceSize"): (*DIMENSIONS, PODS, *OBJECTS),
    ("SuperCluster", "headroom"): (*DIMENSIONS, PODS),
    ("SuperCluster", "overcommit"): (*DIMENSIONS, PODS),
}


@pytest.mark.parametrize(("kind", "field"), TAKEN)
def test_a_limit_accepts_only_resources_that_have_an_effect(kind: str, field: str) -> None:
    spec = schema_of(kind)["properties"]["spec"]
    only = {"type": "object", "properties": {field: spec["properties"][field]}}
    validator = compile_rules(build({"type": "object", "properties": {"spec": only}}))
    assert validator is not None

    def complaints(*names: str) -> list[str]:
        value = {"cpu": "1", "memory": "1Gi", **dict.fromkeys(names, "1")}
        return [str(each) for each in validator.validate("", {"spec": {field: value}}, None, None)]

    assert complaints(*TAKEN[kind, field]) == []
    for unknown in ("cpus", "count/pods", "requests.cpu"):
        (complaint,) = complaints(unknown)
        assert f"spec.{field} takes cpu, memory" in complaint


def test_the_pod_policy_refuses_by_default() -> None:
    properties = schema_of("VirtualCluster")["properties"]["spec"]["properties"]["podPolicy"]["properties"]
    assert len(properties) == len(specs.PodPolicy.__struct_fields__)
    for name in ("tolerations", "imageRegistries", "sysctls", "annotations", "labels"):
        assert "default" not in properties.pop(name), "a list, and no permission"
    assert properties.pop("imagePull")["default"] == "AsWritten", "kubelets decide since Kubernetes 1.35"
    assert properties.pop("limits")["default"] == "Slices"
    assert all(schema["default"] == "Refuse" for schema in properties.values())
    assert {"hostNetwork", "hostPID", "hostIPC", "hostPath", "privileged"} <= set(properties)
