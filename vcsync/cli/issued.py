"""Kubeconfigs that an embedded control plane issues: for somebody in a space, and for our programs there."""

from typing import Any
from urllib.parse import urlencode

from vcsync.api import names
from vcsync.cli import manifests
from vcsync.cli.embedded import ADMIN, TENANTS
from vcsync.kube.client import Client


async def kubeconfig(server: Client, space: str, user: str = ADMIN) -> bytes:
    """Return a kubeconfig with a new certificate for somebody in a space."""
    return await server.request("GET", f"{TENANTS}/{space}/kubeconfig?{urlencode({'user': user})}")


async def role_kubeconfig(server: Client, space: str, role: str) -> bytes:
    """Return a kubeconfig for one of our programs, which counts there as its ServiceAccount."""
    account = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
    return await kubeconfig(server, space, account)


async def role_secrets(server: Client, space: str, root: str) -> list[dict[str, Any]]:
    """Return Secrets of a root namespace by which all roles that serve a tenant reach its space."""
    return [
        manifests.secret(
            root, names.role_secret(role), names.KUBECONFIG_KEY, await role_kubeconfig(server, space, role)
        )
        for role in names.ROLES
    ]
