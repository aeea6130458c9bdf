"""Facts, problems, conditions and plans of a Tenant. Pure."""

from enum import Enum
from typing import Final, Literal

from msgspec import Struct

from vcsync.api import names
from vcsync.api.objects import Tenant, VirtualCluster
from vcsync.api.specs import AppliedTemplate
from vcsync.tenantcontroller.quota import ObservedQuota
from vcsync.tenantcontroller.request_limits import Door

CONTROL_PLANE_READY: Final = "ControlPlaneReady"
REGISTERED: Final = "Registered"
READY: Final = "Ready"
WITHIN_LIMITS: Final = "WithinLimits"
SUSPENDED: Final = names.SUSPENDED

Kind = Literal["Embedded", "External", "Registered"]


class Step(Enum):
    """A step towards the wanted state."""

    MANAGE = "manage"
    CREATE_CONTROL_PLANE = "create control plane"
    CREATE_VIRTUAL_CLUSTER = "create VirtualCluster"
    STORE_CREDENTIALS = "store credentials"
    SUSPEND = "suspend or resume"
    SET_LIMITS = "set limits"
    LIMIT_REQUESTS = "limit requests"
    SET_QUOTA = "set quota"
    DELETE_CONTROL_PLANE = "delete control plane"
    DELETE_VIRTUAL_CLUSTER = "delete VirtualCluster"
    DELETE_ROOT = "delete root namespace"
    RELEASE = "release"


class Problem(Struct, frozen=True):
    """The reason why the next step is impossible. The message names the remedy, and contains no secret."""

    reason: str
    message: str


class ControlPlane(Struct, frozen=True, kw_only=True):
    """The observed state of a Tenant's control plane.

    Attributes:
        state: whether it exists. Embedded: `Creating` until its first objects exist, `Leaving` during its deletion.
        uid: its identity, as in `status.controlPlaneUID`.
        kube_system: UID of its namespace kube-system, if it was read.
        own_nodes: whether it has nodes of its own: then it is a cluster, not a tenant's.
        endpoint: its URL, if it is known.
        kubeconfig_version: version of the Secret with its administrator's kubeconfig. Empty for an embedded one.
        quota: the quota that it enforces; None: there is none.
        suspended: whether the API server lets the tenant's users only read. None: it does not answer their requests.
        left: why the deletion of an embedded one is not complete.
        problem: why it cannot be used.
        door: the limits of its requests, if they pass an embedded control plane.
        aside: why an embedded one is set aside, so that only the operator reaches it. Empty: it is not.
    """

    state: Literal["Present", "Creating", "Leaving", "Absent", "Unknown"]
    uid: str = ""
    kube_system: str = ""
    own_nodes: bool = False
    endpoint: str = ""
    kubeconfig_version: str = ""
    quota: ObservedQuota | None = None
    suspended: bool | None = None
    left: str = ""
    problem: Problem | None = None
    door: Door | None = None
    aside: str = ""


UNKNOWN: Final = ControlPlane(state="Unknown")
ABSENT: Final = ControlPlane(state="Absent")


class Seen(Struct, frozen=True, kw_only=True):
    """Everything that a decision is based on.

    Attributes:
        tenant: the Tenant, with the settings of its template.
        control_plane: its control plane.
        virtual_cluster: the VirtualCluster of its name, if there is one.
        root: its root namespace; read only during a deletion.
        draining: why the removal of the VirtualCluster, or the suspension of the Tenant, is not complete.
        template: the template whose settings the Tenant has; None: none.
        template_problem: why these are not those of the template that it names.
    """

    tenant: Tenant
    control_plane: ControlPlane = UNKNOWN
    virtual_cluster: VirtualCluster | None = None
    root: Literal["Absent", "Present", "Deleting"] = "Absent"
    draining: str = ""
    template: AppliedTemplate | None = None
    template_problem: Problem | None = None


class Aspect(Struct, frozen=True):
    """A condition without its times."""

    type: str
    holds: bool | None
    reason: str
    message: str


class Plan(Struct, frozen=True, kw_only=True):
    """A decision.

    Attributes:
        step: the next step; None: there is none now.
        aspects: the conditions to show meanwhile.
        phase: summary of the conditions.
        kind: kind of the control plane; None: not decided.
        uid: identity of the control plane to record before the step.
        under_way: whether something else happens soon, so that the Tenant is worth another look.
        applied: whether all settings of the Tenant are applied.
    """

    step: Step | None = None
    aspects: tuple[Aspect, ...] = ()
    phase: Literal["Pending", "Running", "Suspending", "Suspended", "Terminating", "Error"] = "Pending"
    kind: Kind | None = None
    uid: str = ""
    under_way: bool = False
    applied: bool = False
