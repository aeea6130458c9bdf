"""Accounts of the roles in tenants' control planes and super clusters: permissions, and kubeconfigs with tokens."""

from typing import Any

from vcsync.api import names, rbac
from vcsync.kube.client import Client
from vcsync.kube.kubeconfig import Cluster
from vcsync.kube.resources import NAMESPACES, SECRETS
from vcsync.registration import manifests
from vcsync.registration.clients import stored_client
from vcsync.registration.kubeconfigs import with_token
from vcsync.registration.tokens import Note, token_secret, tokens_of, wait_until_usable


async def tenant_secrets(
    control_plane: Client, tenant: str, root: str, cluster: Cluster, note: Note
) -> list[dict[str, Any]]:
    """Create the roles' accounts in a tenant's control plane; return the Secrets with their kubeconfigs.

    Args:
        control_plane: client of the tenant's control plane, as its administrator.
        tenant: name of the tenant.
        root: the root namespace, for the Secrets.
        cluster: how to reach the control plane.
        note: see `tokens_of`.

    Raises:
        KubeError: the control plane refused a write, or the new credentials.
    """
    await manifests.apply(control_plane, [*rbac.tenant_manifests(), *rbac.tenant_admission()])
    accounts = {role: names.service_account(role) for role in names.ROLES}
    tokens = await tokens_of(
        control_plane,
        list(accounts.values()),
        names.SYSTEM_NAMESPACE,
        again=f"vcsync tenant renew {tenant} --kubeconfig FILE",
        note=note,
    )
    secrets = []
    for role, account in accounts.items():
        kubeconfig = with_token(cluster, name=tenant, user=account, token=tokens[account])
        async with stored_client(kubeconfig, f"{tenant} with the credentials of {role}") as client:
            await wait_until_usable(client, NAMESPACES.path())
        secrets.append(manifests.secret(root, names.role_secret(role), names.KUBECONFIG_KEY, kubeconfig))
    return secrets


async def super_kubeconfig(super_cluster: Client, super_id: str, cluster: Cluster, note: Note) -> bytes:
    """Create the syncer's ServiceAccount in a super cluster; return a kubeconfig with its token.

    Args:
        super_cluster: client of the cluster, as its administrator.
        super_id: its id.
        cluster: how to reach it.
        note: see `tokens_of`.

    Raises:
        KubeError: the super cluster refused it.
    """
    await manifests.apply(super_cluster, rbac.super_manifests(super_id))
    account = names.service_account(names.ROLE_SYNCER)
    tokens = await tokens_of(
        super_cluster,
        [account],
        names.SYSTEM_NAMESPACE,
        again=f"vcsync super renew {super_id} --kubeconfig FILE",
        note=note,
    )
    return with_token(cluster, name=super_id, user=account, token=tokens[account])


async def check_usable(kubeconfig: bytes, super_id: str) -> None:
    """Wait until a super cluster accepts its syncer's kubeconfig.

    Raises:
        KubeError: it refuses the kubeconfig.
    """
    async with stored_client(kubeconfig, f"{super_id} with the syncer's credentials") as syncer:
        await wait_until_usable(syncer, NAMESPACES.path())


async def store_super_credentials(meta_cluster: Client, super_id: str, kubeconfig: bytes) -> None:
    """Store the kubeconfig with which the syncer of a super cluster reaches it."""
    secret = manifests.secret(
        names.SYSTEM_NAMESPACE, names.super_secret(super_id), names.KUBECONFIG_KEY, kubeconfig
    )
    await manifests.apply(meta_cluster, [secret, *rbac.super_credentials_access(super_id)])


async def revoke(client: Client, roles: tuple[str, ...]) -> None:
    """Delete the Secrets with the tokens of roles, which invalidates these tokens."""
    for role in roles:
        name = token_secret(names.service_account(role))
        await manifests.delete_if_there(client, SECRETS, name, names.SYSTEM_NAMESPACE)
