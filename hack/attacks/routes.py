"""Every route of the embedded control plane, made from the tables that it serves by: what is new there is here by itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest import paths
from vcsync.controlplane.schema import builtin
from vcsync.controlplane.tenants.admin import PREFIX, Admin

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NOWHERE = (
    "/nowhere", "/api/v2/pods", "/api/v1/nowhere", "/apis/no.such.group/v1/things", "/apis/apps/v9/deployments",
    "/apis/apps/v1/nowhere/x", "/api/v1/namespaces/default/nowhere", "/api/v1/namespaces/default/pods/x/nowhere",
    "/logs/", "/debug/pprof/", "/swaggerapi", "/ui", "/tenants/", "/tenants//api/v1/pods", "/api//v1/pods", "/vcsync/v1",
    "/api/v1/proxy/namespaces/default/pods/x", "/api/v1/redirect/nodes/x", "/openapi/v9", "/readyz/nowhere",
)  # fmt: skip
"""Where nothing is; bodies sent there must not be read either."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path."""

    method: str
    path: str


def routes(custom: Sequence[Resource] = (), tenant: str = "mallet") -> list[Route]:
    """Return all of them.

    Args:
        custom: custom resources that are served besides.
        tenant: whose, where the path names one.
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
    fixed = [*paths.listing(custom), *NOWHERE]
    found += [Route(method, path) for path in fixed for method in METHODS]
    found += [Route(method, path) for path in operators(tenant) for method in METHODS]
    return list(dict.fromkeys(found))


def operators(tenant: str) -> list[str]:
    """Return the paths of the operator's API, and some below it where nothing is."""
    known = [
        "/".join([f"{PREFIX}tenants", *([tenant] if named else []), *([what] if what else [])])
        for named, what in Admin.routes
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
    """Part a path behind its version."""
    parts = 4 if resource.group else 3
    cut = path.split("/")
    return "/".join(cut[:parts]), "/" + "/".join(cut[parts:])
