"""The plug-ins in the order in which kube-apiserver asks them.

Those that change objects come before a kind's own rules, those that refuse them after; ResourceQuotas are last, in the
write's transaction.
"""

from collections.abc import Sequence

from vcsync.controlplane.admission import (
    app_armor,
    limits,
    placed_pods,
    pods,
    runtime_classes,
    service_accounts,
    storage,
)
from vcsync.controlplane.admission.certificates import May, Signers, no_guarded_groups
from vcsync.controlplane.admission.daemon_sets import daemons_have_nodes
from vcsync.controlplane.admission.node_restriction import NodeRestriction
from vcsync.controlplane.admission.owner_references import Decide, OwnerReferences
from vcsync.controlplane.admission.plugin import Lookup, Plugin
from vcsync.controlplane.admission.pod_security import DEFAULT, PodSecurity
from vcsync.controlplane.admission.settings import Settings
from vcsync.controlplane.admission.without_effect import warn_of_no_effect
from vcsync.controlplane.rest.scope import Admission, Admit
from vcsync.controlplane.store.interface import Store


def mutating(decide: Decide) -> Sequence[Plugin]:
    """Return the plug-ins that change objects, in the order of Kubernetes' `pkg/kubeapiserver/options/plugins.go`.

    Args:
        decide: who may do what.
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
    """Return the plug-ins that refuse, in order.

    Args:
        decide: who may do what.
        may: who approves and signs for whom.
        settings: what the operator says of plug-ins.
    """
    return (
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
        no_guarded_groups,
        placed_pods.declared_features,
        placed_pods.resize_fits,
    )


DEFAULTED = {("", "pods"), ("", "persistentvolumeclaims")}
"""What plug-ins look into: they see it with its kind's defaults."""


def mutation(store: Store, decide: Decide) -> Admit:
    """Return what asks all plug-ins that change objects, in order."""
    lookup, plugins = Lookup(store), mutating(decide)

    async def admit(asked: Admission) -> None:
        resource = asked.scope.kind.resource
        known = (resource.group, resource.plural) in DEFAULTED and not asked.scope.subresource
        if known and asked.operation == "CREATE" and asked.new is not None:
            asked.scope.kind.behaviour.default(asked.new)
        for plugin in plugins:
            await plugin(asked, lookup)

    return admit


def validation(store: Store, decide: Decide, may: May, settings: Settings = DEFAULT) -> Admit:
    """Return what asks all plug-ins that refuse, in order; objects are working ones."""
    lookup, plugins = Lookup(store), validating(decide, may, settings)

    async def admit(asked: Admission) -> None:
        for plugin in plugins:
            await plugin(asked, lookup)

    return admit
