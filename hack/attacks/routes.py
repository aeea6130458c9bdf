"""Every route of the embedded control plane, derived from the tables that it serves: new routes are included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin
from vcsync.apiserver.handlers import non_resource
from vcsync.apiserver.operator.api import PREFIX, OperatorApi
from vcsync.apiserver.tenants.builtin_resources import every_resource

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NOWHERE = (
    "/nowhere", "/api/v2/pods", "/api/v1/nowhere", "/apis/no.such.group/v1/things", "/apis/apps/v9/deployments",
    "/apis/apps/v1/nowhere/x", "/api/v1/namespaces/default/nowhere", "/api/v1/namespaces/default/pods/x/nowhere",
    "/logs/", "/debug/pprof/", "/swaggerapi", "/ui", "/tenants/", "/tenants//api/v1/pods", "/api//v1/pods", "/vcsync/v1",
    "/api/v1/proxy/namespaces/default/pods/x", "/api/v1/redirect/nodes/x", "/openapi/v9", "/readyz/nowhere",
)  # fmt: skip
"""Paths without a handler; their bodies must not be read either."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path."""

    method: str
    path: str


def routes(custom: Sequence[Resource] = (), tenant: str = "mallet") -> list[Route]:
    """Return all routes.

    Args:
        custom: additional served custom resources.
        tenant: tenant named in the paths.
    """
    resources = [*builtin.resources(), *custom]
    found = [Route(method, path) for each in resources for path in _of(each) for method in METHODS]
    for each in resources:
        inner = _collection(each)
        prefix, rest = _cut(each, inner)
        found += [
            Route("POST", f"/tenants/{tenant}{inner}"),
            Route("POST", f"{prefix}/tenants/{tenant}{rest}"),
            Route("GET", f"{prefix}/watch{rest}"),
            Route("GET", f"{prefix}/watch{rest}/x"),
            Route("POST", f"{prefix}/proxy{rest}/x"),
        ]
    fixed = [*non_resource.listed_paths(custom, every_resource()), *NOWHERE]
    found += [Route(method, path) for path in fixed for method in METHODS]
    found += [Route(method, path) for path in operators(tenant) for method in METHODS]
    return list(dict.fromkeys(found))


def operators(tenant: str) -> list[str]:
    """Return the paths of the operator's API, and some missing paths below it."""
    known = [
        "/".join([f"{PREFIX}tenants", *([tenant] if named else []), *([what] if what else [])])
        for named, what in OperatorApi.routes
    ]
    return [
        *known,
        PREFIX,
        f"{PREFIX}nowhere",
        f"{PREFIX}tenants/{tenant}/nowhere",
        f"/tenants/{tenant}{known[0]}",
    ]


def _of(resource: Resource) -> Iterator[str]:
    collection = _collection(resource)
    yield collection
    if resource.namespaced:
        prefix, _ = _cut(resource, collection)
        yield f"{prefix}/{resource.plural}"
    yield f"{collection}/x"
    for each in resource.subresources:
        yield f"{collection}/x/{each}"
        if each == "proxy":
            yield f"{collection}/x/{each}/some/path"


def _collection(resource: Resource) -> str:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return base + ("/namespaces/default" if resource.namespaced else "") + f"/{resource.plural}"


def _cut(resource: Resource, path: str) -> tuple[str, str]:
    """Split a path after its version."""
    parts = 4 if resource.group else 3
    cut = path.split("/")
    return "/".join(cut[:parts]), "/" + "/".join(cut[parts:])
