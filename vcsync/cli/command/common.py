"""Shared parts of several commands: options, the connection to the meta cluster, parsing of amounts."""

import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from vcsync.api.fields import Quantity
from vcsync.cli.command.errors import WrongInputError, shows_no_installation
from vcsync.cli.command.terminal import say
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import NotFound
from vcsync.objects.times import time_text
from vcsync.process import watchdog
from vcsync.registration.clients import CALL_TIMEOUT, FIELD_MANAGER
from vcsync.scheduling.slices import DIMENSIONS

Command = TypeVar("Command", bound=Callable[..., Any])

UP_KUBECONFIG = Path("vcsync-data", "admin.kubeconfig")
"""The path to which `vcsync up` without options writes the operator's kubeconfig."""

meta_option = click.option(
    "--meta",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Kubeconfig of the meta cluster (default: $VCSYNC_META, $KUBECONFIG, in-cluster, "
    f"./{UP_KUBECONFIG}).",
)


def options(*group: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(group):
            command = option(command)
        return command

    return decorate


def log_options(level: str = "info", form: str = "json") -> Callable[[Command], Command]:
    """Return a decorator that adds the logging options, with these defaults."""

    def decorate(command: Command) -> Command:
        for option in reversed(
            (
                click.option(
                    "--log-level",
                    type=click.Choice(["debug", "info", "warning", "error"]),
                    default=level,
                    show_default=True,
                    help="Minimum severity of logged events.",
                ),
                click.option(
                    "--log-format",
                    type=click.Choice(["json", "console"]),
                    default=form,
                    show_default=True,
                    help="JSON lines for machines or text for people, on stderr.",
                ),
            )
        ):
            command = option(command)
        return command

    return decorate


stall_option = click.option(
    "--stall-seconds",
    type=click.FloatRange(min=0),
    default=watchdog.END_SECONDS,
    show_default=True,
    help="Processor time in seconds for which the event loop may stand. Then the process ends with a report, so that its "
    "supervisor starts it again; 0: it never ends.",
)


def limit_stalls(seconds: float, folder: Path | None = None) -> None:
    """Set the limit of stalls of this process, and the folder of its reports. Call it before the loop runs."""
    watchdog.LIMITS.end, watchdog.LIMITS.folder = seconds, folder


output_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "name", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format; wide: a table with more columns, name: KIND/NAME in lines.",
)
kubeconfig_option = click.option(
    "--kubeconfig",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Administrator's kubeconfig of the cluster.",
)
as_given_option = click.option(
    "--as-given",
    is_flag=True,
    help="Store exactly this kubeconfig instead of creating ServiceAccounts with only the permissions that are needed.",
)


def meta_kubeconfig(given: str | None) -> str | None:
    """Return the path of the meta cluster's kubeconfig, None for in-cluster credentials.

    Raises:
        WrongInputError: ``$KUBECONFIG`` lists several files.
    """
    path = given or os.environ.get("VCSYNC_META") or os.environ.get("KUBECONFIG")
    if path and not given and os.pathsep in path:
        raise WrongInputError(f"$KUBECONFIG names several files ({path}); name one with --meta")
    if not path and "KUBERNETES_SERVICE_HOST" not in os.environ and _is_own_file(UP_KUBECONFIG):
        return str(UP_KUBECONFIG)
    return path or None


def _is_own_file(path: Path) -> bool:
    """Report whether the user owns a file: a kubeconfig may start programs, and somebody else may own this folder."""
    try:
        return path.is_file() and path.stat().st_uid == os.geteuid()
    except OSError:
        return False


@asynccontextmanager
async def meta_client(given: str | None, *, field_manager: str = FIELD_MANAGER) -> AsyncIterator[Client]:
    """Open a client of the meta cluster.

    Raises:
        WrongInputError: no kubeconfig is configured, or it is a tenant's.
    """
    path = meta_kubeconfig(given)
    if path is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise WrongInputError(
            f"no kubeconfig of the meta cluster: give --meta FILE or set $VCSYNC_META (this folder has no ./{UP_KUBECONFIG} "
            "that you own, and this process does not run in a Pod)"
        )
    connection = Connection.load(path)
    async with Client(connection, name="meta", field_manager=field_manager, timeout=CALL_TIMEOUT) as client:
        try:
            yield client
        except (NotFound, BaseExceptionGroup) as error:
            if path is None or not shows_no_installation(error) or (tenant := _tenant_of(Path(path))) is None:
                raise
            raise WrongInputError(
                f"{path} is the kubeconfig of tenant {tenant}, which has no objects of vcsync: give --meta FILE or set "
                "$VCSYNC_META to the kubeconfig of the meta cluster ('vcsync up' prints it)"
            ) from error


def _tenant_of(kubeconfig: Path) -> str | None:
    from vcsync.apiserver.operator.kubeconfig import tenant_of  # noqa: PLC0415  loads cryptography

    return tenant_of(kubeconfig.read_bytes())


@asynccontextmanager
async def admin_client(kubeconfig: Path, name: str) -> AsyncIterator[Client]:
    """Open a client of another cluster from its administrator's kubeconfig file."""
    connection = Connection.from_kubeconfig_file(kubeconfig)
    async with Client(connection, name=name, field_manager=FIELD_MANAGER, timeout=CALL_TIMEOUT) as client:
        yield client


def note(text: str) -> None:
    """Print a message of a registration to stderr."""
    say(text, err=True)


def timestamp() -> str:
    """Return the current time as Kubernetes writes it."""
    return time_text(datetime.now(UTC))


def parse_amounts(
    option: str, texts: Iterable[str], *, kind: type[Quantity] = Quantity, known: Sequence[str]
) -> dict[str, str]:
    """Parse ``cpu=2,memory=4Gi`` (the option may also be repeated).

    Args:
        option: The option's name, for messages.
        texts: The option's values.
        kind: The form of an amount.
        known: The resources that have an effect here. A misspelt name would have no effect without a warning.

    Raises:
        WrongInputError: A part is malformed, has an invalid amount or an unknown resource, or repeats one.
    """
    parsed: dict[str, str] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, amount = part.partition("=")
        if not equals or not name:
            raise WrongInputError(f"{option} {part!r}: give RESOURCE=AMOUNT, for instance cpu=2,memory=4Gi")
        if name not in known:
            raise WrongInputError(f"{option} {name}: unknown resource; known ones are {', '.join(known)}")
        if name in parsed:
            raise WrongInputError(f"{option}: {name} occurs twice")
        try:
            parsed[name] = str(kind.parse(amount))
        except ValueError as error:
            raise WrongInputError(f"{option} {part!r}: {error}") from error
    return parsed


def require_slice(option: str, size: Mapping[str, str]) -> None:
    """Refuse a slice that lacks CPU or memory.

    Raises:
        WrongInputError: One of them is missing.
    """
    if not set(DIMENSIONS) <= size.keys():
        raise WrongInputError(f"{option} needs both cpu and memory, for instance cpu=2,memory=4Gi")


def parse_endpoint(option: str, text: str) -> tuple[str, int]:
    """Split ``HOST:PORT``, an IPv6 host in brackets; without a port it is 443.

    Raises:
        WrongInputError: The text is malformed.
    """
    match = re.fullmatch(
        r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?))(?::(?P<port>[0-9]{1,5}))?",
        text,
    )
    port = int(match["port"] or 443) if match else 0
    if match is None or not 1 <= port <= 65535:
        raise WrongInputError(
            f"{option} {text!r}: give HOST:PORT, for instance api.acme.example:6443 or [fd00::1]:6443"
        )
    return match["six"] or match["host"], port
