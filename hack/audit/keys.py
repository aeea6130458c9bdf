"""The wire names the audit looks for, written out by hand so that a wrong constant in the program is noticed."""

CLUSTER = "tenancy.x-k8s.io/cluster"
NAMESPACE = "tenancy.x-k8s.io/namespace"
UID = "tenancy.x-k8s.io/uid"
OWNER_REFERENCES = "tenancy.x-k8s.io/ownerReferences"
VC_NAME = "tenancy.x-k8s.io/vcname"
VC_NAMESPACE = "tenancy.x-k8s.io/vcnamespace"
VC_UID = "tenancy.x-k8s.io/vcuid"
CONTROLLED = "tenancy.x-k8s.io/controlled"
CLUSTER_IP = "tenancy.x-k8s.io/clusterIP"
IGNORE_SYNC = "tenancy.x-k8s.io/ignore-sync"
VIRTUAL_NODE = "tenancy.x-k8s.io/virtualnode"
SUPER_CLUSTER_ID = "tenancy.x-k8s.io/superclusterid"
TRANSPARENT_CLUSTER_IP = "transparency.tenancy.x-k8s.io/clusterIP"
SLICE = "scheduler.virtualcluster.io/slice"
PLACEMENTS = "scheduler.virtualcluster.io/placements"
SUPER_CLUSTER = "scheduler.virtualcluster.io/superCluster"
PLACEMENT_LABEL = "placement.scheduler.virtualcluster.io/"
DRAIN_FINALIZER = "tenancy.x-k8s.io/drain-"
TOKEN_EXPIRES = "tenancy.x-k8s.io/token-expires"  # noqa: S105 - an annotation key

QUOTA = "vcsync-slices"
OBJECT_BYTES = "object-bytes"
"""What a slice has that no ResourceQuota can bound."""
TOKEN_SECRET = "vcsync-token-"  # noqa: S105 - start of a name
ROOT_CA = "kube-root-ca.crt"
TENANT_ROOT_CA = "tenant-kube-root-ca.crt"

OUR_DOMAINS = (
    "tenancy.x-k8s.io",
    "transparency.tenancy.x-k8s.io",
    "ingress.transparency.tenancy.x-k8s.io",
    "scheduler.virtualcluster.io",
    "placement.scheduler.virtualcluster.io",
)
"""Domains of our own keys: what a tenant writes under them stays in the tenant."""
KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
"""Domains whose keys, with those of subdomains, stay in the tenant..."""
WORKLOAD_DOMAINS = (
    "app.kubernetes.io",
    "apps.kubernetes.io",
    "batch.kubernetes.io",
    "statefulset.kubernetes.io",
)
"""...except these, which Services and workloads select by."""

HARMLESS_SECRET_TYPES = frozenset(
    {
        "kubernetes.io/tls",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/dockercfg",
        "kubernetes.io/basic-auth",
        "kubernetes.io/ssh-auth",
    }
)
"""Types of the kubernetes.io domain that keep their type in a super cluster; all others there become Opaque."""
