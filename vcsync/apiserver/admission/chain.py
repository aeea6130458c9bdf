"""The admission plug-ins in kube-apiserver's order.

Mutating plug-ins run before the rules of the kind, validating ones after them. ResourceQuotas come last, in the
transaction of the write.
"""

from collections.abc import Sequence

from vcsync.apiserver.admission import (
    app_armor,
    limits,
    placed_pods,
    pods,
    runtime_classes,
    service_accounts,
    storage,
)
from vcsync.apiserver.admission.admin_access import admin_access
from vcsync.apiserver.admission.certificates import May, Signers, no_privileged_groups
from vcsync.apiserver.admission.daemon_sets import daemons_have_nodes
from vcsync.apiserver.admission.framework.plugin import Lookup, Plugin
from vcsync.apiserver.admission.framework.settings import Settings
from vcsync.apiserver.admission.node_restriction import NodeRestriction
from vcsync.apiserver.admission.owner_references import Decide, OwnerReferences
from vcsync.apiserver.admission.pod_security.plugin import DEFAULT, PodSecurity
from vcsync.apiserver.admission.without_effect import warn_of_no_effect
from vcsync.apiserver.request.scope import Admission, Admit
from vcsync.apiserver.storage.interface import Store


def mutating(decide: Decide) -> Sequence[Plugin]:
    """Return the mutating plug-ins, in the order of Kubernetes' `pkg/kubeapiserver/options/plugins.go`.

    Args:
        decide: Authorizes callers.
    """
    return (
        limits.limit_defaults,
        service_accounts.ServiceAccounts(),
        NodeRestriction(decide),
        storage.taint_new_node,
        pods.priority,
        pods.default_tolerations,
        storage.default_storage_class,
        storage.in_use_protection,
        runtime_classes.runtime_class,
        storage.default_ingress_class,
        placed_pods.topology_labels,
        app_armor.app_armor_fields,
    )


def validating(decide: Decide, may: May, settings: Settings = DEFAULT) -> Sequence[Plugin]:
    """Return the validating plug-ins, in order.

    Args:
        decide: Authorizes callers.
        may: Authorizes approval and signing of certificates.
        settings: Configuration of the plug-ins.
    """
    return (
        admin_access,
        limits.limit_bounds,
        service_accounts.ServiceAccounts().of_ephemeral,
        PodSecurity(settings),
        daemons_have_nodes,
        warn_of_no_effect,
        pods.one_default_priority,
        OwnerReferences(decide),
        storage.claim_resize,
        runtime_classes.overhead,
        Signers(may),
        no_privileged_groups,
        placed_pods.declared_features,
        placed_pods.resize_fits,
    )


DEFAULTED = {("", "pods"), ("", "persistentvolumeclaims")}
"""Resources that plug-ins see with the defaults of their kind."""


def mutation(store: Store, decide: Decide) -> Admit:
    """Return a function that runs all mutating plug-ins, in order."""
    lookup, plugins = Lookup(store), mutating(decide)

    async def admit(admission: Admission) -> None:
        resource = admission.scope.kind.resource
        known = (resource.group, resource.plural) in DEFAULTED and not admission.scope.subresource
        if known and admission.operation == "CREATE" and admission.new is not None:
            admission.scope.kind.behaviour.default(admission.new)
        for plugin in plugins:
            await plugin(admission, lookup)

    return admit


def validation(store: Store, decide: Decide, may: May, settings: Settings = DEFAULT) -> Admit:
    """Return a function that runs all validating plug-ins, in order, on working objects."""
    lookup, plugins = Lookup(store), validating(decide, may, settings)

    async def admit(admission: Admission) -> None:
        for plugin in plugins:
            await plugin(admission, lookup)

    return admit
