"""`vcsync tenant remove | delete`: removes tenants from the pool, or deletes them."""

import asyncio
from pathlib import Path
from urllib.parse import quote, urlencode

import click
import msgspec

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.objects import Tenant, VirtualCluster, cluster_key
from vcsync.api.resources import TENANTS as TENANT_RECORDS
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.cli.command.common import admin_client, meta_client, meta_option
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.registration import placement_webhook
from vcsync.cli.tenant.embedded import check_name, control_plane, name_argument, reaching, require_embedded
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES
from vcsync.registration import manifests
from vcsync.registration.cluster_identity import cluster_uid
from vcsync.registration.issued import TENANTS
from vcsync.registration.kubeconfigs import Admin, read_admin
from vcsync.registration.pod_names import free_names
from vcsync.registration.registered import find, is_managed
from vcsync.registration.removal import removal_waits_for
from vcsync.tenancy.proof import recorded_uid

POLL_SECONDS = 1.0
MAX_GRACE = 7 * 24 * 3600
FORCED_SECONDS = 600.0
"""Timeout in seconds for one request that deletes all objects of a tenant."""

_wait = click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until everything is removed."
)
_timeout = click.option(
    "--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds to wait."
)


@click.command(
    epilog=example(
        "vcsync tenant remove acme",
        "vcsync tenant remove acme --kubeconfig acme.kubeconfig",
    )
)
@name_argument
@_wait
@_timeout
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Administrator's kubeconfig of the tenant: also remove its placement webhook, and vcsync's finalizer from its Pods.",
)
@meta_option
def remove(tenant: str, wait: bool, timeout: float, kubeconfig: Path | None, meta: str | None) -> None:
    """Remove a tenant and its objects in the super clusters; its control plane is changed only with --kubeconfig.

    The tenant's record is deleted last, when no super cluster has objects of it any more. If the command is
    interrupted or runs with --no-wait, the removal continues by itself; run it again to wait for the end.
    """
    admin = None if kubeconfig is None else read_admin(kubeconfig)
    asyncio.run(_remove(tenant, wait, timeout, admin, meta))


async def _remove(tenant: str, wait: bool, seconds: float, admin: Admin | None, meta: str | None) -> None:
    async with meta_client(meta) as client:
        if await is_managed(client, tenant):
            raise FailedError(
                f"tenant {tenant} is managed by its Tenant object, which would register it again: 'kubectl delete tenant "
                f"{tenant}' or 'vcsync tenant delete {tenant}' deletes it"
            )
        vc = await find(client, tenant)
        await _end_placement(client, tenant, admin)
        if not await _leave_pool(client, tenant, wait, seconds):
            raise FailedError(f"tenant {tenant} is not in the pool; 'vcsync tenant list' shows all tenants")
    if wait and admin is not None and vc is not None:
        await _free_names(vc, admin)
    if wait:
        say(f"tenant {tenant} is removed")
    else:
        say(f"run 'vcsync tenant remove {tenant}' again to wait for the end")


async def _end_placement(client: Client, tenant: str, admin: Admin | None) -> None:
    """Remove the placement webhook from a tenant's control plane, or tell that it is left there."""
    vc = await find(client, tenant)
    if vc is None or (admin is None and await placement_webhook.installed(client, cluster_key(vc)) is None):
        return
    if admin is None:
        say(
            f"its control plane still asks about new Pods: 'kubectl delete mutatingwebhookconfiguration "
            f"{names.PLACEMENT_WEBHOOK}' there, or give --kubeconfig"
        )
        return
    async with admin_client(admin.path, tenant) as control_plane:
        if await cluster_uid(control_plane) != recorded_uid(vc):
            raise FailedError(
                f"--kubeconfig leads to a control plane that is not tenant {tenant}'s; nothing was removed"
            )
        await placement_webhook.remove_from(control_plane)


async def _free_names(vc: VirtualCluster, admin: Admin) -> None:
    """Remove the finalizer of Pods that may have had copies, now that no super cluster has any."""
    async with admin_client(admin.path, vc.name) as control_plane:
        freed = await free_names(control_plane)
    if freed:
        say(f"Pods that have no finalizer {names.COPY_FINALIZER} any more: {freed}")


async def _leave_pool(client: Client, tenant: str, wait: bool, seconds: float) -> bool:
    """Remove a tenant's copies in all super clusters; return whether it was, or still is, in the pool."""
    vc = await find(client, tenant)
    if vc is None:
        return await _remove_remains(client, tenant)
    root = cluster_key(vc)
    await client.delete(VIRTUAL_CLUSTERS, vc.name, vc.namespace, uid=vc.uid)
    say(f"tenant {tenant} is being removed from the pool")
    if wait:
        await _wait_drained(client, vc, root, seconds)
        await manifests.delete_if_there(client, NAMESPACES, root)
        await manifests.delete_if_there(client, TENANT_RECORDS, tenant)
    return True


async def _remove_remains(client: Client, tenant: str) -> bool:
    """Finish a removal that was interrupted after the VirtualCluster had gone; return whether there was one."""
    roots = [
        envelope.name
        for envelope in await client.list(NAMESPACES)
        if not envelope.deleting
        and envelope.annotations.get(names.VC_ROOT_NAMESPACE) == names.TRUE
        and envelope.annotations.get(names.VC_NAME) == tenant
        and envelope.annotations.get(names.VC_NAMESPACE) == names.DEFAULT_VC_NAMESPACE
    ]
    for root in roots:
        await manifests.delete_if_there(client, NAMESPACES, root)
    return await manifests.delete_if_there(client, TENANT_RECORDS, tenant) or bool(roots)


async def _wait_drained(client: Client, vc: VirtualCluster, root: str, seconds: float) -> None:
    """Wait until schedulers and syncers have released the tenant; print what remains and the roles it waits for."""
    last = ""
    try:
        async with asyncio.timeout(seconds):
            while await _still_there(client, vc):
                held = await removal_waits_for(client, root)
                if held != last:
                    say(held)
                last = held
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise FailedError(
            f"tenant {vc.name} is not gone after {seconds:.0f} s: {last or 'no answer'}; "
            "are nsscheduler and the syncers of these super clusters running? (vcsync status)"
        ) from None


async def _still_there(client: Client, vc: VirtualCluster) -> bool:
    try:
        return (await client.get(VIRTUAL_CLUSTERS, vc.name, vc.namespace)).uid == vc.uid
    except NotFound:
        return False


class _Left(msgspec.Struct):
    objects: int
    held: list[tuple[str, int]]
    more: bool


class _Leaving(msgspec.Struct):
    phase: str
    deadline: str
    left: _Left


@click.command(
    epilog=example(
        "vcsync tenant delete acme --data /var/lib/vcsync",
        "vcsync tenant delete acme --grace-period 3600",
        "vcsync tenant delete acme --force",
    )
)
@name_argument
@click.option(
    "--grace-period",
    type=click.IntRange(0, MAX_GRACE),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Seconds for which objects wait for your programs to remove finalizers.",
)
@click.option("--force", is_flag=True, help="Do not wait for finalizers, also for a deletion in progress.")
@_wait
@_timeout
@reaching
def delete(  # noqa: PLR0917  one command's options
    tenant: str,
    grace_period: int,
    force: bool,
    wait: bool,
    timeout: float,
    data: Path | None,
    meta: str | None,
) -> None:
    """Delete the tenant NAME of an embedded control plane with everything it has, in the super clusters too.

    Its credentials become invalid immediately. If the command is interrupted or runs with --no-wait, the deletion
    continues by itself; run it again to wait for the end, or to set another deadline.
    """
    check_name(tenant)
    asyncio.run(_delete(tenant, 0 if force else grace_period, wait, timeout, data, meta))


async def _delete(  # noqa: PLR0917  one command's options
    tenant: str, grace: int, wait: bool, seconds: float, data: Path | None, meta: str | None
) -> None:
    async with control_plane(data, meta) as client:
        managed = await is_managed(client, tenant)
        if managed:
            # First, or the tenant controller would make again what the next steps delete.
            await manifests.delete_if_there(client, TENANT_RECORDS, tenant)
        served = await _begin(client, tenant, grace, embedded=not managed)
        if managed:
            await _wait_released(client, tenant, wait, seconds)
        elif not await _in_pool(client, tenant, wait, seconds) and not served:
            raise FailedError(f"tenant {tenant} does not exist")
        if not wait:
            say(f"run 'vcsync tenant delete {tenant}' again to wait for the end")
            return
        await _wait_gone(client, tenant, seconds)
    say(f"tenant {tenant} is deleted")


async def _wait_released(client: Client, tenant: str, wait: bool, seconds: float) -> None:
    """Wait until the tenant controller has removed everything; print what it waits for."""
    last = ""
    try:
        async with asyncio.timeout(seconds):
            while wait and (waits_for := await _waits_for(client, tenant)) is not None:
                if waits_for != last:
                    say(waits_for)
                last = waits_for
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise FailedError(
            f"tenant {tenant} is not gone after {seconds:.0f} s: {last or 'no answer'}; it goes on by itself if 'vcsync run "
            "tenants', nsscheduler and the syncers run (vcsync status)"
        ) from None


async def _waits_for(client: Client, tenant: str) -> str | None:
    """Return the message of a Tenant's condition Ready; None: there is no such Tenant."""
    try:
        found = Tenant.from_envelope(await client.get(TENANT_RECORDS, tenant))
    except NotFound:
        return None
    ready = condition_of(found.status.conditions, "Ready")
    return ready.message if ready else ""


async def _begin(client: Client, tenant: str, grace: int, *, embedded: bool = True) -> bool:
    """Invalidate the credentials; return whether the tenant exists. `embedded`: the server must have embedded ones."""
    query = urlencode({"gracePeriodSeconds": grace})
    try:
        await client.request("DELETE", f"{_path(tenant)}?{query}", timeout=FORCED_SECONDS)
    except NotFound as error:
        if embedded:
            require_embedded(client, error)
        return False
    say(f"credentials of tenant {tenant} are invalid from now on")
    return True


async def _in_pool(client: Client, tenant: str, wait: bool, seconds: float) -> bool:
    try:
        return await _leave_pool(client, tenant, wait, seconds)
    except NotFound:
        return False  # The operator's space is not the meta cluster of a pool.


async def _wait_gone(client: Client, tenant: str, seconds: float) -> None:
    """Wait until the control plane has deleted the tenant; print what it waits for."""
    last = ""
    try:
        async with asyncio.timeout(seconds):
            while progress := await _progress(client, tenant):
                if progress != last:
                    say(progress)
                last = progress
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise FailedError(
            f"tenant {tenant} is not gone after {seconds:.0f} s: {last or 'no answer'}; the deletion continues by itself; "
            f"'vcsync tenant delete {tenant} --force' does not wait for finalizers"
        ) from None


async def _progress(client: Client, tenant: str) -> str:
    """Describe in one line what the deletion waits for; empty: it is complete."""
    try:
        answer = await client.request("GET", _path(tenant))
    except NotFound:
        return ""
    found = msgspec.json.decode(answer, type=_Leaving)
    if not found.left.held:
        return "its objects are being deleted"
    held = ", ".join(f"{finalizer} ({count})" for finalizer, count in found.left.held)
    return f"waiting until {found.deadline} for these finalizers on objects: {held}"


def _path(tenant: str) -> str:
    return f"{TENANTS}/{quote(tenant)}"
