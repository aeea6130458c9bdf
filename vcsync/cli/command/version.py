"""`vcsync version`: shows the version of vcsync."""

import platform

import click

from vcsync import __version__
from vcsync.cli.command.common import output_option
from vcsync.cli.command.help import example
from vcsync.cli.command.output import print_objects


@click.command(epilog=example("vcsync version", "vcsync version -o json"))
@output_option
def version(form: str) -> None:
    """Show the version of vcsync, and of the Python that runs it."""
    versions = {"version": __version__, "python": platform.python_version(), "platform": platform.platform()}
    print_objects(
        versions,
        form,
        tuple(each.upper() for each in versions),
        [tuple(versions.values())],
        names=[f"vcsync/{__version__}"],
    )
