"""Legacy discovery documents of a list of resources. Pure."""

from collections.abc import Sequence
from typing import Any

from vcsync.controlplane.resources import Resource


def versions(address: str) -> dict[str, Any]:
    """`/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]}


def group(name: str, resources: Sequence[Resource]) -> dict[str, Any]:
    """`/apis/GROUP`."""
    found = list(dict.fromkeys(each.version for each in resources if each.group == name))
    told = [{"groupVersion": f"{name}/{each}", "version": each} for each in found]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": told, "preferredVersion": told[0]}


def groups(resources: Sequence[Resource]) -> dict[str, Any]:
    """`/apis`."""
    names = dict.fromkeys(each.group for each in resources if each.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [{k: v for k, v in group(each, resources).items() if k not in ("kind", "apiVersion")} for each in names]}


def listed(group: str, version: str, resources: Sequence[Resource]) -> dict[str, Any]:
    """`/api/v1`, `/apis/GROUP/VERSION`."""
    told = []
    for each in resources:
        if (each.group, each.version) != (group, version):
            continue
        entry: dict[str, Any] = {
            "name": each.plural,
            "singularName": each.singular,
            "namespaced": each.namespaced,
            "kind": each.kind,
            "verbs": list(each.verbs),
        }
        if each.short_names:
            entry["shortNames"] = list(each.short_names)
        if each.categories:
            entry["categories"] = list(each.categories)
        told.append(entry)
        for sub in each.subresources.values():
            told.append({
                "name": f"{each.plural}/{sub.name}", "singularName": "", "namespaced": each.namespaced,
                "group": sub.group, "version": sub.version, "kind": sub.kind, "verbs": list(sub.verbs),
            })
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}" if group else version, "resources": told}
