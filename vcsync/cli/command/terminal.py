"""Prints text of commands, without characters that would control the terminal."""

import click

from vcsync.process.legible import legible_lines


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print lines of text, with all control characters escaped but ends of lines and tabs.

    Args:
        text: the text.
        err: whether to print it to stderr.
        nl: whether to end it with a new line.
    """
    click.echo(legible_lines(text), err=err, nl=nl)
