"""The options of `vcsync run controlplane` that bound what it serves; names are kube-apiserver's where it has one."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from vcsync.cli.errors import WrongInputError

_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NAMES = (
    "max_requests_inflight",
    "max_mutating_requests_inflight",
    "max_watches_per_tenant",
    "max_connections",
    "storage_limit_per_tenant",
    "object_limit_per_tenant",
)


@dataclass(frozen=True)
class LimitOptions:
    """How much is served. `storage`: bytes that a tenant may keep; 0 of it and of `objects`: any number."""

    reads: int = 400
    writes: int = 200
    watches: int = 5000
    connections: int = 20_000
    storage: int = 2 * 2**30
    objects: int = 500_000


DEFAULT_LIMITS = LimitOptions()


def limit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; the command is given `limits`."""

    @functools.wraps(command)
    def with_limits(**given: Any) -> None:
        reads, writes, watches, connections, storage, objects = (given.pop(name) for name in _NAMES)
        limits = LimitOptions(reads, writes, watches, connections, parse_bytes(storage), objects)
        command(**given, limits=limits)

    for option in reversed(_OPTIONS):
        with_limits = option(with_limits)
    return with_limits


def parse_bytes(text: str) -> int:
    """Read a number of bytes: 2147483648, 512Mi, 2Gi.

    Raises:
        WrongInputError: it is none.
    """
    found = re.fullmatch(r"([0-9]{1,15})(Ki|Mi|Gi|Ti)?", text)
    if found is None:
        raise WrongInputError(f"--storage-limit-per-tenant {text!r}: give bytes, such as 512Mi or 2Gi")
    return int(found[1]) * _UNITS[found[2] or ""]


def _number(name: str, default: int, text: str, *, least: int = 1) -> Callable[[Any], Any]:
    return click.option(
        name, metavar="N", type=click.IntRange(min=least), default=default, show_default=True, help=text
    )


_OPTIONS = (
    _number(
        "--max-requests-inflight",
        LimitOptions.reads,
        "Requests served at once are this and the next together, shared out between tenants.",
    ),
    _number("--max-mutating-requests-inflight", LimitOptions.writes, "See --max-requests-inflight."),
    _number("--max-watches-per-tenant", LimitOptions.watches, "Open watches; one user has at most half."),
    _number(
        "--max-connections", LimitOptions.connections, "Connections; one address or tenant has at most half."
    ),
    click.option(
        "--storage-limit-per-tenant",
        metavar="SIZE",
        default="2Gi",
        show_default=True,
        help="What a tenant's objects may take; 0: any size.",
    ),
    _number(
        "--object-limit-per-tenant",
        LimitOptions.objects,
        "Objects that a tenant may have; 0: any number.",
        least=0,
    ),
)
