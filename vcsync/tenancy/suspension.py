"""Suspended tenants: messages of the roles, and the mark of their placements. Pure."""

from typing import Final

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.objects import NamespacePlacement

TENANT_SUSPENDED: Final = "the tenant is suspended: nothing runs until its operator resumes it"


def is_suspended(placement: NamespacePlacement) -> bool:
    """Return whether a namespace has no slices because its tenant is suspended."""
    placed = condition_of(placement.status.conditions, "Placed")
    return placed is not None and placed.reason == names.SUSPENDED
