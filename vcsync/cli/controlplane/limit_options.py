"""The options of `vcsync run controlplane` that limit its use; names are kube-apiserver's where it has the option."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click
import msgspec

from vcsync.apiserver.tenants.request_limits import NO_TENANT_LIMITS, RequestLimits, TenantLimits
from vcsync.cli.command.errors import WrongInputError

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
    "usage_days",
    "tenant_limits",
    "user_limits",
)
_BYTES = "bytesPerSecond"
LIMIT_FIELDS = tuple(each.encode_name for each in msgspec.structs.fields(RequestLimits))
"""Names of the limits of requests."""
LIMITS_METAVAR = "NAME=N,..."


@dataclass(frozen=True)
class LimitOptions:
    """The limits.

    Attributes:
        storage: Bytes that a tenant may store. 0 for it or for `objects`: no limit.
        usage_days: Days for which rows of usage are kept.
        requests: Limits of requests of tenants that set none.
    """

    reads: int = 400
    writes: int = 200
    watches: int = 5000
    connections: int = 20_000
    connection_rate: int = 50
    storage: int = 2 * 2**30
    objects: int = 500_000
    usage_days: int = 62
    requests: TenantLimits = NO_TENANT_LIMITS


DEFAULT_LIMITS = LimitOptions()
MOST_REQUESTS = 1_000_000
"""Largest number of requests or watches in a limit."""


def limit_options(command: Command) -> Command:
    """Add the options; `limits_of` converts their values to settings."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def limits_of(given: Mapping[str, Any]) -> LimitOptions:
    """Convert the options' values to settings.

    Raises:
        WrongInputError: a size is malformed.
    """
    reads, writes, watches, connections, rate, storage, objects, days, tenant, user = (
        given[name] for name in _NAMES
    )
    requests = parse_limits("--tenant-limits", tenant)
    if each := parse_limits("--user-limits", user):
        requests["user"] = each
    return LimitOptions(
        reads,
        writes,
        watches,
        connections,
        rate,
        parse_bytes(storage),
        objects,
        days,
        msgspec.convert(requests, TenantLimits),
    )


def parse_limits(option: str, text: str) -> dict[str, Any]:
    """Parse limits of requests: `readsPerSecond=100,bytesPerSecond=10Mi`. An empty text has none.

    Raises:
        WrongInputError: a limit is unknown, given twice, or malformed.
    """
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        if name not in LIMIT_FIELDS:
            raise WrongInputError(
                f"{option}: there is no limit {name!r}; known limits: {', '.join(LIMIT_FIELDS)}"
            )
        if name in found:
            raise WrongInputError(f"{option}: {name} is given twice")
        if name == _BYTES:
            found[name] = parse_bytes(value, f"{option}: {name}")
        elif re.fullmatch(r"[0-9]{1,7}", value) and int(value) <= MOST_REQUESTS:
            found[name] = int(value)
        else:
            raise WrongInputError(
                f"{option}: {name}={value!r}: give a number from 0 (no limit) to {MOST_REQUESTS}"
            )
    return found


def parse_bytes(text: str, option: str = "--storage-limit-per-tenant") -> int:
    """Parse a number of bytes: 2147483648, 512Mi, 2Gi.

    Raises:
        WrongInputError: it is malformed.
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
        "Concurrent requests: the sum of this and the next option, shared between tenants.",
    ),
    _number("--max-mutating-requests-inflight", LimitOptions.writes, "See --max-requests-inflight."),
    _number("--max-watches-per-tenant", LimitOptions.watches, "Open watches; one user has at most half."),
    _number(
        "--max-connections", LimitOptions.connections, "Connections; one address or tenant has at most half."
    ),
    _number(
        "--max-connection-rate",
        LimitOptions.connection_rate,
        "New connections per second of one address, after the first 100; more wait. 0: no limit, for balancers "
        "that hide addresses.",
        least=0,
    ),
    click.option(
        "--storage-limit-per-tenant",
        metavar="SIZE",
        default="2Gi",
        show_default=True,
        help="Storage for a tenant's objects; 0: no limit.",
    ),
    _number(
        "--object-limit-per-tenant",
        LimitOptions.objects,
        "Number of a tenant's objects; 0: no limit.",
        least=0,
    ),
    _number("--usage-days", LimitOptions.usage_days, "Days for which what tenants used is kept."),
    click.option(
        "--tenant-limits",
        metavar=LIMITS_METAVAR,
        default="",
        help="Limits of requests of each tenant that sets none in spec.limits: "
        "readsPerSecond=100,writesPerSecond=50. Without it there are none.",
    ),
    click.option(
        "--user-limits",
        metavar=LIMITS_METAVAR,
        default="",
        help="Limits of requests of each user of these tenants, in the same form.",
    ),
)
