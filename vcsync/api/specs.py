"""What our API objects say: the spec and status of each, the one declaration of their fields.

Readers decode with these types (`objects`), the CRDs are generated from them (`crd`). Defaults here are the
defaults that the API server fills in. Constraints are checked by the API server when an object is written and
again when it is read; a reader ignores fields that it does not know.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from vcsync.api import names
from vcsync.api.conditions import Condition
from vcsync.api.fields import (
    MAX_RESOURCES,
    MAX_SUPER_CLUSTERS,
    Amounts,
    DnsLabel,
    Host,
    Limit,
    Message,
    ObjectName,
    OptionalDnsLabel,
    OptionalObjectName,
    Overcommit,
    PercentOrQuantity,
    Port,
    PositiveQuantity,
    Quantity,
    Reason,
    Rule,
    SecretKey,
    Slices,
    SlicesBySuper,
    SuperId,
    Time,
    Uid,
    about,
    rules,
)

Permission = Literal["Refuse", "Allow"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Quota = Annotated[dict[str, Quantity], Meta(max_length=MAX_RESOURCES)]
SliceSize = Annotated[
    dict[str, PositiveQuantity],
    Meta(max_length=MAX_RESOURCES),
    rules(
        Rule("'cpu' in self && 'memory' in self", "sliceSize needs both cpu and memory: add the missing one")
    ),
]
MetaPrefixes = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=317)], ...], Meta(max_length=64, extra={"list": "set"})
]
TaintKeys = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=317)], ...], Meta(max_length=64, extra={"list": "set"})
]
Conditions = Annotated[
    tuple[Condition, ...],
    Meta(max_length=32, extra={"list_map_keys": ("type",)}),
    about("The object's state, one entry for each type."),
]


class SecretRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """One key of a Secret in the meta cluster."""

    namespace: Annotated[DnsLabel, about("Namespace of the Secret.")] = names.SYSTEM_NAMESPACE
    name: Annotated[ObjectName, about("Name of the Secret.")]
    key: Annotated[SecretKey, about("Key in the Secret under which the kubeconfig stands.")] = (
        names.KUBECONFIG_KEY
    )


# --- Tenant ---------------------------------------------------------------------------------------


class TenantLimits(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the tenant's clients may ask of the gateway; a limit that is absent is the gateway's own."""

    requests_per_second: Annotated[Limit | None, about("Requests a second, on average.")] = None
    burst: Annotated[Limit | None, about("Requests at once after a pause.")] = None
    concurrent_requests: Annotated[Limit | None, about("Requests in flight, without watches.")] = None
    watches: Annotated[Limit | None, about("Open watches.")] = None


class TenantIsolation(Struct, frozen=True, kw_only=True, rename="camel"):
    """How strongly the tenant's Pods are to be kept apart from others on shared nodes."""

    runtime_class_name: Annotated[
        ObjectName | None, about("RuntimeClass of the super clusters under which the Pods run.")
    ] = None
    pod_security: Annotated[
        Literal["privileged", "baseline", "restricted"] | None,
        about("Pod Security Standard that the tenant's namespaces enforce in the super clusters."),
    ] = None
    node_pool: Annotated[DnsLabel | None, about("Node pool of the super clusters on which the Pods run.")] = (
        None
    )


class EmbeddedControlPlane(Struct, frozen=True):
    """A control plane inside vcsync's own process."""


class ExternalControlPlane(Struct, frozen=True, kw_only=True, rename="camel"):
    """Any kube-apiserver, reached by a kubeconfig."""

    kubeconfig_secret_ref: Annotated[
        SecretRef, about("Where the kubeconfig of the tenant's administrator stands in the meta cluster.")
    ]


class TenantControlPlane(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the tenant's Kubernetes API runs: exactly one of the fields is set."""

    embedded: Annotated[EmbeddedControlPlane | None, about("Inside vcsync's own process.")] = None
    external: Annotated[ExternalControlPlane | None, about("Any kube-apiserver, by its kubeconfig.")] = None
    cluster_version: Annotated[
        ObjectName | None, about("Set up from the ClusterVersion of this name, as VirtualCluster did.")
    ] = None


class TenantSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who may use how much, and how well kept apart."""

    weight: Annotated[
        int,
        Meta(ge=1, le=1000),
        about("Share of the syncers' work under contention, relative to other tenants."),
    ] = 1
    quota: Annotated[
        Quota,
        about("Hard limits over all namespaces together: resources (cpu) and object counts (count/pods)."),
    ] = {}
    limits: Annotated[TenantLimits | None, about("What the tenant's clients may ask of the gateway.")] = None
    isolation: Annotated[
        TenantIsolation | None, about("How the tenant's Pods are kept apart from others.")
    ] = None
    control_plane: Annotated[
        TenantControlPlane | None,
        about("Where the tenant's Kubernetes API runs; without it, inside vcsync's own process."),
        rules(
            Rule(
                "[has(self.embedded), has(self.external), has(self.clusterVersion)].exists_one(x, x)",
                "controlPlane needs exactly one of embedded, external and clusterVersion: remove or add one",
            )
        ),
    ] = None


class TenantStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the tenant is."""

    phase: Annotated[
        Literal["Pending", "Running", "Terminating", "Error"] | None, about("Summary of the conditions.")
    ] = None
    conditions: Conditions = ()
    usage: Annotated[Amounts, about("What the tenant uses of its quota.")] = {}
    endpoint: Annotated[str, Meta(max_length=2048), about("URL of the tenant's Kubernetes API.")] = ""


# --- VirtualCluster -------------------------------------------------------------------------------


class ApiEndpoint(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where Pods find the tenant's Kubernetes API."""

    host: Annotated[Host, about("DNS name or IP address (IPv6 without brackets).")]
    port: Annotated[Port, about("TCP port.")] = 443


class PodPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """What reaches beyond a Pod's own sandbox in a super cluster and is refused unless allowed here."""

    host_network: Annotated[
        Permission, about("spec.hostNetwork, and hosts that kubelets are to call in probes and hooks.")
    ] = "Refuse"
    host_pid: Annotated[Permission, about("spec.hostPID")] = msgspec.field(default="Refuse", name="hostPID")
    host_ipc: Annotated[Permission, about("spec.hostIPC")] = msgspec.field(default="Refuse", name="hostIPC")
    host_path: Annotated[Permission, about("Volumes of type hostPath.")] = "Refuse"
    node_volumes: Annotated[
        Permission,
        about("Volumes that nodes mount with rights of their own: csi, nfs, iscsi, cloud disks, ..."),
    ] = "Refuse"
    host_port: Annotated[Permission, about("Container ports with a hostPort.")] = "Refuse"
    privileged: Annotated[
        Permission, about("Privileged containers and what amounts to it in their securityContext.")
    ] = "Refuse"
    node_name: Annotated[Permission, about("Pods that name their node themselves.")] = "Refuse"
    control_plane_tolerations: Annotated[
        Permission, about("Tolerations for the taints of control plane nodes.")
    ] = "Refuse"
    tolerations: Annotated[
        TaintKeys | None,
        about(
            "Keys of the node taints that Pods may tolerate, besides Kubernetes' own (node.kubernetes.io/...) and those "
            "of control plane nodes; without it any. It keeps nodes for those whom the operator means."
        ),
    ] = None


class ServicePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a Service may ask of a super cluster's network."""

    load_balancer: Annotated[Permission, about("Services of type LoadBalancer.")] = "Allow"
    node_port: Annotated[Permission, about("Services of type NodePort.")] = "Allow"
    load_balancer_ip: Annotated[
        Permission, about("spec.loadBalancerIP: an address of which others may be meant to have it.")
    ] = msgspec.field(default="Refuse", name="loadBalancerIP")


class VirtualClusterSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the syncers and schedulers need to know of a tenant's control plane."""

    tenant: Annotated[DnsLabel | None, about("Name of the Tenant whose control plane this is.")] = None
    weight: Annotated[
        int,
        Meta(ge=1, le=1000),
        about("Share of the syncers' work under contention, relative to other tenants."),
    ] = 1
    cluster_domain: Annotated[
        OptionalObjectName, about("DNS domain of the tenant, for example cluster.local.")
    ] = ""
    opaque_meta_prefixes: Annotated[
        MetaPrefixes, about("Prefixes of label and annotation keys that do not go down to super clusters.")
    ] = ()
    transparent_meta_prefixes: Annotated[
        MetaPrefixes,
        about("Prefixes of label and annotation keys that a super cluster may set and that come up."),
    ] = ()
    api_endpoint: Annotated[
        ApiEndpoint | None,
        about(
            "Where Pods find the tenant's Kubernetes API; without it, the server of the tenant's kubeconfig."
        ),
    ] = None
    default_quota: Annotated[
        Quota,
        about("Quota of a namespace that has no ResourceQuota; without it such a namespace is not placed."),
    ] = {}
    quota: Annotated[
        Quota,
        about(
            "The operator's cap on the slices of all namespaces together, whatever the tenant asks for: cpu, "
            "memory, and pods, which follow from the two if they are not named."
        ),
    ] = {}
    slice_size: Annotated[
        SliceSize | None,
        about(
            "Size of a slice in namespaces without an annotation that says otherwise: cpu and memory. It may also "
            "name pods, services, services.loadbalancers, services.nodeports, configmaps and secrets, how many go "
            "with them, and object-bytes, how many bytes all objects may take; slices of another size have as many "
            "in proportion."
        ),
    ] = None
    pod_policy: Annotated[PodPolicy, about("What tenant Pods may ask of super clusters' nodes.")] = (
        PodPolicy()
    )
    service_policy: Annotated[
        ServicePolicy, about("What the tenant's Services may ask of super clusters' networks.")
    ] = ServicePolicy()
    priority_classes: Annotated[
        dict[str, ObjectName],
        Meta(max_length=64),
        about(
            "PriorityClass of the super clusters for each PriorityClass of the tenant; others are dropped."
        ),
    ] = {}
    heartbeat_seconds: Annotated[
        int,
        Meta(ge=5, le=3600),
        about("How often the Leases of the tenant's virtual nodes are renewed, in seconds."),
    ] = 20
    virtual_node_linger_seconds: Annotated[
        int, Meta(ge=0, le=86400), about("How long a virtual node stays without Pods, in seconds.")
    ] = 120
    cluster_version_name: Annotated[
        OptionalObjectName, about("ClusterVersion from which VirtualCluster sets the control plane up.")
    ] = ""
    pki_expire_days: Annotated[int | None, about("Field of VirtualCluster; kept, not used.")] = None
    service_cidr: Annotated[str, Meta(max_length=128), about("Field of VirtualCluster; kept, not used.")] = ""


class VirtualClusterCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition of a VirtualCluster: those which VirtualCluster wrote have no type."""

    type: Annotated[str, Meta(max_length=316), about("What the condition speaks of.")] = ""
    status: Annotated[str, Meta(max_length=64), about("Whether it holds: True, False or Unknown.")] = ""
    reason: Annotated[str, Meta(max_length=1024), about("Why, for programs.")] = ""
    message: Annotated[Message, about("Why, for people.")] = ""
    last_transition_time: Annotated[Time | None, about("When it last changed.")] = None


class VirtualClusterStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the control plane is."""

    phase: Annotated[
        Literal["Pending", "Running", "Updating", "Error"] | None, about("Summary: only Running is synced.")
    ] = None
    cluster_namespace: Annotated[
        OptionalDnsLabel,
        about("The tenant's cluster key and root namespace, once decided."),
        rules(
            Rule(
                "oldSelf == '' || self == oldSelf",
                "status.clusterNamespace names all that the tenant has and cannot change: "
                "make a new VirtualCluster",
            )
        ),
    ] = ""
    message: Annotated[Message, about("The last transition, for people.")] = ""
    reason: Annotated[Reason, about("The last transition, for programs.")] = ""
    conditions: Annotated[
        tuple[VirtualClusterCondition, ...], Meta(max_length=64), about("The control plane's state.")
    ] = ()


# --- SuperCluster ---------------------------------------------------------------------------------


class Taint(Struct, frozen=True, kw_only=True, rename="camel"):
    """What keeps namespaces away from a super cluster unless they tolerate it."""

    key: Annotated[str, Meta(min_length=1, max_length=316), about("Key of the taint.")]
    value: Annotated[str, Meta(max_length=63), about("Value of the taint.")] = ""
    effect: Annotated[
        TaintEffect,
        about(
            "NoSchedule: no new slices. PreferNoSchedule: only where nothing else is. NoExecute: all leave."
        ),
    ]


DEFAULT_EVICTION_SECONDS: Final = 3600
"""How long Pods that lose their place wait for PodDisruptionBudgets: a tenant may write one that never allows anything."""


class SuperClusterSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """A cluster of the pool, as its operator wants it used."""

    id: Annotated[SuperId, about("Identity of the super cluster in labels, placements and node names.")]
    kubeconfig_secret_ref: Annotated[
        SecretRef | None,
        about(
            "Where its kubeconfig stands; without it, Secret super-<id>, key kubeconfig, in vcsync-system."
        ),
    ] = None
    headroom: Annotated[
        dict[str, PercentOrQuantity],
        Meta(max_length=MAX_RESOURCES),
        about("What is kept free, by resource: a percentage of what is allocatable, or an amount."),
    ] = {}
    overcommit: Annotated[
        dict[str, Overcommit],
        Meta(max_length=MAX_RESOURCES),
        about(
            "How much of what headroom leaves is dealt out in slices, by resource: 200% deals it twice, "
            "trusting that not all is used at once. Without it 100%."
        ),
    ] = {}
    taints: Annotated[
        tuple[Taint, ...],
        Meta(max_length=32, extra={"list_map_keys": ("key", "effect")}),
        about("What keeps namespaces away that do not tolerate it."),
    ] = ()
    cordoned: Annotated[bool, about("True: no new slices come here; those that are here stay.")] = False
    drain: Annotated[bool, about("True: no new slices come here and those that are here move away.")] = False
    eviction_seconds: Annotated[
        int,
        Meta(ge=0, le=7 * 24 * 3600),
        about(
            "How many seconds Pods that lose their place here wait for their tenants' PodDisruptionBudgets, "
            "counted from the first that had to; 0: not at all."
        ),
    ] = DEFAULT_EVICTION_SECONDS
    prices: Annotated[
        dict[str, Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$", max_length=32)]],
        Meta(max_length=MAX_RESOURCES),
        about("Price of one unit (a CPU, a GiB) for an hour, by resource, as a decimal number in quotes."),
    ] = {}


class NodeCounts(Struct, frozen=True, kw_only=True):
    """Nodes of a super cluster."""

    ready: Annotated[int, Meta(ge=0), about("Nodes that are ready and not cordoned.")] = 0
    total: Annotated[int, Meta(ge=0), about("All nodes.")] = 0


class SuperClusterStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the super cluster has and how it is; written by its syncer."""

    allocatable: Annotated[Amounts, about("What Pods can use on its ready nodes, by resource.")] = {}
    allocated: Annotated[Amounts, about("What is dealt out there in slices.")] = {}
    free: Annotated[Amounts, about("What is left.")] = {}
    largest_node: Annotated[Amounts, about("What the largest node offers: no single Pod can have more.")] = {}
    nodes: Annotated[NodeCounts, about("Its nodes.")] = NodeCounts()
    conditions: Conditions = ()
    heartbeat_time: Annotated[Time | None, about("When its syncer last spoke.")] = None
    syncer_identity: Annotated[str, Meta(max_length=253), about("The syncer that leads.")] = ""
    version: Annotated[str, Meta(max_length=64), about("Its Kubernetes version.")] = ""


# --- NamespacePlacement ---------------------------------------------------------------------------


class VirtualClusterRef(Struct, frozen=True, kw_only=True):
    """The VirtualCluster a ledger entry belongs to."""

    namespace: Annotated[DnsLabel, about("Its namespace.")]
    name: Annotated[ObjectName, about("Its name.")]
    uid: Annotated[Uid, about("Its UID.")]


class NamespacePlacementSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many slices of which size one namespace of a tenant needs."""

    virtual_cluster: Annotated[VirtualClusterRef, about("The tenant's VirtualCluster.")]
    tenant: Annotated[DnsLabel, about("The tenant's cluster key.")]
    namespace: Annotated[DnsLabel, about("The tenant's namespace.")]
    namespace_uid: Annotated[Uid, about("UID of the tenant's namespace.")] = msgspec.field(
        name="namespaceUID"
    )
    quota: Annotated[Quota, about("What the namespace may use, by resource.")] = {}
    slice_size: Annotated[Quota, about("What one slice holds, by resource.")] = {}
    slices: Annotated[Slices, about("Number of slices that hold the quota.")] = 0
    pins: Annotated[
        SlicesBySuper,
        about("Slices that are to be on a super cluster whatever the scheduler thinks, by its id."),
    ] = {}


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why slices are, or are not, on one super cluster."""

    super_cluster: Annotated[SuperId, about("Id of the super cluster.")]
    slices: Annotated[Slices, about("Slices placed there.")] = 0
    refused_by: Annotated[
        tuple[Annotated[str, Meta(max_length=253)], ...],
        Meta(max_length=32),
        about("Filters that refused it."),
    ] = ()
    score: Annotated[int, about("Its score; higher was better.")] = 0
    reason: Annotated[str, Meta(max_length=1024), about("The same for people.")] = ""


class NamespacePlacementStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the slices are: the truth that every syncer follows."""

    placements: Annotated[SlicesBySuper, about("Slices on each super cluster, by its id.")] = {}
    slice_size: Annotated[
        Quota, about("What one slice of these placements holds, by resource; empty: what spec says.")
    ] = {}
    clearing: Annotated[
        dict[SuperId, Annotated[Quota, about("Amounts, by resource.")]],
        Meta(max_length=MAX_SUPER_CLUSTERS),
        about(
            "What a super cluster may still hold beyond its slices, by its id, until its syncer has cleared it."
        ),
    ] = {}
    waiting: Annotated[Slices, about("Slices for which there is no place yet.")] = 0
    explanation: Annotated[
        tuple[Explanation, ...],
        Meta(max_length=MAX_SUPER_CLUSTERS),
        about("Why, one entry for each super cluster."),
    ] = ()
    conditions: Conditions = ()
