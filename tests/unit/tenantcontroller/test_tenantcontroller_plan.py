"""Step that follows from each combination of facts."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.conditions import Condition
from vcsync.api.fields import Quantity
from vcsync.api.objects import Tenant, VirtualCluster, to_wire
from vcsync.api.specs import (
    EmbeddedControlPlane,
    ExternalControlPlane,
    TenantControlPlane,
    TenantLimits,
    TenantSecretRef,
    TenantSpec,
    TenantStatus,
    VirtualClusterSpec,
    VirtualClusterStatus,
)
from vcsync.kube.errors import Status, StatusCause, StatusDetails
from vcsync.tenantcontroller.model import ABSENT, UNKNOWN, ControlPlane, Plan, Problem, Seen, Step
from vcsync.tenantcontroller.plan import (
    emptied_limits,
    failure,
    generation_of,
    has_limits,
    is_registered_only,
    plan,
)
from vcsync.tenantcontroller.request_limits import Door
from vcsync.tenantcontroller.status import status_of

NOW = "2026-11-25T00:00:00Z"
PRESENT = ControlPlane(
    state="Present", uid="space-1", kube_system="kube-1", endpoint="https://plane/tenants/acme"
)


def tenant(**changes: Any) -> Tenant:
    values: dict[str, Any] = {
        "name": "acme",
        "uid": "uid-acme",
        "generation": 1,
        "finalizers": (names.TENANT_FINALIZER,),
    }
    return Tenant(**values | changes)


def vc(**changes: Any) -> VirtualCluster:
    values: dict[str, Any] = {
        "name": "acme",
        "namespace": "vcsync",
        "uid": "uid-vc",
        "annotations": {names.CONTROL_PLANE_UID: "kube-1", names.TENANT_GENERATION: "uid-acme/1"},
        "status": VirtualClusterStatus(phase="Running"),
    }
    return VirtualCluster(**values | changes)


RECORDED = TenantStatus(control_plane="Embedded", control_plane_uid="space-1", cluster_namespace="root")
LEAVING = {"deleting": True, "status": RECORDED}

STEPS = [
    ("a new Tenant", Seen(tenant=tenant(finalizers=())), Step.MANAGE),
    ("no control plane", Seen(tenant=tenant(), control_plane=ABSENT), Step.CREATE_CONTROL_PLANE),
    (
        "a creation that was cut off",
        Seen(tenant=tenant(), control_plane=ControlPlane(state="Creating", uid="space-1")),
        Step.CREATE_CONTROL_PLANE,
    ),
    ("a control plane alone", Seen(tenant=tenant(), control_plane=PRESENT), Step.CREATE_VIRTUAL_CLUSTER),
    (
        "a VirtualCluster without credentials",
        Seen(tenant=tenant(), control_plane=PRESENT, virtual_cluster=vc(status=VirtualClusterStatus())),
        Step.STORE_CREDENTIALS,
    ),
    (
        "limits of an earlier generation",
        Seen(tenant=tenant(generation=2), control_plane=PRESENT, virtual_cluster=vc()),
        Step.SET_LIMITS,
    ),
    (
        "limits that somebody changed",
        Seen(
            tenant=tenant(spec=TenantSpec(weight=3)),
            control_plane=PRESENT,
            virtual_cluster=vc(spec=VirtualClusterSpec(weight=2)),
        ),
        Step.SET_LIMITS,
    ),
    (
        "requests without limits",
        Seen(
            tenant=tenant(spec=TenantSpec(limits=TenantLimits(watches=3))),
            control_plane=replace(PRESENT, door=Door()),
            virtual_cluster=vc(),
        ),
        Step.LIMIT_REQUESTS,
    ),
    (
        "limits of requests that the Tenant no longer has",
        Seen(
            tenant=tenant(),
            control_plane=replace(PRESENT, door=Door({"watches": 3})),
            virtual_cluster=vc(),
        ),
        Step.LIMIT_REQUESTS,
    ),
    (
        "limits of requests",
        Seen(
            tenant=tenant(spec=TenantSpec(limits=TenantLimits(bytes_per_second=Quantity("1Ki")))),
            control_plane=replace(PRESENT, door=Door({"bytesPerSecond": 1024})),
            virtual_cluster=vc(),
        ),
        None,
    ),
    (
        "a weight that its door does not know",
        Seen(
            tenant=tenant(spec=TenantSpec(weight=3)),
            control_plane=replace(PRESENT, door=Door()),
            virtual_cluster=vc(spec=VirtualClusterSpec(weight=3)),
        ),
        Step.LIMIT_REQUESTS,
    ),
    (
        "limits of requests that pass no door",
        Seen(
            tenant=tenant(spec=TenantSpec(limits=TenantLimits(watches=3))),
            control_plane=PRESENT,
            virtual_cluster=vc(),
        ),
        None,
    ),
    ("everything", Seen(tenant=tenant(), control_plane=PRESENT, virtual_cluster=vc()), None),
    (
        "a VirtualCluster that somebody deletes",
        Seen(tenant=tenant(), control_plane=PRESENT, virtual_cluster=vc(deleting=True)),
        None,
    ),
    (
        "a deleted Tenant with everything",
        Seen(tenant=tenant(**LEAVING), control_plane=PRESENT, virtual_cluster=vc()),
        Step.DELETE_CONTROL_PLANE,
    ),
    (
        "a control plane that leaves",
        Seen(
            tenant=tenant(**LEAVING),
            control_plane=ControlPlane(state="Leaving", uid="space-1"),
            virtual_cluster=vc(),
        ),
        Step.DELETE_VIRTUAL_CLUSTER,
    ),
    (
        "a VirtualCluster that is drained",
        Seen(tenant=tenant(**LEAVING), control_plane=ABSENT, virtual_cluster=vc(deleting=True)),
        None,
    ),
    (
        "a root namespace alone",
        Seen(tenant=tenant(**LEAVING), control_plane=ABSENT, root="Present"),
        Step.DELETE_ROOT,
    ),
    (
        "a root namespace that ends",
        Seen(tenant=tenant(**LEAVING), control_plane=ABSENT, root="Deleting"),
        None,
    ),
    (
        "a control plane that ends",
        Seen(tenant=tenant(**LEAVING), control_plane=ControlPlane(state="Leaving", uid="space-1")),
        None,
    ),
    ("nothing any more", Seen(tenant=tenant(**LEAVING), control_plane=ABSENT), Step.RELEASE),
    (
        "a Tenant that was deleted before anything was made",
        Seen(tenant=tenant(deleting=True)),
        Step.RELEASE,
    ),
    (
        "a creation whose answer was lost",
        Seen(
            tenant=tenant(deleting=True, status=TenantStatus(control_plane="Embedded")), control_plane=PRESENT
        ),
        Step.DELETE_CONTROL_PLANE,
    ),
    (
        "a server that does not say whether the control plane is gone",
        Seen(
            tenant=tenant(**LEAVING),
            control_plane=ControlPlane(state="Unknown", problem=Problem("Forbidden", "no")),
        ),
        None,
    ),
    ("a deleted Tenant of somebody else", Seen(tenant=tenant(finalizers=("other",), deleting=True)), None),
]


@pytest.mark.parametrize(("seen", "step"), [pytest.param(*rest, id=name) for name, *rest in STEPS])
def test_each_fact_leads_to_its_step(seen: Seen, step: Step | None) -> None:
    assert plan(seen).step == step


KINDS = st.sampled_from(
    [
        None,
        TenantControlPlane(embedded=EmbeddedControlPlane()),
        TenantControlPlane(external=ExternalControlPlane(kubeconfig_secret_ref=TenantSecretRef(name="x"))),
        TenantControlPlane(cluster_version="v1"),
    ]
)
UIDS = st.sampled_from(["", "space-1", "space-2"])
TENANTS = st.builds(
    tenant,
    finalizers=st.sampled_from([(), (names.TENANT_FINALIZER,), ("other", names.TENANT_FINALIZER)]),
    annotations=st.sampled_from([{}, {names.VC_UID: "uid-vc"}, {names.REGISTERED_BY: "vcsync-cli"}]),
    deleting=st.booleans(),
    generation=st.integers(1, 2),
    spec=st.builds(TenantSpec, control_plane=KINDS, weight=st.integers(1, 2)),
    status=st.builds(
        TenantStatus,
        control_plane=st.sampled_from([None, "Embedded", "External", "Registered"]),
        control_plane_uid=UIDS,
        cluster_namespace=st.sampled_from(["", "root"]),
        conditions=st.sampled_from(
            [(), (Condition(type="Ready", status="True", reason="Ready", last_transition_time=NOW),)]
        ),
    ),
)
PLANES = st.builds(
    ControlPlane,
    state=st.sampled_from(["Present", "Creating", "Leaving", "Absent", "Unknown"]),
    uid=UIDS,
    kube_system=st.sampled_from(["", "kube-1", "kube-2"]),
    own_nodes=st.booleans(),
    kubeconfig_version=st.sampled_from(["", "7"]),
    problem=st.sampled_from([None, Problem("Trouble", "a message")]),
    aside=st.sampled_from(["", "its work stalled the server"]),
)
VIRTUAL_CLUSTERS = st.none() | st.builds(
    vc,
    namespace=st.sampled_from(["vcsync", "elsewhere"]),
    deleting=st.booleans(),
    annotations=st.sampled_from(
        [{}, {names.CONTROL_PLANE_UID: "kube-1"}, {names.TENANT_GENERATION: "uid-acme/1"}]
    ),
    status=st.builds(VirtualClusterStatus, phase=st.sampled_from([None, "Pending", "Running", "Error"])),
)
FACTS = st.builds(
    Seen,
    tenant=TENANTS,
    control_plane=PLANES | st.sampled_from([ABSENT, UNKNOWN]),
    virtual_cluster=VIRTUAL_CLUSTERS,
    root=st.sampled_from(["Absent", "Present", "Deleting"]),
    draining=st.sampled_from(["", "namespaces still to drain: 1"]),
)
DELETIONS = {Step.DELETE_CONTROL_PLANE, Step.DELETE_VIRTUAL_CLUSTER, Step.DELETE_ROOT, Step.RELEASE}


@given(FACTS)
def test_only_a_deleted_tenant_loses_anything(seen: Seen) -> None:
    step = plan(seen).step
    assert step is None or (step in DELETIONS) == seen.tenant.deleting


@given(FACTS)
def test_what_is_not_managed_is_not_touched(seen: Seen) -> None:
    managed = names.TENANT_FINALIZER in seen.tenant.finalizers
    assert managed or plan(seen).step in (None, Step.MANAGE)
    if is_registered_only(seen.tenant, seen.virtual_cluster):
        assert plan(seen).step is None


@given(FACTS)
def test_a_control_plane_is_deleted_only_if_it_is_the_tenants(seen: Seen) -> None:
    if plan(seen).step is Step.DELETE_CONTROL_PLANE:
        status = seen.tenant.status
        assert status.control_plane == "Embedded"
        if status.control_plane_uid:
            assert status.control_plane_uid == seen.control_plane.uid
        else:
            assert not seen.control_plane.own_nodes


@given(FACTS)
def test_a_tenant_is_released_last(seen: Seen) -> None:
    if plan(seen).step is Step.RELEASE:
        assert seen.root == "Absent"
        status = seen.tenant.status
        if status.control_plane_uid:
            assert seen.virtual_cluster is None
            if status.control_plane == "Embedded":
                assert (
                    seen.control_plane.state == "Absent" or seen.control_plane.uid != status.control_plane_uid
                )


@given(FACTS)
def test_nothing_is_made_for_another_control_plane_than_the_recorded_one(seen: Seen) -> None:
    decided = plan(seen)
    if decided.step in (Step.CREATE_VIRTUAL_CLUSTER, Step.STORE_CREDENTIALS, Step.SET_LIMITS):
        assert seen.tenant.status.control_plane_uid in ("", seen.control_plane.uid)
        assert decided.uid == seen.control_plane.uid
        assert not seen.control_plane.own_nodes
    if decided.step is Step.CREATE_CONTROL_PLANE:
        assert not seen.tenant.status.control_plane_uid
        assert seen.virtual_cluster is None
        assert decided.kind == "Embedded" or seen.tenant.spec.control_plane is not None


@given(FACTS)
def test_every_status_is_valid_and_names_reasons(seen: Seen) -> None:
    for decided in (plan(seen), failure(seen, Problem("Unreachable", "no answer"))):
        status = status_of(seen, decided, NOW)
        assert msgspec.convert(to_wire(status), TenantStatus) == status
        for condition in status.conditions:
            assert re.fullmatch(r"[A-Z][A-Za-z]*", condition.reason)
        for aspect in decided.aspects:
            assert aspect.message


@given(FACTS)
def test_a_failure_records_no_control_plane(seen: Seen) -> None:
    status = status_of(seen, failure(seen, Problem("Unreachable", "no answer")), NOW)
    assert status.control_plane == seen.tenant.status.control_plane
    assert status.control_plane_uid == seen.tenant.status.control_plane_uid


def test_a_ready_tenant_says_so() -> None:
    seen = Seen(tenant=tenant(), control_plane=PRESENT, virtual_cluster=vc())
    status = status_of(seen, plan(seen), NOW)
    assert status.phase == "Running"
    assert {each.type: each.status for each in status.conditions} == {
        "ControlPlaneReady": "True",
        "Registered": "True",
        "Ready": "True",
    }
    assert generation_of(seen.tenant) == "uid-acme/1"
    assert status_of(seen, Plan(phase="Running"), NOW).endpoint == PRESENT.endpoint


SUSPENDED = TenantSpec(suspended=True)
READ_ONLY = replace(PRESENT, suspended=True)
TAKEN = vc(spec=VirtualClusterSpec(suspended=True))


@pytest.mark.parametrize(
    ("spec", "plane", "record", "draining", "step", "phase"),
    [
        (SUSPENDED, replace(PRESENT, suspended=False), vc(), "", Step.SUSPEND, "Pending"),
        (SUSPENDED, READ_ONLY, vc(), "", Step.SET_LIMITS, "Pending"),
        (SUSPENDED, READ_ONLY, TAKEN, "namespaces still to drain: 1", None, "Suspending"),
        (SUSPENDED, READ_ONLY, TAKEN, "", None, "Suspended"),
        (SUSPENDED, PRESENT, TAKEN, "", None, "Suspended"),
        (TenantSpec(), READ_ONLY, vc(), "", Step.SUSPEND, "Pending"),
        (TenantSpec(), replace(PRESENT, suspended=False), vc(), "", None, "Running"),
    ],
)
def test_a_suspension_closes_the_api_takes_the_slices_and_waits(
    spec: TenantSpec,
    plane: ControlPlane,
    record: VirtualCluster,
    draining: str,
    step: Step | None,
    phase: str,
) -> None:
    decided = plan(
        Seen(tenant=tenant(spec=spec), control_plane=plane, virtual_cluster=record, draining=draining)
    )
    assert (decided.step, decided.phase) == (step, phase)
    assert decided.under_way is (phase == "Suspending")


def test_a_suspension_that_users_can_bypass_says_so() -> None:
    seen = Seen(tenant=tenant(spec=SUSPENDED), control_plane=PRESENT, virtual_cluster=TAKEN)
    (said,) = (each for each in plan(seen).aspects if each.type == "Suspended")
    assert said.holds
    assert "its users can still write" in said.message


def test_a_resumed_tenant_says_so_and_others_say_nothing() -> None:
    conditions = (Condition(type="Suspended", status="True", reason="Suspended", last_transition_time=NOW),)
    resumed = tenant(status=TenantStatus(conditions=conditions))
    seen = Seen(tenant=resumed, control_plane=replace(PRESENT, suspended=False), virtual_cluster=vc())
    assert [(each.type, each.holds) for each in plan(seen).aspects] == [
        ("ControlPlaneReady", True),
        ("Registered", True),
        ("Ready", True),
        ("Suspended", False),
    ]


@pytest.mark.parametrize(
    ("wanted", "has", "holds", "said"),
    [
        (True, False, False, "vcsync tenant suspend acme"),
        (False, True, True, "vcsync tenant resume acme"),
        (True, True, True, "a command suspended it"),
    ],
)
def test_a_registered_tenant_is_suspended_by_command(wanted: bool, has: bool, holds: bool, said: str) -> None:
    registered = tenant(
        finalizers=(), annotations={names.REGISTERED_BY: "x"}, spec=TenantSpec(suspended=wanted)
    )
    record = vc(spec=VirtualClusterSpec(suspended=has))
    (shown,) = (
        each
        for each in plan(Seen(tenant=registered, virtual_cluster=record)).aspects
        if each.type == "Suspended"
    )
    assert shown.holds is holds
    assert said in shown.message


def test_limits_that_a_refused_write_would_have_emptied_are_found_in_its_causes() -> None:
    null = 'Invalid value: "null": spec.quota in body must be of type object: "null"'
    causes = (
        StatusCause("FieldValueTypeInvalid", null, "spec.quota"),
        StatusCause("FieldValueInvalid", "Invalid value: null: some rules were not checked", "<nil>"),
        StatusCause("FieldValueInvalid", "must be at least 1", "spec.weight"),
    )
    assert emptied_limits(Status(details=StatusDetails(causes=causes))) == ["quota"]
    assert emptied_limits(Status()) == []


@pytest.mark.parametrize(
    ("present", "has"),
    [
        ({"cpu": "20"}, True),
        ({"cpu": "20", "memory": "384Gi"}, True),
        ({"cpu": "21", "memory": "384Gi"}, False),
        ({"memory": "384Gi"}, False),
        ({}, False),
    ],
)
def test_a_virtual_cluster_has_a_quota_beside_values_of_others(present: dict[str, str], has: bool) -> None:
    wanted = tenant(spec=TenantSpec(quota={"cpu": Quantity("20")}))
    quota = {name: Quantity(amount) for name, amount in present.items()}
    assert has_limits(wanted, vc(spec=VirtualClusterSpec(quota=quota))) is has
