"""vcsync's custom resources, and the admission policies that `rbac` makes, as kube's client addresses them."""

from typing import Final

from vcsync.api.names import GROUP, VERSION
from vcsync.kube.resources import Resource

TENANTS: Final = Resource(group=GROUP, version=VERSION, plural="tenants", kind="Tenant", namespaced=False)
TENANT_POLICIES: Final = Resource(
    group=GROUP, version=VERSION, plural="tenantpolicies", kind="TenantPolicy", namespaced=False
)
TENANT_TEMPLATES: Final = Resource(
    group=GROUP, version=VERSION, plural="tenanttemplates", kind="TenantTemplate", namespaced=False
)
VIRTUAL_CLUSTERS: Final = Resource(
    group=GROUP, version=VERSION, plural="virtualclusters", kind="VirtualCluster", namespaced=True
)
SUPER_CLUSTERS: Final = Resource(
    group=GROUP, version=VERSION, plural="superclusters", kind="SuperCluster", namespaced=False
)
NAMESPACE_PLACEMENTS: Final = Resource(
    group=GROUP, version=VERSION, plural="namespaceplacements", kind="NamespacePlacement", namespaced=True
)

ALL: Final = (
    TENANTS,
    TENANT_TEMPLATES,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
    SUPER_CLUSTERS,
    NAMESPACE_PLACEMENTS,
)
"""All custom resources, in the order of their installation."""

MUTATING_WEBHOOK_CONFIGURATIONS: Final = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    kind="MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICIES: Final = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICY_BINDINGS: Final = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
