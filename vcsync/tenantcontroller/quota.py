"""The quota of a Tenant: what its spec asks for, what its control plane enforces, and what its status shows. Pure."""

from typing import Final

from msgspec import Struct

from vcsync.api.objects import Tenant
from vcsync.api.specs import TenantResourceQuotaStatus
from vcsync.objects.quantity import milli
from vcsync.quota.tenants import problems

NOT_ENFORCED: Final = (
    "a command registered the tenant, so spec.resourceQuota is not enforced: remove it, or let this object manage the embedded "
    "control plane by setting spec.controlPlane.embedded"
)
"""Message about a Tenant that manages nothing."""


class ObservedQuota(Struct, frozen=True):
    """The quota that a control plane enforces: limits, usage and what is left, by resource name."""

    hard: dict[str, str] = {}
    used: dict[str, str] = {}
    free: dict[str, str] = {}


def quota_of(tenant: Tenant) -> dict[str, str] | None:
    """Return the limits of a Tenant's quota as its control plane has them; None: it has none."""
    wanted = tenant.spec.resource_quota
    return {name: str(each) for name, each in wanted.hard.items()} if wanted and wanted.hard else None


def quota_problem(tenant: Tenant) -> str:
    """Return why a Tenant's quota cannot be enforced, with the field and the remedy, or an empty text if it can."""
    return next(problems(quota_of(tenant) or {}, "spec.resourceQuota.hard"), "")


def is_set(tenant: Tenant, observed: ObservedQuota | None) -> bool:
    """Return whether a control plane enforces the quota that its Tenant asks for."""
    return quota_of(tenant) == (None if observed is None else observed.hard)


def shown(observed: ObservedQuota | None) -> TenantResourceQuotaStatus | None:
    """Return the status of a quota."""
    if observed is None:
        return None
    hard, used = observed.hard, observed.used
    shares = {name: milli(value) / max(1, milli(hard[name])) for name, value in used.items() if name in hard}
    fullest = max(sorted(shares), key=lambda name: shares[name], default="")
    return TenantResourceQuotaStatus(
        hard=hard,
        used=used,
        free=observed.free,
        fullest=f"{fullest}: {used[fullest]}/{hard[fullest]}" if fullest else "",
    )
