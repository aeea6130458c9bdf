"""Objects are stored and returned in the form in which Go types are encoded."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.apimachinery.schema.builtin import resources, schema
from vcsync.apimachinery.schema.gotypes import GoType, fields, go_type
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.schema.walk import decode, normalize


def kind(group: str, version: str, name: str) -> Schema:
    found = schema(group, version, name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("of", "given", "written"),
    [
        (("", "v1", "ConfigMap"), {"data": {}}, {"metadata": {}}),
        (("", "v1", "ConfigMap"), {"metadata": {"creationTimestamp": None}}, {"metadata": {}}),
        (("", "v1", "Namespace"), {}, {"metadata": {}, "spec": {}, "status": {}}),
        (("", "v1", "Service"), {}, {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        (("rbac.authorization.k8s.io", "v1", "Role"), {"rules": []}, {"metadata": {}, "rules": None}),
        (("", "v1", "Endpoints"), {}, {"metadata": {}}),
        (("apps", "v1", "ControllerRevision"), {}, {"metadata": {}, "data": None, "revision": 0}),
        (
            ("apps", "v1", "Deployment"),
            {"metadata": {"name": "x"}},
            {
                "metadata": {"name": "x"},
                "spec": {"selector": None, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": None}}},
                "status": {},
            },
        ),
        (
            ("batch", "v1", "CronJob"),
            {"spec": {"schedule": "* * * * *", "suspend": False}},
            {
                "metadata": {},
                "spec": {
                    "schedule": "* * * * *",
                    "suspend": False,
                    "jobTemplate": {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": None}}}},
                },
                "status": {},
            },
        ),
        (
            ("", "v1", "Node"),
            {"status": {"capacity": {"memory": "1024Mi"}}},
            {
                "metadata": {},
                "spec": {},
                "status": {
                    "capacity": {"memory": "1Gi"},
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                    "nodeInfo": {
                        "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                        "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                        "systemUUID": "",
                    },
                },
            },
        ),
        (
            ("events.k8s.io", "v1", "Event"),
            {},
            {
                "metadata": {}, "eventTime": None, "regarding": {}, "deprecatedSource": {},
                "deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None,
            },
        ),
        (
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            {"status": {"conditions": []}},
            {
                "metadata": {},
                "spec": {"group": "", "names": {"kind": "", "plural": ""}, "scope": "", "versions": None},
                "status": {"conditions": [], "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": None},
            },
        ),
    ],
)  # fmt: skip
def test_an_object_is_written_as_go_does(of: tuple[str, str, str], given: Any, written: Any) -> None:
    assert normalize(given, kind(*of)) == written


def test_pointers_keep_their_zeros() -> None:
    given = {
        "spec": {
            "containers": [],
            "enableServiceLinks": False,
            "hostNetwork": False,
            "priority": 0,
            "nodeName": "",
        }
    }
    written = normalize(given, kind("", "v1", "Pod"))
    assert written["spec"] == {"containers": None, "enableServiceLinks": False, "priority": 0}


def test_unknown_fields_are_dropped_silently() -> None:
    assert normalize({"spec": {"x": 1}, "y": 2}, kind("", "v1", "Namespace")) == {
        "metadata": {},
        "spec": {},
        "status": {},
    }


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=3),
    "bool": st.booleans(),
    "int32": st.integers(-3, 3),
    "int64": st.integers(-3, 3),
    "float64": st.sampled_from([0, 1, 1.5]),
    "bytes": st.sampled_from(["", "YQ==", "YWI="]),
    "time": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00", "0001-01-01T00:00:00Z"]),
    "micro-time": st.sampled_from(["2026-01-02T03:04:05.000001Z", "0001-01-01T00:00:00.000000Z"]),
    "quantity": st.sampled_from(["0", "1024Mi", "0.5", 1, 2.5]),
    "int-or-string": st.sampled_from([0, 8080, "", "http"]),
    "any": st.sampled_from([{}, {"a": [None]}, "x", 1]),
    "schema-or-bool": st.sampled_from([True, False, {}, {"type": "string", "maxLength": 0}]),
    "schema-or-list": st.sampled_from([{}, {"type": ""}, [], [{"nullable": False}]]),
    "schema-or-strings": st.sampled_from([{}, [], ["a"]]),
}


@st.composite
def values(draw: st.DrawFn, of: GoType, depth: int) -> Any:
    """Draw a value of a type, with unknown fields, nulls and empty values in between."""
    if draw(st.integers(0, 9)) == 0:
        return None
    if of.sort == "list" and of.element:
        return draw(st.lists(values(of.element, depth - 1), max_size=2 if depth else 0))
    if of.sort == "map" and of.element:
        return draw(
            st.dictionaries(st.text(max_size=2), values(of.element, depth - 1), max_size=2 if depth else 0)
        )
    if of.sort != "struct":
        return draw(SCALARS[of.sort])
    known = fields(of.struct)
    names = draw(st.lists(st.sampled_from(sorted(known)), max_size=5, unique=True)) if known and depth else []
    made = {name: draw(values(known[name].type, depth - 1)) for name in names}
    if draw(st.integers(0, 4)) == 0:
        made["unknownField"] = draw(st.sampled_from([1, None, {"a": 1}]))
    return made


@st.composite
def objects(draw: st.DrawFn) -> tuple[Schema, Any]:
    resource = draw(st.sampled_from(resources()))
    found = kind(resource.group, resource.version, resource.kind)
    return found, draw(values(go_type(found.definition), 6)) or {}


def names_of(node: Any) -> set[str]:
    if isinstance(node, dict):
        return set(node) | {name for each in node.values() for name in names_of(each)}
    return {name for each in node for name in names_of(each)} if isinstance(node, list) else set()


@given(objects())
@settings(max_examples=100, deadline=None)
def test_normalizing_is_idempotent(drawn: tuple[Schema, Any]) -> None:
    found, obj = drawn
    once = normalize(obj, found)
    assert normalize(once, found) == once


@given(objects())
@settings(max_examples=100, deadline=None)
def test_unknown_fields_never_survive(drawn: tuple[Schema, Any]) -> None:
    found, obj = drawn
    assert "unknownField" not in names_of(normalize(obj, found))
    decoded, unknown = decode(obj, found)
    assert "unknownField" not in names_of(decoded)
    assert all(each.endswith("unknownField") for each in unknown)


@given(objects())
@settings(max_examples=100, deadline=None)
def test_decoding_before_normalizing_changes_nothing(drawn: tuple[Schema, Any]) -> None:
    found, obj = drawn
    decoded, _ = decode(obj, found)
    assert normalize(decoded, found) == normalize(obj, found)
    assert decode(normalize(obj, found), found)[1] == []


def test_fields_are_in_the_order_of_go_and_keys_are_sorted() -> None:
    labels = {"b": "", "a": ""}
    given = {
        "status": {},
        "spec": {"nodeName": "n", "hostname": "h", "containers": []},
        "metadata": {"labels": labels},
    }
    written = normalize({**given, "kind": "Pod"}, kind("", "v1", "Pod"))
    assert list(written) == ["kind", "metadata", "spec", "status"]
    assert list(written["spec"]) == ["containers", "nodeName", "hostname"]
    assert list(written["metadata"]["labels"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("of", "place", "key", "empty"),
    [
        (("autoscaling", "v2", "HorizontalPodAutoscaler"), ("spec", "behavior", "scaleUp"), "policies", []),
        (("", "v1", "PersistentVolume"), ("spec",), "capacity", {}),
        (("", "v1", "Pod"), ("spec", "resources"), "claims", []),
        (("resource.k8s.io", "v1", "ResourceClaimTemplate"), ("spec", "metadata"), "finalizers", []),
        (("resource.k8s.io", "v1", "ResourceSlice"), ("spec", "nodeSelector"), "nodeSelectorTerms", []),
    ],
)
def test_validation_sees_the_empty_values_that_it_refuses(
    of: tuple[str, str, str], place: tuple[str, ...], key: str, empty: Any
) -> None:
    given: Any = {key: empty}
    for each in reversed(place):
        given = {each: given}
    for found in (decode(given, kind(*of))[0], normalize(normalize(given, kind(*of)), kind(*of))):
        at: Any = found
        for each in place:
            at = at[each]
        assert at[key] == empty


@pytest.mark.parametrize(
    ("of", "given"),
    [
        (("", "v1", "Pod"), {"metadata": {"finalizers": [], "ownerReferences": []}}),
        (("", "v1", "Pod"), {"spec": {"containers": [{"name": "c", "ports": [], "resources": {"claims": []}}]}}),
        (("storage.k8s.io", "v1", "VolumeAttachment"), {"spec": {"source": {"inlineVolumeSpec": {"capacity": {}}}}}),
        (("resource.k8s.io", "v1", "ResourceClaimTemplate"), {"metadata": {"finalizers": []}}),
    ],
)  # fmt: skip
def test_other_empty_lists_and_maps_of_the_same_types_are_not_kept(
    of: tuple[str, str, str], given: Any
) -> None:
    text = str(decode(given, kind(*of))[0])
    assert not any(each in text for each in ("finalizers", "ownerReferences", "ports", "claims", "capacity"))
