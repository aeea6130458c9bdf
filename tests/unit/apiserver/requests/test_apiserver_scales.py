"""Writes through the scale subresource, and refusals of their patches."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.scale import selector_text

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


async def test_applying_a_scale_owns_the_replicas_of_the_object(api, web):
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
async def test_invalid_scales_are_refused(api, web, method, body, headers, status, message):
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
async def test_the_refusal_of_a_patch_depends_on_its_media_type(api, web, headers, shown, why):
    answer = await api("PATCH", web, {"spec": {"replicas": "x"}}, **headers)
    assert (answer.status, answer["details.causes.0.field"]) == (422, "patch")
    assert shown in answer["message"].replace("\\", "")
    assert why in answer["message"]


async def test_errors_are_json_even_if_a_table_is_requested(api):
    accept = "application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    answer = await api("GET", f"{BASE}/none", Accept=accept)
    assert (answer.status, answer["reason"]) == (404, "NotFound")


async def test_a_scale_shows_the_scaled_object(api, web):
    found = (await api("GET", web)).body["metadata"]
    shown = (await api("GET", f"{web}/scale")).body
    assert shown == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            key: found[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        },
        "spec": {"replicas": 2},
        "status": {"replicas": 0, "selector": "a=b"},
    }


async def test_a_write_of_a_scale_returns_the_current_scale(api, web):
    before = (await api("GET", web)).body["metadata"]
    done = await api("PUT", f"{web}/scale", scale(3))
    after = (await api("GET", web)).body
    assert after["spec"]["replicas"] == 3
    assert (
        done["metadata.resourceVersion"] == after["metadata"]["resourceVersion"] != before["resourceVersion"]
    )
    late = await api("PUT", f"{web}/scale", scale(4, resourceVersion=before["resourceVersion"]))
    assert late.status == 409
    assert "the object has been modified" in late["message"]
    patched = await api("PATCH", f"{web}/scale", {"metadata": {"resourceVersion": "1"}}, **MERGE)
    assert patched.status == 409
    other = await api("PUT", f"{web}/scale", scale(4, uid="x"))
    there = after["metadata"]["uid"]
    why = f"Precondition failed: UID in precondition: x, UID in object meta: {there}"
    message = f'Operation cannot be fulfilled on deployments.apps "web": {why}'
    assert (other.status, other["message"]) == (409, message)
    below = await api("PUT", f"{web}/scale", scale(-1))
    assert (below.status, below["message"]) == (
        422,
        'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
    )
    assert (await api("GET", web))["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({"b": "2", "a": "1"}, "a=1,b=2"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"z": "1"},
                "matchExpressions": [
                    {"key": "c", "operator": "In", "values": ["y", "x"]},
                    {"key": "b", "operator": "NotIn", "values": ["x"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "a", "operator": "DoesNotExist"},
                ],
            },
            "!a,b notin (x),c in (x,y),d,z=1",
        ),
    ],
)
def test_the_text_of_a_selector_is_sorted(selector, text):
    assert selector_text(selector) == text


def test_an_invalid_selector_is_refused():
    with pytest.raises(StatusError) as caught:
        selector_text({"matchLabels": {"a b": "c"}})
    assert caught.value.code == 400
