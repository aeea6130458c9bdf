"""`vcsync demo`: a walk-through on a system of its own, with a commentary; it fails if anything does not come about."""

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from vcsync.cli.common import log_options
from vcsync.cli.config import Config
from vcsync.cli.errors import WrongInputError
from vcsync.cli.help import example
from vcsync.cli.signals import until_signalled
from vcsync.kube import logs, loop

TENANTS = "acme,umbrella"


@click.command(epilog=example("vcsync demo", "vcsync demo --step"))
@click.option("--step", is_flag=True, help="Wait for Enter before each act.")
@click.option(
    "--pile",
    type=click.IntRange(10, 2000),
    default=300,
    show_default=True,
    help="Pods that the greedy tenant asks for at once.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds that each thing may take to come about.",
)
@log_options("error", "console")
def demo(*, step: bool, pile: int, patience: float, log_level: str, log_format: str) -> None:
    """Play the walk-through: two tenants, quota, a Deployment over two clusters, one that goes away, a greedy neighbour.

    It runs on a system of its own in this process, as 'vcsync up --ephemeral' would, of which nothing is left.
    Everything said is checked: exit code 1 if something does not come about.
    """
    from vcsync.cli import demo_acts  # noqa: PLC0415  loads the whole system
    from vcsync.cli.up import members_of, wanted_of  # noqa: PLC0415

    if step and not sys.stdin.isatty():
        raise WrongInputError("--step waits for Enter, and there is no terminal to type it at")
    logs.configure(log_level, "console" if log_format == "console" else "json")
    ended: list[bool] = []

    async def play(folder: Path) -> None:
        wanted = wanted_of(Config(), folder, members_of(TENANTS, (), demo_acts.EAST), nodes=3)
        await demo_acts.play(
            wanted, demo_acts.Telling(click.echo, _wait_for_enter if step else _go_on, patience), pile
        )
        ended.append(True)

    with tempfile.TemporaryDirectory(prefix="vcsync-demo-") as scratch:
        loop.run(until_signalled(play(Path(scratch) / "data")))
    if not ended:
        raise click.Abort


async def _go_on() -> None:
    return


async def _wait_for_enter() -> None:
    """Wait for a line; the event loop waits, so that Ctrl-C ends it."""
    click.echo("[Enter]", nl=False)
    there, running = asyncio.Event(), asyncio.get_running_loop()
    running.add_reader(sys.stdin.fileno(), there.set)
    try:
        await there.wait()
    finally:
        running.remove_reader(sys.stdin.fileno())
    sys.stdin.readline()
