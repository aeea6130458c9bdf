"""Discovery: resources in the preferred versions of their groups."""

import msgspec
import pytest

from vcsync.kube.discovery import DiscoveredResource, discover
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import CONFIG_MAPS, Resource


class Server:
    """A stand-in that serves discovery documents."""

    name = "acme"

    def __init__(self, **documents: object) -> None:
        self.documents = documents

    async def request(self, verb: str, path: str, *, accept: str) -> bytes:
        assert (verb, "as=APIGroupDiscoveryList" in accept) == ("GET", True)
        return msgspec.json.encode(self.documents[path.strip("/")])


def version(name: str, *plurals: str, freshness: str = "Current") -> dict[str, object]:
    resources = [
        {"resource": each, "responseKind": {"kind": each.title()}, "scope": "Cluster", "verbs": ["get"]}
        for each in plurals
    ]
    return {"version": name, "resources": resources, "freshness": freshness}


async def test_resources_are_in_the_preferred_version_of_their_group() -> None:
    maps = {
        "resource": "configmaps",
        "responseKind": {"kind": "ConfigMap"},
        "scope": "Namespaced",
        "verbs": ["get", "list"],
    }
    core = {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [maps]}]}]}
    group = {"metadata": {"name": "x.io"}, "versions": [version("v2", "a"), version("v1", "a", "b")]}
    found = (await discover(Server(api=core, apis={"items": [group]}))).resources  # type: ignore[arg-type]
    assert [each.resource for each in found] == [
        CONFIG_MAPS,
        Resource("x.io", "v2", "a", "A", namespaced=False),
        Resource("x.io", "v1", "b", "B", namespaced=False),
    ]
    assert found[0].verbs == {"get", "list"}


async def test_stale_versions_are_reported() -> None:
    group = {"metadata": {"name": "x.io"}, "versions": [version("v1", freshness="Stale")]}
    assert (await discover(Server(api={}, apis={"items": [group]}))).stale == ("x.io/v1",)  # type: ignore[arg-type]


async def test_a_response_that_is_not_a_discovery_document_is_an_error() -> None:
    with pytest.raises(KubeError, match=r"^acme: /api: the response is not a discovery document: ") as caught:
        await discover(Server(api={"items": "?"}, apis={}))  # type: ignore[arg-type]
    assert caught.value.endpoint == "acme"


async def test_all_fields_of_discovery_documents_are_optional() -> None:
    bare = {"metadata": {"name": "x.io"}, "versions": [{"version": "v1", "resources": [{"resource": "a"}]}]}
    empty = {"metadata": {"name": "y.io"}}
    without = {"versions": [{"version": "v1", "freshness": "Stale"}]}
    found = await discover(Server(api={"items": [without]}, apis={"items": [bare, empty]}))  # type: ignore[arg-type]
    assert found.resources == (
        DiscoveredResource(Resource("x.io", "v1", "a", "", namespaced=False), frozenset()),
    )
    assert found.stale == ("v1",)
