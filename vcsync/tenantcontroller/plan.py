"""Decides the next step for a Tenant from observed facts. Pure.

A Tenant is managed once it has the finalizer `names.TENANT_FINALIZER`. The steps of its life, each of which may be repeated:

* Creation: finalizer, control plane (embedded only), VirtualCluster, credentials of the roles, limits of its work and requests.
* Suspension: the API server refuses writes; a limit of the VirtualCluster takes its slices away.
* Deletion: deletion of the control plane begins (embedded only), which invalidates its credentials; VirtualCluster, whose
  removal drains the super clusters; root namespace; end of the control plane; finalizer.

A Tenant that `vcsync tenant add` registered does not have this finalizer. The controller writes only
its status.
"""

from typing import Any, Final

from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.conditions import condition_of
from vcsync.api.objects import Tenant, VirtualCluster, to_wire
from vcsync.api.specs import DEFAULT_WEIGHT, AppliedTemplate
from vcsync.kube.errors import Status
from vcsync.tenancy.proof import recorded_uid
from vcsync.tenantcontroller.model import (
    CONTROL_PLANE_READY,
    READY,
    REGISTERED,
    SUSPENDED,
    WITHIN_LIMITS,
    Aspect,
    ControlPlane,
    Kind,
    Plan,
    Problem,
    Seen,
    Step,
)
from vcsync.tenantcontroller.quota import NOT_ENFORCED, is_set, quota_problem
from vcsync.tenantcontroller.request_limits import wanted, within
from vcsync.tenantcontroller.set_aside import while_aside
from vcsync.tenantcontroller.template import NOT_APPLIED, aspect

LIMITS: Final = (
    "weight",
    "quota",
    "defaultQuota",
    "sliceSize",
    "suspended",
    "failover",
    "failBack",
    "podReplacementPolicy",
)
"""Fields of a Tenant's spec that its VirtualCluster has as well."""


def kind_of(tenant: Tenant) -> Kind | None:
    """Return the kind of control plane that a Tenant asks for; None: one that does not exist here."""
    wanted = tenant.spec.control_plane
    if wanted is None or wanted.embedded is not None:
        return "Embedded"
    return "External" if wanted.external is not None else None


def is_registered_only(tenant: Tenant, virtual_cluster: VirtualCluster | None) -> bool:
    """Return whether a command or a person registered the tenant, so that its Tenant object manages nothing.

    A Tenant with `spec.controlPlane` is always managed: setting it hands a registered tenant over.
    """
    if names.TENANT_FINALIZER in tenant.finalizers or tenant.spec.control_plane is not None:
        return False
    marks = (names.REGISTERED_BY, names.VC_UID)
    return virtual_cluster is not None or any(mark in tenant.annotations for mark in marks)


def plan(seen: Seen) -> Plan:
    """Return the next step for a Tenant, and its conditions until then."""
    tenant = seen.tenant
    if is_registered_only(tenant, seen.virtual_cluster):
        return while_aside(_registered(seen), seen)
    managed = names.TENANT_FINALIZER in tenant.finalizers
    if tenant.deleting:
        return _deletion(seen) if managed else Plan(phase="Terminating")
    if not managed:
        return Plan(
            step=Step.MANAGE, aspects=_pending("Pending", "the tenant controller has seen the Tenant")
        )
    made = while_aside(_creation(seen), seen)
    shown = aspect(seen.template, seen.template_problem, applied=made.applied)
    return replace(made, aspects=(*made.aspects, *shown))


# Registered by a command


def _registered(seen: Seen) -> Plan:
    vc = seen.virtual_cluster
    if vc is None:
        message = "it is registered with 'vcsync tenant add', which has not made its VirtualCluster yet: run it again"
        aspects = (Aspect(REGISTERED, False, "NoVirtualCluster", message),)
    elif vc.deleting:
        aspects = (Aspect(REGISTERED, False, "Leaving", "it is being removed from the pool"),)
    elif vc.status.phase != "Running":
        message = "its registration is not complete: run 'vcsync tenant add' again"
        aspects = (Aspect(REGISTERED, False, "Incomplete", message),)
    elif seen.tenant.spec.resource_quota is not None:
        by_command = Aspect(REGISTERED, True, "ByCommand", "a command registered it")
        problem = Aspect(READY, False, "QuotaNotEnforced", NOT_ENFORCED)
        return Plan(aspects=(by_command, problem), phase="Error", kind="Registered")
    elif seen.tenant.spec.template is not None:
        by_command = Aspect(REGISTERED, True, "ByCommand", "a command registered it")
        problem = Aspect(READY, False, "TemplateNotApplied", NOT_APPLIED)
        return Plan(aspects=(by_command, problem), phase="Error", kind="Registered")
    else:
        message = "a command registered it: 'vcsync tenant remove' or 'vcsync tenant delete' removes it"
        aspects = (Aspect(REGISTERED, True, "ByCommand", message),)
    return Plan(
        aspects=(*aspects, *_suspended_by_command(seen.tenant, vc), replace(aspects[0], type=READY)),
        phase="Running" if aspects[0].holds else "Pending",
        kind="Registered",
    )


def _suspended_by_command(tenant: Tenant, vc: VirtualCluster | None) -> tuple[Aspect, ...]:
    """Return the condition Suspended of a Tenant that manages nothing, if there is something to say."""
    if vc is None:
        return ()
    suspended = vc.spec.suspended
    if suspended != tenant.spec.suspended:
        verb = "suspend" if tenant.spec.suspended else "resume"
        note = f"spec.suspended has no effect on it: use 'vcsync tenant {verb} {tenant.name}'"
    elif suspended or was_suspended(tenant):
        note = f"a command {'suspended' if suspended else 'resumed'} it"
    else:
        return ()
    return (Aspect(SUSPENDED, suspended, "ByCommand", note),)


# Creation


def _creation(seen: Seen) -> Plan:
    plane, kind = seen.control_plane, kind_of(seen.tenant)
    if kind is None:
        message = "spec.controlPlane.clusterVersion is not supported: use embedded or external"
        return _failed("NotSupported", message)
    if seen.template_problem is not None and not _has_settings(seen):
        wrong = seen.template_problem
        return _failed(wrong.reason, wrong.message, registered=_is_running(seen.virtual_cluster))
    problem = plane.problem or _missing(seen) or _mismatch(seen)
    if problem is not None:
        return _failed(problem.reason, problem.message, registered=_is_running(seen.virtual_cluster))
    if plane.state == "Present":
        return _registration(seen, kind)
    # The kind is recorded before the creation: a deletion then knows whose control plane it finds.
    message = "the embedded control plane is being created"
    return Plan(step=Step.CREATE_CONTROL_PLANE, aspects=_pending("Creating", message), kind=kind)


def _registration(seen: Seen, kind: Kind) -> Plan:
    plane, vc = seen.control_plane, seen.virtual_cluster
    up = Aspect(CONTROL_PLANE_READY, True, "Available", f"the {kind.lower()} control plane answers")
    known = Plan(kind=kind, uid=plane.uid)
    if vc is None:
        message = "it is being registered in the pool"
        return _step(known, Step.CREATE_VIRTUAL_CLUSTER, up, "Registering", message)
    if vc.deleting:
        message = "its VirtualCluster is being deleted, and is made again afterwards: delete the Tenant to remove it"
        return replace(_step(known, None, up, "VirtualClusterDeleting", message), under_way=True)
    if not _is_running(vc) or vc.annotations.get(names.KUBECONFIG_VERSION, "") != plane.kubeconfig_version:
        message = "the roles of the pool get credentials"
        return _step(known, Step.STORE_CREDENTIALS, up, "Registering", message)
    suspended = seen.tenant.spec.suspended
    if plane.suspended is not None and plane.suspended != suspended:
        reason = "Suspending" if suspended else "Resuming"
        message = f"its users may {'only read' if suspended else 'write'} from now on"
        return _step(known, Step.SUSPEND, up, reason, message)
    # The roles' own objects exist, and count. No quota hinders a suspension.
    if kind == "Embedded" and not suspended and not is_set(seen.tenant, plane.quota):
        return _quota(known, seen.tenant, up)
    return _limiting(seen, known, up, vc)


def _limiting(seen: Seen, known: Plan, up: Aspect, vc: VirtualCluster) -> Plan:
    """Return the plan for a Tenant that is registered and has its quota: its limits are set next, if they are not yet."""
    tenant, plane, suspended = seen.tenant, seen.control_plane, seen.tenant.spec.suspended
    if not has_limits(tenant, vc, seen.template):
        message = "weight, quota and slice size are being set"
        return _step(known, Step.SET_LIMITS, up, "SettingLimits", message)
    due = (wanted(tenant.spec.limits), tenant.spec.weight or DEFAULT_WEIGHT)
    if plane.door is not None and (plane.door.limits, plane.door.weight) != due:
        message = "the limits of requests are being set"
        return _step(known, Step.LIMIT_REQUESTS, up, "SettingLimits", message)
    if suspended:
        return _suspended(known, up, seen)
    others = () if plane.door is None else (Aspect(WITHIN_LIMITS, *within(plane.door)),)
    if was_suspended(tenant):
        others = (*others, Aspect(SUSPENDED, False, "Resumed", "its users may write, and its Pods run"))
    return _ready(known, up, vc, others)


def _has_settings(seen: Seen) -> bool:
    """Return whether the Tenant has had settings before, which stay while its template cannot be applied."""
    vc = seen.virtual_cluster
    return seen.template is not None or (vc is not None and names.TENANT_GENERATION in vc.annotations)


def _quota(known: Plan, tenant: Tenant, up: Aspect) -> Plan:
    """Return the plan for a Tenant whose control plane does not enforce its quota yet."""
    if wrong := quota_problem(tenant):
        return replace(known, aspects=(up, Aspect(READY, False, "InvalidQuota", wrong)), phase="Error")
    return _step(known, Step.SET_QUOTA, up, "SettingQuota", "its quota is being set")


def _missing(seen: Seen) -> Problem | None:
    """Return why there is no control plane to use, and none may be created."""
    tenant, state = seen.tenant, seen.control_plane.state
    recorded = tenant.status.control_plane_uid
    if state == "Unknown":
        return Problem("ControlPlaneUnknown", "its control plane was not looked at")
    if state == "Leaving":
        message = "its control plane is being deleted, by 'vcsync tenant delete': delete the Tenant as well"
        return Problem("ControlPlaneLeaving", message)
    if state == "Present":
        return None
    if recorded:
        return Problem(
            "ControlPlaneLost",
            f"the control plane with UID {recorded} does not exist any more: restore its store from a backup, or delete the "
            "Tenant",
        )
    return None if seen.virtual_cluster is None else _taken(tenant.name, seen.virtual_cluster)


def _mismatch(seen: Seen) -> Problem | None:
    """Return why a control plane is not this Tenant's."""
    tenant, plane, vc = seen.tenant, seen.control_plane, seen.virtual_cluster
    if plane.state != "Present":
        return None
    if vc is not None and (vc.namespace, vc.name) != (names.DEFAULT_VC_NAMESPACE, tenant.name):
        return _taken(tenant.name, vc)
    if plane.own_nodes:
        return Problem(
            "NameTaken",
            f"the control plane {tenant.name} has nodes of its own, as super clusters have: make a Tenant of another name",
        )
    recorded = tenant.status.control_plane_uid
    if recorded and recorded != plane.uid:
        return Problem(
            "WrongControlPlane",
            f"the control plane has UID {plane.uid}, not {recorded} as before; nothing is done for the tenant until the right "
            "one is back: correct the kubeconfig or the name, or delete the Tenant and make a new one",
        )
    if vc is not None and plane.kube_system and recorded_uid(vc) not in ("", plane.kube_system):
        return _taken(tenant.name, vc)
    return None


def _taken(name: str, vc: VirtualCluster) -> Problem:
    return Problem(
        "NameTaken",
        f"VirtualCluster {vc.namespace}/{vc.name} belongs to another control plane: remove it with "
        f"'vcsync tenant remove {name}', or make a Tenant of another name",
    )


def _is_running(vc: VirtualCluster | None) -> bool:
    return vc is not None and vc.status.phase == "Running" and not vc.deleting


def limits_of(tenant: Tenant) -> dict[str, Any]:
    """Return the limits of a Tenant as fields of a VirtualCluster's spec."""
    spec = {"weight": DEFAULT_WEIGHT, **to_wire(tenant.spec)}
    return {field: spec[field] for field in LIMITS if spec.get(field)}


def emptied_limits(refusal: Status) -> list[str]:
    """Return the limits of a VirtualCluster that a refused write would have made null."""
    fields = {cause.field.removeprefix("spec.") for cause in refusal.causes if '"null"' in cause.message}
    return [field for field in LIMITS if field in fields]


def has_limits(tenant: Tenant, vc: VirtualCluster, template: AppliedTemplate | None = None) -> bool:
    """Return whether a VirtualCluster has the limits of the present generation of its Tenant and of the template."""
    if vc.annotations.get(names.TENANT_GENERATION) != generation_of(tenant, template):
        return False
    spec: dict[str, Any] = {"weight": vc.spec.weight, **to_wire(vc.spec)}
    return all(_has(spec.get(field), value) for field, value in limits_of(tenant).items())


def _has(present: Any, wanted: Any) -> bool:
    """Return whether a field has a limit. A map may have further values, which others than the Tenant set."""
    if isinstance(present, dict) and isinstance(wanted, dict):
        return wanted.items() <= present.items()
    return bool(present == wanted)


def generation_of(tenant: Tenant, template: AppliedTemplate | None = None) -> str:
    """Return the value of the annotation by which a VirtualCluster names the limits that it has."""
    own = f"{tenant.uid}/{tenant.generation}"
    return own if template is None else f"{own}/{template.uid}/{template.generation}"


def _suspended(known: Plan, up: Aspect, seen: Seen) -> Plan:
    """Return the plan for a suspended Tenant, whose Pods may still have to end."""
    registered = Aspect(REGISTERED, True, "Registered", "the roles of the pool serve it")
    if seen.draining:
        waits = tuple(Aspect(kind, False, "Suspending", seen.draining) for kind in (SUSPENDED, READY))
        return replace(
            known, aspects=(up, registered, *waits), phase="Suspending", under_way=True, applied=True
        )
    message = "its users may only read, and none of its Pods runs: set spec.suspended to false to resume it"
    if seen.control_plane.suspended is None:
        message = (
            "none of its Pods runs; its users can still write, since they reach its control plane directly: "
            "set spec.suspended to false to resume it"
        )
    done = (Aspect(SUSPENDED, True, SUSPENDED, message), Aspect(READY, False, SUSPENDED, message))
    return replace(known, aspects=(up, registered, *done), phase="Suspended", applied=True)


def was_suspended(tenant: Tenant) -> bool:
    """Return whether the status of a Tenant speaks of a suspension."""
    return condition_of(tenant.status.conditions, SUSPENDED) is not None


def _ready(known: Plan, up: Aspect, vc: VirtualCluster, others: tuple[Aspect, ...]) -> Plan:
    """Return the plan for a Tenant that has everything, unless the roles report a problem with it."""
    registered = Aspect(REGISTERED, True, "Registered", "the roles of the pool serve it")
    known = replace(known, applied=True)
    for condition in vc.status.conditions:
        if condition.type in ("WrongControlPlane", "TenantTooLarge") and condition.status == "True":
            trouble = Aspect(READY, False, condition.type, condition.message)
            return replace(known, aspects=(up, registered, trouble, *others), phase="Error")
    ready = Aspect(READY, True, "Ready", "the control plane answers, and the pool serves it")
    return replace(known, aspects=(up, registered, ready, *others), phase="Running")


def _step(known: Plan, step: Step | None, up: Aspect, reason: str, message: str) -> Plan:
    waits = (Aspect(REGISTERED, False, reason, message), Aspect(READY, False, reason, message))
    return replace(known, step=step, aspects=(up, *waits))


def _pending(reason: str, message: str) -> tuple[Aspect, ...]:
    return tuple(Aspect(kind, False, reason, message) for kind in (CONTROL_PLANE_READY, REGISTERED, READY))


def _failed(reason: str, message: str, *, registered: bool = False) -> Plan:
    kinds = (CONTROL_PLANE_READY, READY) if registered else (CONTROL_PLANE_READY, REGISTERED, READY)
    return Plan(aspects=tuple(Aspect(kind, False, reason, message) for kind in kinds), phase="Error")


def failure(seen: Seen, problem: Problem) -> Plan:
    """Return the conditions after a step that failed. The controller retries the step later."""
    if seen.tenant.deleting:
        return _ending(None, problem.reason, problem.message)
    plane = seen.control_plane
    if plane.state != "Present":
        return replace(_failed(problem.reason, problem.message), phase="Pending")
    up = Aspect(CONTROL_PLANE_READY, True, "Available", "the control plane answers")
    return _step(Plan(), None, up, problem.reason, problem.message)


# Deletion


def _deletion(seen: Seen) -> Plan:
    tenant, plane, vc = seen.tenant, seen.control_plane, seen.virtual_cluster
    embedded = tenant.status.control_plane == "Embedded" and is_own(tenant, plane)
    if embedded and plane.state in ("Present", "Creating"):
        return _ending(Step.DELETE_CONTROL_PLANE, "Deleting", "its credentials are being invalidated")
    if vc is not None and is_own_record(tenant, vc):
        step = None if vc.deleting else Step.DELETE_VIRTUAL_CLUSTER
        return _ending(step, "Draining", seen.draining or "it is being removed from the pool")
    if seen.root != "Absent":
        step = Step.DELETE_ROOT if seen.root == "Present" else None
        message = f"root namespace {tenant.status.cluster_namespace} is being deleted"
        return _ending(step, "DeletingNamespace", message)
    if embedded and plane.state == "Leaving":
        return _ending(None, "DeletingControlPlane", plane.left or "its objects are being deleted")
    if tenant.status.control_plane == "Embedded" and tenant.status.control_plane_uid and plane.problem:
        return _ending(None, plane.problem.reason, plane.problem.message)
    return _ending(Step.RELEASE, "Deleted", "everything is deleted")


def is_own(tenant: Tenant, plane: ControlPlane) -> bool:
    """Return whether an embedded control plane of the Tenant's name is the Tenant's, so that it is deleted with it."""
    recorded = tenant.status.control_plane_uid
    if plane.state == "Absent" or not recorded:
        return not plane.own_nodes
    return recorded == plane.uid


def is_own_record(tenant: Tenant, vc: VirtualCluster) -> bool:
    """Return whether the VirtualCluster of the Tenant's name is the Tenant's, so that it is deleted with it.

    It is made or adopted only after the control plane is recorded.
    """
    return bool(tenant.status.control_plane_uid) or names.TENANT_GENERATION in vc.annotations


def _ending(step: Step | None, reason: str, message: str) -> Plan:
    kinds = (REGISTERED, READY)
    return Plan(
        step=step,
        aspects=tuple(Aspect(kind, False, reason, message) for kind in kinds),
        phase="Terminating",
        under_way=True,
    )
