"""Builds OpenAPI documents: the index and documents of version 3, and the single document of version 2. Pure.

The documents of built-in kinds are built on first use, compressed and shared by all tenants. The custom resources of a
tenant are added to them. Building everything takes several hundred milliseconds, so callers should use a thread.
"""

import gzip
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import msgspec

from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema.builtin import data, digest
from vcsync.apiserver.openapi import path_items, protobuf, schemas, sharing
from vcsync.apiserver.openapi.kept_documents import Document, KeptDocuments
from vcsync.apiserver.openapi.operations import LISTING, Names, Operation, operations
from vcsync.apiserver.openapi.sources import sources
from vcsync.apiserver.tenants.builtin_resources import BuiltinResources, every_resource

_LEVEL = 6
_INFO = {"title": "Kubernetes", "version": "1.36"}
_CUSTOM_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_SCHEME = {
    "type": "apiKey",
    "description": "Bearer Token authentication",
    "name": "authorization",
    "in": "header",
}


@dataclass(frozen=True, slots=True)
class Custom:
    """A custom resource in one version.

    Attributes:
        resource: The resource.
        definitions: Returns the definitions of its kinds for version 2 or 3 of OpenAPI, by name.
        fingerprints: Cache of `fingerprint`, by version of OpenAPI. The owner replaces it when the definitions change.
            For a large schema each fingerprint takes tens of milliseconds.
    """

    resource: Resource
    definitions: Callable[[int], Mapping[str, Any]]
    fingerprints: dict[int, bytes] = field(default_factory=dict)

    def fingerprint(self, version: int) -> bytes:
        """Return a hash of the resource and its definitions for a version of OpenAPI."""
        found = self.fingerprints.get(version)
        if found is None:
            content = msgspec.json.encode((self.resource, self.definitions(version)))
            found = self.fingerprints[version] = hashlib.sha512(content).digest()
        return found


def index(
    custom: Sequence[Custom] = (),
    builtin: BuiltinResources | None = None,
    remote: Mapping[str, str] | None = None,
) -> bytes:
    """Return `/openapi/v3`: the URLs of the documents. They contain a hash of the content, so that clients can cache them.

    Args:
        custom: Custom resources of the tenant.
        builtin: Built-in resources that the caller sees. None: all.
        remote: Path and query of the documents that aggregated API servers of the tenant have, such as `hash=...`.
    """
    builtin = builtin or every_resource()
    own: dict[str, list[Custom]] = {}
    for each in custom:
        own.setdefault(f"apis/{each.resource.api_version}", []).append(each)
    hashes = {path: _builtin_hash(path, builtin) for path in sources(builtin)}
    hashes |= {path: _custom_hash(found) for path, found in own.items() if path not in hashes}
    queries = {**(remote or {}), **{path: f"hash={found}" for path, found in hashes.items()}}
    listed = {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?{query}" if query else f"/openapi/v3/{path}"}
        for path, query in sorted(queries.items())
    }
    return msgspec.json.encode({"paths": listed})


def document(
    path: str, custom: Sequence[Custom] = (), builtin: BuiltinResources | None = None, owner: str = ""
) -> Document | None:
    """Return `/openapi/v3/<path>`, or None if there is no such document.

    Args:
        path: Path of the document, such as `apis/apps/v1`.
        custom: Custom resources of the tenant.
        builtin: Built-in resources that the caller sees. None: all.
        owner: The tenant, whose documents take a limited memory.
    """
    builtin = builtin or every_resource()
    if path in sources(builtin):
        return _builtin_document(path, builtin)
    own = [each for each in custom if f"apis/{each.resource.api_version}" == path]
    return _cached(path, _document, own, 3, owner) if own else None


def known_document(path: str, custom: Sequence[Custom]) -> Document | None:
    """Return `/openapi/v3/<path>` of custom resources if it is kept. This takes a short time, unlike `document`."""
    own = [each for each in custom if f"apis/{each.resource.api_version}" == path]
    return _known(path, own, 3) if own else None


def swagger(
    custom: Sequence[Custom] = (), builtin: BuiltinResources | None = None, owner: str = ""
) -> Document:
    """Return `/openapi/v2` in JSON. The arguments are those of `document`."""
    builtin = builtin or every_resource()
    if not custom:
        return _builtin_swagger(builtin)
    return _cached(f"json {builtin.name}", lambda found: _swagger(found, builtin), custom, owner=owner)


def known_swagger(
    custom: Sequence[Custom], builtin: BuiltinResources, *, packed: bool = False
) -> Document | None:
    """Return `/openapi/v2`, in protobuf if `packed`, if it has custom resources and is kept. This takes a short time."""
    return _known(f"{'protobuf' if packed else 'json'} {builtin.name}", custom) if custom else None


def swagger_protobuf(
    custom: Sequence[Custom] = (), builtin: BuiltinResources | None = None, owner: str = ""
) -> Document:
    """Return `/openapi/v2` in protobuf. Its ETag is that of the JSON document."""
    builtin = builtin or every_resource()
    if not custom:
        return _builtin_swagger_protobuf(builtin)

    def made(found: Sequence[Custom]) -> Document:
        return _in_protobuf(swagger(found, builtin, owner))

    return _cached(f"protobuf {builtin.name}", made, custom, owner=owner)


def _cached(
    form: str,
    make: Callable[[Sequence[Custom]], Document],
    custom: Sequence[Custom],
    version: int = 2,
    owner: str = "",
) -> Document:
    """Return a document from those that are kept. Building one takes tens of milliseconds, a large one seconds."""
    key = f"{form} {_custom_hash(custom, version)}"
    found = _kept.get(key)
    if found is None:
        found = make(custom)
        _kept.put(key, owner, found)
    return found


def fingerprinted(custom: Sequence[Custom], version: int) -> bool:
    """Return whether the hashes of all custom resources are known, so that `index` takes a short time."""
    return all(version in each.fingerprints for each in custom)


def _known(form: str, custom: Sequence[Custom], version: int = 2) -> Document | None:
    if not fingerprinted(custom, version):
        return None
    return _kept.get(f"{form} {_custom_hash(custom, version)}")


_kept = KeptDocuments()


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the name of a custom kind's definition: `com.example.v1.Foo`."""
    return ".".join([*reversed(group.split(".")), version, kind])


@cache
def _builtin_hash(path: str, builtin: BuiltinResources) -> str:
    """Return a hash of a built-in document: of the data files, and of the revision of the code that reads them."""
    return (
        hashlib.sha512(f"{digest()} {path_items.REVISION} {builtin.name}{path}".encode()).hexdigest().upper()
    )


def _custom_hash(custom: Sequence[Custom], version: int = 3) -> str:
    """Return a hash of a document with custom resources. The index needs it without building the document."""
    content = hashlib.sha512(f"{digest()} {path_items.REVISION} ".encode())
    for each in custom:
        content.update(each.fingerprint(version))
    return content.hexdigest().upper()


@cache
def _builtin_document(path: str, builtin: BuiltinResources) -> Document:
    found = sources(builtin)[path]()
    used = _used(found)
    own = _group_and_version(path)
    listed = _listed(used, lambda group, version: (group, version) in (("", "v1"), own))
    components = {**({"schemas": listed} if listed else {}), "securitySchemes": {"BearerToken": _SCHEME}}
    body = _openapi3(_INFO, path_items.paths(found, 3), components)
    return Document(gzip.compress(body, _LEVEL, mtime=0), f'"{_builtin_hash(path, builtin)}"')


def _group_and_version(path: str) -> tuple[str, str]:
    """Return group and version of a document by its path. The group is empty if the document is not about a version."""
    _, group, version = ("", "", "", *path.split("/"))[-3:]
    return ("" if path.startswith("api/") else group), version


def _listed(used: Iterable[str], keeps: schemas.Keeps) -> dict[str, Any]:
    """Return definitions by name.

    Args:
        used: Names of the definitions.
        keeps: Selects the group-version-kinds of definitions that all groups have, such as DeleteOptions.
    """
    every = _definitions(3)
    return {
        name: schemas.narrowed(msgspec.json.decode(every[name]), keeps)
        if name in schemas.EVERYWHERE
        else every[name]
        for name in sorted(used)
    }


def _used(found: Iterable[Operation]) -> set[str]:
    direct = {name for each in found for name in (each.body, each.response) if "." in name}
    return {name for each in direct if each in data()["definitions"] for name in schemas.references(each)}


@cache
def _definitions(version: int) -> Mapping[str, msgspec.Raw]:
    """Return every built-in definition as JSON, about a megabyte."""
    return {
        name: msgspec.Raw(msgspec.json.encode(each)) for name, each in schemas.definitions(version).items()
    }


def _openapi3(info: Mapping[str, str], paths: Mapping[str, Any], components: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"openapi": "3.0.0", "info": info, "paths": paths, "components": components})


def _document(custom: Sequence[Custom]) -> Document:
    found = _custom_operations(custom)
    own = {name: each for one in custom for name, each in one.definitions(3).items()}
    used = _used(found) | _mentioned(own)
    definitions = {**_listed(used, schemas.is_known_to_apiextensions), **own}
    paths = path_items.paths(found, 3, custom=True)
    body = _openapi3(_CUSTOM_INFO, paths, {"schemas": dict(sorted(definitions.items()))})
    return Document(gzip.compress(body, _LEVEL, mtime=0), f'"{_custom_hash(custom)}"')


def _custom_operations(custom: Sequence[Custom]) -> list[Operation]:
    scale = {("autoscaling", "v1", "Scale"): "io.k8s.api.autoscaling.v1.Scale"}
    found: list[Operation] = []
    for each in custom:
        resource = each.resource
        identity = (resource.group, resource.version, resource.kind)
        name = definition_name(*identity)
        names = Names(name, definition_name(resource.group, resource.version, resource.list_kind))
        made = operations(resource, names, {**scale, identity: name}, watches=False)
        found += [_as_custom(operation, identity) for operation in made]
    return found


def _as_custom(operation: Operation, identity: tuple[str, str, str]) -> Operation:
    """Adapt an operation to apiextensions-apiserver (`pkg/controller/openapi/builder`), which differs in a few details."""
    own = replace(operation, kind=identity)
    if own.action == "deletecollection":
        return replace(own, parameters=LISTING, body="")
    if own.action == "list":
        return replace(own, description=f"list objects of kind {identity[2]}")
    if own.action == "get":
        return replace(own, parameters=("resourceVersion",))
    return replace(own, codes=(200,)) if own.patch else own


def _mentioned(node: Any) -> set[str]:
    """Return the built-in definitions that custom ones refer to, directly or through others."""
    found: set[str] = set()
    if isinstance(node, Mapping):
        target = node.get("$ref")
        if isinstance(target, str) and target.rpartition("/")[2] in data()["definitions"]:
            found |= schemas.references(target.rpartition("/")[2])
        for each in node.values():
            found |= _mentioned(each)
    elif isinstance(node, list):
        for each in node:
            found |= _mentioned(each)
    return found


@cache
def _builtin_swagger(builtin: BuiltinResources) -> Document:
    return _swagger((), builtin)


@cache
def _builtin_swagger_protobuf(builtin: BuiltinResources) -> Document:
    return _in_protobuf(_builtin_swagger(builtin))


def _in_protobuf(document: Document) -> Document:
    packed = protobuf.encode(msgspec.json.decode(document.body))
    return Document(gzip.compress(packed, _LEVEL, mtime=0), document.etag)


@cache
def _builtin_paths2(builtin: BuiltinResources) -> tuple[bytes, bytes]:
    """Return the members of `paths` and `parameters` of version 2, compressed.

    They have no braces, so that the members of custom resources can be appended.
    """
    found = [each for source in sources(builtin).values() for each in source()]
    paths, shared = sharing.share(path_items.paths(found, 2))
    return _members(dict(sorted(paths.items()))), _members(shared)


def _members(found: Mapping[str, Any]) -> bytes:
    return gzip.compress(msgspec.json.encode(found)[1:-1], 1, mtime=0)


@cache
def _builtin_definitions2(builtin: BuiltinResources) -> bytes:
    hidden = _hidden(builtin)
    return _members({name: each for name, each in schemas.definitions(2).items() if name not in hidden})


def _hidden(builtin: BuiltinResources) -> set[str]:
    """Return the definitions that only resources use that the caller does not see."""
    every = every_resource()
    return set() if builtin is every else _reached(every) - _reached(builtin)


def _reached(builtin: BuiltinResources) -> set[str]:
    return _used(each for source in sources(builtin).values() for each in source())


def _swagger(custom: Sequence[Custom], builtin: BuiltinResources) -> Document:
    paths, shared = sharing.share(path_items.paths(_custom_operations(custom), 2, custom=True))
    definitions = {name: each for one in custom for name, each in one.definitions(2).items()}
    builtin_paths, builtin_shared = map(gzip.decompress, _builtin_paths2(builtin))
    more = {name: each for name, each in shared.items() if f'"{name}":'.encode() not in builtin_shared}
    head = msgspec.json.encode({"swagger": "2.0", "info": _INFO})[:-1]
    security = msgspec.json.encode({"BearerToken": _SCHEME})
    body = b"".join(
        (
            head, b',"paths":{', builtin_paths, _more(paths),
            b'},"definitions":{', gzip.decompress(_builtin_definitions2(builtin)), _more(definitions),
            b'},"parameters":{', builtin_shared, _more(more),
            b'},"securityDefinitions":', security, b',"security":[{"BearerToken":[]}]}',
        )
    )  # fmt: skip
    etag = hashlib.sha512(body).hexdigest().upper()
    return Document(gzip.compress(body, _LEVEL, mtime=0), f'"{etag}"')


def _more(members: Mapping[str, Any]) -> bytes:
    return b"," + msgspec.json.encode(members)[1:-1] if members else b""
