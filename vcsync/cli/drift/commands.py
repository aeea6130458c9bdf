"""`vcsync drift`: shows what was changed in super clusters only, which field manager wrote it, and what the syncers restored."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import click
import msgspec

from vcsync.api import names
from vcsync.api.objects import cluster_key
from vcsync.cli.command.common import meta_client, meta_option, output_option
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import print_objects
from vcsync.cli.command.terminal import say
from vcsync.kube.client import Client
from vcsync.kube.errors import Gone, KubeError
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope
from vcsync.objects.times import time_text
from vcsync.process.legible import legible
from vcsync.registration.registered import virtual_clusters
from vcsync.syncer.drift.repairs import FieldChange, Repair
from vcsync.syncer.drift.store import stored_repairs

HEADER = ("TIME", "SUPER", "TENANT", "OBJECT", "CAUSE", "FIELD", "FOUND", "RESTORED", "BY")
AGAIN_SECONDS = 2.0
"""Seconds between two attempts to follow a meta cluster that does not answer."""


class Shown(NamedTuple):
    """A repair, and where it was made."""

    super_id: str
    tenant: str
    repair: Repair


class Choice(NamedTuple):
    """Filter of the repairs that are shown. An empty text stands for all.

    Attributes:
        tenant: Name or cluster key.
        super_id: Id of the super cluster.
    """

    tenant: str
    super_id: str

    def admits(self, shown: Shown) -> bool:
        """Return whether a repair is shown."""
        return (self.tenant in ("", shown.tenant, shown.repair.tenant)) and (
            self.super_id in ("", shown.super_id)
        )


@click.command(
    name="drift",
    epilog=example(
        "vcsync drift", "vcsync drift --follow --super-cluster r1", "vcsync drift --tenant acme -o json"
    ),
)
@click.option("--tenant", default="", metavar="NAME", help="Show repairs of this tenant's objects only.")
@click.option("--super-cluster", "super_id", default="", metavar="ID", help="Show this super cluster only.")
@click.option("--follow", is_flag=True, help="Go on with new repairs, one line each.")
@output_option
@meta_option
def drift(*, tenant: str, super_id: str, follow: bool, form: str, meta: str | None) -> None:
    """Show the latest changes that were made in super clusters only, and repaired: 500 for each super cluster.

    A change is found within moments, or by the patrol within minutes. Values of Secrets are shown as hashes, which differ
    in each process.
    """
    if follow and form != "table":
        raise WrongInputError("--follow prints lines: leave out --output")
    choice = Choice(tenant, super_id)
    asyncio.run(_follow(choice, meta) if follow else _list(choice, form, meta))


async def _list(choice: Choice, form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        found = [each for each in await recorded(client) if choice.admits(each)]
    if form == "table" and not found:
        say("no repairs are recorded")
        return
    print_objects(
        [as_plain(each) for each in found],
        form,
        HEADER,
        [row for each in found for row in rows(each)],
        names=[f"{each.repair.kind}/{each.repair.name}" for each in found],
    )


async def recorded(client: Client) -> list[Shown]:
    """Return all recorded repairs, oldest first."""
    tenants = await _tenants(client)
    config_maps = await client.list(CONFIG_MAPS, names.DRIFT_NAMESPACE, label_selector=names.DRIFT_OF)
    found = [shown for each in config_maps for shown in _shown(each, tenants)]
    return sorted(found, key=lambda shown: shown.repair.when)


async def _tenants(client: Client) -> Mapping[str, str]:
    """Return cluster key -> name of the tenants."""
    return {cluster_key(each): each.spec.tenant or each.name for each in await virtual_clusters(client)}


def _shown(config_map: Envelope, tenants: Mapping[str, str]) -> list[Shown]:
    super_id = config_map.labels.get(names.DRIFT_OF, "")
    return [
        Shown(super_id, tenants.get(repair.tenant, repair.tenant), repair)
        for repair in stored_repairs(config_map)
    ]


async def _follow(choice: Choice, meta: str | None) -> None:
    known: dict[str, set[Shown]] = {}
    async with meta_client(meta) as client:
        async for found in _changes(client):
            new = {each for name, repairs in found.items() for each in repairs - known.get(name, set())}
            known |= found
            for shown in sorted(filter(choice.admits, new), key=lambda each: each.repair.when):
                for row in rows(shown):
                    say("  ".join(legible(cell) or "-" for cell in row))


async def _changes(client: Client) -> AsyncIterator[dict[str, set[Shown]]]:
    """Yield ConfigMap -> repairs: first all of them, then each that has changed."""
    answered = False
    while True:
        try:
            tenants = await _tenants(client)
            found: dict[str, set[Shown]] = {}
            version = ""
            async for page in client.pages(CONFIG_MAPS, names.DRIFT_NAMESPACE, label_selector=names.DRIFT_OF):
                found |= {each.name: set(_shown(each, tenants)) for each in page.items}
                version = page.resource_version
            yield found
            answered = True
            batches = client.watch_batches(
                CONFIG_MAPS, names.DRIFT_NAMESPACE, resource_version=version, label_selector=names.DRIFT_OF
            )
            async with aclosing(batches) as stream:
                async for batch in stream:
                    written = [each.object for each in batch if each.type in ("ADDED", "MODIFIED")]
                    yield {each.name: set(_shown(each, tenants)) for each in written}
        except Gone:
            continue
        except KubeError as error:
            if not answered:
                raise FailedError(str(error)) from error
            say(f"the meta cluster does not answer, trying again: {error}", err=True)
            await asyncio.sleep(AGAIN_SECONDS)


def rows(shown: Shown) -> Sequence[tuple[str, ...]]:
    """Return the rows of the table for a repair, one for each field."""
    repair = shown.repair
    thing = (
        f"{repair.kind}/{repair.namespace}/{repair.name}"
        if repair.namespace
        else f"{repair.kind}/{repair.name}"
    )
    begin = (time_text(repair.when), shown.super_id, shown.tenant, thing, repair.cause)
    changes = [(each.field, each.found, each.restored, each.manager) for each in repair.changes]
    if repair.more:
        changes.append((f"and {repair.more} more", "", "", ""))
    return [(*begin, *change) for change in changes or [("", "", "", "")]]


def as_plain(shown: Shown) -> dict[str, Any]:
    """Return a repair as plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(shown.repair)
    changes = [
        {field: getattr(each, field) for field in FieldChange.__struct_fields__}
        for each in shown.repair.changes
    ]
    return {**plain, "superCluster": shown.super_id, "tenant": shown.tenant, "changes": changes}
