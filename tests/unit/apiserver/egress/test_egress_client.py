"""Calls reach only allowed servers, at the checked address and within limits."""

import asyncio
import base64
import gc
import json
import socket
import ssl

import pytest

from hack.webhooks import Authority
from vcsync.apiserver.egress import client as client_module
from vcsync.apiserver.egress.client import Call
from vcsync.apiserver.egress.connections import Connections
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.in_flight import Bounds
from vcsync.apiserver.egress.policy import NOTHING, TRUSTED, Policy
from vcsync.apiserver.egress.reachable import REFUSED
from vcsync.apiserver.egress.services import Endpoint
from vcsync.apiserver.egress.target import target_of

REVIEW = json.dumps({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u"}}).encode()


def call(hooks, path="/allow", *, host="", tenant="t", seconds=5.0, largest=4 << 20, bundle=None, **config):
    url = config or {"url": f"https://{host or '127.0.0.1'}:{hooks.port}{path}"}
    bundle = hooks.bundle if bundle is None else bundle
    return Call(
        target_of(tenant, {**url, "caBundle": bundle}),
        lambda: REVIEW,
        seconds,
        len(REVIEW),
        "timeout=5s",
        largest,
    )


async def failure(client, asked):
    with pytest.raises(CallFailed) as caught:
        await client.call(asked)
    return str(caught.value)


async def test_allowed_servers_are_called(client, policy, hooks):
    found = json.loads(await client(policy("127.0.0.1:*")).call(call(hooks)))
    assert found["response"] == {"uid": "u", "allowed": True}


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "017700000001", "0"])
async def test_loopback_is_refused_in_every_notation(client, policy, hooks, host):
    asked = call(hooks, host=host)
    refusal = f'Post "{asked.url}": {REFUSED}'
    assert await failure(client(NOTHING), asked) == refusal
    assert await failure(client(policy(f"{host}:*", networks=())), asked) == refusal
    assert await failure(client(policy(f"{host}:*", networks=("0.0.0.0/0", "::/0"))), asked) == refusal


async def test_refusals_do_not_depend_on_the_destination(client, policy, hooks):
    """Open and closed ports and unknown names look the same, so that tenants cannot scan the operator's networks."""

    async def resolve(host, port):
        if host.startswith("no"):
            raise OSError("no such host")
        return ["127.0.0.1"]

    caller = client(policy("*.example.com:*", networks=()), resolve=resolve)
    messages = set()
    for name, port in (("a", hooks.port), ("b", 1), ("no", 443)):
        url = f"https://{name}.example.com:{port}/"
        found = await failure(caller, Call(target_of("t", {"url": url}), lambda: b"{}", 5.0))
        messages.add(found.replace(Call(target_of("t", {"url": url}), lambda: b"{}", 5.0).url, "URL"))
    assert messages == {f'Post "URL": {REFUSED}'}


async def test_a_host_name_is_resolved_once_and_the_checked_address_called(client, policy, hooks):
    """A name server that returns another address the second time has no effect."""
    asked = []

    async def resolve(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    caller = client(policy("hooks.example.com:*"), resolve=resolve)
    assert await caller.call(call(hooks, host="hooks.example.com"))
    assert asked == ["hooks.example.com"]
    assert await failure(caller, call(hooks, host="hooks.example.com")) == (
        f'Post "https://hooks.example.com:{hooks.port}/allow?timeout=5s": {REFUSED}'
    )


async def test_only_allowed_addresses_of_a_name_are_tried(client, policy, hooks, monkeypatch):
    async def resolve(host, port):
        return ["169.254.169.254", "10.0.0.1", "::1", "nonsense" if host.startswith("x") else "127.0.0.1"]

    seen = []
    send = client_module.Client._send

    async def recorded(self, session, call, endpoint, memory):
        seen.append(str(endpoint.address))
        return await send(self, session, call, endpoint, memory)

    monkeypatch.setattr(client_module.Client, "_send", recorded)
    await client(policy("hooks.example.com:*"), resolve=resolve).call(call(hooks, host="hooks.example.com"))
    assert seen == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/redirect", "redirects are not followed"),
        ("/elsewhere", "redirects are not followed"),
        ("/500", 'an error on the server ("boom") has prevented the request from succeeding'),
        ("/404", "the server could not find the requested resource"),
        ("/empty", "0-length response with status code: 200 and content type: text/plain"),
        ("/huge", "the answer is larger than 1000 bytes"),
    ],
)
async def test_unsuccessful_responses_are_errors(client, policy, hooks, path, message):
    before = len(hooks.asked)
    assert message in await failure(client(policy("127.0.0.1:*")), call(hooks, path, largest=1000))
    assert [each.partition("?")[0] for each, _ in hooks.asked[before:]] == [path]


async def test_a_call_ends_at_its_deadline(client, policy, hooks):
    found = await failure(client(policy("127.0.0.1:*")), call(hooks, "/slow", seconds=0.1))
    assert found == f'Post "{hooks.url}/slow?timeout=5s": context deadline exceeded'


async def test_a_connection_that_failed_does_not_linger(client, policy, hooks):
    before = {id(each) for each in _open_sockets()}
    await failure(client(policy("127.0.0.1:*")), call(hooks, "/slow", seconds=0.1))
    for _ in range(5):
        await asyncio.sleep(0)
    left = [each for each in _open_sockets() if id(each) not in before and _peer(each) == hooks.port]
    assert not left


def _open_sockets():
    return [each for each in gc.get_objects() if isinstance(each, socket.socket) and each.fileno() != -1]


def _peer(each):
    try:
        return each.getpeername()[1]
    except OSError:
        return None


async def test_a_silent_server_is_abandoned_at_the_deadline(client, policy):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        asked = Call(target_of("t", {"url": url}), lambda: b"{}", 0.1)
        assert "context deadline exceeded" in await failure(client(policy("127.0.0.1:*")), asked)


async def test_a_refused_connection_is_reported(client, policy):
    asked = Call(target_of("t", {"url": "https://127.0.0.1:1/x"}), lambda: b"{}", 5.0)
    found = await failure(client(policy("127.0.0.1:*")), asked)
    assert found == 'Post "https://127.0.0.1:1/x": dial tcp 127.0.0.1:1: connect: connection refused'


@pytest.mark.parametrize(
    ("host", "bundle", "message"),
    [
        ("127.0.0.1", "", "x509: certificate signed by unknown authority"),
        ("127.0.0.1", base64.b64encode(Authority().pem).decode(), "certificate signed by unknown authority"),
        ("other.example.com", None, "x509: certificate is not valid for other.example.com"),
        ("127.0.0.1", base64.b64encode(b"nonsense").decode(), "unable to parse bytes as PEM block"),
    ],
)
async def test_certificates_are_verified(client, policy, hooks, host, bundle, message):
    async def resolve(host, port):
        return ["127.0.0.1"]

    caller = client(policy("*.example.com:*", "127.0.0.1:*"), resolve=resolve)
    assert message in await failure(caller, call(hooks, host=host, bundle=bundle))


async def test_proxies_of_the_environment_are_not_used(client, policy, hooks, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert await client(policy("127.0.0.1:*")).call(call(hooks))


async def test_a_request_that_is_too_large_is_not_sent(client, policy, hooks):
    caller = client(policy("127.0.0.1:*"), bounds=Bounds(request=10))
    assert await failure(caller, call(hooks)) == "the request is larger than 10 bytes"


async def test_calls_in_flight_are_limited_per_tenant(client, policy, hooks):
    gate, going = asyncio.Event(), []

    async def resolve(host, port):
        going.append(host)
        await gate.wait()
        return ["127.0.0.1"]

    caller = client(policy("*.example.com:*"), resolve=resolve, bounds=Bounds(total=3, tenant=2, waiting=1))
    asked = [
        asyncio.create_task(caller.call(call(hooks, host="hooks.example.com", tenant=tenant)))
        for tenant in ("loud", "loud", "loud", "loud", "quiet")
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(going) == 3
    gate.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(each, CallFailed) for each in found] == [False, False, False, True, False]
    assert str(found[3]) == "too many calls are in flight"


async def test_tenants_do_not_share_connections(client, policy, hooks):
    connections = Connections()
    caller = client(policy("127.0.0.1:*"), connections=connections)
    for tenant in ("a", "a", "b"):
        await caller.call(call(hooks, tenant=tenant))
    assert [tenant for tenant, _ in connections._pools] == ["a", "b"]


async def test_idle_connections_are_closed(client, policy, hooks):
    now = [0.0]
    connections = Connections(lambda: now[0])
    caller = client(policy("127.0.0.1:*"), connections=connections)
    await caller.call(call(hooks, tenant="a"))
    now[0] = 100.0
    await caller.call(call(hooks, tenant="b"))
    assert [tenant for tenant, _ in connections._pools] == ["b"]


class _Services:
    def __init__(self, *addresses):
        self.found = addresses

    async def endpoints(self, target):
        from ipaddress import ip_address  # noqa: PLC0415

        return [Endpoint(ip_address(each), port) for each, port in self.found]


async def test_a_service_is_called_at_its_pods(client, policy, hooks):
    services = _Services(("127.0.0.1", hooks.port))
    config = {"service": {"namespace": "shop", "name": "web", "path": "/allow"}}
    assert await client(policy(), services).call(call(hooks, **config))
    refused = f'Post "https://web.shop.svc:443/allow?timeout=5s": {REFUSED}'
    assert await failure(client(policy(networks=()), services), call(hooks, **config)) == refused
    assert await failure(client(policy(networks=("10.0.0.0/8",)), services), call(hooks, **config)) == refused


async def test_public_addresses_do_not_count_as_pods(client, policy, hooks):
    config = {"service": {"namespace": "shop", "name": "web"}}
    caller = client(policy(networks=("10.0.0.0/8",)), _Services(("8.8.8.8", 443)))
    assert REFUSED in await failure(caller, call(hooks, **config))


async def test_the_reason_why_pods_cannot_be_reached_is_hidden(client, policy, hooks):
    config = {"service": {"namespace": "shop", "name": "web"}}
    found = await failure(client(policy(), _Services(("127.0.0.1", 1))), call(hooks, **config))
    assert found == 'Post "https://web.shop.svc:443/?timeout=5s": dial tcp: no connection to any endpoint'


async def test_destinations_of_the_operator_are_called_anywhere(client, hooks):
    assert await client(TRUSTED).call(call(hooks, tenant=""))


async def test_by_default_nothing_is_called(client, hooks):
    assert REFUSED in await failure(client(Policy()), call(hooks))


def test_contexts_verify_host_names_and_the_bundle(hooks):
    from vcsync.apiserver.egress import tls  # noqa: PLC0415

    made = tls.context(hooks.authority.pem)
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname
    assert not made.hostname_checks_common_name
