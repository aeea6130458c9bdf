"""The options of `vcsync run controlplane` that allow calls to webhooks and aggregated API servers of tenants."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from vcsync.apiserver.egress.hosts import HostPattern, parse_host
from vcsync.apiserver.egress.networks import Allowed, Network, Networks, parse_network
from vcsync.apiserver.egress.policy import Policy
from vcsync.cli.command.errors import WrongInputError

Command = TypeVar("Command", bound=Callable[..., Any])


def webhook_options(command: Command) -> Command:
    """Add the options; `webhooks_of` converts their values to a policy."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def webhooks_of(given: Mapping[str, Any]) -> Policy:
    """Convert the options' values to a policy.

    Raises:
        WrongInputError: a value is malformed.
    """
    return Policy(
        tuple(_host(each) for each in given["webhook_allow_host"]),
        Networks(
            tuple(_allowed(each) for each in given["webhook_allow_network"]),
            tuple(_network("--webhook-deny-network", each) for each in given["webhook_deny_network"]),
        ),
    )


def _host(text: str) -> HostPattern:
    tenant, host = _of_tenant(text)
    try:
        return parse_host(host, tenant)
    except ValueError as error:
        raise WrongInputError(f"--webhook-allow-host {text!r}: {error}") from error


def _allowed(text: str) -> Allowed:
    tenant, network = _of_tenant(text)
    return Allowed(_network("--webhook-allow-network", network), tenant)


def _network(option: str, text: str) -> Network:
    try:
        return parse_network(text)
    except ValueError as error:
        raise WrongInputError(f"{option} {text!r}: {error}; write it like 10.4.0.0/16") from error


def _of_tenant(text: str) -> tuple[str, str]:
    tenant, equals, rest = text.partition("=")
    return (tenant, rest) if equals else ("", text)


_OPTIONS = (
    click.option(
        "--webhook-allow-host",
        metavar="[TENANT=]HOST[:PORT]",
        multiple=True,
        help="Webhook URLs that may be called; HOST may begin with *., PORT may be *. Default: none.",
    ),
    click.option(
        "--webhook-allow-network",
        metavar="[TENANT=]CIDR",
        multiple=True,
        help="Network of Services (their Pods) with webhooks and aggregated APIs, and of allowed hosts without a public "
        "address. Default: none.",
    ),
    click.option(
        "--webhook-deny-network",
        metavar="CIDR",
        multiple=True,
        help="Public network in which no webhook and no aggregated API is called; has precedence.",
    ),
)
