"""`vcsync tenant release`: serves a tenant again that was set aside because its work stalled the server."""

import asyncio
from pathlib import Path

import click

from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant import embedded


@click.command(
    epilog=example("vcsync tenant release acme", "vcsync tenant release acme --data /var/lib/vcsync")
)
@embedded.name_argument
@embedded.reaching
def release(tenant: str, data: Path | None, meta: str | None) -> None:
    """Serve the tenant NAME again, which was set aside because its work stalled the server, and forget its stalls.

    Remove the cause first: as the operator you still reach its objects, at path /tenants/NAME of the server. 'vcsync tenant show'
    gives the reason, and the folder 'stalls' of the data folder has the reports.
    """
    embedded.check_name(tenant)
    asyncio.run(embedded.release(tenant, data, meta))
    say(f"tenant {tenant} is served again")
