"""The wire names that the audit expects, written out by hand, so that a wrong constant in vcsync is detected."""

GROUP = "tenancy.x-k8s.io"
CLUSTER = "tenancy.x-k8s.io/cluster"
NAMESPACE = "tenancy.x-k8s.io/namespace"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
UID = "tenancy.x-k8s.io/uid"
OWNER_REFERENCES = "tenancy.x-k8s.io/ownerReferences"
VC_NAME = "tenancy.x-k8s.io/vcname"
VC_NAMESPACE = "tenancy.x-k8s.io/vcnamespace"
VC_UID = "tenancy.x-k8s.io/vcuid"
CONTROLLED = "tenancy.x-k8s.io/controlled"
CLUSTER_IP = "tenancy.x-k8s.io/clusterIP"
IGNORE_SYNC = "tenancy.x-k8s.io/ignore-sync"
SUPER_PUBLIC = "tenancy.x-k8s.io/super.public"
PUBLISHED_BY = "tenancy.x-k8s.io/superclusters"
DEFINITION = "tenancy.x-k8s.io/definition"
VIRTUAL_NODE = "tenancy.x-k8s.io/virtualnode"
REMOTE_ENDPOINTS = "remote.tenancy.x-k8s.io"
SUPER_CLUSTER_ID = "tenancy.x-k8s.io/superclusterid"
TRANSPARENT_CLUSTER_IP = "transparency.tenancy.x-k8s.io/clusterIP"
SLICE = "scheduler.virtualcluster.io/slice"
PLACEMENTS = "scheduler.virtualcluster.io/placements"
SUPER_CLUSTER = "scheduler.virtualcluster.io/superCluster"
PLACEMENT_LABEL = "placement.scheduler.virtualcluster.io/"
DRAIN_FINALIZER = "tenancy.x-k8s.io/drain-"
COPY_FINALIZER = "tenancy.x-k8s.io/copy"
REFUSAL = "refusal.tenancy.x-k8s.io/"
"""Start of the annotation by which a Pod is taken back from a super cluster."""
TOKEN_EXPIRES = "tenancy.x-k8s.io/token-expires"  # noqa: S105 - an annotation key

QUOTA = "vcsync-slices"
OBJECT_BYTES = "object-bytes"
DEVICES = "devices"
DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
"""A resource of slices that no ResourceQuota can limit."""
TOKEN_SECRET = "vcsync-token-"  # noqa: S105 - start of a name
ROOT_CA = "kube-root-ca.crt"
TENANT_ROOT_CA = "tenant-kube-root-ca.crt"

OUR_DOMAINS = (
    "tenancy.x-k8s.io",
    "transparency.tenancy.x-k8s.io",
    "ingress.transparency.tenancy.x-k8s.io",
    "disruptions.tenancy.x-k8s.io",
    "scheduler.virtualcluster.io",
    "placement.scheduler.virtualcluster.io",
)
"""Domains of our own keys: a tenant's keys in them stay in the tenant."""
KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
"""Domains whose keys, with those of their subdomains, stay in the tenant, except `WORKLOAD_DOMAINS`."""
WORKLOAD_DOMAINS = (
    "app.kubernetes.io",
    "apps.kubernetes.io",
    "batch.kubernetes.io",
    "statefulset.kubernetes.io",
)
"""Domains of keys that Services and workloads use in selectors."""

HELM_RELEASE = "helm.sh/release.v1"
"""Type of Secrets that stay in the tenant."""
HARMLESS_SECRET_TYPES = frozenset(
    {
        "kubernetes.io/tls",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/dockercfg",
        "kubernetes.io/basic-auth",
        "kubernetes.io/ssh-auth",
    }
)
"""Secret types of the kubernetes.io domain that are kept in a super cluster; the others of the domain become Opaque."""
EMPTY_NAMESPACES = frozenset({"kube-node-lease", "kube-public", "vcsync-system"})
"""Namespaces of a tenant in which no Pods run, so that they have no default quota."""
