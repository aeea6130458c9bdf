"""`vcsync up`: the whole system in one process on one machine; its options and their meaning."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from vcsync.api import names
from vcsync.cli.command.common import limit_stalls, log_options, stall_option
from vcsync.cli.command.config import Config, config_option
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.controlplane.commands import control_plane_settings
from vcsync.cli.controlplane.kubelet_options import with_own_kubelets
from vcsync.cli.controlplane.settings import STALLS, ControlPlaneSettings
from vcsync.cli.hollow.commands import hollow_settings
from vcsync.cli.run.commands import tuning_of
from vcsync.cli.run.roles import Tuning
from vcsync.cli.tenant.commands import check_name
from vcsync.cli.tenant.embedded import RESERVED
from vcsync.cli.tenant.limits import limits_of
from vcsync.cli.up import memory as up_memory
from vcsync.cli.up.members import Members
from vcsync.cli.up.memory import Past, Registered
from vcsync.cli.up.settings import LISTEN_FILE, LOOPBACK, ROLES, Wanted, free_port
from vcsync.process import restarts
from vcsync.registration.kubeconfigs import Admin, read_admin
from vcsync.status.server import DEFAULT_LISTEN, ListenAddressError, parse_listen

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_DATA = Path("vcsync-data")
DEFAULT_HOLLOW = ("r1", "r2")
DEFAULT_QUOTA = "cpu=8,memory=16Gi"
QUOTA = "cpu=96,memory=384Gi"
"""Half of the capacity of two hollow super clusters with three nodes."""
PREFERRED_PORT = 6443


def member_options(command: Command) -> Command:
    """Add the options that name tenants and super clusters; `members_of` reads them."""
    for option in reversed(_MEMBER_OPTIONS):
        command = option(command)
    return command


def members_of(
    tenants: str, real: Sequence[str], hollow: str | None, default_quota: str, quota: str
) -> Members:
    """Return the tenants and super clusters.

    Raises:
        WrongInputError, InvalidName, CredentialsError: a name is invalid, or a file is not a kubeconfig.
    """
    clusters = _real(real)
    pretending = _split(hollow) if hollow is not None else () if clusters else DEFAULT_HOLLOW
    limits = {
        field: amounts
        for field, amounts in limits_of(default_quota=[default_quota], quota=[quota]).items()
        if amounts
    }
    members = Members(_split(tenants), pretending, clusters, limits)
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
        help="Tenants; '' for none.",
    ),
    click.option(
        "--super-cluster",
        "real",
        multiple=True,
        metavar="ID=KUBECONFIG",
        help="A real cluster for the pool, with its administrator's kubeconfig; may be repeated.",
    ),
    click.option(
        "--hollow",
        default=None,
        metavar="ID,ID",
        help="Hollow super clusters (default: r1,r2, or none with --super-cluster).",
    ),
    click.option(
        "--default-quota",
        default=DEFAULT_QUOTA,
        show_default=True,
        metavar="RESOURCE=AMOUNT",
        help="Quota of a new tenant's namespaces without ResourceQuota; '' for none: then they are not placed.",
    ),
    click.option(
        "--quota",
        default=QUOTA,
        show_default=True,
        metavar="RESOURCE=AMOUNT",
        help="Cap over all namespaces of a new tenant together; '' for none.",
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
    help="Folder of the store and of all kubeconfigs; the next start continues with it.",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing: use a temporary folder, removed at the end.")
@member_options
@click.option(
    "--nodes",
    type=click.IntRange(1, 10_000),
    default=3,
    show_default=True,
    help="Nodes of each hollow super cluster.",
)
@click.option(
    "--listen", metavar="HOST:PORT", help="Address of the control planes (default: a free local port)."
)
@click.option(
    "--status",
    metavar="HOST:PORT",
    help="Address of /healthz, /readyz, /metrics and /status: on loopback for everybody on this machine, by HTTP; elsewhere by "
    f"HTTPS, for those who may read them (default: {DEFAULT_LISTEN}, or a free port if that is taken).",
)
@click.option(
    "--unschedulable-seconds",
    type=click.FloatRange(min=0),
    default=None,
    help="Seconds in which a super cluster finds no node for a Pod, after which the Pod is tried on another one "
    f"(default: that of section syncer of the settings file, or {Tuning.unschedulable_seconds:g}). The next start does not "
    "remember it.",
)
@stall_option
@log_options("warning", "console")
def up(
    *,
    config: Config,
    data: Path,
    ephemeral: bool,
    tenants: str,
    real: tuple[str, ...],
    hollow: str | None,
    default_quota: str,
    quota: str,
    nodes: int,
    listen: str | None,
    status: str | None,
    unschedulable_seconds: float | None,
    stall_seconds: float,
    log_level: str,
    log_format: str,
) -> None:
    """Run the whole system in this process: tenants' control planes, a pool of super clusters, and all roles.

    Without options there is one tenant, and two hollow super clusters. Ctrl-C ends the process; the next start
    continues with the same data.
    """
    if status:
        parse_listen(status)
    source = click.get_current_context().get_parameter_source("data")
    if ephemeral and source is ParameterSource.COMMANDLINE:
        raise WrongInputError("--ephemeral and --data contradict each other: give one of them")
    with restarts.scratch("vcsync-") if ephemeral else nullcontext() as scratch:
        folder = scratch / "data" if scratch else data.absolute()
        limit_stalls(stall_seconds, folder / STALLS)
        values = {
            "tenants": tenants,
            "hollow": hollow,
            "super-cluster": [_absolute(each) for each in real],
            "default-quota": default_quota,
            "quota": quota,
            "nodes": nodes,
        }
        now, memory, changed = up_memory.recalled(up_memory.read(folder), values, _given(values))
        members = members_of(
            now["tenants"], now["super-cluster"], now["hollow"], now["default-quota"], now["quota"]
        )
        wanted = wanted_of(
            config,
            folder,
            members,
            nodes=now["nodes"],
            listen=listen,
            status=status,
            unschedulable_seconds=unschedulable_seconds,
        )
        from vcsync.cli.up.process import serve  # noqa: PLC0415  loads the whole system

        named = _named(members, _given(values))
        serve(replace(wanted, past=Past(memory, named, tuple(changed))), log_level, log_format)


def _given(values: Mapping[str, Any]) -> frozenset[str]:
    """Return the options that were given, on the command line or in the settings file."""
    context = click.get_current_context()
    parameters = {"super-cluster": "real"}
    defaults = (ParameterSource.DEFAULT, None)
    return frozenset(
        name
        for name in values
        if context.get_parameter_source(parameters.get(name, name.replace("-", "_"))) not in defaults
    )


def _named(members: Members, given: Collection[str]) -> Registered:
    """Return the names that this command line contains."""
    return Registered(
        tenants=members.tenants if "tenants" in given else (),
        super_clusters=(
            *(members.hollow if "hollow" in given else ()),
            *(members.real if "super-cluster" in given else ()),
        ),
    )


def _absolute(given: str) -> str:
    """Make the path of a kubeconfig independent of the current folder."""
    super_id, separator, path = given.partition("=")
    return f"{super_id}={Path(path).absolute()}" if separator and path else given


def wanted_of(
    config: Config,
    folder: Path,
    members: Members,
    *,
    nodes: int,
    listen: str | None = None,
    status: str | None = None,
    unschedulable_seconds: float | None = None,
) -> Wanted:
    """Combine the given options with the settings file. What is None comes from the file, or is the default."""
    given = {} if unschedulable_seconds is None else {"unschedulable_seconds": unschedulable_seconds}
    plane = plane_of(config, folder, listen)
    streams = folder / ROLES / f"{names.ROLE_STREAMS}.kubeconfig"
    return Wanted(
        replace(
            plane, kubelets=with_own_kubelets(plane.kubelets, members.hollow), pool=plane.pool or streams
        ),
        members,
        status,
        hollow_settings(config.values("hollow", kubeconfig=os.devnull, nodes=nodes)),
        tuning_of(config.values("all", **given)),
    )


def plane_of(config: Config, folder: Path, listen: str | None) -> ControlPlaneSettings:
    """Return the settings of the control plane: those of the file, in this folder, at this or a free port."""
    said = listen or config.defaults("controlplane").get("listen")
    host, port = listen_at(folder, said)
    shown = f"[{host}]" if ":" in host else host
    return control_plane_settings(config.values("controlplane", data=str(folder), listen=f"{shown}:{port}"))


def _real(given: Sequence[str]) -> dict[str, Admin]:
    """Read the kubeconfigs of real super clusters.

    Raises:
        WrongInputError: a value is not ID=KUBECONFIG.
    """
    found: dict[str, Admin] = {}
    for text in given:
        super_id, separator, path = text.partition("=")
        if not separator or not path:
            raise WrongInputError(
                f"--super-cluster {text!r}: give ID=KUBECONFIG, for instance east=east.kubeconfig"
            )
        if super_id in found:
            raise WrongInputError(f"--super-cluster {super_id}: the id is given twice")
        found[super_id] = read_admin(Path(path))
    return found


def _check(tenants: Sequence[str], super_ids: Sequence[str]) -> None:
    """Refuse invalid names.

    Raises:
        WrongInputError, InvalidName: a name is invalid; the text says why.
    """
    for super_id in super_ids:
        names.require_super_id(super_id)
    for tenant in tenants:
        check_name(tenant)
    spaces = [*tenants, *super_ids]
    for name in spaces:
        if name in RESERVED:
            raise WrongInputError(f"{name!r} cannot be used: it is reserved")
        if spaces.count(name) > 1:
            raise WrongInputError(
                f"{name!r} cannot be used: every tenant and super cluster needs a name of its own"
            )


def listen_at(folder: Path, given: str | None = None) -> tuple[str, int]:
    """Return the address to serve at: the given one, the last one, or a free port.

    Raises:
        WrongInputError: the port is missing, or the file that stores it is damaged.
    """
    remembered = folder / LISTEN_FILE
    if given:
        host, port = parse_listen(given)
        if not port:
            raise WrongInputError(
                f"--listen {given!r}: kubeconfigs need a fixed port; give one from 1 to 65535"
            )
        return host, port
    if remembered.is_file():
        try:
            return parse_listen(remembered.read_text().strip())
        except ListenAddressError as error:
            raise WrongInputError(
                f"{remembered}: {error}; give the address for kubeconfigs with --listen"
            ) from error
    return LOOPBACK, free_port(PREFERRED_PORT)
