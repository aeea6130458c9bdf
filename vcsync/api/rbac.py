"""What each role may do, and where: one table, and the Kubernetes objects made from it.

A *side* is a kind of cluster a role talks to: the meta cluster, a super cluster, a tenant's control plane.
On each side a role is a ServiceAccount `vcsync-<role>` in `vcsync-system` with the least it needs, nothing by
wildcard.
"""

from typing import Any, Final, Literal

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import SecretRef

Side = Literal["meta", "super", "tenant"]
Manifest = dict[str, Any]

READ: Final = ("get", "list", "watch")
CORE: Final = ""
RBAC_GROUP: Final = "rbac.authorization.k8s.io"
NODE_LEASE_NAMESPACE: Final = "kube-node-lease"
"""Where the Leases of Nodes are, in every Kubernetes cluster."""


class Grant(Struct, frozen=True, kw_only=True):
    """Verbs on resources: in all namespaces, or in one; on all objects, or on those of the given names."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str = ""


def _tenant_credentials(role: str) -> Grant:
    """Root namespaces come and go, so the Secrets are named instead: the role's own and VirtualCluster's."""
    return Grant(
        group=CORE,
        resources=("secrets",),
        verbs=("get",),
        names=(names.role_secret(role), names.ADMIN_KUBECONFIG_SECRET),
    )


_READ_RUNTIME_CLASSES = Grant(group="node.k8s.io", resources=("runtimeclasses",), verbs=READ)
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
        # To remove its drain finalizer. Finalizers have no subresource of their own (`finalizers` in RBAC
        # only guards blockOwnerDeletion), so this patches the object; `admission_policies` confines it.
        Grant(group=names.GROUP, resources=("namespaceplacements",), verbs=("patch",)),
        _tenant_credentials(names.ROLE_SYNCER),
        # The UID of kube-system identifies the meta cluster.
        Grant(group=CORE, resources=("namespaces",), verbs=("get",), names=("kube-system",)),
        _WRITE_EVENTS,
        _LEADER_ELECTION,
    ),
    ("meta", names.ROLE_NSSCHEDULER): (
        Grant(group=names.GROUP, resources=("virtualclusters", "superclusters"), verbs=READ),
        # To remove its drain finalizer; confined as above.
        Grant(group=names.GROUP, resources=("virtualclusters",), verbs=("patch",)),
        Grant(
            group=names.GROUP,
            resources=("namespaceplacements",),
            verbs=(*READ, "create", "update", "patch", "delete"),
        ),
        Grant(group=names.GROUP, resources=("namespaceplacements/status",), verbs=("update", "patch")),
        _tenant_credentials(names.ROLE_NSSCHEDULER),
        # To remove the root namespaces of tenants that have left; `admission_policies` confines it to those.
        Grant(group=CORE, resources=("namespaces",), verbs=("get", "delete")),
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
        _WRITE_EVENTS,
        _LEADER_ELECTION,
    ),
    ("super", names.ROLE_SYNCER): (
        # Super namespaces are made at run time, so the grants cannot be bound to namespaces. No roles, no
        # bindings, no tokens, no exec: nothing by which a syncer could become more than this.
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
            ),
            verbs=(*READ, "create", "patch", "delete"),
        ),
        Grant(
            group=CORE,
            resources=("pods/status", "pods/ephemeralcontainers", "pods/resize"),
            verbs=("patch",),
        ),
        Grant(group=CORE, resources=("nodes", "events"), verbs=READ),
        _READ_RUNTIME_CLASSES,
        # What Pods use, for tenants' HorizontalPodAutoscalers.
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
        Grant(group=CORE, resources=("pods/binding",), verbs=("create",)),
        Grant(group=CORE, resources=("pods/status",), verbs=("patch",)),
        Grant(group=CORE, resources=("pods",), verbs=("delete",)),
        # A Pod that loses its place waits for the tenant's PodDisruptionBudgets.
        Grant(group=CORE, resources=("pods/eviction",), verbs=("create",)),
        Grant(group=CORE, resources=("services", "services/status"), verbs=("patch",)),
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
    ),
    ("tenant", names.ROLE_NSSCHEDULER): (
        Grant(group=CORE, resources=("namespaces",), verbs=(*READ, "patch")),
        Grant(group=CORE, resources=("resourcequotas",), verbs=READ),
        # The virtual nodes of super clusters that are no longer in the pool: their syncers are gone as well.
        Grant(group=CORE, resources=("nodes",), verbs=("list", "delete")),
        _WRITE_EVENTS,
    ),
    ("tenant", names.ROLE_PODSCHEDULER): (
        Grant(group=CORE, resources=("pods",), verbs=(*READ, "patch")),
        Grant(group=CORE, resources=("pods/status",), verbs=("patch",)),
        Grant(group=CORE, resources=("namespaces",), verbs=READ),
        _WRITE_EVENTS,
    ),
}


def meta_manifests() -> list[Manifest]:
    """Return what the roles need in the meta cluster, but for access to super clusters' credentials."""
    namespaces = [system_namespace(), virtual_cluster_namespace()]
    return [*namespaces, *_of_side("meta"), *admission_policies()]


def super_manifests(super_id: str | None = None) -> list[Manifest]:
    """Return what the syncer needs in a super cluster; with an id, labelled as made for that super cluster."""
    documents = [system_namespace(), *_of_side("super")]
    if super_id is not None:
        for document in documents:
            document["metadata"].setdefault("labels", {})[names.MADE_FOR_SUPER_CLUSTER] = super_id
    return documents


def tenant_manifests() -> list[Manifest]:
    """Return what the roles need in a tenant's control plane."""
    return [system_namespace(), *_of_side("tenant")]


def _of_side(side: Side) -> list[Manifest]:
    return [
        document for role in names.ROLES if (side, role) in GRANTS for document in role_manifests(side, role)
    ]


def system_namespace() -> Manifest:
    """Return the namespace of our ServiceAccounts."""
    return _object("v1", "Namespace", names.SYSTEM_NAMESPACE)


def virtual_cluster_namespace() -> Manifest:
    """Return the meta cluster's namespace of VirtualClusters."""
    return _object("v1", "Namespace", names.DEFAULT_VC_NAMESPACE)


def role_manifests(side: Side, role: str) -> list[Manifest]:
    """Return one role's ServiceAccount, roles and bindings on one side.

    Raises:
        KeyError: the role does not talk to that kind of cluster.
    """
    grants = GRANTS[side, role]
    name = names.service_account(role)
    documents = [
        _object("v1", "ServiceAccount", name, namespace=names.SYSTEM_NAMESPACE, role=role)
        # Whoever runs outside the cluster has a token made for it; a Deployment asks for its own.
        | {"automountServiceAccountToken": False}
    ]
    for namespace in sorted({grant.namespace for grant in grants}):
        documents += _bound(
            name, role, namespace, [grant for grant in grants if grant.namespace == namespace]
        )
    return documents


def super_credentials_access(super_id: str, ref: SecretRef | None = None) -> list[Manifest]:
    """Return the meta cluster's Role and RoleBinding by which a syncer reads one super cluster's kubeconfig.

    Args:
        super_id: id of the super cluster.
        ref: where the kubeconfig stands, if not in the usual Secret; see `credentials.super_credentials`.

    Raises:
        InvalidName: `super_id` is none.
    """
    ref = ref or SecretRef(name=names.super_secret(super_id))
    grant = Grant(group=CORE, resources=("secrets",), verbs=("get",), names=(ref.name,))
    name = f"{names.service_account(names.ROLE_SYNCER)}-{names.super_secret(super_id)}"
    return _bound(name, names.ROLE_SYNCER, ref.namespace, [grant])


def _bound(name: str, role: str, namespace: str, grants: list[Grant]) -> list[Manifest]:
    """Return a role with these grants and its binding to the ServiceAccount of `role`."""
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
    rule: dict[str, Any] = {"apiGroups": [grant.group], "resources": list(grant.resources)}
    if grant.names:
        rule["resourceNames"] = list(grant.names)
    return rule | {"verbs": list(grant.verbs)}


def _object(api_version: str, kind: str, name: str, *, namespace: str = "", role: str = "") -> Manifest:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"app.kubernetes.io/part-of": "vcsync"}
    if role:
        metadata["labels"]["app.kubernetes.io/component"] = role
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


class Confined(Struct, frozen=True, kw_only=True):
    """A role whose patches of a resource may do nothing but take finalizers away."""

    role: str
    resource: str


CONFINED: Final = (
    Confined(role=names.ROLE_SYNCER, resource="namespaceplacements"),
    Confined(role=names.ROLE_NSSCHEDULER, resource="virtualclusters"),
)

_UNCHANGED: Final = ("labels", "annotations", "ownerReferences")


def admission_policies() -> list[Manifest]:
    """Return the meta cluster's policies that confine `CONFINED` roles to removing finalizers.

    RBAC cannot say it: a syncer that may patch a NamespacePlacement to remove its finalizer could raise the
    quota in it, too. ValidatingAdmissionPolicy: Kubernetes 1.30 and later.
    """
    return [document for confined in CONFINED for document in _policy(confined)] + _root_namespaces_only()


def _root_namespaces_only() -> list[Manifest]:
    """Confine the namespace scheduler's deletions of namespaces to root namespaces of tenants."""
    account = names.service_account(names.ROLE_NSSCHEDULER)
    name = f"{account}-namespaces"
    return _validating_policy(
        name,
        names.ROLE_NSSCHEDULER,
        group=CORE,
        operation="DELETE",
        resource="namespaces",
        validations=[
            {
                "expression": "oldObject.metadata.?annotations.orValue({})"
                f"[?'{names.VC_ROOT_NAMESPACE}'].orValue('') == '{names.TRUE}'",
                "message": f"{account} may only delete root namespaces of tenants",
                "reason": "Forbidden",
            }
        ],
    )


def _policy(confined: Confined) -> list[Manifest]:
    account = names.service_account(confined.role)
    same = [f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in _UNCHANGED]
    return _validating_policy(
        f"{account}-{confined.resource}",
        confined.role,
        group=names.GROUP,
        operation="UPDATE",
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
    operation: str,
    resource: str,
    validations: list[dict[str, str]],
) -> list[Manifest]:
    """Return a policy on what a role does with a resource, and its binding."""
    username = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.service_account(role)}"
    api_version = "admissionregistration.k8s.io/v1"
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": [operation],
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
