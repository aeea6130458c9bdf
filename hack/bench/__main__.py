"""Command line of the benchmark."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from hack.bench import (
    comparison,
    formats,
    idle_tenants,
    kinds,
    quality,
    report,
    runs,
    scheduler_report,
    schedulers,
    turns,
)
from hack.bench.comparison import Turn
from hack.bench.load import NotInTime, clear, client_of
from hack.bench.peer import Peer
from hack.bench.report import Results
from hack.bench.stage import NAMESPACE, SYNCER, Side, Stage, say, stage
from hack.system import SystemFailed
from hack.testbed.bed import TestBedError
from vcsync.kube.errors import KubeError
from vcsync.process import loop

IDLE_TENANTS = "idle-tenants"
SCHEDULERS = "schedulers"
QUALITY = "quality"
_WITHOUT_STAGE = frozenset({IDLE_TENANTS, SCHEDULERS, QUALITY})
PARTS = (
    "burst",
    "memory",
    "idle",
    "patrol",
    "restart",
    "deletion",
    "low-load",
    "kinds",
    IDLE_TENANTS,
    SCHEDULERS,
    QUALITY,
)
_NEEDS_PODS = frozenset({"memory", "idle", "patrol", "restart", "deletion"})
PODS, PODS_IN_TURNS = 2000, 1000
ROUNDS = 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--pods",
    type=click.IntRange(200, 10_000),
    help=f"Pods of the burst (default: {PODS}; in rounds: {PODS_IN_TURNS}).",
)
@click.option(
    "--json",
    "file",
    default=Path("build/bench.json"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to store the results.",
)
@click.option(
    "--only", "chosen", multiple=True, type=click.Choice(PARTS), help="Measure only this; may be repeated."
)
@click.option("--no-direct", is_flag=True, help="Leave the super cluster's own side out (no ratios then).")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="ROLE",
    help=f"Sample where the CPU time of a role goes ({SYNCER}, podscheduler, nsscheduler) and keep it next to the "
    "JSON file; may be repeated. Costs the role some percent.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep data and logs here (default: a temporary folder).",
)
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option(
    "--placement-webhook",
    "webhook",
    is_flag=True,
    help="Let the tenant's control plane ask the Pod scheduler about new Pods, so that they are placed at their creation.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 20),
    help="Measure only a burst and one Pod at a time, directly and through vcsync in turns, this often "
    f"(default with --peer: {ROUNDS}).",
)
@click.option(
    "--peer",
    "program",
    type=click.Path(exists=True, dir_okay=False, executable=True, path_type=Path),
    help="Measure this program in turns, too: the syncer of VirtualCluster. It gets a tenant of its own with the same "
    "quota, and runs while vcsync does not. Its ports 6060 and 8080 must be free.",
)
@click.option(
    "--peer-arg",
    "further",
    multiple=True,
    metavar="FLAG",
    help="A further flag of the peer, as --peer-arg=--NAME=VALUE; may be repeated.",
)
def main(
    *,
    pods: int | None,
    file: Path,
    chosen: tuple[str, ...],
    no_direct: bool,
    profiles: tuple[str, ...],
    directory: Path | None,
    markdown: bool,
    webhook: bool,
    rounds: int | None,
    program: Path | None,
    further: tuple[str, ...],
) -> None:
    """Measure the cost of a Pod through a tenant, compared with one created directly in the super cluster."""
    if program is not None or rounds is not None:
        if chosen or no_direct or profiles:
            raise click.UsageError("--peer and --rounds: leave out --only, --no-direct and --profile")
        compare(
            rounds=rounds or ROUNDS,
            program=program,
            further=further,
            pods=pods or PODS_IN_TURNS,
            file=file,
            directory=directory,
            markdown=markdown,
            webhook=webhook,
        )
        return
    if further:
        raise click.UsageError("--peer-arg: add --peer FILE")
    pods = pods or PODS
    parts = frozenset(chosen or PARTS)
    results = Results()
    failure: Exception | None = None
    file.parent.mkdir(parents=True, exist_ok=True)
    with _folder(directory) as folder:
        try:
            if SCHEDULERS in parts:
                results.schedulers = schedulers.measure_all(say)
            if QUALITY in parts:
                results.quality = quality.measure_all(say)
            if parts - _WITHOUT_STAGE:
                measure_pods(
                    folder, results, parts, pods, direct=not no_direct, profiles=profiles, webhook=webhook
                )
            if IDLE_TENANTS in parts:
                results.idle_tenants = idle_tenants.measure(folder / IDLE_TENANTS)
        except (KubeError, NotInTime, SystemFailed, TestBedError, ExceptionGroup) as error:
            failure = error  # The partial results are worth showing.
        for role in profiles:
            for kind in ("profile", "profile.stacks"):
                with contextlib.suppress(FileNotFoundError, shutil.SameFileError):
                    shutil.copy(folder / f"{role}.{kind}", file.parent / f"{role}.{kind}")
    rows = report.rows(results)
    settings = {"pods": pods, "parts": sorted(parts), "profiles": profiles, "placementWebhook": webhook}
    text = _text(rows, results, markdown=markdown)
    if results.burst is not None:
        text += "\n\n" + formats.request_table(results.burst)
    finish(file, formats.document(results, rows, settings), text, failure)


def _text(rows: list[report.Row], results: Results, *, markdown: bool) -> str:
    """Return all tables of a run."""
    texts = [formats.markdown(rows) if markdown else formats.table(rows)] if rows else []
    form = formats.markdown_table if markdown else formats.columns
    if results.schedulers:
        texts.append(form(scheduler_report.speed_table(results.schedulers)))
    if results.quality:
        texts.append(form(scheduler_report.quality_table(results.quality)))
    return "\n\n".join(texts)


def compare(
    *,
    rounds: int,
    program: Path | None,
    further: tuple[str, ...],
    pods: int,
    file: Path,
    directory: Path | None,
    markdown: bool,
    webhook: bool,
) -> None:
    """Measure contenders in turns, print the comparison and store it."""
    found: list[Turn] = []
    failure: Exception | None = None
    with (
        _folder(directory) as folder,
        stage(folder, pods=pods, webhook=webhook) as made,
        contextlib.ExitStack() as ending,
    ):
        try:
            peer = Peer(made, program, further, folder) if program else None
            if peer is not None:
                ending.callback(peer.close)
            turns.measure(made, peer, rounds, turns.Amounts(pods), found.append)
        except (KubeError, NotInTime, SystemFailed, TestBedError, ExceptionGroup) as error:
            failure = error  # The finished turns are worth showing.
        made.stop_roles()
    lines = comparison.lines(found)
    settings = {
        "pods": pods,
        "rounds": rounds,
        "placementWebhook": webhook,
        "peer": str(program) if program else None,
        "peerFlags": further,
    }
    cells = comparison.cells(lines)
    text = formats.markdown_table(cells) if markdown else formats.columns(cells)
    finish(file, formats.record(comparison.plain(lines), found, settings), text, failure)


def finish(file: Path, document: bytes, text: str, failure: Exception | None) -> None:
    """Store and print the results of a run.

    Raises:
        click.ClickException: they are incomplete because of `failure`.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(document)
    click.echo(text)
    say(f"stored as {file}")
    if failure is not None:
        raise click.ClickException(f"the measurement is incomplete: {describe(failure)}")


def describe(failure: BaseException) -> str:
    """Format a failure, or the failures of a group."""
    if isinstance(failure, BaseExceptionGroup):
        return "; ".join(describe(one) for one in failure.exceptions)
    return f"{type(failure).__name__}: {failure}"


def measure_pods(
    folder: Path,
    results: Results,
    parts: frozenset[str],
    pods: int,
    *,
    direct: bool,
    profiles: tuple[str, ...],
    webhook: bool,
) -> None:
    """Measure everything that one stage shows, first without and then with vcsync."""
    with stage(folder, profiles, pods + runs.WARM_UP, webhook=webhook) as made:
        try:
            if direct:
                measure_direct(made, results, parts, pods)
            measure_tenant(made, results, parts, pods)
        finally:
            made.stop_roles()


def measure_direct(made: Stage, results: Results, parts: frozenset[str], pods: int) -> None:
    """Put the load on only the super cluster, while no role of vcsync runs."""
    side = made.direct
    if "burst" in parts:
        say(f"direct: {pods} Pods")
        loop.run(runs.warm_up(made, side))
        results.burst_direct = loop.run(runs.burst(made, side, pods))
        if "deletion" in parts:
            say("direct: deletion")
            results.deletion_direct = loop.run(runs.deletion(made, side))
        else:
            loop.run(_clear(side))
    if "low-load" in parts:
        say("direct: one at a time, 20 Pods/s")
        results.low_direct = loop.run(runs.low_load(side))
    if "kinds" in parts:
        say("direct: objects of each kind")
        loop.run(kinds.measure(made, side, results.kinds_direct))


def measure_tenant(made: Stage, results: Results, parts: frozenset[str], pods: int) -> None:
    """Put the same load on the tenant, and measure everything else while its Pods exist."""
    side = made.tenant
    say("tenant: starting vcsync")
    made.start_roles()
    before: dict[str, int] = {}
    if "burst" in parts or parts & _NEEDS_PODS:
        say(f"tenant: {pods} Pods")
        loop.run(runs.warm_up(made, side))
        before = made.memory()
        results.burst = loop.run(runs.burst(made, side, pods))
    if "idle" in parts:
        say(f"tenant: idle for {runs.IDLE_SECONDS:.0f} s")
        results.idle = loop.run(runs.idle(made, pods + runs.WARM_UP))
    if "memory" in parts:
        results.memory = runs.Memory(before, made.memory())
    if "patrol" in parts:
        say("tenant: patrol")
        results.patrol = loop.run(runs.patrol(made, pods + runs.WARM_UP))
    if "restart" in parts:
        say("tenant: restart of the syncer")
        results.restart = loop.run(runs.restart(made, pods + runs.WARM_UP))
    if "deletion" in parts:
        say("tenant: deletion")
        results.deletion = loop.run(runs.deletion(made, side))
    elif results.burst is not None:
        loop.run(_clear(side))
    if "low-load" in parts:
        say("tenant: one at a time, 20 Pods/s")
        results.low = loop.run(runs.low_load(side))
    if "kinds" in parts:
        say("tenant: objects of each kind")
        loop.run(kinds.measure(made, side, results.kinds))


async def _clear(side: Side) -> None:
    async with client_of(side.cluster.kubeconfig, side.name) as client:
        await clear(client, NAMESPACE)


@contextlib.contextmanager
def _folder(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="vcsync-bench-") as temporary:
        yield Path(temporary)


if __name__ == "__main__":
    main()
