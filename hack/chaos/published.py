"""Actions of users on what the operator publishes beside classes: a CustomResourceDefinition, and ranges of cluster IPs."""

from __future__ import annotations

import ipaddress
from typing import Any

from hack.chaos.actions import Action
from hack.chaos.users import Users
from hack.testbed.classes import GAUGES, PUBLIC

Json = dict[str, Any]

TENANTS_RANGE = "10.80.0.0/12"
"""Range of cluster IPs that super clusters give to tenants.

It is large, because API servers also choose addresses of it for Services that ask for none.
"""
_FIXED = 200
"""Number of addresses that the users of one tenant ask for, so that they ask for some twice."""
_DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{GAUGES['metadata']['name']}"


def own_ranges(tenants: tuple[str, ...]) -> dict[str, str]:
    """Return the range of cluster IPs of every other tenant; the others have none of their own."""
    blocks = ipaddress.ip_network(TENANTS_RANGE).subnets(new_prefix=20)
    return {tenant: str(block) for tenant, block in zip(tenants[::2], blocks, strict=False)}


def service_cidr(cidr: str) -> Json:
    """Return a published range of cluster IPs."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "tenants", **PUBLIC},
        "spec": {"cidrs": [cidr]},
    }


def put_fixed_service(users: Users) -> None:
    """Create a Service with an address of the tenant's own range, if it has one."""
    if not users.range:
        return
    first = ipaddress.ip_network(users.range)[0]
    spec = {
        "clusterIP": str(first + 1 + users.pick(_FIXED)),
        "ports": [{"port": 80}],
        "selector": {"app": users.known("app")},
    }
    users.call(
        "POST", users.path("services"), {"metadata": users.metadata(users.known("fixed")), "spec": spec}
    )


def delete_fixed_service(users: Users) -> None:
    users.call("DELETE", users.path("services", users.known("fixed")))


def put_gauge(users: Users) -> None:
    """Create an object of the published definition, which stays in the tenant."""
    group, plural = GAUGES["spec"]["group"], GAUGES["spec"]["names"]["plural"]
    path = f"/apis/{group}/v1/namespaces/{users.namespace()}/{plural}"
    about = {"apiVersion": f"{group}/v1", "kind": "Gauge", "metadata": users.metadata(users.known("gauge"))}
    users.call("POST", path, about)


def delete_definition(users: Users) -> None:
    """Delete the published definition with its objects. It comes back while it is published."""
    users.call("DELETE", _DEFINITION)


ACTIONS: tuple[tuple[Action, int], ...] = (
    (put_fixed_service, 5),
    (delete_fixed_service, 3),
    (put_gauge, 3),
    (delete_definition, 1),
)
"""The actions of users, with their relative frequencies."""
