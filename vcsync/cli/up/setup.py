"""`vcsync setup`: prepares tenants and super clusters for roles that run as separate processes."""

import asyncio
import time
from pathlib import Path

import click

from vcsync.api import names
from vcsync.cli.command.config import config_option
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant.embedded import ADMIN_KUBECONFIG
from vcsync.cli.up import spaces as up_spaces
from vcsync.cli.up.commands import DEFAULT_DATA, member_options, members_of
from vcsync.cli.up.members import Members
from vcsync.cli.up.settings import ROLES
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError, Unreachable
from vcsync.registration import issued

POLL_SECONDS = 0.2


@click.command(
    epilog=example(
        "vcsync run controlplane --data /var/lib/vcsync &",
        "vcsync setup --data /var/lib/vcsync --tenants acme,umbrella --hollow r1,r2",
        "vcsync run all --kubeconfigs /var/lib/vcsync/roles",
    )
)
@config_option("up")
@click.option(
    "--data",
    default=DEFAULT_DATA,
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data folder of the control plane; all kubeconfigs are written there.",
)
@member_options
@click.option(
    "--wait",
    "patience",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds to wait for the control plane.",
)
def setup(
    *,
    data: Path,
    tenants: str,
    real: tuple[str, ...],
    hollow: str | None,
    default_quota: str,
    quota: str,
    patience: float,
) -> None:
    """Set up tenants and super clusters at a running embedded control plane, and write all kubeconfigs.

    This does what 'vcsync up' does before its roles start, for roles that run as separate processes: it writes
    roles/ROLE.kubeconfig for each role, ID.kubeconfig for 'vcsync run hollow', and TENANT.kubeconfig for tenants.
    It can be repeated.
    """
    asyncio.run(_setup(data.absolute(), members_of(tenants, real, hollow, default_quota, quota), patience))


async def _setup(data: Path, members: Members, patience: float) -> None:
    connection = await _reached(data / ADMIN_KUBECONFIG, patience)
    async with Client(connection, name="control plane") as server:
        await up_spaces.install(server)
        await up_spaces.add_members(server, members, data, say)
        for super_id in members.hollow:
            up_spaces.write_kubeconfig(data, super_id, await issued.kubeconfig(server, super_id))
        folder = data / ROLES
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in (await up_spaces.write_role_kubeconfigs(server, folder, names.META_ACCOUNTS)).values():
            say(f"wrote {path}")


async def _reached(kubeconfig: Path, patience: float) -> Connection:
    """Wait until the control plane answers; return how to reach it.

    Raises:
        FailedError: it does not answer in time.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection = Connection.from_kubeconfig_file(kubeconfig)
            async with Client(connection, name="control plane") as server:
                await server.version()
        except (CredentialsError, Unreachable) as error:
            if time.monotonic() > deadline:
                remedy = f"is 'vcsync run controlplane --data {kubeconfig.parent}' running?"
                raise FailedError(f"{error}: {remedy}") from error
        else:
            return connection
        await asyncio.sleep(POLL_SECONDS)
