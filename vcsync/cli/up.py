"""`vcsync up`: the whole system in one process on one machine."""

import asyncio
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import structlog

from vcsync.api import names
from vcsync.cli import up_spaces
from vcsync.cli.common import log_options
from vcsync.cli.controlplane import ControlPlaneSettings
from vcsync.cli.controlplane_authentication import AuthenticationSettings
from vcsync.cli.controlplane_process import SWITCH_SECONDS, run_control_plane
from vcsync.cli.embedded import ADMIN_KUBECONFIG, RESERVED
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.help import example
from vcsync.cli.install import write_private
from vcsync.cli.kubeconfigs import Admin, read_admin
from vcsync.cli.roles import Settings, make_nsscheduler, make_podscheduler, make_syncer, open_meta
from vcsync.cli.run import follow_super_clusters
from vcsync.cli.signals import until_signalled
from vcsync.cli.supervise import Keeper, MakeRole, Role
from vcsync.cli.tenants import check_name
from vcsync.controllers.service import Controllers
from vcsync.kube import logs, loop
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import KubeError
from vcsync.simulate.cluster import HollowCluster
from vcsync.simulate.cluster import Settings as HollowSettings
from vcsync.simulate.nodes import Shape
from vcsync.status import StatusServer
from vcsync.status.server import DEFAULT_LISTEN, parse_listen
from vcsync.status.sources import readiness

DEFAULT_DATA = Path("vcsync-data")
AUTHORITY = "ca.crt"
ROLES = "roles"
LISTEN_FILE = "listen"
"""Holds the port that was chosen: kubeconfigs name it, so it stays."""
PREFERRED_PORT = 6443
READY_SECONDS = 60.0
POLL_SECONDS = 0.05
SHAPE = Shape()

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Wanted:
    """What `vcsync up` was asked for. `real`: super clusters by id, with their administrators' kubeconfigs."""

    data: Path
    listen: tuple[str, int]
    status: str
    tenants: tuple[str, ...]
    hollow: tuple[str, ...]
    real: dict[str, Admin]
    cluster: HollowSettings


def _names(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


@click.command(
    epilog=example(
        "vcsync up",
        "vcsync up --tenants acme,umbrella --nodes 10",
        "vcsync up --super-cluster east=east.kubeconfig --super-cluster west=west.kubeconfig",
    )
)
@click.option(
    "--data",
    default=DEFAULT_DATA,
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store and of all kubeconfigs; kept, and gone on with at the next start.",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing: a folder of its own, removed at the end.")
@click.option("--tenants", default="acme", show_default=True, callback=_names, help="Tenants to have.")
@click.option(
    "--super-cluster",
    "real",
    multiple=True,
    metavar="ID=KUBECONFIG",
    help="A real cluster for the pool, by its administrator's kubeconfig; may be repeated.",
)
@click.option(
    "--hollow",
    default=None,
    metavar="ID,ID",
    help="Super clusters that pretend (default: r1,r2, or none beside --super-cluster).",
)
@click.option(
    "--nodes", type=click.IntRange(1, 10_000), default=3, show_default=True, help="Of each hollow one."
)
@click.option(
    "--listen", metavar="HOST:PORT", help="Where to serve the control planes (default: a free port here)."
)
@click.option(
    "--status",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Where to serve /healthz, /readyz, /metrics and /status (without authentication).",
)
@log_options("warning", "console")
def up(
    *,
    data: Path,
    ephemeral: bool,
    tenants: tuple[str, ...],
    real: tuple[str, ...],
    hollow: str | None,
    nodes: int,
    listen: str | None,
    status: str,
    log_level: str,
    log_format: str,
) -> None:
    """Run the whole system in this process: control planes of tenants, a pool of super clusters, everything between.

    Without options: one tenant, and two super clusters whose nodes pretend. Ctrl-C ends it; the next start goes
    on with what was there.
    """
    parse_listen(status)
    clusters = _real(real)
    pretending = tuple(hollow.split(",")) if hollow else () if clusters or hollow == "" else ("r1", "r2")
    _check(tenants, (*pretending, *clusters))
    logs.configure(log_level, "console" if log_format == "console" else "json")
    sys.setswitchinterval(SWITCH_SECONDS)
    with tempfile.TemporaryDirectory(prefix="vcsync-") as scratch:
        folder = Path(scratch) / "data" if ephemeral else data
        wanted = Wanted(
            folder.absolute(),
            _listen(folder, listen),
            status,
            tenants,
            pretending,
            clusters,
            HollowSettings(nodes, SHAPE),
        )
        loop.run(until_signalled(_run(wanted)))


def _real(given: Sequence[str]) -> dict[str, Admin]:
    """Read the kubeconfigs of real super clusters.

    Raises:
        WrongInputError: it is not ID=KUBECONFIG.
    """
    found: dict[str, Admin] = {}
    for text in given:
        super_id, separator, path = text.partition("=")
        if not separator or not path:
            raise WrongInputError(
                f"--super-cluster {text!r}: give ID=KUBECONFIG, for instance east=east.kubeconfig"
            )
        found[super_id] = read_admin(Path(path))
    return found


def _check(tenants: Sequence[str], super_ids: Sequence[str]) -> None:
    """Refuse names that would not do.

    Raises:
        WrongInputError, InvalidName: one would not; the text says why.
    """
    for super_id in super_ids:
        names.require_super_id(super_id)
    for tenant in tenants:
        check_name(tenant)
    spaces = [*tenants, *super_ids]
    taken = [name for name in spaces if name in RESERVED or spaces.count(name) > 1]
    if taken:
        raise WrongInputError(f"{taken[0]!r} cannot be used: it is reserved, or named twice")


def _listen(folder: Path, given: str | None) -> tuple[str, int]:
    """Return where to serve: as given, as last time, or a free port.

    Raises:
        WrongInputError: no port is given.
    """
    remembered = folder / LISTEN_FILE
    if given:
        host, port = parse_listen(given)
        if not port:
            raise WrongInputError(
                f"--listen {given!r}: kubeconfigs need a port that stays; give one from 1 to 65535"
            )
    elif remembered.is_file():
        host, port = parse_listen(remembered.read_text().strip())
    else:
        host, port = "127.0.0.1", _free_port()
    (folder / ROLES).mkdir(mode=0o700, parents=True, exist_ok=True)
    remembered.write_text(f"{host}:{port}\n")
    return host, port


def _free_port() -> int:
    for port in (PREFERRED_PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise WrongInputError("no port is free; name one with --listen")


# ---- Running it --------------------------------------------------------------------------


async def _run(wanted: Wanted) -> None:
    """Run until cancelled.

    Raises:
        FailedError, WrongInputError, KubeError: it cannot start; the text says why.
    """
    try:
        await _up(wanted)
    except ExceptionGroup as group:
        told = group.subgroup((FailedError, WrongInputError, KubeError))
        if told is None:
            raise
        raise _first(told) from group


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


async def _up(wanted: Wanted) -> None:
    """Start everything in order, say what to type next, and run until cancelled."""
    begun = time.monotonic()
    serving = asyncio.Event()
    settings = ControlPlaneSettings(wanted.data, wanted.listen, None, (), AuthenticationSettings(), None)
    async with asyncio.TaskGroup() as tasks:
        plane = tasks.create_task(run_control_plane(settings, serving.set), name="control plane")
        await _either(serving, plane)
        _say(f"control plane serves at https://{wanted.listen[0]}:{wanted.listen[1]}")
        connection = Connection.from_kubeconfig_file(wanted.data / ADMIN_KUBECONFIG)
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(Client(connection, name="control plane"))
            keeper = await stack.enter_async_context(Keeper())
            status = await stack.enter_async_context(StatusServer(wanted.status, keeper.sources))
            keeper.start(names.ROLE_CONTROLLERS, _controllers(server, wanted))
            await up_spaces.install(server)
            await _set_up(server, keeper, wanted)
            folder = wanted.data / ROLES
            paths = await up_spaces.write_role_kubeconfigs(server, folder, names.ROLES)
            roles = Settings(dict(paths), wanted.status, leader_elect=False, identity="up")
            keeper.start(names.ROLE_NSSCHEDULER, make_nsscheduler(roles))
            keeper.start(names.ROLE_PODSCHEDULER, make_podscheduler(roles))
            tasks.create_task(_tell_when_ready(keeper, wanted, status.address, begun))
            async with open_meta(roles, names.ROLE_SYNCER) as meta:
                await follow_super_clusters(meta, keeper, lambda super_id: make_syncer(roles, super_id))


async def _either(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait for an event, or for the end of what should bring it about."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()


async def _set_up(server: Client, keeper: Keeper, wanted: Wanted) -> None:
    """Have every super cluster in the pool and every tenant served."""
    for super_id in wanted.hollow:
        await up_spaces.add_embedded_super(server, super_id)
        keeper.start(f"hollow/{super_id}", _hollow(server, super_id, wanted.cluster))
        _say(f"super cluster {super_id}: {wanted.cluster.nodes} hollow nodes")
    for super_id, admin in wanted.real.items():
        await up_spaces.add_real_super(server, super_id, admin)
        _say(f"super cluster {super_id}: {admin.cluster.server}")
    for tenant in wanted.tenants:
        kubeconfig = await up_spaces.add_tenant(server, tenant, {"weight": 1})
        write_private(_kubeconfig(wanted, tenant), kubeconfig)
        _say(f"tenant {tenant}")


def _kubeconfig(wanted: Wanted, tenant: str) -> Path:
    return wanted.data / f"{tenant}.kubeconfig"


def _controllers(server: Client, wanted: Wanted) -> MakeRole:
    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        authority = (wanted.data / AUTHORITY).read_text()
        yield Controllers(server, identity="up", authority=authority, leader_elect=False)

    return make


def _hollow(server: Client, super_id: str, settings: HollowSettings) -> MakeRole:
    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        kubeconfig = await up_spaces.kubeconfig(server, super_id)
        async with Client(Connection.from_kubeconfig_bytes(kubeconfig), name=super_id) as client:
            yield HollowCluster(client, settings)

    return make


async def _tell_when_ready(keeper: Keeper, wanted: Wanted, status: str, begun: float) -> None:
    """Say that everything is ready, or after a while what is not, and what to type next."""
    told = begun
    while not (state := readiness(keeper.sources))[0]:
        if time.monotonic() - told > READY_SECONDS:
            told = time.monotonic()
            _say("still waits:\n  " + "\n  ".join(line for line in state[1] if line.startswith("[-]")))
        await asyncio.sleep(POLL_SECONDS)
    _say(f"ready after {time.monotonic() - begun:.1f} s; http://{status}/status tells more. Next:")
    shown = _kubeconfig(wanted, wanted.tenants[0]) if wanted.tenants else wanted.data / ADMIN_KUBECONFIG
    click.echo(
        f"""
  export KUBECONFIG={shown}
  kubectl create quota all --hard=cpu=8,memory=16Gi
  kubectl create deployment web --image=nginx --replicas=6
  kubectl set resources deployment web --requests=cpu=500m,memory=128Mi
  kubectl get pods -o wide

  export VCSYNC_META={wanted.data / ADMIN_KUBECONFIG}
  vcsync status --status {status}
"""
    )


def _say(text: str) -> None:
    click.echo(text)
