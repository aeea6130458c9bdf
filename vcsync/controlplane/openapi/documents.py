"""OpenAPI documents: the index and documents of version 3, the one document of version 2. Pure.

The built-in part is made on first use, kept compressed and shared by all tenants; a tenant's custom resources are
joined to it. Making the whole of it takes some hundred milliseconds: let a thread do it.
"""

import gzip
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock
from typing import Any

import msgspec

from vcsync.controlplane.openapi import protobuf, schemas, words
from vcsync.controlplane.openapi.operations import LISTING, META, TEXT, Names, Operation, operations, tag
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.schema.builtin import data, digest, resources

_LEVEL = 6
MOST_REMEMBERED = 32
"""Documents of tenants with kinds of their own that are kept, each of some hundred kilobytes."""
MOST_BYTES = 2**20
"""Of one of them, compressed: a tenant could define kinds for documents of any size."""
_INFO = {"title": "Kubernetes", "version": "1.36"}
_CUSTOM_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_SCHEME = {
    "type": "apiKey",
    "description": "Bearer Token authentication",
    "name": "authorization",
    "in": "header",
}
_RESOURCES_TEXT, _GROUP_TEXT = "get available resources", "get information of a group"


@dataclass(frozen=True, slots=True)
class Custom:
    """A custom resource in one version.

    Attributes:
        definitions: makes the definitions of its kinds for OpenAPI 2 or 3.
        fingerprints: those that were made lately, kept by who knows when the definitions become others: for a large
            schema each takes tens of milliseconds.
    """

    resource: Resource
    definitions: Callable[[int], Mapping[str, Any]]
    fingerprints: dict[int, bytes] = field(default_factory=dict)

    def fingerprint(self, version: int) -> bytes:
        """The same for the same content."""
        found = self.fingerprints.get(version)
        if found is None:
            told = msgspec.json.encode((self.resource, self.definitions(version)))
            found = self.fingerprints[version] = hashlib.sha512(told).digest()
        return found


@dataclass(frozen=True, slots=True)
class Document:
    """A document, compressed, and its ETag, quotes included (upper-case SHA-512)."""

    gzipped: bytes
    etag: str

    @property
    def body(self) -> bytes:
        """The document in plain."""
        return gzip.decompress(self.gzipped)


def index(custom: Sequence[Custom] = ()) -> bytes:
    """Return `/openapi/v3`: where the documents are. Their URLs name their content, so that clients keep them."""
    own: dict[str, list[Custom]] = {}
    for each in custom:
        own.setdefault(f"apis/{each.resource.api_version}", []).append(each)
    hashes = {path: _builtin_hash(path) for path in _sources()}
    hashes |= {path: _custom_hash(found) for path, found in own.items() if path not in hashes}
    listed = {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={found}"}
        for path, found in sorted(hashes.items())
    }
    return msgspec.json.encode({"paths": listed})


def document(path: str, custom: Sequence[Custom] = ()) -> Document | None:
    """Return `/openapi/v3/<path>` (`apis/apps/v1`); None: there is none."""
    if path in _sources():
        return _builtin_document(path)
    own = [each for each in custom if f"apis/{each.resource.api_version}" == path]
    return _remembered(path, _document, own, 3) if own else None


def swagger(custom: Sequence[Custom] = ()) -> Document:
    """Return `/openapi/v2` in JSON."""
    return _remembered("json", _swagger, custom) if custom else _builtin_swagger()


def swagger_protobuf(custom: Sequence[Custom] = ()) -> Document:
    """Return `/openapi/v2` in protobuf; its ETag is that of the JSON form."""
    if not custom:
        return _builtin_swagger_protobuf()
    return _remembered("protobuf", lambda found: _in_protobuf(swagger(found)), custom)


def _remembered(
    form: str, make: Callable[[Sequence[Custom]], Document], custom: Sequence[Custom], version: int = 2
) -> Document:
    """Return a document; those that were asked for last are kept: each takes tens of milliseconds."""
    key = f"{form} {_custom_hash(custom, version)}"
    with _lock:
        found = _last.get(key)
    found = found or make(custom)
    if len(found.gzipped) > MOST_BYTES:
        return found
    with _lock:
        _last.pop(key, None)
        _last[key] = found
        if len(_last) > MOST_REMEMBERED:
            del _last[next(iter(_last))]
    return found


_last: dict[str, Document] = {}
_lock = Lock()


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the name of a custom kind's definition: `com.example.v1.Foo`."""
    return ".".join([*reversed(group.split(".")), version, kind])


def _fixed(path: str, name: str, description: str, tagged: str, answer: str) -> Operation:
    """An operation that is none on objects."""
    whole = answer if "." in answer or answer == TEXT else f"{META}{answer}"
    types = _TYPES.get(path, words.BUILTIN_TYPES)
    return Operation(
        path, "get", name, description, "get", ("", "", ""), tagged, (), answer=whole, types=types
    )


_TYPES: Mapping[str, tuple[str, ...]] = {
    "/version/": ("application/json",),
    "/.well-known/openid-configuration/": ("application/json",),
    "/openid/v1/jwks/": ("application/jwk-set+json",),
}
_FIXED: Mapping[str, Operation] = {
    "api": _fixed("/api/", "getCoreAPIVersions", "get available API versions", "core", "APIVersions"),
    "apis": _fixed("/apis/", "getAPIVersions", "get available API versions", "apis", "APIGroupList"),
    "version": _fixed(
        "/version/",
        "getCodeVersion",
        "get the version information for this server",
        "version",
        "io.k8s.apimachinery.pkg.version.Info",
    ),
    ".well-known/openid-configuration": _fixed(
        "/.well-known/openid-configuration/",
        "getServiceAccountIssuerOpenIDConfiguration",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "WellKnown",
        TEXT,
    ),
    "openid/v1/jwks": _fixed(
        "/openid/v1/jwks/",
        "getServiceAccountIssuerOpenIDKeyset",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        "openid",
        TEXT,
    ),
}
"""Documents of one operation that is none on objects."""


@cache
def _sources() -> Mapping[str, Callable[[], list[Operation]]]:
    """Return what makes the operations of each built-in document."""
    found: dict[str, Callable[[], list[Operation]]] = {path: _fixed_source(path) for path in _FIXED}
    for each in resources():
        if each.group:
            found[f"apis/{each.group}"] = _group_source(each.group)
        path = f"apis/{each.api_version}" if each.group else f"api/{each.version}"
        found[path] = _version_source(each.group, each.version)
    return found


def _fixed_source(path: str) -> Callable[[], list[Operation]]:
    return lambda: [_FIXED[path]]


def _group_source(group: str) -> Callable[[], list[Operation]]:
    word = _title(group)
    return lambda: [_fixed(f"/apis/{group}/", f"get{word}APIGroup", _GROUP_TEXT, tag(group), "APIGroup")]


def _version_source(group: str, version: str) -> Callable[[], list[Operation]]:
    def made() -> list[Operation]:
        listed = [each for each in resources() if (each.group, each.version) == (group, version)]
        kinds = {_split(key): name for key, name in data()["kinds"].items()}
        found = [_version_operation(group, version)]
        for each in listed:
            names = Names(
                kinds[each.group, each.version, each.kind],
                kinds.get((each.group, each.version, each.list_kind), ""),
            )
            found += operations(each, names, kinds)
        return found

    return made


def _version_operation(group: str, version: str) -> Operation:
    path = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    name = f"get{_title(group)}{version[:1].upper()}{version[1:]}APIResources"
    return _fixed(path, name, _RESOURCES_TEXT, tag(group, version), "APIResourceList")


def _title(group: str) -> str:
    word = tag(group)
    return word[:1].upper() + word[1:]


def _split(key: str) -> tuple[str, str, str]:
    group, version, kind = key.split("/")
    return group, version, kind


@cache
def _builtin_hash(path: str) -> str:
    """The same for the same content: it depends on the data files and what is made of them here."""
    return hashlib.sha512(f"{digest()} {words.REVISION} {path}".encode()).hexdigest().upper()


def _custom_hash(custom: Sequence[Custom], version: int = 3) -> str:
    """As `_builtin_hash`, of what tenants define; the index tells it without making the documents."""
    told = hashlib.sha512(f"{digest()} {words.REVISION} ".encode())
    for each in custom:
        told.update(each.fingerprint(version))
    return told.hexdigest().upper()


@cache
def _builtin_document(path: str) -> Document:
    found = _sources()[path]()
    used = _used(found)
    every = _definitions(3)
    listed = {name: every[name] for name in sorted(used)}
    components = {**({"schemas": listed} if listed else {}), "securitySchemes": {"BearerToken": _SCHEME}}
    body = _openapi3(_INFO, words.paths(found, 3), components)
    return Document(gzip.compress(body, _LEVEL, mtime=0), f'"{_builtin_hash(path)}"')


def _used(found: Iterable[Operation]) -> set[str]:
    direct = {name for each in found for name in (each.body, each.answer) if "." in name}
    return {name for each in direct if each in data()["definitions"] for name in schemas.references(each)}


@cache
def _definitions(version: int) -> Mapping[str, msgspec.Raw]:
    """Every built-in definition, written; about a megabyte."""
    return {
        name: msgspec.Raw(msgspec.json.encode(each)) for name, each in schemas.definitions(version).items()
    }


def _openapi3(info: Mapping[str, str], paths: Mapping[str, Any], components: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"openapi": "3.0.0", "info": info, "paths": paths, "components": components})


def _document(custom: Sequence[Custom]) -> Document:
    found = _custom_operations(custom)
    own = {name: each for one in custom for name, each in one.definitions(3).items()}
    used = _used(found) | _mentioned(own)
    definitions = {**{name: _definitions(3)[name] for name in used}, **own}
    paths = words.paths(found, 3, custom=True)
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
    """Tell an operation as apiextensions-apiserver does (`pkg/controller/openapi/builder`), which is a little different."""
    own = replace(operation, kind=identity)
    if own.action == "deletecollection":
        return replace(own, parameters=LISTING, body="")
    if own.action == "get":
        return replace(own, parameters=("resourceVersion",))
    return replace(own, codes=(200,)) if own.patch else own


def _mentioned(node: Any) -> set[str]:
    """The built-in definitions that custom ones refer to, with all that those refer to."""
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
def _builtin_swagger() -> Document:
    return _swagger(())


@cache
def _builtin_swagger_protobuf() -> Document:
    return _in_protobuf(_builtin_swagger())


def _in_protobuf(document: Document) -> Document:
    packed = protobuf.encode(msgspec.json.decode(document.body))
    return Document(gzip.compress(packed, _LEVEL, mtime=0), document.etag)


@cache
def _builtin_paths2() -> bytes:
    """The members of `paths` of version 2, without braces, to be joined to those of custom resources."""
    found = [each for source in _sources().values() for each in source()]
    return gzip.compress(msgspec.json.encode(dict(sorted(words.paths(found, 2).items())))[1:-1], 1, mtime=0)


@cache
def _builtin_definitions2() -> bytes:
    return gzip.compress(msgspec.json.encode(schemas.definitions(2))[1:-1], 1, mtime=0)


def _swagger(custom: Sequence[Custom]) -> Document:
    paths = words.paths(_custom_operations(custom), 2, custom=True)
    definitions = {name: each for one in custom for name, each in one.definitions(2).items()}
    head = msgspec.json.encode({"swagger": "2.0", "info": _INFO})[:-1]
    security = msgspec.json.encode({"BearerToken": _SCHEME})
    body = b"".join(
        (
            head, b',"paths":{', gzip.decompress(_builtin_paths2()), _more(paths),
            b'},"definitions":{', gzip.decompress(_builtin_definitions2()), _more(definitions),
            b'},"securityDefinitions":', security, b',"security":[{"BearerToken":[]}]}',
        )
    )  # fmt: skip
    etag = hashlib.sha512(body).hexdigest().upper()
    return Document(gzip.compress(body, _LEVEL, mtime=0), f'"{etag}"')


def _more(members: Mapping[str, Any]) -> bytes:
    return b"," + msgspec.json.encode(members)[1:-1] if members else b""
