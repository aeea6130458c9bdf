"""`vcsync backup` and `vcsync restore`: copies of an embedded control plane's data."""

from pathlib import Path

import click

from vcsync.apiserver.storage import backup as copies
from vcsync.apiserver.storage.interface import StoreError
from vcsync.apiserver.storage.sqlite import DATABASE
from vcsync.cli.command.errors import FailedError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say

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
    """Copy all tenants' objects to a new file FILE while the control plane keeps running.

    The file contains everything, including Secrets. Only its owner can read it.
    """
    try:
        summary = copies.backup(data / DATABASE, file)
    except StoreError as error:
        raise FailedError(str(error)) from error
    say(_summary_line(summary, f"saved in {file}"))


@click.command(epilog=example("vcsync restore /backups/monday.db --data /var/lib/vcsync"))
@file_argument
@data_option
def restore(file: Path, data: Path) -> None:
    """Restore the backup FILE into a data folder without a database. The control plane must not run.

    Clients list again by themselves. All writes after the backup are lost.
    """
    try:
        summary = copies.restore(file, data / DATABASE)
    except StoreError as error:
        raise FailedError(str(error)) from error
    say(_summary_line(summary, f"restored to {data}"))


def _summary_line(summary: copies.Summary, what: str) -> str:
    return f"{summary.objects} objects as of revision {summary.revision} ({summary.bytes >> 20} MiB) {what}"
