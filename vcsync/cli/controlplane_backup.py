"""`vcsync backup` and `vcsync restore`: copies of an embedded control plane's data."""

from pathlib import Path

import click

from vcsync.cli.errors import FailedError
from vcsync.cli.help import example
from vcsync.controlplane.store import backup as copies
from vcsync.controlplane.store.interface import StoreError
from vcsync.controlplane.store.sqlite import DATABASE

data_option = click.option(
    "--data",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Data folder of the control plane.",
)
file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command(epilog=example("vcsync backup /backups/monday.db --data /var/lib/vcsync"))
@file_argument
@data_option
def backup(file: Path, data: Path) -> None:
    """Copy all tenants' objects to a new file FILE, while the control plane goes on working.

    The file holds everything, Secrets too: only its owner may read it.
    """
    try:
        summary = copies.backup(data / DATABASE, file)
    except StoreError as error:
        raise FailedError(str(error)) from error
    click.echo(_told(summary, f"kept in {file}"))


@click.command(epilog=example("vcsync restore /backups/monday.db --data /var/lib/vcsync"))
@file_argument
@data_option
def restore(file: Path, data: Path) -> None:
    """Put the backup FILE into a data folder that holds no database; the control plane must not run.

    Clients list again by themselves. Everything that was written after the backup is gone.
    """
    try:
        summary = copies.restore(file, data / DATABASE)
    except StoreError as error:
        raise FailedError(str(error)) from error
    click.echo(_told(summary, f"restored to {data}"))


def _told(summary: copies.Summary, what: str) -> str:
    return f"{summary.objects} objects as of revision {summary.revision} ({summary.bytes >> 20} MiB) {what}"
