"""`vcsync tenant remove | delete`: tenants leave the pool, or altogether."""

import asyncio
from pathlib import Path
from urllib.parse import quote, urlencode

import click
import msgspec

from vcsync.api import names
from vcsync.api.names import cluster_key
from vcsync.api.objects import NamespacePlacement, VirtualCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, VIRTUAL_CLUSTERS
from vcsync.api.resources import TENANTS as TENANT_RECORDS
from vcsync.cli import manifests
from vcsync.cli.common import meta_client, meta_option
from vcsync.cli.embedded import TENANTS, check_name, control_plane, name_argument, reaching, require_embedded
from vcsync.cli.errors import FailedError
from vcsync.cli.help import example
from vcsync.cli.registered import find
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES

POLL_SECONDS = 1.0
MAX_GRACE = 7 * 24 * 3600
FORCED_SECONDS = 600.0
"""That deleting everything of a tenant at once may take."""

_wait = click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until nothing of it is left."
)
_timeout = click.option(
    "--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds to wait."
)


@click.command(
    epilog=example(
        "vcsync tenant remove acme",
    )
)
@name_argument
@_wait
@_timeout
@meta_option
def remove(tenant: str, wait: bool, timeout: float, meta: str | None) -> None:
    """Remove a tenant and everything of it in the super clusters; its control plane stays as it is.

    The tenant's record goes last: only when no super cluster holds anything of it any more. Cut off or run
    with --no-wait, the removal goes on by itself; run it again to see it through.
    """
    asyncio.run(_remove(tenant, wait, timeout, meta))


async def _remove(tenant: str, wait: bool, seconds: float, meta: str | None) -> None:
    async with meta_client(meta) as client:
        if not await _leave_pool(client, tenant, wait, seconds):
            raise FailedError(f"there is no tenant {tenant}; 'vcsync tenant list' shows those there are")
    if wait:
        click.echo(f"tenant {tenant} is removed")
    else:
        click.echo(f"run 'vcsync tenant remove {tenant}' again to see it through")


async def _leave_pool(client: Client, tenant: str, wait: bool, seconds: float) -> bool:
    """Have a tenant's copies in all super clusters removed; return whether it was, or is still, in the pool."""
    vc = await find(client, tenant)
    if vc is None:
        return await _remove_remains(client, tenant)
    root = cluster_key(vc)
    await client.delete(VIRTUAL_CLUSTERS, vc.name, vc.namespace, uid=vc.uid)
    click.echo(f"tenant {tenant} is being removed from the pool")
    if wait:
        await _wait_drained(client, vc, root, seconds)
        await manifests.delete_if_there(client, NAMESPACES, root)
        await manifests.delete_if_there(client, TENANT_RECORDS, tenant)
    return True


async def _remove_remains(client: Client, tenant: str) -> bool:
    """End a removal that was cut off after the VirtualCluster had gone; return whether there was one."""
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
    """Wait until schedulers and syncers have let go of the tenant; tell what is still held, and by whom."""
    last = ""
    try:
        async with asyncio.timeout(seconds):
            while await _still_there(client, vc):
                held = await _held(client, root)
                if held != last:
                    click.echo(held)
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


async def _held(client: Client, root: str) -> str:
    """Say in one line what keeps the tenant from going."""
    placements = [NamespacePlacement.from_envelope(e) for e in await client.list(NAMESPACE_PLACEMENTS, root)]
    if not placements:
        return "waiting for nsscheduler to release the tenant"
    supers = {
        super_id
        for placement in placements
        for super_id in map(names.super_id_of_finalizer, placement.finalizers)
        if super_id
    }
    where = f" from super clusters {', '.join(sorted(supers))}" if supers else ""
    return f"namespaces still to drain{where}: {len(placements)}"


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
    help="How long objects wait for programs of yours that put finalizers on them.",
)
@click.option("--force", is_flag=True, help="Wait for no finalizer, also of a deletion that has begun.")
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

    Its credentials are worthless at once. Cut off or run with --no-wait, the deletion goes on by itself; run
    it again to see it through, or to give it another deadline.
    """
    check_name(tenant)
    asyncio.run(_delete(tenant, 0 if force else grace_period, wait, timeout, data, meta))


async def _delete(  # noqa: PLR0917  one command's options
    tenant: str, grace: int, wait: bool, seconds: float, data: Path | None, meta: str | None
) -> None:
    async with control_plane(data, meta) as client:
        served = await _begin(client, tenant, grace)
        if not await _in_pool(client, tenant, wait, seconds) and not served:
            raise FailedError(f"there is no tenant {tenant}")
        if not wait:
            click.echo(f"run 'vcsync tenant delete {tenant}' again to see it through")
            return
        await _wait_gone(client, tenant, seconds)
    click.echo(f"tenant {tenant} is deleted")


async def _begin(client: Client, tenant: str, grace: int) -> bool:
    """Have the credentials die; return whether there is such a tenant."""
    query = urlencode({"gracePeriodSeconds": grace})
    try:
        await client.request("DELETE", f"{_path(tenant)}?{query}", timeout=FORCED_SECONDS)
    except NotFound as error:
        require_embedded(client, error)
        return False
    click.echo(f"credentials of tenant {tenant} are worthless from now on")
    return True


async def _in_pool(client: Client, tenant: str, wait: bool, seconds: float) -> bool:
    try:
        return await _leave_pool(client, tenant, wait, seconds)
    except NotFound:
        return False  # the operator's space is no meta cluster of a pool


async def _wait_gone(client: Client, tenant: str, seconds: float) -> None:
    """Wait until the control plane has forgotten the tenant; tell what it waits for."""
    last = ""
    try:
        async with asyncio.timeout(seconds):
            while told := await _told(client, tenant):
                if told != last:
                    click.echo(told)
                last = told
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise FailedError(
            f"tenant {tenant} is not gone after {seconds:.0f} s: {last or 'no answer'}; it goes on by itself, "
            f"'vcsync tenant delete {tenant} --force' waits for no finalizer"
        ) from None


async def _told(client: Client, tenant: str) -> str:
    """Say in one line what the deletion waits for; empty: it is over."""
    try:
        answer = await client.request("GET", _path(tenant))
    except NotFound:
        return ""
    found = msgspec.json.decode(answer, type=_Leaving)
    if not found.left.held:
        return "its objects are being deleted"
    held = ", ".join(f"{finalizer} ({count})" for finalizer, count in found.left.held)
    return f"waiting until {found.deadline} for who put these finalizers on objects: {held}"


def _path(tenant: str) -> str:
    return f"{TENANTS}/{quote(tenant)}"
