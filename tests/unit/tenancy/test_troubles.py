"""Troubles of syncers and of the namespace scheduler become conditions of VirtualClusters, which end with them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vcsync.api.objects import SuperCluster
from vcsync.api.specs import (
    SuperClusterSpec,
    SuperClusterStatus,
    Trouble,
    TroubleType,
    VirtualClusterCondition,
)
from vcsync.tenancy.brake import Brake
from vcsync.tenancy.troubles import MOST_REPORTED, braked, merged, problems, reported, updated_conditions

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
LEGACY = VirtualClusterCondition(reason="ClusterCreating", message="of VirtualCluster, without type")


def trouble(tenant: str, kind: TroubleType, message: str) -> Trouble:
    return Trouble(tenant=tenant, type=kind, message=message)


def super_cluster(name: str, **reports: tuple[Trouble, ...]) -> SuperCluster:
    return SuperCluster(
        name=name, spec=SuperClusterSpec(id=name), status=SuperClusterStatus(reports=dict(reports))
    )


def test_reports_are_merged_and_equal_messages_appear_once() -> None:
    messages = merged(
        [
            super_cluster("r1", a=(trouble("acme", "Braked", "pods in r1"),), b=()),
            super_cluster("r2", a=(trouble("acme", "Braked", "pods in r2"),)),
            super_cluster("r3", a=(trouble("acme", "WrongControlPlane", "another"),)),
        ],
        [trouble("acme", "WrongControlPlane", "another"), trouble("umbrella", "TenantTooLarge", "256 MiB")],
    )
    assert messages == {
        "acme": {"Braked": "pods in r1; pods in r2", "WrongControlPlane": "another"},
        "umbrella": {"TenantTooLarge": "256 MiB"},
    }


def test_a_condition_begins_and_ends_and_keeps_its_time() -> None:
    first = updated_conditions((LEGACY,), {"Braked": "25 of 25"}, NOW)
    assert first is not None
    assert first[0] == LEGACY
    assert [(one.type, one.message) for one in problems(first)] == [("Braked", "25 of 25")]
    assert updated_conditions(first, {"Braked": "25 of 25"}, LATER) is None

    more = updated_conditions(first, {"Braked": "30 of 30", "TenantTooLarge": "256 MiB"}, LATER)
    assert more is not None
    assert [(one.type, one.status, one.last_transition_time) for one in more[1:]] == [
        ("Braked", "True", NOW),
        ("TenantTooLarge", "True", LATER),
    ]

    less = updated_conditions(more, {"TenantTooLarge": "256 MiB"}, LATER)
    assert less is not None
    assert [(one.type, one.status, one.reason, one.message) for one in less[1:]] == [
        ("Braked", "False", "NothingWaits", ""),
        ("TenantTooLarge", "True", "TooMuchMemory", "256 MiB"),
    ]
    assert [one.type for one in problems(less)] == ["TenantTooLarge"]


@pytest.mark.parametrize("conditions", [(), (LEGACY,)])
def test_a_trouble_that_never_occurred_has_no_condition(
    conditions: tuple[VirtualClusterCondition, ...],
) -> None:
    assert updated_conditions(conditions, {}, NOW) is None


def test_brakes_of_tenants_are_reported_with_their_remedy() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    brakes = [Brake(at, "acme", "pods", 25, 25, "release it"), Brake(at, "", "namespaces", 9, 9, "all")]
    assert braked(brakes) == [trouble("acme", "Braked", "25 of 25 pods: release it")]


def test_the_number_of_reports_is_limited_and_their_order_fixed() -> None:
    many = [trouble(f"t{number:03}", "Braked", "x" * 9000) for number in reversed(range(300))]
    found = reported(many)
    assert [each.tenant for each in found] == [f"t{number:03}" for number in range(MOST_REPORTED)]


def test_a_tenant_with_many_troubles_does_not_displace_those_of_others() -> None:
    many = [Trouble(tenant="acme", type="Braked", message=f"{number:03}") for number in range(500)]
    others = [Trouble(tenant=f"t{number}", type="Braked", message="pods") for number in range(20)]
    found = reported([*many, *others])
    assert len(found) == MOST_REPORTED
    assert {each.tenant for each in others} <= {each.tenant for each in found}
    assert list(found) == sorted(found, key=lambda each: (each.tenant, each.type, each.message))
