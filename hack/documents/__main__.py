"""`python -m hack.documents`: executes the commands of README and docs/ as a reader would."""

import sys

import click

from hack.documents.plays import DOCUMENTS
from hack.documents.shell import CommandFailed
from hack.documents.stage import apart, play


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("documents", nargs=-1, type=click.Choice(DOCUMENTS))
@click.option("--here", is_flag=True, hidden=True, help="Within the namespaces that were made for it.")
def main(documents: tuple[str, ...], here: bool) -> None:
    """Execute the commands of DOCUMENTS (default all) from top to bottom, each document on its own machine.

    The machine is a network and mount namespace (`unshare`, `ip`), so that ports and folders are those that
    the documents name.
    """
    if not here:
        sys.exit(max(apart(document) for document in documents or DOCUMENTS))
    for document in documents:
        try:
            play(document, click.echo)
        except CommandFailed as error:
            raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
