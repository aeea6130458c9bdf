"""The body of a request is read only after the caller is authenticated, authorized and has a seat."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import pytest
from asked_plane import holding
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from hack.attacks.routes import Route, operators, routes
from vcsync.apimachinery.resources import Resource, Subresource
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.assembly.server import assemble, control_plane
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.request.caller import Caller, Decision
from vcsync.apiserver.request.reply import Stream
from vcsync.apiserver.serving.limits import Limits
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority

TENANT = "mallet"
THINGS = Resource(
    "example.com", "v1", "things", "thing", "Thing", True,
    ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"), custom=True,
    subresources={"status": Subresource("status", ("get", "patch", "update"), "example.com", "v1", "Thing")},
)  # fmt: skip
DEFINITION = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}  # fmt: skip
ROUTES = routes([THINGS], TENANT)
CREATES = Route("POST", "/apis/example.com/v1/namespaces/default/things")
PATIENCE = 20.0
"""Seconds for an answer that does not wait for a body: far less than a body may take to come."""
AT_ONCE = 50
MANY = 3 * 2**20


class Withheld(Exception):
    """The body was asked for."""


@dataclass
class Plane:
    """A control plane with a tenant, real rules and real seats.

    Attributes:
        allowed: decisions about the request that is under way.
        read: how far a request had come when its body was asked for.
    """

    chain: object
    port: int
    certificates: dict[str, bytes | None]
    allowed: list[bool] = field(default_factory=list)
    read: list[tuple[bool, bool]] = field(default_factory=list)

    async def send(self, method: str, path: str, who: str) -> int:
        """Send a request whose body does not come; returns the status, 0 where it waits for the body."""
        self.allowed.clear()

        async def body(_: object) -> bytes:
            seat = incoming.seat
            self.read.append((seat is not None and seat.taken, bool(self.allowed) and self.allowed[-1]))
            raise Withheld

        headers = {"Content-Type": "application/json", "Content-Length": str(MANY)}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        incoming = Incoming(method, path, "", headers, self.certificates[who], body)
        try:
            answer = (await self.chain.handle(incoming)).answer
        except Withheld:
            return 0
        finally:
            for each in (incoming.seat, incoming.long_running):
                if each is not None:
                    each.end()
        if isinstance(answer, Stream):
            await answer.pieces.aclose()
            return 200
        return answer.status


def certificate(authority: Authority, user: str, *groups: str) -> bytes:
    issued = pki.issue_client(authority, user, groups, time.time())
    return x509.load_pem_x509_certificate(issued.certificate.encode()).public_bytes(Encoding.DER)


@pytest.fixture
async def plane(store, monkeypatch):
    identity = await Identity.open(store, Endpoint("https://cp.example:6443", "192.0.2.1", 6443))
    await identity.lifecycle.create(TENANT)
    certificates = {"nobody": None}
    for tenant, user, groups in (
        (TENANT, "admin", ("vcsync:tenant-admins",)),
        (TENANT, "lowly", ()),
        ("system", "operator", ("system:masters",)),
        ("system", "clerk", ()),
    ):
        record = (await identity.tenants.credentials(tenant)).record
        certificates[user] = certificate(record.authority, user, *groups)
    made = control_plane(store, identity, limits=Limits(connection_rate=0))
    await made.start("127.0.0.1", 0, None)
    found = Plane(made.server.chain, made.server.port, certificates)
    decide = identity.authorizer.decide

    async def spied(caller: Caller, asked: object) -> Decision:
        decision = await decide(caller, asked)
        found.allowed.append(decision.allowed)
        return decision

    monkeypatch.setattr(identity.authorizer, "decide", spied)
    await define(made.server.chain, certificates["admin"])
    yield found
    await made.stop()


async def define(chain: object, admin: bytes) -> None:
    """Have custom resources, too."""
    headers = {"Content-Type": "application/json"}
    place = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await chain.handle(Incoming("POST", place, "", headers, admin, holding(msgspec.json.encode(DEFINITION))))
    async with asyncio.timeout(PATIENCE):
        while True:
            response = await chain.handle(
                Incoming("GET", "/apis/example.com/v1/things", "", headers, admin, holding(b""))
            )
            if response.answer.status == 200:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("who", ["nobody", "lowly", "clerk", "admin", "operator"])
async def test_every_route_authorizes_and_seats_the_caller_before_it_reads_the_body(plane, who):
    answered = {}
    for route in ROUTES:
        async with asyncio.timeout(PATIENCE):
            answered[route] = await plane.send(route.method, route.path, who)
    assert set(plane.read) <= {(True, True)}
    read = {route for route, status in answered.items() if not status}
    assert bool(read) == (who != "nobody")
    assert (CREATES in read) == (who == "admin")
    if who in ("nobody", "clerk", "lowly"):
        # Who has no rights may at most ask what those are.
        assert {each.path.rpartition("/")[2] for each in read} <= {
            "selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"
        }  # fmt: skip


async def test_only_bodies_of_the_operator_are_read_on_its_paths(plane):
    for path in operators(TENANT):
        for who in ("nobody", "lowly", "admin", "clerk"):
            assert await plane.send("POST", path, who) == 403
    assert plane.read == []
    assert await plane.send("POST", "/vcsync/v1/tenants", "operator") == 0
    assert await plane.send("PUT", "/vcsync/v1/tenants", "operator") == 405
    assert await plane.send("POST", "/vcsync/v1/nowhere", "operator") == 404
    assert await plane.send("POST", f"/vcsync/v1/tenants/{TENANT}/nowhere", "operator") == 404
    assert await plane.send("POST", "/vcsync/v1/tenants/none/revoke", "operator") == 404
    assert plane.read == [(True, True)]


@pytest.mark.parametrize("length", [f"Content-Length: {MANY}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("sent", [b"", b"x" * 300_000])
async def test_requests_are_refused_before_their_body_arrives(plane, length, sent):
    """Over HTTP: all routes, with a body that does not come, and with one that comes in part."""
    places = asyncio.Semaphore(AT_ONCE)

    async def status(method: str, path: str) -> int:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
        async with places, asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", plane.port)
            try:
                piece = b"%x\r\n%b\r\n" % (len(sent), sent) if sent and "chunked" in length else sent
                writer.write(head.encode() + piece)
                return int((await reader.readline()).split(b" ")[1])
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    chosen = ROUTES if not sent else ROUTES[::7]
    answers = await asyncio.gather(*(status(each.method, each.path) for each in chosen))
    assert set(answers) <= {200, 403, 404, 405}
    assert {code for code, each in zip(answers, chosen, strict=True) if each.method == "POST"} <= {
        403,
        404,
        405,
    }
    assert plane.read == []


async def test_expect_100_continue_is_answered_after_authorization(store, everybody):
    made = assemble(store, everybody())
    await made.start("127.0.0.1", 0, None)
    head = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    body = b'{"metadata":{"name":"one"}}'
    reader, writer = await asyncio.open_connection("127.0.0.1", made.server.port)
    writer.write(head + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(body))
    async with asyncio.timeout(PATIENCE):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
    writer.close()
    await made.stop()
