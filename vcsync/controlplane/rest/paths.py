"""Paths that are no resources: versions, health, metrics, discovery, OpenAPI."""

import platform
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.rest import legacy
from vcsync.controlplane.rest.reply import Reply
from vcsync.controlplane.rest.requestinfo import Query, RequestInfo
from vcsync.controlplane.rest.space import Spaces

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+vcsync",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": platform.python_implementation(),
    "platform": f"linux/{platform.machine()}",
}
CHECKS = ("ping", "log", "store")
HEALTH = frozenset({"healthz", "livez", "readyz"})

Check = Callable[[], Awaitable[bool]]


class Operator(Protocol):
    """What of identity has paths of its own; see `guard.Guard`."""

    async def openid(self, tenant: str, *, keys: bool) -> Object:
        """Return the discovery document of the issuer of tokens, or its keys."""
        ...

    async def administer(
        self, caller: Any, method: str, path: str, query: Query, body: bytes
    ) -> Any:
        """Answer the operator."""
        ...


class Paths:
    """Answers requests for paths."""

    def __init__(self, spaces: Spaces, guard: Operator, ready: Check, metrics: Callable[[], bytes]) -> None:
        """Take the kinds, identity, whether the store answers, and the metrics' text."""
        self._spaces = spaces
        self._guard = guard
        self._ready = ready
        self._metrics = metrics

    async def answer(self, incoming: Any, info: RequestInfo, query: Query, caller: Any, tenant: str) -> Reply:
        """Answer one.

        Raises:
            StatusError: 404, 405.
        """
        parts = [each for each in info.path.split("/") if each]
        if incoming.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed(info.verb) if parts else errors.page_not_found()
        if not parts:
            return _json({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/readyz", "/version"]})
        if parts[0] in HEALTH:
            return await self._health(parts, query)
        if parts == ["version"]:
            return _json(VERSION)
        if parts == ["metrics"]:
            return Reply(200, [self._metrics()], "text/plain; version=0.0.4; charset=utf-8")
        if info.path == "/.well-known/openid-configuration":
            return _json(await self._guard.openid(tenant, keys=False))
        if info.path == "/openid/v1/jwks":
            keys = await self._guard.openid(tenant, keys=True)
            return Reply(200, [msgspec.json.encode(keys)], "application/jwk-set+json")
        resources = self._spaces.resources(tenant)
        if parts == ["api"]:
            return _json(legacy.versions(incoming.headers.get("Host", "")))
        if parts == ["api", "v1"]:
            return _json(legacy.listed("", "v1", resources))
        if parts == ["apis"]:
            return _json(legacy.groups(resources))
        known = {(each.group, each.version) for each in resources}
        if parts[0] == "apis" and len(parts) == 2 and parts[1] in {each for each, _ in known}:
            return _json(legacy.group(parts[1], resources))
        if parts[0] == "apis" and len(parts) == 3 and (parts[1], parts[2]) in known:
            return _json(legacy.listed(parts[1], parts[2], resources))
        raise errors.page_not_found()

    async def operate(self, incoming: Any, info: RequestInfo, query: Query, caller: Any) -> Reply:
        """Answer the operator's own paths."""
        body = await incoming.body()
        answer = await self._guard.administer(caller, incoming.method, info.path, query, body)
        return Reply(answer.status, [answer.body], answer.content_type)

    async def _health(self, parts: list[str], query: Query) -> Reply:
        probe, excluded = parts[0], set(query.get("exclude", ()))
        checks = [each for each in CHECKS if each not in excluded]
        if len(parts) == 2:
            if parts[1] not in CHECKS:
                raise errors.page_not_found()
            checks = [parts[1]]
        failed = [each for each in checks if each == "store" and not await self._ready()]
        lines = [f"[-]{each} failed: reason withheld" if each in failed else f"[+]{each} ok" for each in checks]
        if failed:
            text = "\n".join([*lines, f"{probe} check failed", ""])
            return Reply(500, [text.encode()], "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"})
        text = "\n".join([*lines, f"{probe} check passed", ""]) if "verbose" in query and len(parts) == 1 else "ok"
        return Reply(
            200, [text.encode()], "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"}
        )


def _json(obj: Mapping[str, Any]) -> Reply:
    return Reply(200, [msgspec.json.encode(obj) + b"\n"])
