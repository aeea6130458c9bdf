"""Options that limit the time of exec, attach and port-forward."""

from collections.abc import Mapping
from typing import Any

import click

from vcsync.cli.command.common import options
from vcsync.cli.command.durations import seconds_of
from vcsync.streams.limits import StreamLimits

stream_options = options(
    click.option(
        "--stream-idle-timeout",
        metavar="DURATION",
        type=seconds_of,
        default="4h0m0s",
        show_default=True,
        help="exec, attach and port-forward end when nothing but pings has passed for so long; 0s: never.",
    ),
    click.option(
        "--stream-timeout",
        metavar="DURATION",
        type=seconds_of,
        default="24h0m0s",
        show_default=True,
        help="exec, attach and port-forward end after this time; 0s: never.",
    ),
)


def stream_limits_of(given: Mapping[str, Any]) -> StreamLimits:
    """Return the limits among the options of a command."""
    default = StreamLimits()
    return StreamLimits(
        given.get("stream_idle_timeout", default.idle_seconds),
        given.get("stream_timeout", default.total_seconds),
    )
