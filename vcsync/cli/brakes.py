"""`vcsync brake ...`: deletions that were too many to be believed, and an operator's word about them."""

import asyncio
from typing import Any

import click

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.names import cluster_key
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.cli.common import meta_client, meta_option, output_option, timestamp
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.help import example
from vcsync.cli.output import age, print_objects
from vcsync.cli.registered import virtual_clusters
from vcsync.kube.client import Client

BRAKED = "Braked"
HEADER = ("WHERE", "NAME", "SINCE", "WHAT WAITS")


@click.group(name="brake", epilog=example("vcsync brake status", "vcsync brake release acme"))
def brakes() -> None:
    """Show deletions that wait because they are too many to be believed, and release them."""


@brakes.command(epilog=example("vcsync brake status", "vcsync brake status -o json"))
@output_option
@meta_option
def status(form: str, meta: str | None) -> None:
    """Show which deletions wait for an operator, and why."""
    asyncio.run(_status(form, meta))


async def _status(form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        found = await waiting(client)
    rows = [(each["kind"], each["name"], age(each["since"]), each["message"]) for each in found]
    if form == "table" and not rows:
        click.echo("nothing waits")
        return
    print_objects(found, form, HEADER, rows)


async def waiting(client: Client) -> list[dict[str, Any]]:
    """Return what waits in super clusters and in the ledger, as plain values."""
    found: list[dict[str, Any]] = []
    for envelope in await client.list(SUPER_CLUSTERS):
        told = condition_of(SuperCluster.from_envelope(envelope).status.conditions, BRAKED)
        found += [] if told is None else [_shown("SuperCluster", envelope.name, told)]
    for envelope in await client.list(NAMESPACE_PLACEMENTS):
        told = condition_of(NamespacePlacement.from_envelope(envelope).status.conditions, BRAKED)
        name = f"{envelope.namespace}/{envelope.name}"
        found += [] if told is None else [_shown("NamespacePlacement", name, told)]
    return [each for each in found if each.pop("status") == "True"]


def _shown(kind: str, name: str, told: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "since": told.last_transition_time,
        "message": told.message,
        "status": told.status,
    }


@brakes.command(epilog=example("vcsync brake release acme", "vcsync brake release --all"))
@click.argument("tenant", metavar="TENANT", required=False)
@click.option("--all", "everything", is_flag=True, help="Of all tenants, and what belongs to no tenant.")
@meta_option
def release(tenant: str | None, everything: bool, meta: str | None) -> None:
    """Let deletions of TENANT (its name or cluster key) pass for a quarter of an hour.

    Look first whether the tenant's control plane holds what it should: what goes is gone, with its Pods.
    """
    if everything == bool(tenant):
        raise WrongInputError("name one tenant, or give --all")
    asyncio.run(_release(tenant, meta))


async def _release(tenant: str | None, meta: str | None) -> None:
    async with meta_client(meta) as client:
        tenants = [each for each in await virtual_clusters(client) if tenant is None or _is(each, tenant)]
        if tenant is not None and not tenants:
            raise FailedError(f"there is no tenant {tenant}; 'vcsync tenant list' shows those there are")
        patch = {"metadata": {"annotations": {names.BRAKE_RELEASED: timestamp()}}}
        for each in tenants:
            await client.patch(VIRTUAL_CLUSTERS, each.name, patch, each.namespace)
            click.echo(f"tenant {each.spec.tenant or each.name}: deletions pass for a quarter of an hour")
        for envelope in await client.list(SUPER_CLUSTERS) if tenant is None else ():
            await client.patch(SUPER_CLUSTERS, envelope.name, patch)
            click.echo(
                f"super cluster {envelope.name}: so do those of namespaces that the ledger does not know"
            )


def _is(vc: VirtualCluster, tenant: str) -> bool:
    return tenant in (vc.spec.tenant or vc.name, cluster_key(vc))
