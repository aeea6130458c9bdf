"""The TenantTemplate of a Tenant: which settings the Tenant has with it, and why it cannot be applied. Pure."""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vcsync.api.objects import Tenant, TenantTemplate, decode_quantity, to_wire
from vcsync.api.specs import DEFAULT_WEIGHT, AppliedTemplate, TenantSettings, TenantSpec
from vcsync.objects.merge_patch import merge_patch
from vcsync.quota.tenants import problems
from vcsync.tenantcontroller.model import Aspect, Problem

TEMPLATE_APPLIED: Final = "TemplateApplied"
NOT_APPLIED: Final = (
    "a command registered the tenant, so spec.template is not applied: remove it, or let this object manage the control "
    "plane by setting spec.controlPlane"
)
"""Message about a Tenant that manages nothing."""


class Chosen(Struct, frozen=True, kw_only=True):
    """Result of a Tenant's field `spec.template`.

    Attributes:
        tenant: the Tenant, with the fields of the template that it does not set itself.
        template: the template whose fields these are; None: there is none.
        problem: why it is not the wanted one as it is now.
    """

    tenant: Tenant
    template: AppliedTemplate | None = None
    problem: Problem | None = None


def choose(tenant: Tenant, found: TenantTemplate | Problem | None) -> Chosen:
    """Return a Tenant with the settings that it is to have.

    If the template cannot be applied, the settings of the one that was applied last stay, together with the Tenant's own.

    Args:
        tenant: the Tenant.
        found: the template that it names, or why that cannot be read; None: it names none.
    """
    if found is None:
        return Chosen(tenant=_with(tenant, TenantSettings()))
    if isinstance(found, Problem):
        return _kept(tenant, found)
    template = AppliedTemplate(
        name=found.name,
        uid=found.uid,
        generation=found.generation,
        settings=msgspec.convert(to_wire(found.spec), TenantSettings, dec_hook=decode_quantity),
    )
    try:
        chosen = Chosen(tenant=_with(tenant, template.settings), template=template)
    except msgspec.ValidationError as error:
        message = f"spec.template: with TenantTemplate {found.name}, {error}: correct one of the two"
        return _kept(tenant, Problem("InvalidTemplate", message))
    problem = _problem(tenant, found)
    return chosen if problem is None else _kept(tenant, problem)


def missing(name: str) -> Problem:
    """Return the problem of a Tenant whose template does not exist."""
    return Problem(
        "NoTemplate",
        f"spec.template: there is no TenantTemplate {name}: create it, or name another one ('kubectl get tenanttemplates' "
        "lists them), or remove the field",
    )


def aspect(template: AppliedTemplate | None, problem: Problem | None, *, applied: bool) -> tuple[Aspect, ...]:
    """Return the condition TemplateApplied; nothing if no template is wanted."""
    if problem is not None:
        kept = (
            f"; generation {template.generation} of TenantTemplate {template.name} stays" if template else ""
        )
        return (Aspect(TEMPLATE_APPLIED, False, problem.reason, problem.message + kept),)
    if template is None:
        return ()
    what = f"generation {template.generation} of TenantTemplate {template.name}"
    if applied:
        return (Aspect(TEMPLATE_APPLIED, True, "Applied", f"{what} is applied"),)
    return (Aspect(TEMPLATE_APPLIED, False, "Applying", f"{what} is being applied: see the condition Ready"),)


def _kept(tenant: Tenant, problem: Problem) -> Chosen:
    last = tenant.status.template
    try:
        settings = TenantSettings() if last is None else last.settings
        return Chosen(tenant=_with(tenant, settings), template=last, problem=problem)
    except msgspec.ValidationError:  # The Tenant has changed since, and does not fit what it had.
        return Chosen(tenant=_with(tenant, TenantSettings()), problem=problem)


def _with(tenant: Tenant, settings: TenantSettings) -> Tenant:
    """Return a Tenant with settings for the fields that it does not set itself.

    Raises:
        msgspec.ValidationError: a field of both together is not valid.
    """
    merged = {"weight": DEFAULT_WEIGHT, **merge_patch(to_wire(settings), to_wire(tenant.spec))}
    return replace(tenant, spec=msgspec.convert(merged, TenantSpec, dec_hook=decode_quantity))


def _problem(tenant: Tenant, template: TenantTemplate) -> Problem | None:
    quota = template.spec.resource_quota
    if quota is None:
        return None
    where = f"spec.template: TenantTemplate {template.name}"
    plane = tenant.spec.control_plane
    if plane is not None and plane.external is not None:
        return Problem(
            "InvalidTemplate",
            f"{where} has spec.resourceQuota, which only embedded control planes enforce: name a template without it, and set "
            "ResourceQuotas in the external control plane",
        )
    wrong = next(
        problems({name: str(each) for name, each in quota.hard.items()}, "spec.resourceQuota.hard"), ""
    )
    return Problem("InvalidTemplate", f"{where}: {wrong}") if wrong else None
