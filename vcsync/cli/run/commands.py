"""`vcsync run ...`: runs the long-running roles, one alone or all in one process."""

import asyncio
import dataclasses
import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
import structlog

from vcsync.api.fields import PositiveQuantity
from vcsync.api.names import (
    META_ROLES,
    PLACEMENT_SERVICE,
    ROLE_NSSCHEDULER,
    ROLE_PODSCHEDULER,
    ROLE_SYNCER,
    ROLE_TENANTS,
    ROLES,
    SYSTEM_NAMESPACE,
    require_super_id,
)
from vcsync.api.specs import FailBack
from vcsync.cli.command.common import (
    limit_stalls,
    log_options,
    meta_kubeconfig,
    meta_option,
    options,
    parse_amounts,
    parse_endpoint,
    require_slice,
    stall_option,
)
from vcsync.cli.command.config import config_option
from vcsync.cli.command.durations import seconds_of
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.failover import FAIL_BACK, METAVAR, OPTION, parse_failover
from vcsync.cli.command.help import example
from vcsync.cli.command.status_endpoint import listen_of, serve_status, status_options
from vcsync.cli.controllers.commands import controllers
from vcsync.cli.controlplane.commands import controlplane
from vcsync.cli.hollow.commands import hollow
from vcsync.cli.run import pool_role
from vcsync.cli.run.kubelet_api_options import kubelet_api_options, kubelet_options_of
from vcsync.cli.run.roles import (
    Settings,
    Tuning,
    make_nsscheduler,
    make_podscheduler,
    make_syncer,
    make_tenants,
)
from vcsync.cli.run.supervision import Keeper, MakeRole
from vcsync.kube.connection import Connection
from vcsync.process import lifetime, logs, loop
from vcsync.process.signals import until_signalled
from vcsync.scheduling.scores import POLICIES
from vcsync.scheduling.slices import DEFAULT_SLICE, DIMENSIONS, OBJECTS, PODS
from vcsync.status import StatusSource
from vcsync.status.sources import readiness

Command = TypeVar("Command", bound=Callable[..., Any])

_SHORTEST_INTERVAL = 60
"""Seconds; a rebalance takes about as long."""

_TUNING = frozenset(each.name for each in dataclasses.fields(Tuning))

_log = structlog.get_logger(__name__)


role_options = options(
    meta_option,
    status_options,
    click.option(
        "--leader-elect/--no-leader-elect",
        default=True,
        show_default=True,
        help="Work only while holding the Lease, so that replicas stand by.",
    ),
    click.option(
        "--identity", help="Beginning of the name in the Lease and the status (default: host name)."
    ),
    stall_option,
    log_options(),
)
brake_option = click.option(
    "--brake-share",
    type=click.FloatRange(0, 1),
    default=Tuning.brake_share,
    show_default=True,
    help="Largest share of a tenant's objects that may vanish together without the brake holding their deletion; 1: any.",
)


memory_option = click.option(
    "--memory-per-tenant",
    type=click.IntRange(min=1),
    default=Tuning.memory_per_tenant,
    show_default=True,
    metavar="MIB",
    help="MiB of a role's memory that one tenant's cached objects may take; the role does not serve one with more.",
)


def _interval(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Return an interval in seconds.

    Raises:
        BadParameter: it is no duration, or too short.
    """
    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds < _SHORTEST_INTERVAL:
        raise click.BadParameter(f"{text!r} is less than {_SHORTEST_INTERVAL}s: slices need time to move")
    return seconds


syncer_options = options(
    click.option(
        "--patrol-seconds",
        type=click.FloatRange(min=1),
        default=Tuning.patrol_seconds,
        show_default=True,
        help="Seconds between two full comparisons of a super cluster with its tenants.",
    ),
    click.option(
        "--unschedulable-seconds",
        type=click.FloatRange(min=0),
        default=Tuning.unschedulable_seconds,
        show_default=True,
        help="Seconds in which a super cluster finds no node for a Pod, after which the Pod is tried on another one.",
    ),
    kubelet_api_options,
)
nsscheduler_options = options(
    click.option(
        "--policy",
        type=click.Choice(sorted(POLICIES)),
        default=Tuning.policy,
        show_default=True,
        help="How slices are distributed: evenly, on few super clusters, or on cheap ones.",
    ),
    click.option(
        "--default-slice",
        multiple=True,
        metavar="RESOURCE=AMOUNT",
        default=[",".join(f"{name}={amount}" for name, amount in DEFAULT_SLICE.items())],
        show_default=True,
        help="Slice of namespaces for which neither they nor their tenant set one.",
    ),
    click.option(
        FAIL_BACK,
        type=click.Choice(get_args(FailBack)),
        default=Tuning.fail_back,
        show_default=True,
        help="When slices go back to a lost super cluster that has returned, of tenants without a policy of their own: never, "
        "--move-budget slices at a time, or with the next rebalance.",
    ),
    click.option(
        "--move-budget",
        type=click.IntRange(1, 100_000),
        default=Tuning.move_budget,
        show_default=True,
        metavar="SLICES",
        help="Most slices that a rebalance on a schedule moves, and that go back to super clusters at a time.",
    ),
    click.option(
        "--rebalance-every",
        metavar="DURATION",
        callback=_interval,
        help="Rebalance the pool at this interval (24h), within --move-budget (default: never).",
    ),
)
tenants_options = options(
    click.option(
        "--control-plane",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="Kubeconfig of the server that has embedded control planes for Tenants (default: the meta cluster).",
    ),
)
podscheduler_options = options(
    click.option(
        "--placement-webhook-listen",
        metavar="HOST:PORT",
        help="Answer control planes of tenants there that were added with --placement-webhook, over TLS (default: nowhere).",
    ),
    click.option(
        "--placement-webhook-endpoint",
        metavar="ADDRESS",
        help="IP address of this process. While it leads, it writes the address to EndpointSlice "
        f"{SYSTEM_NAMESPACE}/{PLACEMENT_SERVICE}, so that the Service of that name leads to it (default: no such Service).",
    ),
)
failover_options = options(
    click.option(
        OPTION,
        metavar=METAVAR,
        default="Stay",
        show_default=True,
        help="Slices and Pods on lost super clusters, of tenants without a policy of their own: Stay, MoveAfter=5m, or "
        "MoveStateless=5m for those without claims.",
    ),
)
patience_options = options(
    click.option(
        "--suspect-after",
        type=click.FloatRange(min=1),
        default=Tuning.suspect_after,
        show_default=True,
        help="Seconds without a heartbeat after which a super cluster gets no new slices.",
    ),
    click.option(
        "--lost-after",
        type=click.FloatRange(min=1),
        default=Tuning.lost_after,
        show_default=True,
        help="Seconds without a heartbeat after which a super cluster gets no new Pods, and no other one uses its endpoints.",
    ),
)


@click.group(
    epilog=example(
        "vcsync run all",
    )
)
def run() -> None:
    """Run the control plane, the syncers and schedulers; Ctrl-C or SIGTERM ends them gracefully."""


run.add_command(controlplane)
run.add_command(controllers)
run.add_command(hollow)


@run.command(
    epilog=example(
        "vcsync run syncer --super-cluster r1 --meta roles/syncer.kubeconfig",
    )
)
@config_option("syncer")
@click.option("--super-cluster", required=True, metavar="ID", help="The super cluster to serve.")
@click.option("--shard", metavar="I/N", help="Serve only the I-th of N parts of the tenants (1/4 ... 4/4).")
@syncer_options
@memory_option
@brake_option
@patience_options
@role_options
def syncer(super_cluster: str, shard: str | None, log_level: str, log_format: str, **given: Any) -> None:
    """Run the syncer of one super cluster: it copies objects down and status up."""
    require_super_id(super_cluster)
    part = parse_shard(shard)
    settings = _settings((ROLE_SYNCER,), **given)
    make = make_syncer(settings, super_cluster, part)
    _serve(_one(settings, f"{ROLE_SYNCER}/{super_cluster}", make), log_level, log_format)


@run.command(
    epilog=example(
        "vcsync run nsscheduler --meta roles/nsscheduler.kubeconfig",
    )
)
@config_option("nsscheduler")
@nsscheduler_options
@memory_option
@brake_option
@failover_options
@patience_options
@role_options
def nsscheduler(log_level: str, log_format: str, **given: Any) -> None:
    """Run the namespace scheduler: it distributes the quota of namespaces over the super clusters."""
    settings = _settings((ROLE_NSSCHEDULER,), **given)
    _serve(_one(settings, ROLE_NSSCHEDULER, make_nsscheduler(settings)), log_level, log_format)


@run.command(
    epilog=example(
        "vcsync run podscheduler --meta roles/podscheduler.kubeconfig",
    )
)
@config_option("podscheduler")
@podscheduler_options
@memory_option
@failover_options
@patience_options
@role_options
def podscheduler(log_level: str, log_format: str, **given: Any) -> None:
    """Run the pod scheduler: it chooses the super cluster of every Pod."""
    settings = _settings((ROLE_PODSCHEDULER,), **given)
    _serve(_one(settings, ROLE_PODSCHEDULER, make_podscheduler(settings)), log_level, log_format)


@run.command(
    epilog=example(
        "vcsync run tenants --meta roles/tenants.kubeconfig",
        "vcsync run tenants --meta meta.kubeconfig --control-plane plane/tenants.kubeconfig",
    )
)
@config_option("tenant-controller")
@tenants_options
@role_options
def tenants(log_level: str, log_format: str, **given: Any) -> None:
    """Run the tenant controller: it creates and registers the control planes of Tenants, and deletes them with the Tenants."""
    settings = _settings((ROLE_TENANTS,), **given)
    _serve(_one(settings, ROLE_TENANTS, make_tenants(settings)), log_level, log_format)


@run.command(
    name="all",
    epilog=example(
        "vcsync run all --kubeconfigs roles --log-format console",
    ),
)
@config_option("all")
@click.option(
    "--kubeconfigs",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder written by 'vcsync install --kubeconfigs': every role uses its own credentials.",
)
@syncer_options
@memory_option
@brake_option
@nsscheduler_options
@podscheduler_options
@failover_options
@patience_options
@tenants_options
@role_options
def all_(kubeconfigs: Path | None, log_level: str, log_format: str, **given: Any) -> None:
    """Run every role in this process: both schedulers, the tenant controller, and a syncer for each super cluster.

    When super clusters are added or removed, their syncers start or stop. A role that fails is
    restarted after a pause; /status shows it.
    """
    roles: tuple[str, ...] = META_ROLES
    if kubeconfigs is not None and not (kubeconfigs / f"{ROLE_TENANTS}.kubeconfig").is_file():
        roles = ROLES  # An earlier version wrote the folder.
    settings = _settings(roles, kubeconfigs=kubeconfigs, **given)
    _serve(_all(settings), log_level, log_format)


def _settings(
    roles: tuple[str, ...],
    *,
    meta: str | None,
    listen: str,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    leader_elect: bool,
    identity: str | None,
    stall_seconds: float,
    kubeconfigs: Path | None = None,
    control_plane: str | None = None,
    **tuning: Any,
) -> Settings:
    """Create the settings from the options, and set the limit of stalls of the process.

    Raises:
        WrongInputError: The folder lacks a role's kubeconfig, or options contradict each other.
    """
    at = listen_of(
        {"listen": listen, "tls_cert_file": tls_cert_file, "tls_private_key_file": tls_private_key_file}
    )
    limit_stalls(stall_seconds)
    own = tuning_of(tuning)
    if kubeconfigs is None:
        by_role: dict[str, str | None] = dict.fromkeys(roles, meta_kubeconfig(meta))
    else:
        by_role = {role: str(kubeconfigs / f"{role}.kubeconfig") for role in roles}
        missing = [path for path in by_role.values() if path and not Path(path).is_file()]
        if missing:
            raise WrongInputError(f"{missing[0]} does not exist; 'vcsync install --kubeconfigs' writes it")
    name = lifetime.begin(identity or socket.gethostname())
    return Settings(by_role, at, leader_elect, name, own, control_plane)


def tuning_of(given: Mapping[str, Any]) -> Tuning:
    """Return the options about decisions of roles; other options are ignored.

    Raises:
        WrongInputError: They contradict each other.
    """
    found = {name: value for name, value in given.items() if name in _TUNING}
    if "default_slice" in found:
        found["default_slice"] = parse_amounts(
            "--default-slice",
            found["default_slice"],
            kind=PositiveQuantity,
            known=(*DIMENSIONS, PODS, *OBJECTS),
        )
        require_slice("--default-slice", found["default_slice"])
    if "failover" in found:
        found["failover"] = parse_failover(found["failover"])
    listen = given.get("placement_webhook_listen")
    endpoint = given.get("placement_webhook_endpoint")
    if endpoint and not listen:
        raise WrongInputError("--placement-webhook-endpoint: add --placement-webhook-listen HOST:PORT")
    tuning = Tuning(
        **found,
        kubelet=kubelet_options_of(given),
        placement_webhook=parse_endpoint("--placement-webhook-listen", listen) if listen else None,
        placement_endpoint=_address("--placement-webhook-endpoint", endpoint) if endpoint else "",
    )
    if tuning.suspect_after >= tuning.lost_after:
        raise WrongInputError(
            f"--suspect-after {tuning.suspect_after:g} must be less than --lost-after {tuning.lost_after:g}"
        )
    return tuning


def _address(option: str, text: str) -> str:
    """Return an IP address in its usual form.

    Raises:
        WrongInputError: it is none.
    """
    try:
        return str(ip_address(text))
    except ValueError:
        raise WrongInputError(f"{option} {text!r}: give an IP address, for instance 10.0.0.7") from None


def parse_shard(text: str | None) -> tuple[int, int]:
    """Parse ``i/n`` with 1 <= i <= n; without a text it is 1/1, everything.

    Raises:
        WrongInputError: It is malformed.
    """
    if text is None:
        return 1, 1
    match = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text, re.ASCII)
    if match is None or int(match[1]) > int(match[2]):
        raise WrongInputError(f"--shard {text!r}: give I/N with I from 1 to N, for instance 1/4")
    return int(match[1]), int(match[2])


# ---- Processes -------------------------------------------------------------------------


def _serve(main: Coroutine[Any, Any, None], log_level: str, log_format: str) -> None:
    """Run until SIGTERM or Ctrl-C, then shut down gracefully."""
    logs.configure(log_level, "console" if log_format == "console" else "json")
    loop.run(until_signalled(main))


async def _one(settings: Settings, name: str, make: MakeRole) -> None:
    """Run one role; its failure ends the process, whose supervisor restarts it."""
    loop.started()
    async with (
        make() as role,
        serve_status(settings.listen, {name: role}, partial(_meta, settings)) as server,
        _settling({name: role}),
    ):
        _log.info("role starts", role=name, identity=settings.identity, status=f"{server.url}/status")
        await role.run()
    _log.info("role ended", role=name)


async def _all(settings: Settings) -> None:
    """Run all roles until cancelled."""
    loop.started()
    async with (
        Keeper() as keeper,
        serve_status(settings.listen, keeper.sources, partial(_meta, settings)) as server,
        _settling(keeper.sources),
    ):
        _log.info("all roles start", identity=settings.identity, status=f"{server.url}/status")
        keeper.start(ROLE_NSSCHEDULER, make_nsscheduler(settings))
        keeper.start(ROLE_PODSCHEDULER, make_podscheduler(settings))
        if ROLE_TENANTS in settings.kubeconfigs:
            keeper.start(ROLE_TENANTS, make_tenants(settings))
        else:
            _log.warning(
                "Tenant objects have no effect: the folder has no kubeconfig of their controller; run 'vcsync install "
                "--kubeconfigs' again"
            )
        keeper.start(pool_role.NAME, pool_role.make_pool(settings, keeper))
        await asyncio.Event().wait()


def _meta(settings: Settings) -> Connection:
    """Return how to reach the meta cluster: every role may ask it about callers of the status endpoint."""
    return Connection.load(next(iter(settings.kubeconfigs.values())))


@asynccontextmanager
async def _settling(sources: Mapping[str, StatusSource]) -> AsyncIterator[None]:
    """Freeze the filled caches while the roles run, so that the garbage collector skips them."""

    async def settle() -> None:
        while not readiness(sources)[0]:  # noqa: ASYNC110  roles tell when asked
            await asyncio.sleep(1.0)
        loop.tune_gc()

    task = asyncio.create_task(settle(), name="settling")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
