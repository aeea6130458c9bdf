"""The options of `vcsync run controlplane` that bound what it serves; names are kube-apiserver's where it has one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from vcsync.cli.errors import WrongInputError

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NAMES = (
    "max_requests_inflight",
    "max_mutating_requests_inflight",
    "max_watches_per_tenant",
    "max_connections",
    "max_connection_rate",
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
    connection_rate: int = 50
    storage: int = 2 * 2**30
    objects: int = 500_000


DEFAULT_LIMITS = LimitOptions()


def limit_options(command: Command) -> Command:
    """Add the options; `limits_of` makes settings of what they give."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def limits_of(given: Mapping[str, Any]) -> LimitOptions:
    """Return the settings that the options' values make.

    Raises:
        WrongInputError: a size is none.
    """
    reads, writes, watches, connections, rate, storage, objects = (given[name] for name in _NAMES)
    return LimitOptions(reads, writes, watches, connections, rate, parse_bytes(storage), objects)


def parse_bytes(text: str, option: str = "--storage-limit-per-tenant") -> int:
    """Read a number of bytes: 2147483648, 512Mi, 2Gi.

    Raises:
        WrongInputError: it is none.
    """
    found = re.fullmatch(r"([0-9]{1,15})(Ki|Mi|Gi|Ti)?", text)
    if found is None:
        raise WrongInputError(f"{option} {text!r}: give bytes, such as 512Mi or 2Gi")
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
    _number(
        "--max-connection-rate",
        LimitOptions.connection_rate,
        "New connections per second of one address, after 100; more wait. 0: any number, for balancers that hide "
        "addresses.",
        least=0,
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
