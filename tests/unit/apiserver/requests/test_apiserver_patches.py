"""Refusals of patches, and patches that name the kind of the object."""

import json

import pytest

from vcsync.apimachinery.patch import documents
from vcsync.apiserver.registry.patched_objects import Source

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content_Type": "application/merge-patch+json"}
APPLY = {"Content_Type": "application/apply-patch+yaml"}
JSON_PATCH = {"Content_Type": "application/json-patch+json"}


async def test_applying_with_an_outdated_resource_version_is_a_conflict(api, config_map):
    made = await api("POST", CONFIG_MAPS, config_map("one"))
    version = made.body["metadata"]["resourceVersion"]
    await api("PATCH", f"{CONFIG_MAPS}/one", {"data": {"a": "b"}}, **MERGE)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "resourceVersion": version}}
    found = await api("PATCH", f"{CONFIG_MAPS}/one?fieldManager=me", body, **APPLY)
    assert (found.status, found.body["reason"]) == (409, "Conflict")


async def test_a_patch_that_is_not_json_is_refused(api, config_map):
    await api("POST", CONFIG_MAPS, config_map("one"))
    for form in (MERGE, JSON_PATCH):
        found = await api("PATCH", f"{CONFIG_MAPS}/one", b"{nonsense", **form)
        assert found.status == 400
        assert found.body["message"].startswith("error decoding patch: ")


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"kind": "x"}, 'no kind "x" is registered for version "v1"'),
        ({"apiVersion": "x"}, 'no kind "ConfigMap" is registered for version "x"'),
        ({"apiVersion": "a/b/c"}, "unexpected GroupVersion string: a/b/c"),
        ({"kind": "Pod"}, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
    ],
)
async def test_a_merge_patch_cannot_change_the_kind(api, patch, why):
    await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    response = await api("PATCH", f"{CONFIG_MAPS}/a", patch, **MERGE)
    assert response.status == 422
    assert why in response["message"]


@pytest.mark.parametrize("patch", [{"kind": ""}, {"apiVersion": "v1", "kind": "ConfigMap"}, {"kind": None}])
async def test_a_merge_patch_may_repeat_or_omit_the_kind(api, patch):
    await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (await api("PATCH", f"{CONFIG_MAPS}/a", patch, **MERGE)).status == 200


async def test_the_refusal_of_a_merge_patch_sorts_the_members_of_list_items(api):
    await api("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    conditions = [{"type": "Odd", "status": "True", "message": 7}]
    response = await api(
        "PATCH", "/api/v1/namespaces/n/status", {"status": {"conditions": conditions}}, **MERGE
    )
    assert response.status == 422
    assert response["message"].index("message") < response["message"].index("Odd")


def test_the_refusal_of_a_json_patch_sorts_the_members_that_it_changes():
    patch = [{"op": "move", "path": "/x~1y/c~0d/e", "from": "/a/b"}]
    inner = {"z": 1, "b": 2}
    obj = {"x/y": {"c~d": inner, "a": inner}, "w": inner, "a": inner}
    shown = Source(documents.JSON, patch).rejected_value(obj)
    ordered = {"b": 2, "z": 1}
    assert shown == json.dumps(
        {"a": ordered, "w": inner, "x/y": {"a": inner, "c~d": ordered}}, separators=(",", ":")
    )


async def test_unknown_fields_of_a_merged_object_are_told_in_the_order_of_its_encoding(api, config_map):
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    made = await api("POST", path, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1}})
    assert made.status == 201, made.body
    patch = {"status": {"replicas": 1, "phase": "Ready"}}
    content = "application/merge-patch+json"
    found = await api("PATCH", f"{path}/b/status?fieldValidation=Strict", patch, Content_Type=content)
    assert found.status == 422
    assert 'unknown field "status.phase", unknown field "status.replicas"' in found.body["message"]
