"""A snapshot of the stored objects: policies of tenants as they apply, and what the failure machine says."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from vcsync.api.objects import SuperCluster, VirtualCluster
from vcsync.api.specs import (
    STAY,
    Condition,
    Failover,
    FailureRecord,
    SuperClusterSpec,
    SuperClusterStatus,
    VirtualClusterSpec,
    VirtualClusterStatus,
)
from vcsync.objects.times import time_text
from vcsync.tenancy.health import HELD
from vcsync.whatif.capture import capture
from vcsync.whatif.snapshot import read, write

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MOVE = Failover(policy="MoveAfter", after_seconds=60)


def super_cluster(super_id, *, silent=0, reachable="True", ready="True", fenced=False):
    then = time_text(NOW - timedelta(seconds=silent))
    conditions = tuple(
        Condition(type=kind, status=status, reason="R", message="", last_transition_time=then)
        for kind, status in (("Reachable", reachable), ("Ready", ready))
    )
    return SuperCluster(
        name=super_id,
        spec=SuperClusterSpec(id=super_id, fenced=fenced),
        status=SuperClusterStatus(conditions=conditions, heartbeat_time=then),
    )


def tenant(name, **spec):
    return VirtualCluster(
        name=name,
        namespace="vcsync",
        uid=name,
        spec=VirtualClusterSpec(tenant=name, **spec),
        status=VirtualClusterStatus(cluster_namespace=f"k-{name}"),
    )


def captured(supers=(), tenants=(), **options):
    found = capture(supers, tenants, (), now=NOW, policy="spread", default_slice={}, **options)
    assert read(write(found)) == found
    return found


def test_the_limits_of_silence_are_those_that_the_schedulers_recorded():
    record = FailureRecord(
        state="Lost", since=time_text(NOW), suspect_after_seconds=20, lost_after_seconds=120
    )
    gone = super_cluster("r1", silent=130)
    judged = captured([replace(gone, status=replace(gone.status, failure=record)), super_cluster("r2")])
    assert (judged.suspect_after_seconds, judged.lost_after_seconds) == (20, 120)
    plain = captured([gone, super_cluster("r2")])
    assert (plain.suspect_after_seconds, plain.lost_after_seconds) == (75, 300)


def test_policies_are_those_of_the_tenant_or_of_the_schedulers():
    tenants = [tenant("own", failover=MOVE, fail_back="NextRebalance"), tenant("plain")]
    found = captured(tenants=tenants, failover=Failover(policy="MoveStateless"), fail_back="WithinBudget")
    assert [(each.name, each.failover, each.own_failover, each.fail_back) for each in found.tenants] == [
        ("own", MOVE, True, "NextRebalance"),
        ("plain", Failover(policy="MoveStateless"), False, "WithinBudget"),
    ]
    assert [(each.failover, each.fail_back) for each in captured(tenants=[tenant("plain")]).tenants] == [
        (STAY, "Never")
    ]


@pytest.mark.parametrize(
    ("fields", "health", "absent"),
    [
        ({}, "Ready", None),
        ({"ready": "False"}, "Suspect", None),
        ({"silent": 100}, "Suspect", 100),
        ({"silent": 20, "reachable": "False"}, "Suspect", 20),
        ({"silent": 400}, "Lost", 400),
        ({"silent": 400, "fenced": True}, "Lost", 400),
        ({"fenced": True}, "Ready", None),
    ],
)
def test_a_super_cluster_has_its_health_and_its_time_out_of_touch(fields, health, absent):
    found = captured([super_cluster("r1", **fields), super_cluster("r2"), super_cluster("r3")])
    one = found.super_clusters[0]
    assert (one.health, one.out_of_touch_seconds) == (health, absent)
    assert one.fenced is fields.get("fenced", False)


def test_most_of_the_pool_that_vanishes_together_is_suspect():
    found = captured([super_cluster(each, silent=400) for each in ("r1", "r2")] + [super_cluster("r3")])
    assert [each.health for each in found.super_clusters] == ["Suspect", "Suspect", "Ready"]
    assert found.super_clusters[0].reason.endswith(HELD)
