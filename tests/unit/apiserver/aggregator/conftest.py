"""A control plane whose tenants' Services may be called on loopback, and an aggregated API server behind one of them."""

import asyncio
import json
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from asked_plane import JSON, Response, holding
from multidict import CIMultiDict

from hack.aggregated_server import GROUP, VERSION, AggregatedServer
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.aggregator import availability_controller
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.assembly.server import control_plane
from vcsync.apiserver.egress.networks import Allowed, Networks
from vcsync.apiserver.egress.policy import Policy
from vcsync.apiserver.handlers.exchange import Incoming, Outgoing
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.reply import Reply
from vcsync.apiserver.storage.interface import Put

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = f"{VERSION}.{GROUP}"
LOOPBACK = "127.0.0.1"
ALLOWED = Policy(networks=Networks((Allowed(ip_network("127.0.0.1/32"), "acme"),)))


class Plane:
    """Asks a control plane as users of a tenant."""

    def __init__(self, plane: Any, identity: Identity, server: AggregatedServer, store: Any) -> None:
        self.plane, self.identity, self.server, self.store = plane, identity, server, store
        self.caller = Caller(
            User("jane", "u-1", ("system:masters", "team"), {"Scopes": ["a b", "c"]}), "acme", False
        )
        self.chain = plane.server.chain
        self.chain._identity.authenticate = self._authenticate
        self.remote = self.chain._spaces.remote

    async def _authenticate(self, *_: object) -> Caller:
        return self.caller

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        outgoing = await self._outgoing(method, path, body, headers)
        answer = outgoing.answer
        assert isinstance(answer, Reply), answer
        raw = b"".join([*answer.body, *([each async for each in answer.rest] if answer.rest else ())])
        if answer.rest is not None:
            await answer.rest.aclose()
        is_json = answer.content_type == "application/json" and raw
        return Response(
            answer.status, json.loads(raw) if is_json else raw, dict(answer.headers), outgoing.warnings, raw
        )

    async def go(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return (await self._outgoing(method, path, body, headers)).answer

    async def _outgoing(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Outgoing:
        """Answer a request as the HTTP server does, which ends its seat."""
        sent = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        given = {key.replace("_", "-").title(): value for key, value in headers.items()}
        length = {"Content-Length": str(len(sent))} if sent else {}
        raw, _, query = f"/tenants/acme{path}".partition("?")
        incoming = Incoming(method, raw, query, CIMultiDict({**JSON, **length, **given}), None, holding(sent))
        incoming.audit_id = "audit-1"
        try:
            return await self.chain.handle(incoming)
        finally:
            if incoming.seat is not None:
                incoming.seat.end()

    async def create(self, path: str, body: Any) -> None:
        made = await self("POST", path, body)
        assert made.status == 201, made.body

    async def serve(self, *, address: str = LOOPBACK, pod_address: str = LOOPBACK, port: int = 0) -> None:
        """Put the server behind the Service web in namespace shop, as a Pod of it."""
        await self.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await self.create("/api/v1/namespaces/shop/serviceaccounts", {"metadata": {"name": "default"}})
        pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await self.create("/api/v1/namespaces/shop/pods", pod)
        status = {"status": {"phase": "Running", "podIP": pod_address, "podIPs": [{"ip": pod_address}]}}
        patched = await self(
            "PATCH",
            "/api/v1/namespaces/shop/pods/web/status",
            status,
            content_type="application/merge-patch+json",
        )
        assert patched.status == 200, patched.body
        service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 443}]}}
        await self.create("/api/v1/namespaces/shop/services", service)
        endpoint = {
            "addresses": [address],
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": "web"},
        }
        # The rules of EndpointSlices refuse addresses of loopback.
        endpoint_slice = {
            "metadata": {
                "name": "web-1",
                "namespace": "shop",
                "labels": {"kubernetes.io/service-name": "web"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "", "port": port or self.server.port}],
            "endpoints": [endpoint],
        }
        key = object_key("acme", "discovery.k8s.io", "endpointslices", "shop", "web-1")
        await self.store.txn([], [Put(key, msgspec.json.encode(endpoint_slice))])

    def api_service(self, group: str = GROUP, version: str = VERSION, **spec: Any) -> Any:
        known = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": "shop", "name": "web"},
            "caBundle": self.server.bundle,
        }
        return {"metadata": {"name": f"{version}.{group}"}, "spec": {**known, **spec}}

    async def condition(self, name: str = NAME) -> dict[str, str]:
        found = await self("GET", f"{API_SERVICES}/{name}")
        assert found.status == 200, found.body
        conditions = (found.body.get("status") or {}).get("conditions") or [{}]
        return dict(conditions[0])

    async def until(self, status: str, reason: str, name: str = NAME) -> dict[str, str]:
        """Wait until the condition has a status and a reason, here and in the index."""
        async with asyncio.timeout(60):
            while True:
                found = await self.condition(name)
                known = self.remote.get("acme", name)
                is_known = (
                    known is not None and known.condition is not None and known.condition.reason == reason
                )
                if is_known and (found.get("status"), found.get("reason")) == (status, reason):
                    return found
                await asyncio.sleep(0.02)

    async def trust(self) -> None:
        """Let the server trust the authority in the ConfigMap, as aggregated API servers do."""
        async with asyncio.timeout(60):
            while True:
                data = await self.config()
                if authority := data.get("requestheader-client-ca-file"):
                    break
                await asyncio.sleep(0.02)
        self.server.trust(authority)

    async def config(self) -> dict[str, str]:
        found = await self(
            "GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        )
        return dict(found["data"])

    async def register(self) -> None:
        """Serve, register, and wait until the APIService is available."""
        await self.serve()
        await self.create(API_SERVICES, self.api_service())
        await self.trust()
        await self.until("True", "Passed")


@pytest.fixture
def server():
    with AggregatedServer(["web.shop.svc"]) as found:
        yield found


@pytest.fixture
def policy():
    return ALLOWED


@pytest.fixture
async def plane(store, server, policy, monkeypatch):
    monkeypatch.setattr(availability_controller, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(availability_controller, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(availability_controller, "FIRST_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(availability_controller, "AGAIN_SECONDS", 0.2)
    identity = await Identity.open(store, Endpoint("https://cp.example:6443", "192.0.2.1", 6443))
    made = control_plane(store, identity, services=policy)
    await made.start("127.0.0.1", 0, None)
    await identity.lifecycle.create("acme")
    yield Plane(made, identity, server, store)
    await made.stop()
    for _ in range(10):
        await asyncio.sleep(0)  # the event loop closes sockets in its next iterations


@pytest.fixture
def documents(plane):
    """Return a function that reads a discovery document."""

    async def read(path: str, accept: str = "application/json") -> Any:
        found = await plane("GET", path, accept=accept)
        assert found.status == 200, found.body
        return json.loads(found.raw)

    return read
