"""Lists the operations of each built-in document. Pure."""

from collections.abc import Callable, Mapping
from functools import cache

from vcsync.apimachinery.schema.builtin import data
from vcsync.apiserver.openapi import path_items
from vcsync.apiserver.openapi.operations import META, TEXT, Names, Operation, operations, tag
from vcsync.apiserver.tenants.builtin_resources import BuiltinResources

_RESOURCES_TEXT, _GROUP_TEXT = "get available resources", "get information of a group"


def _fixed(path: str, name: str, description: str, tag_name: str, response: str) -> Operation:
    """Return an operation that does not concern objects."""
    definition = response if "." in response or response == TEXT else f"{META}{response}"
    types = _TYPES.get(path, path_items.BUILTIN_TYPES)
    return Operation(
        path, "get", name, description, "get", ("", "", ""), tag_name, (), response=definition, types=types
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
"""Path of a document -> its only operation, which does not concern objects."""


@cache
def sources(builtin: BuiltinResources) -> Mapping[str, Callable[[], list[Operation]]]:
    """Return, by path of each built-in document, a function that returns its operations."""
    found: dict[str, Callable[[], list[Operation]]] = {path: _fixed_source(path) for path in _FIXED}
    for each in builtin.resources:
        if each.group:
            found[f"apis/{each.group}"] = _group_source(each.group)
        path = f"apis/{each.api_version}" if each.group else f"api/{each.version}"
        found[path] = _version_source(each.group, each.version, builtin)
    return found


def _fixed_source(path: str) -> Callable[[], list[Operation]]:
    return lambda: [_FIXED[path]]


def _group_source(group: str) -> Callable[[], list[Operation]]:
    word = _title(group)
    return lambda: [_fixed(f"/apis/{group}/", f"get{word}APIGroup", _GROUP_TEXT, tag(group), "APIGroup")]


def _version_source(group: str, version: str, builtin: BuiltinResources) -> Callable[[], list[Operation]]:
    def made() -> list[Operation]:
        listed = [each for each in builtin.resources if (each.group, each.version) == (group, version)]
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
