"""Spec and status of vcsync's own API objects. No other module declares their fields, except `policy_specs`.

`objects` decodes with these types, and `crd` generates the CRDs from them. The API server fills in the defaults that
are declared here. The API server checks constraints when an object is written, and vcsync checks them again when it
reads the object. A reader ignores unknown fields.
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
    AnnotationPattern,
    BalancerClass,
    DnsLabel,
    Host,
    HostPattern,
    ImagePrefix,
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
    RequestLimit,
    Rule,
    SecretKey,
    Slices,
    SlicesBySuper,
    SuperId,
    SysctlPattern,
    Time,
    Uid,
    about,
    rules,
)
from vcsync.api.networks import NetworkSpec

Permission = Literal["Refuse", "Allow"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Quota = Annotated[dict[str, Quantity], Meta(max_length=MAX_RESOURCES)]
SLICED: Final = ("cpu", "memory", "pods")
"""Resources that slices divide. Caps and headroom may name them."""
NAMESPACE_QUOTA: Final = ("cpu", "memory")
"""Resources that decide how many slices a namespace gets."""
SLICE_RESOURCES: Final = (
    *SLICED,
    "configmaps",
    "count/resourceclaims.resource.k8s.io",
    "count/volumesnapshots.snapshot.storage.k8s.io",
    "devices",
    "object-bytes",
    "persistentvolumeclaims",
    "requests.storage",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
"""Resources that a slice may name."""
MAX_PUBLISHED: Final = 100
"""Largest number of classes of one kind that one super cluster publishes."""
MAX_BLOCKED: Final = 20
"""Maximum number of namespaces in the progress of a drain that are named as blocked."""
MAX_DEFINITIONS: Final = 20
"""Largest number of CustomResourceDefinitions that one super cluster publishes."""


def _takes(field: str, known: tuple[str, ...]) -> Rule:
    """Return a rule against unknown resource names: a misspelt name would silently remove a limit."""
    return Rule(
        f"self.all(name, name in [{', '.join(map(repr, known))}])",
        f"spec.{field} takes {', '.join(known)} only: correct or remove other names",
    )


def _no_runtime_keys(field: str) -> Meta:
    """Return a rule against keys that are never copied, as it would seem that they are."""
    rule = "self.all(key, !key.startsWith('io.') || key.contains('/'))"
    message = (
        f"spec.{field} takes no key without a slash that begins with io., since these configure container runtimes and are never "
        "copied: remove it"
    )
    return rules(Rule(rule, message))


SliceSize = Annotated[
    dict[str, PositiveQuantity],
    Meta(max_length=MAX_RESOURCES),
    rules(
        Rule("'cpu' in self && 'memory' in self", "sliceSize needs both cpu and memory: add the missing one"),
        _takes("sliceSize", SLICE_RESOURCES),
    ),
]
LossPolicy = Literal["Stay", "MoveAfter", "MoveStateless"]
DEFAULT_MOVE_SECONDS: Final = 300
"""Seconds for which a super cluster is lost before anything moves, where a policy that moves does not say."""


FailBack = Literal["Never", "WithinBudget", "NextRebalance"]
"""Policies for the way back of slices that have left a lost super cluster."""


PodReplacementPolicy = Literal["TerminationComplete", "TerminationStarted"]
"""Policies for the time at which a Pod is replaced that may have started; named as those of Deployments in KEP-3973."""


class Failover(Struct, frozen=True, kw_only=True, rename="camel"):
    """The policy for a tenant's slices and Pods on a super cluster that is lost."""

    policy: Annotated[
        LossPolicy,
        about(
            "Stay: slices and Pods wait for the super cluster. MoveAfter: they move to other super clusters. MoveStateless: the "
            "same without Pods that use PersistentVolumeClaims and the slices that these need, which wait."
        ),
    ]
    after_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=30 * 24 * 3600)] | None,
        about(
            f"Seconds for which the super cluster has to be lost before they move. Default: {DEFAULT_MOVE_SECONDS}. Stay "
            "ignores it."
        ),
    ] = None


STAY: Final = Failover(policy="Stay")
"""The policy of tenants for which nothing is set."""


MetaPrefixes = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=317)], ...], Meta(max_length=64, extra={"list": "set"})
]
TaintKeys = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=317)], ...], Meta(max_length=64, extra={"list": "set"})
]
AnnotationPatterns = Annotated[tuple[AnnotationPattern, ...], Meta(max_length=64)]
Conditions = Annotated[
    tuple[Condition, ...],
    Meta(max_length=32, extra={"list_map_keys": ("type",)}),
    about("The object's state, one entry for each type."),
]


class SecretRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """One key of a Secret in the meta cluster."""

    namespace: Annotated[DnsLabel, about("Namespace of the Secret.")] = names.SYSTEM_NAMESPACE
    name: Annotated[ObjectName, about("Name of the Secret.")]
    key: Annotated[SecretKey, about("Key of the Secret that holds the kubeconfig.")] = names.KUBECONFIG_KEY


# --- Tenant ---------------------------------------------------------------------------------------


class RequestLimits(Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits of requests. The control plane's default applies where a field is absent. 0: no limit."""

    reads_per_second: Annotated[
        RequestLimit | None, about("Average number of reads (GET, HEAD and OPTIONS) per second. 0: no limit.")
    ] = None
    read_burst: Annotated[
        RequestLimit | None,
        about("Number of reads that may come at once after a pause. Default: those of two seconds."),
    ] = None
    writes_per_second: Annotated[
        RequestLimit | None, about("Average number of other requests per second. 0: no limit.")
    ] = None
    write_burst: Annotated[
        RequestLimit | None,
        about("Number of writes that may come at once after a pause. Default: those of two seconds."),
    ] = None
    concurrent_requests: Annotated[
        RequestLimit | None,
        about("Maximum number of requests at the same time, including logs and exec, not counting watches."),
    ] = None
    watches: Annotated[RequestLimit | None, about("Maximum number of open watches. 0: no limit.")] = None
    bytes_per_second: Annotated[
        Quantity | None,
        about("Average number of bytes of requests and answers per second, such as 10Mi. 0: no limit."),
    ] = None


class TenantLimits(RequestLimits, frozen=True, kw_only=True, rename="camel"):
    """Limits of the requests of a tenant as a whole, and of each of its users."""

    user: Annotated[RequestLimits | None, about("Limits of each user of the tenant.")] = None


class TenantIsolation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Isolation of the tenant's Pods from those of other tenants on shared nodes."""

    runtime_class_name: Annotated[
        ObjectName | None, about("RuntimeClass of the super clusters that the Pods use.")
    ] = None
    pod_security: Annotated[
        Literal["privileged", "baseline", "restricted"] | None,
        about("Pod Security Standard that the tenant's namespaces enforce in the super clusters."),
    ] = None
    node_pool: Annotated[DnsLabel | None, about("Node pool of the super clusters that the Pods run on.")] = (
        None
    )


class EmbeddedControlPlane(Struct, frozen=True):
    """A control plane inside vcsync's own process."""


class TenantSecretRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """Reference to one key of a Secret in the meta cluster that the tenant controller can read."""

    namespace: Annotated[
        DnsLabel,
        about("Namespace of the Secret. In another one, let the ServiceAccount vcsync-tenants get it."),
    ] = names.DEFAULT_VC_NAMESPACE
    name: Annotated[ObjectName, about("Name of the Secret.")]
    key: Annotated[SecretKey, about("Key of the kubeconfig in the Secret.")] = names.KUBECONFIG_KEY


class ExternalControlPlane(Struct, frozen=True, kw_only=True, rename="camel"):
    """A kube-apiserver that vcsync reaches by a kubeconfig."""

    kubeconfig_secret_ref: Annotated[
        TenantSecretRef,
        about("Secret of the meta cluster that holds the kubeconfig of the tenant's administrator."),
    ]


class TenantControlPlane(Struct, frozen=True, kw_only=True, rename="camel"):
    """Location of the tenant's Kubernetes API. Exactly one of the fields is set."""

    embedded: Annotated[
        EmbeddedControlPlane | None, about("A control plane inside vcsync's own process.")
    ] = None
    external: Annotated[ExternalControlPlane | None, about("A kube-apiserver, reached by a kubeconfig.")] = (
        None
    )
    cluster_version: Annotated[
        ObjectName | None,
        about("Name of the ClusterVersion to set the control plane up from, as in VirtualCluster."),
    ] = None


TENANT_QUOTA_NAMES: Final = (
    *("cpu", "memory", "ephemeral-storage", "bytes", "configmaps", "customresourcedefinitions", "namespaces"),
    *("limits.cpu", "limits.memory", "limits.ephemeral-storage", "persistentvolumeclaims", "pods"),
    *("replicationcontrollers", "resourcequotas", "secrets", "services", "services.loadbalancers"),
    *("services.nodeports", "webhookconfigurations"),
)
"""Names that a tenant's quota may limit, besides those with a prefix or suffix of `TENANT_QUOTA_RULE`."""
TENANT_QUOTA_RULE: Final = Rule(
    f"self.all(name, name in [{', '.join(map(repr, TENANT_QUOTA_NAMES))}] || name.startsWith('count/') || "
    "name.startsWith('requests.') || name.startsWith('hugepages-') || "
    "name.endsWith('.storageclass.storage.k8s.io/requests.storage') || "
    "name.endsWith('.storageclass.storage.k8s.io/persistentvolumeclaims') || "
    "name.endsWith('.deviceclass.resource.k8s.io/devices'))",
    "spec.resourceQuota.hard takes the names of a ResourceQuota, count/RESOURCE.GROUP of every resource, bytes, "
    "customresourcedefinitions, namespaces and webhookconfigurations: correct or remove other names",
)


class TenantResourceQuota(Struct, frozen=True, kw_only=True, rename="camel"):
    """A quota over all namespaces of a tenant and its objects without a namespace."""

    hard: Annotated[
        Quota,
        rules(TENANT_QUOTA_RULE),
        about("Limits by resource name, as in a ResourceQuota."),
    ] = {}


class TenantResourceQuotaStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Usage of a tenant's quota."""

    hard: Annotated[Amounts, about("Limits that are enforced, by resource name.")] = {}
    used: Annotated[Amounts, about("Amounts that the tenant uses of them.")] = {}
    free: Annotated[Amounts, about("Amounts that are left of them.")] = {}
    fullest: Annotated[
        str, Meta(max_length=512), about("The resource of which the largest share is used: NAME: USED/LIMIT.")
    ] = ""


class TenantSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Share, quota, limits and isolation of a tenant. No field has a default, so that what is absent is known."""

    weight: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        about(
            "Share of the syncers' and the API server's work under contention, relative to other tenants, from 1 to 1000. "
            "A tenant for which nothing is set has 1."
        ),
    ] = None
    quota: Annotated[
        Quota,
        rules(_takes("quota", SLICED)),
        about(
            "Maximum for the slices of all namespaces together, whatever the tenant asks for: cpu, memory and pods."
        ),
    ] = {}
    default_quota: Annotated[
        Quota,
        rules(_takes("defaultQuota", NAMESPACE_QUOTA)),
        about("Quota of namespaces without a ResourceQuota. Without it, such namespaces are not placed."),
    ] = {}
    slice_size: Annotated[
        SliceSize | None,
        about("Size of a slice in namespaces without an annotation that sets another size."),
    ] = None
    limits: Annotated[TenantLimits | None, about("Limits of the requests of the tenant's clients.")] = None
    resource_quota: Annotated[
        TenantResourceQuota | None,
        about(
            "Quota over all namespaces of the tenant together, which its control plane enforces when objects are written. "
            "Only for embedded control planes."
        ),
    ] = None
    isolation: Annotated[
        TenantIsolation | None, about("Isolation of the tenant's Pods from those of other tenants.")
    ] = None
    failover: Annotated[
        Failover | None,
        about(
            "What happens to the tenant's slices and Pods on a lost super cluster. Default: the schedulers' option --failover."
        ),
    ] = None
    fail_back: Annotated[
        FailBack | None,
        about(
            "When slices that have left a lost super cluster go back to it after its return, where that does not make the pool "
            "worse. Never. WithinBudget: at once, a budget of slices at a time. NextRebalance: with the next rebalance. Default: "
            "the namespace scheduler's option --fail-back."
        ),
    ] = None
    pod_replacement_policy: Annotated[
        PodReplacementPolicy | None,
        about(
            "When a Pod without a node is replaced whose super cluster is not heard from and may have started it. "
            "TerminationComplete: once it is known that it does not run there. TerminationStarted: at once, if its name is "
            "generated, it uses no PersistentVolumeClaims, and it cannot stay there or there is room elsewhere; it may then run "
            "beside its replacement, which has another name and UID. Default: TerminationComplete."
        ),
    ] = None


DEFAULT_WEIGHT: Final = 1
"""Weight of a tenant for which neither its Tenant nor its template sets one."""


class TenantTemplateSpec(TenantSettings, frozen=True, kw_only=True, rename="camel"):
    """Settings of every tenant whose Tenant names the template. What a Tenant sets itself wins, field by field."""


class AppliedTemplate(Struct, frozen=True, kw_only=True, rename="camel"):
    """The TenantTemplate whose settings a tenant has, as it was when they were applied."""

    name: Annotated[ObjectName, about("Name of the TenantTemplate.")]
    uid: Annotated[Uid, about("UID of the TenantTemplate.")] = ""
    generation: Annotated[int, Meta(ge=0), about("Its metadata.generation when it was applied.")] = 0
    settings: Annotated[
        TenantSettings, about("Its spec when it was applied. The tenant keeps it if the template is deleted.")
    ] = TenantSettings()


class TenantSpec(TenantSettings, frozen=True, kw_only=True, rename="camel"):
    """Desired state of a tenant. Fields that are absent are taken from the template, if there is one."""

    template: Annotated[
        ObjectName | None,
        about("Name of the TenantTemplate that sets the fields which are absent here."),
    ] = None
    control_plane: Annotated[
        TenantControlPlane | None,
        about(
            "Location of the tenant's Kubernetes API. Default: inside vcsync's own process, unless a command registered the "
            "tenant. It cannot change once it is set."
        ),
        rules(
            Rule(
                "[has(self.embedded), has(self.external), has(self.clusterVersion)].exists_one(x, x)",
                "controlPlane needs exactly one of embedded, external and clusterVersion: remove or add one",
            )
        ),
    ] = None
    suspended: Annotated[
        bool,
        about("If true, the tenant's users can only read its Kubernetes API, and its Pods are removed."),
    ] = False
    network: Annotated[
        NetworkSpec | None,
        about(
            "The network default of an embedded control plane, when that is made. Default: type Flat. It cannot change."
        ),
        rules(
            Rule(
                "(self.type == 'VPC') == has(self.vpcID)",
                "spec.network.vpcID is required with type VPC, and refused otherwise: add or remove it",
            )
        ),
    ] = None


class TenantStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Observed state of the tenant."""

    phase: Annotated[
        Literal["Pending", "Running", "Suspending", "Suspended", "Terminating", "Error"] | None,
        about("Summary of the conditions."),
    ] = None
    conditions: Conditions = ()
    usage: Annotated[Amounts, about("Amounts of its quota that the tenant uses.")] = {}
    resource_quota: Annotated[
        TenantResourceQuotaStatus | None, about("Usage of spec.resourceQuota. It is read every ten seconds.")
    ] = None
    endpoint: Annotated[str, Meta(max_length=2048), about("URL of the tenant's Kubernetes API.")] = ""
    observed_generation: Annotated[
        int, Meta(ge=0), about("The metadata.generation that the conditions are about.")
    ] = 0
    control_plane: Annotated[
        Literal["Embedded", "External", "Registered"] | None,
        about(
            "Kind of the control plane. Registered: a command registered it, and this object does not manage it."
        ),
    ] = None
    control_plane_uid: Annotated[
        Uid,
        about(
            "Identity of the control plane: the UID of the embedded one, or that of kube-system in an external one. "
            "Another control plane is never taken for the tenant's."
        ),
        rules(
            Rule(
                "oldSelf == '' || self == oldSelf",
                "status.controlPlaneUID cannot change: delete the Tenant and make a new one for another control plane",
            )
        ),
    ] = msgspec.field(name="controlPlaneUID", default="")
    cluster_namespace: Annotated[
        OptionalDnsLabel, about("The tenant's root namespace in the meta cluster.")
    ] = ""
    limits: Annotated[
        TenantLimits | None,
        about("Limits of requests in force, with the defaults of the control plane. Absent: there are none."),
    ] = None
    weight: Annotated[int | None, about("The weight in force.")] = None
    template: Annotated[
        AppliedTemplate | None, about("The TenantTemplate that was applied last. Absent: none is.")
    ] = None


# --- VirtualCluster -------------------------------------------------------------------------------


class ApiEndpoint(Struct, frozen=True, kw_only=True, rename="camel"):
    """Address of the tenant's Kubernetes API for its Pods."""

    host: Annotated[Host, about("DNS name or IP address (IPv6 without brackets).")]
    port: Annotated[Port, about("TCP port.")] = 443


class PodPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Permissions for fields that reach beyond a Pod's own sandbox in a super cluster. The default is to refuse."""

    host_network: Annotated[
        Permission, about("spec.hostNetwork, and the host field of probes and lifecycle hooks.")
    ] = "Refuse"
    host_pid: Annotated[Permission, about("spec.hostPID.")] = msgspec.field(default="Refuse", name="hostPID")
    host_ipc: Annotated[Permission, about("spec.hostIPC.")] = msgspec.field(default="Refuse", name="hostIPC")
    host_path: Annotated[Permission, about("Volumes of type hostPath.")] = "Refuse"
    node_volumes: Annotated[
        Permission,
        about("Volumes that nodes mount with their own permissions: csi, nfs, iscsi, cloud disks, ..."),
    ] = "Refuse"
    host_port: Annotated[Permission, about("Container ports with a hostPort.")] = "Refuse"
    privileged: Annotated[
        Permission, about("Privileged containers, and equivalent settings of their securityContext.")
    ] = "Refuse"
    node_name: Annotated[Permission, about("Pods that set spec.nodeName themselves.")] = "Refuse"
    control_plane_tolerations: Annotated[
        Permission, about("Tolerations for the taints of control plane nodes.")
    ] = "Refuse"
    tolerations: Annotated[
        TaintKeys | None,
        about(
            "Keys of the taints of nodes and devices that Pods and ResourceClaims may tolerate, in addition to Kubernetes' own "
            "(node.kubernetes.io/...) and those of control plane nodes. If it is absent, they may tolerate any taint. Use it to "
            "reserve nodes and devices."
        ),
    ] = None
    image_registries: Annotated[
        tuple[ImagePrefix, ...],
        Meta(max_length=64),
        about(
            "Registries that images of Pods may come from, with or without the beginning of a path: registry.example.com/team. "
            "Empty: any registry."
        ),
    ] = ()
    image_pull: Annotated[
        Literal["AsWritten", "Always"],
        about(
            "Always: containers and image volumes have the pull policy Always in super clusters, so that a registry checks the "
            "Pod's credentials at each start. AsWritten: they have the tenant's, and the kubelet decides who may use an image "
            "that a node has (imagePullCredentialsVerificationPolicy). Use Always with kubelets before 1.35."
        ),
    ] = "AsWritten"
    limits: Annotated[
        Literal["Slices", "AsWritten"],
        about(
            "Slices: a container may use at most as much CPU and memory as its namespace's slices on the super cluster have, or "
            "2 CPUs and 4Gi if that is more: it gets this limit there if it has none or a larger one. AsWritten: containers have "
            "the limits that the tenant writes, and those without may use the whole node."
        ),
    ] = "Slices"
    sysctls: Annotated[
        tuple[SysctlPattern, ...],
        Meta(max_length=64),
        about(
            "Sysctls that Pods may set in addition to those of Pod Security Standard baseline: names, or beginnings of names "
            "followed by *. The kubelets must allow them, too."
        ),
    ] = ()
    annotations: Annotated[
        AnnotationPatterns,
        _no_runtime_keys("podPolicy.annotations"),
        about(
            "Annotations that are copied to super clusters: keys, or beginnings of keys followed by *, of Pods, and of their "
            "Namespaces, ServiceAccounts, ConfigMaps, Secrets and PodDisruptionBudgets. Controllers, networks and runtimes there "
            "obey them. Empty: none."
        ),
    ] = ()
    labels: Annotated[
        AnnotationPatterns,
        _no_runtime_keys("podPolicy.labels"),
        about(
            "Labels of the same objects that keep their keys although programs are known to obey them, in the same form. Empty: "
            "none."
        ),
    ] = ()


class ServicePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Permissions of Services for a super cluster's network."""

    load_balancer: Annotated[Permission, about("Services of type LoadBalancer.")] = "Allow"
    node_port: Annotated[Permission, about("Services of type NodePort.")] = "Allow"
    load_balancer_ip: Annotated[
        Permission, about("spec.loadBalancerIP. The address may belong to somebody else.")
    ] = msgspec.field(default="Refuse", name="loadBalancerIP")
    load_balancer_classes: Annotated[
        tuple[BalancerClass, ...],
        Meta(max_length=64),
        about(
            "Classes that spec.loadBalancerClass may name. Others may be meant for the operator's own Services. Empty: none; "
            "Services without a class use the default load balancer."
        ),
    ] = ()
    external_backends: Annotated[
        Permission,
        about(
            "Services of type LoadBalancer or NodePort without selector. They lead traffic from outside to any address that "
            "the tenant writes into Endpoints and EndpointSlices."
        ),
    ] = "Refuse"
    annotations: Annotated[
        AnnotationPatterns,
        _no_runtime_keys("servicePolicy.annotations"),
        about(
            "Annotations that are copied to super clusters: keys, or beginnings of keys followed by *, of Services, Endpoints, "
            "EndpointSlices and NetworkPolicies. Load balancers and networks there obey them. Empty: none."
        ),
    ] = ()
    labels: Annotated[
        AnnotationPatterns,
        _no_runtime_keys("servicePolicy.labels"),
        about(
            "Labels of the same objects, and of Ingresses, that keep their keys although programs are known to obey them, in the "
            "same form. Empty: none."
        ),
    ] = ()


class IngressPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Permissions of Ingresses for the ingress controllers of super clusters, which all tenants share."""

    annotations: Annotated[
        AnnotationPatterns,
        about(
            "Annotations of Ingresses that are copied to super clusters: keys, or beginnings of keys followed by *. They "
            "configure the ingress controllers, and some of them insert text into their configuration. Empty: none."
        ),
    ] = ()
    hosts: Annotated[
        tuple[HostPattern, ...],
        Meta(max_length=64),
        about(
            "Hosts that Ingresses may use: names, or *.name for all names below one. {tenant} stands for the name of the "
            "tenant, as in *.{tenant}.apps.example.com. Empty: any host that nobody else uses."
        ),
    ] = ()
    catch_all: Annotated[
        Permission,
        about(
            "Rules without host, spec.defaultBackend, and spec.tls without hosts: they apply to everybody's requests."
        ),
    ] = "Refuse"
    external_backends: Annotated[
        Permission,
        about(
            "Backends that are no Pods of the tenant: Services of type ExternalName or without selector. Ingress controllers "
            "would connect to any address that the tenant chooses."
        ),
    ] = "Refuse"


class VirtualClusterSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of a tenant's control plane that syncers and schedulers read."""

    tenant: Annotated[DnsLabel | None, about("Name of the Tenant whose control plane this is.")] = None
    weight: Annotated[
        int,
        Meta(ge=1, le=1000),
        about("Share of the syncers' work under contention, relative to other tenants."),
    ] = 1
    cluster_domain: Annotated[
        OptionalObjectName, about("DNS domain of the tenant's cluster, for example cluster.local.")
    ] = ""
    opaque_meta_prefixes: Annotated[
        MetaPrefixes, about("Prefixes of label and annotation keys that are not copied to super clusters.")
    ] = ()
    transparent_meta_prefixes: Annotated[
        MetaPrefixes,
        about(
            "Prefixes of label and annotation keys that super clusters may set and that are copied to the tenant."
        ),
    ] = ()
    api_endpoint: Annotated[
        ApiEndpoint | None,
        about(
            "Address of the tenant's Kubernetes API for its Pods. Default: the server of the tenant's kubeconfig."
        ),
    ] = None
    default_quota: Annotated[
        Quota,
        rules(_takes("defaultQuota", NAMESPACE_QUOTA)),
        about(
            "Quota of a namespace without a ResourceQuota. If it is absent, such a namespace is not placed."
        ),
    ] = {}
    quota: Annotated[
        Quota,
        rules(_takes("quota", SLICED)),
        about(
            "The operator's cap on the slices of all namespaces together, regardless of the tenant's own quotas: cpu, "
            "memory and pods. If pods is absent, it follows from cpu and memory."
        ),
    ] = {}
    slice_size: Annotated[
        SliceSize | None,
        about(
            "Size of a slice: cpu and memory. A namespace's annotation overrides it. It may also name counts (pods, "
            "services, services.loadbalancers, services.nodeports, configmaps, secrets, persistentvolumeclaims, "
            "count/resourceclaims.resource.k8s.io, count/volumesnapshots.snapshot.storage.k8s.io), "
            "devices, the number of devices of each DeviceClass, "
            "requests.storage, the bytes that claims to volumes request, and object-bytes, the number of bytes of all objects. "
            "Slices of another size get these in proportion."
        ),
    ] = None
    pod_policy: Annotated[PodPolicy, about("Permissions of tenant Pods on super clusters' nodes.")] = (
        PodPolicy()
    )
    service_policy: Annotated[
        ServicePolicy, about("Permissions of the tenant's Services for super clusters' networks.")
    ] = ServicePolicy()
    ingress_policy: Annotated[
        IngressPolicy, about("Permissions of the tenant's Ingresses for super clusters' ingress controllers.")
    ] = IngressPolicy()
    priority_classes: Annotated[
        dict[str, ObjectName],
        Meta(max_length=64),
        about(
            "PriorityClass of the super clusters for each PriorityClass of the tenant. Pods lose any other class, unless "
            "their super cluster publishes it."
        ),
    ] = {}
    heartbeat_seconds: Annotated[
        int,
        Meta(ge=5, le=3600),
        about("Interval of renewals of the Leases of the tenant's virtual nodes, in seconds."),
    ] = 20
    virtual_node_linger_seconds: Annotated[
        int, Meta(ge=0, le=86400), about("Seconds that a virtual node stays after its last Pod has gone.")
    ] = 120
    suspended: Annotated[
        bool, about("If true, no slices are placed for the tenant, so that its Pods are removed and wait.")
    ] = False
    failover: Annotated[
        Failover | None,
        about(
            "What happens to the tenant's slices and Pods on a lost super cluster. Default: the schedulers' option --failover."
        ),
    ] = None
    fail_back: Annotated[
        FailBack | None,
        about(
            "When slices that have left a lost super cluster go back to it after its return, where that does not make the pool "
            "worse. Never. WithinBudget: at once, a budget of slices at a time. NextRebalance: with the next rebalance. Default: "
            "the namespace scheduler's option --fail-back."
        ),
    ] = None
    pod_replacement_policy: Annotated[
        PodReplacementPolicy | None,
        about(
            "When a Pod without a node is replaced whose super cluster is not heard from and may have started it. "
            "TerminationComplete: once it is known that it does not run there. TerminationStarted: at once, if its name is "
            "generated, it uses no PersistentVolumeClaims, and it cannot stay there or there is room elsewhere; it may then run "
            "beside its replacement, which has another name and UID. Default: TerminationComplete."
        ),
    ] = None
    cluster_version_name: Annotated[
        OptionalObjectName,
        about("Name of the ClusterVersion from which VirtualCluster sets the control plane up."),
    ] = ""
    pki_expire_days: Annotated[int | None, about("Field of VirtualCluster. vcsync keeps but ignores it.")] = (
        None
    )
    service_cidr: Annotated[
        str,
        Meta(max_length=128),
        about(
            "Range of the cluster IPs of the tenant's control plane, for example 10.64.0.0/20, or one of each IP family with a "
            "comma between. Where a super cluster publishes "
            "a ServiceCIDR that contains it, the copies of the tenant's Services keep their cluster IPs. No other tenant may "
            "have an address of it: a range that overlaps one of an older VirtualCluster has no effect."
        ),
    ] = ""


class VirtualClusterCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition of a VirtualCluster. Conditions that VirtualCluster wrote have no type."""

    type: Annotated[str, Meta(max_length=316), about("Type of the condition, in CamelCase.")] = ""
    status: Annotated[str, Meta(max_length=64), about("Status of the condition: True, False or Unknown.")] = (
        ""
    )
    reason: Annotated[
        str, Meta(max_length=1024), about("Machine-readable reason for the last transition.")
    ] = ""
    message: Annotated[Message, about("Human-readable details of the last transition.")] = ""
    last_transition_time: Annotated[Time | None, about("When the status last changed.")] = None


class VirtualClusterStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Observed state of the control plane."""

    phase: Annotated[
        Literal["Pending", "Running", "Updating", "Error"] | None,
        about("Summary of the state. Only Running control planes are synced."),
    ] = None
    cluster_namespace: Annotated[
        OptionalDnsLabel,
        about("The tenant's cluster key, which is also the name of its root namespace."),
        rules(
            Rule(
                "oldSelf == '' || self == oldSelf",
                "status.clusterNamespace is part of the names of the tenant's objects and cannot change: "
                "create a new VirtualCluster",
            )
        ),
    ] = ""
    control_plane_uid: Annotated[
        Uid,
        about(
            "UID of kube-system in the first control plane that answered. vcsync does not serve another one, unless the "
            "annotation tenancy.x-k8s.io/control-plane-uid names it."
        ),
        rules(
            Rule(
                "oldSelf == '' || self == oldSelf",
                "status.controlPlaneUID cannot change: run 'vcsync tenant accept' if the control plane was replaced on purpose",
            )
        ),
    ] = msgspec.field(name="controlPlaneUID", default="")
    message: Annotated[Message, about("Human-readable details of the last transition.")] = ""
    reason: Annotated[Reason, about("Machine-readable reason for the last transition.")] = ""
    conditions: Annotated[
        tuple[VirtualClusterCondition, ...], Meta(max_length=64), about("Conditions of the control plane.")
    ] = ()


# --- SuperCluster ---------------------------------------------------------------------------------


class Taint(Struct, frozen=True, kw_only=True, rename="camel"):
    """A taint of a super cluster: it repels namespaces that do not tolerate it."""

    key: Annotated[str, Meta(min_length=1, max_length=316), about("Key of the taint.")]
    value: Annotated[str, Meta(max_length=63), about("Value of the taint.")] = ""
    effect: Annotated[
        TaintEffect,
        about(
            "NoSchedule: no new slices. PreferNoSchedule: new slices only if no other super cluster fits. "
            "NoExecute: no new slices, and existing slices move away."
        ),
    ]


DEFAULT_EVICTION_SECONDS: Final = 3600
"""Seconds that Pods which have to leave wait for PodDisruptionBudgets; a tenant's budget may forbid every disruption."""


NodeLabelKeys = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*(/\*)?$", max_length=317)], ...],
    Meta(max_length=64, extra={"list": "set"}),
]


class ShownNodes(Struct, frozen=True, kw_only=True):
    """Labels and taints of nodes that tenants see on virtual nodes, besides operating system and architecture."""

    labels: Annotated[
        NodeLabelKeys,
        about(
            "Keys of node labels. DOMAIN/* stands for all keys of a domain, such as topology.kubernetes.io/*. At most 64 labels "
            "of a node are shown, by key."
        ),
    ] = ()
    taints: Annotated[TaintKeys, about("Keys of node taints with effect NoSchedule or NoExecute.")] = ()


class SuperClusterSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The operator's settings for a cluster of the pool."""

    id: Annotated[SuperId, about("Identity of the super cluster in labels, placements and node names.")]
    kubeconfig_secret_ref: Annotated[
        SecretRef | None,
        about(
            "Secret that holds its kubeconfig. Default: key kubeconfig of Secret super-<id> in vcsync-system."
        ),
    ] = None
    headroom: Annotated[
        dict[str, PercentOrQuantity],
        Meta(max_length=MAX_RESOURCES),
        rules(_takes("headroom", SLICED)),
        about("Capacity to keep free, by resource: a percentage of the allocatable amount, or an amount."),
    ] = {}
    overcommit: Annotated[
        dict[str, Overcommit],
        Meta(max_length=MAX_RESOURCES),
        rules(_takes("overcommit", SLICED)),
        about(
            "Percentage of the capacity after headroom that slices may promise, by resource. With 200%, slices promise it "
            "twice, in the expectation that tenants do not use all of it at the same time. Default: 100%."
        ),
    ] = {}
    taints: Annotated[
        tuple[Taint, ...],
        Meta(max_length=32, extra={"list_map_keys": ("key", "effect")}),
        about("Taints that repel namespaces which do not tolerate them."),
    ] = ()
    cordoned: Annotated[
        bool, about("If true, the super cluster gets no new slices. Existing slices stay.")
    ] = False
    drain: Annotated[
        bool, about("If true, the super cluster gets no new slices, and existing slices move away.")
    ] = False
    fenced: Annotated[
        bool,
        about(
            "If true, an operator guarantees that no Pod runs there any more, so that Pods which are being deleted are gone. "
            "Its syncer does nothing until this is false again; 'vcsync super unfence' checks first what is there."
        ),
    ] = False
    network_id: Annotated[
        OptionalDnsLabel,
        about(
            "Network whose members route Pod addresses to each other. Pods of a Service on a super cluster are reached from "
            "all super clusters with the same id. Empty: it shares its Pod network with none."
        ),
    ] = ""
    eviction_seconds: Annotated[
        int,
        Meta(ge=0, le=7 * 24 * 3600),
        about(
            "Seconds that Pods which have to leave wait for their tenants' PodDisruptionBudgets and for replacements elsewhere, "
            "counted from the first Pod that waits, and again from each Pod that leaves, up to four times. 0: they do not wait."
        ),
    ] = DEFAULT_EVICTION_SECONDS
    prices: Annotated[
        dict[str, Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$", max_length=32)]],
        Meta(max_length=MAX_RESOURCES),
        about("Price of one unit (a CPU, a GiB) per hour, by resource, as a decimal number in quotes."),
    ] = {}
    shown_nodes: Annotated[ShownNodes, about("What tenants see of its nodes.")] = ShownNodes()


class NodeCounts(Struct, frozen=True, kw_only=True):
    """Nodes of a super cluster."""

    ready: Annotated[int, Meta(ge=0), about("Nodes that are ready and not cordoned.")] = 0
    total: Annotated[int, Meta(ge=0), about("All nodes.")] = 0


TroubleType = Literal["Braked", "WrongControlPlane", "TenantTooLarge"]
"""Types of conditions on a VirtualCluster that report a problem with serving its tenant."""


class Trouble(Struct, frozen=True, kw_only=True):
    """A problem of one syncer with one tenant."""

    tenant: Annotated[DnsLabel, about("The tenant's cluster key.")]
    type: Annotated[TroubleType, about("Type of the VirtualCluster's condition that reports it.")]
    message: Annotated[str, Meta(max_length=1024), about("The cause and the remedy.")] = ""


class PublishedStorageClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """A StorageClass that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the StorageClass.")]
    reclaim_policy: Annotated[
        Literal["Delete", "Retain"], about("What happens to a volume when its claim is deleted.")
    ] = "Delete"
    allow_volume_expansion: Annotated[bool, about("Whether claims may grow.")] = False
    default: Annotated[bool, about("Whether claims without a class get this one.")] = False


class PublishedIngressClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """An IngressClass that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the IngressClass.")]
    default: Annotated[bool, about("Whether Ingresses without a class get this one.")] = False


class PublishedPriorityClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """A PriorityClass that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the PriorityClass.")]
    value: Annotated[int, about("Priority of its Pods.")] = 0
    preemption_policy: Annotated[
        Literal["Never", "PreemptLowerPriority"], about("Whether its Pods preempt those of lower priority.")
    ] = "PreemptLowerPriority"


class PublishedRuntimeClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """A RuntimeClass that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the RuntimeClass.")]
    overhead: Annotated[Amounts, about("Overhead of its Pods, by resource.")] = {}


class PublishedDeviceClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """A DeviceClass that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the DeviceClass.")]


class PublishedVolumeSnapshotClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """A VolumeSnapshotClass that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the VolumeSnapshotClass.")]
    deletion_policy: Annotated[
        Literal["Delete", "Retain"], about("What happens to the data when a snapshot is deleted.")
    ] = "Delete"


class PublishedGatewayClass(Struct, frozen=True, kw_only=True, rename="camel"):
    """A GatewayClass that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the GatewayClass.")]
    controller_name: Annotated[
        str, Meta(max_length=253), about("Name of the controller of its Gateways.")
    ] = ""
    description: Annotated[str, Meta(max_length=64), about("Description for users.")] = ""


class PublishedDefinition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A CustomResourceDefinition that the operator of a super cluster publishes to tenants."""

    name: Annotated[ObjectName, about("Name of the CustomResourceDefinition.")]
    digest: Annotated[str, Meta(max_length=64), about("Digest of what tenants get of it.")]


class DrainCount(Struct, frozen=True, kw_only=True):
    """Numbers of things of one kind that a drain removes."""

    total: Annotated[int, Meta(ge=0), about("Number since the drain began.")] = 0
    left: Annotated[int, Meta(ge=0), about("Number that is still there.")] = 0


class BlockedNamespace(Struct, frozen=True, kw_only=True):
    """A namespace that a drain cannot move at present."""

    tenant: Annotated[DnsLabel, about("The tenant's cluster key.")]
    namespace: Annotated[DnsLabel, about("The tenant's namespace.")]
    reason: Annotated[str, Meta(max_length=1024), about("Why it cannot move.")] = ""


class DrainProgress(Struct, frozen=True, kw_only=True, rename="camel"):
    """Progress of a drain of the super cluster. Its syncer writes it."""

    since: Annotated[Time, about("When this progress began to be counted.")]
    namespaces: Annotated[DrainCount, about("Namespaces with slices or objects there.")] = DrainCount()
    pods: Annotated[DrainCount, about("Pods of tenants that have not ended.")] = DrainCount()
    claims: Annotated[DrainCount, about("PersistentVolumeClaims with volumes.")] = DrainCount()
    pods_per_hour: Annotated[
        int,
        Meta(ge=0),
        about("Pods that left within the last minutes, as the number that would leave in an hour."),
    ] = 0
    blocked_namespaces: Annotated[
        int, Meta(ge=0), about("Number of namespaces that cannot move at present.")
    ] = 0
    blocked: Annotated[
        tuple[BlockedNamespace, ...],
        Meta(max_length=MAX_BLOCKED),
        about("The first of these namespaces, by name."),
    ] = ()


class FailureRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """The knowledge of failures of the super cluster that outlasts a scheduler's term. The namespace scheduler writes it."""

    state: Annotated[
        Literal["Ready", "Recovering", "Suspect", "Lost"],
        about("Its state, as the namespace scheduler sees it."),
    ]
    since: Annotated[Time, about("When it entered the state.")]
    failures: Annotated[int, Meta(ge=0), about("Number of failures that are remembered.")] = 0
    quiet_seconds: Annotated[
        int, Meta(ge=0), about("Seconds without failure after which it is ready. 0 unless it recovers.")
    ] = 0
    out_of_touch_time: Annotated[
        Time | None, about("Since when nobody has known what happens there, if it is suspect or lost.")
    ] = None
    suspect_after_seconds: Annotated[
        int, Meta(ge=0), about("Seconds without heartbeat after which a super cluster is suspect.")
    ] = 75
    lost_after_seconds: Annotated[
        int, Meta(ge=0), about("Seconds out of touch after which a super cluster is lost.")
    ] = 300
    pool_vanished: Annotated[
        bool, about("Whether most of the pool is out of touch, so that nothing moves.")
    ] = False
    pool_vanished_time: Annotated[
        Time | None, about("When most of the pool was last out of touch, if that was a short time ago.")
    ] = None


class SuperClusterStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Observed capacity and state of the super cluster. Its syncer writes it, except `failure`."""

    allocatable: Annotated[Amounts, about("Allocatable amounts of its ready nodes, by resource.")] = {}
    allocated: Annotated[
        Amounts,
        about("Amounts that slices hold, including slices that are still being cleared, by resource."),
    ] = {}
    free: Annotated[
        Amounts, about("Amounts still available for slices, after headroom and overcommit, by resource.")
    ] = {}
    largest_node: Annotated[
        Amounts, about("Allocatable amounts of the largest node, by resource. No Pod can use more.")
    ] = {}
    nodes: Annotated[NodeCounts, about("Numbers of nodes.")] = NodeCounts()
    nodes_version: Annotated[
        str,
        Meta(max_length=64),
        about(
            "Changes whenever nodes change so that Pods may be scheduled that could not before: readiness, taints, labels, "
            "allocatable amounts."
        ),
    ] = ""
    storage_classes: Annotated[
        tuple[PublishedStorageClass, ...],
        Meta(max_length=MAX_PUBLISHED),
        about(
            "StorageClasses that tenants may use: those with the label tenancy.x-k8s.io/super.public=true."
        ),
    ] = ()
    ingress_classes: Annotated[
        tuple[PublishedIngressClass, ...],
        Meta(max_length=MAX_PUBLISHED),
        about("IngressClasses that tenants may use: those with the same label."),
    ] = ()
    priority_classes: Annotated[
        tuple[PublishedPriorityClass, ...],
        Meta(max_length=MAX_PUBLISHED),
        about("PriorityClasses that tenants' Pods may name: those with the same label."),
    ] = ()
    runtime_classes: Annotated[
        tuple[PublishedRuntimeClass, ...],
        Meta(max_length=MAX_PUBLISHED),
        about("RuntimeClasses that tenants' Pods may name: those with the same label."),
    ] = ()
    device_classes: Annotated[
        tuple[PublishedDeviceClass, ...],
        Meta(max_length=MAX_PUBLISHED),
        about("DeviceClasses that tenants' ResourceClaims may name: those with the same label."),
    ] = ()
    volume_snapshot_classes: Annotated[
        tuple[PublishedVolumeSnapshotClass, ...],
        Meta(max_length=MAX_PUBLISHED),
        about("VolumeSnapshotClasses that tenants may use: those with the same label."),
    ] = ()
    gateway_classes: Annotated[
        tuple[PublishedGatewayClass, ...],
        Meta(max_length=MAX_PUBLISHED),
        about("GatewayClasses that tenants see: those with the same label."),
    ] = ()
    custom_resource_definitions: Annotated[
        tuple[PublishedDefinition, ...],
        Meta(max_length=MAX_DEFINITIONS),
        about("CustomResourceDefinitions that tenants get: those with the same label."),
    ] = ()
    conditions: Conditions = ()
    reports: Annotated[
        dict[str, Annotated[tuple[Trouble, ...], Meta(max_length=100)]],
        Meta(max_length=MAX_SUPER_CLUSTERS),
        about("Problems with serving tenants there, by shard of the syncer (1/1: all tenants)."),
    ] = {}
    drain: Annotated[
        dict[str, DrainProgress],
        Meta(max_length=MAX_SUPER_CLUSTERS),
        about("Progress while spec.drain is true, by shard of the syncer (1/1: all tenants)."),
    ] = {}
    failure: Annotated[
        FailureRecord | None,
        about("What is known of its failures. The namespace scheduler writes it when the state changes."),
    ] = None
    heartbeat_time: Annotated[Time | None, about("When its syncer last wrote this status.")] = None
    syncer_identity: Annotated[str, Meta(max_length=253), about("Identity of the leading syncer.")] = ""
    version: Annotated[str, Meta(max_length=64), about("Kubernetes version of the super cluster.")] = ""


# --- NamespacePlacement ---------------------------------------------------------------------------


class VirtualClusterRef(Struct, frozen=True, kw_only=True):
    """Reference to the VirtualCluster of a ledger entry."""

    namespace: Annotated[DnsLabel, about("Namespace of the VirtualCluster.")]
    name: Annotated[ObjectName, about("Name of the VirtualCluster.")]
    uid: Annotated[Uid, about("UID of the VirtualCluster.")]


class NamespacePlacementSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Number and size of the slices that one namespace of a tenant needs."""

    virtual_cluster: Annotated[VirtualClusterRef, about("The tenant's VirtualCluster.")]
    tenant: Annotated[DnsLabel, about("The tenant's cluster key.")]
    namespace: Annotated[DnsLabel, about("The tenant's namespace.")]
    namespace_uid: Annotated[Uid, about("UID of the tenant's namespace.")] = msgspec.field(
        name="namespaceUID"
    )
    quota: Annotated[Quota, about("Hard limits of the namespace, by resource.")] = {}
    slice_size: Annotated[Quota, about("Size of one slice, by resource.")] = {}
    slices: Annotated[Slices, about("Number of slices that the quota needs.")] = 0
    pins: Annotated[
        SlicesBySuper,
        about("Slices that an operator pins to a super cluster regardless of scores, by its id."),
    ] = {}


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """The scheduler's result for one super cluster."""

    super_cluster: Annotated[SuperId, about("Id of the super cluster.")]
    slices: Annotated[Slices, about("Number of slices placed there.")] = 0
    refused_by: Annotated[
        tuple[Annotated[str, Meta(max_length=253)], ...],
        Meta(max_length=32),
        about("Filters that refused the super cluster."),
    ] = ()
    score: Annotated[int, about("Score of the super cluster. Higher is better.")] = 0
    reason: Annotated[str, Meta(max_length=1024), about("Human-readable reason for the result.")] = ""


class NamespacePlacementStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Placement of the slices. Every syncer follows it."""

    placements: Annotated[SlicesBySuper, about("Number of slices on each super cluster, by its id.")] = {}
    slice_size: Annotated[
        Quota, about("Size of one slice of these placements, by resource. If empty, spec.sliceSize applies.")
    ] = {}
    clearing: Annotated[
        dict[SuperId, Annotated[Quota, about("Amounts, by resource.")]],
        Meta(max_length=MAX_SUPER_CLUSTERS),
        about(
            "Amounts that a super cluster may hold beyond its slices until its syncer has cleared them, by its id."
        ),
    ] = {}
    away: Annotated[
        SlicesBySuper,
        about(
            "Number of slices that have left a super cluster because it was lost, by its id. They may go back if the tenant's "
            "failBack says so."
        ),
    ] = {}
    former: Annotated[
        tuple[SuperId, ...],
        Meta(max_length=MAX_SUPER_CLUSTERS),
        about(
            "Super clusters that may hold objects of an earlier namespace of the same name. They get no slices until "
            "their syncers have cleared them."
        ),
    ] = ()
    waiting: Annotated[Slices, about("Number of slices that are not placed yet.")] = 0
    explanation: Annotated[
        tuple[Explanation, ...],
        Meta(max_length=MAX_SUPER_CLUSTERS),
        about("The scheduler's results, one entry for each super cluster."),
    ] = ()
    conditions: Conditions = ()
