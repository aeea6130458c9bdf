"""The status of a Tenant that follows from a decision. Pure."""

from msgspec.structs import replace

from vcsync.api.conditions import set_condition
from vcsync.api.names import InvalidName
from vcsync.api.objects import cluster_key
from vcsync.api.specs import TenantStatus
from vcsync.tenantcontroller.model import Plan, Seen
from vcsync.tenantcontroller.quota import shown as shown_quota
from vcsync.tenantcontroller.request_limits import shown
from vcsync.tenantcontroller.template import TEMPLATE_APPLIED


def status_of(seen: Seen, decided: Plan, now: str) -> TenantStatus:
    """Return the status of a Tenant after a decision.

    Args:
        seen: the facts.
        decided: the decision.
        now: the time, as RFC 3339 text.
    """
    tenant, old, plane = seen.tenant, seen.tenant.status, seen.control_plane
    conditions = old.conditions
    for aspect in decided.aspects:
        conditions = set_condition(
            conditions,
            aspect.type,
            status=aspect.holds,
            reason=aspect.reason,
            message=aspect.message,
            now=now,
            observed_generation=tenant.generation,
        )
    if decided.applied and tenant.spec.template is None:
        conditions = tuple(each for each in conditions if each.type != TEMPLATE_APPLIED)
    return replace(
        old,
        phase=decided.phase,
        conditions=conditions,
        endpoint=plane.endpoint or old.endpoint,
        observed_generation=tenant.generation,
        control_plane=decided.kind or old.control_plane,
        control_plane_uid=old.control_plane_uid or decided.uid,
        cluster_namespace=_root_of(seen, decided) or old.cluster_namespace,
        limits=old.limits if plane.door is None else shown(plane.door.in_force),
        weight=old.weight if seen.virtual_cluster is None else seen.virtual_cluster.spec.weight,
        template=seen.template if decided.applied else old.template,
        resource_quota=old.resource_quota if plane.state == "Unknown" else shown_quota(plane.quota),
    )


def _root_of(seen: Seen, decided: Plan) -> str:
    """Return the root namespace once the VirtualCluster that it belongs to exists and is the Tenant's."""
    if seen.virtual_cluster is None or not (decided.uid or decided.kind == "Registered"):
        return ""
    try:
        return cluster_key(seen.virtual_cluster)
    except InvalidName:
        return ""
