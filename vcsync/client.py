"""Clients of one tenant, or of all tenants, made of a client of Kubernetes' Python libraries.

A caller of the operator's space may name any tenant:

    from kubernetes_asyncio import client, config
    from vcsync.client import ALL_TENANTS, for_tenant, tenant_of

    await config.load_kube_config("admin.kubeconfig")
    async with client.ApiClient() as api:
        pods = await client.CoreV1Api(for_tenant(api, ALL_TENANTS)).list_pod_for_all_namespaces()
        for pod in pods.items:
            core = client.CoreV1Api(for_tenant(api, tenant_of(pod)))
            await core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace)

The official `kubernetes` library works in the same way, without `await`. A tenant's own credential needs none of this: it
names the tenant.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

from vcsync.apimachinery.tenant_marks import ANNOTATION, FIELD

ALL_TENANTS: Final = "all"
"""Stands for all tenants with embedded control planes, in lists and watches."""
ALL_WITH_EXTERNAL: Final = "all+external"
"""Stands for all tenants, including those of external control planes that are readable. If one cannot be read now, a list
is refused."""
ALL_REACHABLE: Final = "all+reachable"
"""The same, without external control planes that cannot be read now. A warning names them."""


class _Configuration(Protocol):
    host: str


class _ApiClient(Protocol):
    configuration: Any


ApiClient = TypeVar("ApiClient", bound=_ApiClient)


def for_tenant(client: ApiClient, tenant: str) -> ApiClient:
    """Return a client whose requests are for a tenant. It shares the connections of the given one, which is to be closed.

    Args:
        client: `ApiClient` of `kubernetes_asyncio` or `kubernetes` whose server's URL names no tenant.
        tenant: Name of the tenant, or `ALL_TENANTS`, `ALL_WITH_EXTERNAL` or `ALL_REACHABLE`.

    Raises:
        ValueError: The name cannot be one of a tenant, or the client is one of a tenant already.
    """
    host = client.configuration.host.rstrip("/")
    every = tenant in (ALL_TENANTS, ALL_WITH_EXTERNAL, ALL_REACHABLE)
    if not tenant or (not every and set(tenant) - set("abcdefghijklmnopqrstuvwxyz0123456789-")):
        raise ValueError(f"{tenant!r} is no tenant name: use lower case letters, digits and '-'")
    if "/tenants/" in host:
        raise ValueError(f"the server's URL names a tenant: {host}; give a client of the server itself")
    configuration: _Configuration = copy.copy(client.configuration)
    configuration.host = f"{host}/tenants/{tenant}"
    view = copy.copy(client)
    view.configuration = configuration
    return view


def tenant_of(obj: Any) -> str:
    """Return the tenant of an object that was read across tenants.

    Args:
        obj: A model of one of the libraries, or an object as a mapping.

    Raises:
        ValueError: The object names no tenant, because it was not read across tenants.
    """
    if isinstance(obj, Mapping):
        metadata = obj.get("metadata") or {}
        annotations = metadata.get("annotations")
        tenant = metadata.get(FIELD) or (annotations or {}).get(ANNOTATION)
    else:
        tenant = (obj.metadata.annotations or {}).get(ANNOTATION)
    if not tenant:
        raise ValueError(f"the object names no tenant: read it with for_tenant(client, {ALL_TENANTS!r})")
    return str(tenant)
