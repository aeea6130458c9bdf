"""The policy for lost super clusters as a value of options: `Stay`, `MoveAfter=5m`, `MoveStateless=5m`."""

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from vcsync.api.specs import FailBack, Failover, LossPolicy, PodReplacementPolicy
from vcsync.cli.command.durations import seconds_of
from vcsync.cli.command.errors import WrongInputError

Command = TypeVar("Command", bound=Callable[..., Any])

OPTION = "--failover"
FAIL_BACK = "--fail-back"
POD_REPLACEMENT = "--pod-replacement-policy"
METAVAR = "POLICY[=DURATION]"
_LONGEST_SECONDS = 30 * 24 * 3600
_POLICIES: tuple[LossPolicy, ...] = get_args(LossPolicy)


def failover_option(text: str) -> Callable[[Command], Command]:
    """Return the option of a tenant's policy for lost super clusters."""
    return click.option(OPTION, metavar=METAVAR, help=text)


def fail_back_option(text: str) -> Callable[[Command], Command]:
    """Return the option of a tenant's policy for the way back."""
    return click.option(FAIL_BACK, type=click.Choice(("", *get_args(FailBack))), help=text)


def pod_replacement_option(text: str) -> Callable[[Command], Command]:
    """Return the option of a tenant's policy for Pods that may have started where nobody hears from."""
    return click.option(
        POD_REPLACEMENT,
        "pod_replacement",
        type=click.Choice(("", *get_args(PodReplacementPolicy))),
        help=text,
    )


def parse_failover(text: str, option: str = OPTION) -> Failover:
    """Parse a policy, with a duration in Go's notation if one is given.

    Args:
        text: the policy.
        option: the option, for messages.

    Raises:
        WrongInputError: the text is none; the message says what is.
    """
    name, given, duration = text.partition("=")
    policy = next((each for each in _POLICIES if each == name), None)
    if policy is None:
        raise WrongInputError(f"{option} {text!r}: give Stay, MoveAfter=DURATION or MoveStateless=DURATION")
    if not given:
        return Failover(policy=policy)
    if policy == "Stay":
        raise WrongInputError(f"{option} {text!r}: Stay takes no duration: remove {given + duration!r}")
    try:
        seconds = seconds_of(duration)
    except click.BadParameter as error:
        raise WrongInputError(f"{option} {text!r}: {error.message}") from error
    if seconds > _LONGEST_SECONDS or seconds != int(seconds):
        raise WrongInputError(
            f"{option} {text!r}: give a duration of whole seconds, at most {_LONGEST_SECONDS // 3600}h"
        )
    return Failover(policy=policy, after_seconds=int(seconds))
