"""Requests are decoded like Go types, and errors have the messages of kube-apiserver."""

from typing import Any

import pytest

from vcsync.apimachinery.schema.builtin import schema
from vcsync.apimachinery.schema.findings import DecodeError, strict_error
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.schema.walk import decode


def kind(group: str, version: str, name: str) -> Schema:
    found = schema(group, version, name)
    assert found is not None
    return found


POD = kind("", "v1", "Pod")
DEPLOYMENT = kind("apps", "v1", "Deployment")
SECRET = kind("", "v1", "Secret")
LEASE = kind("coordination.k8s.io", "v1", "Lease")
CRD = kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [fields]}}


@pytest.mark.parametrize(
    ("of", "given", "message"),
    [
        (
            DEPLOYMENT,
            {"spec": {"replicas": "3"}},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            DEPLOYMENT,
            {"spec": {"replicas": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            DEPLOYMENT,
            {"spec": {"replicas": 2**31}},
            "json: cannot unmarshal number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            POD,
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (POD, {"spec": []}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            POD,
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            POD,
            {"metadata": {"labels": "a"}},
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            POD,
            container(args=[True]),
            "json: cannot unmarshal bool into Go struct field Container.spec.containers.args of type string",
        ),
        (
            POD,
            container(stdin="yes"),
            "json: cannot unmarshal string into Go struct field Container.spec.containers.stdin of type bool",
        ),
        (
            POD,
            container(imagePullPolicy=1),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            POD,
            {"spec": {"overhead": [1]}},
            "json: cannot unmarshal array into Go struct field PodSpec.spec.overhead of type v1.ResourceList",
        ),
        (
            POD,
            container(resources={"limits": {"cpu": "lots"}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            POD,
            {"metadata": {"creationTimestamp": "now"}},
            'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
        ),
        (
            POD,
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            LEASE,
            {"spec": {"renewTime": "2020-01-01T00:00:00Z"}},
            'parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
        (SECRET, {"data": {"a": "%"}}, "illegal base64 data at input byte 0"),
        (
            SECRET,
            {"data": {"a": 1}},
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            CRD,
            {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"items": {"maximum": "x"}}}}]}},
            (
                "json: cannot unmarshal string into Go struct field"
                " JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.maximum of type float64"
            ),
        ),
        (
            CRD,
            {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"additionalProperties": 1}}}]}},
            "boolean or JSON schema expected",
        ),
        (POD, [], "json: cannot unmarshal array into Go value of type v1.Pod"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(of: Schema, given: Any, message: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(given, of)
    assert str(refused.value) == message


def test_errors_of_the_types_own_decoders_precede_other_mismatches() -> None:
    given = {"metadata": {"labels": {"a": 1}, "creationTimestamp": "now"}}
    with pytest.raises(DecodeError, match="parsing time"):
        decode(given, POD)


@pytest.mark.parametrize(
    ("of", "given", "unknown"),
    [
        (POD, {"spec": {"foo": 1, "nodeName": "n"}, "bar": 2}, ["spec.foo", "bar"]),
        (POD, container(Image="b"), ["spec.containers[0].Image"]),
        (POD, container(env=[{"name": "x"}, {"nmae": "y"}]), ["spec.containers[0].env[1].nmae"]),
        (POD, container(resources={"limits": {"cpu": "1"}, "limit": {}}), ["spec.containers[0].resources.limit"]),
        (POD, {"Metadata": {"name": "x"}}, ["Metadata"]),
        (POD, {"metadata": {"annotations": {"any.thing": "x"}}}, []),
        (POD, {"metadata": {"managedFields": [{"fieldsV1": {"f:x": {}}}]}}, []),
    ],
)  # fmt: skip
def test_unknown_fields_are_named_and_dropped(of: Schema, given: Any, unknown: list[str]) -> None:
    found, named = decode(given, of)
    assert named == unknown
    assert decode(found, of) == (found, [])


def test_names_of_fields_are_case_sensitive() -> None:
    assert decode({"spec": {"nodename": "a", "nodeName": "b"}}, POD) == (
        {"spec": {"nodeName": "b"}},
        ["spec.nodename"],
    )


def test_no_more_than_a_hundred_unknown_fields_are_named() -> None:
    assert len(decode({f"x{at}": 1 for at in range(1000)}, POD)[1]) == 100


def test_unknown_fields_inside_a_schema_or_bool_are_not_named() -> None:
    inner = {"type": "object", "nonsense": 1}
    given = {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"additionalProperties": inner}}}]}}
    found, named = decode(given, CRD)
    assert named == []
    assert found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "additionalProperties": {"type": "object"}
    }


def test_findings_of_strict_decoding_are_joined() -> None:
    said = strict_error(["spec.a", "spec.b"], ["metadata.name"])
    assert (
        said
        == 'strict decoding error: unknown field "spec.a", unknown field "spec.b", duplicate field "metadata.name"'
    )


def test_only_values_that_go_sees_reach_defaults() -> None:
    given = {"spec": {"strategy": None, "replicas": 0, "minReadySeconds": 0, "paused": False}}
    assert decode(given, DEPLOYMENT) == ({"spec": {"replicas": 0}}, [])


def test_null_in_a_list_or_map_becomes_the_zero_of_its_type() -> None:
    given = {
        "metadata": {"labels": {"a": None}},
        **container(args=[None], resources={"limits": {"cpu": None}}),
    }
    found, _ = decode(given, POD)
    assert found["metadata"] == {"labels": {"a": ""}}
    assert found["spec"]["containers"] == [{"args": [""], "resources": {"limits": {"cpu": "0"}}}]


def test_numbers_are_accepted_as_quantities() -> None:
    found, _ = decode(container(resources={"requests": {"cpu": 0.5, "memory": 1024}}), POD)
    assert found["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m", "memory": "1024"}}


@pytest.mark.parametrize("number", [10**5000, float("inf"), -(10**101)], ids=["long", "infinite", "negative"])
def test_an_enormous_number_is_refused(number: float) -> None:
    with pytest.raises(DecodeError, match="quantities must match"):
        decode(container(resources={"limits": {"cpu": number}}), POD)
    with pytest.raises(DecodeError, match="cannot unmarshal number into"):
        decode({"spec": {"priority": number}}, POD)


def test_a_too_deeply_nested_object_is_refused() -> None:
    inner: dict[str, Any] = {}
    given = {"spec": {"versions": [{"schema": {"openAPIV3Schema": inner}}]}}
    for _ in range(20_000):
        inner["not"] = inner = {}
    with pytest.raises(DecodeError, match="exceeded max depth"):
        decode(given, CRD)
