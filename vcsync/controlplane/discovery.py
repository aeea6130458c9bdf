"""Discovery documents: which groups, versions and resources a tenant's API has. Pure; the built-in part is shared.

Legacy documents (`/api`, `/apis`, `/apis/G`, `/apis/G/V`) and aggregated ones (`/api` and `/apis` as
`APIGroupDiscoveryList`), as kube-apiserver 1.36 answers them. `custom` is what a tenant's CustomResourceDefinitions
serve, ordered by group and then by priority of version; every document ends with a line break, as Go's encoder writes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import msgspec

from vcsync.controlplane.resources import Resource, Subresource
from vcsync.controlplane.schema.builtin import resources, storage_version_hash

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The Content-Type of aggregated documents."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document and its ETag, quotes included."""

    body: bytes
    etag: str


def api_versions(address: str) -> bytes:
    """Return `/api`; `address` (`host:port`) is where clients reach this server."""
    found = {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }
    return _encoded(found)


def group_list(custom: Sequence[Resource] = ()) -> bytes:
    """Return `/apis`."""
    return _group_list(custom) if custom else _builtin_group_list()


def group(name: str, custom: Sequence[Resource] = ()) -> bytes | None:
    """Return `/apis/<name>`; None: there is no such group."""
    versions = _groups(custom).get(name)
    if not name or versions is None:
        return None
    return _encoded({"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))})


def resource_list(group: str, version: str, custom: Sequence[Resource] = ()) -> bytes | None:
    """Return `/api/v1` or `/apis/<group>/<version>`; None: there is no such version."""
    added = [each for each in custom if (each.group, each.version) == (group, version)]
    return _resource_list(group, version, added) if added else _builtin_resource_list(group, version)


def aggregated(custom: Sequence[Resource] = (), *, core: bool = False) -> Document:
    """Return `/apis` as an aggregated document; `core`: `/api`, which has no custom resources."""
    return _builtin_aggregated(core) if core or not custom else _aggregated(_groups(custom), core=False)


@cache
def _builtin_group_list() -> bytes:
    return _group_list(())


@cache
def _builtin_resource_list(group: str, version: str) -> bytes | None:
    return _resource_list(group, version, ())


@cache
def _builtin_aggregated(core: bool) -> Document:
    return _aggregated(_groups(()), core=core)


_Groups = Mapping[str, Mapping[str, Sequence[Resource]]]
"""Groups by priority, of each the versions by preference, of each the resources."""


def _groups(custom: Sequence[Resource]) -> _Groups:
    if not custom:
        return _builtin_groups()
    merged: dict[str, dict[str, list[Resource]]] = {}
    for each in (*resources(), *sorted(custom, key=lambda each: each.group)):
        merged.setdefault(each.group, {}).setdefault(each.version, []).append(each)
    return merged


@cache
def _builtin_groups() -> _Groups:
    return {
        name: {version: list(found) for version, found in groupby(of_group, key=lambda each: each.version)}
        for name, of_group in groupby(resources(), key=lambda each: each.group)
    }


def _group_list(custom: Sequence[Resource]) -> bytes:
    found = [_group(name, list(versions)) for name, versions in _groups(custom).items() if name]
    return _encoded({"kind": "APIGroupList", "apiVersion": "v1", "groups": found})


def _group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _resource_list(group: str, version: str, custom: Iterable[Resource]) -> bytes | None:
    found = [*_builtin_groups().get(group, {}).get(version, ()), *custom]
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


def _aggregated(groups: _Groups, *, core: bool) -> Document:
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {"version": version, "resources": [_entry(each) for each in found], "freshness": "Current"}
                for version, found in versions.items()
            ],
        }
        for name, versions in groups.items()
        if core == (not name)
    ]
    listed = {"metadata": {}, "items": items}
    etag = hashlib.sha512(msgspec.json.encode(listed)).hexdigest().upper()
    identity = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return Document(_encoded({**identity, **listed}), f'"{etag}"')


def _entry(resource: Resource) -> dict[str, Any]:
    subresources = [
        {
            "subresource": each.name,
            "responseKind": _response_kind(each, told=resource.custom or _is_foreign(resource, each)),
            "verbs": each.verbs,
        }
        for each in resource.subresources.values()
    ]
    return {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, told=resource.custom),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
        **_given("shortNames", resource.short_names),
        **_given("categories", resource.categories),
        **_given("subresources", subresources),
    }


def _response_kind(of: Resource | Subresource, *, told: bool) -> dict[str, str]:
    """The kind that is answered. kube-apiserver tells group and version only where they are not the resource's."""
    group, version = (of.group, of.version) if told else ("", "")
    return {"group": group, "version": version, "kind": of.kind}


def _encoded(document: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(document) + b"\n"
