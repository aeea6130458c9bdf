"""The gateway's account in an external control plane: permissions, and a token."""

from collections.abc import Sequence

from vcsync.api import names, rbac
from vcsync.kube.client import Client
from vcsync.kube.kubeconfig import Cluster
from vcsync.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS
from vcsync.registration import manifests
from vcsync.registration.clients import stored_client
from vcsync.registration.kubeconfigs import with_token
from vcsync.registration.tokens import Note, token_secret, tokens_of, wait_until_usable

ADMINISTRATOR = {"as": "admin", "as-groups": [names.TENANT_ADMINS]}
"""The user that is impersonated to find out whether the account can be used."""


async def gateway_token(
    control_plane: Client,
    tenant: str,
    cluster: Cluster,
    note: Note,
    *,
    groups: Sequence[str] = (),
    extra: Sequence[str] = (),
    readable: Sequence[str] = (),
    revoke: bool = False,
) -> str:
    """Create the gateway's account in an external control plane, or update it, and return its token.

    Args:
        control_plane: Client of the control plane, as its administrator.
        tenant: Name of the tenant.
        cluster: How to reach the control plane.
        note: See `tokens_of`.
        groups: Groups that the gateway may impersonate, besides that of the tenant's administrators.
        extra: Keys of extra that the gateway may impersonate, besides the id of a client certificate.
        readable: Resources that lists and watches over all tenants include; empty: none. See `rbac.reader_manifests`.
        revoke: Whether to invalidate the token that it has.

    Raises:
        KubeError: The control plane refuses a write, or the token.
    """
    account = names.service_account(names.ROLE_GATEWAY)
    if revoke:
        await manifests.delete_if_there(control_plane, SECRETS, token_secret(account), names.SYSTEM_NAMESPACE)
    wanted = [rbac.system_namespace(), *rbac.gateway_manifests(groups, extra, readable)]
    if readable:
        wanted += rbac.reader_manifests(readable)
    else:
        for resource in (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES):
            await manifests.delete_if_there(control_plane, resource, names.READER_ROLE)
    await manifests.apply(control_plane, wanted)
    tokens = await tokens_of(
        control_plane,
        [account],
        names.SYSTEM_NAMESPACE,
        again=f"vcsync tenant connect {tenant} --kubeconfig FILE",
        note=note,
    )
    token = tokens[account]
    kubeconfig = with_token(cluster, name=tenant, user=account, token=token, acting_as=ADMINISTRATOR)
    async with stored_client(kubeconfig, f"{tenant} with the credentials of the gateway") as client:
        await wait_until_usable(client, NAMESPACES.path())
    return token
