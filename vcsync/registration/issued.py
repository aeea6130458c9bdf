"""Kubeconfigs that an embedded control plane issues: for users of a space, and for vcsync's programs there."""

from typing import Any
from urllib.parse import urlencode

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.registration import manifests
from vcsync.registration.accounts import SuperKubeconfigs

TENANTS = "/vcsync/v1/tenants"
"""Path of tenants in the operator's API of an embedded control plane."""
ADMIN = "admin"
"""User that may do everything in a space."""


async def kubeconfig(server: Client, space: str, user: str = ADMIN) -> bytes:
    """Return a kubeconfig with a new certificate for a user of a space."""
    return await server.request("GET", f"{TENANTS}/{space}/kubeconfig?{urlencode({'user': user})}")


async def role_kubeconfig(server: Client, space: str, role: str) -> bytes:
    """Return a kubeconfig for one of vcsync's programs, as its ServiceAccount."""
    account = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
    return await kubeconfig(server, space, account)


async def super_kubeconfigs(server: Client, space: str) -> SuperKubeconfigs:
    """Return the kubeconfigs of the roles for a space that is a super cluster."""
    return SuperKubeconfigs(
        syncer=await role_kubeconfig(server, space, names.ROLE_SYNCER),
        streams=await role_kubeconfig(server, space, names.ROLE_STREAMS),
    )


async def role_secrets(server: Client, space: str, root: str) -> list[dict[str, Any]]:
    """Return the Secrets of a root namespace with which all roles that serve a tenant reach its space."""
    return [
        manifests.secret(
            root, names.role_secret(role), names.KUBECONFIG_KEY, await role_kubeconfig(server, space, role)
        )
        for role in names.ROLES
    ]
