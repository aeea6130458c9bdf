"""What the built-in kinds have or have not: generation, status, writes without conditions. Pure data.

The source of every row is the kind's strategy in Kubernetes' `pkg/registry`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traits:
    """See `vcsync.controlplane.behaviour.Behaviour` for what they mean."""

    generation: tuple[str, ...] = ()
    status: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    status_on_create: bool = False
    """Whether a create may bring the status with it."""


_SPEC = ("spec",)

TRAITS: dict[tuple[str, str], Traits] = {
    ("", "ConfigMap"): Traits(),
    ("", "Endpoints"): Traits(create_on_update=True),
    ("", "Event"): Traits(create_on_update=True),
    ("", "LimitRange"): Traits(create_on_update=True),
    ("", "Namespace"): Traits(status=True),
    ("", "Node"): Traits(status=True, status_on_create=True),
    ("", "PersistentVolume"): Traits(status=True),
    ("", "PersistentVolumeClaim"): Traits(status=True),
    ("", "Pod"): Traits(_SPEC, status=True),
    ("", "PodTemplate"): Traits(("template",)),
    ("", "ReplicationController"): Traits(_SPEC, status=True),
    ("", "ResourceQuota"): Traits(status=True),
    ("", "Secret"): Traits(),
    ("", "Service"): Traits(status=True, create_on_update=True),
    ("", "ServiceAccount"): Traits(),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): Traits(_SPEC, unconditional_update=False),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): Traits(
        _SPEC, unconditional_update=False
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): Traits(
        ("webhooks",), unconditional_update=False
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): Traits(
        _SPEC, status=True, unconditional_update=False
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): Traits(
        _SPEC, unconditional_update=False
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): Traits(
        ("webhooks",), unconditional_update=False
    ),
    ("apiregistration.k8s.io", "APIService"): Traits(status=True, unconditional_update=False),
    ("apps", "ControllerRevision"): Traits(),
    ("apps", "DaemonSet"): Traits(_SPEC, status=True),
    ("apps", "Deployment"): Traits(_SPEC, status=True),
    ("apps", "ReplicaSet"): Traits(_SPEC, status=True),
    ("apps", "StatefulSet"): Traits(_SPEC, status=True),
    ("autoscaling", "HorizontalPodAutoscaler"): Traits(status=True),
    ("batch", "CronJob"): Traits(_SPEC, status=True),
    ("batch", "Job"): Traits(_SPEC, status=True),
    ("certificates.k8s.io", "CertificateSigningRequest"): Traits(status=True),
    ("certificates.k8s.io", "ClusterTrustBundle"): Traits(unconditional_update=False),
    ("certificates.k8s.io", "PodCertificateRequest"): Traits(status=True, unconditional_update=False),
    ("coordination.k8s.io", "Lease"): Traits(unconditional_update=False, create_on_update=True),
    ("coordination.k8s.io", "LeaseCandidate"): Traits(unconditional_update=False, create_on_update=True),
    ("discovery.k8s.io", "EndpointSlice"): Traits(("addressType", "endpoints", "ports")),
    ("events.k8s.io", "Event"): Traits(create_on_update=True),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): Traits(_SPEC, status=True),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): Traits(_SPEC, status=True),
    ("networking.k8s.io", "IPAddress"): Traits(),
    ("networking.k8s.io", "Ingress"): Traits(_SPEC, status=True),
    ("networking.k8s.io", "IngressClass"): Traits(_SPEC),
    ("networking.k8s.io", "NetworkPolicy"): Traits(_SPEC),
    ("networking.k8s.io", "ServiceCIDR"): Traits(status=True),
    ("node.k8s.io", "RuntimeClass"): Traits(unconditional_update=False, create_on_update=True),
    ("policy", "PodDisruptionBudget"): Traits(_SPEC, status=True, unconditional_update=False),
    ("rbac.authorization.k8s.io", "ClusterRole"): Traits(create_on_update=True),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): Traits(create_on_update=True),
    ("rbac.authorization.k8s.io", "Role"): Traits(create_on_update=True),
    ("rbac.authorization.k8s.io", "RoleBinding"): Traits(create_on_update=True),
    ("resource.k8s.io", "DeviceClass"): Traits(_SPEC),
    ("resource.k8s.io", "DeviceTaintRule"): Traits(_SPEC, status=True),
    ("resource.k8s.io", "ResourceClaim"): Traits(status=True),
    ("resource.k8s.io", "ResourceClaimTemplate"): Traits(),
    ("resource.k8s.io", "ResourceSlice"): Traits(_SPEC),
    ("scheduling.k8s.io", "PriorityClass"): Traits(("value",)),
    ("storage.k8s.io", "CSIDriver"): Traits(_SPEC, unconditional_update=False),
    ("storage.k8s.io", "CSINode"): Traits(unconditional_update=False),
    ("storage.k8s.io", "CSIStorageCapacity"): Traits(unconditional_update=False),
    ("storage.k8s.io", "StorageClass"): Traits(),
    ("storage.k8s.io", "VolumeAttachment"): Traits(status=True, unconditional_update=False),
    ("storage.k8s.io", "VolumeAttributesClass"): Traits(),
    ("storagemigration.k8s.io", "StorageVersionMigration"): Traits(status=True, unconditional_update=False),
}
