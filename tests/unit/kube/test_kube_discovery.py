"""Discovery: every resource in the version that its group prefers."""

import msgspec
import pytest

from vcsync.kube.discovery import discover
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import CONFIG_MAPS, Resource


class Server:
    """Answers discovery documents."""

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


async def test_resources_come_in_the_first_version_of_their_group_that_has_them() -> None:
    maps = {
        "resource": "configmaps",
        "responseKind": {"kind": "ConfigMap"},
        "scope": "Namespaced",
        "verbs": ["get", "list"],
    }
    core = {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [maps]}]}]}
    group = {"metadata": {"name": "x.io"}, "versions": [version("v2", "a"), version("v1", "a", "b")]}
    found = (await discover(Server(api=core, apis={"items": [group]}))).found  # type: ignore[arg-type]
    assert [each.resource for each in found] == [
        CONFIG_MAPS,
        Resource("x.io", "v2", "a", "A", namespaced=False),
        Resource("x.io", "v1", "b", "B", namespaced=False),
    ]
    assert found[0].verbs == {"get", "list"}


async def test_what_the_server_does_not_know_now_is_told() -> None:
    group = {"metadata": {"name": "x.io"}, "versions": [version("v1", freshness="Stale")]}
    assert (await discover(Server(api={}, apis={"items": [group]}))).stale == ("x.io/v1",)  # type: ignore[arg-type]


async def test_an_answer_that_is_no_discovery_document_is_an_error() -> None:
    with pytest.raises(KubeError, match="no discovery document"):
        await discover(Server(api={"items": "?"}, apis={}))  # type: ignore[arg-type]
