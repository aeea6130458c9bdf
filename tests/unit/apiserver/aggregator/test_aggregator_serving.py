"""An aggregated API from its registration to its end: condition, discovery, requests and watches."""

import asyncio
import base64
import json

import pytest

from hack.aggregated_server import GROUP, ROOT, VERSION
from hack.webhooks import Authority
from tests.unit.apiserver.aggregator.conftest import API_SERVICES, NAME

GADGETS = f"{ROOT}/namespaces/shop/gadgets"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_objects_are_created_read_and_deleted_as_the_caller(plane):
    await plane.register()
    made = await plane("POST", GADGETS, {"metadata": {"name": "a"}, "size": 3})
    assert (made.status, made["metadata.annotations.by"], made["size"]) == (201, "jane", 3)
    found = await plane("GET", f"{GADGETS}/a")
    assert found["metadata.uid"] == "uid-a"
    assert [each["metadata"]["name"] for each in (await plane("GET", GADGETS))["items"]] == ["a"]
    assert (await plane("GET", f"{GADGETS}/b")).status == 404
    assert (await plane("DELETE", f"{GADGETS}/a")).status == 200
    assert (await plane("DELETE", GADGETS)).status == 200
    assert (await plane("HEAD", GADGETS)).status == 200
    assert "HEAD" in {method for method, _, _ in plane.server.requests}


async def test_the_server_learns_who_calls_and_nothing_else_of_the_client(plane):
    await plane.register()
    found = await plane(
        "GET", f"{ROOT}/callers/me?a=b%20c", authorization="Bearer secret", cookie="a=b", x_remote_user="root",
        x_remote_group="root", x_remote_extra_scopes="root", x_forwarded_for="192.0.2.1",
        user_agent="kubectl",
    )  # fmt: skip
    assert (found["user"], found["uid"], found["groups"]) == ("jane", "u-1", ["system:masters", "team"])
    assert list(found["extra"]) == ["X-Remote-Extra-%53copes"]
    assert found["path"] == f"{ROOT}/callers/me?a=b%20c"
    assert found["headers"] == [
        "accept", "audit-id", "content-type", "host", "user-agent", "x-remote-extra-%53copes", "x-remote-group", "x-remote-uid",
        "x-remote-user",
    ]  # fmt: skip


async def test_the_server_learns_whom_the_caller_impersonates(plane):
    await plane.register()
    found = await plane(
        "GET", f"{ROOT}/callers/me", impersonate_user="joe", impersonate_group="system:masters"
    )
    assert found.status == 200, found.body
    assert (found["user"], found["groups"], found["extra"]) == (
        "joe",
        ["system:masters", "system:authenticated"],
        {},
    )
    assert not [each for each in found["headers"] if each.startswith("impersonate")]


async def test_bodies_are_passed_on_as_they_are(plane):
    await plane.register()
    sent = b"\x00\x01" * 100_000
    found = await plane("POST", f"{ROOT}/callers", sent)
    assert found["body"] == sent.decode()


async def test_watches_are_streamed(plane):
    await plane.register()
    answer = await plane.go("GET", f"{GADGETS}?watch=true")
    pieces = aiter(answer.pieces)
    for name in ("a", "b"):
        await plane("POST", GADGETS, {"metadata": {"name": name}})
        async with asyncio.timeout(20):
            event = json.loads(await anext(pieces))
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
    await answer.pieces.aclose()


async def test_discovery_lists_the_version_with_its_resources(plane, documents):
    await plane.register()
    groups = (await documents("/apis"))["groups"]
    assert groups[-1] == {
        "name": GROUP,
        "versions": [{"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}],
        "preferredVersion": {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION},
    }
    assert (await documents(f"/apis/{GROUP}"))["name"] == GROUP
    assert (await documents(ROOT))["resources"][0]["name"] == "gadgets"
    found = (await documents("/apis", AGGREGATED))["items"][-1]
    assert found["metadata"] == {"name": GROUP}
    assert found["versions"][0]["freshness"] == "Current"
    assert found["versions"][0]["resources"][0] == {
        "resource": "gadgets",
        "responseKind": {"group": GROUP, "version": VERSION, "kind": "Gadget"},
        "scope": "Namespaced",
        "singularResource": "gadget",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "update", "patch", "watch"],
        "shortNames": ["gd"],
    }
    paths = (await documents("/"))["paths"]
    assert {f"/apis/{GROUP}", ROOT} <= set(paths)


async def test_the_openapi_document_is_listed_and_forwarded(plane, documents):
    await plane.register()
    index = json.loads((await plane("GET", "/openapi/v3")).raw)
    assert index["paths"][ROOT[1:]] == {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=AB12"}
    assert (await documents(f"/openapi/v3{ROOT}?hash=AB12"))["info"]["title"] == "parts"


async def test_the_condition_follows_the_server(plane, documents):
    await plane.register()
    assert (await plane.condition())["message"] == "all checks passed"
    plane.server.stop()
    found = await plane.until("False", "FailedDiscoveryCheck")
    assert found["message"].startswith(f"failing or missing response from https://web.shop.svc:443{ROOT}: ")
    assert "127.0.0.1" not in found["message"]
    refused = await plane("GET", GADGETS)
    assert (refused.status, refused["message"]) == (
        503,
        f"APIService {NAME} is not available: {found['message']}",
    )
    items = (await documents("/apis", AGGREGATED))["items"][-1]
    assert items["versions"][0]["freshness"] == "Stale"
    assert items["versions"][0]["resources"][0]["resource"] == "gadgets"
    assert ROOT[1:] not in json.loads((await plane("GET", "/openapi/v3")).raw)["paths"]
    plane.server.restart()
    await plane.until("True", "Passed")
    assert (await plane("GET", GADGETS)).status == 200


async def test_the_condition_names_what_is_missing_in_upstreams_order(plane):
    made = await plane("POST", API_SERVICES, plane.api_service())
    assert (made.status, made.warnings, made.body.get("status")) == (201, [], {})
    first = await plane.until("False", "ServiceNotFound")
    assert first["message"] == 'service/web in "shop" is not present'
    await plane.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 8443, "name": "https"}]}}
    await plane.create("/api/v1/namespaces/shop/services", service)
    found = await plane.until("False", "ServicePortError")
    assert found["message"] == 'service/web in "shop" is not listening on port 443'
    assert found["lastTransitionTime"] == first["lastTransitionTime"]
    patched = await plane(
        "PATCH", f"{API_SERVICES}/{NAME}", {"spec": {"service": {"port": 8443}}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    assert patched.status == 200
    found = await plane.until("False", "EndpointsNotFound")
    assert found["message"] == 'cannot find endpointslices for service/web in "shop"'
    empty = {
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": 1}],
        "endpoints": [],
    }
    await plane.create("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", empty)
    found = await plane.until("False", "MissingEndpoints")
    assert (
        found["message"]
        == 'endpointslices for service/web in "shop" have no addresses with port name "https"'
    )
    owners = (await plane("GET", f"{API_SERVICES}/{NAME}"))["metadata.managedFields"]
    assert ("kube-apiserver", "status") in {(each["manager"], each.get("subresource")) for each in owners}


async def test_a_version_of_a_definition_stays_with_this_server(plane):
    await plane.register()
    definition = {
        "metadata": {"name": f"gadgets.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": VERSION, "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }  # fmt: skip
    await plane.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    async with asyncio.timeout(20):
        while plane.chain._spaces.remote_api_service("acme", GROUP, VERSION) is not None:
            await asyncio.sleep(0.02)
    before = len(plane.server.requests)
    assert (await plane("GET", f"{GADGETS}/a"))["message"] == f'gadgets.{GROUP} "a" not found'
    assert not [each for each in plane.server.requests[before:] if "gadgets" in each[1]]


async def test_an_api_service_that_is_deleted_is_gone_from_discovery(plane, documents):
    await plane.register()
    assert (await plane("DELETE", f"{API_SERVICES}/{NAME}")).status == 200
    assert (await plane("GET", GADGETS)).status == 404
    assert GROUP not in {each["name"] for each in (await documents("/apis"))["groups"]}


async def test_a_suspended_tenant_only_reads(plane):
    await plane.register()
    await plane.identity.lifecycle.suspend("acme", suspended=True)
    assert (await plane("GET", GADGETS)).status == 200
    assert (await plane("POST", GADGETS, {"metadata": {"name": "a"}})).status == 403


async def test_a_rotated_tenant_is_served_with_its_new_authority(plane):
    await plane.register()
    before = await plane.config()
    await plane.identity.lifecycle.rotate("acme")
    after = await plane.config()
    for key in ("client-ca-file", "requestheader-client-ca-file"):
        assert before[key] != after[key]
    await plane.trust()
    await plane.until("True", "Passed")
    assert (await plane("GET", GADGETS)).status == 200


async def test_a_server_that_is_not_verified_is_served_without_a_bundle(plane):
    await plane.serve()
    api_service = plane.api_service(insecureSkipTLSVerify=True)
    del api_service["spec"]["caBundle"]
    await plane.create(API_SERVICES, api_service)
    await plane.trust()
    await plane.until("True", "Passed")
    assert (await plane("GET", GADGETS)).status == 200


@pytest.mark.parametrize("bundle", [base64.b64encode(Authority().pem).decode(), ""])
async def test_a_server_with_another_certificate_is_not_available(plane, bundle):
    await plane.serve()
    await plane.create(API_SERVICES, plane.api_service(caBundle=bundle))
    found = await plane.until("False", "FailedDiscoveryCheck")
    assert "certificate signed by unknown authority" in found["message"]


async def test_after_missed_changes_everything_is_read_again(plane):
    await plane.register()
    plane.remote.forget("acme")
    assert plane.remote.get("acme", NAME) is None
    async with asyncio.timeout(20):
        while plane.remote.get("acme", NAME) is None:
            await asyncio.sleep(0.01)
    assert (await plane("GET", GADGETS)).status == 200
