"""`vcsync up`: the whole system in one process on one machine; its options and what they say."""

import os
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from vcsync.api import names
from vcsync.cli.common import log_options
from vcsync.cli.config import Config, config_option
from vcsync.cli.controlplane import ControlPlaneSettings, control_plane_settings
from vcsync.cli.controlplane_kubelets import with_own_kubelets
from vcsync.cli.embedded import RESERVED
from vcsync.cli.errors import WrongInputError
from vcsync.cli.help import example
from vcsync.cli.hollow import hollow_settings
from vcsync.cli.kubeconfigs import Admin, read_admin
from vcsync.cli.roles import Tuning
from vcsync.cli.run import tuning_of
from vcsync.cli.tenants import check_name
from vcsync.simulate.cluster import Settings as HollowSettings
from vcsync.status.server import DEFAULT_LISTEN, ListenAddressError, parse_listen

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_DATA = Path("vcsync-data")
DEFAULT_HOLLOW = ("r1", "r2")
LISTEN_FILE = "listen"
"""Holds the port that was chosen: kubeconfigs name it, so it stays."""
LOOPBACK = "127.0.0.1"
PREFERRED_PORT = 6443


@dataclass(frozen=True)
class Members:
    """Who takes part. `real`: super clusters by id, with their administrators' kubeconfigs."""

    tenants: tuple[str, ...]
    hollow: tuple[str, ...]
    real: Mapping[str, Admin]


@dataclass(frozen=True)
class Wanted:
    """What `vcsync up` was asked for.

    `status`: where to serve it, None: at the usual port, or a free one if that is taken. `cluster`: what hollow
    super clusters are made of.
    """

    plane: ControlPlaneSettings
    members: Members
    status: str | None
    cluster: HollowSettings
    tuning: Tuning


def member_options(command: Command) -> Command:
    """Add the options that say who takes part; `members_of` reads them."""
    for option in reversed(_MEMBER_OPTIONS):
        command = option(command)
    return command


def members_of(tenants: str, real: Sequence[str], hollow: str | None) -> Members:
    """Return who takes part.

    Raises:
        WrongInputError, InvalidName, CredentialsError: a name would not do, or a file is no kubeconfig.
    """
    clusters = _real(real)
    pretending = _split(hollow) if hollow is not None else () if clusters else DEFAULT_HOLLOW
    members = Members(_split(tenants), pretending, clusters)
    _check(members.tenants, (*pretending, *clusters))
    return members


def _split(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


_MEMBER_OPTIONS = (
    click.option(
        "--tenants",
        default="acme",
        show_default=True,
        metavar="NAME,NAME",
        help="Tenants to have; '' for none.",
    ),
    click.option(
        "--super-cluster",
        "real",
        multiple=True,
        metavar="ID=KUBECONFIG",
        help="A real cluster for the pool, by its administrator's kubeconfig; may be repeated.",
    ),
    click.option(
        "--hollow",
        default=None,
        metavar="ID,ID",
        help="Super clusters that pretend (default: r1,r2, or none beside --super-cluster).",
    ),
)


@click.command(
    epilog=example(
        "vcsync up",
        "vcsync up --tenants acme,umbrella --nodes 10",
        "vcsync up --super-cluster east=east.kubeconfig --super-cluster west=west.kubeconfig",
    )
)
@config_option("up", expose=True)
@click.option(
    "--data",
    default=DEFAULT_DATA,
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store and of all kubeconfigs; kept, and gone on with at the next start.",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing: a folder of its own, removed at the end.")
@member_options
@click.option(
    "--nodes", type=click.IntRange(1, 10_000), default=3, show_default=True, help="Of each hollow one."
)
@click.option(
    "--listen", metavar="HOST:PORT", help="Where to serve the control planes (default: a free port here)."
)
@click.option(
    "--status",
    metavar="HOST:PORT",
    help="Where to serve /healthz, /readyz, /metrics and /status, without authentication "
    f"(default: {DEFAULT_LISTEN}, or a free port if that is taken).",
)
@log_options("warning", "console")
def up(
    *,
    config: Config,
    data: Path,
    ephemeral: bool,
    tenants: str,
    real: tuple[str, ...],
    hollow: str | None,
    nodes: int,
    listen: str | None,
    status: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the whole system in this process: control planes of tenants, a pool of super clusters, everything between.

    Without options: one tenant, and two super clusters whose nodes pretend. Ctrl-C ends it; the next start goes
    on with what was there.
    """
    if status:
        parse_listen(status)
    source = click.get_current_context().get_parameter_source("data")
    if ephemeral and source is ParameterSource.COMMANDLINE:
        raise WrongInputError("--ephemeral keeps nothing, --data says where to keep it: give one of them")
    members = members_of(tenants, real, hollow)
    with tempfile.TemporaryDirectory(prefix="vcsync-") if ephemeral else nullcontext() as scratch:
        folder = Path(scratch) / "data" if scratch else data.absolute()
        wanted = wanted_of(config, folder, members, nodes=nodes, listen=listen, status=status)
        from vcsync.cli.up_process import serve  # noqa: PLC0415  loads the whole system

        serve(wanted, log_level, log_format)


def wanted_of(
    config: Config,
    folder: Path,
    members: Members,
    *,
    nodes: int,
    listen: str | None = None,
    status: str | None = None,
) -> Wanted:
    """Put together what is wanted: what is given, and what the file says of the rest."""
    plane = plane_of(config, folder, listen)
    return Wanted(
        replace(plane, kubelets=with_own_kubelets(plane.kubelets, members.hollow)),
        members,
        status,
        hollow_settings(config.values("hollow", kubeconfig=os.devnull, nodes=nodes)),
        tuning_of(config.values("all")),
    )


def plane_of(config: Config, folder: Path, listen: str | None) -> ControlPlaneSettings:
    """Return the settings of the control plane: what the file says, in this folder, at this or a free port."""
    said = listen or config.defaults("controlplane").get("listen")
    host, port = listen_at(folder, said)
    shown = f"[{host}]" if ":" in host else host
    return control_plane_settings(config.values("controlplane", data=str(folder), listen=f"{shown}:{port}"))


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
        if super_id in found:
            raise WrongInputError(f"--super-cluster {super_id}: it is named twice")
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


def listen_at(folder: Path, given: str | None = None) -> tuple[str, int]:
    """Return where to serve: as given, as last time, or a free port.

    Raises:
        WrongInputError: no port is given, or the file that remembers is damaged.
    """
    remembered = folder / LISTEN_FILE
    if given:
        host, port = parse_listen(given)
        if not port:
            raise WrongInputError(
                f"--listen {given!r}: kubeconfigs need a port that stays; give one from 1 to 65535"
            )
        return host, port
    if remembered.is_file():
        try:
            return parse_listen(remembered.read_text().strip())
        except ListenAddressError as error:
            raise WrongInputError(
                f"{remembered}: {error}; say with --listen where kubeconfigs lead"
            ) from error
    return LOOPBACK, free_port(PREFERRED_PORT)


def free_port(preferred: int) -> int:
    """Return a port of this machine that nobody listens on, the preferred one if possible.

    Raises:
        WrongInputError: there is none.
    """
    for port in (preferred, 0):
        with socket.socket() as probe:
            # As servers do: connections that have just ended take a port from nobody.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise WrongInputError("no port is free; name one with --listen")
