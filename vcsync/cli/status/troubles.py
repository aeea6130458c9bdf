"""Faults of tenants that VirtualClusters report, for `status`, `explain` and `brake status`."""

from collections.abc import Iterable, Mapping

from vcsync.api.conditions import Condition
from vcsync.api.objects import VirtualCluster
from vcsync.cli.command.output import age
from vcsync.tenancy.troubles import problems

HEADER = ("TENANT", "SINCE", "CONDITION", "PROBLEM")


def rows(tenants: Iterable[VirtualCluster]) -> list[tuple[str, ...]]:
    """Return the faults of tenants as rows of a table."""
    return [
        (
            vc.spec.tenant or vc.name,
            age(condition.last_transition_time or ""),
            condition.type,
            condition.message,
        )
        for vc in tenants
        for condition in problems(vc.status.conditions)
    ]


def rows_aside(aside: Mapping[str, Condition]) -> list[tuple[str, ...]]:
    """Return the tenants that are set aside as rows of the same table."""
    return [
        (name, age(why.last_transition_time), why.reason, why.message) for name, why in sorted(aside.items())
    ]


def sentences(vc: VirtualCluster) -> list[str]:
    """Describe the faults of a tenant."""
    return [f"{condition.type}: {condition.message}." for condition in problems(vc.status.conditions)]
