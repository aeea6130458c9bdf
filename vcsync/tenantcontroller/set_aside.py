"""Decisions about a Tenant whose control plane is set aside because its work stalled the server. Pure."""

from typing import Final

from msgspec.structs import replace

from vcsync.api import names
from vcsync.tenantcontroller.model import CONTROL_PLANE_READY, READY, Plan, Seen, Step

_WITHOUT_IT: Final = (Step.SUSPEND, Step.SET_LIMITS, Step.LIMIT_REQUESTS, Step.SET_QUOTA)
"""Steps that send no request to the control plane itself, so that the operator can limit the tenant before its release."""


def while_aside(made: Plan, seen: Seen) -> Plan:
    """Return a decision about a Tenant, or what is left of it while the control plane is set aside.

    Args:
        made: the decision for a control plane that is not set aside.
        seen: the facts.
    """
    tenant, plane = seen.tenant, seen.control_plane
    recorded = tenant.status.control_plane_uid
    if not plane.aside or (recorded and plane.uid and recorded != plane.uid):
        return made
    message = (
        f"its control plane is set aside: {plane.aside}. Its Pods go on. Remove the cause, and then run "
        f"'vcsync tenant release {tenant.name}'"
    )
    aspects = tuple(
        replace(each, holds=False, reason=names.SET_ASIDE, message=message)
        if each.type in (CONTROL_PLANE_READY, READY)
        else each
        for each in made.aspects
    )
    # Its identity cannot be proved now, so one that is not recorded yet is not adopted.
    step = made.step if recorded and made.step in _WITHOUT_IT else None
    return replace(made, step=step, aspects=aspects, phase="Error", uid=recorded and made.uid)
