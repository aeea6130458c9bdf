"""The built-in resources, and the schemas of the built-in kinds. Data only, loaded on first use.

`python -m hack.generate` generates the data files, except resources.json.
"""

import base64
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from vcsync.apimachinery.resources import Resource, Subresource
from vcsync.apimachinery.schema.node import Schema

STORED: Mapping[tuple[str, str], tuple[str, str]] = {
    ("events.k8s.io", "v1"): ("", "v1"),
    ("autoscaling", "v1"): ("autoscaling", "v2"),
}
"""Group and version of resources that are other views of stored objects -> group and version of these objects."""


class _Subresource(msgspec.Struct):
    verbs: tuple[str, ...]
    group: str
    version: str
    kind: str


class _Recorded(msgspec.Struct):
    """A resource as in the discovery of kube-apiserver."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    storage_version_hash: str
    subresources: dict[str, _Subresource]


@cache
def resources() -> tuple[Resource, ...]:
    """Return every built-in resource, in the order of discovery. `python -m hack.discovery` records them."""
    recorded = msgspec.json.decode(_packed("resources.json"), type=tuple[_Recorded, ...])
    return tuple(map(_resource, recorded))


def schema(group: str, version: str, kind: str) -> Schema | None:
    """Return the schema of a built-in kind, or None if the kind does not exist.

    The kinds are those of all served versions, their lists, those of subresources and reviews, and the shared kinds
    (`DeleteOptions`, `Status`, ...), which exist in every group and version.
    """
    kinds = data()["kinds"]
    name = kinds.get(f"{group}/{version}/{kind}") or kinds.get(f"*/*/{kind}")
    return definition(name) if name else None


@cache
def definition(name: str) -> Schema:
    """Return the schema of a type by its public name (`io.k8s.api.core.v1.PodSpec`).

    Raises:
        KeyError: The type does not exist.
    """
    return _GRAPH.definition(name)


@cache
def data() -> Mapping[str, Any]:
    """Return the content of builtin.json.gz: `kinds`, `definitions`, `go`, `aliases`."""
    loaded: dict[str, Any] = msgspec.json.decode(_unpacked("builtin.json.gz"))
    return loaded


class Descriptions(msgspec.Struct):
    """The data that only OpenAPI documents need.

    Attributes:
        definitions: Definition -> its description, the descriptions of its properties, and its extensions.
        enums: Public name of the Go type of an enumeration -> its values with their descriptions.
    """

    definitions: dict[str, tuple[str, dict[str, str], dict[str, Any]]]
    enums: dict[str, list[tuple[str, str]]]


def descriptions() -> Descriptions:
    """Read the data that only OpenAPI documents need. It is not cached, because it is large and rarely used."""
    return msgspec.json.decode(_unpacked("openapi.json.gz"), type=Descriptions)


KIND_MARK = "{kind}"
"""Placeholder for the kind of an operation in the description of a parameter."""


class Parameter(NamedTuple):
    """A parameter of requests.

    Attributes:
        type: Type of its values.
        descriptions: Action or kind -> description. The empty name has the description for all others.
    """

    type: str
    descriptions: dict[str, str]


@cache
def parameters() -> Mapping[str, Parameter]:
    """Return all parameters by place and name: `path/namespace`, `query/limit`."""
    return msgspec.json.decode(_unpacked("parameters.json.gz"), type=dict[str, Parameter])


@cache
def digest() -> str:
    """Return a hash of the data, which differs between releases."""
    files = ("builtin.json.gz", "openapi.json.gz", "parameters.json.gz", "resources.json")
    return hashlib.sha256(b"".join(map(_packed, files))).hexdigest()


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return the hash of a storage version in discovery (apiserver's `StorageVersionHash`)."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _packed(name: str) -> bytes:
    return (files("vcsync.apimachinery.schema") / name).read_bytes()


def _unpacked(name: str) -> bytes:
    return gzip.decompress(_packed(name))


def _resource(recorded: _Recorded) -> Resource:
    own = (recorded.group, recorded.version)
    storage_group, storage = STORED.get(own, own)
    return Resource(
        group=recorded.group,
        version=recorded.version,
        plural=recorded.plural,
        singular=recorded.singular,
        kind=recorded.kind,
        namespaced=recorded.namespaced,
        verbs=recorded.verbs,
        short_names=recorded.short_names,
        categories=recorded.categories,
        subresources={
            name: Subresource(name, each.verbs, each.group, each.version, each.kind)
            for name, each in recorded.subresources.items()
        },
        storage=storage,
        storage_group=storage_group,
        list_kind=f"{recorded.kind}List" if "list" in recorded.verbs else "",
        storage_version_hash=recorded.storage_version_hash,
    )


class _Graph:
    """Builds one schema per definition, so that recursive definitions refer to themselves."""

    def __init__(self) -> None:
        self._built: dict[str, Schema] = {}

    def definition(self, name: str) -> Schema:
        built = self._built.get(name)
        if built is None:
            node = data()["definitions"][name]
            properties: dict[str, Schema] = {}
            built = self._built[name] = replace(_plain(node), properties=properties, definition=name)
            self._fill(built, properties, node)
        return built

    def node(self, node: Mapping[str, Any]) -> Schema:
        if "$" not in node:
            properties: dict[str, Schema] = {}
            built = replace(_plain(node), properties=properties)
            self._fill(built, properties, node)
            return built
        referred = self.definition(node["$"])
        if len(node) == 1:
            return referred
        return _with(referred, node)

    def _fill(self, built: Schema, properties: dict[str, Schema], node: Mapping[str, Any]) -> None:
        for key, value in node.get("p", {}).items():
            properties[key] = self.node(value)
        if "v" in node:
            built.values = self.node(node["v"])
        if "i" in node:
            built.items = self.node(node["i"])


def _plain(node: Mapping[str, Any]) -> Schema:
    return Schema(
        type=node["t"],
        format=node.get("f", ""),
        required=tuple(node.get("r", ())),
        default=node.get("d"),
        list_type=node.get("l", "atomic"),
        map_keys=tuple(node.get("k", ())),
        atomic=bool(node.get("a")),
        patch_strategy=_strategy(node),
        merge_key=node.get("g", ""),
        preserve_unknown="u" in node,
    )


def _with(referred: Schema, node: Mapping[str, Any]) -> Schema:
    """Return a definition with the keywords of the place that refers to it.

    It shares the properties of the definition, including properties that are added later.
    """
    return replace(
        referred,
        default=node.get("d", referred.default),
        atomic=bool(node.get("a", referred.atomic)),
        patch_strategy=_strategy(node) or referred.patch_strategy,
        merge_key=node.get("g", referred.merge_key),
    )


def _strategy(node: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, node.get("s", "").split(",")))


_GRAPH = _Graph()
