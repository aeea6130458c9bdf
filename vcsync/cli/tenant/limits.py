"""A tenant's limits as options of commands: parsed, written into a spec, changed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from vcsync.api.fields import PositiveQuantity, Quantity
from vcsync.api.objects import VirtualCluster, to_wire
from vcsync.api.specs import Failover
from vcsync.cli.command.common import parse_amounts, require_slice
from vcsync.cli.command.failover import parse_failover
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.scheduling.slices import DIMENSIONS, OBJECTS, PODS

Command = TypeVar("Command", bound=Callable[..., Any])

WEIGHT_HELP = "Share of the syncers' work, relative to other tenants."
DEFAULT_QUOTA_HELP = (
    "Quota of namespaces without a ResourceQuota (cpu=2,memory=4Gi); without it they are not placed."
)
QUOTA_HELP = "Cap on all namespaces together, regardless of the tenant's own quotas."
SLICE_HELP = "Default slice (cpu=2,memory=4Gi)."
FAILOVER_HELP = (
    "Slices and Pods on a lost super cluster: Stay, MoveAfter=5m, or MoveStateless=5m for those without claims; '': the default "
    "of the schedulers."
)
FAIL_BACK_HELP = (
    "When slices that have left a lost super cluster go back after its return: Never, WithinBudget, or NextRebalance; '': the "
    "default of the namespace scheduler."
)
POD_REPLACEMENT_HELP = (
    "When a Pod without a node is replaced that a super cluster may have started which nobody hears from: TerminationComplete, "
    "once it is known not to run; TerminationStarted, at once, if its name is generated and it has no claims; '': the first."
)
_FIELDS = (
    ("defaultQuota", "--default-quota", Quantity, DIMENSIONS),
    ("quota", "--quota", Quantity, (*DIMENSIONS, PODS)),
    ("sliceSize", "--slice-size", PositiveQuantity, (*DIMENSIONS, PODS, *OBJECTS)),
)


def amounts_option(option: str, text: str) -> Callable[[Command], Command]:
    """Return an option of amounts, which may be repeated."""
    return click.option(option, multiple=True, metavar="RESOURCE=AMOUNT", help=text)


def limits_of(**given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the fields of a VirtualCluster's spec for the options; an empty text gives an empty field.

    Args:
        given: values by the option's name with underscores; empty: the option was not used.

    Raises:
        WrongInputError: An amount is invalid, or a resource of that name has no effect.
    """
    spec: dict[str, dict[str, str]] = {}
    for field, option, kind, known in _FIELDS:
        texts = given.get(option[2:].replace("-", "_")) or ()
        if texts:
            spec[field] = parse_amounts(option, [text for text in texts if text], kind=kind, known=known)
    if spec.get("sliceSize"):
        require_slice("--slice-size", spec["sliceSize"])
    return spec


def failover_of(text: str | None) -> dict[str, Any]:
    """Return the field of a VirtualCluster's spec for the option --failover; an empty text gives an empty field.

    Args:
        text: the option's value; None: it was not used.

    Raises:
        WrongInputError: the value is no policy.
    """
    if text is None:
        return {}
    return {"failover": to_wire(parse_failover(text)) if text else {}}


def shown_failover(failover: Failover | None) -> str:
    """Return a policy for people, as the option takes it; empty if there is none."""
    if failover is None:
        return ""
    seconds = failover.after_seconds
    return failover.policy if seconds is None else f"{failover.policy}={seconds}s"


def changes(vc: VirtualCluster, desired: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the merge patch of a spec, and the changes as lines. Pure."""
    spec: Mapping[str, Any] = {"weight": vc.spec.weight, **to_wire(vc.spec)}
    old = {field: spec[field] for field in desired if spec.get(field)}
    new = {field: wanted for field, wanted in desired.items() if wanted}
    patch = create_merge_patch(old, new) or {}
    lines = [f"{field} {_shown(old.get(field))}, now {_shown(new.get(field))}" for field in patch]
    return patch, lines


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={amount}" for name, amount in sorted(value.items())) or "none"
    return "none" if value is None else str(value)
