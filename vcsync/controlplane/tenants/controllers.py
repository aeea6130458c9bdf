"""Where our controllers, and admission, read which tenants are unusual: an object each in the operator's space. Pure."""

import uuid

import msgspec

from vcsync.api.names import EXTERNAL_CONTROLLERS
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.store.interface import Delete, Put
from vcsync.controlplane.tenants.records import Controllers, Nodes

NAMESPACE = "kube-system"


def published_name(tenant: str) -> str:
    """Return the name of the ConfigMap that tells of a tenant."""
    return f"{tenant}.controllers"


def publish(tenant: str, controllers: Controllers, created: str, nodes: Nodes = "virtual") -> Put | Delete:
    """Return the write that tells whose a tenant's controllers and nodes are; nothing tells of what is usual.

    Args:
        tenant: the tenant.
        controllers: whose they are.
        created: RFC 3339 time.
        nodes: whose they are.
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
