"""`vcsync tenant rotate`: new keys for a space, and credentials by them for the roles of the pool that it is in."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import click

from vcsync.api import names, rbac
from vcsync.cli import manifests, supers
from vcsync.cli.embedded import (
    TENANTS,
    check_name,
    control_plane,
    name_argument,
    reached_by,
    reaching,
    require_embedded,
)
from vcsync.cli.errors import FailedError
from vcsync.cli.help import example
from vcsync.cli.identity import cluster_uid, super_cluster_info
from vcsync.cli.issued import role_kubeconfig, role_secrets
from vcsync.cli.registered import virtual_clusters
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound


@click.command(epilog=example("vcsync tenant rotate acme --data /var/lib/vcsync"))
@name_argument
@reaching
def rotate(tenant: str, data: Path | None, meta: str | None) -> None:
    """Give the tenant NAME a new CA and signing key; certificates and tokens issued before are worthless.

    Where it is in the pool of that control plane, the roles that serve it get new credentials.
    """
    check_name(tenant)
    asyncio.run(_rotate(tenant, data, meta))
    click.echo(f"next: vcsync tenant kubeconfig {tenant}{reached_by(data, meta)} > {tenant}.kubeconfig")


async def _rotate(tenant: str, data: Path | None, meta: str | None) -> None:
    async with control_plane(data, meta) as server:
        try:
            await server.request("POST", f"{TENANTS}/{quote(tenant)}/rotate")
        except NotFound as error:
            require_embedded(server, error)
            raise FailedError(f"there is no tenant {tenant}") from error
        click.echo(f"tenant {tenant} has new keys; all kubeconfigs and tokens issued before are worthless")
        try:
            renewed = await _renew(server, tenant)
        except NotFound:
            return  # the operator's space is no meta cluster of a pool
    if renewed:
        click.echo("the roles that serve it have new credentials")


async def _renew(server: Client, space: str) -> bool:
    """Give the roles credentials by the new keys; return whether the space is in the pool."""
    registered = await virtual_clusters(server)
    there = server.below(f"/tenants/{space}")
    uid = await cluster_uid(there)
    for vc in registered:
        if vc.annotations.get(names.CONTROL_PLANE_UID) == uid:
            await manifests.apply(there, rbac.tenant_manifests())
            await manifests.apply(server, await role_secrets(server, space, names.cluster_key(vc)))
            return True
    found = await super_cluster_info(there)
    super_id = found[1].get(names.SUPER_CLUSTER_INFO_KEY) if found else None
    if not super_id or await supers.find(server, super_id) is None:
        return False
    await supers.store_credentials(server, super_id, await role_kubeconfig(server, space, names.ROLE_SYNCER))
    return True
