"""`vcsync explain super`: what is placed by tenant, and what it would take for new slices."""

import pytest
from msgspec.structs import replace
from whatif_pools import SLICE, namespace, pool, super_cluster

from vcsync.cli.explain.super_story import super_story
from vcsync.scheduling.filters import FREE
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.health import Judgement
from vcsync.whatif.snapshot import SuperTaint
from vcsync.whatif.super_cluster import REMEDIES, explain_super_cluster


def explained(one, *namespaces, size=SLICE):
    return explain_super_cluster(pool((one, super_cluster("r2")), *namespaces), "r1", size)


def test_slices_are_summed_by_tenant_those_with_most_first():
    found = explained(
        super_cluster("r1", 10),
        namespace("a", 1, r1=1),
        namespace("b", 2, tenant="k-big", r1=2),
        namespace("c", 3, tenant="k-big", r1=1, r2=2),
        replace(namespace("d", 0, tenant="k-late"), clearing={"r1": {"cpu": "500m"}}),
    )
    assert [(each.tenant, each.namespaces, each.slices) for each in found.tenants] == [
        ("big", 2, 3),
        ("acme", 1, 1),
        ("late", 0, 0),
    ]
    assert found.placed == {"cpu": "4500m", "memory": "4Gi"}
    assert (found.new_slices.fit, found.new_slices.obstacles) == (5, ())


@pytest.mark.parametrize(
    ("fields", "filters"),
    [
        ({"cordoned": True}, ["Cordon"]),
        ({"draining": True, "health": "Lost"}, ["Health", "Drain"]),
        ({"taints": (SuperTaint(key="gpu"),)}, ["Taint"]),
        ({"largest_node": {"cpu": "500m"}}, ["LargestNode"]),
        ({"headroom": {"cpu": "95%"}}, ["Capacity"]),
        ({"headroom": {"cpu": "some"}}, ["Headroom"]),
    ],
)
def test_each_filter_that_refuses_is_named_with_its_remedy(fields, filters):
    new = explained(super_cluster("r1", 10, **fields)).new_slices
    assert [each.filter for each in new.obstacles] == filters
    assert new.fit == 0
    assert all(each.message and each.remedy for each in new.obstacles)


def test_every_filter_of_the_scheduler_has_a_remedy():
    assert {name for name, _ in FREE} <= set(REMEDIES)


def test_a_full_super_cluster_tells_the_numbers_compared():
    [obstacle] = explained(super_cluster("r1", 1), namespace("a", 1, r1=1)).new_slices.obstacles
    assert obstacle.message == "cpu 1 asked, 0 of 1 free, memory 1Gi asked, 0 of 1Gi free"


def test_the_story_tells_health_capacity_room_and_tenants():
    found = explained(
        super_cluster("r1", 10, headroom={"cpu": "10%"}, cordoned=True), namespace("a", 1, r1=1)
    )
    story = super_story(found, Judgement(Health.SUSPECT, "no heartbeat for 90s", 15.0))
    assert story[:-2] == [
        "Super cluster r1 is suspect for 15s (no heartbeat for 90s).",
        "Its ready nodes have 10 cpu, 10Gi memory.",
        "Not distributed as slices (headroom): cpu 10%.",
        "Slices may have 9 cpu, 10Gi memory; they hold 1 cpu, 1Gi memory.",
        "It gets no new slices of 1 cpu, 1Gi memory.",
        "Cordon: cordoned. Remedy: vcsync super uncordon r1.",
    ]
    assert story[-1].split() == ["acme", "1", "1", "1", "1Gi", "-", "-"]


def test_the_story_of_an_empty_super_cluster():
    story = super_story(explained(super_cluster("r1", 10)), Judgement(Health.READY))
    assert story[0] == "Super cluster r1 is ready."
    assert story[-2:] == [
        "It has room for 10 more slices of 1 cpu, 1Gi memory.",
        "No tenant has slices there.",
    ]
