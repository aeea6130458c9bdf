"""`vcsync run hollow`: a cluster with simulated nodes, scheduler and kubelets, for demos and benchmarks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import structlog

from vcsync.cli.command.common import limit_stalls, log_options, stall_option
from vcsync.cli.command.config import config_option
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.status_endpoint import Listen, listen_of, serve_status, status_options
from vcsync.cli.hollow.kubelets import kubelet_tls, read_keys
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.objects.quantity import InvalidQuantity, milli
from vcsync.process import logs, loop
from vcsync.process.signals import until_signalled
from vcsync.simulate.addresses import NETWORKS
from vcsync.simulate.chance import Latency
from vcsync.simulate.cluster import HollowCluster, Serving, Settings
from vcsync.simulate.kubelet import KubeletBehaviour
from vcsync.simulate.nodes import Shape
from vcsync.status.server import parse_listen

NAME = "hollow"
SHAPE = Shape()

_log = structlog.get_logger(__name__)


@click.command(
    epilog=example(
        "vcsync tenant create r1 --nodes own --data /var/lib/vcsync",
        "vcsync tenant kubeconfig r1 --data /var/lib/vcsync > r1.kubeconfig",
        "vcsync run hollow --kubeconfig r1.kubeconfig --nodes 10",
        "vcsync run hollow --kubeconfig r1.kubeconfig --nodes 5000 --start 2 10 --seed 7",
        "vcsync tenant export r1 --dir r1-keys --data /var/lib/vcsync",
        "vcsync run hollow --kubeconfig r1.kubeconfig --keys r1-keys",
    )
)
@config_option("hollow")
@click.option(
    "--kubeconfig",
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Administrator's kubeconfig of the cluster that gets hollow nodes.",
)
@click.option("--nodes", type=click.IntRange(0, 100_000), default=3, show_default=True, help="How many.")
@click.option("--cpu", default=SHAPE.cpu, show_default=True, help="Capacity of each node.")
@click.option("--memory", default=SHAPE.memory, show_default=True, help="Capacity of each node.")
@click.option("--pods", default=SHAPE.pods, show_default=True, help="Pods per node.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random behaviour.")
@click.option(
    "--start",
    nargs=2,
    type=click.FloatRange(min=0),
    default=(0.0, 0.0),
    metavar="MEDIAN P99",
    help="Seconds from a Pod's binding until it runs (default: none).",
)
@click.option(
    "--stop",
    nargs=2,
    type=click.FloatRange(min=0),
    default=(0.0, 0.0),
    metavar="MEDIAN P99",
    help="Seconds that a deleted Pod takes to end, at most its grace period (default: none).",
)
@click.option(
    "--job",
    nargs=2,
    type=click.FloatRange(min=0),
    default=(0.0, 0.0),
    metavar="MEDIAN P99",
    help="Seconds that a Job's Pod runs if its command does not determine it (default: none).",
)
@click.option(
    "--failing",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of Pods whose first container fails once.",
)
@click.option(
    "--load-balancers/--no-load-balancers",
    default=True,
    show_default=True,
    help="Whether Services of type LoadBalancer, and Ingresses, get addresses.",
)
@click.option(
    "--network",
    type=click.IntRange(0, NETWORKS - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Its Pods get addresses from 10.N.0.0 on; use different numbers for hollow clusters of one pool. Embedded "
    "control planes give Services addresses from 10.0.0.0/16.",
)
@click.option(
    "--heartbeat",
    type=click.FloatRange(min=1),
    default=None,
    metavar="SECONDS",
    help="How often each node's Lease is renewed (default: 30, or with more than 60 nodes two Leases per "
    "second in total). Set it to 10 if a kube-controller-manager monitors many nodes.",
)
@click.option(
    "--container-events/--no-container-events",
    default=None,
    help="Whether Events tell that containers are created, started and stopped, some four for each container (default: with at "
    "most 100 nodes).",
)
@click.option(
    "--keys",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Keys of the cluster, as 'vcsync tenant export' writes them: kubelets then serve simulated logs and exec.",
)
@click.option(
    "--kubelets",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Address at which they serve, with --keys; port 0: a free port. 'vcsync run controlplane' must allow that address.",
)
@status_options
@stall_option
@log_options()
def hollow(*, kubeconfig: Path, stall_seconds: float, log_level: str, log_format: str, **given: Any) -> None:
    """Run simulated nodes for a cluster: Pods are bound, become Running, end and are deleted, but no program runs.

    The cluster must have controllers (those of vcsync, or a kube-controller-manager), but no scheduler of its own.
    Clients of its API see no difference to real Pods.
    """
    listen = listen_of(given)
    settings, serving = hollow_settings(given), serving_of(given)
    logs.configure(log_level, "console" if log_format == "console" else "json")
    limit_stalls(stall_seconds)
    loop.run(until_signalled(_run(kubeconfig, settings, serving, listen)))


def hollow_settings(given: Mapping[str, Any]) -> Settings:
    """Convert the options' values to settings.

    Raises:
        WrongInputError: one is not a quantity.
    """
    for name in ("cpu", "memory", "pods"):
        try:
            milli(given[name])
        except InvalidQuantity as error:
            raise WrongInputError(f"--{name}: {error}") from None
    start, stop, job = (Latency(*given[name]) for name in ("start", "stop", "job"))
    behaviour = KubeletBehaviour(given["seed"], start, stop, job, given["failing"])
    shape = Shape(given["cpu"], given["memory"], given["pods"])
    return Settings(
        given["nodes"],
        shape,
        behaviour,
        given["load_balancers"],
        given["heartbeat"],
        network=given["network"],
        container_events=given["container_events"],
    )


def serving_of(given: Mapping[str, Any]) -> Serving | None:
    """Return where kubelets serve logs and exec; None: nowhere.

    Raises:
        WrongInputError: the keys are invalid.
    """
    host, port = parse_listen(given["kubelets"])
    if given["keys"] is None:
        return None
    return Serving(host, port, kubelet_tls(read_keys(given["keys"]), host))


async def _run(kubeconfig: Path, settings: Settings, serving: Serving | None, listen: Listen) -> None:
    connection = Connection.from_kubeconfig_file(kubeconfig)
    async with Client(connection, name=kubeconfig.stem, field_manager="hollow") as client:
        cluster = HollowCluster(client, settings, serving)
        async with serve_status(listen, {NAME: cluster}, lambda: connection) as status:
            _log.info("role starts", role=NAME, status=f"{status.url}/status")
            await cluster.run()
