"""`vcsync run controllers`: runs the controllers of embedded control planes for all tenants."""

import socket
from pathlib import Path

import click
import structlog

from vcsync.api.names import ROLE_CONTROLLERS
from vcsync.apiserver.admission.policies.typechecking import warnings
from vcsync.cli.command.common import log_options, status_option
from vcsync.cli.command.config import config_option
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.controlplane.commands import data_option
from vcsync.cli.tenant.embedded import ADMIN_KUBECONFIG
from vcsync.controllers.manager.role import Controllers
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.process import lifetime, logs, loop
from vcsync.process.signals import until_signalled
from vcsync.status import StatusServer
from vcsync.status.server import parse_listen

AUTHORITY = "ca.crt"

_log = structlog.get_logger(__name__)


@click.command(epilog=example("vcsync run controllers --data /var/lib/vcsync"))
@config_option("controllers")
@data_option
@status_option
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only while holding the Lease, so that replicas stand by.",
)
@click.option("--identity", help="Beginning of the name in the Lease and the status (default: host name).")
@log_options()
def controllers(
    *, data: Path, listen: str, leader_elect: bool, identity: str | None, log_level: str, log_format: str
) -> None:
    """Run the controllers of all tenants of an embedded control plane that runs already.

    Tenants then need no kube-controller-manager of their own.
    """
    parse_listen(listen)
    missing = [name for name in (ADMIN_KUBECONFIG, AUTHORITY) if not (data / name).is_file()]
    if missing:
        raise WrongInputError(f"{data / missing[0]} does not exist; 'vcsync run controlplane' writes it")
    logs.configure(log_level, "console" if log_format == "console" else "json")
    name = lifetime.begin(identity or socket.gethostname())
    loop.run(until_signalled(_run(data, listen, name, leader_elect=leader_elect)))


async def _run(data: Path, listen: str, identity: str, *, leader_elect: bool) -> None:
    connection = Connection.from_kubeconfig_file(data / ADMIN_KUBECONFIG)
    loop.started()
    async with Client(connection, name="control plane", field_manager=f"vcsync/{ROLE_CONTROLLERS}") as server:
        role = Controllers(
            server,
            identity=identity,
            authority=(data / AUTHORITY).read_text(),
            check=warnings,
            leader_elect=leader_elect,
        )
        async with StatusServer(listen, {ROLE_CONTROLLERS: role}) as status:
            _log.info(
                "role starts",
                role=ROLE_CONTROLLERS,
                identity=identity,
                status=f"http://{status.address}/status",
            )
            await role.run()
    _log.info("role ended", role=ROLE_CONTROLLERS)
