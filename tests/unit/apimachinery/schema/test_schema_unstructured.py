"""Errors of Go's conversion by reflection about objects that do not fit."""

import pytest

from vcsync.apimachinery.schema import unstructured

DEPLOYMENT = "io.k8s.api.apps.v1.Deployment"


def spec(**members):
    return {"spec": members}


def container(**members):
    return spec(template={"spec": {"containers": [{"name": "a", **members}]}})


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (spec(replicas=3, selector={"matchLabels": {"a": "b"}}), ""),
        (spec(replicas=2.0), ""),
        (spec(replicas=None), ""),
        (spec(replicas=1.5), "cannot convert float64 to int32"),
        (spec(replicas="x"), "unrecognized type: int32"),
        (spec(paused="true"), "unrecognized type: bool"),
        (spec(template="x"), "cannot restore struct from: string"),
        (spec(template={"spec": {"containers": {}}}), "cannot restore slice from map"),
        ({"metadata": {"labels": ["a"]}}, "cannot restore map from slice"),
        ({"metadata": {"labels": {"a": 1}}}, "cannot convert int64 to string"),
        (container(imagePullPolicy=5), "cannot convert int64 to v1.PullPolicy"),
        (container(resources={"limits": {"cpu": "?"}}), "quantities must match the regular expression"),
    ],
)
def test_the_first_value_that_does_not_fit_is_reported(obj, message):
    found = unstructured.complaint(obj, DEPLOYMENT)
    assert found.startswith(message)
    assert bool(found) == bool(message)


def test_a_recursively_nested_object_is_refused():
    schema = {"type": "object"}
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    definition = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    assert unstructured.complaint(schema, definition) == "exceeded max depth"
