"""Answers requests for paths that are not resources: version, health, metrics, discovery, OpenAPI."""

import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import formatdate
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from vcsync.api import names
from vcsync.apimachinery import errors
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import encode, negotiation
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.apiserver import openapi
from vcsync.apiserver.discovery import documents as discovery
from vcsync.apiserver.discovery.remote_versions import RemoteVersion
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.reply import Reply, text
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.apiserver.tenants.builtin_resources import BuiltinResources
from vcsync.process.owner_threads import OwnerThreads

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": f"v1.36.3+{names.BUILD}",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": platform.python_implementation(),
    "platform": f"linux/{platform.machine()}",
}
STORE = "etcd"
"""Name of the check that reads from the store; clients know it."""
CHECKS = (
    "ping",
    "log",
    STORE,
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/storage-readiness",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
)
"""Checks, under the names that they have in kube-apiserver. What its post-start hooks do happens here before the
server listens."""
READY_CHECKS = (*CHECKS[:3], "etcd-readiness", "informer-sync", *CHECKS[3:])
STORE_CHECKS = frozenset({STORE, "etcd-readiness"})
PATHS = (
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
)
HEALTH = {"healthz": CHECKS, "livez": CHECKS, "readyz": READY_CHECKS}

OPENAPI_V2 = {
    "application/json": "application/json",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": openapi.PROTOBUF_TYPE,
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf": openapi.PROTOBUF_TYPE,
}
"""Media types that clients may ask for, and those of the answers."""
OPENAPI_V3 = {
    "application/json": "application/json",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf": "application/json",
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf": "application/json",
}
YEAR_SECONDS = 365 * 86400

MANY_RESOURCES = 2000
"""Custom resources from which on a discovery document takes too long for the event loop: each takes five microseconds."""
T = TypeVar("T")

METRICS = "text/plain; version=0.0.4; charset=utf-8"

Check = Callable[[], Awaitable[bool]]


class Operator(Protocol):
    """The part of identity that has paths of its own; see `assembly.identity_filters.IdentityFilters`."""

    async def openid(self, tenant: str, *, keys: bool) -> Object:
        """Return the OpenID discovery document of the token issuer, or its keys."""
        ...

    async def administer(
        self, caller: Any, method: str, path: str, query: Query, read: Callable[[], Awaitable[bytes]]
    ) -> Any:
        """Answer a request for the operator's own paths. Calls `read` once the caller is authorized.

        Raises:
            StatusError: The request is refused.
        """
        ...


class Paths:
    """Answers requests for paths that are not resources.

    Args:
        spaces: Finds the custom resources of a tenant.
        guard: The part of identity that has paths of its own.
        ready: Tells whether the store can be read and written.
        metrics: Returns the metrics that a tenant may read.
    """

    def __init__(
        self, spaces: Spaces, guard: Operator, ready: Check, metrics: Callable[[str], Awaitable[bytes]]
    ) -> None:
        self._spaces = spaces
        self._guard = guard
        self._ready = ready
        self._metrics = metrics
        # For OpenAPI and discovery. Documents of built-in kinds do not wait for those of custom resources.
        self._threads = OwnerThreads("openapi"), OwnerThreads("openapi-builtin", 1)

    async def answer(
        self, incoming: Incoming, info: RequestInfo, query: Query, tenant: str, caller: Caller
    ) -> Reply:
        """Answer a request.

        Raises:
            StatusError: 404, 405.
        """
        parts = [each for each in info.path.split("/") if each]
        if "//" in info.path or (parts and parts[0] in HEALTH and info.path.endswith("/")):
            return unknown_path()
        if parts and parts[0] in HEALTH:
            return await self._health(parts, query)
        if parts and parts[0] == "openapi":
            return await self._openapi(incoming, info.path, query, tenant, caller)
        if incoming.method not in ("GET", "HEAD") and parts != ["apis"]:
            raise errors.method_not_allowed() if parts else errors.page_not_found()
        return await self._read(incoming, info, parts, tenant, caller)

    async def _read(  # noqa: PLR0911 - one for each path
        self, incoming: Incoming, info: RequestInfo, parts: list[str], tenant: str, caller: Caller
    ) -> Reply:
        if not parts or parts == ["index.html"]:
            return _json(
                {
                    "paths": listed_paths(
                        self._spaces.custom(tenant),
                        self._spaces.builtin(tenant, caller),
                        self._spaces.remote_versions(tenant),
                    )
                }
            )
        if parts == ["version"]:
            negotiation.plain_json(incoming.headers.get("Accept", ""))
            return _json(VERSION)
        if parts == ["metrics"]:
            return Reply(200, [await self._metrics(tenant)], METRICS)
        if parts == ["metrics", "slis"]:
            return Reply(200, [health_metrics(await self._ready())], METRICS)
        if info.path == "/.well-known/openid-configuration":
            return _json(await self._guard.openid(tenant, keys=False))
        if info.path == "/openid/v1/jwks":
            keys = await self._guard.openid(tenant, keys=True)
            return Reply(200, [msgspec.json.encode(keys)], "application/jwk-set+json")
        if parts[0] in ("api", "apis"):
            return await self._discovery(incoming, parts, tenant, caller)
        if parts[0] == "version":
            raise errors.page_not_found()
        return unknown_path()

    async def _discovery(self, incoming: Incoming, parts: list[str], tenant: str, caller: Caller) -> Reply:
        accept, custom = incoming.headers.get("Accept", ""), self._spaces.custom(tenant)
        builtin, remote = self._spaces.builtin(tenant, caller), self._spaces.remote_versions(tenant)
        aggregated = ""
        if len(parts) == 1:
            representation, aggregated = negotiation.discovery(accept)
        else:
            representation = negotiation.accepted(accept, transforms=False, lists=False)
        if len(parts) == 1 and aggregated:
            make = partial(discovery.aggregated, custom, builtin, remote, core=parts[0] == "api")
            document = await self._listed(tenant, custom, make)
            headers = {"ETag": document.etag, "Vary": "Accept"}
            if incoming.headers.get("If-None-Match") == document.etag:
                return Reply(304, [], discovery.AGGREGATED_TYPE, headers)
            kind = discovery.AGGREGATED_TYPE.replace("v=v2;", f"v={aggregated};")
            return Reply(200, [document.body], kind, headers)
        found: bytes | None = None
        match parts:
            case ["api"]:
                found = discovery.api_versions(incoming.headers.get("Host", ""))
            case ["api", version]:
                found = discovery.resource_list("", version, builtin=builtin)
            case ["apis"]:
                make_groups = partial(discovery.group_list, custom, builtin, remote)
                found = await self._listed(tenant, custom, make_groups)
            case ["apis", group]:
                make_group = partial(discovery.group, group, custom, builtin, remote)
                found = await self._listed(tenant, custom, make_group)
            case ["apis", group, version]:
                make_list = partial(discovery.resource_list, group, version, custom, builtin)
                found = await self._listed(tenant, custom, make_list)
        if found is None:
            return _unserved(parts)
        headers = {"Vary": "Accept"} if len(parts) == 1 else {}
        if representation.format == "json":
            return Reply(200, [found], representation.content_type, headers)
        body = await self._threads[not custom].run(tenant, partial(_in_other_form, found, representation))
        return Reply(200, [body], representation.content_type, headers)

    async def _listed(self, tenant: str, custom: Sequence[Resource], make: Callable[[], T]) -> T:
        """Make a document about all resources of a tenant: on a thread if they are many."""
        if len(custom) <= MANY_RESOURCES:
            return make()
        return await self._threads[0].run(tenant, make)

    async def _openapi(
        self, incoming: Incoming, path: str, query: Query, tenant: str, caller: Caller
    ) -> Reply:
        headers, custom = incoming.headers, self._spaces.published(tenant)
        builtin = self._spaces.builtin(tenant, caller)
        if path == "/openapi/v3":
            # kube-apiserver sets no content type, so Go detects this one from the first bytes.
            remote = self._spaces.remote_documents(tenant)
            threads = self._threads[openapi.fingerprinted(custom, 3)]
            index = await threads.run(tenant, partial(openapi.index, custom, builtin, remote))
            return Reply(200, [index], "text/plain; charset=utf-8")
        v3 = path.startswith("/openapi/v3/")
        if not v3 and path != "/openapi/v2":
            return unknown_path()
        kind = negotiation.first_of(headers.get("Accept", ""), OPENAPI_V3 if v3 else OPENAPI_V2)
        name, packed = path.removeprefix("/openapi/v3/"), kind == openapi.PROTOBUF_TYPE
        own = [each for each in custom if not v3 or f"apis/{each.resource.api_version}" == name]
        threads = self._threads[not own]
        found = (
            openapi.known_document(name, custom)
            if v3
            else openapi.known_swagger(custom, builtin, packed=packed)
        )
        if found is None:
            build: Callable[[], openapi.Document | None] = partial(openapi.swagger, custom, builtin, tenant)
            if v3:
                build = partial(openapi.document, name, custom, builtin, tenant)
            elif packed:
                build = partial(openapi.swagger_protobuf, custom, builtin, tenant)
            found = await threads.run(tenant, build)
        if found is None or kind is None:
            return Reply(406 if kind is None else 404, [], "")
        response_headers = {"Vary": "Accept" if v3 else "Accept-Encoding"}
        response_headers["ETag"] = found.etag
        if query.get("hash", ("",))[0] == found.etag.strip('"'):
            response_headers["Cache-Control"] = "public, immutable"
            response_headers["Expires"] = formatdate(time.time() + YEAR_SECONDS, usegmt=True)
        if headers.get("If-None-Match") == found.etag:
            return Reply(304, [], kind, response_headers)
        if "gzip" in headers.get("Accept-Encoding", ""):
            return Reply(200, [found.gzipped], kind, {**response_headers, "Content-Encoding": "gzip"})
        body = await threads.run(tenant, lambda: found.body)
        return Reply(200, [body], kind, response_headers)

    async def operate(self, incoming: Incoming, info: RequestInfo, query: Query, caller: Any) -> Reply:
        """Answer a request for the operator's own paths; see `Operator.administer`."""
        answer = await self._guard.administer(caller, incoming.method, info.path, query, incoming.read)
        return Reply(answer.status, [answer.body], answer.content_type)

    async def _health(self, parts: list[str], query: Query) -> Reply:
        probe, excluded = parts[0], set(query.get("exclude", ()))
        checks = [each for each in HEALTH[probe] if each not in excluded]
        if len(parts) > 1:
            one = "/".join(parts[1:])
            if one not in HEALTH[probe]:
                return unknown_path()
            checks = [one]
        failed = STORE_CHECKS if STORE_CHECKS & set(checks) and not await self._ready() else ()
        lines = [
            f"[-]{each} failed: reason withheld" if each in failed else f"[+]{each} ok" for each in checks
        ]
        if any(each in failed for each in checks):
            return text(500, "\n".join([*lines, f"{probe} check failed", ""]))
        verbose = "verbose" in query and len(parts) == 1
        return text(200, "\n".join([*lines, f"{probe} check passed", ""]) if verbose else "ok")


def _in_other_form(document: bytes, representation: Representation) -> bytes:
    """Return a discovery document in YAML or protobuf, or indented."""
    return encode.document({"apiVersion": "v1", **msgspec.json.decode(document)}, representation)


def health_metrics(ready: bool) -> bytes:
    """Return the results of the checks as metrics. `ready`: the store can be read and written."""
    lines = [
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
        "# TYPE kubernetes_healthcheck gauge",
    ]
    for check, probe in sorted((check, probe) for probe, checks in HEALTH.items() for check in checks):
        value = int(ready or check not in STORE_CHECKS)
        lines.append(f'kubernetes_healthcheck{{name="{check}",type="{probe}"}} {value}')
    return "\n".join([*lines, ""]).encode()


def listed_paths(
    custom: Sequence[Resource], builtin: BuiltinResources, remote: Sequence[RemoteVersion] = ()
) -> list[str]:
    """Return the sorted list of paths that `/` shows.

    Args:
        custom: Custom resources of the tenant.
        builtin: Built-in resources that the caller sees.
        remote: Versions that aggregated API servers of the tenant serve.
    """
    versions = {(each.group, each.version) for each in (*builtin.resources, *custom)}
    versions |= {(each.group, each.version) for each in remote}
    groups = {f"/apis/{group}{part}" for group, version in versions if group for part in ("", f"/{version}")}
    checks = {f"/{probe}/{check}" for probe, checks in HEALTH.items() for check in checks}
    return sorted({*PATHS, *groups, *checks})


def unknown_path() -> Reply:
    """Return the answer to paths that the server does not know."""
    return text(404, "404 page not found\n")


def _unserved(parts: list[str]) -> Reply:
    """Return the answer to discovery of a group or version that is not served.

    Raises:
        StatusError: 404.
    """
    if len(parts) > 1 and (parts[0] == "api" or discovery.group(parts[1])):
        raise errors.page_not_found()
    return unknown_path()


def _json(obj: Mapping[str, Any]) -> Reply:
    return Reply(200, [msgspec.json.encode(obj) + b"\n"])
