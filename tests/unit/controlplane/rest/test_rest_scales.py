"""Writes through the scale subresource, and of patches that make what cannot be."""

import pytest

BASE = "/apis/apps/v1/namespaces/default/deployments"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.fixture
async def web(api):
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
    made = await api("POST", BASE, {"metadata": {"name": "web"}, "spec": spec})
    assert made.status == 201, made.body
    return f"{BASE}/web"


def scale(replicas, **metadata):
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", **metadata},
        "spec": {"replicas": replicas},
    }


async def test_applying_to_a_scale_owns_replicas_of_the_object(api, web):
    refused = await api("PATCH", f"{web}/scale?fieldManager=me", scale(5), **APPLY)
    assert (refused.status, refused["details.causes.0.field"]) == (409, ".spec.replicas")
    done = await api("PATCH", f"{web}/scale?fieldManager=me&force=true", scale(5), **APPLY)
    assert (done.status, done["spec.replicas"]) == (200, 5)
    owners = {each["manager"]: each for each in (await api("GET", web))["metadata.managedFields"]}
    assert owners["me"]["subresource"] == "scale"
    assert owners["me"]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize(
    ("method", "body", "headers", "status", "message"),
    [
        (
            "PATCH",
            {"spec": {"replicas": -1}},
            MERGE,
            422,
            'Scale.autoscaling "web" is invalid: spec.replicas',
        ),
        ("PATCH", {"spec": {"replicas": "x"}}, MERGE, 422, ' "" is invalid: patch: Invalid value: "{'),
        (
            "PATCH",
            {"metadata": {"uid": "x"}},
            MERGE,
            409,
            "Operation cannot be fulfilled on deployments/scale.apps",
        ),
        ("PUT", scale(1, name="other"), {}, 400, "the name of the object (other) does not match"),
        ("PUT", scale(1, namespace="other"), {}, 400, "the namespace of the provided object does not match"),
    ],
)
async def test_a_scale_that_cannot_be_is_refused(api, web, method, body, headers, status, message):
    answer = await api(method, f"{web}/scale", body, **headers)
    assert answer.status == status
    assert answer["message"].startswith(message)


@pytest.mark.parametrize(
    ("headers", "shown", "why"),
    [
        (
            MERGE,
            '"replicas":"x"',
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas",
        ),
        (STRATEGIC, "map[spec:map[replicas:x]]", "unrecognized type: int32"),
    ],
)
async def test_a_patch_that_does_not_fit_is_told_in_the_words_of_its_way(api, web, headers, shown, why):
    answer = await api("PATCH", web, {"spec": {"replicas": "x"}}, **headers)
    assert (answer.status, answer["details.causes.0.field"]) == (422, "patch")
    assert shown in answer["message"].replace("\\", "")
    assert why in answer["message"]


async def test_an_error_is_told_as_json_to_who_asked_for_a_table(api):
    accept = "application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    answer = await api("GET", f"{BASE}/none", Accept=accept)
    assert (answer.status, answer["reason"]) == (404, "NotFound")
