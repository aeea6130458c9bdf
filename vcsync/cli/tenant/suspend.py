"""`vcsync tenant suspend | resume`: stops a tenant's Pods and the writes of its users, and lets both go on."""

import asyncio
from contextlib import suppress
from pathlib import Path

import click

from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.cli.command.common import meta_client
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant import embedded
from vcsync.kube.errors import NotFound
from vcsync.registration.registered import find, is_managed


@click.command(
    epilog=example("vcsync tenant suspend acme", "vcsync tenant suspend acme --data /var/lib/vcsync")
)
@embedded.name_argument
@embedded.reaching
def suspend(tenant: str, data: Path | None, meta: str | None) -> None:
    """Suspend the tenant NAME: its users can only read, and its Pods are removed from the super clusters.

    Nothing else is deleted. 'vcsync tenant resume' lets its controllers make their Pods again. Pods without a controller
    are gone, as after the drain of a super cluster.
    """
    embedded.check_name(tenant)
    asyncio.run(_set(tenant, data, meta, suspended=True))
    say(f"tenant {tenant} is being suspended")
    say(f"next: kubectl wait --for=condition=Suspended tenant/{tenant}")


@click.command(epilog=example("vcsync tenant resume acme"))
@embedded.name_argument
@embedded.reaching
def resume(tenant: str, data: Path | None, meta: str | None) -> None:
    """Resume the suspended tenant NAME: its users can write, and its Pods get places again."""
    embedded.check_name(tenant)
    asyncio.run(_set(tenant, data, meta, suspended=False))
    say(f"tenant {tenant} is resumed")


async def _set(tenant: str, data: Path | None, meta: str | None, *, suspended: bool) -> None:
    patch = {"spec": {"suspended": suspended}}
    async with meta_client(embedded.kubeconfig_of(data, meta)) as cluster:
        vc = await find(cluster, tenant)
        if vc is not None and await is_managed(cluster, vc.name):
            # The tenant controller does the rest.
            await cluster.patch(TENANTS, vc.name, patch)
            return
        if vc is not None:
            await cluster.patch(VIRTUAL_CLUSTERS, vc.name, patch, vc.namespace)
            with suppress(NotFound):
                await cluster.patch(TENANTS, vc.spec.tenant or vc.name, patch)
    try:
        await embedded.change(tenant, {"suspended": suspended}, data, meta)
    except FailedError:
        if vc is None:
            raise
        say(
            "its control plane is not reached through this server: its users can write, and only its Pods are affected",
            err=True,
        )
