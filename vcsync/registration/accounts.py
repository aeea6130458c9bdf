"""Accounts of the roles in tenants' control planes and super clusters: permissions, and kubeconfigs with tokens."""

from typing import Any, NamedTuple

from vcsync.api import names, rbac
from vcsync.kube.client import Client
from vcsync.kube.kubeconfig import Cluster
from vcsync.kube.resources import NAMESPACES, SECRETS
from vcsync.registration import manifests
from vcsync.registration.clients import stored_client
from vcsync.registration.kubeconfigs import with_token
from vcsync.registration.tokens import Note, token_secret, tokens_of, wait_until_usable


class SuperKubeconfigs(NamedTuple):
    """The kubeconfigs of a super cluster that are kept in the meta cluster.

    Attributes:
        syncer: that of its syncer.
        streams: that with which control planes reach Pods; None: they do not.
    """

    syncer: bytes
    streams: bytes | None


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


async def super_kubeconfigs(
    super_cluster: Client, super_id: str, cluster: Cluster, note: Note
) -> SuperKubeconfigs:
    """Create the roles' ServiceAccounts in a super cluster; return kubeconfigs with their tokens.

    Args:
        super_cluster: client of the cluster, as its administrator.
        super_id: its id.
        cluster: how to reach it.
        note: see `tokens_of`.

    Raises:
        KubeError: the super cluster refused it.
    """
    await manifests.apply(super_cluster, rbac.super_manifests(super_id))
    accounts = [names.service_account(role) for role in (names.ROLE_SYNCER, names.ROLE_STREAMS)]
    tokens = await tokens_of(
        super_cluster,
        accounts,
        names.SYSTEM_NAMESPACE,
        again=f"vcsync super renew {super_id} --kubeconfig FILE",
        note=note,
    )
    made = [with_token(cluster, name=super_id, user=each, token=tokens[each]) for each in accounts]
    return SuperKubeconfigs(*made)


async def check_usable(kubeconfig: bytes, super_id: str) -> None:
    """Wait until a super cluster accepts its syncer's kubeconfig.

    Raises:
        KubeError: it refuses the kubeconfig.
    """
    async with stored_client(kubeconfig, f"{super_id} with the syncer's credentials") as syncer:
        await wait_until_usable(syncer, NAMESPACES.path())


async def store_super_credentials(meta_cluster: Client, super_id: str, made: SuperKubeconfigs) -> None:
    """Store the kubeconfigs with which the roles reach a super cluster."""
    objects = [
        _kept(names.super_secret(super_id), made.syncer),
        *rbac.super_credentials_access(super_id),
    ]
    if made.streams is not None:
        objects += [
            _kept(names.streams_secret(super_id), made.streams),
            *rbac.stream_credentials_access(super_id),
        ]
    await manifests.apply(meta_cluster, objects)


async def forget_stream_credentials(meta_cluster: Client, super_id: str) -> None:
    """Delete the kubeconfig with which control planes reach Pods of a super cluster."""
    await manifests.delete_if_there(
        meta_cluster, SECRETS, names.streams_secret(super_id), names.SYSTEM_NAMESPACE
    )
    await manifests.delete(meta_cluster, rbac.stream_credentials_access(super_id))


def _kept(name: str, kubeconfig: bytes) -> dict[str, Any]:
    return manifests.secret(names.SYSTEM_NAMESPACE, name, names.KUBECONFIG_KEY, kubeconfig)


async def revoke(client: Client, roles: tuple[str, ...]) -> None:
    """Delete the Secrets with the tokens of roles, which invalidates these tokens."""
    for role in roles:
        name = token_secret(names.service_account(role))
        await manifests.delete_if_there(client, SECRETS, name, names.SYSTEM_NAMESPACE)
