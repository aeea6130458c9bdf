"""OpenAPI documents, as kubectl explain, apply and validation read them."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from vcsync.apimachinery.resources import Resource, Subresource
from vcsync.apimachinery.schema.builtin import resources
from vcsync.apiserver import openapi
from vcsync.apiserver.openapi.operations import Names, _with_article, operations
from vcsync.apiserver.openapi.protobuf import encode

EDIT = ("get", "patch", "update")
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
FOO = Resource(
    "example.com", "v1", "foos", "foo", "Foo", True, VERBS, list_kind="FooList", custom=True,
    subresources={
        "status": Subresource("status", EDIT, "example.com", "v1", "Foo"),
        "scale": Subresource("scale", EDIT, "autoscaling", "v1", "Scale"),
    },
)  # fmt: skip


def definitions(version: int) -> Mapping[str, Any]:
    prefix = "#/definitions/" if version == 2 else "#/components/schemas/"
    return {
        "com.example.v1.Foo": {
            "type": "object",
            "properties": {"metadata": {"$ref": f"{prefix}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},
        },
        "com.example.v1.FooList": {"type": "object"},
    }


CUSTOM = [openapi.Custom(FOO, definitions)]


def document(path: str, custom: list[openapi.Custom] | None = None) -> Any:
    found = openapi.document(path, custom or [])
    assert found is not None
    return json.loads(found.body)


@pytest.fixture(scope="module")
def swagger() -> Any:
    return json.loads(openapi.swagger().body)


def test_the_index_names_every_group_and_version() -> None:
    paths = json.loads(openapi.index())["paths"]
    wanted = {f"apis/{each.api_version}" if each.group else "api/v1" for each in resources()}
    wanted |= {f"apis/{each.group}" for each in resources() if each.group}
    wanted |= {"api", "apis", "version", "openid/v1/jwks", ".well-known/openid-configuration"}
    assert set(paths) == wanted
    assert list(paths) == sorted(paths)


@pytest.mark.parametrize("path", ["api/v1", "apis/apps/v1", "apis/apps", "version"])
def test_the_index_contains_the_hash_of_a_document(path: str) -> None:
    url = json.loads(openapi.index())["paths"][path]["serverRelativeURL"]
    found = openapi.document(path)
    assert found is not None
    assert url == f"/openapi/v3/{path}?hash={found.etag.strip(chr(34))}"


@pytest.mark.parametrize("path", ["", "api/v2", "apis/example.com/v1", "apis/example.com"])
def test_an_unknown_document_does_not_exist(path: str) -> None:
    assert openapi.document(path) is None


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
        return own | {each for value in node.values() for each in references(value)}
    return {each for value in node for each in references(value)} if isinstance(node, list) else set()


@pytest.mark.parametrize("path", ["api/v1", "apis/apiextensions.k8s.io/v1", "apis/apps", "apis/policy/v1"])
def test_a_document_contains_exactly_the_definitions_that_it_refers_to(path: str) -> None:
    found = document(path)
    assert references(found) == set(found["components"].get("schemas", {}))


def test_an_operation_is_as_kubectl_reads_it() -> None:
    patch = document("apis/apps/v1")["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"][
        "patch"
    ]
    assert patch["x-kubernetes-action"] == "patch"
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
    }
    assert patch["operationId"] == "patchAppsV1NamespacedDeployment"
    assert [each["name"] for each in patch["parameters"]] == [
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
    ]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_a_definition_has_the_extensions_for_patches() -> None:
    spec = document("api/v1")["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    containers = spec["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["items"] == {
        "default": {},
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}],
    }
    assert containers["description"]


def test_an_enumeration_lists_its_values() -> None:
    port = document("api/v1")["components"]["schemas"]["io.k8s.api.core.v1.ContainerPort"]
    protocol = port["properties"]["protocol"]
    assert protocol["enum"] == ["SCTP", "TCP", "UDP"]
    assert protocol["default"] == "TCP"
    assert protocol["description"].endswith(
        """

Possible enum values:
 - `"SCTP"` is the SCTP protocol.
 - `"TCP"` is the TCP protocol.
 - `"UDP"` is the UDP protocol."""
    )


def test_version_2_is_one_document_with_all_paths(swagger: Any) -> None:
    assert len(swagger["paths"]) == 408
    assert len(swagger["definitions"]) == 584
    deployment = swagger["definitions"]["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "kind": "Deployment", "version": "v1"}
    ]
    assert deployment["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"
    assert references(swagger) <= set(swagger["definitions"]) | set(swagger["parameters"])


def test_version_2_shares_the_parameters_of_many_operations(swagger: Any) -> None:
    assert len(swagger["parameters"]) == 47
    path = swagger["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    named, namespace, _ = path["parameters"]
    assert named["description"] == "name of the Pod"
    assert namespace == {"$ref": "#/parameters/namespace-vgWSWtn3"}
    (dry_run, manager, _, force) = path["patch"]["parameters"][1:]
    assert dry_run["name"] == "dryRun"  # old clients look for it
    for each in (manager, force):
        assert each["$ref"].rpartition("/")[2] in swagger["parameters"]


@pytest.mark.parametrize(
    ("path", "method", "name", "word"),
    [
        ("pods/{name}/log", "get", "container", "stream logs"),
        ("pods/{name}/exec", "get", "container", "Container in which"),
        ("pods/{name}/attach", "get", "container", "The container in which"),
        ("pods/{name}", "put", "fieldManager", "IsPrint."),
        ("pods/{name}", "patch", "fieldManager", "required for apply requests"),
        ("pods/{name}/eviction", "post", "name", "name of the Eviction"),
    ],
)
def test_parameters_are_described_for_their_operation(path: str, method: str, name: str, word: str) -> None:
    found = document("api/v1")["paths"][f"/api/v1/namespaces/{{namespace}}/{path}"]
    parameters = [*found.get("parameters", ()), *found[method].get("parameters", ())]
    (description,) = (each["description"] for each in parameters if each["name"] == name)
    assert word in description


def test_types_that_are_not_objects_are_described(swagger: Any) -> None:
    for name in ("api.resource.Quantity", "util.intstr.IntOrString"):
        assert swagger["definitions"][f"io.k8s.apimachinery.pkg.{name}"]["description"]


@pytest.mark.parametrize("kind", ["DeleteOptions", "WatchEvent"])
def test_a_version_names_its_own_kinds_only(kind: str) -> None:
    found = document("apis/autoscaling/v2")["components"]["schemas"][
        f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"
    ]
    assert found["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": kind, "version": "v1"},
        {"group": "autoscaling", "kind": kind, "version": "v2"},
    ]


def test_every_operation_has_a_unique_id(swagger: Any) -> None:
    ids = [
        each["operationId"]
        for path in swagger["paths"].values()
        for key, each in path.items()
        if key != "parameters"
    ]
    assert len(ids) == len(set(ids)) == 814


def test_a_custom_resource_has_its_own_document() -> None:
    found = document("apis/example.com/v1", CUSTOM)
    assert set(found["paths"]) == {
        "/apis/example.com/v1/foos",
        "/apis/example.com/v1/namespaces/{namespace}/foos",
        "/apis/example.com/v1/namespaces/{namespace}/foos/{name}",
        "/apis/example.com/v1/namespaces/{namespace}/foos/{name}/scale",
        "/apis/example.com/v1/namespaces/{namespace}/foos/{name}/status",
    }
    assert references(found) - {"com.example.v1.FooList"} <= set(found["components"]["schemas"])
    patch = found["paths"]["/apis/example.com/v1/namespaces/{namespace}/foos/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    assert patch["operationId"] == "patchExampleComV1NamespacedFoo"
    scale = found["paths"]["/apis/example.com/v1/namespaces/{namespace}/foos/{name}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {
        "group": "example.com",
        "version": "v1",
        "kind": "Foo",
    }


def test_the_index_changes_with_the_custom_definitions() -> None:
    def changed(version: int) -> Mapping[str, Any]:
        return {**definitions(version), "com.example.v1.Foo": {"type": "object", "description": "new"}}

    before = json.loads(openapi.index(CUSTOM))["paths"]["apis/example.com/v1"]
    after = json.loads(openapi.index([openapi.Custom(FOO, changed)]))["paths"]["apis/example.com/v1"]
    assert before != after


def test_version_2_with_custom_resources_is_cached_until_they_change() -> None:
    def changed(version: int) -> dict[str, Any]:
        return {**definitions(version), "com.example.v1.Foo": {"type": "object", "description": "newer"}}

    for make in (openapi.swagger, openapi.swagger_protobuf):
        first = make(CUSTOM)
        assert make([openapi.Custom(FOO, definitions)]) is first
        assert make([openapi.Custom(FOO, changed)]).etag != first.etag
        assert make(CUSTOM) is first


def test_version_2_joins_custom_resources(swagger: Any) -> None:
    found = json.loads(openapi.swagger(CUSTOM).body)
    assert found["definitions"]["com.example.v1.Foo"] == definitions(2)["com.example.v1.Foo"]
    assert set(found["paths"]) - set(swagger["paths"]) == set(
        document("apis/example.com/v1", CUSTOM)["paths"]
    )
    assert {**found["definitions"], **swagger["definitions"]} == found["definitions"]


def test_tenants_without_custom_resources_share_documents() -> None:
    assert openapi.swagger() is openapi.swagger([])
    assert openapi.document("api/v1") is openapi.document("api/v1", CUSTOM)


def test_protobuf_writes_fields_in_the_order_of_their_numbers() -> None:
    small = {
        "definitions": {"a": {"type": "object", "x-kubernetes-action": "get"}},
        "info": {"version": "1", "title": "t"},
        "swagger": "2.0",
    }
    assert encode(small) == (
        b"\x0a\x032.0"
        b"\x12\x06\x0a\x01t\x12\x011"
        b"\x4a\x32\x0a\x30\x0a\x01a\x12\x2b\xb2\x01\x08\x0a\x06object"
        b"\xfa\x01\x1d\x0a\x13x-kubernetes-action\x12\x06\x12\x04get\n"
    )


def test_the_protobuf_form_has_the_etag_of_the_json_form() -> None:
    packed = openapi.swagger_protobuf()
    assert packed.etag == openapi.swagger().etag
    assert packed.body.startswith(b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36")


def test_names_of_operations_have_no_hyphens_and_kinds_in_plural_no_article():
    parts = Resource(
        "k8s-parts.example",
        "v1",
        "partsets",
        "parts",
        "Parts",
        False,
        VERBS,
        list_kind="PartsList",
        custom=True,
    )
    found = {
        each.method: each
        for each in operations(parts, Names("a", "b"), {}, watches=False)
        if each.path.endswith("partsets")
    }
    assert (found["post"].id, found["post"].tag) == ("createK8sPartsExampleV1Parts", "k8sPartsExample_v1")
    assert found["post"].description == "create Parts"
    described = {kind: _with_article(kind) for kind in ("Ingress", "Endpoints", "Pod", "EndpointSlice")}
    assert described == {
        "Ingress": "an Ingress", "Endpoints": "Endpoints", "Pod": "a Pod", "EndpointSlice": "an EndpointSlice",
    }  # fmt: skip
