"""`vcsync version`: which vcsync this is."""

import platform

import click

from vcsync import __version__
from vcsync.cli.common import output_option
from vcsync.cli.help import example
from vcsync.cli.output import print_objects


@click.command(epilog=example("vcsync version", "vcsync version -o json"))
@output_option
def version(form: str) -> None:
    """Show the version of vcsync, and of the Python that runs it."""
    told = {"version": __version__, "python": platform.python_version(), "platform": platform.platform()}
    print_objects(told, form, tuple(each.upper() for each in told), [tuple(told.values())])
