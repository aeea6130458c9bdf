"""The options of `vcsync run controlplane` that let tenants grant permissions to users of other tenants."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from vcsync.api.names import is_dns_label
from vcsync.apiserver.tenants.records import RESERVED
from vcsync.cli.command.errors import WrongInputError

SERVE, ACCEPT = "--tenant-grants", "--accept-tenant-grants"


def grant_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    accept = click.option(
        ACCEPT,
        metavar="TENANT=HOME",
        multiple=True,
        help="Grants of TENANT to users of HOME hold without HOME's acceptance, unless HOME rejects them.",
    )
    serve = click.option(
        SERVE, is_flag=True, help="Let tenants grant permissions to users of other tenants, by TenantGrants."
    )
    return serve(accept(command))


def grants_of(given: Mapping[str, Any]) -> frozenset[tuple[str, str]] | None:
    """Return the pairs of granting tenant and home tenant whose grants the operator accepts; None: there are no grants.

    Raises:
        WrongInputError: a value is malformed, or the options contradict each other.
    """
    accepted = frozenset(map(_pair, given["accept_tenant_grants"]))
    if given["tenant_grants"]:
        return accepted
    if accepted:
        raise WrongInputError(f"{ACCEPT} needs {SERVE}: add it")
    return None


def _pair(text: str) -> tuple[str, str]:
    tenant, _, home = text.partition("=")
    if not all(is_dns_label(each) and each not in RESERVED for each in (tenant, home)) or tenant == home:
        raise WrongInputError(f"{ACCEPT} {text!r}: give the names of two tenants, TENANT=HOME")
    return tenant, home
