"""Names of labels, annotations, finalizers and objects on the wire, and functions that build them."""

import hashlib
from typing import Final

from vcsync.patterns.linear import linear

GROUP: Final = "tenancy.x-k8s.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

# --- Taken over from VirtualCluster, prefix tenancy.x-k8s.io/ ---------------------------------------------

CLUSTER: Final = "tenancy.x-k8s.io/cluster"
"""Cluster key of the owning tenant: annotation on super objects, label on super Pods and affinity terms."""
NAMESPACE: Final = "tenancy.x-k8s.io/namespace"
"""Annotation on super objects: the tenant's namespace (on a super namespace: its name in the tenant)."""
UID: Final = "tenancy.x-k8s.io/uid"
"""Annotation on super objects: UID of the tenant object it is a copy of. A syncer leaves objects without a match alone."""
OWNER_REFERENCES: Final = "tenancy.x-k8s.io/ownerReferences"
"""Annotation on namespaced super objects: JSON of the tenant object's ownerReferences."""
VC_NAME: Final = "tenancy.x-k8s.io/vcname"
"""Annotation and label on super objects: name of the owning VirtualCluster."""
VC_NAMESPACE: Final = "tenancy.x-k8s.io/vcnamespace"
"""Annotation and label on super objects: namespace of the owning VirtualCluster."""
VC_UID: Final = "tenancy.x-k8s.io/vcuid"
"""Annotation on super namespaces and the root namespace: UID of the VirtualCluster."""
VC_ROOT_NAMESPACE: Final = "tenancy.x-k8s.io/vcrootns"
"""Annotation `"true"` on a tenant's root namespace in the meta cluster."""
CONTROLLED: Final = "tenancy.x-k8s.io/controlled"
"""Label `"true"` on everything a syncer creates; watches of a super cluster select by it."""
CLUSTER_IP: Final = "tenancy.x-k8s.io/clusterIP"
"""Annotation on super Services: the ClusterIP that the tenant's own API server has allocated."""
SECRET_NAME: Final = "tenancy.x-k8s.io/secret.name"  # noqa: S105 - an annotation key
"""Annotation on the super copy of a ServiceAccount token Secret: name of the tenant's Secret."""
SECRET_UID: Final = "tenancy.x-k8s.io/secret.UID"  # noqa: S105 - a label key
"""Label on the super copy of a ServiceAccount token Secret: UID of the tenant's Secret."""
ADMIN_KUBECONFIG: Final = "tenancy.x-k8s.io/admin-kubeconfig"
"""Annotation on a VirtualCluster: base64 of the tenant's kubeconfig."""
SECRET_ADMIN_KUBECONFIG: Final = "tenancy.x-k8s.io/secret.admin-kubeconfig"  # noqa: S105 - an annotation key
"""Annotation on a VirtualCluster: the Secret in the root namespace that has the kubeconfig in `value`."""
IGNORE_SYNC: Final = "tenancy.x-k8s.io/ignore-sync"
"""Label `"true"` on a tenant Pod: the Pod is not synced to a super cluster."""
DISABLE_DNS_POLICY_MUTATION: Final = "tenancy.x-k8s.io/disable.dnsPolicyMutation"
"""Label `"true"` on a tenant Pod: the syncer does not change its dnsPolicy."""
SUPER_PUBLIC: Final = "tenancy.x-k8s.io/super.public"
"""Label `"true"` on a class or a CustomResourceDefinition of a super cluster: publish it to every tenant."""
VIRTUAL_NODE: Final = "tenancy.x-k8s.io/virtualnode"
"""Label `"true"` on a tenant's Nodes that a syncer made."""
STREAMS: Final = "tenancy.x-k8s.io/streams"
"""Label `"true"` on a tenant's Nodes whose kubelet API a syncer serves: `kubectl logs` and `exec` work there."""
SUPER_CLUSTER_ID: Final = "tenancy.x-k8s.io/superclusterid"
"""Label on a tenant's Nodes and PersistentVolumes: id of the super cluster that has them."""

TRANSPARENT_CLUSTER_IP: Final = "transparency.tenancy.x-k8s.io/clusterIP"
"""Annotation on super Services, copied to the tenant's Service: the ClusterIP that works in the super cluster."""

SLICE: Final = "scheduler.virtualcluster.io/slice"
"""Annotation on a tenant Namespace: JSON object of strings with `cpu` and `memory`, the size of one slice."""
PLACEMENTS: Final = "scheduler.virtualcluster.io/placements"
"""Annotation on a tenant Namespace: JSON object, super cluster id to slices. A copy for users; vcsync does not trust it."""
SUPER_CLUSTER: Final = "scheduler.virtualcluster.io/superCluster"
"""Label (and, as in VirtualCluster, annotation) on a tenant Pod: the super cluster that owns it.

Label on a tenant PersistentVolumeClaim: the super cluster that has its volume, or is to have it.
"""

# --- New ----------------------------------------------------------------------------------------------------

PROVISIONER: Final = "tenancy.x-k8s.io/super-cluster"
"""Provisioner of the StorageClasses that vcsync publishes to tenants, and of their volumes."""
INGRESS_CONTROLLER: Final = PROVISIONER
"""Controller of the IngressClasses that vcsync publishes to tenants."""
RUNTIME_HANDLER: Final = "super-cluster"
"""Handler of the RuntimeClasses that vcsync publishes to tenants."""
CSI_DRIVER: Final = "super-cluster.tenancy.x-k8s.io"
"""CSI driver that a tenant's PersistentVolumes name. It does not exist: the tenant has no nodes that mount them."""
PUBLISHED_BY: Final = "tenancy.x-k8s.io/superclusters"
"""Annotation on what is published in a tenant: ids of the super clusters that have it, separated by commas."""
DEFINITION: Final = "tenancy.x-k8s.io/definition"
"""Annotation on a published CustomResourceDefinition: its digest; in a tenant also the generation that vcsync has written."""
DEFINITION_OF: Final = "tenancy.x-k8s.io/definition-of"
"""Label of a ConfigMap with a published CustomResourceDefinition: the id of the super cluster."""
SHOWN: Final = "tenancy.x-k8s.io/shown"
"""Annotation on a virtual node: JSON object, the keys of labels and taints that come from its node by the operator's choice."""
DEFAULT_QUOTA: Final = "tenancy.x-k8s.io/default-quota"
"""Annotation on a tenant Namespace: JSON object, the part of its quota that comes from the default quota."""
WITHOUT_DEFAULT_QUOTA: Final = "tenancy.x-k8s.io/without-default-quota"
"""Annotation `"true"` on a tenant Namespace: the default quota does not apply to it."""
PLACEMENT_DOMAIN: Final = "placement.scheduler.virtualcluster.io"
"""Domain of the labels `<domain>/<super cluster id>=<slices>` on a tenant Namespace."""
DRAIN_FINALIZER_PREFIX: Final = "tenancy.x-k8s.io/drain-"
"""Prefix of the drain finalizers on a NamespacePlacement; see `drain_finalizer`."""

CLEAR_FINALIZER_PREFIX: Final = "tenancy.x-k8s.io/clear-"
"""Prefix of the clear finalizers on a NamespacePlacement; see `clear_finalizer`."""

VIRTUAL_CLUSTER_DRAIN_FINALIZER: Final = "tenancy.x-k8s.io/drain"
"""Finalizer on a VirtualCluster: the namespace scheduler has not yet cleared the tenant's placements."""

TENANT_FINALIZER: Final = "tenancy.x-k8s.io/tenant"
"""Finalizer on a Tenant: the tenant controller manages the Tenant, and has not yet removed what belongs to it."""
PLACED_BY: Final = "tenancy.x-k8s.io/placed-by"
"""Annotation on an object of a tenant: name of the TenantPolicy that places it."""
REGISTERED_BY: Final = "tenancy.x-k8s.io/registered-by"
"""Annotation on a Tenant that a command registers: the tenant controller makes no control plane for it."""
TENANT_GENERATION: Final = "tenancy.x-k8s.io/tenant-generation"
"""Annotation on a VirtualCluster: UID and generation of the Tenant whose limits it has, as `uid/generation`."""
KUBECONFIG_VERSION: Final = "tenancy.x-k8s.io/kubeconfig-version"
"""Annotation on a VirtualCluster: version of the Secret from whose kubeconfig the roles' credentials were made."""

DOWNWARD_PREFIX: Final = "tenancy.x-k8s.io/downward-"
"""Prefix of annotations on super Pods: the tenant's values for volumes and variables of the downward API."""
POD_NAME: Final = "tenancy.x-k8s.io/pod"
"""Annotation on a token Secret in a super namespace: the Pod it was made for."""
TOKENS: Final = "tenancy.x-k8s.io/tokens"
"""Annotation on a token Secret or its Pod: JSON list of the tokens that the Secret holds."""
TOKEN_EXPIRES: Final = "tenancy.x-k8s.io/token-expires"  # noqa: S105 - an annotation key
"""Annotation on a token Secret: RFC 3339 time at which its first token expires."""
TOKEN_RENEW: Final = "tenancy.x-k8s.io/token-renew"  # noqa: S105 - an annotation key
"""Annotation on a token Secret: RFC 3339 time from which the syncer renews its tokens."""
REFUSED: Final = "tenancy.x-k8s.io/refused"
"""Annotation on a super Pod: the parts of the tenant's later change that the policy refused. On a super Ingress: the tenant's
annotations that were not copied. On a super Service: the field that the super cluster cannot fulfil, which was reported."""
INGRESS_CLASS: Final = "tenancy.x-k8s.io/ingress-class"
"""Annotation on a super Ingress: the IngressClass that the tenant named. Without it, the super cluster chose the class."""
COPIED_ANNOTATIONS: Final = "tenancy.x-k8s.io/copied-annotations"
"""Annotation on super objects: JSON list of the annotations of the tenant that the operator's policy allowed."""
LEFT_OUT: Final = "tenancy.x-k8s.io/left-out"
"""Annotation on super objects: the labels and annotations of the tenant without effect there, which an Event has reported."""
WITHHELD_DOMAIN: Final = "labels.tenancy.x-k8s.io"
WITHHELD_PREFIX: Final = f"{WITHHELD_DOMAIN}/"
"""Prefix of labels on super objects, and of keys in selectors there: labels of the tenant that programs there would obey."""
CONTROL_PLANE_UID: Final = "tenancy.x-k8s.io/control-plane-uid"
"""Annotation on a VirtualCluster: UID of `kube-system` in its control plane. It prevents adding the same one twice."""
CLUSTER_UID: Final = "tenancy.x-k8s.io/cluster-uid"
"""Annotation on a SuperCluster: UID of `kube-system` in that cluster. It prevents adding the same one twice."""
BRAKE_RELEASED: Final = "tenancy.x-k8s.io/brake-released"
"""Annotation on a VirtualCluster or SuperCluster: RFC 3339 time at which an operator confirmed its deletions."""
HOLLOW_STATE: Final = "hollow.tenancy.x-k8s.io/state"
"""Annotation on a Node of a hollow super cluster: the state that the operator sets for it (`simulate.nodes.STATES`)."""
INGRESS_DOMAIN: Final = "ingress.transparency.tenancy.x-k8s.io"
INGRESS_PREFIX: Final = f"{INGRESS_DOMAIN}/"
"""Prefix of annotations on a tenant Service or Ingress, one per super cluster id: its load balancer in that super cluster."""
NODE_PORTS_DOMAIN: Final = "nodeports.transparency.tenancy.x-k8s.io"
NODE_PORTS_PREFIX: Final = f"{NODE_PORTS_DOMAIN}/"
"""Prefix of annotations on a tenant Service, one per super cluster id: JSON object, `<port>/<protocol>` to the port on which the
nodes of that super cluster listen; `healthCheck` for `spec.healthCheckNodePort`."""
DISRUPTIONS_DOMAIN: Final = "disruptions.tenancy.x-k8s.io"
DISRUPTIONS_PREFIX: Final = f"{DISRUPTIONS_DOMAIN}/"
"""Prefix of annotations on a tenant PodDisruptionBudget, one per super cluster id, while nodes are drained: JSON object, `floor`
is the number of healthy Pods that evictions in that super cluster leave there."""

PROVISIONING_DOMAIN: Final = "provisioning.tenancy.x-k8s.io"
PROVISIONING_PREFIX: Final = f"{PROVISIONING_DOMAIN}/"
"""Prefix of annotations on a tenant PersistentVolumeClaim, one per super cluster id, written by its syncer: whether that super
cluster may have a copy, and how often it has given the claim back (`vcsync.api.provisioning`)."""
REFUSAL_DOMAIN: Final = "refusal.tenancy.x-k8s.io"
REFUSAL_PREFIX: Final = f"{REFUSAL_DOMAIN}/"
"""Prefix of annotations on a tenant Pod, one per super cluster id: whether that super cluster refused the Pod, and how often it
has given it back (`vcsync.api.refusals`). Its syncer writes it, and the Pod scheduler when it takes its decision back."""
COPY_FINALIZER: Final = "tenancy.x-k8s.io/copy"
"""Finalizer on a tenant Pod of a fixed name that has a super cluster and no node: there may be a copy, so the name stays."""
SOURCE_UID: Final = "tenancy.x-k8s.io/source-uid"
"""Annotation on a super PersistentVolumeClaim with a source, and on a VolumeSnapshot: UID of the super object it is made from."""
PROVISIONING_SECONDS: Final = "tenancy.x-k8s.io/provisioning-seconds"
"""Annotation that an operator sets on a StorageClass: seconds that failures to provision a claim of it are waited out."""

OWN_DOMAINS: Final = (
    "tenancy.x-k8s.io",
    "transparency.tenancy.x-k8s.io",
    INGRESS_DOMAIN,
    NODE_PORTS_DOMAIN,
    DISRUPTIONS_DOMAIN,
    PROVISIONING_DOMAIN,
    REFUSAL_DOMAIN,
    WITHHELD_DOMAIN,
    "hollow.tenancy.x-k8s.io",
    "scheduler.virtualcluster.io",
    PLACEMENT_DOMAIN,
)
"""Domains of vcsync's own label and annotation keys. The syncer removes tenants' keys under them from copies."""
DEFAULT_OPAQUE_DOMAINS: Final = ("kubernetes.io", "k8s.io")
"""Domains whose keys, including those of their subdomains, are not copied to super clusters."""
DEFAULT_TRANSLUCENT_DOMAINS: Final = (
    "app.kubernetes.io",
    "apps.kubernetes.io",
    "batch.kubernetes.io",
    "statefulset.kubernetes.io",
)
"""Exceptions from `DEFAULT_OPAQUE_DOMAINS`: workloads label their Pods with these keys, and Services select by them."""

NETWORK_ID: Final = "tenancy.x-k8s.io/network-id"
"""Label on shared EndpointSlices in the meta cluster: `spec.networkId` of the super cluster that shares them."""
SERVICE: Final = "tenancy.x-k8s.io/service"
"""Label on shared EndpointSlices: name of the tenant's Service."""
REMOTE_ENDPOINTS: Final = "remote.tenancy.x-k8s.io"
"""Writer (`endpointslice.kubernetes.io/managed-by`) of EndpointSlices with Pods that run in other super clusters."""

KEEP_TOGETHER: Final = "tenancy.x-k8s.io/keep-together"
"""Label `"true"` on a tenant's Service: the Pod scheduler places its Pods only where they reach each other."""
REACHABLE_FROM_ALL: Final = "tenancy.x-k8s.io/ReachableFromAllSuperClusters"
"""Type of a condition of a tenant's Service: whether each super cluster with slices of its namespace reaches all its Pods."""

NETWORK: Final = "tenancy.x-k8s.io/network"
"""Label on the DNS Service of a network: the network's name."""

EXTERNAL_CONTROLLERS: Final = "tenancy.x-k8s.io/external-controllers"
"""Label on a ConfigMap in the operator's space: the tenant that runs controllers of its own instead of vcsync's."""

LEDGER_TERM: Final = "tenancy.x-k8s.io/ledger-term"
"""Annotation on a NamespacePlacement: the term of the namespace scheduler that created or last fenced it."""
MOVES: Final = "tenancy.x-k8s.io/moves"
"""Annotation on a NamespacePlacement: slices that are to go to other super clusters (`api/moves.py`)."""

USAGE_OF: Final = "tenancy.x-k8s.io/usage-of"
"""Label of a ConfigMap with the running time of Pods: the id of the super cluster."""
COUNTED_UNTIL: Final = "tenancy.x-k8s.io/counted-until"
"""Annotation of such a ConfigMap: the time up to which it counts, in milliseconds since the epoch."""
DRIFT_OF: Final = "tenancy.x-k8s.io/drift-of"
"""Label of a ConfigMap with repairs: the id of the super cluster."""
SUSPENDED: Final = "Suspended"
"""Reason of the condition Placed on a NamespacePlacement, and type of a condition on a Tenant: the tenant is suspended."""
SET_ASIDE: Final = "SetAside"
"""Reason of the conditions Ready and ControlPlaneReady on a Tenant whose work stalled the server of its control plane."""
SUPER_CLUSTER_LOST: Final = "SuperClusterLost"
"""Reason of a tenant Pod's condition Ready while its super cluster is lost."""
TRUE: Final = "true"
"""Value of vcsync's marker labels and annotations."""

# --- Objects ------------------------------------------------------------------------------------------------

OPERATOR_SPACE: Final = "system"
"""Name of the operator's space among the tenants of an embedded control plane."""
SYSTEM_NAMESPACE: Final = "vcsync-system"
"""Namespace of vcsync's ServiceAccounts, Leases and super cluster credentials."""
DEFAULT_VC_NAMESPACE: Final = "vcsync"
"""Namespace in the meta cluster where VirtualClusters live unless the operator chooses another one."""
USAGE_NAMESPACE: Final = "vcsync-usage"
"""Namespace of the meta cluster where syncers keep the running time of Pods."""
DRIFT_NAMESPACE: Final = "vcsync-drift"
"""Namespace of the meta cluster where syncers keep the latest repairs."""
DEFINITIONS_NAMESPACE: Final = "vcsync-definitions"
"""Namespace of the meta cluster where syncers keep the CustomResourceDefinitions that super clusters publish."""
ENDPOINTS_NAMESPACE: Final = "vcsync-endpoints"
"""Namespace of the meta cluster where syncers share the endpoints of Services with super clusters of the same network."""
SUPER_CLUSTER_INFO: Final = "supercluster-info"
"""ConfigMap in `kube-system` of a super cluster that carries the super cluster's id..."""
SUPER_CLUSTER_INFO_NAMESPACE: Final = "kube-system"
SUPER_CLUSTER_INFO_KEY: Final = "id"
"""...under this key..."""
SUPER_CLUSTER_INFO_META_KEY: Final = "meta"
"""...and under this one the UID of `kube-system` in the meta cluster that the super cluster belongs to."""
BUILD: Final = "vcsync"
"""Build metadata in the version of embedded control planes: `v1.36.3+vcsync`."""
METRICS_API_SERVICE: Final = "v1beta1.metrics.k8s.io"
"""APIService of the resource metrics API."""
METRICS_SERVICE: Final = "vcsync-metrics"
"""Service in the system namespace of an external control plane by which its kube-apiserver reaches a syncer for usage."""
METRICS_PUBLISHER: Final = "tenancy.x-k8s.io/metrics-publisher"
"""Annotation of the APIService of the resource metrics API: the super cluster whose syncer serves it."""
MADE_FOR_SUPER_CLUSTER: Final = "tenancy.x-k8s.io/made-for-super-cluster"
"""Label on what `vcsync super add` makes in a cluster: the super cluster's id. Only that is removed again."""
SUPER_QUOTA_NAME: Final = "vcsync-slices"
"""ResourceQuota in a super namespace: exactly the slices placed there."""
TOKEN_SECRET_PREFIX: Final = "vcsync-token-"  # noqa: S105 - a name
"""Start of the names of Secrets in a super namespace that carry tokens of the tenant's ServiceAccounts."""
ROOT_CA: Final = "kube-root-ca.crt"
"""ConfigMap with a cluster's root CA, in every namespace of every cluster."""
TENANT_ROOT_CA: Final = "tenant-kube-root-ca.crt"
"""Name of the tenant's `kube-root-ca.crt` in a super namespace, which has a `kube-root-ca.crt` of its own."""
TENANT_DNS_NAMESPACE: Final = "kube-system"
TENANT_DNS_SERVICE: Final = "kube-dns"
"""The tenant's DNS server: this Service in `kube-system` of the tenant."""

ROLE_SYNCER: Final = "syncer"
ROLE_NSSCHEDULER: Final = "nsscheduler"
ROLE_PODSCHEDULER: Final = "podscheduler"
ROLE_CONTROLLERS: Final = "controllers"
ROLE_TENANTS: Final = "tenants"
ROLES: Final = (ROLE_SYNCER, ROLE_NSSCHEDULER, ROLE_PODSCHEDULER)
"""The processes that talk to Kubernetes; each has a ServiceAccount and credentials of its own."""
META_ROLES: Final = (*ROLES, ROLE_TENANTS)
"""The processes of the pool. The tenant controller has no ServiceAccount in tenants' control planes."""

BOUND_STATUS: Final = "boundstatus"
"""Subresource of Pods in embedded control planes with which a syncer, and nobody else, binds a Pod and writes its status."""
ROLE_STREAMS: Final = "streams"
"""Role of embedded control planes in the meta cluster and in super clusters: logs, exec, attach and port-forward of Pods."""
META_ACCOUNTS: Final = (*META_ROLES, ROLE_STREAMS)
"""All roles with a ServiceAccount in the meta cluster."""

ROLE_GATEWAY: Final = "gateway"
"""Role of embedded control planes in external ones. It is not among `ROLES`: it has no part in the pool."""
TENANT_ADMINS: Final = "vcsync:tenant-admins"
"""Group of a tenant's administrators."""
TENANT_READER: Final = "vcsync:tenant-reader"
"""User as which the gateway reads an external control plane for lists and watches over all tenants."""
TENANT_READERS: Final = "vcsync:tenant-readers"
"""Group of that user."""
READER_ROLE: Final = "vcsync:reader"
"""ClusterRole of that group, and its binding."""
STATUS_READER: Final = "vcsync-status-reader"
"""ClusterRole of the meta cluster that grants `/status` and `/timeline` of the roles' status endpoints..."""
METRICS_READER: Final = "vcsync-metrics-reader"
"""...and the one that grants `/metrics`."""
STATUS_API_VERSION: Final = f"status.{GROUP}/{VERSION}"
"""`apiVersion` of the document at `/status`..."""
STATUS_KIND: Final = "ProcessStatus"
"""...and its `kind`."""
UNREACHABLE: Final = "tenancy.x-k8s.io/unreachable"
"""Annotation of the bookmarks of a watch over all tenants: those whose changes do not arrive now."""

KUBECONFIG_KEY: Final = "kubeconfig"
"""Key of a kubeconfig in a Secret that vcsync made."""
ADMIN_KUBECONFIG_SECRET: Final = "admin-kubeconfig"  # noqa: S105 - a name
"""Secret (and its key) in the root namespace with the tenant's administrator kubeconfig."""
PLACEMENT_WEBHOOK: Final = "vcsync-placement"
"""MutatingWebhookConfiguration in an external control plane that asks the Pod scheduler about new Pods..."""
PLACEMENT_WEBHOOK_NAME: Final = f"placement.{GROUP}"
"""...and the name of the webhook in it."""
PLACEMENT_SECRET: Final = "placement-webhook"  # noqa: S105 - a name
"""Secret in a tenant's root namespace with the token of its calls."""
PLACEMENT_TOKEN_KEY: Final = "token"  # noqa: S105 - a key
PLACEMENT_ADDRESS_KEY: Final = "address"
"""Keys in that Secret: the token, and the HOST:PORT to call."""
PLACEMENT_TLS_SECRET: Final = "placement-webhook-tls"  # noqa: S105 - a name
"""Secret in the meta cluster's system namespace: the certificate of the Pod scheduler for these calls, and its key."""
PLACEMENT_CA_SECRET: Final = "placement-webhook-ca"  # noqa: S105 - a name
"""Secret beside it: the authority that issues the certificate. Only operators read it."""
PLACEMENT_SERVICE: Final = "vcsync-placement-webhook"
"""Service there that leads to the Pod scheduler which leads, and its EndpointSlice."""
PLACEMENT_PATH: Final = "/placement/"
"""Path of the calls, before the token."""

CAPI_KUBECONFIG_KEY: Final = "value"
"""Key of a kubeconfig in a Secret made by Cluster API."""

# --- Lengths and forms --------------------------------------------------------------------------------------

MAX_LABEL_LENGTH: Final = 63
"""Maximum length of a DNS label and hence of a namespace name (RFC 1123; Kubernetes "Object Names and IDs")."""
MAX_SUPER_ID_LENGTH: Final = MAX_LABEL_LENGTH - len("drain-")
"""Maximum length of a super cluster's id: `drain-<id>`, the name part of a finalizer, has at most 63 characters."""
MAX_TENANT_NAME_LENGTH: Final = MAX_LABEL_LENGTH - len(f"{DEFAULT_VC_NAMESPACE}-123456-")
"""Maximum length of a Tenant's name: it is the last part of the cluster key; see `new_cluster_key`."""
MAX_NODE_NAME_LENGTH: Final = 253
"""Maximum length of a Node's name (a DNS subdomain)."""

DNS_LABEL_PATTERN: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""A DNS label of RFC 1123, in syntax that Python and Go's RE2 share. Its length is checked separately."""

_DNS_LABEL = linear(DNS_LABEL_PATTERN.strip("^$"))
_CLUSTER_KEY_HASH_LENGTH = 6
_NAMESPACE_HASH_LENGTH = 5


class InvalidName(ValueError):
    """A name cannot be built from its parts; the message says which part to change."""


def is_dns_label(text: str) -> bool:
    """Report whether `text` is a DNS label: a valid namespace name of at most 63 characters."""
    return len(text) <= MAX_LABEL_LENGTH and _DNS_LABEL.fullmatch(text) is not None


def valid_super_id(text: str) -> bool:
    """Report whether `text` can identify a super cluster: a DNS label that leaves room for the drain finalizer."""
    return len(text) <= MAX_SUPER_ID_LENGTH and is_dns_label(text)


def new_cluster_key(namespace: str, name: str, uid: str) -> str:
    """Return the cluster key (and root namespace) of a VirtualCluster: `<namespace>-<hash of UID>-<name>`.

    The hash is the same as VirtualCluster's: the first 6 hex digits of the UID's SHA-256.

    Raises:
        InvalidName: the key would not be a namespace name (over 63 characters, or a dot in the name).
    """
    digest = hashlib.sha256(uid.encode()).hexdigest()[:_CLUSTER_KEY_HASH_LENGTH]
    key = f"{namespace}-{digest}-{name}"
    if len(key) > MAX_LABEL_LENGTH:
        room = MAX_LABEL_LENGTH - _CLUSTER_KEY_HASH_LENGTH - 2
        raise InvalidName(
            f"VirtualCluster {namespace}/{name}: cluster key {key!r} has {len(key)} characters, "
            f"at most {MAX_LABEL_LENGTH} fit a namespace name: metadata.namespace and metadata.name may have "
            f"{room} together; choose a shorter name"
        )
    if not is_dns_label(key):
        raise InvalidName(
            f"VirtualCluster {namespace}/{name}: cluster key {key!r} is not a namespace name: "
            "metadata.name must be a DNS label (lower case letters, digits and '-')"
        )
    return key


def tenant_of_cluster_key(key: str) -> str:
    """Return the name of the tenant whose VirtualCluster is in the usual namespace and has this cluster key.

    Any other text is returned unchanged.
    """
    begin = f"{DEFAULT_VC_NAMESPACE}-"
    digest, dash, name = key.removeprefix(begin).partition("-")
    usual = key.startswith(begin) and len(digest) == _CLUSTER_KEY_HASH_LENGTH
    return name if usual and dash and set(digest) <= set("0123456789abcdef") else key


def volume_name(claim_uid: str) -> str:
    """Return the name of a tenant's PersistentVolume, by the UID of its claim, as upstream's provisioners name volumes."""
    return f"pvc-{claim_uid}"


def super_namespace(key: str, namespace: str) -> str:
    """Return the name of the super namespace for `namespace` of the tenant with cluster key `key`.

    The name is `<key>-<namespace>`. If that is longer than 63 characters, the name is its first 57 characters, `-`, and the
    first 5 hex digits of its SHA-256. The name is not reversible: annotation `NAMESPACE` holds the tenant's namespace.
    """
    full = f"{key}-{namespace}"
    if len(full) <= MAX_LABEL_LENGTH:
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:_NAMESPACE_HASH_LENGTH]
    return f"{full[: MAX_LABEL_LENGTH - _NAMESPACE_HASH_LENGTH - 1]}-{digest}"


def require_super_id(super_id: str) -> str:
    """Return `super_id` if it is valid.

    Raises:
        InvalidName: it is not valid; the message describes a valid id.
    """
    if not valid_super_id(super_id):
        raise InvalidName(
            f"{super_id!r} cannot identify a super cluster: it must be a DNS label (lower case letters, "
            f"digits and '-') of at most {MAX_SUPER_ID_LENGTH} characters"
        )
    return super_id


def drain_finalizer(super_id: str) -> str:
    """Return the finalizer by which the syncer of `super_id` holds a NamespacePlacement until it has drained it."""
    return DRAIN_FINALIZER_PREFIX + require_super_id(super_id)


def clear_finalizer(super_id: str) -> str:
    """Return the finalizer by which the syncer of `super_id` holds slices that it has to give up while others stay."""
    return CLEAR_FINALIZER_PREFIX + require_super_id(super_id)


def super_id_of_finalizer(finalizer: str) -> str | None:
    """Return the super cluster id in a drain finalizer, or None for any other finalizer."""
    super_id = finalizer.removeprefix(DRAIN_FINALIZER_PREFIX)
    return super_id if super_id != finalizer and valid_super_id(super_id) else None


def placement_label(super_id: str) -> str:
    """Return the key of the label on a tenant Namespace that shows the number of slices on `super_id`."""
    return f"{PLACEMENT_DOMAIN}/{require_super_id(super_id)}"


def virtual_node_name(node: str, super_id: str) -> str:
    """Return the name of the tenant's Node for `node` of super cluster `super_id`.

    The id is part of the name because different clusters have nodes of the same name.

    Raises:
        InvalidName: the name would be too long for a Node, or `super_id` is not valid.
    """
    name = f"{node}.{require_super_id(super_id)}"
    if len(name) > MAX_NODE_NAME_LENGTH:
        raise InvalidName(
            f"virtual node name {name!r} has {len(name)} characters, at most {MAX_NODE_NAME_LENGTH} "
            "are allowed: register the super cluster under a shorter id"
        )
    return name


def split_virtual_node(name: str, super_id: str) -> str | None:
    """Return the super cluster's node behind a tenant's Node, or None if the Node does not belong to `super_id`."""
    node = name.removesuffix(f".{super_id}")
    return node if node and node != name else None


def super_cluster_of_node(name: str) -> str:
    """Return the id of the super cluster that the name of a tenant's Node names, or an empty text if it names none."""
    node, _, super_id = name.rpartition(".")
    return super_id if node and valid_super_id(super_id) else ""


def role_secret(role: str) -> str:
    """Return the name of the Secret in a tenant's root namespace with the kubeconfig of `role` (one of `ROLES`)."""
    return f"kubeconfig-{role}"


def super_secret(super_id: str) -> str:
    """Return the name of the Secret in the system namespace with the kubeconfig of super cluster `super_id`."""
    return f"super-{require_super_id(super_id)}"


def streams_secret(super_id: str) -> str:
    """Return the name of the Secret in the system namespace with which control planes reach Pods of `super_id`."""
    return f"streams-{require_super_id(super_id)}"


def service_account(role: str) -> str:
    """Return the name of the ServiceAccount of `role` (one of `META_ACCOUNTS`) in the system namespace of each cluster."""
    return f"vcsync-{role}"


def syncer_lease(super_id: str, shard: str = "") -> str:
    """Return the name of the Lease of the syncers of `super_id`; each shard `"<i>-<n>"` has a Lease of its own."""
    lease = f"vcsync-syncer-{require_super_id(super_id)}"
    return f"{lease}-{shard}" if shard else lease


def scheduler_lease(role: str) -> str:
    """Return the name of the Lease of the replicas of a scheduler role."""
    return f"vcsync-{role}"
