"""Which built-in resources there are: what a kube-apiserver 1.36 serves by default, in the order of its discovery."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Type = tuple[str, str, str]
"""Group, version and kind."""

EVERY = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
ONE_BY_ONE = ("create", "delete", "get", "list", "patch", "update", "watch")
EDIT = ("get", "patch", "update")
CREATE = ("create",)
READ = ("get", "list")
STREAM = ("create", "get")
PROXY = ("create", "delete", "get", "patch", "update")

SCALE: Type = ("autoscaling", "v1", "Scale")


@dataclass(frozen=True, slots=True)
class Sub:
    """A subresource: its verbs, and its type where that is not its parent's."""

    verbs: tuple[str, ...] = EDIT
    type: Type | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One resource, without its group and version. Several short names or categories are parted by spaces."""

    plural: str
    kind: str
    verbs: tuple[str, ...] = EVERY
    namespaced: bool = True
    short: str = ""
    categories: str = ""
    subresources: Mapping[str, Sub] = field(default_factory=dict)


_STATUS = {"status": Sub()}
_SCALE_AND_STATUS = {"scale": Sub(type=SCALE), "status": Sub()}
_EXTENSION = "api-extensions"


def _cluster(
    plural: str,
    kind: str,
    verbs: tuple[str, ...] = EVERY,
    *,
    short: str = "",
    categories: str = "",
    subresources: Mapping[str, Sub] | None = None,
) -> Row:
    return Row(plural, kind, verbs, False, short, categories, subresources or {})


def _options(verbs: tuple[str, ...], kind: str) -> Sub:
    """A subresource whose parameters come in the URL; discovery names their type."""
    return Sub(verbs, ("", "v1", kind))


_CORE = (
    Row("bindings", "Binding", CREATE),
    _cluster("componentstatuses", "ComponentStatus", READ, short="cs"),
    Row("configmaps", "ConfigMap", short="cm"),
    Row("endpoints", "Endpoints", short="ep"),
    Row("events", "Event", short="ev"),
    Row("limitranges", "LimitRange", short="limits"),
    _cluster(
        "namespaces",
        "Namespace",
        ONE_BY_ONE,
        short="ns",
        subresources={"finalize": Sub(("update",)), "status": Sub()},
    ),
    _cluster(
        "nodes",
        "Node",
        short="no",
        subresources={"proxy": _options(PROXY, "NodeProxyOptions"), "status": Sub()},
    ),
    Row("persistentvolumeclaims", "PersistentVolumeClaim", short="pvc", subresources=_STATUS),
    _cluster("persistentvolumes", "PersistentVolume", short="pv", subresources=_STATUS),
    Row(
        "pods",
        "Pod",
        short="po",
        categories="all",
        subresources={
            "attach": _options(STREAM, "PodAttachOptions"),
            "binding": Sub(CREATE, ("", "v1", "Binding")),
            "ephemeralcontainers": Sub(),
            "eviction": Sub(CREATE, ("policy", "v1", "Eviction")),
            "exec": _options(STREAM, "PodExecOptions"),
            "log": Sub(("get",)),
            "portforward": _options(STREAM, "PodPortForwardOptions"),
            "proxy": _options(PROXY, "PodProxyOptions"),
            "resize": Sub(),
            "status": Sub(),
        },
    ),
    Row("podtemplates", "PodTemplate"),
    Row(
        "replicationcontrollers",
        "ReplicationController",
        short="rc",
        categories="all",
        subresources=_SCALE_AND_STATUS,
    ),
    Row("resourcequotas", "ResourceQuota", short="quota", subresources=_STATUS),
    Row("secrets", "Secret"),
    Row(
        "serviceaccounts",
        "ServiceAccount",
        short="sa",
        subresources={"token": Sub(CREATE, ("authentication.k8s.io", "v1", "TokenRequest"))},
    ),
    Row(
        "services",
        "Service",
        short="svc",
        categories="all",
        subresources={"proxy": _options(PROXY, "ServiceProxyOptions"), "status": Sub()},
    ),
)

_AUTOSCALERS = (
    Row(
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short="hpa",
        categories="all",
        subresources=_STATUS,
    ),
)

TABLE: tuple[tuple[str, str, tuple[Row, ...]], ...] = (
    ("", "v1", _CORE),
    (
        "apiregistration.k8s.io",
        "v1",
        (_cluster("apiservices", "APIService", categories=_EXTENSION, subresources=_STATUS),),
    ),
    (
        "apps",
        "v1",
        (
            Row("controllerrevisions", "ControllerRevision"),
            Row("daemonsets", "DaemonSet", short="ds", categories="all", subresources=_STATUS),
            Row(
                "deployments", "Deployment", short="deploy", categories="all", subresources=_SCALE_AND_STATUS
            ),
            Row("replicasets", "ReplicaSet", short="rs", categories="all", subresources=_SCALE_AND_STATUS),
            Row("statefulsets", "StatefulSet", short="sts", categories="all", subresources=_SCALE_AND_STATUS),
        ),
    ),
    ("events.k8s.io", "v1", (Row("events", "Event", short="ev"),)),
    (
        "authentication.k8s.io",
        "v1",
        (
            _cluster("selfsubjectreviews", "SelfSubjectReview", CREATE),
            _cluster("tokenreviews", "TokenReview", CREATE),
        ),
    ),
    (
        "authorization.k8s.io",
        "v1",
        (
            Row("localsubjectaccessreviews", "LocalSubjectAccessReview", CREATE),
            _cluster("selfsubjectaccessreviews", "SelfSubjectAccessReview", CREATE),
            _cluster("selfsubjectrulesreviews", "SelfSubjectRulesReview", CREATE),
            _cluster("subjectaccessreviews", "SubjectAccessReview", CREATE),
        ),
    ),
    ("autoscaling", "v2", _AUTOSCALERS),
    ("autoscaling", "v1", _AUTOSCALERS),
    (
        "batch",
        "v1",
        (
            Row("cronjobs", "CronJob", short="cj", categories="all", subresources=_STATUS),
            Row("jobs", "Job", categories="all", subresources=_STATUS),
        ),
    ),
    (
        "certificates.k8s.io",
        "v1",
        (
            _cluster(
                "certificatesigningrequests",
                "CertificateSigningRequest",
                short="csr",
                subresources={"approval": Sub(), "status": Sub()},
            ),
        ),
    ),
    (
        "networking.k8s.io",
        "v1",
        (
            _cluster("ingressclasses", "IngressClass"),
            Row("ingresses", "Ingress", short="ing", subresources=_STATUS),
            _cluster("ipaddresses", "IPAddress", short="ip"),
            Row("networkpolicies", "NetworkPolicy", short="netpol"),
            _cluster("servicecidrs", "ServiceCIDR", subresources=_STATUS),
        ),
    ),
    (
        "policy",
        "v1",
        (Row("poddisruptionbudgets", "PodDisruptionBudget", short="pdb", subresources=_STATUS),),
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        (
            _cluster("clusterrolebindings", "ClusterRoleBinding"),
            _cluster("clusterroles", "ClusterRole"),
            Row("rolebindings", "RoleBinding"),
            Row("roles", "Role"),
        ),
    ),
    (
        "storage.k8s.io",
        "v1",
        (
            _cluster("csidrivers", "CSIDriver"),
            _cluster("csinodes", "CSINode"),
            Row("csistoragecapacities", "CSIStorageCapacity"),
            _cluster("storageclasses", "StorageClass", short="sc"),
            _cluster("volumeattachments", "VolumeAttachment", subresources=_STATUS),
            _cluster("volumeattributesclasses", "VolumeAttributesClass", short="vac"),
        ),
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        (
            _cluster("mutatingadmissionpolicies", "MutatingAdmissionPolicy", categories=_EXTENSION),
            _cluster(
                "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", categories=_EXTENSION
            ),
            _cluster("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", categories=_EXTENSION),
            _cluster(
                "validatingadmissionpolicies",
                "ValidatingAdmissionPolicy",
                categories=_EXTENSION,
                subresources=_STATUS,
            ),
            _cluster(
                "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", categories=_EXTENSION
            ),
            _cluster(
                "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", categories=_EXTENSION
            ),
        ),
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        (
            _cluster(
                "customresourcedefinitions",
                "CustomResourceDefinition",
                short="crd crds",
                categories=_EXTENSION,
                subresources=_STATUS,
            ),
        ),
    ),
    ("scheduling.k8s.io", "v1", (_cluster("priorityclasses", "PriorityClass", short="pc"),)),
    ("coordination.k8s.io", "v1", (Row("leases", "Lease"),)),
    ("node.k8s.io", "v1", (_cluster("runtimeclasses", "RuntimeClass"),)),
    ("discovery.k8s.io", "v1", (Row("endpointslices", "EndpointSlice"),)),
    (
        "resource.k8s.io",
        "v1",
        (
            _cluster("deviceclasses", "DeviceClass"),
            Row("resourceclaims", "ResourceClaim", subresources=_STATUS),
            Row("resourceclaimtemplates", "ResourceClaimTemplate"),
            _cluster("resourceslices", "ResourceSlice"),
        ),
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        (
            _cluster("flowschemas", "FlowSchema", subresources=_STATUS),
            _cluster("prioritylevelconfigurations", "PriorityLevelConfiguration", subresources=_STATUS),
        ),
    ),
)
"""Group, version, resources. Groups by priority; of a group, the preferred version first."""

STORED: Mapping[Type, Type] = {
    ("events.k8s.io", "v1", "Event"): ("", "v1", "Event"),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): ("autoscaling", "v2", "HorizontalPodAutoscaler"),
}
"""Views of one object: what is kept as another type."""

HASHED: Mapping[Type, str] = {
    ("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy"): "v1beta1",
    ("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding"): "v1beta1",
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): "v1beta1",
}
"""Where discovery's storageVersionHash is that of an older version, which a kube-apiserver keeps for its predecessor."""


def rows() -> Iterator[tuple[str, str, Row]]:
    """Yield group, version and row of every resource."""
    for group, version, resources in TABLE:
        for row in resources:
            yield group, version, row
