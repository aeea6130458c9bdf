"""`vcsync tenant metrics`: lets syncers serve `kubectl top` in a tenant with a control plane of its own."""

import asyncio
from contextlib import suppress
from pathlib import Path

import click

from vcsync.api import names, rbac
from vcsync.cli.command.common import admin_client, kubeconfig_option
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import API_SERVICES
from vcsync.registration import manifests
from vcsync.registration.kubeconfigs import read_admin


@click.command(
    name="metrics",
    epilog=example(
        "vcsync tenant metrics acme --kubeconfig acme.kubeconfig",
        "vcsync tenant metrics acme --kubeconfig acme.kubeconfig --off",
    ),
)
@click.argument("tenant", metavar="NAME")
@kubeconfig_option
@click.option("--off", is_flag=True, help="Take the permission away again, and remove the registration.")
def tenant_metrics(tenant: str, kubeconfig: Path, off: bool) -> None:
    """Let syncers serve metrics.k8s.io in the control plane of the tenant NAME: kubectl top and autoscalers.

    Syncers need --kubelet-address. This gives them the permission to register APIService v1beta1.metrics.k8s.io there,
    and to ask one another as kubelets (nodes/proxy). Embedded control planes need no such permission.
    """
    asyncio.run(_switch(tenant, kubeconfig, off=off))


async def _switch(tenant: str, kubeconfig: Path, *, off: bool) -> None:
    async with admin_client(read_admin(kubeconfig).path, tenant) as control_plane:
        if off:
            await manifests.delete(control_plane, rbac.metrics_access())
            await _unregister(control_plane)
            say(f"syncers no longer serve metrics.k8s.io in tenant {tenant}")
            return
        await manifests.apply(control_plane, rbac.metrics_access())
    say(f"syncers with --kubelet-address serve metrics.k8s.io in tenant {tenant} within a minute")


async def _unregister(control_plane: Client) -> None:
    """Remove the registration, unless it is the tenant's own."""
    with suppress(NotFound):
        found = await control_plane.get(API_SERVICES, names.METRICS_API_SERVICE)
        if found.labels.get(rbac.PART_OF) == rbac.PROJECT:
            await control_plane.delete(API_SERVICES, found.name, uid=found.uid)
