"""Paths and verbs that an API does not install, of built-in and custom resources."""

import pytest

DEPLOYMENT = "/apis/apps/v1/deployments/web"
NO_PAGE = "the server could not find the requested resource"


@pytest.mark.parametrize("path", [DEPLOYMENT, f"{DEPLOYMENT}/status", f"{DEPLOYMENT}/scale"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_an_object_is_not_found_without_its_namespace(api, path, method):
    found = await api(method, path, {"metadata": {"name": "web"}}, Content_Type="application/json")
    assert (found.status, found.body["message"]) == (404, NO_PAGE)


@pytest.mark.parametrize(
    ("method", "below", "status", "told"),
    [
        ("PUT", "", 400, "name must be provided"),
        ("PATCH", "", 400, "name must be provided"),
        ("POST", "/g", 405, "the server does not allow this method on the requested resource"),
    ],
)
async def test_a_verb_that_does_not_fit_the_path_of_a_custom_resource(
    api, gadgets, method, below, status, told
):
    body = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    found = await api(method, gadgets["v1"] + below, body, Content_Type="application/json")
    assert (found.status, found.body["message"]) == (status, told)


async def test_a_verb_that_does_not_fit_the_path_of_a_built_in_resource(api):
    for method, path in (
        ("PUT", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/namespaces/default/pods/p"),
    ):
        assert (await api(method, path, {"metadata": {"name": "p"}})).status == 405
