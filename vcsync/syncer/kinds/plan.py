"""The language between the kinds (which decide) and the engine (which acts): actions as data, and what a decision may read.

A kind's `plan(v, p, context, view)` is level-based: it looks at the tenant's object `v` and the super cluster's object `p`
as the caches have them and says what to do next, in both directions. The same inputs give the same plan, and a pair that
has settled gives `EMPTY`. The engine executes the actions in order, stops at the first that fails, observes the
answers in its caches and reconciles the item again when something it reads has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from vcsync.api.specs import PodPolicy, ServicePolicy
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import Resource

Side = Literal["tenant", "super"]


class Create(Struct, frozen=True):
    """Create an object.

    When the API answers AlreadyExists, the engine reads the object live and plans again with it: the name may be
    held by an object the caches do not select (no controlled label), for instance the super cluster's own `default`
    ServiceAccount, which is adopted, or by a stranger, which is reported and left alone.
    """

    side: Side
    resource: Resource
    namespace: str
    """Namespace on that side; "" for cluster scoped resources."""
    body: dict[str, Any]
    """The whole object, apiVersion and kind included."""


class Patch(Struct, frozen=True):
    """Change an object: the smallest patch, with the UID precondition already in its body (`metadata.uid`)."""

    side: Side
    resource: Resource
    namespace: str
    name: str
    uid: str
    patch: dict[str, Any]
    kind: Literal["merge", "strategic"] = "merge"
    subresource: str = ""


class Delete(Struct, frozen=True):
    """Delete an object, with UID precondition.

    With `confirm` the engine first reads the *source* live, that is the item's object on the other side: the deletion is
    only right if the source is absent, is being deleted, or is another one (its UID is not the one the doomed pair shares:
    `tenancy.x-k8s.io/uid` of the super object equals the UID of the tenant object). If it is there after all, the cache
    was behind: nothing is deleted. If it cannot be read, nothing is deleted either.
    """

    side: Side
    resource: Resource
    namespace: str
    name: str
    uid: str
    grace_seconds: int | None = None
    confirm: bool = False


class Bind(Struct, frozen=True):
    """POST a Binding of the tenant's Pod to a virtual node, with the Pod's UID."""

    namespace: str
    name: str
    uid: str
    node: str
    """Name of the virtual node."""


class EnsureNode(Struct, frozen=True):
    """Make sure the tenant has the virtual node of this node (see `node.virtual_node`); precedes a Bind."""

    node: str
    """Name of the node in the super cluster."""


class Notify(Struct, frozen=True):
    """Emit an Event about the item's tenant object. The recorder aggregates repeats."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class TokenSource(Struct, frozen=True):
    """One ServiceAccount token a Pod wants mounted."""

    key: str
    """Key in the token Secret."""
    audience: str
    """"" means the API server's default audience."""
    expiration_seconds: int


class RequestToken(Struct, frozen=True):
    """Request tokens from the tenant's API, bound to the Pod, and put them into the Pod's token Secret in the super cluster.

    The request bodies and the Secret are made by `token.token_request`, `token.secret_body` and `token.secret_patch`.
    """

    namespace: str
    """Tenant namespace."""
    pod_name: str
    pod_uid: str
    """UID of the tenant's Pod."""
    service_account: str
    super_namespace: str
    secret_name: str
    secret_uid: str
    """UID of the Secret to renew; "" to create it."""
    tokens: tuple[TokenSource, ...]


Action = Create | Patch | Delete | Bind | EnsureNode | Notify | RequestToken


class Dependency(Struct, frozen=True):
    """An object whose appearance or change may end a wait. Names are those of its side."""

    side: Side
    resource: Resource
    namespace: str
    name: str


class Wait(Struct, frozen=True):
    """Why an item is not settled though there is nothing more to do now."""

    reason: str
    """One sentence for people; shown by `vcsync explain` and the status page."""
    on: tuple[Dependency, ...] = ()
    after: float | None = None
    """Seconds until the item is worth another look even if nothing changes; None: only when something changes."""


class Plan(Struct, frozen=True):
    """What to do now, in order, and what the item then waits for."""

    actions: tuple[Action, ...] = ()
    wait: Wait | None = None


EMPTY = Plan()


class TenantContext(Struct, frozen=True, kw_only=True):
    """What a plan needs to know of the tenant and of this super cluster."""

    key: str
    """Cluster key: the tenant's name in every super cluster."""
    vc_name: str
    vc_namespace: str
    vc_uid: str
    super_id: str
    api_host: str
    """Where Pods reach the tenant's API: an IP address or a DNS name."""
    api_port: int
    cluster_domain: str = ""
    opaque_prefixes: tuple[str, ...] = ()
    transparent_prefixes: tuple[str, ...] = ()
    policy: PodPolicy = PodPolicy()
    service_policy: ServicePolicy = ServicePolicy()
    priority_classes: Mapping[str, str] = {}
    """The tenant's PriorityClass name -> the super cluster's; what is not named here is dropped."""
    runtime_classes: Mapping[str, str] = {}
    """The tenant's RuntimeClass name -> the super cluster's with the same handler; "" if that offers none."""
    dns_nameserver: str = ""
    """ClusterIP, in this super cluster, of the tenant's `kube-system/kube-dns`; "" when it has none here."""
    dns_options: tuple[tuple[str, str], ...] = (("ndots", "5"),)
    node_taint_keys: frozenset[str] = frozenset()
    """Keys of node taints that the operator shows to tenants on virtual nodes."""


class Placement(Struct, frozen=True):
    """What the ledger says about one tenant namespace."""

    placements: Mapping[str, int]
    """Super cluster id -> slices, of all super clusters of the namespace."""
    slice_size: Mapping[str, str]
    """Resource name -> quantity of one slice."""
    hard: Mapping[str, str]
    """`hard` of the ResourceQuota here: slices on this super cluster times slice size, e.g. {"requests.cpu": "4"}."""
    name_server_only: bool = False
    """No slices are here: only the tenant's name server is reached here, by a Service with the tenant's own Endpoints."""


class View(Protocol):
    """What a plan may read beside its pair: the caches, nothing live."""

    def tenant(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """The tenant's object, by its tenant namespace."""

    def super(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """The super cluster's object, by its super namespace."""

    def placement(self, namespace: str) -> Placement | None:
        """The ledger's entry of a tenant namespace; None when it has no slices here."""

    def deletion_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Whether the tenant's watch itself reported the deletion of exactly this object (so no live read is needed)."""


class Parts(Struct, frozen=True):
    """Which raw parts of an object a cache has to keep for a kind."""

    spec: bool = True
    status: bool = True


class Related(Struct, frozen=True):
    """Another resource whose changes concern items of a kind."""

    side: Side
    resource: Resource
    item: Callable[[Envelope], tuple[str, str] | None]
    """(tenant namespace, name) of the item to reconcile when this object changes; None: none of ours."""


PlanFunction = Callable[[Envelope | None, Envelope | None, TenantContext, View], Plan]


def same_name(name: str) -> str | None:
    """The mapping of kinds whose objects keep their names."""
    return name


class Kind(Struct, frozen=True, kw_only=True):
    """Declaration of a synced kind. An item is (tenant, kind name, tenant namespace, tenant object name)."""

    name: str
    """Plural, e.g. `pods`."""
    resource: Resource
    plan: PlanFunction
    super_name: Callable[[str], str | None] = same_name
    """Tenant's object name -> the super cluster's; None: this name has no counterpart there (the plan gets p=None).

    Namespaces are special: their super name needs the cluster key (`names.super_namespace`), the engine maps them.
    """
    tenant_name: Callable[[str], str | None] = same_name
    """The super cluster's object name -> the tenant's; None: not an item of this kind."""
    tenant_parts: Parts = Parts()
    super_parts: Parts = Parts()
    digested: bool = False
    """Whether the tenant's objects may be large and are kept as digests; the engine reads them to plan."""
    upward: bool = False
    """Whether anything of p travels up (a change of p is work even when p is healthy)."""
    related: tuple[Related, ...] = ()
