"""Durations in Go's notation, as values of options."""

import re

import click

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds_of(text: str) -> float:
    """Convert a duration in Go's notation (`2m0s`) to seconds.

    Raises:
        click.BadParameter: it is not a duration.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise click.BadParameter(f"{text!r} is not a duration; write it like 30s or 2m0s")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
