"""The options of `vcsync run controlplane` that let it call what tenants choose: webhooks of admission and conversion."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from vcsync.cli.errors import WrongInputError
from vcsync.controlplane.egress.hosts import HostPattern, parse_host
from vcsync.controlplane.egress.networks import Allowed, Network, Networks, parse_network
from vcsync.controlplane.egress.policy import Policy

Command = TypeVar("Command", bound=Callable[..., Any])


def webhook_options(command: Command) -> Command:
    """Add the options; `webhooks_of` makes a policy of what they give."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def webhooks_of(given: Mapping[str, Any]) -> Policy:
    """Return the policy that the options' values make.

    Raises:
        WrongInputError: one cannot be read.
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
        help="Where webhooks' Services (their Pods) may be, and allowed hosts besides public addresses. Default: none.",
    ),
    click.option(
        "--webhook-deny-network",
        metavar="CIDR",
        multiple=True,
        help="Public networks of your own that no webhook is called in; wins.",
    ),
)
