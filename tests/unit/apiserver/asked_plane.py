"""A control plane asked without HTTP, and an identity that lets everybody do everything: what many tests begin with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.filters.chain import FilterChain
from vcsync.apiserver.handlers.exchange import Incoming, Outgoing
from vcsync.apiserver.request.caller import Caller, Decision
from vcsync.apiserver.request.reply import Reply

JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class Everybody:
    """Lets everybody do everything; the tenants are a and b. Policies are told that they may but get."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:masters",)), tenant or "a", True)

    def exists(self, tenant):
        return tenant in ("a", "b")

    def is_suspended(self, tenant):
        return False

    def why_aside(self, tenant):
        return ""

    def aside(self):
        return 0

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

    async def token_request(self, tenant, namespace, name, body, check):
        metadata = {**body["metadata"], "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        answer = {**body, "metadata": metadata, "status": {"token": f"{tenant}/{namespace}/{name}"}}
        await check(answer)
        return answer

    async def openid(self, tenant, *, keys):
        return {"keys": []} if keys else {"issuer": tenant}

    async def administer(self, caller, method, path, query, read):
        raise NotImplementedError


@dataclass
class Response:
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


async def go(chain: FilterChain, method: str, path: str, body: Any = None, **headers: str) -> Outgoing:
    """Send a request through the filter chain.

    A body that is not bytes is sent as JSON. A header is a keyword with underscores for dashes.
    """
    sent = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)

    all_headers = {**JSON, **{key.replace("_", "-").title(): value for key, value in headers.items()}}
    raw, _, query = path.partition("?")
    return await chain.handle(Incoming(method, raw, query, all_headers, None, holding(sent)))


async def ask(chain: FilterChain, method: str, path: str, body: Any = None, **headers: str) -> Response:
    """Send a request and return its whole answer."""
    outgoing = await go(chain, method, path, body, **headers)
    answer = outgoing.answer
    assert isinstance(answer, Reply), answer
    raw = b"".join(answer.body)
    json = answer.content_type == "application/json"
    return Response(
        answer.status, msgspec.json.decode(raw) if json else raw, dict(answer.headers), outgoing.warnings, raw
    )
