"""Empty lists and maps in requests belong to their manager, and are neither stored nor returned."""

import pytest

RBAC, NODES = "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/nodes"
MERGE = {"Content_Type": "application/merge-patch+json"}


def _owned(answer, position=0):
    return answer["metadata"]["managedFields"][position]["fieldsV1"]


async def test_the_manager_of_a_created_empty_list_owns_it(api):
    made = await api("POST", RBAC, {"metadata": {"name": "a"}, "rules": []})
    assert made.status == 201, made.body
    assert (made["rules"], _owned(made)) == (None, {"f:rules": {}})
    assert (await api("GET", f"{RBAC}/a")).body == made.body
    absent = await api("POST", RBAC, {"metadata": {"name": "b"}})
    assert "managedFields" not in absent["metadata"]


@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        ("/api/v1/namespaces/default/limitranges", {"limits": []}, "f:limits"),
        ("/apis/storage.k8s.io/v1/csinodes", {"drivers": []}, "f:drivers"),
    ],
)
async def test_the_manager_of_an_empty_list_within_the_spec_owns_it(api, path, spec, field):
    made = await api("POST", path, {"metadata": {"name": "a"}, "spec": spec})
    assert made.status == 201, made.body
    assert (made["spec"], _owned(made)) == (dict.fromkeys(spec), {"f:spec": {field: {}}})


async def test_an_update_to_an_empty_list_changes_the_owner_only(api):
    await api("POST", f"{RBAC}?fieldManager=one", {"metadata": {"name": "a", "labels": {"b": "c"}}})
    response = await api("PATCH", f"{RBAC}/a?fieldManager=other", {"rules": []}, **MERGE)
    assert response["rules"] is None
    assert [each["manager"] for each in response["metadata"]["managedFields"]] == ["one", "other"]
    assert _owned(response, 1) == {"f:rules": {}}


async def test_an_empty_allocatable_of_a_node_is_filled_in_without_an_owner(api):
    await api("POST", NODES, {"metadata": {"name": "n", "labels": {"a": "b"}}})
    status = {"status": {"capacity": {"cpu": "2"}, "allocatable": {}}}
    response = await api("PATCH", f"{NODES}/n/status", status, **MERGE)
    assert response.status == 200, response.body
    assert response["status.allocatable"] == {"cpu": "2"}
    assert _owned(response, 1) == {"f:status": {"f:capacity": {".": {}, "f:cpu": {}}}}
