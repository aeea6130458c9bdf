"""Refuses TenantPolicies that could not be enforced, when they are written."""

import msgspec

from vcsync.api.policy_specs import TenantPolicySpec
from vcsync.api.resources import TENANT_POLICIES
from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.cooperative import evaluate_cooperatively
from vcsync.apiserver.admission.tenant_policies.compiled import problems
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.scope import Admission


async def enforceable_policies(admission: Admission) -> None:
    """Refuse a TenantPolicy of the operator's space whose expressions do not compile, or that would break control planes.

    Raises:
        StatusError: 422, with the fields that are wrong.
    """
    scope, new, old = admission.scope, admission.new, admission.old
    resource = scope.kind.resource
    if scope.tenant != SYSTEM or (resource.group, resource.plural) != (
        TENANT_POLICIES.group,
        TENANT_POLICIES.plural,
    ):
        return
    if new is None or scope.subresource or (old is not None and old.get("spec") == new.get("spec")):
        return
    try:
        spec = msgspec.convert(new.get("spec"), TenantPolicySpec)
    except msgspec.ValidationError as error:
        wrong = [errors.wrong("spec", "", str(error))]
    else:
        wrong = await evaluate_cooperatively(SYSTEM, lambda: problems(spec))
    if wrong:
        raise errors.invalid(resource.kind, resource.group, admission.name, wrong)
