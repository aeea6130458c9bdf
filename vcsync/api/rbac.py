"""Permissions of each role: one table of grants, and the RBAC objects made from it.

A *side* is a kind of cluster that a role talks to: the meta cluster, a super cluster, a tenant's control plane.
On each side a role is a ServiceAccount `vcsync-<role>` in `vcsync-system` with the least permissions that it needs.
No grant of a role has a wildcard.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import fields

from vcsync.api import names
from vcsync.api.specs import SecretRef, SuperClusterStatus
from vcsync.api.without_effect import NO_STREAMS
from vcsync.patterns.linear import linear

Side = Literal["meta", "super", "tenant"]
Manifest = dict[str, Any]

READ: Final = ("get", "list", "watch")
CORE: Final = ""
SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
RBAC_GROUP: Final = "rbac.authorization.k8s.io"
PART_OF: Final = "app.kubernetes.io/part-of"
"""Label of what vcsync's commands and roles make..."""
PROJECT: Final = "vcsync"
"""...and its value."""
NODE_LEASE_NAMESPACE: Final = "kube-node-lease"
"""Namespace of the Leases of Nodes, in every Kubernetes cluster."""


class Grant(Struct, frozen=True, kw_only=True):
    """Verbs on resources, or on `urls`, which are paths that are not resources.

    Empty `namespace`: in all namespaces; empty `names`: on all objects.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str = ""
    urls: tuple[str, ...] = ()


def _tenant_credentials(role: str) -> Grant:
    """Grant access to a tenant's kubeconfigs: the role's own Secret, and VirtualCluster's.

    The grant names the Secrets and not their namespaces, because root namespaces are created and deleted at run time.
    """
    return Grant(
        group=CORE,
        resources=("secrets",),
        verbs=("get",),
        names=(names.role_secret(role), names.ADMIN_KUBECONFIG_SECRET),
    )


_READ_RUNTIME_CLASSES = Grant(group="node.k8s.io", resources=("runtimeclasses",), verbs=READ)
_PUBLISHED: Final = (
    ("storage.k8s.io", "storageclasses"),
    ("networking.k8s.io", "ingressclasses"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("resource.k8s.io", "deviceclasses"),
    (SNAPSHOT_GROUP, "volumesnapshotclasses"),
    ("gateway.networking.k8s.io", "gatewayclasses"),
)
"""Group and plural of the kinds of `vcsync.published`."""
_ASK_WHO_CALLS: Final = (
    Grant(group="authentication.k8s.io", resources=("tokenreviews",), verbs=("create",)),
    Grant(group="authorization.k8s.io", resources=("subjectaccessreviews",), verbs=("create",)),
)
"""Rights of a status endpoint that other machines reach: to ask who a caller is, and what it may read."""
STATUS_PATHS: Final = {
    "/status": names.STATUS_READER,
    "/timeline": names.STATUS_READER,
    "/metrics": names.METRICS_READER,
}
"""Paths of status endpoints that nobody may get without a right, and the ClusterRole of the meta cluster that grants each."""
_WRITE_EVENTS = Grant(group=CORE, resources=("events",), verbs=("create", "patch"))
_LEADER_ELECTION = Grant(
    group="coordination.k8s.io",
    resources=("leases",),
    verbs=("get", "create", "update", "patch"),
    namespace=names.SYSTEM_NAMESPACE,
)

GRANTS: Final[dict[tuple[Side, str], tuple[Grant, ...]]] = {
    ("meta", names.ROLE_SYNCER): (
        Grant(
            group=names.GROUP,
            resources=("virtualclusters", "superclusters", "namespaceplacements"),
            verbs=READ,
        ),
        Grant(group=names.GROUP, resources=("superclusters/status",), verbs=("patch",)),
        # The syncer removes its drain finalizer. Finalizers have no subresource of their own (`finalizers` in
        # RBAC only guards blockOwnerDeletion), so it patches the object; `admission_policies` confines the patch.
        Grant(group=names.GROUP, resources=("namespaceplacements",), verbs=("patch",)),
        # It keeps the running time of Pods, in a namespace of its own.
        Grant(
            group=CORE,
            resources=("configmaps",),
            verbs=("get", "list", "create", "patch", "delete"),
            namespace=names.USAGE_NAMESPACE,
        ),
        # It keeps the latest repairs there.
        Grant(
            group=CORE,
            resources=("configmaps",),
            verbs=("get", "create", "patch"),
            namespace=names.DRIFT_NAMESPACE,
        ),
        # It keeps the CustomResourceDefinitions there that its super cluster publishes.
        Grant(
            group=CORE,
            resources=("configmaps",),
            verbs=("list", "create", "patch", "delete"),
            namespace=names.DEFINITIONS_NAMESPACE,
        ),
        # It shares the endpoints of Services there with super clusters of the same network.
        Grant(
            group="discovery.k8s.io",
            resources=("endpointslices",),
            verbs=("list", "watch", "create", "patch", "delete"),
            namespace=names.ENDPOINTS_NAMESPACE,
        ),
        _tenant_credentials(names.ROLE_SYNCER),
        # The UID of kube-system identifies the meta cluster.
        Grant(group=CORE, resources=("namespaces",), verbs=("get",), names=("kube-system",)),
        *_ASK_WHO_CALLS,
        _WRITE_EVENTS,
        _LEADER_ELECTION,
    ),
    ("meta", names.ROLE_NSSCHEDULER): (
        Grant(group=names.GROUP, resources=("virtualclusters", "superclusters"), verbs=READ),
        # The namespace scheduler removes its drain finalizer; confined as above.
        Grant(group=names.GROUP, resources=("virtualclusters",), verbs=("patch",)),
        # It reports problems in conditions and records the control plane's UID; confined to those fields.
        Grant(group=names.GROUP, resources=("virtualclusters/status",), verbs=("patch",)),
        # It records failures of super clusters for its next term; confined to that field.
        Grant(group=names.GROUP, resources=("superclusters/status",), verbs=("patch",)),
        Grant(
            group=names.GROUP,
            resources=("namespaceplacements",),
            verbs=(*READ, "create", "update", "patch", "delete"),
        ),
        Grant(group=names.GROUP, resources=("namespaceplacements/status",), verbs=("update", "patch")),
        # The CustomResourceDefinitions that it publishes to tenants.
        Grant(group=CORE, resources=("configmaps",), verbs=("get",), namespace=names.DEFINITIONS_NAMESPACE),
        _tenant_credentials(names.ROLE_NSSCHEDULER),
        # It removes the root namespaces of tenants that have left; `admission_policies` confines it to those.
        Grant(group=CORE, resources=("namespaces",), verbs=("get", "delete")),
        # It removes the Tenants that were made for them; confined as well.
        Grant(group=names.GROUP, resources=("tenants",), verbs=("get", "delete")),
        *_ASK_WHO_CALLS,
        _WRITE_EVENTS,
        _LEADER_ELECTION,
    ),
    ("meta", names.ROLE_PODSCHEDULER): (
        Grant(
            group=names.GROUP,
            resources=("virtualclusters", "superclusters", "namespaceplacements"),
            verbs=READ,
        ),
        _tenant_credentials(names.ROLE_PODSCHEDULER),
        # The placement webhook: the token of each tenant, and the certificate.
        Grant(group=CORE, resources=("secrets",), verbs=("get",), names=(names.PLACEMENT_SECRET,)),
        Grant(
            group=CORE,
            resources=("secrets",),
            verbs=("get",),
            names=(names.PLACEMENT_TLS_SECRET,),
            namespace=names.SYSTEM_NAMESPACE,
        ),
        # The leader names itself as the endpoint of the webhook's Service.
        Grant(
            group="discovery.k8s.io",
            resources=("endpointslices",),
            verbs=("patch",),
            names=(names.PLACEMENT_SERVICE,),
            namespace=names.SYSTEM_NAMESPACE,
        ),
        *_ASK_WHO_CALLS,
        _WRITE_EVENTS,
        _LEADER_ELECTION,
    ),
    ("meta", names.ROLE_TENANTS): (
        Grant(group=names.GROUP, resources=("tenants",), verbs=(*READ, "patch")),
        Grant(group=names.GROUP, resources=("tenants/status",), verbs=("patch",)),
        Grant(group=names.GROUP, resources=("tenanttemplates",), verbs=READ),
        Grant(group=names.GROUP, resources=("virtualclusters",), verbs=(*READ, "create", "patch", "delete")),
        Grant(group=names.GROUP, resources=("virtualclusters/status",), verbs=("patch",)),
        # To show what a removal waits for, and to refuse control planes that have another part in the pool.
        Grant(group=names.GROUP, resources=("namespaceplacements", "superclusters"), verbs=("list",)),
        # Root namespaces and the roles' credentials in them; `admission_policies` confines it to those.
        Grant(group=CORE, resources=("namespaces",), verbs=("get", "create", "patch", "delete")),
        Grant(group=CORE, resources=("secrets",), verbs=("create",)),
        Grant(
            group=CORE,
            resources=("secrets",),
            verbs=("patch",),
            names=tuple(names.role_secret(role) for role in names.ROLES),
        ),
        # Kubeconfigs of external control planes.
        Grant(group=CORE, resources=("secrets",), verbs=("get",), namespace=names.DEFAULT_VC_NAMESPACE),
        # The operator's API of an embedded control plane.
        Grant(
            group=CORE,
            resources=(),
            verbs=("get", "post", "patch", "delete"),
            urls=("/vcsync/v1/tenants", "/vcsync/v1/tenants/*"),
        ),
        *_ASK_WHO_CALLS,
        _WRITE_EVENTS,
        _LEADER_ELECTION,
    ),
    ("meta", names.ROLE_STREAMS): (
        # Which cluster key a tenant has, and on which super clusters its namespaces are.
        Grant(group=names.GROUP, resources=("virtualclusters",), verbs=("get", "list")),
        Grant(group=names.GROUP, resources=("namespaceplacements",), verbs=("get",)),
    ),
    ("super", names.ROLE_SYNCER): (
        # Super namespaces are created at run time, so these grants apply to all namespaces. They contain no roles,
        # tokens or exec, and of bindings only those to one role, because a syncer could escalate its privileges by these.
        Grant(
            group=CORE,
            resources=(
                "namespaces",
                "pods",
                "secrets",
                "configmaps",
                "services",
                "endpoints",
                "serviceaccounts",
                "resourcequotas",
                "persistentvolumeclaims",
            ),
            verbs=(*READ, "create", "patch", "delete"),
        ),
        Grant(
            group="networking.k8s.io",
            resources=("networkpolicies", "ingresses"),
            verbs=(*READ, "create", "patch", "delete"),
        ),
        Grant(
            group="discovery.k8s.io",
            resources=("endpointslices",),
            verbs=(*READ, "create", "patch", "delete"),
        ),
        # Tenants may use those that the operator publishes.
        Grant(group="networking.k8s.io", resources=("ingressclasses", "servicecidrs"), verbs=READ),
        Grant(
            group="policy",
            resources=("poddisruptionbudgets",),
            verbs=(*READ, "create", "patch", "delete"),
        ),
        Grant(
            group=CORE,
            resources=("pods/status", "pods/ephemeralcontainers", "pods/resize"),
            verbs=("patch",),
        ),
        Grant(group=CORE, resources=("nodes", "events"), verbs=READ),
        _READ_RUNTIME_CLASSES,
        # It publishes those with the label `super.public`.
        Grant(group="storage.k8s.io", resources=("storageclasses",), verbs=READ),
        Grant(group="scheduling.k8s.io", resources=("priorityclasses",), verbs=READ),
        Grant(group="resource.k8s.io", resources=("deviceclasses",), verbs=READ),
        Grant(group="gateway.networking.k8s.io", resources=("gatewayclasses",), verbs=READ),
        Grant(group="apiextensions.k8s.io", resources=("customresourcedefinitions",), verbs=READ),
        Grant(
            group="resource.k8s.io", resources=("resourceclaims",), verbs=(*READ, "create", "patch", "delete")
        ),
        # Snapshots of tenants' volumes. It has no rights for VolumeSnapshotContents, which name the operator's storage.
        Grant(group=SNAPSHOT_GROUP, resources=("volumesnapshotclasses",), verbs=READ),
        Grant(
            group=SNAPSHOT_GROUP,
            resources=("volumesnapshots",),
            verbs=(*READ, "create", "patch", "delete"),
        ),
        # Usage of Pods, for external tenants.
        Grant(group="metrics.k8s.io", resources=("pods",), verbs=("list",)),
        # It permits control planes to reach the Pods of each super namespace. The API server lets it bind this role only.
        Grant(group=RBAC_GROUP, resources=("rolebindings",), verbs=(*READ, "create", "patch")),
        Grant(
            group=RBAC_GROUP,
            resources=("clusterroles",),
            verbs=("bind",),
            names=(names.service_account(names.ROLE_STREAMS),),
        ),
    ),
    # The syncer binds these grants in each super namespace; see `role_manifests`.
    ("super", names.ROLE_STREAMS): (
        Grant(group=CORE, resources=("pods", "pods/log"), verbs=("get",)),
        Grant(
            group=CORE,
            resources=("pods/exec", "pods/attach", "pods/portforward"),
            verbs=("get", "create"),
        ),
        Grant(group=CORE, resources=("pods/proxy",), verbs=("get", "create", "update", "patch", "delete")),
        Grant(group="metrics.k8s.io", resources=("pods",), verbs=("list",)),
    ),
    ("tenant", names.ROLE_SYNCER): (
        Grant(
            group=CORE,
            resources=(
                "namespaces",
                "serviceaccounts",
                "secrets",
                "configmaps",
                "services",
                "endpoints",
                "pods",
            ),
            verbs=READ,
        ),
        Grant(group="policy", resources=("poddisruptionbudgets",), verbs=READ),
        # Each syncer annotates a budget with the Pods that evictions leave in its super cluster, and changes nothing else.
        Grant(group="policy", resources=("poddisruptionbudgets/status",), verbs=("patch",)),
        Grant(group="discovery.k8s.io", resources=("endpointslices",), verbs=READ),
        Grant(group="networking.k8s.io", resources=("networkpolicies", "ingresses"), verbs=READ),
        Grant(group="networking.k8s.io", resources=("ingresses/status",), verbs=("patch",)),
        Grant(group=CORE, resources=("pods/binding",), verbs=("create",)),
        Grant(group=CORE, resources=("pods/status",), verbs=("patch",)),
        Grant(group=CORE, resources=("pods",), verbs=("delete",)),
        # A Pod that has to leave a super cluster is evicted, so the tenant's PodDisruptionBudgets apply.
        Grant(group=CORE, resources=("pods/eviction",), verbs=("create",)),
        # It leaves only when its controller does not need it: the number of Pods that each wants.
        Grant(group="apps", resources=("deployments", "replicasets", "statefulsets"), verbs=("get",)),
        Grant(group=CORE, resources=("replicationcontrollers",), verbs=("get",)),
        Grant(group=CORE, resources=("services", "services/status"), verbs=("patch",)),
        Grant(group=CORE, resources=("persistentvolumeclaims",), verbs=(*READ, "patch")),
        Grant(group=CORE, resources=("persistentvolumeclaims/status",), verbs=("patch",)),
        Grant(group="resource.k8s.io", resources=("resourceclaims",), verbs=(*READ, "patch")),
        # From Kubernetes 1.36 on, the right to write an allocation is that to the subresource `binding`.
        Grant(
            group="resource.k8s.io",
            resources=("resourceclaims/status", "resourceclaims/binding"),
            verbs=("patch",),
        ),
        # Descriptions of the volumes that claims have in the super cluster.
        Grant(group=CORE, resources=("persistentvolumes",), verbs=(*READ, "create", "patch", "delete")),
        Grant(group=SNAPSHOT_GROUP, resources=("volumesnapshots",), verbs=(*READ, "patch")),
        Grant(group=SNAPSHOT_GROUP, resources=("volumesnapshots/status",), verbs=("patch",)),
        Grant(group=CORE, resources=("serviceaccounts/token",), verbs=("create",)),
        Grant(group=CORE, resources=("nodes",), verbs=(*READ, "create", "patch", "delete")),
        _READ_RUNTIME_CLASSES,
        Grant(group=CORE, resources=("nodes/status",), verbs=("patch",)),
        Grant(
            group="coordination.k8s.io",
            resources=("leases",),
            verbs=(*READ, "create", "update", "patch", "delete"),
            namespace=NODE_LEASE_NAMESPACE,
        ),
        Grant(group=CORE, resources=("events",), verbs=("get", "create", "patch")),
        # Whether a caller of the kubelet API of virtual nodes may use it, as kubelets ask.
        Grant(group="authorization.k8s.io", resources=("subjectaccessreviews",), verbs=("create",)),
    ),
    ("tenant", names.ROLE_NSSCHEDULER): (
        Grant(group=CORE, resources=("namespaces",), verbs=(*READ, "patch")),
        Grant(group=CORE, resources=("resourcequotas",), verbs=READ),
        # What must stay on a lost super cluster: Pods with claims.
        Grant(group=CORE, resources=("pods", "persistentvolumeclaims"), verbs=("list",)),
        # It publishes the classes of the super clusters' operators. Events say that a tenant's own PriorityClasses have no effect
        # where its Pods run; only their metadata is read for that.
        *(
            Grant(group=group, resources=(plural,), verbs=(*READ, "create", "patch", "delete"))
            for group, plural in _PUBLISHED
        ),
        # It publishes CustomResourceDefinitions as well, and deletes none: their objects would go with them.
        Grant(
            group="apiextensions.k8s.io",
            resources=("customresourcedefinitions",),
            verbs=(*READ, "create", "patch"),
        ),
        # It deletes virtual nodes of super clusters that have left the pool, because their syncers are gone as well.
        Grant(group=CORE, resources=("nodes",), verbs=("list", "delete")),
        _WRITE_EVENTS,
    ),
    ("tenant", names.ROLE_PODSCHEDULER): (
        # It removes Pods from lost super clusters.
        Grant(group=CORE, resources=("pods",), verbs=(*READ, "patch", "delete")),
        Grant(group=CORE, resources=("pods/eviction",), verbs=("create",)),
        Grant(group=CORE, resources=("pods/status",), verbs=("patch",)),
        # A claim is assigned to a super cluster with the first Pod that uses it.
        Grant(group=CORE, resources=("persistentvolumeclaims",), verbs=(*READ, "patch")),
        Grant(group="resource.k8s.io", resources=("resourceclaims",), verbs=(*READ, "patch")),
        # Services that keep their Pods together.
        Grant(group=CORE, resources=("services",), verbs=("list", "watch")),
        # A claim that is restored from a snapshot goes where the snapshot is.
        Grant(group=SNAPSHOT_GROUP, resources=("volumesnapshots",), verbs=READ),
        Grant(group=CORE, resources=("namespaces",), verbs=READ),
        _WRITE_EVENTS,
    ),
}


def meta_manifests() -> list[Manifest]:
    """Return the manifests of all roles for the meta cluster, without access to super clusters' credentials."""
    namespaces = [
        system_namespace(),
        virtual_cluster_namespace(),
        usage_namespace(),
        drift_namespace(),
        definitions_namespace(),
        endpoints_namespace(),
    ]
    return [*namespaces, *_of_side("meta"), *status_readers(), *admission_policies()]


def status_readers() -> list[Manifest]:
    """Return the ClusterRoles for readers of status endpoints. Nobody is bound to them: operators do that."""
    granted: dict[str, list[str]] = {}
    for path, name in STATUS_PATHS.items():
        granted.setdefault(name, []).append(path)
    return [
        _object(f"{RBAC_GROUP}/v1", "ClusterRole", name)
        | {"rules": [{"nonResourceURLs": paths, "verbs": ["get"]}]}
        for name, paths in granted.items()
    ]


def super_manifests(super_id: str | None = None) -> list[Manifest]:
    """Return the manifests of the roles for a super cluster; an id adds a label that names that super cluster."""
    documents = [system_namespace(), *_of_side("super")]
    if super_id is not None:
        for document in documents:
            document["metadata"].setdefault("labels", {})[names.MADE_FOR_SUPER_CLUSTER] = super_id
    return documents


CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""Key of a user's extra in which client certificates are named."""


EVERYTHING: Final = "*"
"""Stands for all resources where an operator names those that may be read."""
_RESOURCE: Final = linear(r"[a-z0-9-]{1,63}(\.[a-z0-9.-]{1,253})?")


def gateway_manifests(
    groups: Sequence[str] = (), extra: Sequence[str] = (), readable: Sequence[str] = ()
) -> list[Manifest]:
    """Return what the gateway needs in an external control plane, and the administrators that it impersonates.

    RBAC can limit groups and keys of extra to those of the tenant's users, but not names of users. No group of Kubernetes'
    own is ever among the groups: the API server adds `system:authenticated` and ServiceAccounts' groups itself.

    Args:
        groups: Groups of the tenant's users, besides that of its administrators.
        extra: Keys of the extra of the tenant's users, besides the id of their client certificate.
        readable: Resources that the gateway may read, as `reader_manifests` makes them readable.
    """
    readers = (names.TENANT_READERS,) if readable else ()
    authentication = "authentication.k8s.io"
    grants = [
        Grant(group=CORE, resources=("users", "serviceaccounts"), verbs=("impersonate",)),
        Grant(
            group=CORE,
            resources=("groups",),
            verbs=("impersonate",),
            names=tuple(dict.fromkeys((names.TENANT_ADMINS, *readers, *groups))),
        ),
        Grant(group=authentication, resources=("uids",), verbs=("impersonate",)),
        Grant(
            group=authentication,
            resources=tuple(f"userextras/{key}" for key in dict.fromkeys((CREDENTIAL_ID, *extra))),
            verbs=("impersonate",),
        ),
        # Whether a user may impersonate another one is a question to the API server.
        Grant(group="authorization.k8s.io", resources=("subjectaccessreviews",), verbs=("create",)),
        # The keys tell whose the ServiceAccount tokens are that arrive at the gateway.
        Grant(group="", resources=(), verbs=("get",), urls=("/openid/v1/jwks",)),
    ]
    name, role = names.service_account(names.ROLE_GATEWAY), names.ROLE_GATEWAY
    administrators = _object(f"{RBAC_GROUP}/v1", "ClusterRoleBinding", names.TENANT_ADMINS, role=role) | {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC_GROUP, "kind": "Group", "name": names.TENANT_ADMINS}],
    }
    return [_account(role), *_bound(name, role, "", grants), administrators]


def readable_problem(resource: str) -> str:
    """Return why a text names no resource that can be made readable, or an empty text if it does."""
    if resource == EVERYTHING or _RESOURCE.fullmatch(resource):
        return ""
    return (
        "name a resource in the plural with its group, such as pods or deployments.apps, or '*' for every one"
    )


def reader_manifests(readable: Sequence[str]) -> list[Manifest]:
    """Return what lets the group of readers read an external control plane.

    The gateway may impersonate this group, and has no right to read itself: so the audit log there tells its reads from
    the requests of users.

    Args:
        readable: Resources as in `deployments.apps`, or `EVERYTHING`.
    """
    grouped: dict[str, list[str]] = {}
    for each in readable:
        plural, _, group = each.partition(".")
        grouped.setdefault(EVERYTHING if each == EVERYTHING else group, []).append(plural)
    grants = [Grant(group=group, resources=tuple(found), verbs=READ) for group, found in grouped.items()]
    role, name, api_version = names.ROLE_GATEWAY, names.READER_ROLE, f"{RBAC_GROUP}/v1"
    return [
        _object(api_version, "ClusterRole", name, role=role) | {"rules": [_rule(each) for each in grants]},
        _object(api_version, "ClusterRoleBinding", name, role=role)
        | {
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC_GROUP, "kind": "Group", "name": names.TENANT_READERS}],
        },
    ]


def _account(role: str) -> Manifest:
    """Return the ServiceAccount of a role."""
    account = _object(
        "v1", "ServiceAccount", names.service_account(role), namespace=names.SYSTEM_NAMESPACE, role=role
    )
    # A process outside the cluster gets a token by TokenRequest; a Deployment mounts its own.
    return account | {"automountServiceAccountToken": False}


def tenant_manifests() -> list[Manifest]:
    """Return the manifests of all roles for a tenant's control plane."""
    return [system_namespace(), *_of_side("tenant"), metrics_reader()]


def metrics_access() -> list[Manifest]:
    """Return what lets syncers serve the resource metrics API of a tenant with a control plane of its own.

    They register it, and ask one another by way of the control plane, as kubelets. It is no part of `tenant_manifests`,
    since whoever may use `nodes/proxy` reaches all containers of the tenant.
    """
    role = names.ROLE_SYNCER
    serving = [
        Grant(group=CORE, resources=("nodes/proxy",), verbs=("get",)),
        Grant(
            group="apiregistration.k8s.io",
            resources=("apiservices",),
            verbs=("get", "create", "patch", "delete"),
            names=(names.METRICS_API_SERVICE,),
        ),
    ]
    service = Grant(group=CORE, resources=("services",), verbs=("create",), names=(names.METRICS_SERVICE,))
    name = names.METRICS_SERVICE
    return [
        *_bound(name, role, "", serving),
        *_bound(name, role, names.SYSTEM_NAMESPACE, [service]),
    ]


def metrics_reader() -> Manifest:
    """Return the ClusterRole by which a tenant's users who may view Pods read their usage, as metrics-server's does."""
    labels = {f"{RBAC_GROUP}/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    found = _object(f"{RBAC_GROUP}/v1", "ClusterRole", "vcsync-metrics-reader")
    found["metadata"]["labels"] |= labels
    usage = Grant(group="metrics.k8s.io", resources=("pods", "nodes"), verbs=("get", "list"))
    return found | {"rules": [_rule(usage)]}


def _of_side(side: Side) -> list[Manifest]:
    return [
        document
        for role in names.META_ACCOUNTS
        if (side, role) in GRANTS
        for document in role_manifests(side, role)
    ]


def system_namespace() -> Manifest:
    """Return the namespace of vcsync's ServiceAccounts."""
    return _object("v1", "Namespace", names.SYSTEM_NAMESPACE)


def usage_namespace() -> Manifest:
    """Return the meta cluster's namespace of the running time of Pods."""
    return _object("v1", "Namespace", names.USAGE_NAMESPACE)


def drift_namespace() -> Manifest:
    """Return the meta cluster's namespace of the latest repairs."""
    return _object("v1", "Namespace", names.DRIFT_NAMESPACE)


def definitions_namespace() -> Manifest:
    """Return the meta cluster's namespace of the CustomResourceDefinitions that super clusters publish."""
    return _object("v1", "Namespace", names.DEFINITIONS_NAMESPACE)


def endpoints_namespace() -> Manifest:
    """Return the meta cluster's namespace of the endpoints that super clusters share."""
    return _object("v1", "Namespace", names.ENDPOINTS_NAMESPACE)


def virtual_cluster_namespace() -> Manifest:
    """Return the meta cluster's namespace of VirtualClusters."""
    return _object("v1", "Namespace", names.DEFAULT_VC_NAMESPACE)


def role_manifests(side: Side, role: str) -> list[Manifest]:
    """Return one role's ServiceAccount, roles and bindings on one side.

    The grants of `ROLE_STREAMS` in a super cluster are not bound: only tenants' namespaces may be reached, and the syncer
    binds them there.

    Raises:
        KeyError: the role does not talk to that kind of cluster.
    """
    grants = GRANTS[side, role]
    name = names.service_account(role)
    documents = [_account(role)]
    for namespace in sorted({grant.namespace for grant in grants}):
        bound = _bound(name, role, namespace, [grant for grant in grants if grant.namespace == namespace])
        documents += bound[:1] if (side, role) == ("super", names.ROLE_STREAMS) else bound
    return documents


def super_credentials_access(super_id: str, ref: SecretRef | None = None) -> list[Manifest]:
    """Return the meta cluster's Role and RoleBinding by which a syncer reads one super cluster's kubeconfig.

    Args:
        super_id: id of the super cluster.
        ref: Secret of the kubeconfig. None: the default Secret; see `credentials.super_credentials`.

    Raises:
        InvalidName: `super_id` is not a valid id.
    """
    ref = ref or SecretRef(name=names.super_secret(super_id))
    grant = Grant(group=CORE, resources=("secrets",), verbs=("get",), names=(ref.name,))
    name = f"{names.service_account(names.ROLE_SYNCER)}-{names.super_secret(super_id)}"
    return _bound(name, names.ROLE_SYNCER, ref.namespace, [grant])


def stream_credentials_access(super_id: str) -> list[Manifest]:
    """Return the Role and RoleBinding by which control planes read their kubeconfig of one super cluster.

    Raises:
        InvalidName: `super_id` is not a valid id.
    """
    secret = names.streams_secret(super_id)
    grant = Grant(group=CORE, resources=("secrets",), verbs=("get",), names=(secret,))
    name = f"{names.service_account(names.ROLE_STREAMS)}-{super_id}"
    return _bound(name, names.ROLE_STREAMS, names.SYSTEM_NAMESPACE, [grant])


def streams_binding(*roles: str) -> tuple[Manifest, list[Manifest]]:
    """Return `roleRef` and `subjects` of the RoleBinding in each super namespace; see `role_manifests`.

    Args:
        roles: Roles that reach the Pods there besides `ROLE_STREAMS`.
    """
    _, binding = _bound(
        names.service_account(names.ROLE_STREAMS),
        names.ROLE_STREAMS,
        "",
        list(GRANTS["super", names.ROLE_STREAMS]),
    )
    others = [{**binding["subjects"][0], "name": names.service_account(role)} for role in roles]
    return binding["roleRef"], [*binding["subjects"], *others]


def _bound(name: str, role: str, namespace: str, grants: list[Grant]) -> list[Manifest]:
    """Return a Role or ClusterRole with these grants, and its binding to the ServiceAccount of `role`."""
    kind = "Role" if namespace else "ClusterRole"
    api_version = f"{RBAC_GROUP}/v1"
    return [
        _object(api_version, kind, name, namespace=namespace, role=role)
        | {"rules": [_rule(g) for g in grants]},
        _object(api_version, f"{kind}Binding", name, namespace=namespace, role=role)
        | {
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name},
            "subjects": [
                {
                    "kind": "ServiceAccount",
                    "name": names.service_account(role),
                    "namespace": names.SYSTEM_NAMESPACE,
                }
            ],
        },
    ]


def _rule(grant: Grant) -> dict[str, Any]:
    if grant.urls:
        return {"nonResourceURLs": list(grant.urls), "verbs": list(grant.verbs)}
    rule: dict[str, Any] = {"apiGroups": [grant.group], "resources": list(grant.resources)}
    if grant.names:
        rule["resourceNames"] = list(grant.names)
    return rule | {"verbs": list(grant.verbs)}


def _object(api_version: str, kind: str, name: str, *, namespace: str = "", role: str = "") -> Manifest:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {PART_OF: PROJECT}
    if role:
        metadata["labels"]["app.kubernetes.io/component"] = role
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


class Confined(Struct, frozen=True, kw_only=True):
    """A role whose patches of a resource may only remove finalizers."""

    role: str
    resource: str


CONFINED: Final = (
    Confined(role=names.ROLE_SYNCER, resource="namespaceplacements"),
    Confined(role=names.ROLE_NSSCHEDULER, resource="virtualclusters"),
)

_UNCHANGED: Final = ("labels", "annotations", "ownerReferences")


def tenant_admission() -> list[Manifest]:
    """Return the policies of a tenant's control plane: `_no_streams`, and `_own_definitions_only`."""
    return _no_streams() + _own_definitions_only()


def _own_definitions_only() -> list[Manifest]:
    """Confine the namespace scheduler to definitions that it has made, and to those without webhook.

    RBAC cannot express this. A webhook for conversion would get all objects of a kind, and could change them.
    """
    account = names.service_account(names.ROLE_NSSCHEDULER)
    annotation = f"metadata.?annotations.orValue({{}})[?'{names.DEFINITION}'].orValue('') != ''"
    expressions = (
        (f"request.operation == 'CREATE' || oldObject.{annotation}", "change definitions that it has made"),
        ("object.spec.?conversion.?strategy.orValue('None') == 'None'", "write definitions without webhook"),
    )
    return _validating_policy(
        f"{account}-definitions",
        names.ROLE_NSSCHEDULER,
        group="apiextensions.k8s.io",
        operations=("CREATE", "UPDATE"),
        resource="customresourcedefinitions",
        validations=[
            {"expression": each, "message": f"{account} may only {what}", "reason": "Forbidden"}
            for each, what in expressions
        ],
    )


def _no_streams() -> list[Manifest]:
    """Return the policy that makes a tenant's own kube-apiserver explain why exec, attach and port-forward do not work.

    The policy applies while there are virtual nodes whose kubelet API no syncer serves, so it ends when the tenant leaves.
    Embedded control planes give the same explanation themselves. Logs are read by GET, which does not pass through admission.
    """
    name = "vcsync-no-streams"
    api_version = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [CORE],
        "apiVersions": ["v1"],
        "operations": ["CONNECT"],
        "resources": ["pods/exec", "pods/attach", "pods/portforward"],
    }
    return [
        _object(api_version, "ValidatingAdmissionPolicy", name)
        | {
            "spec": {
                "failurePolicy": "Ignore",
                "paramKind": {"apiVersion": "v1", "kind": "Node"},
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": NO_STREAMS, "reason": "Forbidden"}],
            }
        },
        _object(api_version, "ValidatingAdmissionPolicyBinding", name)
        | {
            "spec": {
                "policyName": name,
                "paramRef": {
                    "selector": {
                        "matchLabels": {names.VIRTUAL_NODE: names.TRUE},
                        "matchExpressions": [{"key": names.STREAMS, "operator": "DoesNotExist"}],
                    },
                    "parameterNotFoundAction": "Allow",
                },
                "validationActions": ["Deny"],
            }
        },
    ]


def admission_policies() -> list[Manifest]:
    """Return the meta cluster's policies that confine `CONFINED` roles to removing finalizers.

    RBAC cannot express this: a syncer that may patch a NamespacePlacement to remove its finalizer could also raise
    the quota in it. ValidatingAdmissionPolicy needs Kubernetes 1.30 or later.
    """
    policies = [document for confined in CONFINED for document in _policy(confined)]
    return [
        *policies,
        *_own_deletions_only(),
        *_conditions_only(),
        *_failures_only(),
        *_no_failures(),
        *_root_namespaces_only(),
    ]


def _own_deletions_only() -> list[Manifest]:
    """Confine the namespace scheduler's deletions to objects that `vcsync tenant add` made for tenants."""
    account = names.service_account(names.ROLE_NSSCHEDULER)
    rules = (
        (CORE, "namespaces", names.VC_ROOT_NAMESPACE, f"== '{names.TRUE}'", "root namespaces of tenants"),
        (names.GROUP, "tenants", names.VC_UID, "!= ''", "Tenants that were made for a VirtualCluster"),
    )
    return [
        document
        for group, resource, annotation, condition, what in rules
        for document in _validating_policy(
            f"{account}-{resource}",
            names.ROLE_NSSCHEDULER,
            group=group,
            operations=("DELETE",),
            resource=resource,
            validations=[
                {
                    "expression": "oldObject.metadata.?annotations.orValue({})"
                    f"[?'{annotation}'].orValue('') {condition}",
                    "message": f"{account} may only delete {what}",
                    "reason": "Forbidden",
                }
            ],
        )
    ]


def _root_namespaces_only() -> list[Manifest]:
    """Confine the tenant controller's namespaces and Secrets to root namespaces of tenants.

    RBAC cannot express this. With other Secrets the role could make itself tokens of other ServiceAccounts.
    """
    account = names.service_account(names.ROLE_TENANTS)
    is_root = (
        f"metadata.?annotations.orValue({{}})[?'{names.VC_ROOT_NAMESPACE}'].orValue('') == '{names.TRUE}'"
    )
    return [
        *_validating_policy(
            f"{account}-namespaces",
            names.ROLE_TENANTS,
            group=CORE,
            operations=("UPDATE", "DELETE"),
            resource="namespaces",
            validations=[
                {
                    "expression": f"oldObject.{is_root}",
                    "message": f"{account} may only change and delete root namespaces of tenants",
                    "reason": "Forbidden",
                }
            ],
        ),
        *_validating_policy(
            f"{account}-secrets",
            names.ROLE_TENANTS,
            group=CORE,
            operations=("CREATE", "UPDATE"),
            resource="secrets",
            validations=[
                {
                    "expression": f"namespaceObject.{is_root} && object.?type.orValue('') == 'Opaque'",
                    "message": f"{account} may only write Secrets of type Opaque in root namespaces of tenants",
                    "reason": "Forbidden",
                }
            ],
        ),
    ]


def _conditions_only() -> list[Manifest]:
    """Confine the namespace scheduler's writes to the status of VirtualClusters to conditions and the control plane's UID.

    The other fields define which tenants exist and which namespaces belong to them. A recorded UID cannot change anyway.
    """
    return _status_stays(
        names.ROLE_NSSCHEDULER,
        "virtualclusters",
        ("phase", "clusterNamespace", "message", "reason"),
        "may only change conditions and record controlPlaneUID in the status of virtualclusters",
    )


def _failures_only() -> list[Manifest]:
    """Confine the namespace scheduler's writes to the status of SuperClusters to the record of failures.

    The other fields say what super clusters have and how they are, which their syncers know.
    """
    return _status_stays(
        names.ROLE_NSSCHEDULER,
        "superclusters",
        [each.encode_name for each in fields(SuperClusterStatus) if each.name != "failure"],
        "may only record failures in the status of superclusters",
    )


def _no_failures() -> list[Manifest]:
    """Keep syncers from the record of failures, by which slices and Pods leave super clusters."""
    return _status_stays(
        names.ROLE_SYNCER,
        "superclusters",
        ("failure",),
        "may not change the record of failures in the status of superclusters",
    )


def _status_stays(role: str, plural: str, unchanged: Sequence[str], rule: str) -> list[Manifest]:
    """Keep a role from changing fields of the status of one of our kinds.

    Args:
        role: the role.
        plural: the kind's resource.
        unchanged: the fields.
        rule: the rule in words, after the name of the role's account.
    """
    account = names.service_account(role)
    return _validating_policy(
        f"{account}-{plural}-status",
        role,
        group=names.GROUP,
        operations=("UPDATE",),
        resource=f"{plural}/status",
        validations=[
            {
                "expression": " && ".join(map(_same_in_status, unchanged)),
                "message": f"{account} {rule}",
                "reason": "Forbidden",
            }
        ],
    )


def _same_in_status(field: str) -> str:
    """Return the CEL expression that a field of the status stays as it is."""
    return f"object.?status.orValue({{}}).?{field} == oldObject.?status.orValue({{}}).?{field}"


def _policy(confined: Confined) -> list[Manifest]:
    account = names.service_account(confined.role)
    same = [f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in _UNCHANGED]
    return _validating_policy(
        f"{account}-{confined.resource}",
        confined.role,
        group=names.GROUP,
        operations=("UPDATE",),
        resource=confined.resource,
        validations=[
            {
                "expression": " && ".join(["object.spec == oldObject.spec", *same]),
                "message": f"{account} may only remove finalizers of {confined.resource}: "
                "spec, labels, annotations and ownerReferences must stay as they are",
                "reason": "Forbidden",
            },
            {
                "expression": "object.metadata.?finalizers.orValue([])"
                ".all(f, f in oldObject.metadata.?finalizers.orValue([]))",
                "message": f"{account} may only remove finalizers of {confined.resource}, not add",
                "reason": "Forbidden",
            },
        ],
    )


def _validating_policy(
    name: str,
    role: str,
    *,
    group: str,
    operations: tuple[str, ...],
    resource: str,
    validations: list[dict[str, str]],
) -> list[Manifest]:
    """Return a policy for a role's requests on a resource, and its binding."""
    username = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
    api_version = "admissionregistration.k8s.io/v1"
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": list(operations),
            "resources": [resource],
        }
    ]
    return [
        _object(api_version, "ValidatingAdmissionPolicy", name, role=role)
        | {
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": rules},
                "matchConditions": [
                    {"name": "by-the-role", "expression": f"request.userInfo.username == '{username}'"}
                ],
                "validations": validations,
            }
        },
        _object(api_version, "ValidatingAdmissionPolicyBinding", name, role=role)
        | {"spec": {"policyName": name, "validationActions": ["Deny"]}},
    ]
