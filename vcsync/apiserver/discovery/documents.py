"""Builds discovery documents, which list the groups, versions and resources of a tenant. Pure.

The documents are those of kube-apiserver 1.36: the legacy ones (`/api`, `/apis`, `/apis/G`, `/apis/G/V`) and the
aggregated ones (`/api` and `/apis` as `APIGroupDiscoveryList`). Tenants share the documents without custom resources.
The parameter `builtin` holds the built-in resources that the caller sees (None: all), and `custom` those of a tenant's
CustomResourceDefinitions, ordered by group and then by priority of the version. The parameter `remote` holds the versions
that aggregated API servers of the tenant serve. Every document ends with a line break, as Go's encoder writes it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import msgspec

from vcsync.apimachinery.resources import Resource, Subresource
from vcsync.apimachinery.schema.builtin import storage_version_hash
from vcsync.apiserver.discovery.metrics_version import METRICS
from vcsync.apiserver.discovery.remote_versions import RemoteVersion, merged
from vcsync.apiserver.tenants.builtin_resources import BuiltinResources, every_resource
from vcsync.objects.text_cache import cache_short_texts

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The Content-Type of aggregated documents."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document and its ETag, with the quotes of the header."""

    body: bytes
    etag: str


def api_versions(address: str) -> bytes:
    """Return `/api`.

    Args:
        address: `host:port` at which clients reach this server.
    """
    document = {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }
    return _encoded(document)


def group_list(
    custom: Sequence[Resource] = (),
    builtin: BuiltinResources | None = None,
    remote: Sequence[RemoteVersion] = (),
) -> bytes:
    """Return `/apis`."""
    builtin = builtin or every_resource()
    if custom or tuple(remote) not in _COMMON:
        return _group_list(builtin, custom, remote)
    return _common_group_list(builtin, tuple(remote))


def group(
    name: str,
    custom: Sequence[Resource] = (),
    builtin: BuiltinResources | None = None,
    remote: Sequence[RemoteVersion] = (),
) -> bytes | None:
    """Return `/apis/<name>`, or None if there is no such group."""
    versions = _all_groups(builtin or every_resource(), custom, remote).get(name)
    if not name or versions is None:
        return None
    return _encoded({"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))})


def resource_list(
    group: str, version: str, custom: Sequence[Resource] = (), builtin: BuiltinResources | None = None
) -> bytes | None:
    """Return `/api/v1` or `/apis/<group>/<version>`, or None if there is no such version."""
    builtin = builtin or every_resource()
    added = [each for each in custom if (each.group, each.version) == (group, version)]
    if added:
        return _resource_list(group, version, builtin, added)
    return _builtin_resource_list(group, version, builtin)


def aggregated(
    custom: Sequence[Resource] = (),
    builtin: BuiltinResources | None = None,
    remote: Sequence[RemoteVersion] = (),
    *,
    core: bool = False,
) -> Document:
    """Return an aggregated document.

    Args:
        custom: Custom resources of the tenant.
        builtin: Built-in resources that the caller sees. None: all.
        remote: Versions that aggregated API servers of the tenant serve.
        core: Whether to return `/api`, which has built-in resources only, instead of `/apis`.
    """
    builtin = builtin or every_resource()
    if core:
        return _common_aggregated(builtin, (), core=True)
    if not custom and tuple(remote) in _COMMON:
        return _common_aggregated(builtin, tuple(remote), core=False)
    return _aggregated(_all_groups(builtin, custom, remote), core=False)


_COMMON = ((), (METRICS,))
"""Aggregated APIs of tenants without APIServices of their own. Their documents are shared."""


@cache
def _common_group_list(builtin: BuiltinResources, remote: tuple[RemoteVersion, ...]) -> bytes:
    return _group_list(builtin, (), remote)


@cache_short_texts(1024, 256)
def _builtin_resource_list(group: str, version: str, builtin: BuiltinResources) -> bytes | None:
    return _resource_list(group, version, builtin, ())


@cache
def _common_aggregated(
    builtin: BuiltinResources, remote: tuple[RemoteVersion, ...], *, core: bool
) -> Document:
    return _aggregated(_all_groups(builtin, (), remote), core=core)


_Groups = Mapping[str, Mapping[str, Sequence[Resource]]]
"""Group, in order of priority -> version, in order of preference -> resources."""
_AllGroups = Mapping[str, Mapping[str, Sequence[Resource] | RemoteVersion]]
"""The same with the versions of aggregated API servers."""


def _all_groups(
    builtin: BuiltinResources, custom: Sequence[Resource], remote: Sequence[RemoteVersion]
) -> _AllGroups:
    local = _groups(builtin, custom)
    return merged(local, remote) if remote else local


def _groups(builtin: BuiltinResources, custom: Sequence[Resource]) -> _Groups:
    if not custom:
        return _builtin_groups(builtin)
    merged: dict[str, dict[str, list[Resource]]] = {}
    for each in (*builtin.resources, *sorted(custom, key=lambda each: each.group)):
        merged.setdefault(each.group, {}).setdefault(each.version, []).append(each)
    return merged


@cache
def _builtin_groups(builtin: BuiltinResources) -> _Groups:
    return {
        name: {version: list(found) for version, found in groupby(of_group, key=lambda each: each.version)}
        for name, of_group in groupby(builtin.resources, key=lambda each: each.group)
    }


def _group_list(
    builtin: BuiltinResources, custom: Sequence[Resource], remote: Sequence[RemoteVersion]
) -> bytes:
    groups = _all_groups(builtin, custom, remote)
    found = [_group(name, list(versions)) for name, versions in groups.items() if name]
    return _encoded({"kind": "APIGroupList", "apiVersion": "v1", "groups": found})


def _group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource_list(
    group: str, version: str, builtin: BuiltinResources, custom: Iterable[Resource]
) -> bytes | None:
    found = [*_builtin_groups(builtin).get(group, {}).get(version, ()), *custom]
    if not found:
        return None
    head = {"apiVersion": "v1", "groupVersion": f"{group}/{version}"} if group else {"groupVersion": version}
    entries = [entry for each in found for entry in _legacy(each)]
    return _encoded({"kind": "APIResourceList", **head, "resources": entries})


def _legacy(resource: Resource) -> Iterable[dict[str, Any]]:
    yield {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
        **_given("shortNames", resource.short_names),
        **_given("categories", resource.categories),
        **_given("storageVersionHash", _storage_version_hash(resource)),
    }
    for each in resource.subresources.values():
        foreign = _is_foreign(resource, each)
        yield {
            "name": f"{resource.plural}/{each.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **({"group": each.group, "version": each.version} if foreign else {}),
            "kind": each.kind,
            "verbs": each.verbs,
        }


def _storage_version_hash(resource: Resource) -> str:
    if resource.custom:
        return storage_version_hash(resource.group, resource.storage or resource.version, resource.kind)
    return resource.storage_version_hash


def _is_foreign(resource: Resource, subresource: Subresource) -> bool:
    return (subresource.group, subresource.version) != (resource.group, resource.version)


def _given(key: str, value: Any) -> dict[str, Any]:
    return {key: value} if value else {}


def _aggregated(groups: _AllGroups, *, core: bool) -> Document:
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [_version(version, found) for version, found in versions.items()],
        }
        for name, versions in groups.items()
        if core == (not name)
    ]
    listed = {"metadata": {}, "items": items}
    etag = hashlib.sha512(msgspec.json.encode(listed)).hexdigest().upper()
    identity = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return Document(_encoded({**identity, **listed}), f'"{etag}"')


def _version(version: str, found: Sequence[Resource] | RemoteVersion) -> dict[str, Any]:
    if isinstance(found, RemoteVersion):
        freshness = "Current" if found.current else "Stale"
        return {"version": version, "resources": msgspec.Raw(found.resources), "freshness": freshness}
    return {"version": version, "resources": [_entry(each) for each in found], "freshness": "Current"}


def _entry(resource: Resource) -> dict[str, Any]:
    subresources = [
        {
            "subresource": each.name,
            "responseKind": _response_kind(each, whole=resource.custom or _is_foreign(resource, each)),
            "verbs": each.verbs,
        }
        for each in resource.subresources.values()
    ]
    return {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, whole=resource.custom),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
        **_given("shortNames", resource.short_names),
        **_given("categories", resource.categories),
        **_given("subresources", subresources),
    }


def _response_kind(resource: Resource | Subresource, *, whole: bool) -> dict[str, str]:
    """Return the kind of responses. kube-apiserver omits group and version if they are those of the resource.

    Args:
        resource: The resource or subresource.
        whole: Whether to include group and version.
    """
    group, version = (resource.group, resource.version) if whole else ("", "")
    return {"group": group, "version": version, "kind": resource.kind}


def _encoded(document: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(document) + b"\n"
