"""`vcsync snapshot ...`: saves the state of the pool, and replays decisions on it."""

import asyncio
from pathlib import Path

import click

from vcsync.api.specs import FailBack
from vcsync.cli.command.common import meta_option, output_option
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.output import print_objects
from vcsync.cli.command.terminal import say
from vcsync.cli.whatif.failover import default_fail_back_option, default_failover_option, present_failover
from vcsync.cli.whatif.reading import Options, default_slice_option, policy_choice, read_file, slice_of, take
from vcsync.cli.whatif.rendering import counts
from vcsync.whatif.replay import replay as replayed
from vcsync.whatif.snapshot import as_plain, write

file_argument = click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))


@click.group(
    epilog=example("vcsync snapshot save pool.json", "vcsync snapshot replay pool.json"),
)
def snapshot() -> None:
    """Save the state of the pool that decisions about slices depend on, and replay decisions on it."""


@snapshot.command(epilog=example("vcsync snapshot save pool.json"))
@file_argument
@click.option(
    "--policy",
    type=policy_choice,
    default="spread",
    show_default=True,
    help="The namespace scheduler's --policy, which the meta cluster does not know.",
)
@default_slice_option
@default_failover_option
@default_fail_back_option
@click.option(
    "--pods",
    is_flag=True,
    help="Also count the Pods of each namespace on each super cluster, in the control planes of the tenants.",
)
@meta_option
def save(  # noqa: PLR0917  one command's options
    file: Path,
    policy: str,
    default_slice: tuple[str, ...],
    default_failover: str | None,
    default_fail_back: FailBack,
    pods: bool,
    meta: str | None,
) -> None:
    """Save the state of the pool to FILE.

    The file has super clusters with capacity, health, labels and prices, tenants with weights, caps and failover policies, and
    namespaces with quotas and placements. It has no credentials and no addresses. It names tenants and namespaces.
    """
    options = Options(
        policy,
        slice_of("--default-slice", default_slice),
        present_failover(default_failover),
        default_fail_back,
    )
    found = asyncio.run(take(meta, options, pods=pods))
    file.write_bytes(write(found))
    say(
        f"{file}: {len(found.super_clusters)} super clusters, {len(found.tenants)} tenants, "
        f"{len(found.namespaces)} namespaces"
    )


@snapshot.command(epilog=example("vcsync snapshot replay pool.json"))
@file_argument
@output_option
def replay(file: Path, form: str) -> None:
    """Decide again about each namespace in FILE, and name each that gets another result than it has in FILE.

    Exit code 1 says that there are such namespaces. On a pool at rest there are none; while the scheduler is at work, those
    that it has not decided about yet differ.
    """
    found = replayed(read_file(file))
    rows = [
        (
            f"{each.tenant}/{each.namespace}",
            counts(each.stored, each.stored_waiting),
            counts(each.decided, each.decided_waiting),
        )
        for each in found.differences
    ]
    if form in ("table", "wide") and not rows:
        say(f"the same result for all {found.decided} namespaces ({found.skipped} skipped)")
        return
    print_objects(
        as_plain(found),
        form,
        ("NAMESPACE", "STORED", "DECIDED"),
        rows,
        names=[f"namespace/{row[0]}" for row in rows],
    )
    if rows:
        raise FailedError(f"{len(rows)} of {found.decided} namespaces get another result")
