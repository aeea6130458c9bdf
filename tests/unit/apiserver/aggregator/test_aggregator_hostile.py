"""Aggregated API servers that misbehave, destinations that are not allowed, and clients that want more than they may."""

import asyncio
from dataclasses import replace
from ipaddress import ip_network

import msgspec
import pytest

from hack.aggregated_server import GROUP, ROOT
from tests.unit.apiserver.aggregator.conftest import ALLOWED, API_SERVICES, NAME
from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.aggregator import discovery_check
from vcsync.apiserver.aggregator.forward import Bounds
from vcsync.apiserver.egress.networks import Allowed, Networks
from vcsync.apiserver.egress.policy import NOTHING, Policy
from vcsync.apiserver.storage.interface import Put

GADGETS = f"{ROOT}/namespaces/shop/gadgets"
NOT_FORWARDED = "this control plane does not forward requests to Services: its operator allows none"
UNAVAILABLE = f"APIService {NAME} is not available: "


def bounded(plane, **bounds):
    plane.chain._aggregator._bounds = Bounds(**bounds)


@pytest.mark.parametrize(
    ("behaviour", "status", "message"),
    [
        ("hang", 504, f"APIService {NAME}: the server did not answer in time"),
        ("endless headers", 503, f"{UNAVAILABLE}malformed HTTP response"),
        ("endless line", 503, f"{UNAVAILABLE}malformed HTTP response"),
        ("garbage", 503, f"{UNAVAILABLE}malformed HTTP response"),
        ("disconnect", 503, f"{UNAVAILABLE}EOF"),
        ("switch", 503, f"{UNAVAILABLE}malformed HTTP response"),
        ("redirect", 502, f"APIService {NAME}: the server redirects, which is not followed"),
        ("permanent redirect", 502, f"APIService {NAME}: the server redirects, which is not followed"),
        ("401", 503, f"{UNAVAILABLE}the server does not accept the certificate of this control plane"),
        ("407", 503, f"{UNAVAILABLE}the server does not accept the certificate of this control plane"),
        ("403", 403, "status 403"),
        ("500", 500, "status 500"),
    ],
)
async def test_a_server_that_misbehaves_fails_its_own_requests_only(plane, behaviour, status, message):
    await plane.register()
    if behaviour == "hang":
        bounded(plane, answer_seconds=0.2)
    plane.server.behaviour = behaviour
    found = await plane("GET", GADGETS)
    assert (found.status, found["message"]) == (status, message)
    assert "192.0.2.7" not in found.raw.decode()
    assert "Location" not in found.headers
    assert (await plane("GET", "/api/v1/namespaces/shop")).status == 200
    plane.server.behaviour = ""
    bounded(plane)
    assert (await plane("GET", GADGETS)).status == 200


async def test_only_known_headers_of_an_answer_pass(plane):
    await plane.register()
    plane.server.behaviour = "headers"
    assert (await plane("GET", GADGETS)).headers == {"Etag": '"1"'}
    plane.server.behaviour = "503"
    found = await plane("GET", GADGETS)
    assert (found.status, found.headers["Retry-After"]) == (503, "7")


async def test_an_answer_that_is_cut_off_or_never_ends_breaks_off(plane):
    await plane.register()
    bounded(plane, body_seconds=0.3)
    for behaviour in ("cut off", "endless body"):
        plane.server.behaviour = behaviour
        answer = await plane.go("GET", GADGETS)
        with pytest.raises(ConnectionAbortedError):
            async for _ in answer.rest:
                pass
        await answer.rest.aclose()
    plane.server.behaviour = ""
    assert (await plane("GET", GADGETS)).status == 200


async def test_controllers_do_not_read_endless_answers_into_memory(plane):
    await plane.register()
    bounded(plane, system_bytes=100_000)
    plane.server.behaviour = "endless body"
    plane.caller = replace(plane.caller, system=True)
    answer = await plane.go("GET", GADGETS)
    pieces = []

    async def read():
        async for piece in answer.rest:
            pieces.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ConnectionAbortedError):
        await read()
    assert sum(map(len, pieces)) <= 100_000
    await answer.rest.aclose()
    assert not plane.chain._aggregator._open


async def test_a_program_in_the_same_process_gives_everything_back(plane):
    await plane.register()
    plane.server.gadgets["shop", "a"] = {"metadata": {"name": "a"}, "data": "x" * 100_000}
    server = plane.plane.server.in_process(None)
    for behaviour in ("", "cut off"):
        plane.server.behaviour = behaviour
        asked = server.answer("GET", f"/tenants/acme{GADGETS}", {}, None, None)
        if behaviour:
            with pytest.raises(ConnectionAbortedError):
                await asked
        else:
            assert (await asked).status == 200
        assert not plane.chain._aggregator._open
        assert not plane.chain._aggregator._streams


async def test_open_requests_of_a_tenant_are_limited_and_given_back(plane):
    await plane.register()
    bounded(plane, tenant=2)
    watches = [await plane.go("GET", f"{GADGETS}?watch=true") for _ in range(2)]
    refused = await plane("GET", GADGETS)
    assert (refused.status, refused["details.retryAfterSeconds"]) == (429, 1)
    for watch in watches:
        await watch.pieces.aclose()
    assert (await plane("GET", GADGETS)).status == 200
    bounded(plane, total=0)
    assert (await plane("GET", GADGETS)).status == 429
    assert not plane.chain._aggregator._open


async def test_a_client_that_leaves_gives_its_connection_back(plane):
    await plane.register()
    plane.server.behaviour = "hang"
    asked = asyncio.create_task(plane("GET", GADGETS))
    before = len(plane.server.requests)
    async with asyncio.timeout(20):
        while len(plane.server.requests) == before:
            await asyncio.sleep(0.01)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not plane.chain._aggregator._open


async def test_upgrades_and_unknown_methods_are_refused(plane):
    await plane.register()
    found = await plane("GET", f"{GADGETS}/a/exec", connection="Upgrade", upgrade="websocket")
    assert (found.status, found["message"]) == (501, f"APIService {NAME}: connections are not upgraded")
    assert (await plane("TRACE", GADGETS)).status == 405


@pytest.mark.parametrize("path", [f"{GADGETS}?a=b;c", f"{GADGETS}/%252e", f"{GADGETS}//a"])
async def test_paths_that_two_servers_could_read_differently_are_refused(plane, path):
    await plane.register()
    assert (await plane("GET", path)).status == 400


async def test_a_user_that_no_header_can_name_is_refused(plane):
    await plane.register()
    for name in (" jane", "ja\nne", "ja\x00ne"):
        user = type(plane.caller.user)(name, groups=("system:masters",))
        plane.caller = type(plane.caller)(user, "acme", False)
        before = len(plane.server.requests)
        assert (await plane("GET", f"{ROOT}/callers/me")).status == 403
        assert not [each for each in plane.server.requests[before:] if "callers" in each[1]]


@pytest.mark.parametrize("behaviour", ["redirect", "401", "500", "garbage", "endless headers", "hang"])
async def test_a_server_whose_discovery_fails_is_not_available(plane, behaviour, monkeypatch):
    monkeypatch.setattr(discovery_check.check, "__defaults__", (0.3,))
    plane.server.behaviour, plane.server.at = behaviour, "all"
    await plane.serve()
    await plane.create(API_SERVICES, plane.api_service())
    found = await plane.until("False", "FailedDiscoveryCheck")
    assert found["message"].startswith(f"failing or missing response from https://web.shop.svc:443{ROOT}: ")
    for address in ("127.0.0.1", "192.0.2.7"):
        assert address not in found["message"]


@pytest.mark.parametrize(
    "policy", [NOTHING, Policy(networks=Networks((Allowed(ip_network("127.0.0.1/32"), "other"),)))]
)
async def test_without_an_allowed_network_nothing_is_forwarded(plane, documents):
    await plane.serve()
    made = await plane("POST", API_SERVICES, plane.api_service())
    assert (made.status, made.warnings) == (201, [f"{NAME} is not available: {NOT_FORWARDED}"])
    assert (await plane.condition())["reason"] == "NotForwarded"
    found = await plane("GET", GADGETS)
    assert (found.status, found["message"]) == (503, UNAVAILABLE + NOT_FORWARDED)
    assert GROUP not in {each["name"] for each in (await documents("/apis"))["groups"]}
    assert "requestheader-client-ca-file" not in await plane.config()
    assert plane.server.requests == []


@pytest.mark.parametrize("policy", [NOTHING])
async def test_a_condition_from_before_the_operator_changed_its_mind_is_corrected(plane):
    api_service = plane.api_service()
    api_service["metadata"]["uid"] = "u"
    api_service["status"] = {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]}
    key = object_key("acme", "apiregistration.k8s.io", "apiservices", "", NAME)
    await plane.store.txn([], [Put(key, msgspec.json.encode(api_service))])
    await plane.until("False", "NotForwarded")


@pytest.mark.parametrize(
    ("address", "pod_address", "policy", "why"),
    [
        ("127.0.0.2", "127.0.0.2", ALLOWED, "the operator of this server does not allow it to be called"),
        (
            "169.254.169.254",
            "169.254.169.254",
            ALLOWED,
            "the operator of this server does not allow it to be called",
        ),
        ("127.0.0.1", "127.0.0.9", ALLOWED, 'no endpoints available for service "web"'),
    ],
)
async def test_only_allowed_addresses_of_own_pods_are_called(plane, address, pod_address, why):
    await plane.serve(address=address, pod_address=pod_address)
    await plane.create(API_SERVICES, plane.api_service())
    found = await plane.until("False", "FailedDiscoveryCheck")
    assert found["message"] == f"failing or missing response from https://web.shop.svc:443{ROOT}: {why}"
    assert plane.server.requests == []


async def test_a_condition_that_the_tenant_writes_opens_no_address(plane):
    await plane.serve(address="127.0.0.2", pod_address="127.0.0.2")
    await plane.create(API_SERVICES, plane.api_service())
    await plane.until("False", "FailedDiscoveryCheck")
    status = {"status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]}}
    patched = await plane(
        "PATCH", f"{API_SERVICES}/{NAME}/status", status, content_type="application/merge-patch+json"
    )
    assert patched.status == 200
    found = await plane("GET", GADGETS)
    assert found.status == 503
    assert plane.server.requests == []
    await plane.until("False", "FailedDiscoveryCheck")


async def test_a_deleted_config_map_is_restored(plane):
    await plane.register()
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    before = await plane.config()
    assert (await plane("DELETE", path)).status == 200
    async with asyncio.timeout(20):
        while (await plane("GET", path)).status == 404:
            await asyncio.sleep(0.02)
    assert await plane.config() == before
