"""`vcsync super drain | undrain`: moves everything away from a super cluster, shows how far that is, and stops it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, SuperCluster, to_wire
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.api.specs import DEFAULT_EVICTION_SECONDS, DrainProgress
from vcsync.cli.command.common import meta_client, meta_option
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import document
from vcsync.cli.command.terminal import say
from vcsync.cli.super.fence import id_argument
from vcsync.cli.super.progress import blocked_lines, contents, overall, progress_line
from vcsync.kube.client import Client
from vcsync.registration.registered import require_super_cluster

_POLL_SECONDS = 1.0
_REPORT_SECONDS = 5.0
"""Longest time for which the command waits for the syncer's first report."""


@click.command(
    epilog=example(
        "vcsync super drain r1 --wait && vcsync super remove r1",
        "vcsync super drain r1 --status",
    )
)
@id_argument
@click.option(
    "--wait/--no-wait", default=False, help="Wait until the super cluster is empty, and show progress."
)
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds to wait."
)
@click.option(
    "--eviction-seconds",
    type=click.IntRange(0, 7 * 24 * 3600),
    metavar="SECONDS",
    help="Seconds without any Pod leaving for which Pods wait for PodDisruptionBudgets and replacements; "
    f"{DEFAULT_EVICTION_SECONDS} unless set before.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Pods wait neither for PodDisruptionBudgets nor for replacements: the same as --eviction-seconds 0.",
)
@click.option("--status", is_flag=True, help="Change nothing, and show the progress of the drain.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format of --status.",
)
@meta_option
def drain(  # noqa: PLR0917  one command's options
    super_id: str,
    wait: bool,
    timeout: float,
    eviction_seconds: int | None,
    force: bool,
    status: bool,
    form: str,
    meta: str | None,
) -> None:
    """Move all slices from a super cluster to others, as far as these have room.

    Pods are evicted as their tenants' PodDisruptionBudgets allow, and as their replacements elsewhere become ready: a Deployment
    misses at most maxUnavailable Pods, or one, and every other controller at most one. The drain goes on until 'vcsync super
    undrain', whether this command waits or not. 'vcsync explain pod' with --endpoint shows what a Pod waits for.
    """
    if force and eviction_seconds:
        raise WrongInputError("--force and --eviction-seconds contradict each other: give one of them")
    if status and (wait or force or eviction_seconds is not None):
        raise WrongInputError(
            "--status changes nothing: give it without --wait, --force and --eviction-seconds"
        )
    if form != "text" and not status:
        raise WrongInputError("--output is the format of --status: give both")
    if status:
        asyncio.run(_show(super_id, form, meta))
    else:
        asyncio.run(_drain(super_id, wait, timeout, 0 if force else eviction_seconds, meta))


@click.command(
    epilog=example(
        "vcsync super undrain r1",
        "vcsync super undrain r1 --keep-cordon",
    )
)
@id_argument
@click.option("--keep-cordon", is_flag=True, help="The super cluster still gets no new slices.")
@meta_option
def undrain(super_id: str, keep_cordon: bool, meta: str | None) -> None:
    """Stop a drain.

    Slices that have left stay where they are, and their Pods follow them. All others stay. With --keep-cordon 'vcsync super
    drain' continues where the drain has stopped.
    """
    asyncio.run(change_spec(super_id, {"drain": False, "cordoned": keep_cordon}, meta))
    gets = "gets no new slices" if keep_cordon else "gets slices again"
    say(f"super cluster {super_id} does not drain any more, and {gets}")


async def _show(super_id: str, form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        found = await require_super_cluster(client, super_id)
        reached = _progress(found)
    if form != "text":
        plain = {"superCluster": super_id, "drain": found.spec.drain}
        say(document(plain | ({"progress": to_wire(reached)} if reached is not None else {}), form))
    elif not found.spec.drain:
        say(f"super cluster {super_id} does not drain")
    elif reached is None:
        say(f"super cluster {super_id} drains; its syncer has not reported progress")
    else:
        say(f"super cluster {super_id} drains since {reached.since}: {contents(reached)} there")
        _tell([progress_line(reached), *blocked_lines(reached)])


async def _drain(super_id: str, wait: bool, seconds: float, patience: int | None, meta: str | None) -> None:
    spec: dict[str, Any] = {"drain": True}
    if patience is not None:
        spec["evictionSeconds"] = patience
    async with meta_client(meta) as client:
        await _change(client, super_id, spec)
        reached = await _first_report(client, super_id)
        there = f": {contents(reached)} there" if reached is not None else ""
        say(f"super cluster {super_id} drains{there}")
        if not wait:
            _tell(blocked_lines(reached) if reached is not None else [])
            return
        await _wait_until_empty(client, super_id, seconds)
    say(f"super cluster {super_id} is empty")


async def _first_report(client: Client, super_id: str) -> DrainProgress | None:
    """Return what is there, once the syncer has counted it; None if nothing is there or the syncer does not report."""
    if not await placed_on(client, super_id):
        return None
    try:
        async with asyncio.timeout(_REPORT_SECONDS):
            while True:
                if (reached := _progress(await require_super_cluster(client, super_id))) is not None:
                    return reached
                await asyncio.sleep(_POLL_SECONDS / 2)
    except TimeoutError:
        return None


async def _wait_until_empty(client: Client, super_id: str, seconds: float) -> None:
    """Show progress until no namespace has anything on a super cluster.

    Raises:
        FailedError: that takes longer than `seconds`, or somebody has stopped the drain.
    """
    standing: list[str] = []
    said: list[str] = []
    reached: DrainProgress | None = None
    try:
        async with asyncio.timeout(seconds):
            while standing := await placed_on(client, super_id):
                found = await require_super_cluster(client, super_id)
                if not found.spec.drain:
                    raise FailedError(
                        f"the drain of super cluster {super_id} was stopped; {some(standing)} are there"
                    )
                reached = _progress(found)
                lines = (
                    [f"remaining: {some(standing)}"]
                    if reached is None
                    else [progress_line(reached), *blocked_lines(reached)]
                )
                _tell([line for line in lines if line not in said])
                said = lines
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        _tell(blocked_lines(reached) if reached is not None else [])
        raise FailedError(
            f"super cluster {super_id} still holds {some(standing)} after {seconds:.0f} s; "
            "'vcsync explain namespace' shows why they cannot move, 'vcsync explain pod' with --endpoint what Pods wait for"
        ) from None


def _progress(super_cluster: SuperCluster) -> DrainProgress | None:
    return overall(super_cluster.status.drain) if super_cluster.spec.drain else None


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


async def change_spec(super_id: str, spec: dict[str, Any], meta: str | None) -> None:
    """Change settings of a super cluster."""
    async with meta_client(meta) as client:
        await _change(client, super_id, spec)


async def _change(client: Client, super_id: str, spec: dict[str, Any]) -> None:
    await require_super_cluster(client, super_id)
    await client.patch(SUPER_CLUSTERS, super_id, {"spec": spec})


async def placed_on(client: Client, super_id: str) -> list[str]:
    """Return the tenant namespaces (``cluster key/namespace``) with slices or leftovers on a super cluster."""
    finalizer = names.drain_finalizer(super_id)
    found = []
    for envelope in await client.list(NAMESPACE_PLACEMENTS):
        placement = NamespacePlacement.from_envelope(envelope)
        if placement.status.placements.get(super_id) or finalizer in placement.finalizers:
            found.append(f"{placement.namespace}/{placement.name}")
    return sorted(found)


def some(texts: list[str], most: int = 5) -> str:
    """Return a count and the first few of many names."""
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{len(texts)} namespace{'s' if len(texts) != 1 else ''} ({', '.join(texts[:most])}{rest})"
