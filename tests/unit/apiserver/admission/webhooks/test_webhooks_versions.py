"""Webhooks for objects in other versions: custom resources, built-in ones, and scales."""

import pytest

from hack import webhooks
from hack.webhooks import ANSWERS

MAPS = "/api/v1/namespaces/n/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def rule(*resources, **changes):
    return {"rules": [{**RULE, "resources": list(resources), **changes}]}


def patches(*operations):
    return webhooks._patch(*operations)


@pytest.fixture
async def gadgets(api):
    """Serve `gadgets` in two versions, and return the path of each."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
    made = await api("POST", DEFINITIONS, {"metadata": {"name": "gadgets.example.org"}, "spec": spec})
    assert made.status == 201, made.body
    accepted = {"acceptedNames": names, "conditions": [{"type": "NamesAccepted", "status": "True"}]}
    updated = await api("PATCH", f"{DEFINITIONS}/gadgets.example.org/status", {"status": accepted})
    assert updated.status == 200, updated.body
    api.catalogue.forget("a")
    return {name: f"/apis/example.org/{name}/namespaces/n/gadgets" for name in ("v1", "v2")}


def gadget(version, **content):
    return {"apiVersion": f"example.org/{version}", "kind": "Gadget", "metadata": {"name": "g"}, **content}


async def test_webhooks_receive_custom_resources_in_the_version_of_their_rule(api, gadgets):
    await api.configure("validating", ("/tell", rule("gadgets", apiVersions=["v2"])))
    assert (await api("POST", gadgets["v1"], gadget("v1", size=3))).status == 400
    (request,) = api.requests()
    assert request["object"]["apiVersion"] == "example.org/v2"
    assert request["object"]["size"] == 3
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")


async def test_webhooks_with_exact_match_are_not_called_for_other_versions(api, gadgets):
    exact = {**rule("gadgets", apiVersions=["v2"]), "matchPolicy": "Exact"}
    await api.configure("validating", ("/deny", exact))
    assert (await api("POST", gadgets["v1"], gadget("v1"))).status == 201
    assert (await api("POST", gadgets["v2"], gadget("v2"))).status == 400


async def test_changes_in_another_version_are_converted_to_that_of_the_request(api, gadgets, monkeypatch):
    monkeypatch.setitem(ANSWERS, "/size", patches({"op": "add", "path": "/size", "value": 7}))
    await api.configure("mutating", ("/size", rule("gadgets", apiVersions=["v2"])))
    found = await api("POST", gadgets["v1"], gadget("v1", color="red"))
    assert (found.status, found.body["apiVersion"]) == (201, "example.org/v1")
    assert (found.body["size"], found.body["color"]) == (7, "red")


async def test_changes_of_built_in_objects_in_another_version_are_converted(api, monkeypatch):
    monkeypatch.setitem(ANSWERS, "/most", patches({"op": "replace", "path": "/spec/maxReplicas", "value": 9}))
    hook = rule("horizontalpodautoscalers", apiVersions=["v1"], apiGroups=["autoscaling"])
    await api.configure("mutating", ("/most", hook))
    target = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
    found = await api("POST", "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers", body)
    assert (found.status, found.body["apiVersion"]) == (201, "autoscaling/v2")
    assert found.body["spec"]["maxReplicas"] == 9


async def test_webhooks_can_change_a_scale(api, monkeypatch):
    monkeypatch.setitem(ANSWERS, "/five", patches({"op": "replace", "path": "/spec/replicas", "value": 5}))
    path = "/apis/apps/v1/namespaces/n/deployments"
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    await api("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    await api.configure("mutating", ("/five", rule("deployments/scale")))
    found = await api("PATCH", f"{path}/d/scale", {"spec": {"replicas": 3}})
    assert (found.status, found.body["kind"], found["spec.replicas"]) == (200, "Scale", 5)
    assert (await api("GET", f"{path}/d"))["spec.replicas"] == 5


async def test_webhooks_cannot_make_a_scale_invalid(api, monkeypatch):
    monkeypatch.setitem(ANSWERS, "/odd", patches({"op": "replace", "path": "/spec/replicas", "value": "x"}))
    path = "/apis/apps/v1/namespaces/n/deployments"
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    await api("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    await api.configure("mutating", ("/odd", rule("deployments/scale")))
    assert (await api("PATCH", f"{path}/d/scale", {"spec": {"replicas": 3}})).status == 500
    assert (await api("GET", f"{path}/d"))["spec.replicas"] == 1


async def test_webhooks_cannot_change_the_resource_version_of_an_update(api, monkeypatch):
    made = await api("POST", MAPS, {"metadata": {"name": "one"}, "data": {"a": "x"}})
    version = made.body["metadata"]["resourceVersion"]
    monkeypatch.setitem(
        ANSWERS,
        "/version",
        patches(
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "add", "path": "/data/b", "value": "y"},
        ),
    )
    await api.configure("mutating", ("/version", rule("configmaps")))
    body = {"metadata": {"name": "one", "resourceVersion": version}, "data": {"a": "z"}}
    found = await api("PUT", f"{MAPS}/one", body)
    assert (found.status, found.body.get("data")) == (200, {"a": "z", "b": "y"})
    assert (await api("PUT", f"{MAPS}/one", body)).status == 409


async def test_patches_with_too_many_operations_are_refused(api, monkeypatch):
    monkeypatch.setattr("vcsync.apimachinery.patch.jsonpatch.MAX_OPERATIONS", 2)
    label = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    for count, status in ((2, 201), (3, 500)):
        monkeypatch.setitem(ANSWERS, "/many", patches(*[label] * count))
        await api.configure("mutating", ("/many", rule("configmaps")), name=f"c{count}")
        found = await api("POST", MAPS, {"metadata": {"name": f"m{count}"}})
        assert found.status == status
    assert found.body["message"] == "Internal error occurred: a JSON patch has at most 2 operations"


async def test_namespace_selectors_report_a_missing_namespace(api):
    selector = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    await api.configure("validating", ("/deny", {**rule("pods/exec", operations=["CONNECT"]), **selector}))
    found = await api("GET", "/api/v1/namespaces/gone/pods/p/exec?command=sh")
    assert (found.status, found.body["message"]) == (404, 'namespaces "gone" not found')
