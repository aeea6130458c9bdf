"""Our custom resources, and what `rbac` needs besides, as kube's client addresses them."""

from typing import Final

from vcsync.api.names import GROUP, VERSION
from vcsync.kube.resources import Resource

TENANTS: Final = Resource(group=GROUP, version=VERSION, plural="tenants", kind="Tenant", namespaced=False)
VIRTUAL_CLUSTERS: Final = Resource(
    group=GROUP, version=VERSION, plural="virtualclusters", kind="VirtualCluster", namespaced=True
)
SUPER_CLUSTERS: Final = Resource(
    group=GROUP, version=VERSION, plural="superclusters", kind="SuperCluster", namespaced=False
)
NAMESPACE_PLACEMENTS: Final = Resource(
    group=GROUP, version=VERSION, plural="namespaceplacements", kind="NamespacePlacement", namespaced=True
)

ALL: Final = (TENANTS, VIRTUAL_CLUSTERS, SUPER_CLUSTERS, NAMESPACE_PLACEMENTS)
"""In the order in which they are installed."""

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
