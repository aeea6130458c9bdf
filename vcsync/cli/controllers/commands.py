"""`vcsync run controllers`: runs the controllers of embedded control planes for all tenants."""

import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec
import structlog

from vcsync.api.names import ROLE_CONTROLLERS
from vcsync.apiserver.admission.policies.typechecking import warnings
from vcsync.cli.command.common import limit_stalls, log_options, stall_option
from vcsync.cli.command.config import config_option
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.stalls import last_stall
from vcsync.cli.command.status_endpoint import Listen, listen_of, serve_status, status_options
from vcsync.cli.controlplane.commands import data_option
from vcsync.cli.tenant.embedded import ADMIN_KUBECONFIG
from vcsync.controllers.manager.role import Controllers
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import KubeError
from vcsync.process import lifetime, logs, loop
from vcsync.process.signals import until_signalled
from vcsync.process.stall_report import Suspects
from vcsync.registration.issued import TENANTS

AUTHORITY = "ca.crt"
STALLS = Path("stalls") / ROLE_CONTROLLERS
"""Folder of the reports of stalls, within the data folder."""

_log = structlog.get_logger(__name__)


@click.command(epilog=example("vcsync run controllers --data /var/lib/vcsync"))
@config_option("controllers")
@data_option
@status_options
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only while holding the Lease, so that replicas stand by.",
)
@click.option("--identity", help="Beginning of the name in the Lease and the status (default: host name).")
@stall_option
@log_options()
def controllers(
    *,
    data: Path,
    leader_elect: bool,
    identity: str | None,
    stall_seconds: float,
    log_level: str,
    log_format: str,
    **given: Any,
) -> None:
    """Run the controllers of all tenants of an embedded control plane that runs already.

    Tenants then need no kube-controller-manager of their own.
    """
    listen = listen_of(given)
    missing = [name for name in (ADMIN_KUBECONFIG, AUTHORITY) if not (data / name).is_file()]
    if missing:
        raise WrongInputError(f"{data / missing[0]} does not exist; 'vcsync run controlplane' writes it")
    logs.configure(log_level, "console" if log_format == "console" else "json")
    name = lifetime.begin(identity or socket.gethostname())
    limit_stalls(stall_seconds, data / STALLS)
    loop.run(until_signalled(_run(data, listen, name, leader_elect=leader_elect)))


async def _run(data: Path, listen: Listen, identity: str, *, leader_elect: bool) -> None:
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
        if stall := last_stall():
            await _record(server, stall)
        async with serve_status(listen, {ROLE_CONTROLLERS: role}, lambda: connection) as status:
            _log.info(
                "role starts",
                role=ROLE_CONTROLLERS,
                identity=identity,
                status=f"{status.url}/status",
            )
            await role.run()
    _log.info("role ended", role=ROLE_CONTROLLERS)


async def _record(server: Client, found: Suspects) -> None:
    """Let the control plane record a stall of each tenant under suspicion."""
    body = msgspec.json.encode({"work": found.mark.kind, "sure": found.sure})
    for tenant in sorted(filter(None, found.tenants)):
        try:
            await server.request("POST", f"{TENANTS}/{quote(tenant)}/stalls", body=body)
        except KubeError as error:
            _log.warning("a stall cannot be recorded", tenant=tenant, error=str(error))
