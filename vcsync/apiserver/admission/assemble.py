"""Assembles admission: plug-ins, role checks, policies, webhooks and quotas, in order."""

from collections.abc import Sequence
from dataclasses import dataclass

from vcsync.apiserver.admission import chain
from vcsync.apiserver.admission.framework.configurations import Configurations
from vcsync.apiserver.admission.framework.plugin import Lookup
from vcsync.apiserver.admission.framework.settings import Settings
from vcsync.apiserver.admission.framework.versions import Versions
from vcsync.apiserver.admission.pod_placement import Placer, PodPlacement
from vcsync.apiserver.admission.pod_security.plugin import DEFAULT
from vcsync.apiserver.admission.policy_context import ask_of, policies, readable_params
from vcsync.apiserver.admission.quotas import QuotaClaims
from vcsync.apiserver.admission.tenant_grants import TenantGrants
from vcsync.apiserver.admission.tenant_policies.enforcement import TenantPolicyEnforcement
from vcsync.apiserver.admission.tenant_policies.following import TenantPolicies
from vcsync.apiserver.admission.tenant_policies.writing import enforceable_policies
from vcsync.apiserver.admission.tenant_quotas import TenantQuotas
from vcsync.apiserver.admission.webhooks.dispatch import Webhooks, mutation
from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.apiextensions.conversion import Reach
from vcsync.apiserver.authorization.rights import Rights
from vcsync.apiserver.request.claims import AllClaims, Claims
from vcsync.apiserver.request.scope import Admit
from vcsync.apiserver.storage.interface import Store


@dataclass(frozen=True, slots=True)
class Admissions:
    """The parts for `registry.store.Registry`.

    `configurations`, `tenant_policies` and `tenant_quotas` must receive the changes of the store.
    """

    admit: Sequence[Admit]
    validate: Sequence[Admit]
    charges: Claims
    configurations: Configurations
    tenant_policies: TenantPolicies
    tenant_quotas: TenantQuotas


def admission(
    store: Store,
    rights: Rights,
    catalogue: Catalogue,
    reach: Reach,
    plugins: Settings = DEFAULT,
    *,
    placer: Placer | None = None,
) -> Admissions:
    """Assemble admission.

    Args:
        store: The store, which plug-ins, policies and webhooks read.
        rights: Authorizes callers.
        catalogue: Custom kinds.
        reach: Calls webhooks.
        plugins: Configuration of the plug-ins.
        placer: Places Pods while they are created. None: no Pod is.
    """
    configurations = Configurations(store)
    webhooks = Webhooks(store, configurations, Versions(catalogue), reach, ask_of(rights))
    tenant_quotas = TenantQuotas(store)
    enforced = policies(store, catalogue, configurations, rights)
    tenant_policies = TenantPolicies(store)
    of_operator = TenantPolicyEnforcement(tenant_policies, enforced, Lookup(store))
    return Admissions(
        admit=(
            of_operator.mutate,
            mutation(chain.mutation(store, rights.decide), enforced.mutate, webhooks),
            rights.check_roles,
            *(() if placer is None else (PodPlacement(placer, Lookup(store)),)),
        ),
        validate=(
            of_operator.validate,
            enforceable_policies,
            chain.validation(store, rights.decide, rights.may, plugins),
            TenantGrants(store, rights.check_grant),
            readable_params(store, catalogue, rights),
            enforced.validate,
            webhooks.validate,
        ),
        charges=AllClaims(QuotaClaims(store, plugins.limited), tenant_quotas),
        configurations=configurations,
        tenant_policies=tenant_policies,
        tenant_quotas=tenant_quotas,
    )
