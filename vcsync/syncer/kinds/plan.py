"""The interface between the kinds, which decide, and the engine, which acts: actions as data, and the inputs of a decision.

A kind's `plan(v, p, context, view)` is level-based: it compares the cached objects `v` of the tenant and `p` of the super
cluster, and returns the next actions in both directions. The same inputs give the same plan, and a settled pair gives
`EMPTY`. The engine executes the actions in order, stops at the first that fails, observes the answers in its caches, and
reconciles the item again when one of its inputs has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from vcsync.api.specs import IngressPolicy, PodPolicy, ServicePolicy, ShownNodes
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.ingress_rules import Claims

Side = Literal["tenant", "super"]


class Create(Struct, frozen=True):
    """Create an object.

    When the API answers AlreadyExists, the engine reads the object live and plans again with it. The caches may not select
    it, since it has no controlled label. The super cluster's own `default` ServiceAccount, for instance, is adopted; a
    foreign object is reported and not changed.
    """

    side: Side
    resource: Resource
    namespace: str
    """Namespace on that side; "" for cluster scoped resources."""
    body: dict[str, Any]
    """The whole object, including apiVersion and kind."""


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

    With `confirm` the engine first reads the *source* live, which is the item's object on the other side. The deletion is
    right only if the source does not exist, is being deleted, or has another UID than the pair (`tenancy.x-k8s.io/uid` of
    the super object is the UID of the tenant object). If the source exists, the cache was outdated and nothing is deleted.
    If it cannot be read, nothing is deleted either.
    """

    side: Side
    resource: Resource
    namespace: str
    name: str
    uid: str
    grace_seconds: int | None = None
    confirm: bool = False
    resource_version: str = ""
    """Version as a further precondition, if the object's state is the reason for the deletion; "" for any version."""


class ConfirmAbsent(Struct, frozen=True):
    """Read an object live before the actions that follow. They are right only if it does not exist.

    If it exists, the item is planned again with the object, which the caches may not select.
    """

    side: Side
    resource: Resource
    namespace: str
    name: str


class Bind(Struct, frozen=True):
    """Bind the tenant's Pod to a virtual node, and write its status with it.

    The Pod's UID and version are preconditions: a Pod that another super cluster has got meanwhile is not bound here. Both are
    one write if the tenant's API server offers that, otherwise a Binding and a patch.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    """Version of the Pod that the plan was made from."""
    node: str
    """Name of the virtual node."""
    status: dict[str, Any] | None = None
    """A merge patch of the subresource `status`, as that of a `Patch`; None if nothing of it differs."""
    early: bool = False
    """Whether the kubelet has reported nothing yet, so that its first status may come in time for the same write."""


class EnsureNode(Struct, frozen=True):
    """Create the virtual node of this node in the tenant unless it exists (see `node.virtual_node`), before a Bind."""

    node: str
    """Name of the node in the super cluster."""


class Notify(Struct, frozen=True):
    """Emit an Event about the item's tenant object. The recorder aggregates repeats."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class TokenSource(Struct, frozen=True):
    """One ServiceAccount token that a Pod mounts."""

    key: str
    """Key in the token Secret."""
    audience: str
    """"" means the API server's default audience."""
    expiration_seconds: int


class RequestToken(Struct, frozen=True):
    """Request tokens from the tenant's API, bound to the Pod, and put them into the Pod's token Secret in the super cluster.

    `token.token_request`, `token.secret_body` and `token.secret_patch` return the request bodies and the Secret.
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


Action = Create | Patch | Delete | ConfirmAbsent | Bind | EnsureNode | Notify | RequestToken


class Dependency(Struct, frozen=True):
    """An object whose appearance or change may end a wait. Names are those of its side."""

    side: Side
    resource: Resource
    namespace: str
    name: str


class Wait(Struct, frozen=True):
    """The reason why an item is not settled although no action is possible now."""

    reason: str
    """One sentence for people, which `vcsync explain` and the status page show."""
    on: tuple[Dependency, ...] = ()
    after: float | None = None
    """Seconds until the item is reconciled again even if nothing changes; None to wait for a change."""
    on_others: tuple[Dependency, ...] = ()
    """Objects of the super cluster that may end the wait and are not the tenant's: of other tenants or the operator."""


class Plan(Struct, frozen=True):
    """The actions to execute now, in order, and the reason why the item waits afterwards; None if it does not."""

    actions: tuple[Action, ...] = ()
    wait: Wait | None = None


EMPTY = Plan()


class TenantContext(Struct, frozen=True, kw_only=True):
    """The settings of the tenant and of this super cluster that plans use."""

    key: str
    """Cluster key: the tenant's name in every super cluster."""
    vc_name: str
    vc_namespace: str
    vc_uid: str
    super_id: str
    api_host: str
    """The address at which Pods reach the tenant's API: an IP address or a DNS name."""
    api_port: int
    cluster_domain: str = ""
    opaque_prefixes: tuple[str, ...] = ()
    transparent_prefixes: tuple[str, ...] = ()
    policy: PodPolicy = PodPolicy()
    service_policy: ServicePolicy = ServicePolicy()
    ingress_policy: IngressPolicy = IngressPolicy()
    tenant: str = ""
    """Name of the tenant, which patterns of the operator's policies may contain."""
    priority_classes: Mapping[str, str] = {}
    """The tenant's PriorityClass name -> the super cluster's. Others are dropped, unless the super cluster publishes them."""
    runtime_classes: Mapping[str, str] = {}
    """The tenant's RuntimeClass name -> the super cluster's; "" if the operator publishes none for it. Follows changes."""
    dns_nameserver: str = ""
    """ClusterIP of the tenant's `kube-system/kube-dns` in this super cluster; "" if it has none here."""
    cluster_ips: str = ""
    """Range of cluster IPs that are the tenant's own in this super cluster, in CIDR notation; "" if it has none here."""
    dns_options: tuple[tuple[str, str], ...] = (("ndots", "5"),)
    shown_nodes: ShownNodes | None = None
    """Labels and taints of nodes that the operator shows to tenants on virtual nodes; None if that is not known yet."""
    kubelet: tuple[str, int] | None = None
    """Address and port at which the tenant's kube-apiserver reaches the kubelet API of virtual nodes, if it is served."""
    networks: Mapping[str, str] = {}
    """Id of a super cluster -> the network in which it shares its Pod addresses, of those that are in one."""
    lost: frozenset[str] = frozenset()
    """Ids of the super clusters that are lost, so that no other one reaches their Pods."""
    out_of_touch: bool = False
    """True while this syncer cannot reach the super cluster or the meta cluster. Its caches may be old."""
    unschedulable_seconds: float = 60.0
    """Seconds without a node for a copy after which this super cluster says that it refuses the Pod."""
    binds_streams: bool = False
    """Whether the syncer keeps RoleBindings for logs and exec in super namespaces: it has the rights for that."""


class Placement(Struct, frozen=True):
    """The ledger's entry of one tenant namespace."""

    placements: Mapping[str, int]
    """Super cluster id -> slices, of all super clusters of the namespace."""
    slice_size: Mapping[str, str]
    """Resource name -> quantity of one slice."""
    hard: Mapping[str, str]
    """`hard` of the ResourceQuota here: slices on this super cluster times slice size, e.g. {"requests.cpu": "4"}."""
    devices: str = ""
    """Devices of each DeviceClass that the namespace's claims may ask for here; "" for no limit."""
    name_server_only: bool = False
    """Whether the namespace has no slices here, and only the Service and the Endpoints of the name server are synced."""


class View(Protocol):
    """The caches that a plan may read besides its pair. Nothing is read live."""

    def tenant(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """Return the tenant's object, by its tenant namespace."""

    def super(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        """Return the super cluster's object, by its super namespace."""

    def placement(self, namespace: str) -> Placement | None:
        """Return the ledger's entry of a tenant namespace; None if it has no slices here."""

    def deletion_seen(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Return whether the tenant's watch reported the deletion of exactly this object, so that no live read is needed."""

    def on_cordoned_nodes(self, namespace: str) -> Iterator[Envelope]:
        """Yield the copies of the Pods of a tenant namespace on nodes that are unschedulable, as those being drained are."""

    def turn(self, seconds: float) -> int:
        """Return the number of the present period of this many seconds. Syncers of other super clusters count alike."""

    def provisioning_failed_for(self, uid: str) -> float | None:
        """Return the seconds since the super cluster first failed to provision the claim with this UID; None if it did not."""

    def unschedulable_for(self, uid: str) -> float:
        """Return the seconds since a plan first found the copy of a Pod without a node that suits it, by the copy's UID."""

    def host_holder(self, host: str, *, before: tuple[str, str] | None = None) -> Dependency | None:
        """Return an Ingress of somebody else in the super cluster that has a host; see `HostIndex.holder`."""

    def is_backend(self, namespace: str, service: str) -> bool:
        """Return whether an Ingress in a super namespace sends requests to a Service."""


class Parts(Struct, frozen=True):
    """The raw parts of an object that a cache has to keep for a kind."""

    spec: bool = True
    status: bool = True


def no_item(_: Envelope) -> None:
    """Return None, for related objects that are found by `Related.names`."""


class Related(Struct, frozen=True):
    """Another resource whose changes concern items of a kind."""

    side: Side
    resource: Resource
    item: Callable[[Envelope], tuple[str, str] | None] = no_item
    """Returns (tenant namespace, name) of the item to reconcile when this object changes; None if there is none."""
    names: Callable[[Envelope], str] | None = None
    """Returns the name of the related object, from a tenant's object of the kind.

    Items of all objects in the namespace that name the changed object are reconciled.
    """


PlanFunction = Callable[[Envelope | None, Envelope | None, TenantContext, View], Plan]


def same_name(name: str) -> str | None:
    """Return the name unchanged, for kinds whose objects keep their names."""
    return name


class Kind(Struct, frozen=True, kw_only=True):
    """Declaration of a synced kind. An item is (tenant, kind name, tenant namespace, tenant object name)."""

    name: str
    """Plural, e.g. `pods`."""
    resource: Resource
    plan: PlanFunction
    super_name: Callable[[str], str | None] = same_name
    """The tenant's object name -> the super cluster's; None if it has no counterpart there (the plan gets p=None).

    The engine maps Namespaces itself, since their super name needs the cluster key (`names.super_namespace`).
    """
    tenant_name: Callable[[str], str | None] = same_name
    """The super cluster's object name -> the tenant's; None if it is not an item of this kind."""
    tenant_selector: str = ""
    """Label selector of the tenant's objects that are read."""
    super_selector: str = ""
    """Label selector of the copies, in addition to that of all copies."""
    tenant_parts: Parts = Parts()
    super_parts: Parts = Parts()
    digested: bool = False
    """Whether the tenant's objects may be large and are cached as digests. The engine reads them to plan."""
    optional: bool = False
    """Whether servers may lack the kind, or the right to read it: its objects then wait, and everything else is synced."""
    follows_status: bool = False
    """Whether p's spec also follows its status and other objects, so that a change of it alone is no repair of a drift."""
    reads: tuple[Resource, ...] = ()
    """Other resources of the super cluster without which objects of the kind wait."""
    claims: Callable[[dict[str, Any]], Claims] | None = None
    """Returns what only one tenant of a super cluster can have, from the body of a creation or a merge patch of p."""
    whole: bool = False
    """Whether the super cluster's cache contains objects that no syncer has created, because they matter to tenants."""
    upward: bool = False
    """Whether parts of p are copied up, so that a change of p needs a reconcile even if p is as desired."""
    related: tuple[Related, ...] = ()
