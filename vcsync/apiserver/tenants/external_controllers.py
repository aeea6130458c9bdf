"""Publishes which tenants have their own controllers or nodes, as ConfigMaps in the system space. Pure.

The controllers and admission read these ConfigMaps.
"""

import uuid

import msgspec

from vcsync.api.names import EXTERNAL_CONTROLLERS
from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.storage.interface import Delete, Put
from vcsync.apiserver.tenants.records import Controllers, Nodes

NAMESPACE = "kube-system"


def published_name(tenant: str) -> str:
    """Return the name of the ConfigMap for a tenant."""
    return f"{tenant}.controllers"


def publish(tenant: str, controllers: Controllers, created: str, nodes: Nodes = "virtual") -> Put | Delete:
    """Return the write that publishes the controllers and nodes of a tenant. There is no ConfigMap for the defaults.

    Args:
        tenant: The tenant.
        controllers: See `records.Controllers`.
        created: Creation time of the ConfigMap, in RFC 3339.
        nodes: See `records.Nodes`.
    """
    name = published_name(tenant)
    key = object_key(SYSTEM, "", "configmaps", NAMESPACE, name)
    if controllers == "vcsync" and nodes == "virtual":
        return Delete(key)
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": str(uuid.uuid4()),
        "creationTimestamp": created,
        "labels": {EXTERNAL_CONTROLLERS: tenant} if controllers == "external" else {},
    }
    data = {"controllers": controllers, "nodes": nodes}
    return Put(key, msgspec.json.encode({"metadata": metadata, "data": data}))
