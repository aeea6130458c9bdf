"""`vcsync demo`: a walk-through with a commentary on a system of its own; it fails if an expected result is missing."""

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from vcsync.cli.command.common import log_options
from vcsync.cli.command.config import Config
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.process import logs, loop
from vcsync.process.signals import until_signalled

TENANTS = "acme,umbrella"


@click.command(epilog=example("vcsync demo", "vcsync demo --step"))
@click.option("--step", is_flag=True, help="Wait for Enter before each act.")
@click.option(
    "--pile",
    type=click.IntRange(10, 2000),
    default=300,
    show_default=True,
    help="Number of Pods of the greedy tenant's Deployment.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds that each expected result may take.",
)
@log_options("error", "console")
def demo(*, step: bool, pile: int, patience: float, log_level: str, log_format: str) -> None:
    """Play the walk-through: two tenants, quota, a Deployment over two clusters, a lost cluster that returns, a greedy neighbour.

    It runs on a temporary system in this process, like 'vcsync up --ephemeral'. All statements are checked: the
    exit code is 1 if an expected result does not appear.
    """
    from vcsync.cli.demo import acts as demo_acts  # noqa: PLC0415  loads the whole system
    from vcsync.cli.demo import stage as demo_stage  # noqa: PLC0415
    from vcsync.cli.up.commands import members_of, wanted_of  # noqa: PLC0415

    if step and not sys.stdin.isatty():
        raise WrongInputError("--step waits for Enter, but there is no terminal")
    logs.configure(log_level, "console" if log_format == "console" else "json")
    ended: list[bool] = []

    async def play(folder: Path) -> None:
        wanted = wanted_of(Config(), folder, members_of(TENANTS, (), demo_stage.EAST, "", ""), nodes=3)
        await demo_acts.play(
            demo_acts.impatient(wanted),
            demo_stage.Commentary(say, _wait_for_enter if step else _go_on, patience),
            pile,
        )
        ended.append(True)

    with tempfile.TemporaryDirectory(prefix="vcsync-demo-") as scratch:
        loop.run(until_signalled(play(Path(scratch) / "data")))
    if not ended:
        raise click.Abort


async def _go_on() -> None:
    return


async def _wait_for_enter() -> None:
    """Wait for a line while the event loop is blocked, so that Ctrl-C ends the process."""
    say("[Enter]", nl=False)
    there, running = asyncio.Event(), asyncio.get_running_loop()
    running.add_reader(sys.stdin.fileno(), there.set)
    try:
        await there.wait()
    finally:
        running.remove_reader(sys.stdin.fileno())
    sys.stdin.readline()
