"""Command line of the test bed: build, up, down, status."""

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from hack.testbed import state as state_file
from hack.testbed.bed import SHARED, TestBed, TestBedError, stop_recorded
from hack.testbed.binaries import ON_DEMAND, SERVERS, BuildError, cache_root, ensure
from hack.testbed.plan import NodeShape
from hack.testbed.processes import resident_memory
from hack.testbed.realnode import NodeError
from hack.testbed.state import State

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: cache_root() / "run",
    show_default="in the cache folder",
    help="Folder of data, logs, kubeconfigs and the state file.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run real Kubernetes servers: a meta cluster, super clusters with hollow nodes, tenant control planes."""


@main.command()
@click.option("--with", "extra", multiple=True, type=click.Choice(ON_DEMAND), help="Build this as well.")
def build(extra: tuple[str, ...]) -> None:
    """Build the server binaries that are not in the cache yet, and print the paths of all."""
    for program, path in ensure((*SERVERS, *extra), _timed_lines()).items():
        click.echo(f"{program}\t{path}")


@main.command()
@directory_option
@click.option("--supers", type=click.IntRange(0, 40), default=2, show_default=True, help="Super clusters.")
@click.option(
    "--nodes", type=click.IntRange(0, 5000), default=2, show_default=True, help="Nodes in each of them."
)
@click.option(
    "--tenants", type=click.IntRange(0, 60), default=1, show_default=True, help="Tenant control planes."
)
@click.option("--node-cpu", default=NodeShape.cpu, show_default=True, help="CPU of each node.")
@click.option("--node-memory", default=NodeShape.memory, show_default=True, help="Memory of each node.")
@click.option("--node-pods", default=NodeShape.pods, show_default=True, help="Pods each node takes.")
@click.option("--real-nodes", is_flag=True, help="One real node in each super cluster; needs root.")
@click.option("--detach", is_flag=True, help="Return when all is ready; `down` ends it.")
def up(
    *,
    directory: Path,
    supers: int,
    nodes: int,
    tenants: int,
    node_cpu: str,
    node_memory: str,
    node_pods: str,
    real_nodes: bool,
    detach: bool,
) -> None:
    """Start the test bed; without --detach it runs until Ctrl-C."""
    shape = NodeShape(cpu=node_cpu, memory=node_memory, pods=node_pods)
    report = _timed_lines()
    bed = TestBed(
        supers=supers,
        nodes=nodes,
        tenants=tenants,
        directory=directory,
        node_shape=shape,
        real_nodes=real_nodes,
        detached=detach,
        progress=report,
    )
    with _signals_interrupt():
        bed.start()
        report("all is ready")
        for cluster in bed.clusters.values():
            click.echo(f"{cluster.name}\t{cluster.role}\t{cluster.url}\t{cluster.kubeconfig}")
        if detach:
            bed.let_go()
            click.echo(f"continues to run; stop it with: python -m hack.testbed down --dir {bed.directory}")
            return
        try:
            _watch_over(bed)
        finally:
            bed.stop()
            report("stopped")


@main.command()
@directory_option
def down(directory: Path) -> None:
    """Stop the test bed, even one that a killed run left behind."""
    count = stop_recorded(directory.absolute())
    click.echo(f"ended {count} servers" if count else f"no test bed runs in {directory}")


@main.command()
@directory_option
def status(directory: Path) -> None:
    """Print the servers and their memory; fails if one of them does not run."""
    state = state_file.load(directory.absolute())
    if state is None:
        raise click.ClickException(f"no test bed runs in {directory}")
    dead = _print_status(state)
    if dead:
        raise click.ClickException(f"not running: {', '.join(dead)}")


def _print_status(state: State) -> list[str]:
    dead, total = [], 0
    for group, processes in state.processes.items():
        url = state.plans[group].url if group != SHARED else state.etcd_url
        for component, process in processes.items():
            memory = resident_memory(process.pid) if process.alive else 0
            total += memory
            condition = f"{memory / 1e6:.0f} MB" if process.alive else "NOT RUNNING"
            click.echo(f"{group or '-':12} {component:24} {process.pid:>8} {condition:>12}  {url}")
            if not process.alive:
                dead.append(f"{component} of {group or 'all'}")
    click.echo(f"{'':12} {'all':24} {'':>8} {total / 1e6:>9.0f} MB")
    return dead


def _watch_over(bed: TestBed) -> None:
    click.echo("Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        while bed.state.running():
            time.sleep(0.5)


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise click.Abort from None


def _timed_lines() -> Callable[[str], None]:
    started = time.monotonic()
    return lambda line: click.echo(f"[{time.monotonic() - started:6.1f} s] {line}", err=True)


def run() -> None:
    """Run from the command line; a failure is printed as one line with the ends of logs, and the exit code is 1."""
    try:
        main(standalone_mode=True)
    except (BuildError, NodeError, TestBedError, ValueError, TimeoutError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    run()
