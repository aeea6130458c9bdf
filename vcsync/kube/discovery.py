"""Reads the resources of an API server from its aggregated discovery documents."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from vcsync.kube.client import Client
from vcsync.kube.errors import UNREADABLE, KubeError
from vcsync.kube.resources import Resource

ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_STALE = "Stale"


class DiscoveredResource(Struct, frozen=True):
    """A resource in the preferred version of its group, with its verbs and the names of its subresources."""

    resource: Resource
    verbs: frozenset[str]
    subresources: frozenset[str] = frozenset()


class Discovery(Struct, frozen=True):
    """The resources of a server.

    Attributes:
        resources: The resources in their preferred versions.
        stale: API versions (`metrics.k8s.io/v1`) whose resources may be outdated, because an aggregated API server does
            not respond.
    """

    resources: tuple[DiscoveredResource, ...]
    stale: tuple[str, ...]


class _Kind(Struct):
    kind: str = ""


class _Subresource(Struct):
    subresource: str = ""


class _Resource(Struct, rename="camel"):
    resource: str = ""
    response_kind: _Kind | None = None
    scope: str = ""
    verbs: tuple[str, ...] | None = None
    subresources: tuple[_Subresource, ...] | None = None


class _Version(Struct):
    version: str = ""
    resources: tuple[_Resource, ...] | None = None
    freshness: str = ""


class _Metadata(Struct, frozen=True):
    name: str = ""


class _Group(Struct):
    metadata: _Metadata = _Metadata()
    versions: tuple[_Version, ...] | None = None


class _Groups(Struct):
    items: tuple[_Group, ...] | None = None


_decode = msgspec.json.Decoder(_Groups).decode


async def discover(client: Client) -> Discovery:
    """Read the resources of a server.

    Raises:
        KubeError: The server does not respond, or does not serve aggregated discovery.
    """
    groups: list[_Group] = []
    for path in ("/api", "/apis"):
        try:
            groups += _decode(await client.request("GET", path, accept=ACCEPT)).items or ()
        except UNREADABLE as error:
            raise KubeError(
                f"{path}: the response is not a discovery document: {error}", endpoint=client.name
            ) from error
    return _preferred(groups)


def _preferred(groups: Iterable[_Group]) -> Discovery:
    """Return each resource in the first version of its group that contains it."""
    found: dict[tuple[str, str], DiscoveredResource] = {}
    stale: list[str] = []
    for group in groups:
        name = group.metadata.name
        for version in group.versions or ():
            if version.freshness == _STALE:
                stale.append(f"{name}/{version.version}" if name else version.version)
            for each in version.resources or ():
                kind = each.response_kind.kind if each.response_kind else ""
                resource = Resource(
                    name, version.version, each.resource, kind, namespaced=each.scope == "Namespaced"
                )
                verbs = frozenset(each.verbs or ())
                below = frozenset(one.subresource for one in each.subresources or ())
                found.setdefault((name, each.resource), DiscoveredResource(resource, verbs, below))
    return Discovery(tuple(found.values()), tuple(stale))
