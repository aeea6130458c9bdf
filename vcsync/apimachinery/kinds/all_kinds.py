"""The list of built-in kinds, with look-ups by resource and by kind. Pure data."""

from collections.abc import Mapping

from vcsync.apimachinery.kinds.admissionregistration import (
    mutating_admission_policy,
    mutating_admission_policy_binding,
    mutating_webhook_configuration,
    validating_admission_policy,
    validating_admission_policy_binding,
    validating_webhook_configuration,
)
from vcsync.apimachinery.kinds.apiextensions import custom_resource_definition
from vcsync.apimachinery.kinds.apiregistration import api_service
from vcsync.apimachinery.kinds.apps import (
    controller_revision,
    daemon_set,
    deployment,
    replica_set,
    stateful_set,
)
from vcsync.apimachinery.kinds.autoscaling import horizontal_pod_autoscaler, scale
from vcsync.apimachinery.kinds.batch import cron_job, job
from vcsync.apimachinery.kinds.certificates import certificate_signing_request
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.coordination import lease
from vcsync.apimachinery.kinds.core import (
    component_status,
    config_map,
    endpoints,
    event,
    limit_range,
    namespace,
    node,
    persistent_volume,
    persistent_volume_claim,
    pod,
    pod_template,
    replication_controller,
    resource_quota,
    secret,
    service,
    service_account,
)
from vcsync.apimachinery.kinds.discovery import endpoint_slice
from vcsync.apimachinery.kinds.events import event as events_event
from vcsync.apimachinery.kinds.flowcontrol import flow_schema, priority_level_configuration
from vcsync.apimachinery.kinds.networking import (
    ingress,
    ingress_class,
    ip_address,
    network_policy,
    service_cidr,
)
from vcsync.apimachinery.kinds.node import runtime_class
from vcsync.apimachinery.kinds.policy import pod_disruption_budget
from vcsync.apimachinery.kinds.rbac import cluster_role, cluster_role_binding, role, role_binding
from vcsync.apimachinery.kinds.resource import (
    device_class,
    resource_claim,
    resource_claim_template,
    resource_slice,
)
from vcsync.apimachinery.kinds.scheduling import priority_class
from vcsync.apimachinery.kinds.storage import (
    csi_driver,
    csi_node,
    csi_storage_capacity,
    storage_class,
    volume_attachment,
    volume_attributes_class,
)
from vcsync.apimachinery.patch.resets import NOTHING, Reset

KINDS: tuple[Kind, ...] = (
    mutating_admission_policy.KIND,
    mutating_admission_policy_binding.KIND,
    mutating_webhook_configuration.KIND,
    validating_admission_policy.KIND,
    validating_admission_policy_binding.KIND,
    validating_webhook_configuration.KIND,
    custom_resource_definition.KIND,
    api_service.KIND,
    controller_revision.KIND,
    daemon_set.KIND,
    deployment.KIND,
    replica_set.KIND,
    stateful_set.KIND,
    horizontal_pod_autoscaler.KIND,
    scale.KIND,
    cron_job.KIND,
    job.KIND,
    certificate_signing_request.KIND,
    lease.KIND,
    component_status.KIND,
    config_map.KIND,
    endpoints.KIND,
    event.KIND,
    limit_range.KIND,
    namespace.KIND,
    node.KIND,
    persistent_volume.KIND,
    persistent_volume_claim.KIND,
    pod.KIND,
    pod_template.KIND,
    replication_controller.KIND,
    resource_quota.KIND,
    secret.KIND,
    service.KIND,
    service_account.KIND,
    endpoint_slice.KIND,
    events_event.KIND,
    flow_schema.KIND,
    priority_level_configuration.KIND,
    ip_address.KIND,
    ingress.KIND,
    ingress_class.KIND,
    network_policy.KIND,
    service_cidr.KIND,
    runtime_class.KIND,
    pod_disruption_budget.KIND,
    cluster_role.KIND,
    cluster_role_binding.KIND,
    role.KIND,
    role_binding.KIND,
    device_class.KIND,
    resource_claim.KIND,
    resource_claim_template.KIND,
    resource_slice.KIND,
    priority_class.KIND,
    csi_driver.KIND,
    csi_node.KIND,
    csi_storage_capacity.KIND,
    storage_class.KIND,
    volume_attachment.KIND,
    volume_attributes_class.KIND,
)

_BY_PLURAL: Mapping[tuple[str, str], Kind] = {(each.group, each.plural): each for each in KINDS}
_BY_KIND: Mapping[tuple[str, str], Kind] = {(each.group, each.kind): each for each in KINDS}


def by_plural(group: str, plural: str) -> Kind | None:
    """Return the declaration of a built-in resource, or None if it has none or does not exist."""
    return _BY_PLURAL.get((group, plural))


def reset(group: str, plural: str, subresource: str = "") -> Reset:
    """Return the fields that a field manager never owns after a write to a built-in resource."""
    declared = by_plural(group, plural)
    return NOTHING if declared is None else declared.resets.get(subresource, NOTHING)


def by_kind(group: str, kind: str) -> Kind | None:
    """Return the declaration of a built-in kind, or None if it has none or does not exist."""
    return _BY_KIND.get((group, kind))
