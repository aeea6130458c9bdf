"""`vcsync usage`: what tenants used of an embedded control plane, by the hour."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote, urlencode

import click
import msgspec

from vcsync.api import names
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant import embedded
from vcsync.cli.usage.amounts import Hour, Step, by_step
from vcsync.cli.usage.pods import PodHour, pod_hours, pods_by_step, tenant_of
from vcsync.cli.usage.prices import NAMES, read_prices, super_cluster_prices
from vcsync.cli.usage.rendering import rendered, rendered_pods
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.registration.clients import CALL_TIMEOUT
from vcsync.registration.issued import TENANTS

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
ALL = "all"


class _Items(msgspec.Struct):
    items: list[Hour]


@click.command(
    epilog=example(
        "vcsync usage --tenant acme --from 2026-11-01 --to 2026-12-01 --step day",
        "vcsync usage --prices prices.yaml -o csv --data /var/lib/vcsync",
        "vcsync usage --pods --step hour",
    )
)
@click.option("--pods", is_flag=True, help="Show the running time of Pods in super clusters instead.")
@click.option("--tenant", default=ALL, metavar="NAME", help="Tenant, which may have been deleted since.")
@click.option(
    "--from", "begin", default="", metavar="TIME", help="Start, in RFC 3339; default: a day before the end."
)
@click.option("--to", "end", default="", metavar="TIME", help="End, in RFC 3339; default: now.")
@click.option(
    "--step",
    type=click.Choice(["hour", "day", "all"]),
    default="all",
    show_default=True,
    help="Length of the intervals for which amounts are added up.",
)
@click.option(
    "--prices",
    "price_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"YAML file with prices by name: {', '.join(NAMES)}.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "csv", "json", "opencost"]),
    default="table",
    show_default=True,
    help="Output format; opencost: the JSON of OpenCost's /allocation API.",
)
@embedded.reaching
def usage(
    *,
    pods: bool,
    tenant: str,
    begin: str,
    end: str,
    step: Step,
    price_file: Path | None,
    form: str,
    data: Path | None,
    meta: str | None,
) -> None:
    """Show what tenants used of an embedded control plane: requests, bytes, watches, objects and storage.

    With --pods it shows the running time of their Pods in super clusters, which syncers record in the meta cluster. Whole hours
    are counted: those that the interval touches. With --prices, the cost is shown as well. Pods have by default the
    prices of their super clusters.
    """
    if tenant != ALL:
        embedded.check_name(tenant)
    given = None if price_file is None else read_prices(price_file)
    if pods:
        first, last = interval(begin, end, datetime.now(UTC))
        hours, prices = asyncio.run(_read_pods(data, meta))
        wanted = [
            each
            for each in hours
            if first < each.hour + HOUR and each.hour < last and tenant in (ALL, tenant_of(each.key))
        ]
        if given is not None:
            prices = dict.fromkeys(prices.keys() | {each.super_cluster for each in wanted}, given)
        text = rendered_pods(pods_by_step(wanted, step), form, prices)
    else:
        pairs = [(name, value) for name, value in (("from", begin), ("to", end)) if value]
        found = asyncio.run(_read(f"{TENANTS}/{quote(tenant)}/usage?{urlencode(pairs)}", data, meta))
        text = rendered(by_step(found, step), form, given)
    say(text, nl=form != "csv")


def interval(begin: str, end: str, now: datetime) -> tuple[datetime, datetime]:
    """Return the start and the end that the options name.

    Raises:
        WrongInputError: A time is malformed, or the interval is empty.
    """
    last = _time("--to", end) if end else now
    first = _time("--from", begin) if begin else last - DAY
    if first >= last:
        raise WrongInputError("--from: give a time before that of --to")
    return first, last


def _time(option: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongInputError(f"{option}: give a time such as 2026-11-25T05:00:00Z") from error
    return moment.replace(tzinfo=moment.tzinfo or UTC)


async def _read_pods(
    data: Path | None, meta: str | None
) -> tuple[list[PodHour], dict[str, dict[str, Decimal]]]:
    async with embedded.control_plane(data, meta) as client:
        return await read_pods(client), await super_cluster_prices(client)


async def read_pods(client: Client) -> list[PodHour]:
    """Read the running time of Pods from the meta cluster.

    Raises:
        KubeError: It cannot be read.
    """
    found = await client.list(CONFIG_MAPS, names.USAGE_NAMESPACE, label_selector=names.USAGE_OF)
    return [hour for each in found for hour in pod_hours(each)]


async def _read(path: str, data: Path | None, meta: str | None) -> list[Hour]:
    async with embedded.control_plane(data, meta) as client:
        try:
            answer = await client.request("GET", path, timeout=CALL_TIMEOUT)
        except NotFound as error:
            embedded.require_embedded(client, error)
            raise
    return msgspec.json.decode(answer, type=_Items).items
