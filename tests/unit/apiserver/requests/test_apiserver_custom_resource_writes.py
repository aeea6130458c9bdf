"""Writes of custom resources: field ownership, the status subresource, and refusals."""

from typing import Any

import pytest
from served_definitions import DEFINITIONS, until

MERGE = {"Content_Type": "application/merge-patch+json"}
APPLY = {"Content_Type": "application/apply-patch+yaml"}
JSON_PATCH = {"Content_Type": "application/json-patch+json"}


def gadget(version: str = "v1", **content: Any) -> dict[str, Any]:
    metadata = {"name": "g", **content.pop("metadata", {})}
    return {"apiVersion": f"example.org/{version}", "kind": "Gadget", "metadata": metadata, **content}


def owned(body: dict[str, Any]) -> dict[str, list[str]]:
    """Return the top-level fields that each manager owns."""
    return {
        each["manager"]: sorted(key for key in each["fieldsV1"] if key != "f:metadata")
        for each in body["metadata"]["managedFields"]
    }


@pytest.mark.parametrize(("version", "fields"), [("v1", ["f:spec"]), ("v2", ["f:spec", "f:status"])])
async def test_a_create_owns_the_status_only_where_it_is_no_subresource(api, gadgets, version, fields):
    body = gadget(version, spec={"size": 1}, status={"made": 1})
    found = await api("POST", f"{gadgets[version]}?fieldManager=me", body)
    assert found.status == 201, found.body
    assert owned(found.body) == {"me": fields}


async def test_the_refusal_of_a_patch_that_removes_the_kind_shows_the_object(api, gadgets):
    await api("POST", gadgets["v1"], gadget(spec={"size": 1}))
    found = await api("PATCH", f"{gadgets['v1']}/g", [{"op": "remove", "path": "/kind"}], **JSON_PATCH)
    assert found.status == 422
    (cause,) = found.body["details"]["causes"]
    shown = cause["message"].partition('Invalid value: "')[2]
    assert shown.startswith('{\\"apiVersion\\":\\"example.org/v1\\"')
    assert "Object 'Kind' is missing in '{" in cause["message"]


async def test_a_strict_patch_with_an_unknown_field_is_refused(api, gadgets):
    await api("POST", gadgets["v1"], gadget(spec={"size": 1}))
    path = f"{gadgets['v1']}/g?fieldValidation=Strict"
    found = await api("PATCH", path, {"spec": {"colour": "red"}}, **MERGE)
    assert found.status == 422
    assert 'strict decoding error: unknown field "spec.colour"' in found.body["message"]


async def test_all_content_of_an_undefined_version_is_reported_as_unknown_fields(api, gadgets):
    found = await api("POST", gadgets["v1"], gadget("v9", spec={"size": 1}))
    assert found.status == 400
    assert found.warnings == ['unknown field "spec"']


async def test_applying_the_scale_of_a_custom_resource_fails_without_a_reason(api, gadgets):
    await api("POST", gadgets["v1"], gadget(spec={"size": 1}))
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "g"},
        "spec": {"replicas": 2},
    }
    found = await api("PATCH", f"{gadgets['v1']}/g/scale?fieldManager=me", scale, **APPLY)
    assert found.status == 500
    assert "reason" not in found.body
    assert found.body["message"].startswith("failed to create manager for existing fields: ")


async def test_a_status_write_does_not_change_the_metadata(api, gadgets):
    made = await api("POST", gadgets["v1"], gadget(spec={"size": 1}, metadata={"labels": {"a": "b"}}))
    changed = {"labels": {"a": "c"}, "annotations": {"x": "y"}, "finalizers": ["example.org/f"]}
    found = await api(
        "PATCH", f"{gadgets['v1']}/g/status", {"metadata": changed, "status": {"made": 2}}, **MERGE
    )
    assert (found.status, found.body["status"]) == (200, {"made": 2})
    written = ("resourceVersion", "managedFields")
    before, after = (
        {key: value for key, value in body["metadata"].items() if key not in written}
        for body in (made.body, found.body)
    )
    assert after == before


async def test_an_absent_status_has_its_default_from_the_first_answer_on(api):
    """Gateways of the Gateway API have one, below which kubectl shows their conditions."""
    state = {"type": "string", "default": "Unknown"}
    status = {
        "type": "object",
        "default": {"count": 1},
        "properties": {"count": {"type": "integer"}, "state": state},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": schema,
        "subresources": {"status": {}},
    }
    spec = {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "gates", "kind": "Gate"},
        "versions": [version],
    }
    await api("POST", DEFINITIONS, {"metadata": {"name": "gates.example.org"}, "spec": spec})
    path = "/apis/example.org/v1/namespaces/default/gates"

    async def served() -> bool:
        return (await api("GET", path)).status == 200

    await until(served)
    gate = {"apiVersion": "example.org/v1", "kind": "Gate", "metadata": {"name": "g"}, "status": {"count": 7}}
    default = {"count": 1, "state": "Unknown"}
    made = await api("POST", path, gate)
    assert made["status"] == default
    assert (await api("GET", f"{path}/g"))["status"] == default
    changed = await api("PATCH", f"{path}/g/status", {"status": {"count": 2}}, **MERGE)
    assert changed["status"] == {"count": 2, "state": "Unknown"}
    unchanged = await api("PATCH", f"{path}/g", {"status": {"count": 3}}, **MERGE)
    assert (unchanged["status.count"], unchanged["metadata.generation"]) == (2, 1)


async def test_applying_null_to_a_field_that_does_not_allow_it_is_refused(api, gadgets):
    wanted = gadget("v2", spec={"size": None})
    found = await api("PATCH", f"{gadgets['v2']}/g?fieldManager=me", wanted, **APPLY)
    assert found.status == 422
    (cause,) = found.body["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueTypeInvalid", "spec.size")
    assert cause["message"] == 'Invalid value: "null": spec.size in body must be of type integer: "null"'


async def test_creating_or_merging_null_removes_the_field(api, gadgets):
    made = await api("POST", gadgets["v1"], gadget(spec={"size": None}))
    assert (made.status, made.body["spec"]) == (201, {})
    await api("PATCH", f"{gadgets['v1']}/g", {"spec": {"size": 1}}, **MERGE)
    nothing = [{"op": "replace", "path": "/spec/size", "value": None}]
    changed = await api("PATCH", f"{gadgets['v1']}/g", nothing, **JSON_PATCH)
    assert (changed.status, changed.body["spec"]) == (200, {})


@pytest.mark.parametrize("query", ["", "?propagationPolicy=Foreground"])
async def test_watchers_see_nothing_of_a_deletion_that_is_asked_for_again(api, gadgets, query):
    made = await api("POST", gadgets["v1"], gadget(metadata={"finalizers": ["example.org/wait"]}))
    path = f"{gadgets['v1']}/g"
    for _ in range(2):
        assert (await api("DELETE", f"{path}{query}")).status == 200
    assert (await api("PATCH", path, {"metadata": {"finalizers": None}}, **MERGE)).status == 200
    version = made["metadata.resourceVersion"]
    events = await api.watch(f"{gadgets['v1']}?watch=1&resourceVersion={version}", 2)
    assert [each["type"] for each in events] == ["MODIFIED", "DELETED"]


async def test_an_update_without_changes_stores_a_new_default_once(api, gadgets):
    """Programs that migrate objects after a change of their definition send such updates."""
    path = f"{gadgets['v1']}/g"
    await api("POST", gadgets["v1"], gadget(spec={}))
    definition = (await api("GET", f"{DEFINITIONS}/gadgets.example.org")).body
    for version in definition["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["default"] = 3
    assert (await api("PUT", f"{DEFINITIONS}/gadgets.example.org", definition)).status == 200

    async def changed() -> bool:
        return (await api("GET", path)).body["spec"] == {"size": 3}

    await until(changed)
    before = (await api("GET", path))["metadata.resourceVersion"]
    tried = await api("PATCH", f"{path}?dryRun=All", {}, **MERGE)
    written = [(await api("PATCH", path, {}, **MERGE))["metadata.resourceVersion"] for _ in range(2)]
    assert tried["metadata.resourceVersion"] == before
    assert written[0] != before
    assert written[0] == written[1]


async def test_a_null_on_the_way_to_the_replicas_is_one_finding(api, gadgets):
    body = gadget(spec=None)
    found = await api("PATCH", f"{gadgets['v1']}/g?fieldManager=me", body, **APPLY)
    assert found.status == 422
    (cause,) = [each for each in found.body["details"]["causes"] if each["field"] != "<nil>"]
    assert cause["field"] == "spec"
