"""The role: stands for election, runs all controllers while it leads, and shows operators what it does."""

from collections.abc import Iterable
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from vcsync.api import names
from vcsync.controllers import certificates
from vcsync.controllers.aggregation import CLUSTER_ROLE_AGGREGATION
from vcsync.controllers.attributes_class_protection import ATTRIBUTES_CLASS_PROTECTION
from vcsync.controllers.bootstrap_tokens import TOKEN_CLEANER
from vcsync.controllers.cronjobs import CRON_JOB
from vcsync.controllers.daemonsets import daemon_sets
from vcsync.controllers.deployments import DEPLOYMENT
from vcsync.controllers.disruption import DISRUPTION, DISRUPTION_TARGET
from vcsync.controllers.endpoints import ENDPOINT
from vcsync.controllers.endpointslice_mirroring import ENDPOINT_SLICE_MIRRORING
from vcsync.controllers.endpointslices import ENDPOINT_SLICE
from vcsync.controllers.engine import PER_TENANT
from vcsync.controllers.hpa import horizontal_pod_autoscaler
from vcsync.controllers.job_ttl import TTL_AFTER_FINISHED
from vcsync.controllers.jobs import JOB, JOB_ORPHANS
from vcsync.controllers.legacy_tokens import LEGACY_TOKENS
from vcsync.controllers.namespaces import NAMESPACE
from vcsync.controllers.node_lifecycle import node_lifecycle
from vcsync.controllers.plan import Controller
from vcsync.controllers.pod_garbage import pod_garbage_collector
from vcsync.controllers.policy_types import Check, type_checking
from vcsync.controllers.pool_metrics import Connect, PoolMetrics, connect
from vcsync.controllers.quotas import RESOURCE_QUOTA
from vcsync.controllers.replicas import REPLICA_SET, REPLICATION_CONTROLLER
from vcsync.controllers.serviceaccounts import SERVICE_ACCOUNT, root_ca_publisher
from vcsync.controllers.statefulsets import STATEFUL_SET
from vcsync.controllers.taint_eviction import taint_eviction
from vcsync.controllers.term import Term
from vcsync.controllers.token_secrets import token_secrets
from vcsync.controllers.volume_claims import VOLUME_CLAIM
from vcsync.controllers.volume_protection import VOLUME_CLAIM_PROTECTION, VOLUME_PROTECTION
from vcsync.controllers.volumes import VOLUME
from vcsync.controllers.working import Worker
from vcsync.kube.client import Client
from vcsync.tenancy.terms import Terms

LEASE_NAMESPACE = "kube-system"
"""Of the system space: every control plane has it from the beginning."""


def everything(
    server: Client, authority: str, check: Check | None = None, connect: Connect = connect
) -> tuple[Controller | Worker, ...]:
    """Return all controllers there are.

    Args:
        server: client of the control plane's root, as a system caller; signs what needs tenants' keys.
        authority: PEM of the CA that tenants' Pods trust for their API server.
        check: finds where a ValidatingAdmissionPolicy's expressions do not fit what they match; None: nobody looks.
        connect: opens a client of a super cluster, to learn what Pods use there.
    """
    return (
        NAMESPACE,
        RESOURCE_QUOTA,
        pod_garbage_collector(),
        CLUSTER_ROLE_AGGREGATION,
        SERVICE_ACCOUNT,
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
        DISRUPTION,
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
        VOLUME_CLAIM_PROTECTION,
        VOLUME_PROTECTION,
        ATTRIBUTES_CLASS_PROTECTION,
        horizontal_pod_autoscaler(PoolMetrics(server.below("/tenants/system"), connect=connect)),
        *((type_checking(check),) if check else ()),
    )


class Controllers:
    """Drives all tenants of an embedded control plane.

    Args:
        server: client of the control plane's root, as a system caller; stays the caller's to close.
        identity: who we are in the election; different for each process.
        leader_elect: lead only while holding the Lease; False if there is certainly no other.
        authority: PEM of the CA that tenants' Pods trust for their API server.
        check, connect: as `everything` takes them.
        per_tenant: how many objects of one tenant are in work at once.
    """

    def __init__(
        self,
        server: Client,
        *,
        identity: str,
        authority: str,
        check: Check | None = None,
        connect: Connect = connect,
        leader_elect: bool = True,
        per_tenant: int = PER_TENANT,
    ) -> None:
        self._terms: Terms[Term] = Terms(
            server.below("/tenants/system"),
            names.ROLE_CONTROLLERS,
            identity=identity,
            leader_elect=leader_elect,
            begin=lambda _office: Term(server, everything(server, authority, check, connect), per_tenant),
            namespace=LEASE_NAMESPACE,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        await self._terms.run()

    def ready(self) -> tuple[bool, str]:
        """Whether it does its work now."""
        return self._terms.ready("all tenants' objects")

    def status(self) -> dict[str, Any]:
        """The state of the role as plain JSON values."""
        term = self._terms.current
        return self._terms.status() | ({} if term is None else term.status())

    def metrics(self) -> Iterable[Metric]:
        """Metric families; none grows with the number of tenants."""
        term = self._terms.current
        yield self._terms.leading()
        if term is None:
            return
        queues = [each.queue.statistics() for each in (term.engine.work, term.garbage.work)]
        queued = GaugeMetricFamily("vcsync_controllers_queued", "Objects that controllers are to look at")
        queued.add_metric([], float(sum(each.queued + each.delayed for each in queues)))
        yield queued
