"""The built-in resources of a tenant, and why the others are prohibited. Pure.

The nodes of most tenants are virtual: vcsync's roles write them, and they stand for nodes of the operator's clusters. Users of
such a tenant can read them, and have no resources that concern what runs on nodes. Tenants with nodes or controllers of
their own have all resources. Discovery, OpenAPI and authorization use the same table, so that they agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from vcsync.api import names
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin
from vcsync.apiserver.request.caller import Asked, Caller

READING: Final = frozenset({"get", "list", "watch"})
VERBS: Final = READING | {"create", "update", "patch", "delete", "deletecollection", "*"}
"""Verbs of requests for objects, and the wildcard of access reviews. Other verbs, such as `impersonate`, are not prohibited."""

NODES: Final = (
    "the nodes here belong to the operator's clusters, and a tenant can only read them: to keep Pods away from a node, use "
    "nodeSelector or affinity"
)
_DRIVERS: Final = (
    "drivers of storage run on nodes, and the nodes here belong to the operator's clusters: use emptyDir, or storage over "
    "the network"
)
DAEMONS: Final = (
    "a DaemonSet runs on every node, and the nodes here belong to the operator's clusters: use a Deployment; or have the "
    "operator let this tenant bring its own controllers, by 'vcsync tenant set {tenant} --controllers external'"
)
HIDDEN: Final[Mapping[tuple[str, str], str]] = {
    ("apps", "daemonsets"): DAEMONS,
    ("storage.k8s.io", "csidrivers"): _DRIVERS,
    ("storage.k8s.io", "csinodes"): _DRIVERS,
    ("storage.k8s.io", "volumeattachments"): _DRIVERS,
}
"""Resources that tenants with virtual nodes do not have, as (group, plural) -> the reason."""
_NAMED: Final = {
    (asked, name): why
    for (group, plural), why in HIDDEN.items()
    for asked in (group, "", "*")
    for name in (plural, f"{plural}.{group}")
}
"""The same by the names that `kubectl auth can-i` sends about resources that it does not find in discovery."""
_ROLES: Final = frozenset(
    f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
    for role in (names.ROLE_SYNCER, names.ROLE_NSSCHEDULER)
)
"""Users that write virtual nodes."""


@dataclass(frozen=True, eq=False, slots=True)
class BuiltinResources:
    """The built-in resources that a caller sees.

    Attributes:
        name: Empty for all resources; it distinguishes hashes of documents.
        resources: The resources, in the order of discovery.
    """

    name: str
    resources: tuple[Resource, ...]


@cache
def every_resource() -> BuiltinResources:
    """Return all resources, which system callers see, and tenants with nodes or controllers of their own."""
    return BuiltinResources("", builtin.resources())


@cache
def without_nodes() -> BuiltinResources:
    """Return the resources of tenants with virtual nodes."""
    found = [each for each in builtin.resources() if (each.group, each.plural) not in HIDDEN]
    return BuiltinResources(
        "without nodes", tuple(_read_only(each) if _is_node(each) else each for each in found)
    )


def _is_node(resource: Resource) -> bool:
    return (resource.group, resource.plural) == ("", "nodes")


def _read_only(resource: Resource) -> Resource:
    subresources = {
        name: replace(each, verbs=tuple(verb for verb in each.verbs if verb in READING))
        for name, each in resource.subresources.items()
        if name != "proxy"
    }
    verbs = tuple(verb for verb in resource.verbs if verb in READING)
    return replace(resource, verbs=verbs, subresources=subresources)


def prohibition(caller: Caller, asked: Asked) -> str:
    """Return why a caller of a tenant with virtual nodes must not make a request, or an empty text.

    Permissions by RBAC do not matter: an administrator of a tenant has all of them.

    Args:
        caller: A caller that is not a system caller.
        asked: The request.
    """
    if not asked.resource_request or asked.verb not in VERBS:
        return ""
    if asked.resource == "nodes" and asked.group in ("", "*"):
        reads = asked.verb in READING and asked.subresource != "proxy"
        role = caller.user.name in _ROLES and not (caller.impersonated or caller.home)
        return "" if reads or role else NODES
    return _NAMED.get((asked.group, asked.resource), "").format(tenant=caller.tenant)
