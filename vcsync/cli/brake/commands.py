"""`vcsync brake ...`: shows and releases deletions that the brake holds because there are implausibly many."""

import asyncio
from typing import Any

import click

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, cluster_key
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.cli.command.common import meta_client, meta_option, output_option, timestamp
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import age, print_objects
from vcsync.cli.command.terminal import say
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES
from vcsync.registration.registered import virtual_clusters

BRAKED = "Braked"
HEADER = ("WHERE", "NAME", "SINCE", "WHAT WAITS")


@click.group(name="brake", epilog=example("vcsync brake status", "vcsync brake release acme"))
def brakes() -> None:
    """Show deletions that the brake holds because there are implausibly many, and release them."""


@brakes.command(epilog=example("vcsync brake status", "vcsync brake status -o json"))
@output_option
@meta_option
def status(form: str, meta: str | None) -> None:
    """Show the deletions that wait for an operator, and the reasons."""
    asyncio.run(_status(form, meta))


async def _status(form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        found = await waiting(client)
    rows = [(each["kind"], each["name"], age(each["since"]), each["message"]) for each in found]
    if form in ("table", "wide") and not rows:
        say("no deletion waits")
        return
    print_objects(
        found, form, HEADER, rows, names=[f"{each['kind'].lower()}/{each['name']}" for each in found]
    )


async def waiting(client: Client) -> list[dict[str, Any]]:
    """Return the waiting deletions of super clusters, of ledger entries and of tenants, as plain values."""
    found: list[dict[str, Any]] = []
    for envelope in await client.list(VIRTUAL_CLUSTERS):
        conditions = VirtualCluster.from_envelope(envelope).status.conditions
        name = f"{envelope.namespace}/{envelope.name}"
        found += [_shown("VirtualCluster", name, each) for each in conditions if each.type == BRAKED]
    for envelope in await client.list(SUPER_CLUSTERS):
        held = condition_of(SuperCluster.from_envelope(envelope).status.conditions, BRAKED)
        found += [] if held is None else [_shown("SuperCluster", envelope.name, held)]
    for envelope in await client.list(NAMESPACE_PLACEMENTS):
        if envelope.deleting:
            # It has been released. Its condition stays until the syncers have cleared it.
            continue
        held = condition_of(NamespacePlacement.from_envelope(envelope).status.conditions, BRAKED)
        name = f"{envelope.namespace}/{envelope.name}"
        found += [] if held is None else [_shown("NamespacePlacement", name, held)]
    return [each for each in found if each.pop("status") == "True"]


def _shown(kind: str, name: str, condition: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "since": condition.last_transition_time,
        "message": condition.message,
        "status": condition.status,
    }


@brakes.command(
    epilog=example(
        "vcsync brake release acme",
        "vcsync brake release --super-cluster r1",
        "vcsync brake release --all",
    )
)
@click.argument("tenant", metavar="TENANT", required=False)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Release deletions of all tenants, and those that belong to no tenant.",
)
@click.option(
    "--super-cluster",
    "super_id",
    metavar="ID",
    help="Release namespaces in this super cluster that the ledger does not know, instead of a tenant's deletions.",
)
@meta_option
def release(tenant: str | None, everything: bool, super_id: str | None, meta: str | None) -> None:
    """Allow deletions of TENANT (its name or cluster key) for 15 minutes.

    Before you do, check that the tenant's control plane is complete: deleted objects and their Pods are lost.
    """
    if everything + bool(tenant) + bool(super_id) != 1:
        raise WrongInputError("name one tenant, or give --super-cluster ID, or --all")
    asyncio.run(_release_super(super_id, meta) if super_id else _release(tenant, meta))


async def _release_super(super_id: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        try:
            await client.patch(SUPER_CLUSTERS, super_id, _word())
        except NotFound:
            raise FailedError(
                f"super cluster {super_id} does not exist; 'vcsync super list' shows all super clusters"
            ) from None
    say(f"super cluster {super_id}: namespaces that the ledger does not know may be deleted for 15 minutes")


def _word() -> dict[str, Any]:
    return {"metadata": {"annotations": {names.BRAKE_RELEASED: timestamp()}}}


async def _release(tenant: str | None, meta: str | None) -> None:
    async with meta_client(meta) as client:
        tenants = [each for each in await virtual_clusters(client) if tenant is None or _is(each, tenant)]
        if tenant is not None and not tenants:
            raise FailedError(f"tenant {tenant} does not exist; 'vcsync tenant list' shows all tenants")
        patch = _word()
        for each in tenants:
            await client.patch(VIRTUAL_CLUSTERS, each.name, patch, each.namespace)
            say(f"tenant {each.spec.tenant or each.name}: deletions are allowed for 15 minutes")
        if tenant is None:
            await client.patch(NAMESPACES, names.SYSTEM_NAMESPACE, patch)
            say("deletions of tenants without a VirtualCluster are allowed, too")
        for envelope in await client.list(SUPER_CLUSTERS) if tenant is None else ():
            await client.patch(SUPER_CLUSTERS, envelope.name, patch)
            say(
                f"super cluster {envelope.name}: namespaces that the ledger does not know may be deleted, too"
            )


def _is(vc: VirtualCluster, tenant: str) -> bool:
    return tenant in (vc.spec.tenant or vc.name, cluster_key(vc))
