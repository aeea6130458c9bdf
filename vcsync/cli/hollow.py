"""`vcsync run hollow`: a cluster whose nodes, scheduler and kubelets pretend, for demos and benchmarks."""

from pathlib import Path

import click
import structlog

from vcsync.cli.common import log_options, status_option
from vcsync.cli.errors import WrongInputError
from vcsync.cli.help import example
from vcsync.cli.signals import until_signalled
from vcsync.kube import logs, loop
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.quantity import InvalidQuantity, milli
from vcsync.simulate.chance import Latency
from vcsync.simulate.cluster import HollowCluster, Settings
from vcsync.simulate.kubelet import Habits
from vcsync.simulate.nodes import Shape
from vcsync.status import StatusServer
from vcsync.status.server import parse_listen

NAME = "hollow"
SHAPE = Shape()

_log = structlog.get_logger(__name__)


@click.command(
    epilog=example(
        "vcsync tenant create r1 --data /var/lib/vcsync",
        "vcsync tenant kubeconfig r1 --data /var/lib/vcsync > r1.kubeconfig",
        "vcsync run hollow --kubeconfig r1.kubeconfig --nodes 10",
    )
)
@click.option(
    "--kubeconfig",
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Of the cluster that is to have hollow nodes, as its administrator.",
)
@click.option("--nodes", type=click.IntRange(0, 100_000), default=3, show_default=True, help="How many.")
@click.option("--cpu", default=SHAPE.cpu, show_default=True, help="What each node has of it.")
@click.option("--memory", default=SHAPE.memory, show_default=True, help="What each node has of it.")
@click.option("--pods", default=SHAPE.pods, show_default=True, help="How many Pods each node takes.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed, the same chance.")
@click.option(
    "--start",
    nargs=2,
    type=click.FloatRange(min=0),
    default=(0.0, 0.0),
    metavar="MEDIAN P99",
    help="Seconds from a Pod's binding until it runs (default: none).",
)
@click.option(
    "--failing",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of Pods whose first container fails once.",
)
@status_option
@log_options()
def hollow(
    *,
    kubeconfig: Path,
    nodes: int,
    cpu: str,
    memory: str,
    pods: str,
    seed: int,
    start: tuple[float, float],
    failing: float,
    listen: str,
    log_level: str,
    log_format: str,
) -> None:
    """Give a cluster nodes that pretend: Pods are bound, become Running, end and go, and nothing is ever executed.

    The cluster must have no scheduler of its own. Its Pods cannot be told from real ones by its API.
    """
    parse_listen(listen)
    for option, text in (("--cpu", cpu), ("--memory", memory), ("--pods", pods)):
        try:
            milli(text)
        except InvalidQuantity as error:
            raise WrongInputError(f"{option}: {error}") from None
    logs.configure(log_level, "console" if log_format == "console" else "json")
    habits = Habits(seed, start=Latency(*start), failing=failing)
    settings = Settings(nodes, Shape(cpu, memory, pods), habits)
    loop.run(until_signalled(_run(kubeconfig, settings, listen)))


async def _run(kubeconfig: Path, settings: Settings, listen: str) -> None:
    connection = Connection.from_kubeconfig_file(kubeconfig)
    async with Client(connection, name=kubeconfig.stem, field_manager="hollow") as client:
        cluster = HollowCluster(client, settings)
        async with StatusServer(listen, {NAME: cluster}) as status:
            _log.info("role starts", role=NAME, status=f"http://{status.address}/status")
            await cluster.run()
