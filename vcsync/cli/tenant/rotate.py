"""`vcsync tenant rotate`: new keys for a space, and new credentials for the roles of the pool that it is in."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import click

from vcsync.api import names, rbac
from vcsync.api.objects import cluster_key
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant.embedded import (
    check_name,
    control_plane,
    name_argument,
    reached_by,
    reaching,
    require_embedded,
)
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.registration import manifests
from vcsync.registration.accounts import store_super_credentials
from vcsync.registration.cluster_identity import cluster_uid, super_cluster_info
from vcsync.registration.issued import TENANTS, role_secrets, super_kubeconfigs
from vcsync.registration.registered import find_super_cluster, virtual_clusters
from vcsync.tenancy.proof import recorded_uid


@click.command(epilog=example("vcsync tenant rotate acme --data /var/lib/vcsync"))
@name_argument
@reaching
def rotate(tenant: str, data: Path | None, meta: str | None) -> None:
    """Give the tenant NAME a new CA and signing key, which invalidates all certificates and tokens issued before.

    If the tenant is in the pool of that control plane, the roles that serve it get new credentials.
    """
    check_name(tenant)
    asyncio.run(_rotate(tenant, data, meta))
    say(f"next: vcsync tenant kubeconfig {tenant}{reached_by(data, meta)} > {tenant}.kubeconfig")


async def _rotate(tenant: str, data: Path | None, meta: str | None) -> None:
    async with control_plane(data, meta) as server:
        try:
            await server.request("POST", f"{TENANTS}/{quote(tenant)}/rotate")
        except NotFound as error:
            require_embedded(server, error)
            raise FailedError(f"tenant {tenant} does not exist") from error
        say(f"tenant {tenant} has new keys; all kubeconfigs and tokens issued before are invalid")
        try:
            renewed = await _renew(server, tenant)
        except NotFound:
            return  # The operator's space is not the meta cluster of a pool.
    if renewed:
        say("the roles that serve it have new credentials")


async def _renew(server: Client, space: str) -> bool:
    """Give the roles credentials of the new keys; return whether the space is in the pool."""
    registered = await virtual_clusters(server)
    there = server.below(f"/tenants/{space}")
    uid = await cluster_uid(there)
    for vc in registered:
        if recorded_uid(vc) == uid:
            await manifests.apply(there, rbac.tenant_manifests())
            await manifests.apply(server, await role_secrets(server, space, cluster_key(vc)))
            return True
    found = await super_cluster_info(there)
    super_id = found[1].get(names.SUPER_CLUSTER_INFO_KEY) if found else None
    if not super_id or await find_super_cluster(server, super_id) is None:
        return False
    await store_super_credentials(server, super_id, await super_kubeconfigs(server, space))
    return True
