"""`vcsync status`: the whole deployment on one page."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from vcsync.api.conditions import condition_of
from vcsync.api.names import super_id_of_finalizer
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.cli.command.common import meta_client, meta_option, output_option
from vcsync.cli.command.endpoints import Endpoints, endpoint_options, roles_of
from vcsync.cli.command.help import example
from vcsync.cli.command.output import amounts, document, print_names, table, wide
from vcsync.cli.command.terminal import say
from vcsync.cli.status import alarms, troubles
from vcsync.cli.super import commands as supers
from vcsync.cli.tenant import commands as tenants
from vcsync.cli.tenant.aside import set_aside
from vcsync.tenancy.distribution import ledger_of
from vcsync.tenancy.health import judge_all_stored

NAMESPACES_HEADER = ("TENANT", "NAMESPACE", "QUOTA", "SLICES", "PLACED", "WAITING", "STATE")
ROLES_HEADER = ("ROLE", "READY", "RESTARTS", "REMARK")


@click.command(epilog=example("vcsync status", "vcsync status --endpoint 127.0.0.1:10550 -o json"))
@endpoint_options
@output_option
@meta_option
def status(
    endpoint: tuple[str, ...],
    endpoint_token_file: Path | None,
    endpoint_ca: Path | None,
    form: str,
    meta: str | None,
) -> None:
    """Show super clusters, tenants, the placements of their namespaces, problems, and recent warnings.

    With --endpoint it also shows the roles. Rows are sorted by name, warnings from the newest to the oldest.
    """
    asyncio.run(_status(Endpoints(endpoint, endpoint_token_file, endpoint_ca), form, meta))


async def _status(endpoints: Endpoints, form: str, meta: str | None) -> None:
    roles = await roles_of(endpoints)
    async with meta_client(meta) as client:
        pool = [SuperCluster.from_envelope(one) for one in await client.list(SUPER_CLUSTERS)]
        clients = [VirtualCluster.from_envelope(one) for one in await client.list(VIRTUAL_CLUSTERS)]
        ledger = [NamespacePlacement.from_envelope(one) for one in await client.list(NAMESPACE_PLACEMENTS)]
        warned = await alarms.alarms(client)
        aside = await set_aside(client)
    pool.sort(key=lambda one: one.name)
    clients.sort(key=lambda one: (one.spec.tenant or one.name, one.namespace, one.name))
    ledger.sort(key=lambda one: (tenant_of(one, clients), one.name, one.namespace))
    roles = dict(sorted(roles.items()))
    dealt = ledger_of(ledger)
    judged = judge_all_stored(pool, datetime.now(UTC))
    if form == "name":
        print_names(f"supercluster/{one.name}" for one in pool)
        print_names(map(tenants.name_of, clients))
        print_names(f"namespaceplacement/{one.namespace}/{one.name}" for one in ledger)
        return
    if form in ("json", "yaml"):
        answer: dict[str, Any] = {
            "superClusters": [supers.as_plain(one, dealt, judged[one.name]) for one in pool],
            "tenants": [tenants.as_plain(one, aside) for one in clients],
            "namespaces": [as_plain(one, clients) for one in ledger],
            "warnings": msgspec.to_builtins(warned),
        }
        say(document(answer | ({"roles": roles} if endpoints.addresses else {}), form))
        return
    of_pool = [supers.row(one, dealt, judged[one.name]) for one in pool]
    of_tenants = [tenants.row(one, aside) for one in clients]
    if form == "wide":
        say(wide(supers.HEADER, of_pool, supers.WIDE_HEADER, map(supers.wide_row, pool)))
        say()
        more = (tenants.wide_row(one, aside) for one in clients)
        say(wide(tenants.HEADER, of_tenants, tenants.WIDE_HEADER, more))
    else:
        say(table(supers.HEADER, of_pool))
        say()
        say(table(tenants.HEADER, of_tenants))
    say()
    say(table(NAMESPACES_HEADER, (row(one, clients) for one in ledger)))
    if wrong := troubles.rows_aside(aside) + troubles.rows(clients):
        say()
        say(table(troubles.HEADER, wrong))
    if warned:
        say()
        say(table(alarms.HEADER, map(alarms.row, warned)))
    if endpoints.addresses:
        say()
        say(table(ROLES_HEADER, (role_row(name, role) for name, role in roles.items())))


def tenant_of(placement: NamespacePlacement, clients: list[VirtualCluster]) -> str:
    """Return the name of the tenant that a ledger entry belongs to."""
    for vc in clients:
        if vc.uid == placement.spec.virtual_cluster.uid:
            return vc.spec.tenant or vc.name
    return placement.spec.virtual_cluster.name


def as_plain(placement: NamespacePlacement, clients: list[VirtualCluster]) -> dict[str, Any]:
    """Return a ledger entry as plain values for JSON and YAML."""
    return {
        "tenant": tenant_of(placement, clients),
        "namespace": placement.name,
        "deleting": placement.deleting,
        "drainsFrom": draining(placement),
        "spec": to_wire(placement.spec),
        "status": to_wire(placement.status),
    }


def row(placement: NamespacePlacement, clients: list[VirtualCluster]) -> tuple[str, ...]:
    """Format a ledger entry as a row of the table."""
    spec, state = placement.spec, placement.status
    return (
        tenant_of(placement, clients),
        placement.name,
        amounts(spec.quota),
        str(spec.slices),
        shares(state.placements),
        str(state.waiting or ""),
        state_of(placement),
    )


def shares(placements: dict[str, int]) -> str:
    """Format slices per super cluster for one cell: ``r1=2,r2=1``."""
    return ",".join(f"{super_id}={slices}" for super_id, slices in sorted(placements.items()) if slices)


def draining(placement: NamespacePlacement) -> list[str]:
    """Return the super clusters that still have to clear slices."""
    return sorted(
        super_id
        for super_id in map(super_id_of_finalizer, placement.finalizers)
        if super_id and (placement.deleting or not placement.status.placements.get(super_id))
    )


def state_of(placement: NamespacePlacement) -> str:
    """Describe the state of a namespace's placement in a word or two."""
    leaving = draining(placement)
    if placement.deleting:
        return f"being removed from {', '.join(leaving)}" if leaving else "being removed"
    placed = condition_of(placement.status.conditions, "Placed")
    word = placed.reason if placed is not None else "not yet decided"
    return f"{word}, drains from {', '.join(leaving)}" if leaving else word


def role_row(name: str, role: dict[str, Any]) -> tuple[str, ...]:
    """Format a role's state as a row of the table."""
    ready = "yes" if role.get("ready") else "no"
    return name, ready, str(role.get("restarts", "")), str(role.get("reason") or "")
