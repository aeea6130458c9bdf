"""What writes are put before, in order: plug-ins, roles, policies, webhooks, quotas."""

from collections.abc import Sequence
from dataclasses import dataclass

from vcsync.controlplane.admission import chain
from vcsync.controlplane.admission.configurations import Configurations
from vcsync.controlplane.admission.pod_security import DEFAULT
from vcsync.controlplane.admission.quotas import QuotaClaims
from vcsync.controlplane.admission.settings import Settings
from vcsync.controlplane.admission.versions import Versions
from vcsync.controlplane.admission.webhooks.dispatch import Webhooks, mutation
from vcsync.controlplane.crd.catalogue import Catalogue
from vcsync.controlplane.crd.convert import Reach
from vcsync.controlplane.rest.claims import Claims
from vcsync.controlplane.rest.policing import ask_of, policies, readable_params
from vcsync.controlplane.rest.rights import Rights
from vcsync.controlplane.rest.scope import Admit
from vcsync.controlplane.store.interface import Store


@dataclass(frozen=True, slots=True)
class Admissions:
    """See `registry.Registry`; `configurations` are to be told of changes."""

    admit: Sequence[Admit]
    validate: Sequence[Admit]
    charges: Claims
    configurations: Configurations


def admission(
    store: Store, rights: Rights, catalogue: Catalogue, reach: Reach, plugins: Settings = DEFAULT
) -> Admissions:
    """Put admission together.

    Args:
        store: is read by plug-ins, policies and webhooks.
        rights: who may do what.
        catalogue: of custom resources.
        reach: calls webhooks.
        plugins: what the operator says of admission plug-ins.
    """
    configurations = Configurations(store)
    webhooks = Webhooks(store, configurations, Versions(catalogue), reach, ask_of(rights))
    enforced = policies(store, catalogue, configurations, rights)
    return Admissions(
        admit=(
            mutation(chain.mutation(store, rights.decide), enforced.mutate, webhooks),
            rights.check_roles,
        ),
        validate=(
            chain.validation(store, rights.decide, rights.may, plugins),
            readable_params(store, catalogue, rights),
            enforced.validate,
            webhooks.validate,
        ),
        charges=QuotaClaims(store, plugins.limited),
        configurations=configurations,
    )
