"""Faults of tenants that VirtualClusters report, for `status`, `explain` and `brake status`."""

from collections.abc import Iterable

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


def sentences(vc: VirtualCluster) -> list[str]:
    """Describe the faults of a tenant."""
    return [f"{condition.type}: {condition.message}." for condition in problems(vc.status.conditions)]
