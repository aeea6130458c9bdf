"""Options of `vcsync what-if` and `vcsync snapshot` about lost super clusters, and their values."""

from typing import get_args

import click
from msgspec import Struct

from vcsync.api.specs import STAY, FailBack, Failover, LossPolicy
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.failover import METAVAR, OPTION, parse_failover

_DEFAULT = "--default-failover"

default_failover_option = click.option(
    _DEFAULT,
    metavar=METAVAR,
    help="The schedulers' --failover at present, for tenants without a policy of their own, which the meta cluster does not know "
    "(default: Stay; with --snapshot that of the file).",
)
default_fail_back_option = click.option(
    "--default-fail-back",
    type=click.Choice(get_args(FailBack)),
    default="Never",
    show_default=True,
    help="The namespace scheduler's --fail-back at present, which the meta cluster does not know either.",
)
failover_question = click.option(
    OPTION,
    "failover",
    multiple=True,
    metavar=f"[TENANT=]{METAVAR}",
    help="Another policy for lost super clusters, of all tenants (MoveAfter) or of one (acme=MoveStateless); may be repeated.",
)


class Policies(Struct, frozen=True):
    """The values of `--failover`: the policy of all tenants, None if there is none, and those of single tenants by name."""

    every: Failover | None
    single: dict[str, Failover]


def parse_default(text: str | None) -> Failover | None:
    """Parse the value of `--default-failover`; None if it is not given.

    Raises:
        WrongInputError: it is no policy.
    """
    return None if text is None else parse_failover(text, _DEFAULT)


def present_failover(text: str | None) -> Failover:
    """Return the schedulers' policy at present, by the value of `--default-failover`.

    Raises:
        WrongInputError: it is no policy.
    """
    return parse_default(text) or STAY


def policies(texts: tuple[str, ...]) -> Policies:
    """Parse the values of `--failover`.

    Raises:
        WrongInputError: one is no policy, or two are for the same tenants.
    """
    every: Failover | None = None
    single: dict[str, Failover] = {}
    for text in texts:
        tenant, equals, policy = text.partition("=")
        if tenant in get_args(LossPolicy) or not equals:
            if every is not None:
                raise WrongInputError(
                    f"{OPTION} {text!r}: give one policy for all tenants; TENANT={text} is for one"
                )
            every = parse_failover(text)
            continue
        if not tenant or tenant in single:
            raise WrongInputError(f"{OPTION} {text!r}: give each tenant once, for instance acme=MoveAfter=5m")
        single[tenant] = parse_failover(policy, f"{OPTION} {tenant}")
    return Policies(every, single)
