"""Schemas of built-in kinds have the data for patches, apply and OpenAPI."""

import pytest

from vcsync.apimachinery.schema.builtin import schema
from vcsync.apimachinery.schema.node import Schema


def at(kind: tuple[str, str, str], path: str) -> Schema:
    found = schema(*kind)
    assert found is not None
    for step in filter(None, path.split(".")):
        inner = found.items if step == "[]" else found.values if step == "{}" else found.properties[step]
        assert inner is not None
        found = inner
    return found


POD = ("", "v1", "Pod")
DEPLOYMENT = ("apps", "v1", "Deployment")
CRD = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@pytest.mark.parametrize(
    ("kind", "path", "strategy", "merge_key", "list_type", "map_keys"),
    [
        (POD, "spec.containers", {"merge"}, "name", "map", ("name",)),
        (POD, "spec.containers.[].ports", {"merge"}, "containerPort", "map", ("containerPort", "protocol")),
        (POD, "spec.volumes", {"merge", "retainKeys"}, "name", "map", ("name",)),
        (POD, "spec.tolerations", set(), "", "atomic", ()),
        (POD, "metadata.finalizers", {"merge"}, "", "set", ()),
        (POD, "metadata.ownerReferences", {"merge"}, "uid", "map", ("uid",)),
        (DEPLOYMENT, "spec.strategy", {"retainKeys"}, "", "atomic", ()),
        (("", "v1", "Service"), "spec.ports", {"merge"}, "port", "map", ("port", "protocol")),
    ],
)
def test_a_list_has_its_merge_rules(
    kind: tuple[str, str, str],
    path: str,
    strategy: set[str],
    merge_key: str,
    list_type: str,
    map_keys: tuple[str, ...],
) -> None:
    found = at(kind, path)
    assert (set(found.patch_strategy), found.merge_key) == (strategy, merge_key)
    assert (found.list_type, found.map_keys) == (list_type, map_keys)


@pytest.mark.parametrize(
    ("kind", "path", "type_", "format_"),
    [
        (POD, "metadata.creationTimestamp", "string", "date-time"),
        (POD, "spec.containers.[].resources.limits.{}", "quantity", ""),
        (POD, "spec.containers.[].livenessProbe.httpGet.port", "int-or-string", ""),
        (POD, "metadata.labels", "map", ""),
        (POD, "metadata.managedFields.[].fieldsV1", "any", ""),
        (("coordination.k8s.io", "v1", "Lease"), "spec.renewTime", "string", "micro-time"),
        (("", "v1", "Secret"), "data.{}", "string", "byte"),
        (("apps", "v1", "ControllerRevision"), "data", "any", ""),
        (DEPLOYMENT, "spec.replicas", "integer", "int32"),
    ],
)
def test_scalars_are_recognised(kind: tuple[str, str, str], path: str, type_: str, format_: str) -> None:
    found = at(kind, path)
    assert (found.type, found.format) == (type_, format_)


@pytest.mark.parametrize(
    ("kind", "path", "atomic"),
    [
        (POD, "spec.nodeSelector", True),
        (DEPLOYMENT, "spec.selector", True),
        (("", "v1", "PersistentVolume"), "spec.claimRef", False),
        (POD, "metadata.labels", False),
    ],
)
def test_an_object_is_atomic_or_granular(kind: tuple[str, str, str], path: str, atomic: bool) -> None:
    assert at(kind, path).atomic is atomic


def test_optional_list_keys_have_defaults() -> None:
    assert at(POD, "spec.containers.[].ports.[].protocol").default == "TCP"


def test_a_recursive_type_is_one_node() -> None:
    outer = at(CRD, "spec.versions.[].schema.openAPIV3Schema")
    assert outer.properties["properties"].values is outer
    assert outer.properties["not"] is outer


@pytest.mark.parametrize("kind", ["DeleteOptions", "Status", "WatchEvent"])
@pytest.mark.parametrize("api", [("", "v1"), ("apps", "v1"), ("meta.k8s.io", "v1")])
def test_shared_kinds_exist_in_every_group(kind: str, api: tuple[str, str]) -> None:
    assert schema(*api, kind) is not None


@pytest.mark.parametrize(
    "kind", [("", "v1", "Pot"), ("apps", "v1beta1", "Deployment"), ("", "v1", "pods"), ("x", "v1", "Pod")]
)
def test_a_kind_that_is_not_served_has_no_schema(kind: tuple[str, str, str]) -> None:
    assert schema(*kind) is None
