"""The built-in resources, and the schemas of the built-in kinds. Data only; everything is made on first use.

`python -m hack.generate` makes the data files.
"""

import base64
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from vcsync.controlplane.resources import Resource, Subresource
from vcsync.controlplane.schema.node import Schema
from vcsync.controlplane.schema.table import HASHED, STORED, Row, rows


@cache
def resources() -> tuple[Resource, ...]:
    """Return every built-in resource, in the order of discovery."""
    return tuple(_resource(group, version, row) for group, version, row in rows())


def schema(group: str, version: str, kind: str) -> Schema | None:
    """Return the schema of a built-in kind; None: there is no such kind.

    Kinds are those of all served versions, their lists, the kinds that only subresources and reviews carry, and
    the shared ones (`DeleteOptions`, `Status`, ...), which exist in every group and version.
    """
    kinds = data()["kinds"]
    name = kinds.get(f"{group}/{version}/{kind}") or kinds.get(f"*/*/{kind}")
    return definition(name) if name else None


@cache
def definition(name: str) -> Schema:
    """Return the schema of a type by its public name (`io.k8s.api.core.v1.PodSpec`).

    Raises:
        KeyError: there is no such type.
    """
    return _GRAPH.definition(name)


@cache
def data() -> Mapping[str, Any]:
    """Return what builtin.json.gz holds: `kinds`, `definitions`, `go`."""
    loaded: dict[str, Any] = msgspec.json.decode(_unpacked("builtin.json.gz"))
    return loaded


class Told(msgspec.Struct):
    """What only OpenAPI documents need.

    Attributes:
        definitions: of each definition its description, those of its properties, and its extensions.
        enums: of each enumeration, by its Go type's public name, the values and what is said of them.
    """

    definitions: dict[str, tuple[str, dict[str, str], dict[str, Any]]]
    enums: dict[str, list[tuple[str, str]]]


def told() -> Told:
    """Read what only OpenAPI documents need. Not kept: it is large and rarely asked for."""
    return msgspec.json.decode(_unpacked("openapi.json.gz"), type=Told)


@cache
def digest() -> str:
    """Return what tells these data apart from those of another release."""
    both = hashlib.sha256(_packed("builtin.json.gz") + _packed("openapi.json.gz"))
    return both.hexdigest()


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """Return how discovery tells in which version objects of a resource are kept (apiserver's `StorageVersionHash`)."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _packed(name: str) -> bytes:
    return (files("vcsync.controlplane.schema") / name).read_bytes()


def _unpacked(name: str) -> bytes:
    return gzip.decompress(_packed(name))


def _resource(group: str, version: str, row: Row) -> Resource:
    kept = STORED.get((group, version, row.kind), (group, version, row.kind))
    hashed = HASHED.get((group, version, row.kind), kept[1])
    own = (group, version, row.kind)
    return Resource(
        group=group,
        version=version,
        plural=row.plural,
        singular=row.kind.lower(),
        kind=row.kind,
        namespaced=row.namespaced,
        verbs=row.verbs,
        short_names=tuple(row.short.split()),
        categories=tuple(row.categories.split()),
        subresources={
            name: Subresource(name, sub.verbs, *(sub.type or own)) for name, sub in row.subresources.items()
        },
        storage=kept[1],
        storage_group=kept[0],
        list_kind=f"{row.kind}List" if "list" in row.verbs else "",
        storage_version_hash=storage_version_hash(kept[0], hashed, kept[2]) if "watch" in row.verbs else "",
    )


class _Graph:
    """Schemas of definitions, one for each, so that what is recursive refers to itself."""

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
    """A definition at a place that says more about it. Its properties are shared, also those still to come."""
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
