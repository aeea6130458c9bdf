"""Reads a snapshot: from the meta cluster, or from a file. It writes to no cluster."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import Struct

from vcsync.api.fields import PositiveQuantity
from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.api.specs import STAY, FailBack, Failover
from vcsync.cli.command.common import meta_client, parse_amounts, require_slice
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.whatif.pods import read_pods, tenants_on
from vcsync.kube.client import Client
from vcsync.scheduling.scores import POLICIES
from vcsync.scheduling.slices import DEFAULT_SLICE, DIMENSIONS, OBJECTS, PODS
from vcsync.whatif.capture import capture
from vcsync.whatif.pods import with_pods
from vcsync.whatif.snapshot import InvalidSnapshot, Snapshot, read

default_slice_option = click.option(
    "--default-slice",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    default=[",".join(f"{name}={amount}" for name, amount in DEFAULT_SLICE.items())],
    help="The namespace scheduler's --default-slice at present, which the meta cluster does not know.",
)
policy_choice = click.Choice(sorted(POLICIES))


class Options(Struct, frozen=True):
    """The options of the schedulers at present, which the meta cluster does not know."""

    policy: str
    default_slice: Mapping[str, str]
    failover: Failover = STAY
    fail_back: FailBack = "Never"


def slice_of(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse the amounts of a slice.

    Raises:
        WrongInputError: an amount is invalid, or CPU or memory is missing.
    """
    size = parse_amounts(option, texts, kind=PositiveQuantity, known=(*DIMENSIONS, PODS, *OBJECTS))
    require_slice(option, size)
    return size


async def take(
    meta: str | None, options: Options, *, pods: bool = False, gone: Collection[str] | None = None
) -> Snapshot:
    """Read the state of the pool from the meta cluster.

    Args:
        meta: kubeconfig of the meta cluster.
        options: the options of the schedulers.
        pods: whether to read the Pods of tenants, too.
        gone: the super clusters whose Pods matter besides those that are lost; None for all.

    Raises:
        KubeError: the meta cluster cannot be read.
    """
    async with meta_client(meta) as client:
        supers, tenants, placements = await read_pool(client)
        snapshot = capture(
            supers,
            tenants,
            placements,
            now=datetime.now(UTC),
            policy=options.policy,
            default_slice=options.default_slice,
            failover=options.failover,
            fail_back=options.fail_back,
        )
        if not pods:
            return snapshot
        lost = {each.id for each in snapshot.super_clusters if each.fenced or each.health == "Lost"}
        wanted = tenants_on(snapshot, None if gone is None else {*gone, *lost})
        return with_pods(snapshot, await read_pods(client, tenants, wanted))


async def read_pool(
    client: Client,
) -> tuple[list[SuperCluster], list[VirtualCluster], list[NamespacePlacement]]:
    """Read all objects of the meta cluster that decisions about slices depend on.

    Raises:
        KubeError: they cannot be read.
    """
    supers, tenants, placements = await asyncio.gather(
        *(client.list(each) for each in (SUPER_CLUSTERS, VIRTUAL_CLUSTERS, NAMESPACE_PLACEMENTS))
    )
    return (
        [SuperCluster.from_envelope(each) for each in supers],
        [VirtualCluster.from_envelope(each) for each in tenants],
        [NamespacePlacement.from_envelope(each) for each in placements],
    )


def read_file(file: Path) -> Snapshot:
    """Read a snapshot's file.

    Raises:
        WrongInputError: it cannot be read, or is no valid snapshot.
    """
    try:
        return read(file.read_bytes())
    except InvalidSnapshot as error:
        raise WrongInputError(f"{file}: {error}") from error
