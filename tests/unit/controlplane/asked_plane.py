"""A control plane asked without HTTP, and an identity that lets everybody do everything: what many tests begin with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity.caller import Caller, Decision
from vcsync.controlplane.rest.reply import Reply
from vcsync.controlplane.rest.way import Incoming, Outgoing, Way

JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class Everybody:
    """Lets everybody do everything; the tenants are a and b. Policies are told that they may but get."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:masters",)), tenant or "a", True)

    def exists(self, tenant):
        return tenant in ("a", "b")

    def tenants(self):
        return ["a", "b"]

    async def impersonate(self, caller, headers, tenant, info):
        return caller

    async def authorize(self, caller, info, audit):
        return None

    async def decide(self, caller, asked):
        return Decision(asked.verb == "get", f"as {caller.user.name}")

    async def create(self, caller, tenant, plural, namespace, body):
        return {**body, "status": {"allowed": True}}

    async def token_request(self, tenant, namespace, name, body):
        return {**body, "status": {"token": f"{tenant}/{namespace}/{name}"}}

    async def openid(self, tenant, *, keys):
        return {"keys": []} if keys else {"issuer": tenant}

    async def administer(self, caller, method, path, query, read):
        raise NotImplementedError


@dataclass
class Told:
    """An answer; what is no JSON is its own body."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    raw: bytes = b""

    def __getitem__(self, path: str) -> Any:
        found = self.body
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found.get(key)
        return found


def holding(body: bytes) -> Callable[..., Awaitable[bytes]]:
    """Return what reads a body that is there already."""

    async def read(*_: object) -> bytes:
        return body

    return read


async def go(way: Way, method: str, path: str, body: Any = None, **headers: str) -> Outgoing:
    """Send a request its way; a body that is no bytes goes as JSON, a header's name has underscores for dashes."""
    sent = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)

    told = {**JSON, **{key.replace("_", "-").title(): value for key, value in headers.items()}}
    raw, _, query = path.partition("?")
    return await way.go(Incoming(method, raw, query, told, None, holding(sent)))


async def ask(way: Way, method: str, path: str, body: Any = None, **headers: str) -> Told:
    """Send a request and return its whole answer."""
    outgoing = await go(way, method, path, body, **headers)
    answer = outgoing.answer
    assert isinstance(answer, Reply), answer
    raw = b"".join(answer.body)
    json = answer.content_type == "application/json"
    return Told(
        answer.status, msgspec.json.decode(raw) if json else raw, dict(answer.headers), outgoing.warnings, raw
    )
