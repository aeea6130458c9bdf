"""The controller role: takes part in the election, runs all controllers while it leads, and reports its state."""

from collections.abc import Iterable
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from vcsync.api import names
from vcsync.controllers.certificates import certificates_plan as certificates
from vcsync.controllers.clusterroleaggregation.aggregation_controller import CLUSTER_ROLE_AGGREGATION
from vcsync.controllers.cronjob.cronjob_plan import CRON_JOB
from vcsync.controllers.daemonset.daemonset_plan import daemon_sets
from vcsync.controllers.deployment.deployment_plan import DEPLOYMENT
from vcsync.controllers.disruption.disruption_plan import DISRUPTION_TARGET
from vcsync.controllers.disruption.foreign_scales import disruption
from vcsync.controllers.endpoints.endpoints_plan import ENDPOINT
from vcsync.controllers.endpoints.endpointslice_plan import ENDPOINT_SLICE
from vcsync.controllers.endpoints.mirroring_plan import ENDPOINT_SLICE_MIRRORING
from vcsync.controllers.framework.engine import PER_TENANT
from vcsync.controllers.framework.plan import Controller
from vcsync.controllers.framework.worker import Worker
from vcsync.controllers.hpa.hpa_controller import horizontal_pod_autoscaler
from vcsync.controllers.job.job_plan import JOB, JOB_ORPHANS
from vcsync.controllers.job.ttl_plan import TTL_AFTER_FINISHED
from vcsync.controllers.manager.term import Term
from vcsync.controllers.namespace.namespace_controller import NAMESPACE
from vcsync.controllers.network.network_plan import NETWORK
from vcsync.controllers.network.service_cidr_plan import SERVICE_CIDR
from vcsync.controllers.node.lifecycle_plan import node_lifecycle
from vcsync.controllers.node.taint_eviction_plan import taint_eviction
from vcsync.controllers.podgc.podgc_plan import pod_garbage_collector
from vcsync.controllers.policystatus.policystatus_controller import Check, type_checking
from vcsync.controllers.replicaset.replicaset_plan import REPLICA_SET, REPLICATION_CONTROLLER
from vcsync.controllers.resourceclaim.resourceclaim_plan import RESOURCE_CLAIM
from vcsync.controllers.resourcequota.resourcequota_controller import RESOURCE_QUOTA
from vcsync.controllers.serviceaccount.bootstrap_token_plan import TOKEN_CLEANER
from vcsync.controllers.serviceaccount.legacy_token_plan import LEGACY_TOKENS
from vcsync.controllers.serviceaccount.serviceaccount_plan import SERVICE_ACCOUNT, root_ca_publisher
from vcsync.controllers.serviceaccount.tokens_controller import token_secrets
from vcsync.controllers.statefulset.statefulset_plan import STATEFUL_SET
from vcsync.controllers.volumes.attributes_class_plan import ATTRIBUTES_CLASS_PROTECTION
from vcsync.controllers.volumes.claim_plan import VOLUME_CLAIM
from vcsync.controllers.volumes.ephemeral_plan import EPHEMERAL_VOLUME
from vcsync.controllers.volumes.protection_plan import VOLUME_CLAIM_PROTECTION, VOLUME_PROTECTION
from vcsync.controllers.volumes.volume_plan import VOLUME
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.tenancy.status import reconcile_metrics, skipped_metric, timeline
from vcsync.tenancy.terms import Terms

LEASE_NAMESPACE = "kube-system"
"""The namespace of the Lease in the system space, which every control plane has from the start."""


def all_controllers(
    server: Client, authority: str, check: Check | None = None
) -> tuple[Controller | Worker, ...]:
    """Return all controllers.

    Args:
        server: client of the control plane's root, as a system caller; it signs with tenants' keys.
        authority: PEM of the CA that tenants' Pods trust for their API server.
        check: finds type errors in a ValidatingAdmissionPolicy's expressions; None: no check.
    """
    return (
        NAMESPACE,
        RESOURCE_QUOTA,
        pod_garbage_collector(),
        CLUSTER_ROLE_AGGREGATION,
        SERVICE_ACCOUNT,
        NETWORK,
        SERVICE_CIDR,
        root_ca_publisher(authority),
        REPLICA_SET,
        REPLICATION_CONTROLLER,
        DEPLOYMENT,
        JOB,
        JOB_ORPHANS,
        TTL_AFTER_FINISHED,
        CRON_JOB,
        ENDPOINT,
        ENDPOINT_SLICE,
        ENDPOINT_SLICE_MIRRORING,
        STATEFUL_SET,
        disruption(),
        DISRUPTION_TARGET,
        daemon_sets(),
        node_lifecycle(),
        taint_eviction(),
        certificates.APPROVING,
        certificates.signing(server),
        certificates.CLEANING,
        token_secrets(server, authority),
        LEGACY_TOKENS,
        TOKEN_CLEANER,
        VOLUME_CLAIM,
        VOLUME,
        EPHEMERAL_VOLUME,
        RESOURCE_CLAIM,
        VOLUME_CLAIM_PROTECTION,
        VOLUME_PROTECTION,
        ATTRIBUTES_CLASS_PROTECTION,
        horizontal_pod_autoscaler(),
        *((type_checking(check),) if check else ()),
    )


class Controllers:
    """Runs the controllers of all tenants of an embedded control plane.

    Args:
        server: client of the control plane's root, as a system caller; the caller closes it.
        identity: identity in the election; different for each process.
        leader_elect: lead only while holding the Lease; False if no other process can exist.
        authority: PEM of the CA that tenants' Pods trust for their API server.
        check: see `all_controllers`.
        per_tenant: maximum number of one tenant's objects in progress.
    """

    def __init__(
        self,
        server: Client,
        *,
        identity: str,
        authority: str,
        check: Check | None = None,
        leader_elect: bool = True,
        per_tenant: int = PER_TENANT,
    ) -> None:
        self._terms: Terms[Term] = Terms(
            server.below("/tenants/system"),
            names.ROLE_CONTROLLERS,
            identity=identity,
            leader_elect=leader_elect,
            begin=lambda _lease: Term(server, all_controllers(server, authority, check), per_tenant),
            namespace=LEASE_NAMESPACE,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        await self._terms.run()

    def ready(self) -> tuple[bool, str]:
        """Return whether the role works now."""
        return self._terms.ready("all tenants' objects")

    def status(self) -> dict[str, Any]:
        """Return the state of the role as plain JSON values."""
        term = self._terms.current
        return self._terms.status() | ({} if term is None else term.status())

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        """Return the last transitions of a tenant's object, oldest first."""
        term = self._terms.current
        return [] if term is None else timeline([term.engine.work, term.garbage.work], tenant, name)

    def metrics(self) -> Iterable[Metric]:
        """Return the metric families; their size does not depend on the number of tenants."""
        term = self._terms.current
        yield self._terms.leading()
        if term is None:
            return
        yield from reconcile_metrics(term.engine.work, term.garbage.work)
        yield skipped_metric(mirror.reflector for mirror in term.engine.mirrors.values())
        queues = [each.queue.statistics() for each in (term.engine.work, term.garbage.work)]
        for name, text, value in (
            ("queued", "Objects ready to be reconciled now", sum(each.queued for each in queues)),
            (
                "delayed",
                "Objects to be reconciled later",
                sum(each.delayed for each in queues),
            ),
            (
                "definitions_left_out",
                "CustomResourceDefinitions that the garbage collector does not follow, since their tenants have too many",
                term.garbage.left_out(),
            ),
        ):
            gauge = GaugeMetricFamily(f"vcsync_controllers_{name}", text)
            gauge.add_metric([], float(value))
            yield gauge
